"""Classes of operands for the scalar fuzzer, besides the adversarial mixture of :mod:`gpu_ref.scalar.inputs`.

``raw``: all bits random. ``specials``: zeros, subnormals, ends of the range, infinities and NaNs of any payload, in every
combination; of integers their limits. ``limits``: exponents that add up, or differ, by about what a format can hold; of
integers products and sums near theirs. ``ties``: quotients, roots, reciprocals and sums next to halfway between two numbers.
``every``: each word of a source of up to 16 bits, where that is the only one.
"""

from __future__ import annotations

import zlib

import numpy as np

from gpu_ref.mufu.codec import Stream
from gpu_ref.scalar.every import Words, key_of, operand_columns
from gpu_ref.scalar.forms import width
from isa.spec import Form

__all__ = ["CLASSES", "columns_of"]

CLASSES = ("adversarial", "specials", "limits", "ties", "raw", "every")
"""In the order in which the fuzzer takes them."""

_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "e4m3": (4, 3), "e5m2": (5, 2)}


def columns_of(form: Form, kind: str, seed: int, rows: int) -> list[Words] | None:
    """A column of words for each source but ``lut``; None where a form has no such class."""
    if kind == "adversarial":
        return operand_columns(form, seed, rows)
    rng = Stream(zlib.crc32(f"{key_of(form)} {kind} {seed}".encode()))
    sources = [o for o in form.sources if o.name != "lut"]
    types = [o.type.name for o in sources if o.type.kind != "p"]
    if kind == "every":
        if len(sources) != 1 or not types or width(types[0]) > 16:
            return None
        return [np.arange(1 << 16, dtype=np.uint64)]
    if not types:
        return None
    drawn = iter(_drawn(rng, form.name, kind, types, rows))
    return [rng.bits(1, rows) if o.type.kind == "p" else next(drawn) for o in sources]


def _drawn(rng: Stream, opcode: str, kind: str, types: list[str], rows: int) -> list[Words]:
    if kind == "raw":
        return [rng.bits(width(t), rows) for t in types]
    first = types[0].removesuffix("x2")
    related = kind != "specials" and first in ("f16", "bf16", "f32", "f64") and set(types) == {types[0]}
    if related and types[0].endswith("x2"):  # halves of their own
        half = width(first)
        low, high = (_related(rng, opcode, kind, first, len(types), rows) for _ in range(2))
        return [b << np.uint64(half) | a for a, b in zip(low, high, strict=True)]
    if related:
        return _related(rng, opcode, kind, first, len(types), rows)
    columns = [_special(rng, t, rows) for t in types]
    if kind != "specials" and first not in _FORMATS and len(types) > 1 and types[0] == types[1]:
        columns[:2] = _integers(rng, types[0], rows)
    return columns


