"""Integer and bit instructions against Python integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.arith import bitfield, integer, packed_integer
from tests.reference import integers as ref
from tests.reference.integers import mask, quotient, signed
from tests.reference.words import integers

TYPES = ("s16", "u16", "s32", "u32", "s64", "u64")


def typed(kind: str, word: int) -> Any:
    """The NumPy scalar of a PTX type with these bits."""
    bits = int(kind[1:])
    return getattr(np, f"int{bits}")(signed(word, bits)) if kind[0] == "s" else getattr(np, f"uint{bits}")(word)


def value(kind: str, word: int) -> int:
    return signed(word, int(kind[1:])) if kind[0] == "s" else word


def check(
    function: Callable, kinds: tuple[str, ...], rows: list[tuple[int, ...]], result: int, expected: Callable
) -> None:
    """Compare ``result`` bits of a lane function with an expectation of the operands' values."""
    for row in rows:
        got = int(function(*(typed(k, w) for k, w in zip(kinds, row, strict=True)))) & mask(result)
        want = expected(*(value(k, w) for k, w in zip(kinds, row, strict=True))) & mask(result)
        assert got == want, (function.__name__, [f"{w:#x}" for w in row], f"{got:#x}", f"{want:#x}")


@pytest.mark.parametrize("kind", TYPES)
def test_products_quotients_and_differences(kind: str) -> None:
    bits = int(kind[1:])
    rows = integers(bits, 2, 700, seed=bits)
    check(getattr(integer, f"mul_hi_{kind}"), (kind, kind), rows, bits, lambda a, b: a * b >> bits)
    if bits < 64:
        check(getattr(integer, f"mul_wide_{kind}"), (kind, kind), rows, 2 * bits, lambda a, b: a * b)
    check(getattr(integer, f"div_{kind}"), (kind, kind), rows, bits, lambda a, b: quotient(a, b) if b else -1)
    check(getattr(integer, f"rem_{kind}"), (kind, kind), rows, bits, lambda a, b: a - quotient(a, b) * b if b else -1)
    triples = integers(bits, 3, 500, seed=bits + 1)
    check(getattr(integer, f"sad_{kind}"), (kind,) * 3, triples, bits, lambda a, b, c: c + abs(a - b))
    check(integer.min_int, (kind, kind), rows, bits, min)
    check(integer.max_int, (kind, kind), rows, bits, max)
    if kind[0] == "s":
        check(getattr(integer, f"abs_{kind}"), (kind,), [(a,) for a, _ in rows], bits, abs)


def test_division_is_exact_next_to_multiples() -> None:
    rng = np.random.default_rng(5)
    for b in [*(int(x) for x in rng.integers(1, 1 << 32, 300)), 1, 2, 3, 0xFFFFFFFF]:
        top = 0xFFFFFFFF // b
        for q in {top, int(rng.integers(0, top + 1))}:
            for a in (q * b - 1, q * b, q * b + 1):
                if 0 <= a <= 0xFFFFFFFF:
                    assert int(integer.div_u32(np.uint32(a), np.uint32(b))) == a // b
                    assert int(integer.rem_u32(np.uint32(a), np.uint32(b))) == a % b


def clamp(x: int) -> int:
    return min(max(x, -(1 << 31)), (1 << 31) - 1)


def test_saturating_and_24_bit_forms() -> None:
    rows, triples = integers(32, 2, 800, seed=2), integers(32, 3, 800, seed=3)
    check(integer.add_sat_s32, ("s32",) * 2, rows, 32, lambda a, b: clamp(a + b))
    check(integer.sub_sat_s32, ("s32",) * 2, rows, 32, lambda a, b: clamp(a - b))
    check(integer.mad_hi_sat_s32, ("s32",) * 3, triples, 32, lambda a, b, c: clamp((a * b >> 32) + c))
    check(integer.mul24_lo_s32, ("s32",) * 2, rows, 32, lambda a, b: signed(a, 24) * signed(b, 24))
    check(integer.mul24_hi_s32, ("s32",) * 2, rows, 32, lambda a, b: signed(a, 24) * signed(b, 24) >> 16)
    check(integer.mul24_lo_u32, ("u32",) * 2, rows, 32, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF))
    check(integer.mul24_hi_u32, ("u32",) * 2, rows, 32, lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16)
    check(
        integer.mad24_hi_sat_s32,
        ("s32",) * 3,
        triples,
        32,
        lambda a, b, c: clamp((signed(a, 24) * signed(b, 24) >> 16) + c),
    )
    check(integer.relu_s32, ("s32",), [(a,) for a, _ in rows], 32, lambda a: max(a, 0))


