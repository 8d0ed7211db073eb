"""The matrices that ``wgmma`` reads from shared memory, where its descriptors say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.kernels.wrap import operand_slots
from isa.program import FUNCTION, OPERANDS, Program
from isa.tensor.forms import MmaForm
from isa.tensor.matrix_descriptor import element_addresses
from tcsim.lanes import layout

__all__ = ["SharedOperand", "operand_slots_of", "shared_operands"]

_ROWS = 16


@dataclass(frozen=True)
class SharedOperand:
    """A matrix in shared memory: its element type, the bits of its elements [row, column], and the first row of A that is in
    it, a warp's 16 being what the warp multiplies."""

    type: str
    elements: NDArray[np.uint32]
    first_row: int = 0


def operand_slots_of(program: Program, pc: int) -> dict[str, list[int]]:
    """The register operands of an instruction: by name, the word of the register block at which each of their planes or pairs
    of planes starts."""
    form = program.kernels[int(program.code[pc, FUNCTION])].form
    row, found = int(program.code[pc, OPERANDS]) // 4, {}
    for operand in form.operands:
        found[operand.name] = [int(word) // 4 for word in program.pool[row : row + operand.count]]
        row += operand_slots(operand)
    return found


def shared_operands(
    program: Program, pc: int, block: NDArray[np.uint32], shared: NDArray[np.uint8], warp: int
) -> dict[str, SharedOperand]:
    """The matrices in shared memory of the ``wgmma`` at ``pc``, by name; of A the rows of the warp. block: the registers before
    it. shared: the CTA's shared memory. None for other instructions, nor of what lies outside of shared memory."""
    if not program.opcodes[pc].startswith("wgmma.mma_async"):
        return {}
    form = layout(program.opcodes[pc]).form
    assert form is not None
    places = operand_slots_of(program, pc)
    found = {}
    for name in "ab":
        if len(places[name]) > 1:
            continue  # A in registers
        at = places[name][0]
        descriptor = int(block[at]) | int(block[at + 32]) << 32
        turned = places.get(f"trans_{name}")
        elements = _elements(form, name, descriptor, turned is not None and bool(block[turned[0]]), shared)
        if elements is None:
            continue
        first = _ROWS * (warp & 3)
        found[name] = (
            SharedOperand(form.a, elements[first : first + _ROWS], first) if name == "a" else SharedOperand(form.b, elements.T)
        )
    return found


def _elements(
    form: MmaForm, name: str, descriptor: int, mn_major: bool, shared: NDArray[np.uint8]
) -> NDArray[np.uint32] | None:
    """The bits of the elements, [row of A or column of B, k]."""
    bits = form.operand_bits
    lines, k = (form.m, form.stored_k) if name == "a" else (form.n, form.k)
    addresses = element_addresses(descriptor, lines, k, bits, mn_major)
    count = max(1, bits // 8)
    if int(addresses.max()) + count > len(shared):
        return None
    words: Any = np.zeros(addresses.shape, np.uint32)
    for byte in range(count):
        words |= shared[addresses + byte].astype(np.uint32) << np.uint32(8 * byte)
    if bits < 8:
        words = words >> (np.arange(k) * bits % 8).astype(np.uint32) & np.uint32((1 << bits) - 1)
    return np.asarray(words, np.uint32)
