"""Tensor-core instructions by name: what a form is called, what it takes, and whether a device has it.

A name is short (``mma.m16n8k16.f32.f16.f16.f32``: instruction, shape, types of D, A, B, C) or as PTX spells it
(``mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32``). ``wgmma`` leaves out the type of C, as PTX does:
``wgmma.m64n128k16.f32.f16.f16``.
"""

from __future__ import annotations

import difflib
import re
from functools import cache

from msgspec import Struct

from isa.tensor import MMA_FORMS, MmaForm, NoFormError, NoRuleError, Rule, make_plan
from isa.tensor.formats import FLOAT_FORMATS, INTEGER_BITS
from isa.tensor.forms import FORMS
from isa.tensor.rules import ARCHITECTURES
from isa.tensor.scaled_forms import KIND_FORMS
from isa.tensor.scaled_plans import make_kind_plan
from isa.tensor.wgmma_forms import WGMMA_FORMS
from isa.tensor.wgmma_plans import wgmma_rule
from tcsim.arch import find_arch
from tcsim.device import Device, current_device
from tcsim.errors import DeviceError

__all__ = [
    "TensorInstruction",
    "device_sm",
    "find_form_by_name",
    "find_instruction",
    "instruction_names",
    "instruction_of",
    "nearest_names",
]

_TYPES = {*FLOAT_FORMATS, *INTEGER_BITS, "f64"}
_SAID_ANYWAY = {"sync", "aligned", "mma_async", "popc", "rn"}
"""Modifiers that tell no two forms apart (``.rn`` is what f64 does where nothing is said)."""

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")


class TensorInstruction(Struct, frozen=True):
    """An instruction on an architecture.

    ``name`` is the short one. ``k`` products go into each output; ``a``, ``b`` are the PTX types of the operands, ``c`` and
    ``d`` of the accumulator before and after. ``rule`` is the row of the table of arithmetic (:mod:`isa.tensor.rules`).
    ``own`` is its form; ``form`` too, but for integers, whose sums are exact whatever the order, the ``mma`` form that computes
    the same of the elements that A stores.
    """

    name: str
    sm: int
    k: int
    a: str
    b: str
    c: str
    d: str
    rule: Rule
    form: MmaForm
    own: MmaForm

    @property
    def whole(self) -> int:
        """Elements of a column of B that an instruction takes: ``k``, or of a sparse A twice that."""
        return self.own.k

    @property
    def block(self) -> int:
        """Elements of a row of A, or a column of B, that have one scale; 0 where there are no scales."""
        return self.own.k // self.own.scale_vec if self.own.scale_vec else 0

    @property
    def satfinite(self) -> bool:
        return self.form.satfinite

    @property
    def rounding(self) -> str:
        """Of f64: ``rn``, ``rz``, ``rm`` or ``rp``."""
        return self.form.rounding or "rn"


# --------------------------------------------------------------------------------------------------------- names


def _short(form: MmaForm) -> str:
    if form.kind:
        return str(form).replace(".sync.", ".").replace(".row.col.", ".")
    saturate = ".satfinite" if form.satfinite else ""
    rounding = f".{form.rounding}" if form.rounding else ""
    if form.instruction.startswith("wgmma"):
        return str(form).replace(".mma_async", "").replace(".sync.aligned", "")
    ending = f".{form.bit_operation}.popc" if form.bit_operation else ""
    layouts = f".{form.a_layout}.{form.b_layout}" if form.is_884 else ""
    return f"{form.instruction}.{form.shape}{layouts}{rounding}{saturate}.{form.d}.{form.a}.{form.b}.{form.c}{ending}"


Key = tuple[str, str, tuple[str, ...], frozenset[str], str]


def _key(text: str) -> Key | None:
    """What tells instructions apart: base, shape, types, other modifiers, and the layouts where they matter."""
    base, *words = text.strip().removesuffix(";").split(".")
    words = [word for word in words if word != "mma_async"]
    if base in ("mma", "wgmma") and words and words[0] in ("sp", "sp::ordered_metadata"):
        base, words = f"{base}.sp", words[1:]
    if base == "wmma" and "mma" in words:
        words.remove("mma")
    shape = next((word for word in words if _SHAPE.match(word)), "")
    types = [word for word in words if word in _TYPES]
    layouts = [word for word in words if word in ("row", "col")]
    rest = frozenset(words) - {shape, *types, *layouts} - _SAID_ANYWAY
    if base == "wmma" and len(types) == 2:  # f16 operands are not named: only d and c are
        types = [types[0], "f16", "f16", types[1]]
    if base == "wmma":
        layouts = []
    which = ".".join(layouts or ["row", "col"])
    if base.startswith("wgmma") and len(types) == 4 and types[0] == types[3]:
        types = types[:3]  # C has the type of D and is not named
    if base not in ("mma", "mma.sp", "wmma", "wgmma", "wgmma.sp") or not shape:
        return None
    return base, shape, tuple(types), rest, which


@cache
def _forms() -> dict[Key, MmaForm]:
    found: dict[Key, MmaForm] = {}
    for form in (*(form for forms in FORMS.values() for form in forms), *WGMMA_FORMS, *KIND_FORMS):
        key = _key(_short(form))
        assert key is not None
        found[key] = form
        if form.scale_vec and form.kind != "mxf4nvf4":  # one number of scales, which PTX lets one leave out
            base, shape, types, rest, which = key
            found[base, shape, types, rest - {f"scale_vec::{form.scale_vec}X"}, which] = form
    return found


