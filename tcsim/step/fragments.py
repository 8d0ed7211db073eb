"""The matrices of a matrix instruction as tiles of numbers, gathered from the registers of a warp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.kernels.wrap import operand_slots
from isa.program import FUNCTION, OPERANDS, Program
from isa.sass.instructions.tensor import matrix_form
from isa.tensor import NoFormError
from tcsim.bundle import decode
from tcsim.bundle.dtypes import DTYPES
from tcsim.errors import TcsimError
from tcsim.lanes import layout
from tcsim.lanes.layouts import OperandLayout
from tcsim.lanes.names import ptx_name

__all__ = ["Tile", "elements", "operand_bits", "tile_text", "tiles"]


@dataclass(frozen=True)
class Tile:
    """An operand: its name, element type, values [row, column]."""

    operand: str
    type: str
    values: NDArray[np.float64]


def operand_bits(program: Program, pc: int, block: NDArray[np.uint32]) -> dict[str, tuple[OperandLayout, NDArray[Any]]]:
    """The operands of the matrix instruction at ``pc`` by name, with their registers in ``block``, uint32 [register, lane]
    (float64: uint64). None for other instructions, and for products of warpgroups, whose operands are in shared memory."""
    opcode = program.opcodes[pc]
    base = opcode.partition(".")[0]
    if not (opcode.startswith(("mma.sync", "wmma.mma")) or base in _MACHINE):
        return {}
    form = program.kernels[int(program.code[pc, FUNCTION])].form
    try:
        found = layout(ptx_name(matrix_form(base, form.params)) if base in _MACHINE else opcode)
    except (TcsimError, NoFormError):
        return {}
    row, out = int(program.code[pc, OPERANDS]) // 4, {}
    for operand in form.operands:
        places = [int(word) // 4 for word in program.pool[row : row + operand.count]]
        row += operand_slots(operand)
        one = found.operands.get(operand.name)
        if one is None or one.matrices != 1:
            continue
        words = np.stack([block[at : at + 32] for at in places])
        if one.register_bits == 64:
            words = words | np.stack([block[at + 32 : at + 64] for at in places]).astype(np.uint64) << np.uint64(32)
        out[operand.name] = one, words
    return out


_MACHINE = ("HMMA", "IMMA", "QMMA", "BMMA", "DMMA")


def elements(one: OperandLayout, words: NDArray[Any]) -> NDArray[Any]:
    """The bits of every element, [row, column], from an operand's registers."""
    found: NDArray[Any] = words[one.register, one.lane] >> one.bit.astype(words.dtype)
    shown: NDArray[Any] = found & words.dtype.type((1 << one.bits) - 1)
    return shown


def tiles(program: Program, pc: int, block: NDArray[np.uint32]) -> list[Tile]:
    """The operands of the matrix instruction at ``pc``, with the registers of ``block``; none for other instructions."""
    out = []
    found = operand_bits(program, pc, block)
    for name in ("a", "b", "c", "d"):
        if name not in found or found[name][0].type not in DTYPES:
            continue
        one, words = found[name]
        dtype = DTYPES[one.type]
        stored = elements(one, words).astype(f"<u{one.bits // 8}").view(dtype.storage)
        out.append(Tile(name.upper(), one.type, decode(stored, dtype)))
    return out


def tile_text(tile: Tile) -> str:
    """The tile as rows of numbers."""
    shown = [[f"{value:.4g}" for value in line] for line in tile.values]
    width = max(len(text) for line in shown for text in line)
    rows = [" ".join(text.rjust(width) for text in line) for line in shown]
    return "\n".join([f"{tile.operand}  {tile.values.shape[0]} x {tile.values.shape[1]} {tile.type}", *rows])
