"""The ``mma.sync``, ``mma.sp`` and ``wmma.mma`` forms: shapes, operand types, and where each exists.

Source: PTX ISA 9.7.14.2 (matrix shapes), 9.7.14.4.5 (wmma.mma), 9.7.14.5.14 (mma), 9.7.14.6.3 (mma.sp). The tests try all
that is near on ptxas 13.0: C and D of different types, for one, are accepted only in ``m8n8k4`` (C f16, D f32) and ``wmma``.
"""

from __future__ import annotations

from msgspec import Struct

from isa.errors import TcsimError
from isa.tensor.formats import FLOAT_FORMATS, INTEGER_BITS
from isa.tensor.rules import FAMILIES

__all__ = [
    "FORMS", "MMA_FORMS", "SPARSE_FORMS", "WMMA_FORMS", "MmaForm", "NoFormError", "element_bits", "find_form",
    "nearest_forms",
]  # fmt: skip


class NoFormError(TcsimError):
    """No ``mma.sync``, ``mma.sp`` or ``wmma`` instruction has these qualifiers."""


class MmaForm(Struct, frozen=True):
    """One matrix instruction.

    ``instruction`` is ``mma``, ``mma.sp`` (with or without ``::ordered_metadata``, which is an assertion about an operand and
    changes no result), ``wmma``, ``wgmma`` or ``wgmma.sp`` (of :mod:`isa.tensor.wgmma_forms`); ``a``, ``b``, ``c``, ``d`` the
    PTX element types. ``bit_operation`` is ``xor`` or ``and`` for b1 operands. ``a_layout`` and ``b_layout`` matter only to
    ``m8n8k4`` with f16 operands: every other form has its fragments in one order, which for ``mma`` is named ``row`` and
    ``col``, and which ``wmma.load`` produces from either. ``rounding`` is ``rz``, ``rm`` or ``rp`` for f64 operands, and empty
    for ``rn`` and for all other types. ``kind``, ``scale_vec`` (scales in a row of A) and ``scale_type`` are those of
    :mod:`isa.tensor.scaled_forms`. ``sm`` is the first architecture with the form.
    """

    instruction: str
    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    d: str
    sm: int
    satfinite: bool = False
    bit_operation: str = ""
    a_layout: str = "row"
    b_layout: str = "col"
    rounding: str = ""
    kind: str = ""
    scale_vec: int = 0
    scale_type: str = ""

    @property
    def shape(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def family(self) -> str:
        """The operand family, as the rule table spells it."""
        if self.kind:
            return "fp4" if self.kind.startswith("mxf4") else "f8f6f4"
        return FAMILIES[self.a]

    @property
    def is_sparse(self) -> bool:
        """Whether A holds only half of the elements of its rows."""
        return self.instruction.endswith(".sp")

    @property
    def stored_k(self) -> int:
        """Elements of a row of A that are held in registers: K, or half of it where A is sparse."""
        return self.k // 2 if self.is_sparse else self.k

    @property
    def is_884(self) -> bool:
        """Whether this is the f16 form that computes four products at once."""
        return self.instruction == "mma" and self.shape == "m8n8k4" and self.a == "f16"

    @property
    def operand_bits(self) -> int:
        """Bits from an element of A or B to the next: its own, or those of its container."""
        if self.kind:
            return 4 if self.kind.startswith("mxf4") else 8
        return element_bits(self.a)

    def __str__(self) -> str:
        if self.kind:
            scaled = f".block_scale.scale_vec::{self.scale_vec}X" if self.scale_vec else ""
            types = f"{self.d}.{self.a}.{self.b}.{self.c}" + (f".{self.scale_type}" if self.scale_vec else "")
            return f"{self.instruction}.sync.{self.shape}.row.col.kind::{self.kind}{scaled}.{types}"
        ending = f".{self.bit_operation}.popc" if self.bit_operation else ""
        saturate = ".satfinite" if self.satfinite else ""
        rounding = f".{self.rounding}" if self.rounding else ""
        if self.instruction.startswith("wgmma"):
            opcode = self.instruction.replace("wgmma", "wgmma.mma_async")
            return f"{opcode}.sync.aligned.{self.shape}{saturate}.{self.d}.{self.a}.{self.b}{ending}"
        opcode = f"{self.instruction}.sync.{self.shape}.{self.a_layout}.{self.b_layout}"
        return f"{opcode}{rounding}{saturate}.{self.d}.{self.a}.{self.b}.{self.c}{ending}"


def element_bits(ptx_type: str) -> int:
    """The width of an element in a register: 64, 32, 16, 8, 4 or 1."""
    if ptx_type == "f64":
        return 64
    return FLOAT_FORMATS[ptx_type].bits if ptx_type in FLOAT_FORMATS else INTEGER_BITS[ptx_type]


_FP8 = ("e4m3", "e5m2")
_INT8, _INT4 = ("s8", "u8"), ("s4", "u4")
_ROUNDINGS = ("", "rz", "rm", "rp")


def _mma_forms() -> list[MmaForm]:
    forms = []

    def add(shape: tuple[int, int, int], a: str, b: str, c: str, d: str, sm: int, **qualifiers: str | bool) -> None:
        forms.append(MmaForm("mma", *shape, a, b, c, d, sm, **qualifiers))  # type: ignore[arg-type]

    for a_layout in ("row", "col"):
        for b_layout in ("row", "col"):
            for c, d in (("f32", "f32"), ("f16", "f16"), ("f16", "f32")):
                add((8, 8, 4), "f16", "f16", c, d, 70, a_layout=a_layout, b_layout=b_layout)
    for k, sm in ((8, 75), (16, 80)):
        for t in ("f32", "f16"):
            add((16, 8, k), "f16", "f16", t, t, sm)
        add((16, 8, k), "bf16", "bf16", "f32", "f32", 80)
    for k in (4, 8):
        add((16, 8, k), "tf32", "tf32", "f32", "f32", 80)
    for k in (16, 32):
        for a in _FP8:
            for b in _FP8:
                for t in ("f32", "f16"):
                    add((16, 8, k), a, b, t, t, 89)
    for types, shapes in (
        (_INT8, (((8, 8, 16), 75), ((16, 8, 16), 80), ((16, 8, 32), 80))),
        (_INT4, (((8, 8, 32), 75), ((16, 8, 32), 80), ((16, 8, 64), 80))),
    ):
        for shape, sm in shapes:
            for a in types:
                for b in types:
                    for satfinite in (False, True):
                        add(shape, a, b, "s32", "s32", sm, satfinite=satfinite)
    for shape, sm in (((8, 8, 128), 75), ((16, 8, 128), 80), ((16, 8, 256), 80)):
        for operation in ("xor", "and"):
            add(shape, "b1", "b1", "s32", "s32", sm if operation == "xor" else 80, bit_operation=operation)
    for shape, sm in (((8, 8, 4), 80), ((16, 8, 4), 90), ((16, 8, 8), 90), ((16, 8, 16), 90)):
        for rounding in _ROUNDINGS:
            add(shape, "f64", "f64", "f64", "f64", sm, rounding=rounding)
    return forms


def _sparse_forms() -> list[MmaForm]:
    forms = []

    def add(k: int, a: str, b: str, d: str, sm: int, satfinite: bool = False) -> None:
        forms.append(MmaForm("mma.sp", 16, 8, k, a, b, d, d, sm, satfinite))

    for k in (16, 32):
        add(k, "f16", "f16", "f32", 80)
        add(k, "f16", "f16", "f16", 80)
        add(k, "bf16", "bf16", "f32", 80)
    for k in (8, 16):
        add(k, "tf32", "tf32", "f32", 80)
    for a in _FP8:
        for b in _FP8:
            add(64, a, b, "f32", 89)
    for types, sizes in ((_INT8, (32, 64)), (_INT4, (64, 128))):
        for k in sizes:
            for a in types:
                for b in types:
                    for satfinite in (False, True):
                        add(k, a, b, "s32", 80, satfinite)
    return forms


def _wmma_forms() -> list[MmaForm]:
    forms = []
    for m, n in ((16, 16), (32, 8), (8, 32)):
        for c in ("f32", "f16"):
            forms += [MmaForm("wmma", m, n, 16, "f16", "f16", c, d, 70) for d in ("f32", "f16")]
        forms.append(MmaForm("wmma", m, n, 16, "bf16", "bf16", "f32", "f32", 80))
        for t in _INT8:
            forms += [MmaForm("wmma", m, n, 16, t, t, "s32", "s32", 75, satfinite) for satfinite in (False, True)]
    forms.append(MmaForm("wmma", 16, 16, 8, "tf32", "tf32", "f32", "f32", 80))
    forms += [MmaForm("wmma", 8, 8, 4, "f64", "f64", "f64", "f64", 80, rounding=rounding) for rounding in _ROUNDINGS]
    for t in _INT4:
        forms += [MmaForm("wmma", 8, 8, 32, t, t, "s32", "s32", 75, satfinite) for satfinite in (False, True)]
    for operation, sm in (("xor", 75), ("and", 80)):
        forms.append(MmaForm("wmma", 8, 8, 128, "b1", "b1", "s32", "s32", sm, bit_operation=operation))
    return forms


MMA_FORMS = tuple(_mma_forms())
SPARSE_FORMS = tuple(_sparse_forms())
WMMA_FORMS = tuple(_wmma_forms())

FORMS = {"mma": MMA_FORMS, "mma.sp": SPARSE_FORMS, "wmma": WMMA_FORMS}
"""Every form, by instruction."""


def nearest_forms(form: MmaForm, sm: int, count: int = 4) -> str:
    """A few forms of the same instruction that an architecture (10 * major + minor) has, those of the same types first."""

    def likeness(other: MmaForm) -> tuple[int, int, int]:
        same = sum(getattr(other, name) == getattr(form, name) for name in ("a", "b", "c", "d", "satfinite", "bit_operation"))
        close = element_bits(form.a) * form.k - element_bits(other.a) * other.k
        return same, int((other.m, other.n) == (form.m, form.n)), -abs(close)

    there = [other for other in FORMS[form.instruction] if other.sm <= sm]
    best = sorted(there, key=likeness, reverse=True)[:count]
    return ", ".join(str(other) for other in best) or f"none, sm_{sm} has no {form.instruction}"


def find_form(
    instruction: str, shape: str, a: str, b: str, c: str, d: str, satfinite: bool = False, bit_operation: str = "",
    a_layout: str = "row", b_layout: str = "col", rounding: str = "",
) -> MmaForm:  # fmt: skip
    """The form with these qualifiers; layouts are looked at only where they matter. Raises :class:`NoFormError`."""
    if a == "f64" and rounding == "rn":
        rounding = ""
    for form in FORMS[instruction]:
        if (form.shape, form.a, form.b, form.c, form.d) != (shape, a, b, c, d):
            continue
        if (form.satfinite, form.bit_operation, form.rounding) != (satfinite, bit_operation, rounding):
            continue
        if not form.is_884 or (form.a_layout, form.b_layout) == (a_layout, b_layout):
            return form
    modifiers = [f".{word}" for word in ("satfinite" if satfinite else "", bit_operation, rounding) if word]
    section = "9.7.14.6.3" if instruction == "mma.sp" else "9.7.14"
    raise NoFormError(
        f"no {instruction} form has shape {shape}, a {a}, b {b}, c {c}, d {d}{', ' if modifiers else ''}"
        f"{', '.join(modifiers)} (PTX ISA {section}){_nearest(instruction, shape, a, d)}"
    )


def _nearest(instruction: str, shape: str, a: str, d: str) -> str:
    """The shapes that there are for these types, or the types for this shape, as the end of an error message."""
    shapes = sorted({(f.m, f.n, f.k) for f in FORMS[instruction] if (f.a, f.d) == (a, d)})
    if shapes and shape not in {f"m{m}n{n}k{k}" for m, n, k in shapes}:
        return f"; with these types there are {', '.join(f'm{m}n{n}k{k}' for m, n, k in shapes)}"
    types = sorted({f"{f.d}.{f.a}.{f.b}.{f.c}" for f in FORMS[instruction] if f.shape == shape})
    if types:
        return f"; of this shape there are {', '.join(types)}"
    return f"; the shapes are {', '.join(sorted({f.shape for f in FORMS[instruction]}))}"
