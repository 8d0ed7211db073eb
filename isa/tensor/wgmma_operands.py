# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="no-untyped-def"
"""What ``wgmma`` reads and writes: its numbers, A and B in registers and shared memory, metadata, accumulators.

Operands are given as a row of byte offsets of planes (:mod:`isa.kernels.wrap`): the numbers of the form, D, and the others
where :class:`Places` says, counted from D. With g = lane / 4 and t = lane % 4, registers of D with 32 bits, ``i``: row
g + 8 (i / 2 % 2), column 8 (i / 4) + 2t + i % 2; with 16 bits: row g + 8 (i % 2), columns 8 (i / 2) + 2t and the next. A in
registers lies as that of ``mma.sync.m16n8`` (:func:`isa.tensor.layouts.operand_a`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isa.compiled import compiled, inlined
from isa.kernels.planes import as_i32, as_u32, load_i64, load_u8, load_u16, load_u32
from isa.machine import BAD_OPERAND, GLOBAL, OUT_OF_BOUNDS, SHARED, SHARED_HOST, SHARED_SIZE, WARP, fault
from isa.tensor.fused import StepNumbers
from isa.tensor.matrix_descriptor import chunk_address, chunk_view, is_regular
from isa.tensor.mma_sparse import MetadataNumbers, bad_metadata, chosen_unit, row_codes, without_meaning
from isa.tensor.operands import FormatNumbers
from isa.tensor.panels import PANEL, PanelNumbers
from isa.tensor.simd import load8, splat, store8
from isa.tensor.undefined import DESCRIPTOR, SPARSITY, note_undefined

__all__ = [
    "FLOAT_COUNT", "INTEGER_COUNT", "MAX_A", "MAX_B", "MAX_ROW_B", "MET", "ROWS", "SHAPE_COUNT", "TILE", "Places",
    "WgmmaFloatNumbers", "WgmmaIntegerNumbers", "WgmmaNumbers", "bad_sparsity", "flat", "float_numbers",
    "gather_halves", "gather_panel", "integer_numbers", "load_tile", "met_units", "read_a", "read_b", "shape_of",
    "sign_flip", "store_16", "store_32",
]  # fmt: skip

ROWS = 16
MAX_A = 512  # elements: 16 x 32
MAX_B = 2048  # elements of a panel: 64 x 32
MAX_ROW_B = 1024  # those that a sparse row of A meets: 32 x 32
TILE = 512  # 16 x 32 accumulators
MET = 512  # 16 rows of 32


class Places(NamedTuple):
    """Where operands are in the row of offsets, D being first; -1 for one that a form does not have. ``c``: D before the
    instruction. ``metadata`` and ``selector`` are those of a sparse form. Scales and transpositions are constants."""

    a: int
    b: int
    metadata: int
    selector: int
    scale_d: int
    scale_a: int
    scale_b: int
    trans_a: int
    trans_b: int
    c: int


class WgmmaNumbers(NamedTuple):
    """``n`` columns; ``k`` elements of a column of B, of which a row of A stores ``stored``; all of ``bits`` bits (one-bit ones
    by words of 32). ``a_in_registers``: A is four registers. ``at``: where the operands are. ``metadata``: of a sparse form
    (``sparse``), else anything."""

    n: int
    k: int
    stored: int
    bits: int
    a_in_registers: int
    sparse: int
    at: Places
    metadata: MetadataNumbers


class WgmmaFloatNumbers(NamedTuple):
    """``half``: accumulators have 16 bits."""

    shape: WgmmaNumbers
    half: int
    panel: PanelNumbers


class WgmmaIntegerNumbers(NamedTuple):
    """Which operands are signed, and whether D is clamped."""

    shape: WgmmaNumbers
    a_signed: int
    b_signed: int
    saturate: int


# ------------------------------------------------------------------------------------------------------------- numbers


def flat(numbers: Any) -> tuple[int, ...]:
    """All numbers of named tuples in named tuples, in order."""
    if not isinstance(numbers, tuple):
        return (int(numbers),)
    return tuple(x for part in numbers for x in flat(part))


@inlined
def _number(registers, operands, at):
    return np.int64(as_i32(registers + as_i32(operands)[at])[0])


@inlined
def _numbers_8(registers, operands, at):
    n = _number
    r, o = registers, operands
    return (
        n(r, o, at), n(r, o, at + 1), n(r, o, at + 2), n(r, o, at + 3),
        n(r, o, at + 4), n(r, o, at + 5), n(r, o, at + 6), n(r, o, at + 7),
    )  # fmt: skip


@inlined
def _format(registers, operands, at):
    a, b, c, d, e, f, g, h = _numbers_8(registers, operands, at)
    return FormatNumbers(a, b, c, d, e, f, g, h)


SHAPE_COUNT = 23


@inlined
def shape_of(registers: Any, operands: Any, at: Any) -> WgmmaNumbers:
    """The numbers of a form's shape, which stand at place ``at`` of the row of operands."""
    n, k, stored, bits, in_registers, sparse, a, b = _numbers_8(registers, operands, at)
    metadata, selector, scale_d, scale_a, scale_b, trans_a, trans_b, c = _numbers_8(registers, operands, at + 8)
    unit_bits, units, lanes, word_shift, elements, allowed, meaning, _ = _numbers_8(registers, operands, at + 16)
    places = Places(a, b, metadata, selector, scale_d, scale_a, scale_b, trans_a, trans_b, c)
    codes = MetadataNumbers(unit_bits, units, lanes, word_shift, elements, allowed, meaning)
    return WgmmaNumbers(n, k, stored, bits, in_registers, sparse, places, codes)


