"""The registry: one decorated function per instruction, in the module of its PTX ISA chapter.

The decorator carries everything that other parts need (text form, types, versions, timing class, section), so decoder,
support matrix, help and tests are generated from here and nothing is listed twice.

Three kinds of body:

``lane``
    A scalar function of the sources that returns the destination(s). Modifiers arrive as keyword arguments and are compile-time
    constants: the function's source is specialised for them before numba sees it, so it may branch on them freely.
``warp``
    A function over whole warps. It receives an array per operand, destinations included: ``x[lane]`` for a register,
    ``x[i, lane]`` for a vector, a mask word for a predicate source, a one-word array for a predicate destination,
    64-bit addresses for ``[a]``. A parameter called ``mask`` is the set of executing lanes, ``ctx`` the machine
    (:mod:`isa.machine`). It returns 0, or a fault code.
``planes``
    A function over the operands of a whole warp where they lie, for instructions of a hundred registers: ``registers`` is the
    host address of the register block, ``operands`` that of the row of byte offsets (:mod:`isa.kernels.wrap`). It returns 0,
    or a fault code.
``control``
    No body: the executor does it (branches, exits, barriers). ``control`` names what (:class:`isa.program.Kind`).
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from isa.spec.pattern import OperandSpec, Pattern, Slot, parse_pattern
from isa.spec.refused import REFUSED, REFUSED_WORDS
from isa.types import ScalarType, scalar_type

__all__ = ["Form", "Instruction", "ResolvedOperand", "all_instructions", "by_base", "find", "instruction"]

Params = dict[str, str | bool]


class ResolvedOperand(Struct, frozen=True):
    """An operand of a form with its type and register count settled. ``is_vector``: the template gives it a count, so a body
    sees it as a tuple or two-dimensional array even where that count is 1. ``inside``: it stands in the brackets of the address
    before it."""

    name: str
    type: ScalarType
    count: int
    is_address: bool
    is_destination: bool
    is_optional: bool
    paired: bool
    is_vector: bool
    inside: bool = False


class Instruction(Struct, frozen=True, eq=False):
    """A registered instruction: a pattern and what it means. See :func:`instruction` for the fields."""

    pattern: Pattern
    function: Callable[..., Any] | None
    body: str
    control: str
    timing: str | Callable[[Params], str]
    section: str
    sm: int
    ptx: str
    inputs: str
    collective: str | None
    memory: str | None
    valid: Callable[[Params], str | None] | None
    operand_hook: Callable[[Params], dict[str, tuple[str, int]]] | None
    arch_rule: Callable[[Params, int], dict[str, Any]] | None
    relaxed: tuple[str, ...]
    hidden: tuple[str, ...]
    numbers: Callable[[Params], tuple[int, ...]] | None
    immediates: Callable[[Params], dict[str, tuple[int, ...] | range]] | None
    targets: tuple[str, ...]
    note: str
    waits: bool

    @property
    def section_key(self) -> tuple[int, ...]:
        """The PTX ISA section as numbers, to sort by."""
        return tuple(int(piece) for piece in self.section.split("."))

    def timing_class(self, params: Params) -> str:
        """The key of this form's latency and pipe in the arch tables."""
        return self.timing if isinstance(self.timing, str) else self.timing(params)


class Form(Struct, frozen=True, eq=False):
    """An instruction with its modifiers chosen: what the text ``add.rn.ftz.f32`` means."""

    instruction: Instruction
    params: Params
    operands: tuple[ResolvedOperand, ...]

    @property
    def name(self) -> str:
        """A readable identifier, unique among forms: the opcode with its modifiers in template order."""
        words = [self.instruction.pattern.base]
        for kind, name in self.instruction.pattern.parts:
            if kind == "word":
                words.append(name)
            else:
                value = self.params[name]
                words.append(self.instruction.pattern.slots[name].words[0] if value is True else str(value or ""))
        return ".".join(filter(None, words))

    @property
    def destinations(self) -> tuple[ResolvedOperand, ...]:
        return tuple(o for o in self.operands if o.is_destination)

    @property
    def sources(self) -> tuple[ResolvedOperand, ...]:
        return tuple(o for o in self.operands if not o.is_destination)


_BY_BASE: dict[str, list[Instruction]] = {}


