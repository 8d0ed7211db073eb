"""Instructions that spread matrices over lanes, by name: short (``mma.m16n8k16.f16``) or as PTX spells them.

Of a short name, whatever is left out is the usual: A and B of one type, the widest accumulator, no ``.satfinite``.
"""

from __future__ import annotations

import difflib
import re
from functools import cache

from msgspec import Struct

from isa import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.spec.registry import find
from isa.tensor import MMA_FORMS, SPARSE_FORMS, WMMA_FORMS, MmaForm, NoFormError
from isa.tensor.formats import FLOAT_FORMATS, INTEGER_BITS
from isa.tensor.forms import FORMS, element_bits
from isa.tensor.scaled_forms import KIND_FORMS
from isa.tensor.wgmma_forms import WGMMA_FORMS

__all__ = ["MatrixInstruction", "all_names", "find_matrix_instruction", "ptx_name", "short_name"]

_TYPES = {*FLOAT_FORMATS, *INTEGER_BITS, "f64", "s32"}
_SHAPE = re.compile(r"m\d+n\d+k\d+$")
_MOVES = {"ldmatrix": ("x1", "x2", "x4"), "stmatrix": ("x1", "x2", "x4"), "movmatrix": ("x1",)}
_ROUNDINGS = ("rz", "rm", "rp")
_SHOWN_COLUMNS = (8, 64, 256)
_ACCUMULATORS = ("f16", "f32")
_SAY_NOTHING = {"sync", "aligned", "popc", "rn", "b16", "m8n8", "global", "shared", "shared::cta"}
"""Modifiers that change no layout."""


class MatrixInstruction(Struct, frozen=True):
    """An instruction with fragments.

    ``name`` is the short one, ``ptx`` the full opcode. ``form``: of ``mma``, ``mma.sp``, ``wmma`` and ``wgmma``. Of the others
    (``ldmatrix``, ``stmatrix``, ``movmatrix``) ``move`` is the base opcode, ``count`` the number of 8x8 matrices and
    ``transposed`` whether ``.trans`` is given. ``only``: the one operand that a ``wmma.load`` or ``wmma.store`` has.
    """

    name: str
    ptx: str
    form: MmaForm | None = None
    move: str = ""
    count: int = 1
    transposed: bool = False
    only: str = ""


def short_name(form: MmaForm) -> str:
    """``mma.m16n8k16.f32.f16.f16.f32``: instruction, shape, and the types of D, A, B and C."""
    if form.instruction.startswith("wgmma"):
        return str(form).replace(".mma_async", "").replace(".sync.aligned", "")
    layouts = f".{form.a_layout}.{form.b_layout}" if form.is_884 else ""
    return f"{form.instruction}.{form.shape}{layouts}{_modifiers(form)}.{form.d}.{form.a}.{form.b}.{form.c}{_popc(form)}"


def ptx_name(form: MmaForm) -> str:
    """The opcode as PTX spells it; of ``wmma``, which takes either, with A by rows and B by columns."""
    if form.instruction.startswith("wgmma"):
        return str(form)
    if form.instruction == "wmma":
        types = f"{form.d}.{form.c}" if form.a == "f16" else f"{form.d}.{form.a}.{form.b}.{form.c}"
        rounding, saturate = f".{form.rounding}" * bool(form.rounding), ".satfinite" * form.satfinite
        return f"wmma.mma{_popc(form)}.sync.aligned.row.col.{form.shape}{rounding}.{types}{saturate}"
    layouts = f"{form.a_layout}.{form.b_layout}"
    opcode = f"{form.instruction}.sync.aligned.{form.shape}.{layouts}{_modifiers(form)}"
    return f"{opcode}.{form.d}.{form.a}.{form.b}.{form.c}{_popc(form)}"


def _modifiers(form: MmaForm) -> str:
    return f".{form.rounding}" * bool(form.rounding) + ".satfinite" * form.satfinite


def _popc(form: MmaForm) -> str:
    return f".{form.bit_operation}.popc" if form.bit_operation else ""


@cache
def all_names() -> tuple[str, ...]:
    """The short names of all instructions with fragments; of ``wgmma`` with a few sizes."""
    moves = []
    for move, counts in _MOVES.items():
        for count in counts:
            moves += [f"{move}.trans"] if move == "movmatrix" else [f"{move}.{count}", f"{move}.{count}.trans"]
    wgmma = (form for form in WGMMA_FORMS if form.n in _SHOWN_COLUMNS)
    return (*(short_name(form) for form in (*MMA_FORMS, *SPARSE_FORMS, *WMMA_FORMS, *wgmma)), *moves)