def find_form_by_name(text: str) -> MmaForm | None:
    """The form of this name, short or as PTX spells it; None if there is none."""
    key = _key(text)
    return None if key is None else _forms().get(key)


def instruction_names(sm: int | None = None) -> list[str]:
    """The short names of all instructions, or of those that an architecture has. Of ``wgmma`` with n 64."""
    shown = [form for form in dict.fromkeys(_forms().values()) if sm is None or _has(form, sm)]
    return [_short(form) for form in shown if not _is_wgmma(form) or form.n == 64]


def _has(form: MmaForm, sm: int) -> bool:
    """Whether an architecture has a form: ``wgmma`` is of sm_90a, and ``.kind`` of sm_120a and its family."""
    if _is_wgmma(form):
        return sm == 90
    return sm // 10 == form.sm // 10 if form.kind else sm >= form.sm


def _is_wgmma(form: MmaForm) -> bool:
    return form.instruction.startswith("wgmma")


def device_sm(device: str | Device | None) -> tuple[str, int]:
    """The name of a device, without one of the current device, and its architecture (10 * major + minor).

    Any device or alias of ``tcsim arch list`` will do, and as ``sm_NN`` any architecture that the table of tensor-core
    arithmetic covers. Raises DeviceError.
    """
    if device is None:
        device = current_device()
    if isinstance(device, Device):
        return device.name, device.arch.sm
    target = re.fullmatch(r"sm_?(\d+)[af]?", device.strip().lower())
    if target and any(sm <= int(target[1]) < sm // 10 * 10 + 10 for sm in ARCHITECTURES):
        return f"sm_{target[1]}", int(target[1])
    try:
        arch = find_arch(device)
    except DeviceError as problem:
        known = ", ".join(f"sm_{sm}" for sm in ARCHITECTURES)
        raise DeviceError(f"{problem}; tensor-core arithmetic is known for {known}") from None
    return arch.name, arch.sm


# ------------------------------------------------------------------------------------------------------------ finding


def find_instruction(text: str, device: str | Device | None = None) -> TensorInstruction:
    """The instruction called ``text`` on a device, without one on the current device.

    Raises NoFormError, with the nearest that there are, for one that does not exist or that the device does not have;
    NoRuleError where its arithmetic is not known; DeviceError for an unknown device.
    """
    name, sm = device_sm(device)
    form = find_form_by_name(text)
    if form is None:
        scalar = "; what a scalar instruction returns, tcsim.evaluate says (tcsim eval)" if _key(text) is None else ""
        near = nearest_names(text, sm)
        raise NoFormError(f"no tensor-core instruction is called {text!r} (PTX ISA 9.7.14); nearest: {near}{scalar}")
    if _has(form, sm):
        return instruction_of(form, sm)
    if _is_wgmma(form):
        why = f"exists on sm_90a only, and {name} is sm_{sm} (PTX ISA 9.7.15)"
        near = nearest_names(f"{_short(form)}.{form.d}".replace("wgmma", "mma"), sm)
    elif form.kind and sm > form.sm - form.sm % 10:
        why, near = f"is of sm_120a and its family, and {name} is sm_{sm} (PTX ISA 9.7.14)", nearest_names(_short(form), sm)
    else:
        why, near = f"needs sm_{form.sm} or later, and {name} is sm_{sm} (PTX ISA 9.7.14)", nearest_names(_short(form), sm)
    raise NoFormError(f"{_short(form)} {why}; nearest there: {near}")


def instruction_of(form: MmaForm, sm: int) -> TensorInstruction:
    """A form on an architecture that has it; of a sparse one, what it does to the elements that A stores."""
    if _is_wgmma(form):
        rule = wgmma_rule(form, sm)
    else:
        rule = (make_kind_plan(form, sm) if form.kind else make_plan(form, sm)).rule
    return TensorInstruction(_short(form), sm, form.stored_k, form.a, form.b, form.c, form.d, rule, _as_mma(form), form)


def _as_mma(form: MmaForm) -> MmaForm:
    """The ``mma`` form with the outputs of a ``wmma`` or ``wgmma`` form whose arithmetic has no steps (integers, f64); else
    itself."""
    if form.instruction in ("mma", "mma.sp") or form.a not in ("f64", *INTEGER_BITS):
        return form
    for other in MMA_FORMS:
        if (other.k, other.a, other.b, other.satfinite, other.bit_operation, other.rounding) == (
            form.stored_k, form.a, form.b, form.satfinite, form.bit_operation, form.rounding
        ):  # fmt: skip
            return other
    raise NoRuleError(f"{_short(form)}: no mma form computes the same")


def nearest_names(text: str, sm: int | None = None) -> str:
    """A few names of what there is (on an architecture), by the letters they share; same operand types first."""
    names = instruction_names(sm)
    types, is_sparse = [word for word in text.split(".") if word in _TYPES], ".sp" in text

    def likeness(name: str) -> float:
        words = name.split(".")
        shared = sum(t in words for t in types) + (is_sparse == (".sp." in name))
        return shared + 2 * difflib.SequenceMatcher(None, text.replace("sync.aligned.", ""), name).ratio()

    best = sorted(names, key=likeness, reverse=True)[:4]
    return ", ".join(best) or "none: it has no tensor cores that are known here"
