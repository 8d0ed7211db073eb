"""Comparison and selection (PTX ISA 9.7.6 and, for halves, 9.7.7)."""

from __future__ import annotations

import operator

import numpy as np

from isa.arith import compare
from isa.arith.bfloat16 import bf16_to_f32
from isa.arith.compare import ge
from isa.arith.float16 import ftz_f16
from isa.arith.float32 import ftz_f32
from isa.arith.lane import lane
from isa.arith.packed import high, low, pack
from isa.arith.primitives import bits_f32
from isa.instructions.tables import INTEGERS, class_of_width
from isa.spec import flag, instruction

_BITS = ("b16", "b32", "b64")
_WIDE = (*INTEGERS, *_BITS, "f32", "f64")
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_COMPARISONS = (*_ORDERED, *_UNSIGNED, *_UNORDERED)
_BOOLEANS = ("and", "or", "xor")
_FLUSHED = ("f32", "f16", "f16x2")


@lane
def same(x):
    """The operand as it is."""
    return x


@lane
def comparable_f16(u):
    """A float32 that compares as an f16 does: its bits moved into place, which scales all numbers alike.

    Comparing exact conversions is the same, but LLVM turns that into comparisons of halves, one by one.
    """
    magnitude = np.uint32(u & np.uint16(0x7FFF))
    nan = np.uint32(0x7F800000) if magnitude > np.uint32(0x7C00) else np.uint32(0)
    return bits_f32((np.uint32(u & np.uint16(0x8000)) << np.uint32(16)) | (magnitude << np.uint32(13)) | nan)


@lane
def flushed_f16(u):
    """The same with subnormals as zero."""
    return comparable_f16(ftz_f16(u))


COMPARE = {name: getattr(compare, name) for name in (*_ORDERED, *_UNORDERED)}
COMPARE |= {name: COMPARE[other] for name, other in _UNSIGNED.items()}
COMBINE = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}

# What is compared: (type, .ftz) -> function of the operand. Halves are compared as float32, pairs half by half.
VALUE = {(t, False): same for t in _WIDE} | {("f32", True): ftz_f32}
VALUE |= {(t, False): comparable_f16 if t[0] == "f" else bf16_to_f32 for t in _HALVES}
VALUE |= {(t, True): flushed_f16 for t in ("f16", "f16x2")}


def _why_not(params):
    """The comparisons that a type has (PTX ISA 9.3.1), and the types that can be flushed."""
    cmp, t = params["cmp"], params["t"]
    if t in _BITS and cmp not in ("eq", "ne"):
        return f".{t} can only be compared for equality (PTX ISA 9.3.1.1)"
    if cmp in _UNSIGNED and t[0] != "u":
        return f".{cmp} compares unsigned integers (PTX ISA 9.3.1.1)"
    if cmp in _UNORDERED and t not in ("f32", "f64", *_HALVES):
        return f".{cmp} compares floating-point values (PTX ISA 9.3.1.2)"
    if params["ftz"] and t not in _FLUSHED:
        return f".ftz does not apply to .{t} (PTX ISA 9.7.6)"
    return None


def _class(params):
    t = str(params["t"])
    return "fp64" if t == "f64" else "half" if t in _HALVES else class_of_width("alu")(params)


def _comparison(template, section, *groups, valid=_why_not, **slots):
    """Register a comparison for several groups of types, which differ in the targets that have them."""

    def register(function):
        for group in groups:
            options = {"section": section, "cmp": _COMPARISONS, "ftz": flag("ftz"), "valid": valid, "timing": _class}
            instruction(template, **{**options, **slots, **group})(function)
        return function

    return register


def _types(*names, **more):
    """A group: these types, from the first target and PTX version that have them."""
    if any(t.startswith("bf16") for t in names):
        return {"t": names, "sm": 90, "ptx": "7.8", **more}
    return {"t": names, "sm": 53, "ptx": "4.2", **more} if names[0] in _HALVES else {"t": names, **more}


# -------------------------------------------------------------------------------------------------------------- setp