def find_matrix_instruction(text: str) -> MatrixInstruction:
    """What a name means. Raises NoFormError, with the nearest names that there are."""
    opcode = text.strip().removesuffix(";").strip()
    base, *words = opcode.split(".")
    if "sync" in words:
        forms, reason = find(opcode)
        if not forms and base in (*FORMS, *_MOVES):
            raise NoFormError(f"{text}: {reason}")
    if base in _MOVES:
        return _move(text, base, words)
    if base == "mma" and words and words[0].partition("::")[0] == "sp":
        ordered = "::ordered_metadata" in words[0]
        found = _form(text, "mma.sp", words[1:])
        return _ordered(found) if ordered else found
    if base in ("mma", "wmma"):
        return _form(text, base, words)
    if base == "wgmma":
        words = [word for word in words if word != "mma_async"]
        sparse = words[:1] == ["sp"]
        return _form(text, "wgmma.sp" if sparse else base, words[sparse:])
    raise NoFormError(f"{text!r} has no fragments (PTX ISA 9.7.14 is about those that have); nearest: {_nearest(text)}")


def _nearest(text: str) -> str:
    """A few names that share most words with this one, then most letters."""
    words = set(text.split("."))
    short = text.replace(".sync.aligned", "").replace(".row.col", "")

    def likeness(name: str) -> tuple[int, float]:
        return len(words & set(name.split("."))), difflib.SequenceMatcher(None, short, name).ratio()

    return ", ".join(sorted(all_names(), key=likeness, reverse=True)[:4])


def _ordered(found: MatrixInstruction) -> MatrixInstruction:
    ptx = found.ptx.replace("mma.sp.", "mma.sp::ordered_metadata.", 1)
    return MatrixInstruction(found.name, ptx, form=found.form)


# ------------------------------------------------------------------------------------------------ mma, mma.sp and wmma


def _form(text: str, instruction: str, words: list[str]) -> MatrixInstruction:
    """Read the words behind ``mma``, ``mma.sp`` or ``wmma``."""
    only, stored = "", ""
    if instruction == "wmma" and words[:1] in (["load"], ["store"]) and len(words) > 1 and words[1] in "abcd":
        stored, only, words = words[0], words[1], words[2:]
    shapes = [word for word in words if _SHAPE.match(word)]
    types = [word for word in words if word in _TYPES]
    layouts = [word for word in words if word in ("row", "col")]
    if any(word.startswith("kind::") for word in words) and len(shapes) == 1:
        return _kind(text, instruction, words, shapes[0], types)
    other = [w for w in words if w not in (*shapes, *types, *layouts) and w not in _SAY_NOTHING and w != "mma"]
    unknown = [w for w in other if w not in ("satfinite", "xor", "and", *_ROUNDINGS)]
    if len(shapes) != 1 or unknown:
        what = f".{unknown[0]} is not a modifier of it" if unknown else "it needs one shape, such as m16n8k16"
        raise NoFormError(f"{text}: {what} (PTX ISA 9.7.14); nearest: {_nearest(text)}")
    if only:
        return _tile(text, stored, only, shapes[0], types)
    known = FORMS.get(instruction) or tuple(form for form in WGMMA_FORMS if form.instruction == instruction)
    forms = [form for form in known if form.shape == shapes[0] and _agrees(form, other, layouts)]
    meant = [form for form in forms if _has_types(form, types)]
    if not meant:
        raise NoFormError(f"{text}: there is no such form (PTX ISA 9.7.14); nearest: {_nearest(text)}")
    form = min(meant, key=_unusual)
    return MatrixInstruction(short_name(form), ptx_name(form), form=form)


