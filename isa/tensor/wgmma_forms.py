"""The ``wgmma.mma_async`` forms: shapes and operand types.

Source: PTX ISA 9.7.15.2 (matrix shapes), 9.7.15.5.2 and 9.7.15.6.4 (the instructions). The tests try all that is near on
ptxas 13.0. Not part of a form: A from registers or from shared memory, negated and transposed operands.
"""

from __future__ import annotations

from functools import cache

from isa.tensor.forms import MmaForm, NoFormError

__all__ = ["WGMMA_FORMS", "find_wgmma_form", "transposable", "wgmma_columns", "wgmma_target"]

_FLOAT_COLUMNS = tuple(range(8, 257, 8))
_INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))

_FP8, _INT8 = ("e4m3", "e5m2"), ("s8", "u8")

wgmma_target = "sm_90a"
"""The only target with these instructions: neither ``sm_90`` nor a later one has them (PTX ISA 9.7.15)."""


def wgmma_columns(d: str) -> tuple[int, ...]:
    """The sizes of N: multiples of 8 up to 256, with integer results above 32 of 16 (PTX ISA 9.7.15.2)."""
    return _INTEGER_COLUMNS if d == "s32" else _FLOAT_COLUMNS


def transposable(ptx_type: str) -> bool:
    """Whether operands of a type may lie in shared memory with rows of A (columns of B) side by side: those of 16 bits
    (PTX ISA 9.7.15.5.2)."""
    return ptx_type in ("f16", "bf16")


def _kinds() -> list[tuple[int, str, str, str, bool, str]]:
    """(K, D, A, B, satfinite, bit operation) of the dense forms."""
    kinds = [(16, "f32", "f16", "f16", False, ""), (16, "f16", "f16", "f16", False, "")]
    kinds += [(16, "f32", "bf16", "bf16", False, ""), (8, "f32", "tf32", "tf32", False, "")]
    kinds += [(32, d, a, b, False, "") for d in ("f32", "f16") for a in _FP8 for b in _FP8]
    kinds += [(32, "s32", a, b, satfinite, "") for a in _INT8 for b in _INT8 for satfinite in (False, True)]
    return [*kinds, (256, "s32", "b1", "b1", False, "and")]


def _forms() -> list[MmaForm]:
    forms = []
    for k, d, a, b, satfinite, operation in _kinds():
        for n in wgmma_columns(d):
            forms.append(MmaForm("wgmma", 64, n, k, a, b, d, d, 90, satfinite, operation))
            if a != "b1":
                forms.append(MmaForm("wgmma.sp", 64, n, 2 * k, a, b, d, d, 90, satfinite))
    return forms


WGMMA_FORMS = tuple(_forms())


@cache
def _by_qualifiers() -> dict[tuple[str, str, str, str, str, bool, str], MmaForm]:
    return {(f.instruction, f.shape, f.d, f.a, f.b, f.satfinite, f.bit_operation): f for f in WGMMA_FORMS}


def find_wgmma_form(
    shape: str, d: str, a: str, b: str, *, sparse: bool = False, satfinite: bool = False, bit_operation: str = ""
) -> MmaForm:
    """The form with these qualifiers. Raises :class:`~isa.tensor.forms.NoFormError` with what there is instead."""
    instruction = "wgmma.sp" if sparse else "wgmma"
    form = _by_qualifiers().get((instruction, shape, d, a, b, satfinite, bit_operation))
    if form is not None:
        return form
    section = "9.7.15.6.4" if sparse else "9.7.15.5.2"
    modifiers = "".join(f", .{word}" for word in ("satfinite" if satfinite else "", bit_operation) if word)
    raise NoFormError(
        f"no {instruction.replace('wgmma', 'wgmma.mma_async')} has shape {shape}, d {d}, a {a}, b {b}{modifiers} "
        f"(PTX ISA {section}){_nearest(instruction, shape, d, a, b)}"
    )


def _nearest(instruction: str, shape: str, d: str, a: str, b: str) -> str:
    """The shapes that there are for these types, or the types for this shape, as the end of an error message."""
    forms = [f for f in WGMMA_FORMS if f.instruction == instruction]
    same = [f for f in forms if (f.d, f.a, f.b) == (d, a, b)]
    if same and shape not in {f.shape for f in same}:
        step = "multiples of 16 (8 up to 32)" if d == "s32" else "multiples of 8"
        return f"; with these types there is m64nNk{same[0].k}, N from 8 to 256 in {step}"
    types = sorted({f"{f.d}.{f.a}.{f.b}" for f in forms if f.shape == shape})
    if types:
        return f"; of this shape there are {', '.join(types)}"
    return f"; the shapes are m64nNk with k {', '.join(str(k) for k in sorted({f.k for f in forms}))}"