@_comparison("setp.{cmp}{ftz}.{t} p, a, b", "9.7.6.2", _types(*_WIDE), _types("f16"), _types("bf16"))
def setp(a, b, *, cmp, ftz, t):
    """Compare two values and write the outcome to a predicate."""
    return COMPARE[cmp](VALUE[t, ftz](a), VALUE[t, ftz](b))


@_comparison("setp.{cmp}{ftz}.{t} p|q, a, b", "9.7.6.2", _types(*_WIDE))
def setp_both(a, b, *, cmp, ftz, t):
    """Compare two values; write the outcome to ``p`` and its opposite to ``q``."""
    outcome = COMPARE[cmp](VALUE[t, ftz](a), VALUE[t, ftz](b))
    return outcome, not outcome


@_comparison(
    "setp.{cmp}.{boolean}{ftz}.{t} p, a, b, c:pred",
    "9.7.6.2",
    _types(*_WIDE),
    _types("f16"),
    _types("bf16"),
    boolean=_BOOLEANS,
)
def setp_combined(a, b, c, *, cmp, boolean, ftz, t):
    """Compare two values, combine the outcome with the predicate ``c``, and write that to a predicate."""
    return COMBINE[boolean](COMPARE[cmp](VALUE[t, ftz](a), VALUE[t, ftz](b)), c)


@_comparison("setp.{cmp}.{boolean}{ftz}.{t} p|q, a, b, c:pred", "9.7.6.2", _types(*_WIDE), boolean=_BOOLEANS)
def setp_combined_both(a, b, c, *, cmp, boolean, ftz, t):
    """Compare two values; write the outcome combined with ``c`` to ``p``, and its opposite combined with ``c`` to
    ``q``."""
    outcome = COMPARE[cmp](VALUE[t, ftz](a), VALUE[t, ftz](b))
    return COMBINE[boolean](outcome, c), COMBINE[boolean](not outcome, c)


@_comparison("setp.{cmp}{ftz}.{t} p|q, a, b", "9.7.7.2", _types("f16x2"), _types("bf16x2"))
def setp_pairs(a, b, *, cmp, ftz, t):
    """Compare two pairs; write the outcome for the low halves to ``p``, for the high halves to ``q``."""
    first = COMPARE[cmp](VALUE[t, ftz](low(a)), VALUE[t, ftz](low(b)))
    return first, COMPARE[cmp](VALUE[t, ftz](high(a)), VALUE[t, ftz](high(b)))


@_comparison(
    "setp.{cmp}.{boolean}{ftz}.{t} p|q, a, b, c:pred",
    "9.7.7.2",
    _types("f16x2"),
    _types("bf16x2"),
    boolean=_BOOLEANS,
)
def setp_pairs_combined(a, b, c, *, cmp, boolean, ftz, t):
    """Compare two pairs; combine both outcomes with ``c``, and write the low halves' to ``p``, the high halves' to
    ``q``."""
    first = COMPARE[cmp](VALUE[t, ftz](low(a)), VALUE[t, ftz](low(b)))
    second = COMPARE[cmp](VALUE[t, ftz](high(a)), VALUE[t, ftz](high(b)))
    return COMBINE[boolean](first, c), COMBINE[boolean](second, c)


# --------------------------------------------------------------------------------------------------------------- set

# What ``set`` writes where the comparison holds: all ones, or 1.0 (as bits for halves).
TRUE = {"u32": 0xFFFFFFFF, "s32": -1, "u16": 0xFFFF, "s16": -1, "f32": 1.0, "f16": 0x3C00, "bf16": 0x3F80}
FALSE = {dtype: 0.0 if dtype == "f32" else 0 for dtype in TRUE}
TRUE_HALF = {"u32": 0xFFFF, "s32": 0xFFFF, "f16x2": 0x3C00, "bf16x2": 0x3F80}
_WORDS = ("u32", "s32")


def _set_why_not(params):
    if params["ftz"] and params["dtype"] == "bf16":
        return "set.ftz does not write .bf16 (PTX ISA 9.7.7.1)"
    return _why_not(params)


