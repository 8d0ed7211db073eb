"""Recording scalar instructions: every form on adversarial operands."""
