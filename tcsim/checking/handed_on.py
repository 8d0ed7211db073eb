"""Which element of a product a register holds, while it is scaled, converted and packed on its way to the next product.

Sums have no place in memory. So element (i, j) of D is given the place of row i of A and that of column j of B: as A of a next
product, k goes through it as that column goes through B's memory. The places follow the registers of a warp through whatever
works element by element; an instruction that mixes elements (a sum, a shuffle) leaves none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.program import FUNCTION, Program
from isa.spec.registry import Form
from tcsim.lanes.layouts import OperandLayout
from tcsim.step.shared_operands import operand_slots_of

__all__ = ["HandedOn"]

Ints = NDArray[np.int64]
_PLANE = 32
_BYTES = 4


@dataclass(frozen=True)
class _Instruction:
    """The registers of an instruction: by operand (the first plane of each, bytes of each)."""

    form: Form
    opcode: str
    places: dict[str, list[int]]

    def _of(self, destinations: bool) -> list[tuple[int, int]]:
        out = []
        for operand in self.form.operands:
            if operand.is_destination != destinations or operand.is_address or operand.type.kind == "p":
                continue
            out += [(place, max(1, operand.type.bits // 8)) for place in self.places[operand.name]]
        return out

    @cached_property
    def written(self) -> list[tuple[int, int]]:
        return self._of(True)

    @cached_property
    def read(self) -> list[tuple[int, int]]:
        return self._of(False)


class HandedOn:
    """What is known of the registers of a warp of a program: per plane, int64 [2 (row, column), lane, byte]; 0: nothing."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._known: dict[int, Ints] = {}
        self._instructions: dict[int, _Instruction | None] = {}

    def operand(self, one: OperandLayout, places: Sequence[int]) -> Ints | None:
        """Rows and columns of the elements in an operand's registers, [2, register, lane, element of the register]; None
        where nothing is known of an element."""
        if one.bits < 8 or not all(place in self._known for place in places):
            return None
        step = one.bits // 8
        found = np.stack([self._known[place][:, :, ::step] for place in places], axis=1)
        return found if (found[0] != 0).all() else None

    def multiplied(self, one: OperandLayout, c: Sequence[int], d: Sequence[int], sums: tuple[Ints, Ints] | None) -> None:
        """A product has been added to C, which is in as many registers as D. sums: the places of the rows and columns of the
        product; None: not known."""
        of_c = [self._known.get(place) for place in c]
        for place in d:
            self._known.pop(place, None)
        if sums is None or len(c) != len(d):
            return
        rows, columns = sums
        for register, (place, before) in enumerate(zip(d, of_c, strict=True)):
            each = np.zeros((2, _PLANE, _BYTES), np.int64)
            for element in range(one.per_register):
                row, column = one.element_row[register, :, element], one.element_column[register, :, element]
                here = slice(element * one.bits // 8, (element + 1) * one.bits // 8)
                each[0, :, here], each[1, :, here] = rows[row][:, None], columns[column][:, None]
            if before is not None:  # whichever step over k comes last, an element keeps its least place
                each = np.where(before != 0, np.minimum(before, each), each)
            self._known[place] = each

    def step(self, pc: int, executing: int, block: NDArray[np.uint32]) -> None:
        """An instruction other than a product is executed; block: the registers before it."""
        found = self._instruction(pc)
        if found is None or not self._known:
            return
        lanes = (executing >> np.arange(_PLANE)) & 1 != 0
        results = self._results(found, block)
        for (place, _), result in zip(_planes(found.written), results, strict=True):
            before = self._known.get(place)
            if before is None and not result.any():
                continue
            if before is None:
                before = np.zeros_like(result)
            self._known[place] = np.where(lanes[None, :, None], result, before)

    def _instruction(self, pc: int) -> _Instruction | None:
        if pc not in self._instructions:
            function = int(self.program.code[pc, FUNCTION])
            made = None
            if function >= 0:
                form = self.program.kernels[function].form
                made = _Instruction(form, self.program.opcodes[pc], operand_slots_of(self.program, pc))
            self._instructions[pc] = made
        return self._instructions[pc]

    def _results(self, instruction: _Instruction, block: NDArray[np.uint32]) -> list[Ints]:
        """What is known of each plane that an instruction writes, behind it."""
        written, entry = _planes(instruction.written), instruction.form.instruction
        nothing = [np.zeros((2, _PLANE, _BYTES), np.int64) for _ in written]
        sources = [self._known.get(place) for place, _ in _planes(instruction.read)]
        if entry.memory is not None or entry.collective or all(source is None for source in sources):
            return nothing
        known = [np.zeros((2, _PLANE, _BYTES), np.int64) if source is None else source for source in sources]
        base = instruction.opcode.partition(".")[0]
        if base == "mov":
            return _moved(known, instruction, written)
        if len(written) != 1:
            return nothing
        if base == "prmt":
            return [_permuted(known, block[instruction.read[2][0] :][:_PLANE])]
        if base in ("shl", "shr"):
            return [_shifted(known[0], block[instruction.read[1][0] :][:_PLANE], base == "shl")]
        if base == "cvt" and "x2" in instruction.opcode:
            return [_packed(known, written[0][1])]
        if base == "cvt" and instruction.written[0][1] != instruction.read[0][1]:
            return [np.repeat(known[0][:, :, :1], _BYTES, axis=2)]
        if base in ("bfe", "bfi", "shf", "szext", "bmsk"):
            return nothing
        return [_unified(known)]


def _planes(registers: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(place, bytes) of every plane of some registers."""
    return [(place + _PLANE * plane, min(size, _BYTES)) for place, size in registers for plane in range(max(1, size // _BYTES))]


def _moved(known: Sequence[Ints], instruction: _Instruction, written: Sequence[tuple[int, int]]) -> list[Ints]:
    """Registers put together or taken apart: the bytes of all sources, one after another."""
    sizes = [size for _, size in _planes(instruction.read)]
    row: Any = np.concatenate([each[:, :, :size] for each, size in zip(known, sizes, strict=True)], axis=2)
    out, at = [], 0
    for _, size in written:
        part = np.zeros((2, _PLANE, _BYTES), np.int64)
        piece = row[:, :, at : at + size]
        part[:, :, : piece.shape[2]] = piece
        out.append(part)
        at += size
    return out


def _permuted(known: Sequence[Ints], selectors: NDArray[np.uint32]) -> Ints:
    both = np.concatenate(known[:2], axis=2)
    chosen = (selectors.astype(np.int64)[:, None] >> (4 * np.arange(_BYTES))) & 7
    return np.asarray(np.take_along_axis(both, np.broadcast_to(chosen, (2, _PLANE, _BYTES)), axis=2))


def _shifted(known: Ints, amounts: NDArray[np.uint32], left: bool) -> Ints:
    by = amounts.astype(np.int64)[:, None]
    source = np.arange(_BYTES) + np.where(left, -by // 8, by // 8)
    found = np.take_along_axis(known, np.broadcast_to(np.clip(source, 0, 3), known.shape), axis=2)
    return np.where((source >= 0) & (source < _BYTES) & (by % 8 == 0), found, 0)


def _packed(known: Sequence[Ints], size: int) -> Ints:
    """Two elements converted to halves or bytes, the first source to the upper; or both halves of one source."""
    out = np.zeros((2, _PLANE, _BYTES), np.int64)
    each = size // 2
    low, high = (known[1][:, :, :1], known[0][:, :, :1]) if len(known) > 1 else (known[0][:, :, :1], known[0][:, :, 2:3])
    out[:, :, :each], out[:, :, each : 2 * each] = low, high
    return out


def _unified(known: Sequence[Ints]) -> Ints:
    """The one element that the sources know of, if it is one."""
    out = known[0]
    for each in known[1:]:
        differ = (out != 0).any(axis=0) & (each != 0).any(axis=0) & (out != each).any(axis=0)
        out = np.where(differ[None], 0, np.where(out != 0, out, each))
    return np.asarray(out)
