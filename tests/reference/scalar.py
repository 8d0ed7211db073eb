"""Every scalar PTX instruction but the approximate ones on words: :func:`evaluate`, from the text of the opcode alone."""

from __future__ import annotations

from tests.reference import scalar_float, scalar_integer, scalar_new
from tests.reference.integers import mask
from tests.reference.scalar_convert import convert
from tests.reference.scalar_integer import Result, Words

_BITS = {"popc", "clz", "brev", "bfind", "fns", "bfe", "bfi", "szext", "bmsk"}
_LOGIC = {"and", "or", "xor", "not", "cnot", "lop3", "shf", "shl", "shr", "prmt"}
_COUNTED = {"popc", "clz", "bfind"}


def evaluate(opcode: str, words: Words) -> Result:
    """What an instruction writes: words by the names ``d``, ``p`` and ``q``, as in the instruction templates.

    ``words``: the operands in the order of the text, predicates as 0 or 1; a carry flag that is read comes last.
    """
    base, *mods = opcode.split(".")
    t = mods[-1]
    if scalar_new.is_new(base, mods, len(words)):
        return {"d": scalar_new.evaluate(base, mods, words)}
    if base == "cvt":
        return {"d": convert(mods, words)}
    if base in ("set", "setp"):
        return scalar_float.compare(base, mods, words)
    if base in ("selp", "slct"):
        return {"d": scalar_float.select(base, mods, words)}
    if base in ("dp4a", "dp2a"):
        return {"d": scalar_integer.dot(base, mods, words) & mask(32)}
    if base in _LOGIC:
        return scalar_integer.logic(base, mods, t, words)
    if base in _BITS:
        return {"d": scalar_integer.bits_of(base, mods, t, words) & mask(32 if base in _COUNTED else int(t[1:]))}
    if "cc" in mods or base in ("addc", "subc", "madc"):
        return scalar_integer.carrying(base, mods, t, words)
    if t.removesuffix("x2") in scalar_float.FORMATS:
        return scalar_float.evaluate(base, mods, t, words)
    if t.endswith("x2"):
        return {"d": scalar_integer.packed(base, mods, t, words)}
    width = int(t[1:]) * (2 if "wide" in mods else 1)
    return {"d": scalar_integer.arithmetic(base, mods, t, words) & mask(width)}