@pytest.mark.parametrize("bits", [32, 64])
def test_carries(bits: int) -> None:
    word = getattr(np, f"uint{bits}")
    add, sub = getattr(integer, f"add_carry_u{bits}"), getattr(integer, f"sub_carry_u{bits}")
    for a, b in [
        *integers(bits, 2, 500, seed=bits),
        (mask(bits), 0),
        (mask(bits), mask(bits)),
        (0, mask(bits)),
        (0, 0),
    ]:
        for carry in (0, 1):
            total, out = add(word(a), word(b), np.uint32(carry))
            assert (int(total), int(out)) == ((a + b + carry) & mask(bits), (a + b + carry) >> bits)
            rest, out = sub(word(a), word(b), np.uint32(carry))
            assert (int(rest), int(out)) == ((a - b - 1 + carry) & mask(bits), int(a - b - 1 + carry >= 0))


def halves(word: int, is_signed: bool) -> tuple[int, int]:
    low, high = word & 0xFFFF, word >> 16
    return (signed(low, 16), signed(high, 16)) if is_signed else (low, high)


@pytest.mark.parametrize("sign", ["s", "u"])
def test_packed_pairs(sign: str) -> None:
    def both(operation: Callable) -> Callable:
        def packed(a: int, b: int) -> int:
            low, high = (
                operation(x, y) & 0xFFFF for x, y in zip(halves(a, sign == "s"), halves(b, sign == "s"), strict=True)
            )
            return high << 16 | low

        return packed

    rows = [
        ((a & 0xFFFF) | (b & 0xFFFF) << 16, (c & 0xFFFF) | (d & 0xFFFF) << 16)
        for a, b, c, d in integers(16, 4, 500, seed=4)
    ]
    check(getattr(packed_integer, f"min_{sign}16x2"), ("u32",) * 2, rows, 32, both(min))
    check(getattr(packed_integer, f"max_{sign}16x2"), ("u32",) * 2, rows, 32, both(max))
    check(packed_integer.add_x2, ("u32",) * 2, rows, 32, both(lambda x, y: x + y))
    if sign == "s":
        check(
            packed_integer.relu_s16x2,
            ("u32",),
            [(a,) for a, _ in rows],
            32,
            lambda a: both(lambda x, y: max(x, 0))(a, 0),
        )


@pytest.mark.parametrize("a_sign", ["s", "u"])
@pytest.mark.parametrize("b_sign", ["s", "u"])
def test_dot_products(a_sign: str, b_sign: str) -> None:
    rows = integers(32, 3, 500, seed=9)
    sum_kind = "u32" if a_sign + b_sign == "uu" else "s32"

    def part(word: int, at: int, bits: int, sign: str) -> int:
        field = word >> at * bits & mask(bits)
        return signed(field, bits) if sign == "s" else field

    def dp4a(a: int, b: int, c: int) -> int:
        return c + sum(part(a, i, 8, a_sign) * part(b, i, 8, b_sign) for i in range(4))

    kinds = ("u32", "u32", sum_kind)
    check(getattr(packed_integer, f"dp4a_{a_sign}32_{b_sign}32"), kinds, rows, 32, dp4a)
    for name, base in (("lo", 0), ("hi", 2)):

        def dp2a(a: int, b: int, c: int, base: int = base) -> int:
            return c + sum(part(a, i, 16, a_sign) * part(b, base + i, 8, b_sign) for i in range(2))

        check(getattr(packed_integer, f"dp2a_{name}_{a_sign}32_{b_sign}32"), kinds, rows, 32, dp2a)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp(bits: int) -> None:
    rows = [
        (a, n)
        for (a,) in integers(bits, 1, 60, seed=1)
        for n in (0, 1, bits - 1, bits, bits + 1, 63, 64, 255, 0xFFFFFFFF)
    ]
    check(getattr(bitfield, f"shl_b{bits}"), (f"u{bits}", "u32"), rows, bits, lambda a, n: a << min(n, 64))
    check(getattr(bitfield, f"shr_u{bits}"), (f"u{bits}", "u32"), rows, bits, lambda a, n: a >> n)
    check(getattr(bitfield, f"shr_s{bits}"), (f"s{bits}", "u32"), rows, bits, lambda a, n: a >> n)


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields_and_searches(bits: int) -> None:
    u, s, rows = f"u{bits}", f"s{bits}", integers(bits, 1, 400, seed=bits)
    fields = [(a, p, n) for (a,), (p, n) in zip(rows, integers(32, 2, 400, seed=8), strict=True)]
    check(getattr(bitfield, f"bfe_{u}"), (u, "u32", "u32"), fields, bits, lambda a, p, n: ref.bfe(a, p, n, bits, False))
    check(getattr(bitfield, f"bfe_{s}"), (s, "u32", "u32"), fields, bits,
          lambda a, p, n: ref.bfe(a & mask(bits), p, n, bits, True))  # fmt: skip
    inserts = [(a, b, p, n) for (a, p, n), (b,) in zip(fields, reversed(rows), strict=True)]
    check(
        getattr(bitfield, f"bfi_b{bits}"),
        (u, u, "u32", "u32"),
        inserts,
        bits,
        lambda a, b, p, n: ref.bfi(a, b, p, n, bits),
    )
    words = [*rows, (0,), (mask(bits),), (1,), (1 << (bits - 1),)]
    for shiftamt in (False, True):
        name = "bfind_shiftamt" if shiftamt else "bfind"
        check(getattr(bitfield, f"{name}_{u}"), (u,), words, 32, lambda a, x=shiftamt: ref.bfind(a, bits, False, x))
        check(
            getattr(bitfield, f"{name}_{s}"),
            (s,),
            words,
            32,
            lambda a, x=shiftamt: ref.bfind(a & mask(bits), bits, True, x),
        )
    check(getattr(bitfield, f"popc_b{bits}"), (u,), words, 32, int.bit_count)
    check(getattr(bitfield, f"clz_b{bits}"), (u,), words, 32, lambda a: bits - a.bit_length())
    check(getattr(bitfield, f"brev_b{bits}"), (u,), words, bits, lambda a: int(f"{a:0{bits}b}"[::-1], 2))


