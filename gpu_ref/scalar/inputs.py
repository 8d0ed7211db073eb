"""Operands for the scalar probes: specials, subnormals, halfway cases, cancellations, thresholds, raw bits.

Everything follows from the probe's name, so a recording need not store its inputs.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from gpu_ref.mufu.codec import Stream
from gpu_ref.scalar.forms import Probe, width

__all__ = ["ROWS", "operands", "operands_of"]

ROWS = 3072
"""Operand rows of every probe."""

Words = npt.NDArray[np.uint64]

_FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "e5m2": (5, 2), "e4m3": (4, 3)}
"""Exponent and fraction bits of each floating type."""


def _pick(rng: Stream, columns: npt.NDArray[np.generic]) -> Words:
    """From each column of a 2-d array, one element at random."""
    count = columns.shape[1]
    return columns[rng.integers(0, len(columns), count), np.arange(count)].astype(np.uint64)


def _specials(kind: str) -> Words:
    """Zeros, subnormals, the ends of the normal range, one and its neighbours, halves, infinity, NaNs; both signs."""
    ebits, mbits = _FLOATS[kind]
    one, top, bias = 1 << mbits, (1 << ebits) - 1, (1 << (ebits - 1)) - 1
    words = [0, 1, 2, one - 1, one, one + 1, (bias << mbits) - 1, bias << mbits, (bias << mbits) + 1]
    words += [(bias + 1) << mbits, (bias - 1) << mbits, top * one - 1]
    words += [top * one, top * one + 1, top * one + one // 2, (top + 1) * one - 1]
    return np.array(words + [w | 1 << (ebits + mbits) for w in words], dtype=np.uint64)


def _float_words(rng: Stream, kind: str, count: int) -> Words:
    """Words of a floating type: exponents near one, near the ends, near common limits of formats, or anywhere."""
    ebits, mbits = _FLOATS[kind]
    top, bias = (1 << ebits) - 1, (1 << (ebits - 1)) - 1
    centre = np.array(
        [0, bias, bias, top - 1, bias + 8, bias + 16, bias + 31, bias + 63, bias - 14, bias - 24, bias - 126]
    )
    near = centre[rng.integers(0, len(centre), count)] + rng.integers(-4, 5, count)
    anywhere = rng.integers(0, top + 1, count)
    exponent = np.clip(np.where(rng.fractions(count) < 0.7, near, anywhere), 0, top).astype(np.uint64)
    # A run of random bits, then a half (10...0), just below it (01...1), nothing, or more random bits.
    kept = rng.integers(0, mbits + 1, count).astype(np.uint64)
    random = rng.bits(mbits, count)
    rest = np.uint64(mbits) - kept
    head = random >> rest << rest
    half = np.where(rest > 0, np.uint64(1) << np.maximum(rest, np.uint64(1)) - np.uint64(1), np.uint64(0))
    tails = np.stack([half, half - (half > 0), half + (half > np.uint64(1)), np.zeros_like(half), random - head])
    mantissa = head + _pick(rng, tails)
    sign = rng.bits(1, count) << np.uint64(ebits + mbits)
    words: Words = sign | exponent << np.uint64(mbits) | mantissa
    return words


def _integer_words(rng: Stream, bits: int, count: int) -> Words:
    """Integer words: shift amounts, limits and their neighbours, random values of random length, raw bits."""
    powers = [1 << b for b in (0, 7, 8, 15, 16, 23, 24, 31, 32, 63) if b < bits]
    limits = [x & ((1 << bits) - 1) for p in powers for x in (p - 1, p, p + 1, -p, -p - 1)]
    edges = np.array(limits, dtype=np.uint64)
    mask = np.uint64((1 << bits) - 1)
    short = rng.bits(bits, count) >> rng.integers(0, bits, count).astype(np.uint64)
    edge = edges[rng.integers(0, len(edges), count)]
    small = rng.integers(0, 71, count).astype(np.uint64)
    return _pick(rng, np.stack([rng.bits(bits, count), short, ~short & mask, edge, small])) & mask


def _words(rng: Stream, type_name: str, count: int) -> Words:
    """Operand words of a PTX type."""
    if type_name in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2"):
        kind = type_name[:-2]
        half = width(type_name) // 2
        mixed = (_words(rng, kind, 2 * count) if kind in ("f16", "bf16") else rng.bits(half, 2 * count)).reshape(2, -1)
        packed: Words = mixed[0] << np.uint64(half) | mixed[1]
        return packed
    if type_name in _FLOATS:
        words = _float_words(rng, type_name, count)
        raw = rng.fractions(count) < 0.15
        words[raw] = rng.bits(width(type_name), int(raw.sum()))
        special = rng.fractions(count) < 0.15
        edges = _specials(type_name)
        words[special] = edges[rng.integers(0, len(edges), int(special.sum()))]
        return words
    if width(type_name) == 8:  # held in 32-bit registers, with anything in the bits above
        return rng.bits(24, count) << np.uint64(8) | _integer_words(rng, 8, count)
    return _integer_words(rng, width(type_name), count)


def _value(kind: str, words: Words) -> npt.NDArray[np.float64]:
    """Float64 values of f16, bf16, f32 or f64 words (all exact)."""
    if kind == "f64":
        return words.view(np.float64)
    if kind == "bf16":
        return (words << np.uint64(16)).astype(np.uint32).view(np.float32).astype(np.float64)
    narrow = words.astype(np.uint16).view(np.float16) if kind == "f16" else words.astype(np.uint32).view(np.float32)
    return narrow.astype(np.float64)


def _word(kind: str, values: npt.NDArray[np.float64]) -> Words:
    """Words of the type near given values; rounding does not matter here."""
    values = np.where(np.isnan(values), 0.0, values)
    if kind == "f64":
        return values.view(np.uint64)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint64)
    words = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return words >> np.uint64(16) if kind == "bf16" else words


def _relate(rng: Stream, kind: str, columns: list[Words]) -> None:
    """Make a third of the rows near cancellations (b near -a, or c near -(a * b)), another threshold products."""
    ebits, mbits = _FLOATS[kind]
    count = len(columns[0])
    rows = np.arange(count)
    some = rows % 3 == 1
    with np.errstate(all="ignore"):
        if len(columns) == 3:
            # Half of these with few product bits, so that the product and its halfway points are exact.
            coarse = rows % 2 == 0
            for column in columns[:2]:
                column[some & coarse] &= ~np.uint64((1 << (mbits // 2)) - 1)
            near = _word(kind, -_value(kind, columns[0]) * _value(kind, columns[1]))
        else:
            near = columns[0] ^ np.uint64(1 << (ebits + mbits))
    mask = np.uint64((1 << (1 + ebits + mbits)) - 1)
    near = near + rng.integers(-3, 4, count).astype(np.uint64) + (rng.integers(-2, 3, count) << mbits).astype(np.uint64)
    columns[-1][some] = near[some] & mask
    # Exponents of a and b that add up to about the least or the greatest exponent of the format.
    threshold = rows % 3 == 2
    bias, top = (1 << (ebits - 1)) - 1, (1 << ebits) - 1
    first = rng.integers(1, top, count)
    target = np.where(rng.fractions(count) < 0.6, 1, top) + rng.integers(-mbits - 3, 4, count)
    second = np.clip(target + bias - first, 0, top - 1)
    for column, exponent in zip(columns, (first, second), strict=False):
        cleared = column & np.uint64(1 << (ebits + mbits) | ((1 << mbits) - 1))
        column[threshold] = (cleared | exponent.astype(np.uint64) << np.uint64(mbits))[threshold]


def operands(probe: Probe) -> list[Words]:
    """uint64[ROWS] for each source operand of a probe, its word in the low bits."""
    return operands_of(probe, Stream(zlib.crc32(probe.name.encode())), ROWS)


def operands_of(probe: Probe, rng: Stream, rows: int) -> list[Words]:
    """uint64[rows] for each source operand of a probe, drawn from ``rng``; at least 256 rows."""
    columns = [_words(rng, source, rows) for source in probe.sources]
    if not columns:
        return columns
    kind = probe.sources[0]
    if kind in ("f16", "bf16", "f32", "f64") and len(columns) > 1 and set(probe.sources) == {kind}:
        _relate(rng, kind, columns)
    if kind in _FLOATS:  # every pair of specials first, or every special
        specials = _specials(kind)
        grid = np.stack(np.meshgrid(specials, specials, indexing="ij")).reshape(2, -1)[:, :rows]
        for column, source, values in zip(
            columns, probe.sources, grid if len(columns) > 1 else [specials], strict=False
        ):
            if source == kind:
                column[: len(values)] = values
    return columns
