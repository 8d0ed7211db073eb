"""PTX floating-point arithmetic, comparison and selection on words, from the text of their opcode (PTX ISA 9.7.3 to 9.7.7)."""

from __future__ import annotations

from fractions import Fraction

from tests.reference import floats
from tests.reference.formats import BF16, F16, F32, F64, MODES, RM, Format
from tests.reference.scalar_integer import Result, Words, by_halves, number

FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}
_QUIET_F64 = 1 << 51


def not_a_number(base: str, f: Format, words: Words) -> int:
    """The NaN that an operation returns: a canonical one, but in f64 a NaN operand, quieted: of several, the second operand
    comes first, then the third; but in divisions the first (read from an H200, driver 580.159)."""
    found = [w for w in (words if base == "div" else words[1:] + words[:1]) if f.is_nan(w)]
    return found[0] | _QUIET_F64 if f is F64 and found else NAN[f.name]


def unbounded(f: Format, value: Fraction, mode: str) -> Fraction:
    """``value`` rounded to the significand of ``f`` as if exponents had no lower end."""
    wide = Format("wide", 14, f.mbits)
    return wide.value(wide.round(value, mode))


def flushed(f: Format, exact: Fraction | None, bits: int | None, mode: str) -> int | None:
    """A result with ``.ftz``: zero if it is subnormal after rounding with unbounded exponent."""
    if bits is None or exact is None or not f.is_finite(bits):
        return bits
    tiny = abs(unbounded(f, exact, mode)) < Fraction(2) ** f.least_exponent
    return bits & f.sign if tiny else bits


def exact_value(base: str, f: Format, words: Words) -> Fraction | None:
    """The exact result of an operation on finite operands."""
    if not all(f.is_finite(w) for w in words):
        return None
    v = [f.value(w) for w in words]
    if base in ("add", "sub"):
        return v[0] + v[1] if base == "add" else v[0] - v[1]
    if base == "mul":
        return v[0] * v[1]
    if base in ("fma", "mad"):
        return v[0] * v[1] + v[2]
    if base in ("div", "rcp"):
        numerator, denominator = (v[0], v[1]) if base == "div" else (Fraction(1), v[0])
        return numerator / denominator if denominator else None
    return None


def rounded(base: str, f: Format, words: Words, mode: str) -> int | None:
    """The correctly rounded result; None for NaN."""
    if base == "sub":
        return floats.add(f, words[0], words[1] ^ f.sign, mode)
    if base in ("add", "mul", "div"):
        return getattr(floats, base)(f, *words, mode)
    if base in ("fma", "mad"):
        return floats.fma(f, *words, mode)
    if base == "rcp":
        return floats.div(f, f.bias << f.mbits, words[0], mode)
    return floats.sqrt(f, words[0], mode)


def arithmetic(base: str, mods: list[str], f: Format, words: Words) -> int:
    """add, sub, mul, fma, mad, div, rcp, sqrt in one format."""
    mode = next((m for m in mods if m in MODES), "rn")
    if "ftz" in mods and f is not F64:
        words = [f.flush(w) for w in words]
    bits = rounded(base, f, words, mode)
    if "ftz" in mods and f is not F64:
        bits = flushed(f, exact_value(base, f, words), bits, mode)
    if "sat" in mods:
        return floats.saturate(f, bits)
    if bits is None:
        return not_a_number(base, f, words)
    return 0 if "relu" in mods and f.negative(bits) else bits


def sign(base: str, mods: list[str], f: Format, word: int) -> int:
    """abs and neg."""
    if "ftz" in mods:
        word = f.flush(word)
    if f.is_nan(word):
        return word | _QUIET_F64 if f is F64 else NAN[f.name]
    return f.magnitude(word) if base == "abs" else word ^ f.sign


def extreme(base: str, mods: list[str], f: Format, a: int, b: int) -> int:
    """min and max."""
    if "ftz" in mods:
        a, b = f.flush(a), f.flush(b)
    if "NaN" in mods and (f.is_nan(a) or f.is_nan(b)):
        return NAN[f.name]
    if f is F64 and f.is_nan(a) and f.is_nan(b):
        return b | _QUIET_F64
    xorsign = "xorsign" in mods
    x, y = (f.magnitude(a), f.magnitude(b)) if xorsign else (a, b)
    bits = floats.least(f, x, y) if base == "min" else floats.greatest(f, x, y)
    if bits is None:
        return NAN[f.name]
    return bits | (a ^ b) & f.sign if xorsign else bits