@inlined
def float_numbers(registers, operands):
    at = SHAPE_COUNT + 4
    half, products, summed, least, _, _, _, _ = _numbers_8(registers, operands, SHAPE_COUNT)
    a, b = _format(registers, operands, at), _format(registers, operands, at + 8)
    fraction_bits, floor, step_half, kept, _, _, _, _ = _numbers_8(registers, operands, at + 16)
    step = StepNumbers(fraction_bits, floor, step_half, kept, _format(registers, operands, at + 20))
    return WgmmaFloatNumbers(shape_of(registers, operands, 0), half, PanelNumbers(products, summed, least, a, b, step))


FLOAT_COUNT = SHAPE_COUNT + 32


@inlined
def integer_numbers(registers, operands):
    a_signed, b_signed = _number(registers, operands, SHAPE_COUNT), _number(registers, operands, SHAPE_COUNT + 1)
    saturate = _number(registers, operands, SHAPE_COUNT + 2)
    return WgmmaIntegerNumbers(shape_of(registers, operands, 0), a_signed, b_signed, saturate)


INTEGER_COUNT = SHAPE_COUNT + 3


# ----------------------------------------------------------------------------------------------------------- operands


@compiled
def _constant(registers, operands, at):
    """The value, in lane 0, of an operand that all lanes share; 0 of one that is not there."""
    if at < 0:
        return np.uint32(0)
    return as_u32(registers + as_i32(operands)[at])[0]


@compiled
def _descriptor(registers, operands, at, ctx):
    """A matrix descriptor, which all lanes share."""
    plane = as_u32(registers + as_i32(operands)[at])
    descriptor = np.uint64(plane[0]) | (np.uint64(plane[32]) << np.uint64(32))
    if not is_regular(descriptor):
        note_undefined(ctx, DESCRIPTOR)
    return descriptor


@compiled
def sign_flip(registers, operands, at, bits):
    """What to XOR elements with: their sign bit if the operand is -1, else nothing."""
    negative = _constant(registers, operands, at) >> np.uint32(31)
    return np.uint32(negative << np.uint32(bits - 1))


@inlined
def _chunk(ctx, address):
    """Host address of 16 bytes of the CTA's shared memory, or 0 after recording a fault. (A descriptor names no CTA.)"""
    if address > load_i64(ctx + 8 * SHARED_SIZE) - 16:
        fault(ctx, OUT_OF_BOUNDS, 0, SHARED, address, 16)
        return np.int64(0)
    return load_i64(ctx + 8 * SHARED_HOST) + address


