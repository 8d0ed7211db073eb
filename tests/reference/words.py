"""Adversarial operands, seeded: specials, subnormals, halfway cases, cancellations, thresholds."""

from __future__ import annotations

import random

from tests.reference.formats import Format


def specials(f: Format) -> list[int]:
    """Zeros, subnormals, ends of the normal range, neighbours of one, infinities, NaNs."""
    one, unit = f.bias << f.mbits, 1 << f.mbits
    words = [0, 1, unit - 1, unit, unit + 1, one - 1, one, one + 1, one + unit, f.infinity - 1, f.infinity]
    words += [f.infinity + 1, f.infinity + unit // 2, f.infinity + unit - 1]
    return words + [w | f.sign for w in words]


def word(f: Format, rng: random.Random) -> int:
    """One word: anything, or near the ends or the middle of the range, with few or many significant bits."""
    if rng.random() < 0.15:
        return rng.choice(specials(f))
    top = (1 << f.ebits) - 1
    centre = rng.choice([0, f.bias, f.bias, top, rng.randrange(top + 1)])
    exponent = min(max(centre + rng.randint(-4, 4), 0), top)
    kept = rng.randint(0, f.mbits)
    fraction = rng.getrandbits(f.mbits) >> kept << kept
    fraction += rng.choice([0, 0, (1 << kept) >> 1, ((1 << kept) >> 1) - 1])
    fraction &= (1 << f.mbits) - 1
    return rng.getrandbits(1) * f.sign | exponent << f.mbits | fraction


def tuples(f: Format, operands: int, count: int, seed: int) -> list[tuple[int, ...]]:
    """``count`` operand tuples: a third nearly cancelling, a third with products near the ends of the range.

    Before them, for one operand every special, for two every pair of specials.
    """
    rng = random.Random(seed)
    out: list[tuple[int, ...]] = []
    if operands == 1:
        out += [(s,) for s in specials(f)]
    if operands == 2:
        out += [(a, b) for a in specials(f) for b in specials(f)]
    for i in range(count):
        row = [word(f, rng) for _ in range(operands)]
        if i % 3 == 1 and operands > 1:
            row[-1] = _cancelling(f, row, rng)
        elif i % 3 == 2 and operands > 1:
            exponent = rng.randint(1, (1 << f.ebits) - 2)
            target = rng.choice([1, (1 << f.ebits) - 1]) + rng.randint(-f.mbits - 3, 3)
            other = min(max(target + f.bias - exponent, 0), (1 << f.ebits) - 2)
            for j, e in enumerate((exponent, other)):
                row[j] = rng.getrandbits(1) * f.sign | e << f.mbits | row[j] & ((1 << f.mbits) - 1)
        out.append(tuple(row))
    return out


def _cancelling(f: Format, row: list[int], rng: random.Random) -> int:
    """A last operand close to what makes the sum zero."""
    if len(row) == 2:
        target = row[0] ^ f.sign
    elif f.is_finite(row[0]) and f.is_finite(row[1]):
        target = f.round(-f.value(row[0]) * f.value(row[1]))
    else:
        return row[-1]
    return (target + rng.randint(-2, 2) + (rng.choice([0, 0, -1, 1]) << f.mbits)) & (2 * f.sign - 1)


def integers(bits: int, operands: int, count: int, seed: int) -> list[tuple[int, ...]]:
    """Unsigned words: limits and their neighbours, small numbers, random lengths, raw bits."""
    rng = random.Random(seed)
    edges = [
        (s << b) + d for b in (0, 7, 8, 15, 16, 23, 24, 31, 32, 63) if b < bits for s in (1, -1) for d in (-1, 0, 1)
    ]

    def one() -> int:
        kind = rng.randrange(5)
        if kind == 0:
            return rng.getrandbits(bits)
        if kind == 1:
            return rng.getrandbits(bits) >> rng.randrange(bits)
        if kind == 2:
            return ~(rng.getrandbits(bits) >> rng.randrange(bits))
        return rng.choice(edges) if kind == 3 else rng.randrange(70)

    return [tuple(one() & ((1 << bits) - 1) for _ in range(operands)) for _ in range(count)]