def _kind(text: str, instruction: str, words: list[str], shape: str, types: list[str]) -> MatrixInstruction:
    """``mma`` and ``mma.sp`` with a ``.kind``: D, A, B and C, or those that the form with this shape and A has."""
    kind = next(word for word in words if word.startswith("kind::")).removeprefix("kind::")
    scales = next((int(word[11]) for word in words if re.fullmatch(r"scale_vec::\dX", word)), 0)
    known = (form for form in KIND_FORMS if (form.instruction, form.kind, form.shape) == (instruction, kind, shape))
    for form in known:
        if scales not in (0, form.scale_vec) or not _has_types(form, types[:4]):
            continue
        vector = f".block_scale.scale_vec::{form.scale_vec}X" if form.scale_vec else ""
        types_text = f"{form.d}.{form.a}.{form.b}.{form.c}"
        base = instruction.replace("mma.sp", "mma.sp::ordered_metadata")  # which these forms must have
        opcode = f"{base}.sync.aligned.{shape}.row.col.kind::{kind}{vector}.{types_text}"
        scaled = f".{form.scale_type}" if form.scale_type else ""
        return MatrixInstruction(f"{instruction}.{shape}.kind::{kind}.{types_text}", opcode + scaled, form=form)
    raise NoFormError(f"{text}: there is no such form with kind::{kind} (PTX ISA 9.7.14.5.14)")


def _agrees(form: MmaForm, other: list[str], layouts: list[str]) -> bool:
    """Whether a form has the modifiers that a name has, and the layouts where these matter."""
    operations = [word for word in other if word in ("xor", "and")]
    roundings = [word for word in other if word in _ROUNDINGS]
    if "satfinite" in other and not form.satfinite:
        return False
    if roundings not in ([], [form.rounding]) or operations not in ([], [form.bit_operation]):
        return False
    if form.instruction == "wmma" or not layouts:
        return not (form.instruction.startswith("wgmma") and layouts)
    return layouts == [form.a_layout, form.b_layout]


def _has_types(form: MmaForm, types: list[str]) -> bool:
    """One type is A's; two are D's and A's, or as ``wmma`` with f16 operands has it D's and C's; three leave out C."""
    if len(types) == 2 and form.instruction == "wmma" and set(types) <= set(_ACCUMULATORS):
        return form.a == "f16" and types == [form.d, form.c]
    wanted = {1: [form.a], 2: [form.d, form.a], 3: [form.d, form.a, form.b], 4: [form.d, form.a, form.b, form.c]}
    return types == wanted.get(len(types))


def _unusual(form: MmaForm) -> tuple[object, ...]:
    """Sorts the usual form of several first."""
    return (
        form.a != form.b,
        form.c != form.d,
        -element_bits(form.d),
        form.satfinite,
        form.bit_operation == "and",
        form.rounding,
        (form.a_layout, form.b_layout) != ("row", "col"),
    )


def _tile(text: str, stored: str, operand: str, shape: str, types: list[str]) -> MatrixInstruction:
    """``wmma.load`` and ``wmma.store``: the fragment depends only on operand, shape and type."""
    if len(types) == 1:
        for form in WMMA_FORMS:
            if form.shape == shape and getattr(form, operand) == types[0]:
                opcode = f"wmma.{stored}.{operand}.sync.aligned.{'col' if operand == 'b' else 'row'}.{shape}.{types[0]}"
                return MatrixInstruction(f"wmma.{stored}.{operand}.{shape}.{types[0]}", opcode, form=form, only=operand)
    raise NoFormError(
        f"{text}: no wmma operand {operand} has this shape and type (PTX ISA 9.7.14.4); nearest: {_nearest(text)}"
    )


# -------------------------------------------------------------------------------------- ldmatrix, stmatrix, movmatrix


def _move(text: str, base: str, words: list[str]) -> MatrixInstruction:
    counts = [word for word in words if word in ("x1", "x2", "x4")]
    unknown = [w for w in words if w not in _SAY_NOTHING and w not in (*counts, "trans")]
    if base == "movmatrix":
        if unknown or counts:
            raise NoFormError(f"{text}: movmatrix is movmatrix.sync.aligned.m8n8.trans.b16 only (PTX ISA 9.7.14.5.17)")
        return MatrixInstruction("movmatrix.trans", "movmatrix.sync.aligned.m8n8.trans.b16", move=base)
    if unknown or len(counts) != 1:
        what = f".{unknown[0]} is not a modifier of it" if unknown else "say how many matrices: .x1, .x2 or .x4"
        there = ", ".join(name for name in all_names() if name.startswith(base))
        raise NoFormError(f"{text}: {what} (PTX ISA 9.7.14.5.15); there are {there}")
    trans = ".trans" if "trans" in words else ""
    name, ptx = f"{base}.{counts[0]}{trans}", f"{base}.sync.aligned.m8n8.{counts[0]}{trans}.shared.b16"
    return MatrixInstruction(name, ptx, move=base, count=int(counts[0][1]), transposed=bool(trans))
