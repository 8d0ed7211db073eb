"""Functions that the machine provides (``vprintf``, ``malloc``, ...), as machine code calls them.

Behind a program's last instruction stands a pair for each of them that it names: the call of the host, then a return. Arguments
and results are where the calling convention puts them: from R4 on, 64-bit ones in even pairs, the address to return to in R20
and R21 (read from what ptxas makes of such calls).
"""

from __future__ import annotations

from collections.abc import Iterable

from isa.instructions.control import HOST_FUNCTIONS
from isa.sass.operands import CodeAddress, Constant, Label
from isa.sass.placed import Placed
from isa.sass.sections import Section

__all__ = ["RETURN_REGISTER", "STUB", "argument_registers", "host_functions"]

STUB = 2
"""Instructions of a function: the call, the return."""

RETURN_REGISTER = 20
_FIRST_REGISTER = 4


def host_functions(placed: Iterable[Placed], addresses: Section | None) -> list[str]:
    """Those that code names, itself or through the bank of addresses, if it reads that."""
    named = set()
    for item in placed:
        for operand in item.instruction.operands:
            if isinstance(operand, Label):
                named.add(operand.name)
            elif isinstance(operand, CodeAddress):
                named.add(operand.symbol)
            elif isinstance(operand, Constant) and operand.bank == 4 and addresses is not None:
                named.update(relocation.symbol for relocation in addresses.relocations())
    return [name for name in HOST_FUNCTIONS if name in named]


def argument_registers(widths: Iterable[int]) -> list[int]:
    """The first register of each argument (or result). ``widths``: bytes."""
    out, register = [], _FIRST_REGISTER
    for width in widths:
        register += register % 2 if width == 8 else 0
        out.append(register)
        register += width // 4
    return out
