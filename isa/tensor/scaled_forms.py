"""The ``mma`` forms that name a ``.kind``: operands of 8, 6 and 4 bits in all mixes, with and without block scales.

A row of A is cut into ``scale_vec`` blocks, each with a scale, a power of two (``ue8m0``) or a small float (``ue4m3``); so is a
column of B. ``kind::f8f6f4`` has no scales. In the kinds with ``f8f6f4`` every element is in a container of 8 bits: 6 bits in
its low ones, 4 bits in its middle ones, as :func:`container_shift` says. ``kind::mxf4`` and ``kind::mxf4nvf4`` pack 4 bits.

**Where scales are.** One 32-bit operand holds those of A, a byte each, and one those of B; {byte-id, thread-id} select. Of
each four lanes, thread-id-a selects the first or the last two: of a pair, the first holds the scales of row g, the second
those of row g + 8. thread-id-b selects the lane that holds the scales of column g. byte-id is the byte of the first scale,
the others follow: any for 1X, 0 or 2 for 2X, 0 for 4X.

Source: PTX ISA 9.7.14.3 (block scaling), 9.7.14.5.14 (mma), 9.7.14.6.3 (mma.sp); which combinations there are, and the ranges
of the selectors, from ptxas 13.0 for sm_120a (the tests ask it for all that is near). sm_100a has ``kind::f8f6f4`` with 8-bit
operands only, another name of what goes without.
"""

from __future__ import annotations

import numpy as np

from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.forms import MmaForm, NoFormError

__all__ = [
    "KINDS", "KIND_FORMS", "SMALL_TYPES", "container_shift", "find_kind_form", "scale_columns", "scale_lanes", "selectors",
]  # fmt: skip

SMALL_TYPES = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
KINDS = ("f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4")


def _kind_forms() -> list[MmaForm]:
    forms = []

    def add(k: int, a: str, b: str, d: str, kind: str, scale_vec: int = 0, scale_type: str = "") -> None:
        for instruction, factor in (("mma", 1), ("mma.sp", 2)):
            forms.append(
                MmaForm(instruction, 16, 8, k * factor, a, b, d, d, 120, kind=kind, scale_vec=scale_vec, scale_type=scale_type)
            )

    for a in SMALL_TYPES:
        for b in SMALL_TYPES:
            add(32, a, b, "f32", "f8f6f4")
            add(32, a, b, "f16", "f8f6f4")
            add(32, a, b, "f32", "mxf8f6f4", 1, "ue8m0")
    add(64, "e2m1", "e2m1", "f32", "mxf4", 2, "ue8m0")
    add(64, "e2m1", "e2m1", "f32", "mxf4nvf4", 2, "ue8m0")
    add(64, "e2m1", "e2m1", "f32", "mxf4nvf4", 4, "ue4m3")
    return forms


KIND_FORMS = tuple(_kind_forms())
"""Every form of sm_120a with a ``.kind`` that has no name without it."""


def find_kind_form(
    instruction: str, kind: str, shape: str, a: str, b: str, c: str, d: str, scale_vec: int = 0, scale_type: str = ""
) -> MmaForm:
    """The form with these qualifiers; a ``scale_vec`` of 0 stands for the one that the kind has. Raises
    :class:`~isa.tensor.forms.NoFormError`."""
    near = [form for form in KIND_FORMS if (form.instruction, form.kind) == (instruction, kind)]
    for form in near:
        if (form.shape, form.a, form.b, form.c, form.d, form.scale_type) != (shape, a, b, c, d, scale_type):
            continue
        if scale_vec == form.scale_vec or (scale_vec == 0 and kind != "mxf4nvf4"):
            return form
    scaled = f", scales {scale_type or 'missing'}, scale_vec::{scale_vec}X" if kind.startswith("mx") else ""
    there = sorted({_text(form) for form in near})
    raise NoFormError(
        f"no {instruction} form with kind::{kind} has shape {shape}, a {a}, b {b}, c {c}, d {d}{scaled} (PTX ISA 9.7.14.5.14); "
        f"there are {'; '.join(there)}"
    )


def _text(form: MmaForm) -> str:
    types = "f32 or f16" if form.kind == "f8f6f4" else "f32"
    operands = f"A and B of {', '.join(SMALL_TYPES)}" if form.operand_bits == 8 else "A and B of e2m1"
    scales = f", {form.scale_type} with scale_vec::{form.scale_vec}X" if form.scale_vec else ""
    return f"{form.shape}, {operands}, C and D of {types}{scales}"


def container_shift(form: MmaForm, operand: str) -> int:
    """How far the lowest bit of an element of ``a`` or ``b`` is from that of its container."""
    bits = FLOAT_FORMATS[form.a if operand == "a" else form.b].bits
    return 2 if bits == 4 and form.operand_bits == 8 else 0


def selectors(form: MmaForm, operand: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The byte-ids and the thread-ids that the scales of ``a`` or ``b`` may have."""
    return tuple(range(0, 4, max(form.scale_vec, 1))), tuple(range(2 if operand == "a" else 4))


def scale_lanes(form: MmaForm, operand: str, thread_id: int) -> np.ndarray:
    """The lane that holds the scales of each row of A, or of each column of B."""
    if operand == "a":
        rows = np.arange(form.m)
        return np.asarray(4 * (rows % 8) + 2 * thread_id + rows // 8)
    return np.asarray(4 * np.arange(form.n) + thread_id)


def scale_columns(form: MmaForm, operand: str, words: np.ndarray, byte_id: int, thread_id: int) -> np.ndarray:
    """The scales ``[row of A or column of B, block]`` (codes) in a scale operand ``[lane]``."""
    chosen = words[scale_lanes(form, operand, thread_id)].astype(np.uint32)
    shifts = 8 * (byte_id + np.arange(form.scale_vec, dtype=np.uint32))
    return np.asarray(chosen[:, None] >> shifts & np.uint32(0xFF))
