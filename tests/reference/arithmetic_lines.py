"""Arithmetic, comparison, logic and conversion with every combination of modifiers that might exist, for ptxas to judge.

The companion of :mod:`tests.reference.lines`, whose registers these lines use. A family is an instruction or a few that take
the same modifiers; orders of modifiers are those of the PTX ISA.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.reference.lines import TYPES, register

ALL = [*TYPES, "f32x2", "u16x2", "s16x2", "tf32"]
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
ROUNDINGS = ("", ".rn", ".rz", ".rm", ".rp", ".rna", ".rs")
FTZ, SAT = ("", ".ftz"), ("", ".sat")
COMPARISONS = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "lo",
    "ls",
    "hi",
    "hs",
    "equ",
    "neu",
    "ltu",
    "leu",
    "gtu",
    "geu",
    "num",
    "nan",
)


def r(type_: str, number: int = 0) -> str:
    """A register of a type, those of pairs included."""
    return register({"f32x2": "b64", "u16x2": "b32", "s16x2": "b32", "tf32": "b32", "pred": "pred"}.get(type_, type_), number)


def several(type_: str, count: int, first: int = 1) -> str:
    return ", ".join(r(type_, number) for number in range(first, first + count))


def sums() -> Iterator[str]:
    for op, rnd, ftz, sat, cc, t in product(("add", "sub", "addc", "subc"), ROUNDINGS, FTZ, SAT, ("", ".cc"), ALL):
        yield f"{op}{rnd}{ftz}{cc}{sat}.{t} {several(t, 3, 0)};"
    for op, rnd, sat, t, narrow in product(("add", "sub"), ROUNDINGS, SAT, ("f32", "f64", "f16"), ("f16", "bf16", "f32")):
        yield f"{op}{rnd}{sat}.{t}.{narrow} {r(t)}, {r(narrow, 1)}, {r(t, 2)};"


def products() -> Iterator[str]:
    parts = ("", ".lo", ".hi", ".wide")
    for op, rnd, part, ftz, cc, sat, t in product(
        ("mul", "mul24", "mad", "mad24", "madc", "fma"), ROUNDINGS[:5], parts, FTZ, ("", ".cc"), SAT, ALL
    ):
        three = op not in ("mul", "mul24")
        wide = WIDE.get(t, t) if part == ".wide" else t
        yield f"{op}{part}{rnd}{ftz}{cc}{sat}.{t} {r(wide)}, {several(t, 2)}{f', {r(wide, 3)}' if three else ''};"
    for rnd, ftz, sat, relu, oob, t in product(ROUNDINGS[:5], FTZ, SAT, ("", ".relu"), ("", ".oob"), ALL):
        yield f"fma{rnd}{ftz}{oob}{sat}{relu}.{t} {several(t, 4, 0)};"
    for rnd, sat, t, narrow in product(ROUNDINGS[:5], SAT, ("f32", "f64"), ("f16", "bf16")):
        yield f"fma{rnd}{sat}.{t}.{narrow} {r(t)}, {several(narrow, 2)}, {r(t, 3)};"


def quotients() -> Iterator[str]:
    for op, mode, ftz, t in product(("div", "rem"), ("", ".approx", ".full", *ROUNDINGS[1:5]), FTZ, ALL):
        yield f"{op}{mode}{ftz}.{t} {several(t, 3, 0)};"
    modes = ("", ".approx", *ROUNDINGS[1:5])
    for op, mode, ftz, t in product(("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"), modes, FTZ, ALL):
        yield f"{op}{mode}{ftz}.{t} {several(t, 2, 0)};"


def extremes() -> Iterator[str]:
    for op, ftz, nan, sign, relu, t in product(
        ("min", "max"), FTZ, ("", ".NaN"), ("", ".abs", ".xorsign", ".xorsign.abs"), ("", ".relu"), ALL
    ):
        yield f"{op}{ftz}{nan}{sign}{relu}.{t} {several(t, 3, 0)};"
        if t in ("f32", "f16"):
            yield f"{op}{ftz}{nan}{sign}.{t} {several(t, 4, 0)};"
    for op, ftz, nan, t in product(("abs", "neg"), FTZ, ("", ".NaN"), ALL):
        yield f"{op}{ftz}{nan}.{t} {several(t, 2, 0)};"
    kinds = ("", ".finite", ".infinite", ".number", ".notanumber", ".normal", ".subnormal")
    yield from (f"testp{kind}.{t} p0, {r(t, 1)};" for kind, t in product(kinds, ALL))
    yield from (f"copysign.{t} {several(t, 3, 0)};" for t in ALL)


def bits() -> Iterator[str]:
    for t in [*ALL, "pred"]:
        yield from (f"{op}.{t} {several(t, 3, 0)};" for op in ("and", "or", "xor"))
        yield from (f"{op}.{t} {several(t, 2, 0)};" for op in ("not", "cnot", "brev"))
        yield from (f"{op}.{t} {r(t)}, {r(t, 1)}, r2;" for op in ("shl", "shr"))
        yield from (f"{op}.{t} r0, {r(t, 1)};" for op in ("popc", "clz", "bfind", "bfind.shiftamt"))
        yield f"bfe.{t} {r(t)}, {r(t, 1)}, r2, r3;"
        yield f"bfi.{t} {r(t)}, {r(t, 1)}, {r(t, 2)}, r3, r4;"
        yield from (f"szext{mode}.{t} {r(t)}, {r(t, 1)}, r2;" for mode in ("", ".wrap", ".clamp"))
        yield from (f"lop3.{t} {several(t, 4, 0)}, 0x1e;", f"lop3.or.{t} {r(t)}|p0, {several(t, 3)}, 0x1e, p1;")
        yield from (f"lop3.and.{t} {r(t)}|p0, {several(t, 3)}, 0x1e, !p1;", f"lop3.and.{t} _|p0, {several(t, 3)}, 0x1e, p1;")
        yield from (f"shf.{way}{mode}.{t} {r(t)}, {several(t, 2)}, r3;" for way in "lr" for mode in ("", ".wrap", ".clamp"))
        yield from (f"prmt.{t}{m} {several(t, 4, 0)};" for m in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"))
        yield from (f"sad.{t} {several(t, 4, 0)};", f"fns.{t} {several(t, 4, 0)};", f"bmsk.clamp.{t} {several(t, 3, 0)};")
        yield from (f"bmsk.wrap.{t} {several(t, 3, 0)};", f"bmsk.{t} {several(t, 3, 0)};")
    for op, (a, b) in product(
        ("dp4a", "dp2a.lo", "dp2a.hi", "dp2a", "dp4a.lo"), product(("u32", "s32", "b32", "u16"), repeat=2)
    ):
        yield f"{op}.{a}.{b} r0, r1, r2, r3;"


def comparisons() -> Iterator[str]:
    for cmp, op, ftz, t in product(COMPARISONS, ("", ".and", ".or", ".xor"), FTZ, [*ALL, "pred"]):
        third = ", p3" if op else ""
        for result in ("p0", "p0|p1"):
            yield f"setp.{cmp}{op}{ftz}.{t} {result}, {several(t, 2)}{third};"
        for d in ("u32", "s32", "f32", "b32", "u16", "f16", "bf16", "f16x2", "bf16x2", "u64"):
            yield f"set.{cmp}{op}{ftz}.{d}.{t} {r(d)}, {several(t, 2)}{third};"
    for t, c, ftz in product(ALL, ("s32", "f32", "u32"), FTZ):
        yield f"slct{ftz}.{t}.{c} {several(t, 3, 0)}, {r(c, 5)};"
    yield from (f"selp.{t} {several(t, 3, 0)}, p0;" for t in [*ALL, "pred"])


SCALARS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "bf16", "f32", "f64", "tf32")
CONVERTED = ("", ".rn", ".rz", ".rm", ".rp", ".rni", ".rzi", ".rmi", ".rpi", ".rna")


def conversions() -> Iterator[str]:
    limits = ("", ".sat", ".relu", ".satfinite", ".satfinite.relu", ".relu.satfinite", ".ftz.sat", ".ftz", ".ftz.relu")
    for rnd, limit, d, a in product(CONVERTED, limits, SCALARS, SCALARS):
        yield f"cvt{rnd}{limit}.{d}.{a} {r(d)}, {r(a, 1)};"
    for rnd, d, a in product(CONVERTED, ("u8", "s8", "b8"), ("f16", "bf16", "f32")):  # some of these want an 8-bit register
        yield f"cvt{rnd}.{d}.{a} c0, {r(a, 1)};"


def packed_conversions() -> Iterator[str]:
    small = {"e4m3x2": "h", "e5m2x2": "h", "e2m1x2": "c", "e2m3x2": "h", "e3m2x2": "h", "ue8m0x2": "h", "f16x2": "r",
             "bf16x2": "r", "s8x2": "h", "u8x2": "h"}  # fmt: skip
    wider = ("f32", "f16x2", "bf16x2")
    limits = ("", ".relu", ".satfinite", ".satfinite.relu", ".relu.satfinite", ".sat")
    for rnd, limit, d, a in product((*CONVERTED[:5], ".rna", ".rs"), limits, small, (*wider, *small)):
        sources = ("f1, f2", "f1") if a == "f32" else (f"{small[a]}1",)
        for source in sources:
            for more in (", r5",) if rnd == ".rs" else ("",):
                yield f"cvt{rnd}{limit}.{d}.{a} {small[d]}0, {source}{more};"
    for d, a, c in product(("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"), ("s32", "u32"), ("", ".b32")):
        yield f"cvt.pack.sat.{d}.{a}{c} r0, r1, r2{', r3' if c else ''};"


FAMILIES = {f.__name__: f for f in (sums, products, quotients, extremes, bits, comparisons, conversions, packed_conversions)}


def lines(family: str) -> list[str]:
    """The lines of a family, each once."""
    return list(dict.fromkeys(FAMILIES[family]()))
