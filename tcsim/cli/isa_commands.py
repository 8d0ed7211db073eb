"""``tcsim isa list`` and ``tcsim isa show``: from the instruction registry and the table of tensor-core arithmetic."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated

import typer

from isa import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.errors import TcsimError
from isa.spec.registry import Form, Instruction, ResolvedOperand, all_instructions, by_base, find
from isa.spec.support import ISA_VERSION, public_instructions, state_of_instruction
from isa.spec.support import entries as isa_entries
from isa.spec.support import missing as isa_missing
from isa.tensor import MmaForm
from isa.tensor.forms import FORMS
from isa.tensor.rules import ARCHITECTURES
from isa.tensor.scaled_forms import KIND_FORMS
from isa.tensor.wgmma_forms import WGMMA_FORMS
from tcsim.arch import arch_names, find_arch, find_timing
from tcsim.cli.machine_opcodes import is_machine_opcode, list_opcodes, show_opcode
from tcsim.numerics.describe import arithmetic_lines, how_known, machine_code, status_letters
from tcsim.numerics.instructions import find_form_by_name, nearest_names
from tcsim.numerics.support_page import BADGES, first_target, support_page
from tcsim.timing.operations import Costs

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    text: Annotated[str, typer.Argument(help="only instructions whose form contains this")] = "",
    operand: Annotated[str, typer.Option("--type", help="tensor-core forms with operands of this type, such as s8")] = "",
    missing: Annotated[bool, typer.Option("--missing", help="what the PTX ISA has and tcsim does not execute")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="the support matrix as a page of docs/")] = False,
    sass: Annotated[bool, typer.Option("--sass", help="machine instructions, with the unit that executes each")] = False,
) -> None:
    """Every instruction form that tcsim executes, and how it is known: {..} may be left out, <..> is a choice.

    With --type, each tensor-core form by itself, and how its arithmetic is known on each architecture. With --missing, the
    instructions of the PTX ISA 9.0 that are refused.
    """
    if markdown:
        typer.echo(support_page(), nl=False)
        return
    if sass:
        lines = list(list_opcodes(text))
        shown = len(lines)
        typer.echo("\n".join(lines), nl=bool(lines))
    elif missing:
        shown = _list_missing(text)
    else:
        shown = _list_tensor_forms(text, operand) if operand else _list_instructions(text)
    if not shown:
        what = f"{text!r}" + (f" and has {operand!r} operands" if operand else "")
        raise TcsimError(f"no instruction form contains {what}; 'tcsim isa list' shows all")


def _list_instructions(text: str) -> int:
    chosen = [e for e in public_instructions() if text in e.pattern.spell()]
    if chosen:
        typer.echo(f"{', '.join(f'{badge} {name}' for name, badge in BADGES.items() if name != 'refused')}")
    for entry in sorted(chosen, key=lambda e: (e.section_key, e.pattern.base)):
        target = first_target(entry)
        typer.echo(f"{entry.section:14} {target:8} {BADGES[state_of_instruction(entry).name]:4} {entry.pattern.spell()}")
    return len(chosen)


def _list_missing(text: str) -> int:
    absent = [entry for entry in isa_missing() if text in entry.name]
    for entry in absent:
        typer.echo(f"{entry.section:12} {entry.name}")
    if absent:
        every = len(list(isa_entries()))
        typer.echo(f"{len(absent)} of {every} instructions of the PTX ISA {ISA_VERSION} are refused, by name and place")
    return len(absent)


def _list_tensor_forms(text: str, operand: str) -> int:
    every = (*(form for forms in FORMS.values() for form in forms), *(form for form in WGMMA_FORMS if form.n == 64))
    forms = [form for form in (*every, *KIND_FORMS) if operand in (form.a, form.b) and text in str(form)]
    if forms:
        typer.echo("V verified on hardware, P published, H hypothesis, - no such form")
        typer.echo(f"{'':58}{''.join(f'{sm:>5}' for sm in ARCHITECTURES)}")
    for form in forms:
        typer.echo(f"{form!s:58}{''.join(f'{letter:>5}' for letter in status_letters(form))}")
    return len(forms)


@app.command()
def show(
    opcode: Annotated[str, typer.Argument(help="a base opcode (mma), a form (add.ftz.f32) or a machine instruction (HMMA)")],
) -> None:
    """What an instruction does: syntax, operands, where it exists, its arithmetic and how that is known, timing."""
    opcode = opcode.strip().removesuffix(";")
    if is_machine_opcode(opcode):
        typer.echo("\n".join(show_opcode(opcode)))
        return
    form = find_form_by_name(opcode)
    if form is not None:
        _show_form(_registered(form), form)
        return
    if opcode.startswith("wgmma.m64"):
        raise TcsimError(f"no instruction is called {opcode!r}; nearest: {nearest_names(opcode)}")
    base = opcode.partition(".")[0]
    entries = by_base(base)
    if not entries:
        near = difflib.get_close_matches(base, sorted({e.pattern.base for e in all_instructions()}), 4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise TcsimError(f"unknown instruction {base!r}{hint}; 'tcsim isa list' shows all")
    if "." not in opcode:
        for entry in entries:
            _show(entry)
        return
    forms, reason = find(opcode)
    if not forms:
        hint = _nearest(opcode, entries)
        raise TcsimError(f"{opcode}: {reason.partition('; nearest')[0] + hint if hint else reason}")
    for found in forms:
        _show_form(found, None)


def _show(entry: Instruction) -> None:
    typer.echo(entry.pattern.spell())
    operands = _joined(
        (f"[{o.name}]" if o.is_address else o.name + ("?" if o.is_optional else ""), o.inside)
        for o in entry.pattern.operands
        if o.name not in entry.hidden
    )
    typer.echo(f"  operands: {operands or 'none'}")
    typer.echo(f"  PTX ISA {entry.section}, PTX {entry.ptx}, {_targets(entry, entry.sm)}")
    for line in entry.note.splitlines():
        typer.echo(f"  {line}")
    typer.echo("")


def _targets(entry: Instruction, sm: int) -> str:
    return f"{' and '.join(entry.targets)} only" if entry.targets else f"sm_{sm} or later"


# ------------------------------------------------------------------------------------------------------------ a form


def _registered(form: MmaForm) -> Form:
    """The registry's entry for a tensor-core form."""
    if form.instruction.startswith("wgmma"):
        return find(str(form))[0][0]
    if form.kind:
        opcode = str(form).replace(".sync.", ".sync.aligned.").replace("mma.sp.", "mma.sp::ordered_metadata.")
        return find(opcode)[0][0]
    word = ".mma" if form.instruction == "wmma" else ""
    types = (form.d, form.c) if form.instruction == "wmma" and form.a == "f16" else (form.d, form.a, form.b, form.c)
    more = [form.rounding, "satfinite" * form.satfinite, *types, form.bit_operation, "popc" * bool(form.bit_operation)]
    text = f"{form.instruction}{word}.sync.aligned.{form.a_layout}.{form.b_layout}.{form.shape}"
    forms, reason = find(".".join([text, *filter(None, more)]))
    if not forms:
        raise TcsimError(f"{form}: {reason}")
    return forms[0]


