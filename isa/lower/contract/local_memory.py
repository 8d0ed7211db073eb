"""Local memory that ptxas keeps in registers: spills and small arrays whose every access has a constant address."""

from __future__ import annotations

from itertools import pairwise

from isa.lower.contract.opcodes import op_of
from isa.lower.contract.ssa import Values
from isa.lower.contract.values import CONST, resolve
from isa.lower.ir import Instr, MemoryArg, registers_of

__all__ = ["find_slots"]


def find_slots(instructions: list[Instr], values: Values, live: bytearray) -> dict[int, list[tuple[int, int]]]:
    """For every load and store of local memory the (offset, size) in bytes of each element; empty if any of it must be memory.

    All of the kernel's local memory or none: its address must not be taken, every access must be constant, and no two elements
    may overlap in part.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    sizes: dict[int, int] = {}
    for index, instr in enumerate(instructions):
        sources = values.sources[index]
        op = op_of(instr.form)
        if sources is None or "local" not in op.words:
            continue
        if op.base == "cvta" and live[index]:
            return {}
        if op.base not in ("ld", "st"):
            continue
        address = instr.args["a"]
        assert isinstance(address, MemoryArg)
        base = resolve(sources[0])
        data = instr.args["d" if op.base == "ld" else "b"]
        elements = data if isinstance(data, tuple) else (data,)
        size = int(op.type[1:]) // 8
        if base.kind != CONST or any(r.type.bits != 8 * size for r in registers_of(data)):
            return {}
        at = base.bits + address.offset
        found[index] = [(at + size * place, size) for place in range(len(elements))]
        for offset, _ in found[index]:
            if sizes.setdefault(offset, size) != size:
                return {}
    ends = sorted(sizes.items())
    if any(offset + size > following for (offset, size), (following, _) in pairwise(ends)):
        return {}
    return found
