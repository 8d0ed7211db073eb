"""PTX: text to syntax tree.

>>> module = parse(".version 8.0 .target sm_80 .entry k() { ret; }")
>>> module.functions[0].body.statements[0].opcode
'ret'
"""

from .ast import (
    Address,
    Block,
    Directive,
    Element,
    Function,
    Group,
    Guard,
    Immediate,
    Initializer,
    Instruction,
    Label,
    Location,
    Module,
    Name,
    Not,
    Offset,
    Operand,
    Pair,
    Registers,
    Signed,
    Statement,
    Variable,
    Vector,
)
from .link import LinkError, link
from .parser import parse, parse_file

__all__ = [
    "Address",
    "Block",
    "Directive",
    "Element",
    "Function",
    "Group",
    "Guard",
    "Immediate",
    "Initializer",
    "Instruction",
    "Label",
    "LinkError",
    "Location",
    "Module",
    "Name",
    "Not",
    "Offset",
    "Operand",
    "Pair",
    "Registers",
    "Signed",
    "Statement",
    "Variable",
    "Vector",
    "link",
    "parse",
    "parse_file",
]
