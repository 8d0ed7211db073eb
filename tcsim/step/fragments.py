"""The matrices of a matrix instruction as tiles of numbers, gathered from the registers of a warp and from shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.program import FUNCTION, Program
from isa.sass.instructions.tensor import matrix_form
from isa.tensor import NoFormError
from isa.tensor.formats import FLOAT_FORMATS, FloatFormat
from isa.tensor.scaled_forms import container_shift
from tcsim.bundle import decode
from tcsim.bundle.dtypes import DTYPES
from tcsim.errors import TcsimError
from tcsim.lanes import layout
from tcsim.lanes.layouts import OperandLayout
from tcsim.lanes.names import ptx_name
from tcsim.step.shared_operands import SharedOperand, operand_slots_of

__all__ = ["Tile", "elements", "operand_bits", "tile_text", "tiles"]


@dataclass(frozen=True)
class Tile:
    """An operand: its name, element type, values [row, column]; ``where`` says more, where there is more to say."""

    operand: str
    type: str
    values: NDArray[np.float64]
    where: str = ""


def operand_bits(program: Program, pc: int, block: NDArray[np.uint32]) -> dict[str, tuple[OperandLayout, NDArray[Any]]]:
    """The operands in registers of the matrix instruction at ``pc`` by name, with their registers in ``block``, uint32
    [register, lane] (float64: uint64). None for other instructions."""
    opcode = program.opcodes[pc]
    base = opcode.partition(".")[0]
    if not (opcode.startswith(_PTX) or base in _MACHINE):
        return {}
    form = program.kernels[int(program.code[pc, FUNCTION])].form
    try:
        found = layout(ptx_name(matrix_form(base, form.params)) if base in _MACHINE else opcode)
    except (TcsimError, NoFormError):
        return {}
    out = {}
    for name, places in operand_slots_of(program, pc).items():
        one = found.operands.get(name)
        if one is None or one.matrices != 1 or len(places) != one.registers:
            continue  # a matrix descriptor, for one
        words = np.stack([block[at : at + 32] for at in places])
        if one.register_bits == 64:
            words = words | np.stack([block[at + 32 : at + 64] for at in places]).astype(np.uint64) << np.uint64(32)
        out[name] = one, words
    return out


_PTX = ("mma.s", "wmma.mma", "wgmma.mma_async")
_MACHINE = ("HMMA", "IMMA", "QMMA", "BMMA", "DMMA")


def elements(one: OperandLayout, words: NDArray[Any]) -> NDArray[Any]:
    """The bits of every element, [row, column], from an operand's registers."""
    found: NDArray[Any] = words[one.register, one.lane] >> one.bit.astype(words.dtype)
    shown: NDArray[Any] = found & words.dtype.type((1 << one.bits) - 1)
    return shown


def tiles(
    program: Program, pc: int, block: NDArray[np.uint32], shared: Mapping[str, SharedOperand] | None = None
) -> list[Tile]:
    """The operands of the matrix instruction at ``pc``, with the registers of ``block`` and the matrices in shared memory that
    it reads (:func:`~tcsim.step.shared_operands.shared_operands`); none for other instructions."""
    out = []
    found = operand_bits(program, pc, block)
    sparse = ".sp" in program.opcodes[pc]
    for name in ("a", "b", "c", "d"):
        if name in found:
            one, words = found[name]
            values = _values(elements(one, words), one.type, _shift(program.opcodes[pc], name))
            out.append(Tile(name.upper(), one.type, values, "as stored" if sparse and name == "a" else ""))
        elif shared and name in shared:
            matrix = shared[name]
            where = "in shared memory"
            if name == "a":
                where = f"rows {matrix.first_row}-{matrix.first_row + len(matrix.elements) - 1} {where}"
            out.append(Tile(name.upper(), matrix.type, _values(matrix.elements, matrix.type), where))
    return out


def _shift(opcode: str, operand: str) -> int:
    """How far up in its container an element of a ``.kind`` is."""
    form = layout(opcode).form if "kind::" in opcode else None
    return container_shift(form, operand) if form is not None and operand in "ab" else 0


def _values(bits: NDArray[Any], kind: str, shift: int = 0) -> NDArray[np.float64]:
    """The values of elements of a type of PTX."""
    if kind in DTYPES:
        dtype = DTYPES[kind]
        return decode(bits.astype(f"<u{dtype.bytes}").view(dtype.storage), dtype)
    whole = bits.astype(np.int64) >> shift
    if kind in FLOAT_FORMATS:
        return _floats(whole, FLOAT_FORMATS[kind])
    width = int(kind[1:])
    whole &= (1 << width) - 1
    return np.where((kind[0] == "s") & (whole >> (width - 1) != 0), whole - (1 << width), whole).astype(np.float64)


def _floats(bits: NDArray[np.int64], kind: FloatFormat) -> NDArray[np.float64]:
    size = bits & kind.magnitude_mask
    exponent, fraction = size >> (kind.bits - 1 - kind.exponent_bits), size & ((1 << (kind.bits - 1 - kind.exponent_bits)) - 1)
    places = kind.bits - 1 - kind.exponent_bits
    significand = np.where(exponent > 0, fraction + (1 << places), fraction).astype(np.float64)
    values = np.ldexp(significand, (np.maximum(exponent, 1) - kind.bias - places).astype(np.int32))
    if kind.infinity is not None:
        values = np.where(size == kind.infinity, np.inf, values)
    values = np.where(size >= kind.nan, np.nan, values)
    return np.where(bits >> (kind.bits - 1) & 1 != 0, -values, values)


def tile_text(tile: Tile) -> str:
    """The tile as rows of numbers."""
    shown = [[f"{value:.4g}" for value in line] for line in tile.values]
    width = max(len(text) for line in shown for text in line)
    rows = [" ".join(text.rjust(width) for text in line) for line in shown]
    where = f", {tile.where}" if tile.where else ""
    return "\n".join([f"{tile.operand}  {tile.values.shape[0]} x {tile.values.shape[1]} {tile.type}{where}", *rows])