@pytest.mark.parametrize("mode", ["", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"])
def test_prmt(mode: str) -> None:
    rows = integers(32, 3, 500, seed=6)
    selector = getattr(bitfield, f"selector_{mode}") if mode else np.uint32
    check(
        lambda a, b, c: bitfield.prmt(a, b, selector(c)),
        ("u32",) * 3,
        rows,
        32,
        lambda a, b, c: ref.prmt(a, b, c, mode),
    )


def test_logic_funnels_and_masks() -> None:
    rows = integers(32, 3, 300, seed=10)
    for lut in (0x96, 0xE8, 0xCA, 0x1B, 0x80, 0, 255):
        check(
            lambda a, b, c, lut=lut: bitfield.lop3(a, b, c, lut),
            ("u32",) * 3,
            rows,
            32,
            lambda a, b, c, lut=lut: ref.lop3(a, b, c, lut),
        )
    for side in "lr":
        for mode in ("wrap", "clamp"):
            check(getattr(bitfield, f"shf_{side}_{mode}"), ("u32",) * 3, rows, 32,
                  lambda a, b, c, s=side, m=mode: ref.funnel(a, b, c, s == "l", m == "clamp"))  # fmt: skip
    pairs = [(a, b) for a, b, _ in rows] + [(a, b) for a in (0, 1, 31, 32, 33) for b in (0, 1, 31, 32, 33, 0xFFFFFFFF)]
    for mode in ("wrap", "clamp"):
        check(
            getattr(bitfield, f"bmsk_{mode}"),
            ("u32",) * 2,
            pairs,
            32,
            lambda a, b, m=mode: ref.bmsk(a, b, m == "clamp"),
        )
        for kind in ("s32", "u32"):
            check(getattr(bitfield, f"szext_{mode}_{kind}"), (kind, "u32"), pairs, 32,
                  lambda a, n, m=mode, k=kind: ref.szext(a & mask(32), n, m == "clamp", k == "s32"))  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(-40, 40))
def test_fns(word: int, base: int, offset: int) -> None:
    assert int(bitfield.fns(np.uint32(word), np.uint32(base), np.int32(offset))) == ref.fns(word, base, offset)


@pytest.mark.parametrize("base", [0, 5, 31, 32, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("offset", [-(2**31), 2**31 - 1, -32, -33, 32, 33, 1, -1, 0])
def test_fns_at_the_limits(base: int, offset: int) -> None:
    for word in (0, 0xFFFFFFFF, 0x80000001, 0x00010000):
        assert int(bitfield.fns(np.uint32(word), np.uint32(base), np.int32(offset))) == ref.fns(word, base, offset)