def testp(kind: str, f: Format, word: int) -> int:
    normal = f.is_finite(word) and not f.is_subnormal(word)
    return int({"finite": f.is_finite(word), "infinite": f.is_infinite(word), "number": not f.is_nan(word),
                "notanumber": f.is_nan(word), "normal": normal, "subnormal": f.is_subnormal(word)}[kind])  # fmt: skip


# ------------------------------------------------------------------------------------------------------- comparison

_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def holds(cmp: str, t: str, ftz: bool, a: int, b: int) -> bool:
    """Whether ``a cmp b`` for words of a type."""
    f = FORMATS.get(t)
    if f is None:
        x, y = Fraction(number(t, a)), Fraction(number(t, b))
    else:
        if ftz:
            a, b = f.flush(a), f.flush(b)
        unordered = f.is_nan(a) or f.is_nan(b)
        if cmp in ("num", "nan") or unordered:
            return unordered == (cmp == "nan" or cmp in ("equ", "neu", "ltu", "leu", "gtu", "geu"))
        x, y = (f.value(w) if f.is_finite(w) else Fraction(2) ** 2000 * (-1 if f.negative(w) else 1) for w in (a, b))
    cmp = _NAMES.get(cmp, cmp)[:2]
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[cmp]


def combined(mods: list[str], outcome: bool, predicate: int) -> bool:
    if "and" in mods:
        return outcome and bool(predicate)
    if "or" in mods:
        return outcome or bool(predicate)
    return outcome != bool(predicate) if "xor" in mods else outcome


def compare(base: str, mods: list[str], words: Words) -> Result:
    """set and setp; the last word is the predicate of the forms that combine."""
    cmp, t, ftz = mods[0], mods[-1], "ftz" in mods
    a, b = words[:2]
    cmp = {"ne": "ne", "neu": "neu"}.get(cmp, cmp)
    if t.endswith("x2"):
        half = t.removesuffix("x2")
        outcomes = [holds(cmp, half, ftz, a >> s & 0xFFFF, b >> s & 0xFFFF) for s in (0, 16)]
    else:
        outcomes = [holds(cmp, t, ftz, a, b)]
        if base == "setp":
            outcomes.append(not outcomes[0])
    met = [combined(mods, outcome, words[-1]) for outcome in outcomes]
    if base == "setp":
        return {"p": int(met[0]), "q": int(met[1])}
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80}
    dtype = mods[-2]
    if t.endswith("x2"):
        return {"d": sum(ones.get(dtype, 0xFFFF) << 16 * i for i, yes in enumerate(met) if yes)}
    return {"d": ones.get(dtype, (1 << int(dtype[1:])) - 1 if dtype not in ones else 0) if met[0] else 0}


def select(base: str, mods: list[str], words: Words) -> int:
    """selp and slct."""
    a, b, c = words
    if base == "selp":
        return a if c else b
    if mods[-1] == "s32":
        return a if number("s32", c) >= 0 else b
    return a if holds("ge", "f32", "ftz" in mods, c, 0) else b


def evaluate(base: str, mods: list[str], t: str, words: Words) -> Result:
    """An arithmetic instruction of a floating type; pairs half by half."""
    if base == "testp":
        return {"p": testp(mods[0], FORMATS[t], words[0])}
    if t.endswith("x2"):
        half = t.removesuffix("x2")
        return {"d": by_halves(lambda *w: evaluate(base, mods, half, list(w))["d"], *words)}
    f = FORMATS[t]
    if base == "copysign":
        return {"d": words[0] & f.sign | f.magnitude(words[1])}
    if base in ("abs", "neg"):
        return {"d": sign(base, mods, f, words[0])}
    if base in ("min", "max"):
        return {"d": extreme(base, mods, f, words[0], words[1])}
    return {"d": arithmetic(base, mods, f, words)}


__all__ = ["FORMATS", "NAN", "RM", "compare", "evaluate", "flushed", "holds", "select"]