def _show_form(found: Form, form: MmaForm | None) -> None:
    entry = found.instruction
    shown = [o for o in found.operands if o.name not in entry.hidden]
    typer.echo(f"{found.name}  {_joined((_operand(o), o.inside) for o in shown)}")
    for line in entry.note.partition("\n\n")[0].splitlines():
        typer.echo(f"  {line}")
    if form is not None:
        stored = f" (of which a row of A stores {form.stored_k})" if form.is_sparse else ""
        typer.echo(f"  A {form.m} x {form.k} {form.a}{stored}, B {form.k} x {form.n} {form.b}, "
                   f"C {form.m} x {form.n} {form.c}, D {form.m} x {form.n} {form.d}")  # fmt: skip
    targets = _targets(entry, form.sm if form else entry.sm)
    typer.echo(f"  PTX ISA {entry.section}, PTX {entry.ptx} or later, {targets}")
    if form is not None:
        typer.echo("  arithmetic:")
        _indented(arithmetic_lines(form))
        code = machine_code(form)
        if code:
            typer.echo("  machine code (ptxas 13.0; moves, addresses and integer additions left out):")
            _indented([f"{', '.join(f'sm_{sm}' for sm in sms)}: {text}" for sms, text in code.items()])
    else:
        typer.echo(f"  how it is known: {how_known(found)}")
    typer.echo(f"  timing class {entry.timing_class(found.params)}")
    _indented(_costs(entry.timing_class(found.params)))
    typer.echo("")


def _joined(operands: Iterable[tuple[str, bool]]) -> str:
    """Operands as text writes them: those marked stand in the brackets of the address before them."""
    text = ""
    for operand, inside in operands:
        text = f"{text.removesuffix(']')}, {operand}]" if inside else f"{text}, {operand}"
    return text.removeprefix(", ")


def _operand(operand: ResolvedOperand) -> str:
    if operand.is_address:
        return f"[{operand.name}]"
    register = f"{operand.name}:.{operand.type.name}"
    return f"{{{register} x {operand.count}}}" if operand.count > 1 else register


def _indented(lines: list[str]) -> None:
    for line in lines:
        typer.echo(f"    {line}")


def _costs(timing_class: str) -> list[str]:
    """Latency and rate on every chip that has timing tables."""
    lines, seen = [], set()
    for name in arch_names():
        arch = find_arch(name)
        if arch.timing is None or arch.timing.chip in seen:
            continue
        seen.add(arch.timing.chip)
        costs = Costs(find_timing(arch).chip)
        if costs.has(timing_class):
            cost = costs.of(timing_class)
            busy = f"{cost.busy} cycle{'s' if cost.busy != 1 else ''}"
            lines.append(f"{arch.timing.chip}: {busy} of pipe {cost.pipe}, a dependent instruction after {cost.latency}")
        else:
            lines.append(f"{arch.timing.chip}: not in its tables")
    return lines


# ------------------------------------------------------------------------------------------------------------- nearest


def _nearest(opcode: str, entries: list[Instruction]) -> str:
    """The forms or words that an opcode without a form may have meant, as the end of a message."""
    if opcode.startswith(("mma.m", "mma.sync", "wmma.m16", "wmma.m32", "wmma.m8", "wmma.mma")):
        return f"; nearest: {nearest_names(opcode)}"
    known: set[str] = set()
    for entry in entries:
        known |= {word for kind, word in entry.pattern.parts if kind == "word"}
        known = known.union(*(slot.words for slot in entry.pattern.slots.values()))
    hints = []
    for word in opcode.split(".")[1:]:
        near = difflib.get_close_matches(word, sorted(known), 2) if word not in known else []
        if near:
            hints.append(f".{word} may be {' or '.join(f'.{x}' for x in near)}")
    return f"; {', '.join(hints)}" if hints else ""
