"""What a kernel's code looks like: texts and live registers of its instructions, the lines of its PTX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isa.lower import live_registers

if TYPE_CHECKING:
    from isa.program import Program
    from tcsim.module import RawModule

__all__ = ["CodeSource", "code_source"]


@dataclass(frozen=True, slots=True)
class CodeSource:
    """By instruction of a program (those that stand for what a driver adds may be missing at the end): ``text``, and ``live``,
    the 32-bit registers that hold a value there. ``ptx``: the text of the PTX lines that instructions come from."""

    text: Sequence[str] = ()
    live: Sequence[int] = ()
    ptx: Mapping[int, str] = field(default_factory=dict)


def code_source(module: RawModule, kernel: str, program: Program) -> CodeSource:
    """The source of a program that the module made of a kernel: of machine code, or of PTX."""
    lines = [] if module.is_machine_code else module.ptx.splitlines()
    wanted = {int(line) for line in program.lines if 0 < line <= len(lines)}
    ptx = {line: " ".join(lines[line - 1].split()) for line in sorted(wanted)}
    code = module.machine_code(program.target_sm)
    if program.image is not None and code is not None:
        seen = code.source(kernel)
        return CodeSource(seen.text, seen.live, ptx)
    text = [ptx.get(int(line), opcode) for line, opcode in zip(program.lines, program.opcodes, strict=True)]
    return CodeSource(text, live_registers(module.tree, kernel, fmad=bool(module.fmad)), ptx)
