"""Which matrix element each register of each lane holds: the fragments of ``mma.sync``.

A fragment is described by what each *bit* of its index does. An element's index is its lane (five bits), its register
and its position in the register, low bits first; each bit that is set moves the element by a fixed number of rows and
columns. So ``lane = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))`` says that lane bits 0 and 1 (the PTX ISA's
threadID_in_group) count two columns at a time, and bits 2 to 4 (its groupID) rows.

The figures of the PTX ISA, all of which are of this form, come down to three families, because a 32-bit word of A or B
lies the same way whatever it holds: see :func:`operand_a`, :func:`operand_b`, :func:`accumulator`. ``m8n8k4`` with f16
operands is apart.

Source: PTX ISA 9.7.14.5.1 to 9.7.14.5.13, "Matrix Fragments for mma". The tests compare every fragment with the
formulas there. Of a sparse A (9.7.14.6.2), the elements that are stored lie as those of a dense A of half the columns.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from isa.tensor.forms import MmaForm, element_bits

__all__ = ["Fragment", "Step", "accumulator", "mma_fragment", "operand_a", "operand_b"]

Step = tuple[int, ...]
"""What one index bit adds to (row, column), or to (row, column, matrix)."""


class Fragment(Struct, frozen=True):
    """How a warp holds ``matrices`` matrices of ``rows`` x ``columns`` elements.

    ``lane``, ``register`` and ``element`` have a :data:`Step` for each index bit, lowest first. A step of (0, 0) makes a
    copy; only the highest register bits have it, and lane bits of the metadata of ``mma.sp``.
    """

    rows: int
    columns: int
    lane: tuple[Step, ...]
    register: tuple[Step, ...]
    element: tuple[Step, ...]
    word_bits: int = 32
    matrices: int = 1

    @property
    def registers(self) -> int:
        return int(1 << len(self.register))

    @property
    def per_register(self) -> int:
        """Elements in a register."""
        return int(1 << len(self.element))

    @property
    def copies(self) -> int:
        """In how many places each element is."""
        return self.registers * 32 * self.per_register // (self.matrices * self.rows * self.columns)

    def coordinates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Row, column and matrix of every element, each as an array ``[register, lane, element]``."""
        steps = np.array([[*s, 0][:3] for s in (*self.element, *self.lane, *self.register)])
        index = np.arange(self.registers * 32 * self.per_register)
        bits = index[:, None] >> np.arange(len(steps)) & 1
        shape = (self.registers, 32, self.per_register)
        row, column, matrix = (bits @ steps).T
        return row.reshape(shape), column.reshape(shape), matrix.reshape(shape)

    def pack(self, elements: np.ndarray) -> np.ndarray:
        """Registers ``[register, lane]`` (uint32 or uint64) from element bit patterns ``[row, column]``, or
        ``[matrix, row, column]`` where there are several matrices."""
        row, column, matrix = self.coordinates()
        chosen = np.asarray(elements).reshape(self.matrices, self.rows, self.columns)[matrix, row, column]
        width = np.uint64(self.word_bits // self.per_register)
        shifts = np.arange(self.per_register, dtype=np.uint64) * width
        words = np.bitwise_or.reduce(chosen.astype(np.uint64) << shifts, axis=2)
        return np.asarray(words, f"uint{self.word_bits}")

    def unpack(self, registers: np.ndarray) -> np.ndarray:
        """Element bit patterns (uint64) from registers: the inverse of :meth:`pack`. Of copies, the first registers
        count, which need not be followed by the others."""
        own = self.registers // self.copies
        row, column, matrix = (x[:own] for x in self.coordinates())
        width = self.word_bits // self.per_register
        shifts = np.arange(self.per_register, dtype=np.uint64) * np.uint64(width)
        elements = np.zeros((self.matrices, self.rows, self.columns), np.uint64)
        mask = np.uint64((1 << width) - 1)
        elements[matrix, row, column] = registers[:own].astype(np.uint64)[:, :, None] >> shifts & mask
        return elements if self.matrices > 1 else elements[0]


def _powers(count: int, first: int = 1) -> tuple[int, ...]:
    """``first``, twice that, ..., below ``first * count``; ``count`` is a power of two."""
    return tuple(first << i for i in range((count - 1).bit_length()))


def _along_rows(steps: tuple[int, ...]) -> tuple[Step, ...]:
    return tuple((s, 0) for s in steps)


def _along_columns(steps: tuple[int, ...]) -> tuple[Step, ...]:
    return tuple((0, s) for s in steps)


def operand_a(m: int, k: int, bits: int) -> Fragment:
    """A, ``m`` x ``k`` elements of ``bits`` bits. With w elements a word: lane (g, t) holds row g, columns w * t on;
    registers first step through rows by 8 (m16), then through columns by 4w, then through rows by 16 (m32)."""
    word_bits = max(bits, 32)
    w = word_bits // bits
    return Fragment(
        rows=m,
        columns=k,
        lane=_along_columns((w, 2 * w)) + _along_rows((1, 2, 4)),
        register=_along_rows(_powers(min(m, 16) // 8, 8))
        + _along_columns(_powers(k // (4 * w), 4 * w))
        + _along_rows(_powers(m // 16 or 1, 16)),
        element=_along_columns(_powers(w)),
        word_bits=word_bits,
    )


def operand_b(k: int, n: int, bits: int) -> Fragment:
    """B, ``k`` x ``n``. With w elements a word: lane (g, t) holds column g, rows w * t on; registers step through rows
    by 4w, then (n16) through columns by 8."""
    word_bits = max(bits, 32)
    w = word_bits // bits
    return Fragment(
        rows=k,
        columns=n,
        lane=_along_rows((w, 2 * w)) + _along_columns((1, 2, 4)),
        register=_along_rows(_powers(k // (4 * w), 4 * w)) + _along_columns(_powers(n // 8, 8)),
        element=_along_rows(_powers(w)),
        word_bits=word_bits,
    )


def accumulator(m: int, n: int, bits: int) -> Fragment:
    """C or D, ``m`` x ``n``: lane (g, t) holds row g, columns 2t and 2t + 1, which of 16 bits share a register;
    registers then step through rows by 8 (m16), columns by 8 (n16) and rows by 16 (m32)."""
    pair: tuple[Step, ...] = ((0, 1),)
    return Fragment(
        rows=m,
        columns=n,
        lane=_along_columns((2, 4)) + _along_rows((1, 2, 4)),
        register=(() if bits == 16 else pair)
        + _along_rows(_powers(min(m, 16) // 8, 8))
        + _along_columns(_powers(n // 8, 8))
        + _along_rows(_powers(m // 16 or 1, 16)),
        element=pair if bits == 16 else (),
        word_bits=max(bits, 32),
    )


# m8n8k4 with f16 operands: lane bits 2 and 3 choose one of four products, bit 4 the upper half of a side of eight.
_884_LANES = {
    ("a", "row"): ((1, 0), (2, 0), (0, 0, 1), (0, 0, 2), (4, 0)),
    ("a", "col"): ((0, 1), (0, 2), (0, 0, 1), (0, 0, 2), (4, 0)),
    ("b", "row"): ((1, 0), (2, 0), (0, 0, 1), (0, 0, 2), (0, 4)),
    ("b", "col"): ((0, 1), (0, 2), (0, 0, 1), (0, 0, 2), (0, 4)),
}


def _operand_884(operand: str, layout: str) -> Fragment:
    along_columns = layout == "row"  # the four elements of a lane
    one, two = ((0, 1), (0, 2)) if along_columns else ((1, 0), (2, 0))
    rows, columns = (8, 4) if operand == "a" else (4, 8)
    return Fragment(rows, columns, _884_LANES[operand, layout], (two,), (one,), matrices=4)


_ACCUMULATOR_884 = {
    16: Fragment(
        8, 8, ((1, 0), (2, 0), (0, 0, 1), (0, 0, 2), (4, 0)), register=((0, 2), (0, 4)), element=((0, 1),), matrices=4
    ),
    32: Fragment(
        8, 8, ((1, 0), (0, 2), (0, 0, 1), (0, 0, 2), (4, 0)), register=((0, 1), (2, 0), (0, 4)), element=(), matrices=4
    ),
}


def mma_fragment(form: MmaForm, operand: str) -> Fragment:
    """The fragment of operand ``a``, ``b``, ``c`` or ``d`` of an ``mma.sync`` or ``mma.sp`` form. The f16 form of ``m8n8k4``
    has four matrices; a sparse A has the columns that are stored."""
    if form.is_884:
        if operand in "cd":
            return _ACCUMULATOR_884[element_bits(form.c if operand == "c" else form.d)]
        return _operand_884(operand, form.a_layout if operand == "a" else form.b_layout)
    if operand == "a":
        return operand_a(form.m, form.stored_k, form.operand_bits)
    if operand == "b":
        return operand_b(form.k, form.n, form.operand_bits)
    return accumulator(form.m, form.n, element_bits(form.c if operand == "c" else form.d))