@compiled
def _read_k_major(words, view, ctx, first, lines, k, bits, flip, line_step, k_step):
    """``k`` elements of each of ``lines`` lines, from line ``first`` on, to ``words[line * line_step + k * k_step]``. Returns
    whether all of them are in shared memory."""
    per_chunk = 128 // bits
    for line in range(lines):
        for chunk in range(k // per_chunk):
            host = _chunk(ctx, chunk_address(view, first + line, chunk))
            if host == 0:
                return False
            at = line * line_step + chunk * per_chunk * k_step
            if bits == 8:
                for e in range(16):
                    words[at + e * k_step] = np.uint32(load_u8(host + e)) ^ flip
            elif bits == 16:
                for e in range(8):
                    words[at + e * k_step] = np.uint32(load_u16(host + 2 * e)) ^ flip
            else:
                for e in range(4):
                    words[at + e * k_step] = load_u32(host + 4 * e) ^ flip
    return True


@compiled
def _read_mn_major(words, view, ctx, first, lines, k, flip, line_step, k_step):
    """The same of a matrix of 16-bit elements that is transposed. ``first`` and ``lines`` are multiples of 8."""
    for i in range(k):
        for line in range(0, lines, 8):
            host = _chunk(ctx, chunk_address(view, i, (first + line) >> 3))
            if host == 0:
                return False
            at = line * line_step + i * k_step
            for e in range(8):
                words[at + e * line_step] = np.uint32(load_u16(host + 2 * e)) ^ flip
    return True


@compiled
def read_a(words, registers, operands, ctx, p):
    """The warp's 16 rows of A, one after another. Returns whether all of them are in shared memory."""
    flip = sign_flip(registers, operands, p.at.scale_a, p.bits)
    if not p.a_in_registers:
        transposed = _constant(registers, operands, p.at.trans_a) != np.uint32(0)
        view = chunk_view(_descriptor(registers, operands, p.at.a, ctx), transposed)
        first = (load_i64(ctx + 8 * WARP) & 3) * ROWS
        if transposed:
            return _read_mn_major(words, view, ctx, first, ROWS, p.stored, flip, p.stored, 1)
        return _read_k_major(words, view, ctx, first, ROWS, p.stored, p.bits, flip, p.stored, 1)
    per_word = 32 // p.bits
    mask = np.uint32(0xFFFFFFFF) >> np.uint32(32 - p.bits)
    for register in range(4):
        plane = as_u32(registers + as_i32(operands)[p.at.a + register])
        for lane in range(32):
            row = (lane >> 2) + 8 * (register & 1)
            at = row * p.stored + ((lane & 3) + 4 * (register >> 1)) * per_word
            for e in range(per_word):
                words[at + e] = ((plane[lane] >> np.uint32(e * p.bits)) & mask) ^ flip
    return True


@compiled
def read_b(words, registers, operands, ctx, first, columns, p):
    """``columns`` columns of B, from ``first`` on, to ``words[k * PANEL + column]``; the other columns are zeros. Returns
    whether all of them are in shared memory."""
    flip = sign_flip(registers, operands, p.at.scale_b, p.bits)
    if p.sparse and p.bits == 32:
        flip = np.uint32(0)  # its halves are put together first
    transposed = _constant(registers, operands, p.at.trans_b) != np.uint32(0)
    view = chunk_view(_descriptor(registers, operands, p.at.b, ctx), transposed)
    if columns < PANEL:
        for i in range(0, p.k * PANEL, 8):
            store8(words, i, splat(0, np.uint32))
    if transposed:
        return _read_mn_major(words, view, ctx, first, columns, p.k, flip, 1, PANEL)
    return _read_k_major(words, view, ctx, first, columns, p.k, p.bits, flip, 1, PANEL)


@compiled
def bad_sparsity(registers, operands, ctx, p):
    """A fault code where the selector is out of range or metadata have no meaning, else 0."""
    metadata = as_u32(registers + as_i32(operands)[p.at.metadata])
    selector = np.int64(_constant(registers, operands, p.at.selector))
    if selector >= 4 // p.metadata.lanes:
        return fault(ctx, BAD_OPERAND, 0, GLOBAL, selector, -1)
    place = bad_metadata(metadata, selector, p.metadata)
    if place >= 0:
        return fault(ctx, BAD_OPERAND, place >> 5, GLOBAL, metadata[place >> 5], place & 31)
    if without_meaning(metadata, selector, p.metadata):
        note_undefined(ctx, SPARSITY)
    return np.int32(0)


@compiled
def met_units(met, registers, operands, p):
    """The unit of B that each stored unit of each row of A meets, ``met[row * units + unit]``."""
    metadata = as_u32(registers + as_i32(operands)[p.at.metadata])
    selector = np.int64(_constant(registers, operands, p.at.selector))
    for row in range(ROWS):
        codes = row_codes(row, metadata, selector, p.metadata)
        for unit in range(p.metadata.units):
            met[row * p.metadata.units + unit] = chosen_unit(codes, unit)


@compiled
def gather_panel(chosen, source, met, first, count):
    """The rows of a panel that one row of A meets: row ``i`` of ``chosen`` is row ``met[first + i]`` of ``source``."""
    for i in range(count):
        at = met[first + i] * PANEL
        for c in range(0, PANEL, 8):
            store8(chosen, i * PANEL + c, load8(source, at + c))


@compiled
def gather_halves(chosen, source, met, first, count, flip):
    """The same of elements of 32 bits, each half of which has a unit of its own; their signs are flipped last."""
    for i in range(count):
        low, high = met[first + 2 * i], met[first + 2 * i + 1]
        for c in range(0, PANEL, 8):
            low_words, high_words = load8(source, (low >> 1) * PANEL + c), load8(source, (high >> 1) * PANEL + c)
            bottom = (low_words >> ((low & 1) * 16)) & 0xFFFF
            store8(chosen, i * PANEL + c, (bottom | ((high_words >> ((high & 1) * 16)) << 16)) ^ flip)


# ------------------------------------------------------------------------------------------------------- accumulators


@compiled
def _load_32(tile, registers, operands, at, columns):
    """Registers from ``at`` on of the row of operands, ``columns`` columns, to ``tile[row * PANEL + column]``."""
    for group in range(columns >> 3):
        for i in range(4):
            plane = as_u32(registers + as_i32(operands)[at + 4 * group + i])
            place = 8 * (i >> 1) * PANEL + 8 * group + (i & 1)
            for lane in range(32):
                tile[place + (lane >> 2) * PANEL + 2 * (lane & 3)] = plane[lane]


@compiled
def store_32(tile, registers, operands, at, columns):
    """The inverse of :func:`_load_32`."""
    for group in range(columns >> 3):
        for i in range(4):
            plane = as_u32(registers + as_i32(operands)[at + 4 * group + i])
            place = 8 * (i >> 1) * PANEL + 8 * group + (i & 1)
            for lane in range(32):
                plane[lane] = tile[place + (lane >> 2) * PANEL + 2 * (lane & 3)]


@compiled
def _load_16(tile, registers, operands, at, columns):
    """Packed accumulators of 16 bits to the low halves of a tile."""
    for group in range(columns >> 3):
        for i in range(2):
            plane = as_u32(registers + as_i32(operands)[at + 2 * group + i])
            place = 8 * i * PANEL + 8 * group
            for lane in range(32):
                target = place + (lane >> 2) * PANEL + 2 * (lane & 3)
                tile[target] = plane[lane] & np.uint32(0xFFFF)
                tile[target + 1] = plane[lane] >> np.uint32(16)


@compiled
def store_16(tile, registers, operands, at, columns):
    """The inverse of :func:`_load_16`."""
    for group in range(columns >> 3):
        for i in range(2):
            plane = as_u32(registers + as_i32(operands)[at + 2 * group + i])
            place = 8 * i * PANEL + 8 * group
            for lane in range(32):
                source = place + (lane >> 2) * PANEL + 2 * (lane & 3)
                plane[lane] = tile[source] | (tile[source + 1] << np.uint32(16))


@compiled
def load_tile(tile, registers, operands, first, columns, half, p):
    """Accumulators of ``columns`` columns from ``first`` on; without scale-d, and where there are none, zeros."""
    if columns < PANEL or not _constant(registers, operands, p.at.scale_d) & np.uint32(1):
        for i in range(0, TILE, 8):
            store8(tile, i, splat(0, np.uint32))
    if _constant(registers, operands, p.at.scale_d) & np.uint32(1):
        if half:
            _load_16(tile, registers, operands, p.at.c + (first >> 2), columns)
        else:
            _load_32(tile, registers, operands, p.at.c + (first >> 1), columns)
