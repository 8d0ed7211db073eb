"""The instruction registry and its notation."""

from isa.spec.pattern import Slot, flag, optional
from isa.spec.registry import Form, Instruction, ResolvedOperand, all_instructions, by_base, find, instruction

__all__ = [
    "Form",
    "Instruction",
    "ResolvedOperand",
    "Slot",
    "all_instructions",
    "by_base",
    "find",
    "flag",
    "instruction",
    "optional",
]