_SET = (
    _types(*_WIDE, dtype=(*_WORDS, "f32")),
    _types(*_WIDE, dtype=("f16",)) | {"sm": 53, "ptx": "4.2"},
    _types("f16", dtype=(*_WORDS, "u16", "s16", "f16")),
    _types(*_WIDE, "f16", dtype=("bf16",)) | {"sm": 90, "ptx": "7.8"},
    _types("bf16", dtype=(*_WORDS, "u16", "s16", "bf16")),
)
_SET_PAIRS = (_types("f16x2", dtype=(*_WORDS, "f16x2")), _types("bf16x2", dtype=(*_WORDS, "bf16x2")))


@_comparison("set.{cmp}{ftz}.{dtype}.{t} d:dtype, a, b", "9.7.6.1", *_SET, valid=_set_why_not)
def set_(a, b, *, cmp, ftz, dtype, t):
    """Compare two values and write all ones (or 1.0) if it holds, else zero."""
    return TRUE[dtype] if COMPARE[cmp](VALUE[t, ftz](a), VALUE[t, ftz](b)) else FALSE[dtype]


@_comparison(
    "set.{cmp}.{boolean}{ftz}.{dtype}.{t} d:dtype, a, b, c:pred",
    "9.7.6.1",
    *_SET,
    valid=_set_why_not,
    boolean=_BOOLEANS,
)
def set_combined(a, b, c, *, cmp, boolean, ftz, dtype, t):
    """Compare two values, combine the outcome with the predicate ``c``, and write all ones (or 1.0) or zero."""
    outcome = COMBINE[boolean](COMPARE[cmp](VALUE[t, ftz](a), VALUE[t, ftz](b)), c)
    return TRUE[dtype] if outcome else FALSE[dtype]


@_comparison("set.{cmp}{ftz}.{dtype}.{t} d:dtype, a, b", "9.7.7.1", *_SET_PAIRS)
def set_pairs(a, b, *, cmp, ftz, dtype, t):
    """Compare two pairs half by half; write 0xffff (or 1.0) to each half where it holds, else zero."""
    first = COMPARE[cmp](VALUE[t, ftz](low(a)), VALUE[t, ftz](low(b)))
    second = COMPARE[cmp](VALUE[t, ftz](high(a)), VALUE[t, ftz](high(b)))
    return pack(np.uint16(TRUE_HALF[dtype] if first else 0), np.uint16(TRUE_HALF[dtype] if second else 0))


@_comparison(
    "set.{cmp}.{boolean}{ftz}.{dtype}.{t} d:dtype, a, b, c:pred",
    "9.7.7.1",
    *_SET_PAIRS,
    boolean=_BOOLEANS,
)
def set_pairs_combined(a, b, c, *, cmp, boolean, ftz, dtype, t):
    """Compare two pairs half by half, combine both outcomes with ``c``, and write 0xffff (or 1.0) or zero to each
    half."""
    first = COMBINE[boolean](COMPARE[cmp](VALUE[t, ftz](low(a)), VALUE[t, ftz](low(b))), c)
    second = COMBINE[boolean](COMPARE[cmp](VALUE[t, ftz](high(a)), VALUE[t, ftz](high(b))), c)
    return pack(np.uint16(TRUE_HALF[dtype] if first else 0), np.uint16(TRUE_HALF[dtype] if second else 0))


# --------------------------------------------------------------------------------------------------------- selection


@instruction("selp.{t} d, a, b, c:pred", timing=class_of_width("alu"), section="9.7.6.3", t=_WIDE)
def selp(a, b, c):
    """``a`` where the predicate ``c`` is true, else ``b``."""
    return a if c else b


def _only_f32_selector(params):
    if params["ftz"] and params["ctype"] != "f32":
        return "slct.ftz needs an .f32 selector (PTX ISA 9.7.6.4)"
    return None


@instruction(
    "slct{ftz}.{t}.{ctype} d:t, a:t, b:t, c:ctype",
    timing=class_of_width("slct"),
    section="9.7.6.4",
    ftz=flag("ftz"),
    t=_WIDE,
    ctype=("s32", "f32"),
    valid=_only_f32_selector,
)
def slct(a, b, c, *, ftz, ctype):
    """``a`` where ``c`` is not negative (-0 is not), else ``b``, as also for NaN."""
    if ctype == "f32":
        return a if ge(VALUE[ctype, ftz](c), np.float32(0.0)) else b
    return a if c >= np.int32(0) else b
