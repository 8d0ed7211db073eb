# mypy: allow-untyped-defs, allow-untyped-calls
"""Matrices in shared memory as ``wgmma`` reads them: the 64-bit descriptor, and the address of every element.

A matrix is read in *chunks* of 16 bytes. Eight chunks make a *core matrix*: eight lines of one chunk each. K-major, a line
is a row of A or a column of B and its chunks follow each other along k; MN-major (16-bit types with ``imm-trans`` 1), a line
is a k and its chunks follow each other along the rows of A or the columns of B. With w = 1, 2, 4 or 8 chunks (no swizzle, 32,
64 or 128 bytes), chunk j of line i is at ::

    start + (i / 8) * lines + (i % 8) * 16 w + (j % w) * 16 + (j / w) * chunks

where ``lines`` and ``chunks`` are the stride and the leading-dimension byte offset, in this order, but MN-major without
swizzle the other way round. K-major with swizzle, ``chunks`` is therefore never used by a dense matrix, whose lines are 32
bytes long (which is why the PTX ISA calls it unused); a sparse instruction's B has lines of 64 bytes and uses it where the
swizzle is 32 bytes wide. Then bits 4 to 6 of the address, as many as the swizzle is wide, are XORed with its bits 7 to 9 less
the base offset. What counts are bits of the *address*: where the matrix starts, be it inside a swizzle atom, makes no
difference to which bits are flipped. Bits 14, 15, 30, 31, 46 to 48 and 52 to 61 of a descriptor have no effect. Addresses do
not wrap; what lies outside the CTA's shared memory is an error.

Source: PTX ISA 9.7.15.5.1.2 for the layouts; all of the above was checked byte by byte on an H200 (driver 580.159.04, CUDA
13.0) with some 55,000 descriptors, random starts, offsets and base offsets among them. 4,608 are in ``traces/vectors``
(``wgmma_addresses.npz``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from isa.arith.lane import lane
from isa.errors import TcsimError

__all__ = [
    "SWIZZLE_BYTES", "Descriptor", "DescriptorError", "MatrixView", "chunk_address", "chunk_view", "element_addresses",
    "is_regular",
]  # fmt: skip

SWIZZLE_BYTES = (0, 128, 64, 32)
"""The width of the swizzle by the two highest bits of a descriptor."""


class DescriptorError(TcsimError):
    """A matrix descriptor cannot be made of these numbers."""


class MatrixView(NamedTuple):
    """A descriptor taken apart for one operand. ``width`` is two to the ``log_width`` chunks."""

    start: int
    lines: int
    chunks: int
    log_width: int
    base_offset: int


_RESERVED = np.uint64(3 << 14 | 3 << 30 | 7 << 46 | 0x3FF << 52)


def _view(descriptor, mn_major):
    word = np.int64(descriptor)
    start = (word & 0x3FFF) << 4
    leading = ((word >> 16) & 0x3FFF) << 4
    stride = ((word >> 32) & 0x3FFF) << 4
    base_offset = (word >> 49) & 7
    mode = (word >> 62) & 3
    log_width = (4 - mode) & 3
    if mn_major and log_width == 0:
        return MatrixView(start, leading, stride, log_width, base_offset)
    return MatrixView(start, stride, leading, log_width, base_offset)


def _address(view, line, chunk):
    last = (1 << view.log_width) - 1
    along = ((chunk & last) << 4) + (chunk >> view.log_width) * view.chunks
    address = view.start + (line >> 3) * view.lines + (((line & 7) << view.log_width) << 4) + along
    return address ^ ((((address >> 7) - view.base_offset) & last) << 4)


chunk_view = lane(_view)
"""``chunk_view(descriptor, mn_major)``: the :class:`MatrixView` of a descriptor (uint64) for an operand that is read MN-major
or K-major."""

chunk_address = lane(_address)
"""``chunk_address(view, line, chunk)``: the address of a chunk of 16 bytes in shared memory."""


@lane
def is_regular(descriptor):
    """Whether PTX says what a descriptor means: reserved bits are 0, and the base offset is that of a pattern of the swizzle
    that begins where the matrix does, or further on in its first 128 bytes (PTX ISA 9.7.15.5.1.2.2)."""
    view = chunk_view(descriptor, False)
    if np.uint64(descriptor) & _RESERVED:
        return False
    return (((view.start >> 7) - view.base_offset) & ((1 << view.log_width) - 1)) == 0


class Descriptor(Struct, frozen=True):
    """What a descriptor says. All in bytes but ``base_offset``: ``start`` a multiple of 16 below 2^18, ``leading`` (LBO) and
    ``stride`` (SBO) too; ``swizzle`` 0, 32, 64 or 128."""

    start: int
    leading: int
    stride: int
    swizzle: int = 0
    base_offset: int = 0

    @classmethod
    def decode(cls, bits: int) -> Descriptor:
        """From 64 bits; reserved ones are not looked at."""
        start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        return cls(start, leading, stride, SWIZZLE_BYTES[bits >> 62 & 3], bits >> 49 & 7)

    def encode(self) -> int:
        """The 64 bits (PTX ISA 9.7.15.5.1.2.2). Raises :class:`DescriptorError`."""
        for name, value in (("start", self.start), ("leading", self.leading), ("stride", self.stride)):
            if value % 16 or not 0 <= value < 1 << 18:
                raise DescriptorError(
                    f"matrix descriptor: {name} is {value:#x}; it is a multiple of 16 below 0x40000 (PTX ISA 9.7.15.5.1.2.2)"
                )
        if self.swizzle not in SWIZZLE_BYTES or not 0 <= self.base_offset < 8:
            raise DescriptorError(
                f"matrix descriptor: swizzle {self.swizzle}, base offset {self.base_offset}; a swizzle is 0, 32, 64 or 128 "
                "bytes wide and a base offset below 8 (PTX ISA 9.7.15.5.1.2.2)"
            )
        fields = self.start >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
        return fields | self.base_offset << 49 | SWIZZLE_BYTES.index(self.swizzle) << 62


def element_addresses(descriptor: int, mn: int, k: int, bits: int, mn_major: bool) -> NDArray[np.int64]:
    """The address of the byte that each element begins in, ``[row of A or column of B, k]``, for a matrix of ``mn`` x ``k``
    elements of ``bits`` bits."""
    view = _view(np.uint64(descriptor), mn_major)
    rows, columns = np.arange(mn)[:, None], np.arange(k)[None]
    line, along = (columns, rows) if mn_major else (rows, columns)
    chunk, inside = along * bits // 128, along * bits // 8 % 16
    addresses: NDArray[np.int64] = _address(view, line, chunk) + inside
    return addresses
