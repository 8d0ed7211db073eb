"""What contraction must know of an instruction form, worked out once per form from its opcode text."""

from __future__ import annotations

from dataclasses import dataclass

from isa.spec.registry import Form
from isa.types import SCALAR_TYPES

__all__ = ["FLOAT_TYPES", "Op", "op_of"]

FLOAT_TYPES = frozenset({"f32", "f64", "f16", "bf16", "f16x2", "bf16x2"})
_ROUNDINGS = ("rn", "rz", "rm", "rp")
# ``div.u32`` and ``rem.u32`` are expanded in place; the others end a block, by constants too.
_SPLIT_INTEGER_DIVISIONS = frozenset({"s32", "s16", "u16", "s64", "u64"})
_ORDERING = frozenset({"volatile", "acquire", "relaxed", "release", "mmio"})


@dataclass(frozen=True, slots=True)
class Op:
    """One form as contraction sees it.

    ``type`` is the last type of the opcode (of a conversion, the source's), ``rounding`` the rounding modifier or ``""`` when
    none is written. ``floating``: an add, sub, mul or neg of a type that is contracted. ``pure``: no effect but its results,
    so it disappears with them. ``splits``: ``"always"`` if a block of machine code ends behind it; ``"guarded"`` if a guard
    makes it a block of its own; else ``""``. ``sources`` and ``destinations`` are the names of its operands.
    """

    base: str
    type: str
    types: tuple[str, ...]
    words: frozenset[str]
    rounding: str
    floating: bool
    pure: bool
    splits: str
    control: str
    sources: tuple[str, ...]
    destinations: tuple[str, ...]

    @property
    def fuses(self) -> bool:
        """Whether a product or sum of this form may become half of a fused multiply-add: one without a rounding modifier; of
        pairs of f32 any (ptxas 13.0, with and without ``--fmad=false``)."""
        return self.type == "f32x2" or (self.type in FLOAT_TYPES and not self.rounding)

    @property
    def kind(self) -> str:
        """What a product and a sum must have in common to be fused, besides ``.ftz``: the type, and of pairs the rounding."""
        return f"{self.rounding or 'rn'}.{self.type}" if self.type == "f32x2" else self.type

    @property
    def ftz(self) -> bool:
        return "ftz" in self.words

    @property
    def sat(self) -> bool:
        return "sat" in self.words

    @property
    def constant_space(self) -> bool:
        """A load from parameter or constant space."""
        return self.base == "ld" and not self.words.isdisjoint(("param", "param::entry", "const"))


_cache: dict[int, tuple[Form, Op]] = {}


def op_of(form: Form) -> Op:
    """The descriptor of a form."""
    try:
        return _cache[id(form)][1]
    except KeyError:
        _cache[id(form)] = (form, _describe(form))  # kept alive, so no other form can have its identity
        return _cache[id(form)][1]


def _describe(form: Form) -> Op:
    base, *modifiers = form.name.split(".")
    words = frozenset(modifiers)
    types = tuple(word for word in modifiers if word in SCALAR_TYPES)
    type_ = types[-1] if types else ""
    entry = form.instruction
    return Op(
        base=base,
        type=type_,
        types=types,
        words=words,
        rounding=next((word for word in _ROUNDINGS if word in words), ""),
        floating=base in ("add", "sub", "mul", "neg") and type_ in FLOAT_TYPES,
        pure=_is_pure(form, base, words),
        splits=_split(form, base, type_, words),
        control=entry.control,
        sources=tuple(o.name for o in form.operands if not o.is_destination),
        destinations=tuple(o.name for o in form.operands if o.is_destination),
    )


def _is_pure(form: Form, base: str, words: frozenset[str]) -> bool:
    entry = form.instruction
    if entry.control or entry.collective or not any(o.is_destination for o in form.operands) or base == "read_clock":
        return False
    return entry.memory is None or (base == "ld" and words.isdisjoint(_ORDERING))


def _split(form: Form, base: str, type_: str, words: frozenset[str]) -> str:
    """Where ptxas ends a block (measured with ptxas 13.0 by the fate of a multiply and an add on either side)."""
    if base in ("membar", "call", "brkpt", "setmaxnreg"):
        return "always"
    if base == "fence" and words.isdisjoint(("proxy", "mbarrier_init")):
        return "always"
    if base in ("div", "rcp", "sqrt") and not words.isdisjoint(_ROUNDINGS):
        return "always"
    if base == "rsqrt" and type_ == "f64":
        return "always"
    if base in ("div", "rem") and type_ in _SPLIT_INTEGER_DIVISIONS:
        return "always"
    entry = form.instruction
    if base == "shfl" or entry.control in ("branch", "branch_indexed", "exit"):
        return ""
    if base == "ld" and not words.isdisjoint(("param", "param::entry", "const")):
        return ""
    return "guarded" if entry.control or entry.memory or entry.body == "warp" else ""
