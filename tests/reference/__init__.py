"""Independent references in plain Python: exact rationals and integers, no NumPy arithmetic, nothing from ``isa``."""
