"""The registry of machine instructions: one decorated function per opcode, in the module of its kind.

A template is written as for PTX (:mod:`isa.spec.pattern`), with the opcode and modifiers as nvdisasm prints them::

    "IADD3{x} d:u32, p?, q?, a:u32, b:u32, c:u32, e:pred?, f:pred?"

Operands follow each other as in the listing; what is optional (``?``) is there if an operand of its kind is. What an operand's
text does to the value (``-``, ``|..|``, ``~``, ``!``, ``.H1_H1``) is applied before the body sees it, unless the body asks
for it: a keyword-only argument ``negated_a`` receives whether ``a`` is negated, and ``a`` arrives as it is in its register.

Bodies are ``lane`` and ``warp`` bodies as of PTX instructions (:mod:`isa.spec.registry`), sharing their arithmetic. A
``control`` instruction has none: the executor does it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from isa.sass.operands import Constant, Immediate, Label, Matrices, Memory, Operand, Register
from isa.spec.pattern import OperandSpec, Pattern, Slot, parse_pattern
from isa.spec.registry import Params, ResolvedOperand
from isa.types import scalar_type

__all__ = ["MachineForm", "MachineOpcode", "all_opcodes", "find_opcode", "machine", "match_operands", "opcodes_of"]


class MachineOpcode(Struct, frozen=True, eq=False):
    """A registered machine instruction. See :func:`machine` for the fields."""

    pattern: Pattern
    function: Callable[..., Any] | None
    body: str
    control: str
    pipe: str
    memory: str
    state: str
    width: Callable[[Params], int] | None
    operand_hook: Callable[[Params], dict[str, tuple[str, int]]] | None
    arch_rule: Callable[[Params, int], dict[str, Any]] | None
    waits: bool
    note: str

    @property
    def raw_signs(self) -> frozenset[str]:
        """Operands whose negation the body handles itself."""
        if self.function is None:
            return frozenset()
        names = inspect.signature(self.function).parameters
        return frozenset(name[8:] for name in names if name.startswith("negated_"))


class MachineForm(Struct, frozen=True, eq=False):
    """An opcode with its modifiers chosen: what the text ``IADD3.X`` means. ``name`` is that text."""

    instruction: MachineOpcode
    params: Params
    operands: tuple[ResolvedOperand, ...]
    name: str

    @property
    def destinations(self) -> tuple[ResolvedOperand, ...]:
        return tuple(o for o in self.operands if o.is_destination)

    @property
    def sources(self) -> tuple[ResolvedOperand, ...]:
        return tuple(o for o in self.operands if not o.is_destination)


_BY_BASE: dict[str, list[MachineOpcode]] = {}
_found: dict[str, tuple[list[MachineForm], str]] = {}


def machine(
    template: str,
    *,
    pipe: str,
    body: str = "lane",
    control: str = "",
    memory: str = "",
    state: str = "",
    width: Callable[[Params], int] | None = None,
    operands: Callable[[Params], dict[str, tuple[str, int]]] | None = None,
    arch_rule: Callable[[Params, int], dict[str, Any]] | None = None,
    waits: bool = False,
    **slots: Slot | tuple[str, ...],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a machine instruction. The decorated function is its meaning and its documentation.

    template: see the module. pipe: the unit that executes it (``alu``, ``fma``, ``fp64``, ``xu``, ``lsu``, ``tensor``,
    ``uniform``, ``cbu`` for control, ``adu``, ``none``). body: ``lane`` or ``warp``. control: what the executor does, for an
    instruction without a body. memory, state, width: of an access (``load``, ``store``, ...; ``mbarrier``; ``async_store`` and
    ``async_atomic``, which tell one; state space, which a body gets as ``space``; bytes per lane). operands: type and count of
    operands by name, where they depend on modifiers.
    arch_rule: further parameters that depend on the target. waits: as of PTX instructions. Slots are keyword arguments.
    """
    made = {name: value if isinstance(value, Slot) else Slot(tuple(value)) for name, value in slots.items()}

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        entry = MachineOpcode(
            pattern=parse_pattern(template, made),
            function=None if control else function,
            body="control" if control else body,
            control=control,
            pipe=pipe,
            memory=memory,
            state=state,
            width=width,
            operand_hook=operands,
            arch_rule=arch_rule,
            waits=waits,
            note=inspect.getdoc(function) or "",
        )
        _BY_BASE.setdefault(entry.pattern.base, []).append(entry)
        _found.clear()
        return function

    return register


def all_opcodes() -> Iterator[MachineOpcode]:
    """Every registered machine instruction."""
    for entries in _BY_BASE.values():
        yield from entries


def opcodes_of(base: str) -> list[MachineOpcode]:
    """The registered instructions of an opcode without modifiers; empty for an unknown one."""
    return _BY_BASE.get(base, [])


def find_opcode(opcode: str) -> tuple[list[MachineForm], str]:
    """The forms that an opcode's text can mean (operands decide among several), and why not if there is none."""
    found = _found.get(opcode)
    if found is None:
        found = _found[opcode] = _find(opcode)
    return found


def _find(opcode: str) -> tuple[list[MachineForm], str]:
    base, *tokens = opcode.split(".")
    entries = _BY_BASE.get(base, [])
    if not entries:
        return [], "this machine instruction is not known"
    forms = []
    for entry in entries:
        params = entry.pattern.match(tuple(tokens))
        if params is not None:
            override = entry.operand_hook(params) if entry.operand_hook else {}
            operands = tuple(_resolve(spec, params, override) for spec in entry.pattern.operands)
            forms.append(MachineForm(entry, params, operands, opcode))
    return forms, "" if forms else f"{base} is known, but not with these modifiers"


def _resolve(spec: OperandSpec, params: Params, override: dict[str, tuple[str, int]]) -> ResolvedOperand:
    if spec.name in override:
        type_name, count = override[spec.name]
    else:
        type_name, count = str(params.get(spec.type, spec.type)) or "b32", int(spec.count)
    return ResolvedOperand(
        spec.name,
        scalar_type(type_name),
        count,
        spec.is_address,
        spec.is_destination,
        spec.is_optional,
        spec.paired,
        spec.count != "1",
    )


def match_operands(form: MachineForm, given: tuple[Operand, ...]) -> dict[str, Operand | None] | None:
    """The operands of a listing by name (None for one left out), or None if they do not fit the form."""
    out: dict[str, Operand | None] = {}
    queue = list(given)
    needed = sum(not o.is_optional for o in form.operands)
    for operand in form.operands:
        fits = bool(queue) and _fits(operand, queue[0])
        if operand.is_optional and (not fits or len(queue) <= needed):
            out[operand.name] = None
            continue
        if not fits:
            return None
        out[operand.name] = queue.pop(0)
        needed -= not operand.is_optional
    return None if queue else out


def _fits(operand: ResolvedOperand, given: Operand) -> bool:
    if isinstance(given, Matrices) or operand.name == "descriptors":
        return isinstance(given, Matrices) and operand.name == "descriptors"
    if operand.name == "target":
        return isinstance(given, Label)
    if isinstance(given, Register) and given.file == "B":
        return operand.name in ("barrier", "members")
    if operand.name == "barrier":
        return False
    if operand.is_address:
        return isinstance(given, Memory | Constant)
    if operand.type.kind == "p":
        return isinstance(given, Register) and (given.is_predicate or given.parts == ("SIGN",))
    if isinstance(given, Register):
        return not given.is_predicate
    if operand.is_destination:
        return False
    return isinstance(given, Immediate | Constant) or not isinstance(given, Memory)
