"""The scalar arithmetic PTX instructions of sm_90, one probe each.

A probe is a piece of PTX that reads registers ``a``, ``b``, ``c`` and writes ``d``; ``p`` is a predicate, ``u``,
``w32`` and ``w64`` are scratch. Registers are untyped (``.bN``), so that any type of their width goes; 8-bit types
use 32-bit registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Probe", "probes", "width"]

_WIDTHS = {"f32": 32, "f64": 64, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "tf32": 32, "e4m3x2": 16,
           "e5m2x2": 16, "s16x2": 32, "u16x2": 32}  # fmt: skip
_ROUND = ("rn", "rz", "rm", "rp")
_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


class Probe(NamedTuple):
    """``name`` (the instruction, or what a sequence does), its PTX, and the types of ``d`` and of each source."""

    name: str
    ptx: str
    result: str
    sources: tuple[str, ...]


def width(type_name: str) -> int:
    """Bits of a PTX type name such as "f16x2" or "s64"."""
    return _WIDTHS[type_name] if type_name in _WIDTHS else int(type_name[1:])


def _fits(outer: str, inner: str) -> bool:
    """Whether every value of integer type ``inner`` is one of ``outer`` (ptxas then refuses ``cvt.sat``)."""
    room = width(outer) - (outer[0] == "s")
    return room >= width(inner) - (inner[0] == "s") and not (inner[0] == "s" and outer[0] == "u")


def _plain(opcode: str, result: str, *sources: str) -> Probe:
    return Probe(opcode, f"{opcode} {', '.join(['d', *'abc'[: len(sources)]])};", result, sources)


def _flag(opcode: str, *sources: str) -> Probe:
    """A predicate-valued instruction; ``d`` is 1 where it holds."""
    return Probe(opcode, f"{opcode} p, {', '.join('abc'[: len(sources)])}; selp.b32 d, 1, 0, p;", "b32", sources)


def _f32() -> Iterator[Probe]:
    for rnd, ftz, sat in itertools.product(_ROUND, ("", ".ftz"), ("", ".sat")):
        yield from (_plain(f"{op}.{rnd}{ftz}{sat}.f32", "f32", "f32", "f32") for op in ("add", "sub", "mul"))
        yield _plain(f"fma.{rnd}{ftz}{sat}.f32", "f32", "f32", "f32", "f32")
    for rnd, ftz in itertools.product(_ROUND, ("", ".ftz")):
        yield _plain(f"div.{rnd}{ftz}.f32", "f32", "f32", "f32")
        yield from (_plain(f"{op}.{rnd}{ftz}.f32", "f32", "f32") for op in ("rcp", "sqrt"))
    for ftz in ("", ".ftz"):
        yield from (_plain(f"{op}{ftz}.f32", "f32", "f32") for op in ("abs", "neg"))
        for op, nan, xorsign in itertools.product(("min", "max"), ("", ".NaN"), ("", ".xorsign.abs")):
            yield _plain(f"{op}{ftz}{nan}{xorsign}.f32", "f32", "f32", "f32")
        yield from (_flag(f"setp.{cmp}{ftz}.f32", "f32", "f32") for cmp in _ORDERED + _UNORDERED)
        yield _plain(f"set.ltu{ftz}.f32.f32", "f32", "f32", "f32")
        yield _plain(f"set.ge{ftz}.u32.f32", "u32", "f32", "f32")
        yield _plain(f"slct{ftz}.f32.f32", "f32", "f32", "f32", "f32")
    yield _plain("copysign.f32", "f32", "f32", "f32")
    for kind in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        yield _flag(f"testp.{kind}.f32", "f32")
        yield _flag(f"testp.{kind}.f64", "f64")


def _f64() -> Iterator[Probe]:
    for rnd in _ROUND:
        yield from (_plain(f"{op}.{rnd}.f64", "f64", "f64", "f64") for op in ("add", "sub", "mul", "div"))
        yield from (_plain(f"{op}.{rnd}.f64", "f64", "f64") for op in ("rcp", "sqrt"))
        yield _plain(f"fma.{rnd}.f64", "f64", "f64", "f64", "f64")
    yield from (_plain(f"{op}.f64", "f64", "f64") for op in ("abs", "neg"))
    yield from (_plain(f"{op}.f64", "f64", "f64", "f64") for op in ("min", "max", "copysign"))
    yield from (_flag(f"setp.{cmp}.f64", "f64", "f64") for cmp in _ORDERED + _UNORDERED)


def _half(kind: str) -> Iterator[Probe]:
    pair = f"{kind}x2"
    flush = ("", ".ftz") if kind == "f16" else ("",)
    for t, ftz in itertools.product((kind, pair), flush):
        for op in ("add", "sub", "mul"):
            yield _plain(f"{op}.rn{ftz}.{t}", t, t, t)
            if kind == "f16":
                yield _plain(f"{op}.rn{ftz}.sat.{t}", t, t, t)
        yield from (_plain(f"fma.rn{ftz}{extra}.{t}", t, t, t, t) for extra in ("", ".relu"))
        if kind == "f16":
            yield _plain(f"fma.rn{ftz}.sat.{t}", t, t, t, t)
        yield from (_plain(f"{op}{ftz}.{t}", t, t) for op in ("abs", "neg"))
        for op, nan, xorsign in itertools.product(("min", "max"), ("", ".NaN"), ("", ".xorsign.abs")):
            yield _plain(f"{op}{ftz}{nan}{xorsign}.{t}", t, t, t)
    for ftz in flush:
        yield from (_flag(f"setp.{cmp}{ftz}.{kind}", kind, kind) for cmp in _ORDERED + _UNORDERED)
        yield _plain(f"set.lt{ftz}.{pair}.{pair}", pair, pair, pair)
        yield _plain(f"set.geu{ftz}.{kind}.{kind}", kind, kind, kind)
        yield _plain(f"set.neu{ftz}.u32.{kind}", "u32", kind, kind)


_INTS = tuple(f"{sign}{bits}" for bits in (8, 16, 32, 64) for sign in "su")


def _cvt_integer() -> Iterator[Probe]:
    yield from (_plain(f"cvt.{d}.{a}", d, a) for d, a in itertools.product(_INTS, _INTS) if d != a)
    yield from (_plain(f"cvt.sat.{d}.{a}", d, a) for d, a in itertools.product(_INTS, _INTS) if not _fits(d, a))
    for rnd, floating, integer in itertools.product(_ROUND, ("f16", "f32", "f64", "bf16"), _INTS):
        if floating == "bf16" and width(integer) == 8:
            continue  # ptxas refuses it
        yield _plain(f"cvt.{rnd}.{floating}.{integer}", floating, integer)
    for rnd, floating, integer in itertools.product(("rni", "rzi", "rmi", "rpi"), ("f16", "f32", "f64", "bf16"), _INTS):
        if floating == "bf16" and width(integer) == 8:
            continue
        yield _plain(f"cvt.{rnd}.{integer}.{floating}", integer, floating)
        if rnd in ("rni", "rzi") and floating in ("f32", "f64"):
            yield _plain(f"cvt.{rnd}.sat.{integer}.{floating}", integer, floating)
    yield from (_plain(f"cvt.rzi.ftz.{integer}.f32", integer, "f32") for integer in _INTS)
    yield _plain("cvt.rpi.ftz.s32.f32", "s32", "f32")
    for d, a in (("s16", "s32"), ("u8", "s32"), ("s8", "s32"), ("u16", "s32")):
        yield Probe(f"cvt.pack.sat.{d}.{a}" + (".b32" if d[1:] == "8" else ""),
                    f"cvt.pack.sat.{d}.{a}" + (".b32 d, a, b, c;" if d[1:] == "8" else " d, a, b;"), "b32",
                    (a, a, "b32") if d[1:] == "8" else (a, a))  # fmt: skip


def _cvt_float() -> Iterator[Probe]:
    for rnd, ftz, kind in itertools.product(("rni", "rzi", "rmi", "rpi"), ("", ".ftz"), ("f16", "f32", "f64")):
        if not ftz or kind == "f32":
            yield _plain(f"cvt.{rnd}{ftz}.{kind}.{kind}", kind, kind)
    for rnd, (d, a) in itertools.product(
        _ROUND, (("f32", "f64"), ("f16", "f64"), ("bf16", "f64"), ("f16", "f32"), ("bf16", "f32"),
                 ("bf16", "f16"), ("f16", "bf16"))):  # fmt: skip
        yield _plain(f"cvt.{rnd}.{d}.{a}", d, a)
    for d, a in (("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f64", "bf16"), ("f64", "f32")):
        yield _plain(f"cvt.{d}.{a}", d, a)
        if a != "bf16":
            yield _plain(f"cvt.sat.{d}.{a}", d, a)
    yield from (_plain(f"cvt{m}.f32.f32", "f32", "f32") for m in (".ftz", ".sat", ".ftz.sat"))
    yield from (_plain(f"cvt{m}.f16.f16", "f16", "f16") for m in (".sat",))
    yield from (_plain(f"cvt{m}.f64.f64", "f64", "f64") for m in (".sat",))
    yield from (_plain(f"cvt.{m}.f32.f64", "f32", "f64") for m in ("rn.ftz", "rz.ftz", "rn.sat", "rp.ftz.sat"))
    yield from (_plain(f"cvt.{m}.f16.f32", "f16", "f32") for m in ("rn.ftz", "rn.sat", "rz.ftz.sat", "rz.ftz"))
    yield _plain("cvt.ftz.f32.f16", "f32", "f16")
    yield _plain("cvt.ftz.f64.f32", "f64", "f32")
    for rnd, relu, finite, kind in itertools.product(("rn", "rz"), ("", ".relu"), ("", ".satfinite"), ("f16", "bf16")):
        yield _plain(f"cvt.{rnd}{relu}{finite}.{kind}x2.f32", f"{kind}x2", "f32", "f32")
        if relu or finite:
            yield _plain(f"cvt.{rnd}{relu}{finite}.{kind}.f32", kind, "f32")
    for mode in ("rna", "rna.satfinite", "rn", "rz", "rn.relu", "rz.relu"):
        yield _plain(f"cvt.{mode}.tf32.f32", "tf32", "f32")
    for relu, kind in itertools.product(("", ".relu"), ("e4m3x2", "e5m2x2")):
        yield _plain(f"cvt.rn.satfinite{relu}.{kind}.f32", kind, "f32", "f32")
        yield _plain(f"cvt.rn.satfinite{relu}.{kind}.f16x2", kind, "f16x2")
        yield _plain(f"cvt.rn{relu}.f16x2.{kind}", "f16x2", kind)


def _integer_wide() -> Iterator[Probe]:
    """Instructions that come in several integer widths."""
    for t in ("s16", "u16", "s32", "u32", "s64", "u64"):
        sign, bits = t[0], int(t[1:])
        yield from (
            _plain(f"{op}.{t}", t, t, t) for op in ("add", "sub", "div", "rem", "min", "max", "mul.lo", "mul.hi")
        )
        yield from (_plain(f"mad.{part}.{t}", t, t, t, t) for part in ("lo", "hi"))
        if bits < 64:
            wide = f"{sign}{2 * bits}"
            yield _plain(f"mul.wide.{t}", wide, t, t)
            yield _plain(f"mad.wide.{t}", wide, t, t, wide)
        yield _plain(f"sad.{t}", t, t, t, t)
        if sign == "s":
            yield from (_plain(f"{op}.{t}", t, t) for op in ("abs", "neg"))
        yield _plain(f"shr.{t}", t, t, "u32")
        yield from (_flag(f"setp.{cmp}.{t}", t, t) for cmp in _ORDERED)
        yield _plain(f"slct.{t}.s32", t, t, t, "s32")
    for bits in (16, 32, 64):
        t = f"b{bits}"
        yield from (_plain(f"{op}.{t}", t, t, t) for op in ("and", "or", "xor"))
        yield from (_plain(f"{op}.{t}", t, t) for op in ("not", "cnot"))
        yield _plain(f"shl.{t}", t, t, "u32")
    for bits in (32, 64):
        yield from (_plain(f"{op}.b{bits}", "u32", f"b{bits}") for op in ("popc", "clz"))
        yield _plain(f"brev.b{bits}", f"b{bits}", f"b{bits}")
        yield Probe(f"bfi.b{bits}", f"bfi.b{bits} d, a, b, c, 7;", f"b{bits}", (f"b{bits}", f"b{bits}", "u32"))
        yield Probe(f"bfi.b{bits} length", f"bfi.b{bits} d, a, b, 9, c;", f"b{bits}", (f"b{bits}", f"b{bits}", "u32"))
        for sign, shiftamt in itertools.product("su", ("", ".shiftamt")):
            yield _plain(f"bfind{shiftamt}.{sign}{bits}", "u32", f"{sign}{bits}")
        yield from (_plain(f"bfe.{sign}{bits}", f"{sign}{bits}", f"{sign}{bits}", "u32", "u32") for sign in "su")


def _integer_32() -> Iterator[Probe]:
    yield from (_plain(f"{op}.{t}", t, t, t) for op in ("min", "max") for t in ("s16x2", "u16x2"))
    yield from (_plain(f"{op}.relu.{t}", t, t, t) for op in ("min", "max") for t in ("s32", "s16x2"))
    yield from (_plain(f"add.{t}", t, t, t) for t in ("s16x2", "u16x2"))
    yield from (_plain(f"{op}.sat.s32", "s32", "s32", "s32") for op in ("add", "sub"))
    yield _plain("mad.hi.sat.s32", "s32", "s32", "s32", "s32")
    for sign, part in itertools.product("su", ("lo", "hi")):
        yield _plain(f"mul24.{part}.{sign}32", f"{sign}32", f"{sign}32", f"{sign}32")
        yield _plain(f"mad24.{part}.{sign}32", f"{sign}32", f"{sign}32", f"{sign}32", f"{sign}32")
    yield _plain("mad24.hi.sat.s32", "s32", "s32", "s32", "s32")
    for d, m in itertools.product("lr", ("wrap", "clamp")):
        yield _plain(f"shf.{d}.{m}.b32", "b32", "b32", "b32", "u32")
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        yield _plain(f"prmt.b32{mode}", "b32", "b32", "b32", "b32")
    for lut in (0x96, 0xE8, 0xCA, 0x1B, 0x80):
        yield Probe(f"lop3.b32 {lut:#04x}", f"lop3.b32 d, a, b, c, {lut};", "b32", ("b32", "b32", "b32"))
    for a, b in itertools.product("su", "su"):
        c = "s32" if "s" in a + b else "u32"
        yield _plain(f"dp4a.{a}32.{b}32", c, "b32", "b32", c)
        yield from (_plain(f"dp2a.{half}.{a}32.{b}32", c, "b32", "b32", c) for half in ("lo", "hi"))
    for mode in ("clamp", "wrap"):
        yield _plain(f"bmsk.{mode}.b32", "b32", "u32", "u32")
        yield from (_plain(f"szext.{mode}.{t}", t, t, "u32") for t in ("s32", "u32"))
    yield _plain("fns.b32", "b32", "b32", "b32", "s32")
    for bits, w in ((32, "b32"), (64, "b64")):
        carry = "addc.u32 u, 0, 0;"
        for op in ("add", "sub"):
            yield Probe(f"{op}.cc.u{bits}", f"{op}.cc.u{bits} d, a, b;", w, (w, w))
            yield Probe(f"{op}.cc.u{bits} carry", f"{op}.cc.u{bits} w{bits}, a, b; {op}c.u32 d, 0, 0;", "b32", (w, w))
            yield Probe(f"{op}c.cc.u{bits}",
                        f"{op}.cc.u{bits} w{bits}, a, b; {op}c.cc.u{bits} d, c, b;", w, (w, w, w))  # fmt: skip
            yield Probe(f"{op}c.cc.u{bits} carry",
                        f"{op}.cc.u{bits} w{bits}, a, b; {op}c.cc.u{bits} w{bits}, c, b; {op}c.u32 d, 0, 0;",
                        "b32", (w, w, w))  # fmt: skip
        for part in ("lo", "hi"):
            yield Probe(f"mad.{part}.cc.u{bits} carry",
                        f"mad.{part}.cc.u{bits} w{bits}, a, b, c; {carry} mov.b32 d, u;", "b32", (w, w, w))  # fmt: skip
            yield Probe(f"madc.{part}.cc.u{bits} carry",
                        f"add.cc.u{bits} w{bits}, a, c; madc.{part}.cc.u{bits} w{bits}, a, b, c; {carry} mov.b32 d, u;",
                        "b32", (w, w, w))  # fmt: skip
    yield Probe("sub.cc then addc", "sub.cc.u32 u, a, b; addc.u32 d, 0, 0;", "b32", ("b32", "b32"))
    yield Probe("add.cc then subc", "add.cc.u32 u, a, b; subc.u32 d, 0, 0;", "b32", ("b32", "b32"))


def probes() -> tuple[Probe, ...]:
    """Every probe, in a fixed order; names are unique."""
    groups = (_f32(), _f64(), _half("f16"), _half("bf16"), _cvt_integer(), _cvt_float(), _integer_wide(), _integer_32())
    return tuple(itertools.chain.from_iterable(groups))
