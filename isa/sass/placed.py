"""The instructions of a kernel and of the functions it calls in one sequence, each bound to what the registry knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from isa.errors import Unsupported
from isa.instructions.control import HOST_FUNCTIONS
from isa.sass import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.sass.bank import is_known
from isa.sass.listing import CodeSection, MachineCode, MachineInstruction
from isa.sass.operands import CodeAddress, Constant, Immediate, Label, Memory, Operand, Register, Special, Strange
from isa.sass.registry import MachineForm, find_opcode, match_operands
from isa.sass.specials import SPECIALS

__all__ = ["Placed", "bind", "is_indirect_call", "owners_of", "place"]


@dataclass(slots=True)
class Placed:
    """An instruction with its number, the section it is of, and what it binds to."""

    number: int
    section: CodeSection
    instruction: MachineInstruction
    form: MachineForm | None = None
    operands: dict[str, Operand | None] = field(default_factory=dict)
    unresolved: str = ""


def owners_of(machine: MachineCode) -> dict[str, CodeSection]:
    """The section that each label stands in."""
    return {label: section for section in machine.code.values() for label in section.labels}


def place(machine: MachineCode, code: CodeSection) -> tuple[list[Placed], dict[str, int]]:
    """The instructions of a kernel and of every function that its code names, and where each section starts. If it calls by
    address, those whose address the module takes anywhere are among them."""
    starts: dict[str, int] = {}
    placed: list[Placed] = []
    owners = owners_of(machine)
    calls_by_address = False
    variables, known = machine.variables, owners.keys() | HOST_FUNCTIONS.keys()
    queue = [code]
    while queue:
        section = queue.pop(0)
        if section.name in starts:
            continue
        starts[section.name] = len(placed)
        for instruction in section.instructions:
            placed.append(Placed(len(placed), section, instruction))
            if not calls_by_address and is_indirect_call(instruction):
                calls_by_address = True
                queue += [machine.code[name] for name in _taken(machine) if name in machine.code]
            for operand in instruction.operands:
                name = operand.name if isinstance(operand, Label) else getattr(operand, "symbol", "")
                if name in owners and name not in section.labels:
                    queue.append(owners[name])
                elif name and not (name in known or (isinstance(operand, CodeAddress) and name in variables)):
                    placed[-1].unresolved = name
    return placed, starts


def is_indirect_call(instruction: MachineInstruction) -> bool:
    """Whether an instruction calls the function whose address a register holds."""
    return instruction.base == "CALL" and any(isinstance(operand, Register) for operand in instruction.operands)


def _taken(machine: MachineCode) -> Iterator[str]:
    """Names whose addresses the code, or the initial value of a variable, holds."""
    for name in (".nv.global.init", ".nv.constant3", ".nv.constant4"):
        if name in machine.data:
            yield from (relocation.symbol for relocation in machine.data[name].relocations())
    for section in machine.code.values():
        for instruction in section.instructions:
            yield from (operand.symbol for operand in instruction.operands if isinstance(operand, CodeAddress))


def bind(placed: list[Placed], kernel: str) -> list[Unsupported]:
    """Find the form of every instruction. Returns what there is none for."""
    missing = []
    base = placed[0].section.parameter_base if placed else 0
    for item in placed:
        instruction = item.instruction
        forms, why = find_opcode(_opcode(instruction))
        unread = [o.text for o in _operands(instruction) if isinstance(o, Strange)]
        strange = [o.name for o in _operands(instruction) if isinstance(o, Special) and o.name not in SPECIALS]
        unknown = [o.offset for o in instruction.operands if isinstance(o, Constant) and _unknown_place(o, base)]
        if item.unresolved:
            forms, why = [], f"{item.unresolved} is not in the machine code"
        elif unread:
            forms, why = [], why or f"its operand {unread[0]} is not known"
        elif strange:
            forms, why = [], f"the special register {strange[0]} is not known"
        elif unknown:
            forms, why = [], f"what the driver puts at c[0x0][{unknown[0]:#x}] is not known"
        for form in forms:
            matched = match_operands(form, _operands(instruction))
            if matched is not None:
                item.form, item.operands = form, matched
                break
        else:
            why = why or "these operands are not known"
            what = f"{instruction.text} (machine code, address {instruction.address:#x} of {item.section.name})"
            missing.append(Unsupported(what, why, instruction.ptx_line, kernel))
    return missing


def _unknown_place(constant: Constant, parameters: int) -> bool:
    """Whether a constant stands before the parameters of bank 0, at a place whose contents are not known."""
    fixed = constant.register is None or constant.register.index < 0
    return constant.bank == 0 and fixed and constant.offset < parameters and not is_known(constant.offset, parameters)


def _opcode(instruction: MachineInstruction) -> str:
    """The opcode to look up. Special registers that depend on time are read by instructions of their own, and the directions of
    a bulk copy, which differ in the order of words only, are told apart."""
    base, dot, rest = instruction.opcode.partition(".")
    if base in ("UBLKCP", "UBLKRED"):
        return f"{base}_{rest[0]}{rest[2:]}"
    for operand in instruction.operands:
        if isinstance(operand, Special) and operand.name.startswith(("SR_CLOCK", "SR_GLOBALTIMER")):
            return f"{base}_CLOCK.{operand.name[3:]}{dot}{rest}"
    return instruction.opcode


def _operands(instruction: MachineInstruction) -> tuple[Operand, ...]:
    """The operands, the two halves of a packed immediate being one, and without the scoreboard of a warpgroup."""
    if "GMMA" in instruction.base or instruction.base == "WARPGROUP":
        return tuple(o for o in instruction.operands if not (isinstance(o, Special) and o.name.startswith("gsb")))
    if instruction.base.startswith(("UTMA", "UBLK")):  # ``[UR8]`` stands for registers from there on
        shown = (o for o in instruction.operands if not (isinstance(o, Strange) and o.text.startswith("desc[")))
        return tuple(o.uniform if isinstance(o, Memory) and o.uniform is not None else o for o in shown)
    if not instruction.base.startswith(("H", "VH")):
        return instruction.operands
    out: list[Operand] = []
    for operand in instruction.operands:
        if not (isinstance(operand, Immediate) and out and isinstance(out[-1], Immediate)):
            out.append(operand)
    return tuple(out)
