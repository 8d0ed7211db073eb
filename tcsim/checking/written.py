"""Which buffers a kernel can write, from what its store addresses are made of.

Nobody races on a buffer that is only read, so nothing need be kept about it. The addresses of stores are followed back through
the arithmetic to the kernel parameters and module variables they come from. Where that says too little (a pointer that is
itself loaded from memory), any buffer may be meant. A store that lands in none of those meant has an index that leads out of
its buffer, into another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.lower.ir import Arg, Const, Instr, Kernel, MemoryArg, SymbolRef, VReg, registers_of
from isa.machine import GENERIC, GLOBAL, PARAM, SPACES

__all__ = ["Written", "find_written", "writable_addresses"]


@dataclass(frozen=True)
class Written:
    """``parameters``: byte offsets in the parameter block; ``symbols``: names of module variables."""

    parameters: frozenset[int]
    symbols: frozenset[str]


def find_written(kernel: Kernel) -> Written | None:
    """What a kernel, its calls expanded, can make the addresses of its stores from; None if that does not show."""
    if kernel.function_table:
        return None
    defined: dict[int, list[Instr]] = {}
    for instr in kernel.instructions:
        for register in instr.destinations():
            defined.setdefault(register.index, []).append(instr)
    parameters: set[int] = set()
    symbols: set[str] = set()
    todo: list[VReg] = []
    for address in _store_addresses(kernel):
        if address is None:
            return None
        symbols |= _symbols(address)
        todo += registers_of(address)
    seen: set[int] = set()
    while todo:
        register = todo.pop()
        if register.index in seen:
            continue
        seen.add(register.index)
        for instr in defined.get(register.index, ()):
            if _is_load(instr):
                place = _parameter(instr)
                if place is not None:
                    parameters.add(place)
                elif register.type.bits > 32:
                    return None
                continue
            halves = register.type.bits > 32 and any(isinstance(arg, tuple) for arg in instr.args.values())
            if halves or instr.form.instruction.control:  # these may come from anywhere, as does what malloc returns
                return None
            for arg in instr.args.values():
                symbols |= _symbols(arg)
            todo += instr.sources()
    return Written(frozenset(parameters), frozenset(symbols))


def _store_addresses(kernel: Kernel) -> Iterator[MemoryArg | None]:
    """The addresses in device memory, or of unknown space, that instructions write; None: one that has no such operand."""
    for instr in kernel.instructions:
        entry = instr.form.instruction
        if entry.memory in ("store", "atomic", "tile_store"):
            if SPACES.get(str(instr.form.params.get("space", "")), GENERIC) not in (GLOBAL, GENERIC):
                continue
        elif "async.bulk." not in instr.opcode or ".global.shared::cta" not in instr.opcode:
            continue
        places = [arg for arg in instr.args.values() if isinstance(arg, MemoryArg)]
        yield places[0] if places and ".tensor." not in instr.opcode else None


def _is_load(instr: Instr) -> bool:
    return instr.form.instruction.memory is not None


def _parameter(instr: Instr) -> int | None:
    """The parameter, by its offset, that a load of one reads."""
    if instr.form.instruction.memory != "load" or SPACES.get(str(instr.form.params.get("space", "")), GENERIC) != PARAM:
        return None
    address = next((arg for arg in instr.args.values() if isinstance(arg, MemoryArg)), None)
    if address is None or not isinstance(address.base, Const):
        return None
    return address.base.bits + address.offset


def _symbols(arg: Arg) -> set[str]:
    if isinstance(arg, tuple):
        return {name for item in arg for name in _symbols(item)}
    if isinstance(arg, MemoryArg):
        arg = arg.base
    return {arg.symbol} if isinstance(arg, SymbolRef) else set()


def writable_addresses(written: Written, parameters: NDArray[np.uint8], symbols: Mapping[str, int]) -> list[int]:
    """Addresses that a launch's stores start from. parameters: the parameter block. symbols: addresses of module variables."""
    block = parameters.tobytes()
    pointers = [int.from_bytes(block[at : at + 8], "little") for at in written.parameters]
    return pointers + [symbols[name] for name in written.symbols if name in symbols]