def instruction(
    template: str,
    *,
    timing: str | Callable[[Params], str],
    section: str,
    body: str = "lane",
    control: str = "",
    sm: int = 20,
    ptx: str = "1.0",
    inputs: str = "bits",
    collective: str | None = None,
    memory: str | None = None,
    valid: Callable[[Params], str | None] | None = None,
    operands: Callable[[Params], dict[str, tuple[str, int]]] | None = None,
    arch_rule: Callable[[Params, int], dict[str, Any]] | None = None,
    relaxed: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
    numbers: Callable[[Params], tuple[int, ...]] | None = None,
    immediates: Callable[[Params], dict[str, tuple[int, ...] | range]] | None = None,
    targets: tuple[str, ...] = (),
    note: str = "",
    waits: bool = False,
    **slots: Slot | tuple[str, ...],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an instruction. The decorated function is its meaning and its documentation.

    template: see :mod:`isa.spec.pattern`. timing: key of the arch tables, or a function of the parameters. section: of the PTX
    ISA. body: ``lane``, ``warp`` or ``planes``. control: what the executor does, for an instruction without a body. sm, ptx:
    first target and PTX version that have it. inputs: which values the generated tests draw. collective: the operand holding
    the member mask, or ``"warp"`` for ``.aligned`` instructions that every live lane of the warp must execute together.
    memory: ``load``, ``store``, ``atomic``, ``copy``, ``matrix_load`` or ``matrix_store`` if it touches memory through
    ``[a]``. valid: returns why a combination of modifiers is not allowed, else None. operands: gives type and count of
    operands by name (a template writes ``*n`` for a count that only this knows). arch_rule: further parameters that depend on
    the target (SM number), such as tensor-core arithmetic. relaxed: operands whose register may be wider than the type (PTX
    ISA 9.4.1: ld, st, cvt). hidden: operands that the text does not have: predicates that stand for the carry flag ``CC.CF``
    (PTX ISA 9.7.2), what ``d`` holds before, and constants called ``numbers``, which the function of that name gives.
    immediates: operands that are constants, with the values they may have (a range for any); a predicate may be a register as
    well. targets: the only targets that have it, such as ``sm_90a``; empty for every one from ``sm`` on. waits: its ``warp``
    body may return :data:`isa.machine.WAIT` or ``YIELD``. Slots are keyword arguments.
    """
    made = {name: value if isinstance(value, Slot) else Slot(tuple(value)) for name, value in slots.items()}

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = Instruction(
            pattern=parse_pattern(template, made),
            function=None if control else function,
            body="control" if control else body,
            control=control,
            timing=timing,
            section=section,
            sm=sm,
            ptx=ptx,
            inputs=inputs,
            collective=collective,
            memory=memory,
            valid=valid,
            operand_hook=operands,
            arch_rule=arch_rule,
            relaxed=relaxed,
            hidden=hidden,
            numbers=numbers,
            immediates=immediates,
            targets=targets,
            note=note or inspect.getdoc(function) or "",
            waits=waits,
        )
        _BY_BASE.setdefault(entry.pattern.base, []).append(entry)
        _find_cached.clear()
        return function

    return register


def by_base(base: str) -> list[Instruction]:
    """The registered instructions of a base opcode such as ``mad``; empty for an unknown one."""
    return _BY_BASE.get(base, [])


def all_instructions() -> Iterator[Instruction]:
    """Every registered instruction, in registration order of their base opcodes."""
    for entries in _BY_BASE.values():
        yield from entries


_find_cached: dict[str, tuple[list[Form], str]] = {}


def find(opcode: str) -> tuple[list[Form], str]:
    """The forms that an opcode's text can mean (several when operands decide, as for ``mov``), and why not if there is none.

    Returns (forms, reason); ``reason`` is empty when a form was found.
    """
    cached = _find_cached.get(opcode)
    if cached is None:
        cached = _find_cached[opcode] = _find(opcode)
    return cached


def _find(opcode: str) -> tuple[list[Form], str]:
    base, *tokens = opcode.split(".")
    entries = by_base(base)
    if not entries:
        return [], REFUSED.get(base, f"unknown instruction {base!r}")
    forms: list[Form] = []
    reasons: list[str] = []
    for entry in entries:
        params = entry.pattern.match(tuple(tokens))
        if params is None:
            continue
        why_not = entry.valid(params) if entry.valid else None
        if why_not:
            reasons.append(why_not)
        else:
            forms.append(make_form(entry, params))
    if forms:
        return forms, ""
    if reasons:
        return [], reasons[0]
    known = set().union(*(_words(entry.pattern) for entry in entries))
    strange = [f".{token}" for token in tokens if token not in known]
    if strange:
        why = next((REFUSED_WORDS[token[1:]] for token in strange if token[1:] in REFUSED_WORDS), "")
        if why:
            return [], why
        nearest = " ".join(dict.fromkeys(f".{word}" for token in strange for word in _near_words(token[1:], known)))
        return [], f"{base} is known, but not with {' '.join(strange)}" + (f"; nearest: {nearest}" if nearest else "")
    near = max(entries, key=lambda e: sum(token in _words(e.pattern) for token in tokens))
    return [], f"{base} is known, but not in this combination; nearest: {near.pattern.spell()}"


def _words(pattern: Pattern) -> set[str]:
    """Every modifier that a pattern can take."""
    words = {word for kind, word in pattern.parts if kind == "word"}
    return words.union(*(slot.words for slot in pattern.slots.values())) if pattern.slots else words


def _near_words(token: str, known: set[str]) -> list[str]:
    """Modifiers that look alike: of those that differ in numbers only, such as shapes, the nearest, else by their letters."""
    alike = [word for word in sorted(known) if re.sub(r"\d+", "0", word) == re.sub(r"\d+", "0", token)]
    own = [int(number) for number in re.findall(r"\d+", token)]

    def distance(word: str) -> int:
        return sum(abs(int(x) - y) for x, y in zip(re.findall(r"\d+", word), own, strict=True))

    return sorted(alike, key=distance)[:4] if own and alike else difflib.get_close_matches(token, sorted(known), 4)


def make_form(entry: Instruction, params: Params) -> Form:
    """Settle operand types and counts for chosen modifiers."""
    override = entry.operand_hook(params) if entry.operand_hook else {}
    operands = tuple(_resolve(spec, params, override) for spec in entry.pattern.operands)
    return Form(entry, params, operands)


def _resolve(spec: OperandSpec, params: Params, override: dict[str, tuple[str, int]]) -> ResolvedOperand:
    if spec.name in override:
        type_name, count = override[spec.name]
    else:
        type_name = str(params.get(spec.type, spec.type))
        word = str(params.get(spec.count, spec.count))
        count = int(word.lstrip("vx")) if word else 1
    return ResolvedOperand(
        spec.name,
        scalar_type(type_name or "b32"),
        count,
        spec.is_address,
        spec.is_destination,
        spec.is_optional,
        spec.paired,
        spec.count != "1",
        spec.inside,
    )
