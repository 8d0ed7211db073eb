"""Machine instructions for ``tcsim isa list --sass`` and ``tcsim isa show HMMA``: from their registry."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from isa.errors import TcsimError
from isa.sass import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.sass.registry import MachineOpcode, all_opcodes, find_opcode, opcodes_of

__all__ = ["is_machine_opcode", "list_opcodes", "show_opcode"]

PIPES = {
    "alu": "integer and logic unit",
    "fma": "multiply-add unit",
    "fp64": "double-precision unit",
    "xu": "special functions and conversions",
    "lsu": "loads, stores and shuffles",
    "tensor": "tensor core",
    "uniform": "uniform datapath",
    "cbu": "branches and barriers",
    "adu": "addresses and special registers",
    "none": "takes no unit",
}


def is_machine_opcode(text: str) -> bool:
    """Whether a name is spelled as machine instructions are: in capitals."""
    return text[:1].isupper() and text.partition(".")[0].isupper()


def list_opcodes(text: str) -> Iterator[str]:
    """A line per form of a machine instruction that contains ``text``, sorted."""
    for entry in sorted(all_opcodes(), key=lambda e: e.pattern.spell()):
        if text in entry.pattern.spell():
            yield f"{entry.pipe:8} {_spelled(entry)}"


def show_opcode(opcode: str) -> Iterator[str]:
    """What a machine instruction, with or without modifiers, does. Raises TcsimError for an unknown one."""
    base, dot, _ = opcode.partition(".")
    entries = opcodes_of(base)
    if not entries:
        near = difflib.get_close_matches(base, sorted({e.pattern.base for e in all_opcodes()}), 4)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        raise TcsimError(f"unknown machine instruction {base!r}{hint}; 'tcsim isa list --sass' shows all")
    if dot:
        forms, why = find_opcode(opcode)
        if not forms:
            spelled = "\n".join(f"  {_spelled(entry)}" for entry in entries)
            raise TcsimError(f"{opcode}: {why}. It is executed as\n{spelled}")
        entries = list(dict.fromkeys(form.instruction for form in forms))
    for entry in entries:
        yield _spelled(entry)
        yield f"  {' '.join(entry.note.split())}"
        yield f"  pipe: {entry.pipe} ({PIPES[entry.pipe]})"
        if entry.memory:
            yield f"  memory: {entry.memory} ({entry.state or 'generic addresses'})"
        yield ""


def _spelled(entry: MachineOpcode) -> str:
    text = entry.pattern.spell().replace("_CLOCK", "")
    return re.sub(r"_([SG])([SG])", r".\1.\2", text)