def _special(rng: Stream, type_name: str, rows: int) -> Words:
    """A word of a class that is drawn first."""
    kind = type_name.removesuffix("x2")
    if type_name.endswith("x2") and kind in _FORMATS:
        half = np.uint64(width(type_name) // 2)
        return _special(rng, kind, rows) << half | _special(rng, kind, rows)
    if kind not in _FORMATS:
        bits = width(type_name)
        edge = np.uint64(1) << rng.integers(0, bits, rows).astype(np.uint64)
        nearby = edge + rng.integers(-2, 3, rows).astype(np.uint64)
        signed = np.where(rng.bits(1, rows) == 0, nearby, ~nearby)
        limited: Words = np.where(rng.bits(2, rows) == 0, rng.bits(bits, rows), signed) & np.uint64((1 << bits) - 1)
        return limited
    ebits, mbits = _FORMATS[kind]
    top, fraction = np.uint64(((1 << ebits) - 1) << mbits), rng.bits(mbits, rows)
    quiet = np.uint64(1 << (mbits - 1))
    tiny = fraction >> rng.integers(0, mbits, rows).astype(np.uint64)
    choices = np.stack(
        [
            np.zeros(rows, np.uint64), np.full(rows, top), top | fraction | quiet, top | (fraction & ~quiet),
            top | tiny, tiny, fraction, np.full(rows, top - np.uint64(1)), np.full(rows, 1 << mbits, np.uint64),
            rng.bits(ebits, rows) << np.uint64(mbits), np.uint64(1 << mbits) | tiny,
        ]
    )  # fmt: skip
    word: Words = choices[rng.integers(0, len(choices), rows), np.arange(rows)]
    return word | rng.bits(1, rows) << np.uint64(ebits + mbits)


def _related(rng: Stream, opcode: str, kind: str, name: str, count: int, rows: int) -> list[Words]:
    """Floating-point operands that belong together."""
    ebits, mbits = _FORMATS[name]
    bias, top = (1 << (ebits - 1)) - 1, (1 << ebits) - 1
    sign = [rng.bits(1, rows) << np.uint64(ebits + mbits) for _ in range(count)]
    fractions = [_fraction(rng, mbits, rows) for _ in range(count)]
    exponents = [rng.integers(0, top, rows) for _ in range(count)]
    if kind == "limits":
        limit = np.where(rng.bits(1, rows) == 0, 1, top) + rng.integers(-mbits - 3, 4, rows)
        if count > 1:
            quotient = opcode.startswith("div") | (rng.bits(2, rows) == 0)
            exponents[1] = np.clip(np.where(quotient, exponents[0] + bias - limit, limit + bias - exponents[0]), 0, top - 1)
        else:
            exponents[0] = np.clip(limit, 0, top - 1)
        if count > 2:
            exponents[2] = np.clip(limit + rng.integers(-2, 3, rows), 0, top - 1)
        return [s | e.astype(np.uint64) << np.uint64(mbits) | f for s, e, f in zip(sign, exponents, fractions, strict=True)]
    return _ties(rng, opcode, name, sign, fractions, rows)


def _fraction(rng: Stream, mbits: int, rows: int) -> Words:
    """Random, short, long runs of ones, or next to a power of two."""
    bits = rng.bits(mbits, rows)
    shift = rng.integers(0, mbits + 1, rows).astype(np.uint64)
    mask = np.uint64((1 << mbits) - 1)
    choices = np.stack([bits, bits >> shift << shift, (bits | (mask >> shift)), bits >> shift, mask ^ (bits >> shift)])
    fraction: Words = choices[rng.integers(0, len(choices), rows), np.arange(rows)]
    return fraction


def _ties(rng: Stream, opcode: str, name: str, sign: list[Words], fractions: list[Words], rows: int) -> list[Words]:
    """The last operand makes the result lie next to the middle between two numbers, or next to a number."""
    ebits, mbits = _FORMATS[name]
    bias = (1 << (ebits - 1)) - 1
    near = [rng.integers(max(bias - 40, 1), min(bias + 40, 2 * bias - 1), rows) for _ in sign]
    words = [e.astype(np.uint64) << np.uint64(mbits) | f for e, f in zip(near, fractions, strict=True)]
    result = _extended(name, words[0]) * (1 + np.longdouble(2.0 ** -(mbits + 1)) * (rng.integers(0, 2, rows)))
    with np.errstate(all="ignore"):
        if len(words) == 1:  # the operand whose root or reciprocal it is
            value = result * result if "sqrt" in opcode else 1 / result
            words[0] = _rounded(name, value)
        elif opcode.startswith("div"):
            words = [_rounded(name, result * _extended(name, words[1])), words[1]]
        elif len(words) == 2:  # a sum: half a unit in the last place of the other, a little more or less
            words[1] = _part_of_unit(rng, words[0], mbits, rows)
        else:  # a product of that size
            words[2] = words[0]
            words[1] = _part_of_unit(rng, words[2], mbits, rows)
            power = rng.integers(-3, 4, rows)
            words[0] = (bias + power).astype(np.uint64) << np.uint64(mbits)
            shifted = words[1] - (power << mbits).astype(np.uint64)
            words[1] = np.where(words[1] >> np.uint64(mbits) > np.uint64(8), shifted, words[1])
    words[-1] = words[-1] + rng.integers(-1, 2, rows).astype(np.uint64)
    mask = np.uint64((1 << (ebits + mbits)) - 1)
    return [s | w & mask for s, w in zip(sign, words, strict=True)]


def _part_of_unit(rng: Stream, word: Words, mbits: int, rows: int) -> Words:
    """Half a unit in the last place of a number, or a quarter or a whole one."""
    exponent = (word >> np.uint64(mbits)).astype(np.int64) - mbits - rng.integers(0, 3, rows)
    part: Words = np.maximum(exponent, 0).astype(np.uint64) << np.uint64(mbits)
    return part


def _extended(name: str, words: Words) -> np.ndarray:
    """The values, in more bits than the format has."""
    if name == "f64":
        return words.view(np.float64).astype(np.longdouble)
    if name == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.longdouble)
    return (words << np.uint64(16 if name == "bf16" else 0)).astype(np.uint32).view(np.float32).astype(np.longdouble)


def _rounded(name: str, values: np.ndarray) -> Words:
    """Words near values, without their sign."""
    words: Words
    if name == "f64":
        words = np.abs(values).astype(np.float64).view(np.uint64)
    elif name == "f16":
        words = np.abs(values).astype(np.float16).view(np.uint16).astype(np.uint64)
    else:
        words = np.abs(values).astype(np.float32).view(np.uint32).astype(np.uint64)
    return words >> np.uint64(16) if name == "bf16" else words


def _integers(rng: Stream, type_name: str, rows: int) -> list[Words]:
    """Two whose sum, difference or product is near what the type can hold."""
    bits = width(type_name)
    mask = (1 << bits) - 1
    a = [int(x) for x in rng.bits(bits, rows) >> rng.integers(0, bits, rows).astype(np.uint64)]
    limit = [(1 << bits) >> int(x) for x in rng.bits(1, rows)]
    near, way = rng.integers(-2, 3, rows), rng.integers(0, 4, rows)
    b = []
    for x, end, by, how in zip(a, limit, near, way, strict=True):
        value = (end - x, x - end, end // max(x, 1), -(end // max(x, 1)))[int(how)]
        b.append((value + int(by)) & mask)
    return [np.array(a, np.uint64), np.array(b, np.uint64)]
