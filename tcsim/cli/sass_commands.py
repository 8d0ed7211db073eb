"""``tcsim sass``: the machine code that ptxas makes of PTX, beside the PTX and CUDA lines it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from isa.ptx import parse
from isa.sass.effects import live_registers
from isa.sass.listing import CodeSection
from isa.sass.placed import bind, place
from isa.sass.source import targets_of
from tcsim.device import current_device
from tcsim.errors import TcsimError
from tcsim.machine_code import ModuleCode, locations_of

__all__ = ["sass"]


def sass(
    file: Annotated[Path, typer.Argument(help="a .ptx file", show_default=False)],
    kernel: Annotated[str, typer.Option("--kernel", "-k", help="only this entry function")] = "",
    arch: Annotated[str, typer.Option("--arch", help="what to assemble for: sm_80, sm_86, sm_89, sm_90")] = "",
    fmad: Annotated[bool, typer.Option("--fmad/--no-fmad", help="contract multiplies and adds, ptxas's default")] = True,
) -> None:
    """Show the machine code of a PTX file: control bits, pipe, live registers, and the PTX and CUDA lines.

    Needs ptxas and nvdisasm, but no GPU.
    """
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise TcsimError(f"cannot read {file}: {problem.strerror}") from None
    tree = parse(text, path=str(file))
    match = re.fullmatch(r"(?:sm_)?(\d+)[af]?", arch or f"sm_{current_device().arch.sm}")
    if match is None:
        raise TcsimError(f"--arch {arch!r}: an architecture such as sm_90")
    module = ModuleCode.assembled(tree, text, int(match[1]), fmad=fmad)
    names = [code.name for code in module.code.kernels]
    if kernel and kernel not in names:
        raise TcsimError(f"{file} has no kernel {kernel!r}; it has: {', '.join(names) or 'none'}")
    ptx_lines = text.split("\n")
    for name in [kernel] if kernel else names:
        for line in _listing(module, name, ptx_lines):
            typer.echo(line)


def _listing(module: ModuleCode, name: str, ptx_lines: list[str]) -> Iterator[str]:
    """The lines that show one kernel and the functions it calls."""
    code = module.code.code[name]
    placed, _ = place(module.code, code)
    missing = {item.what for item in bind(placed, name)}
    live = [] if missing else live_registers(placed, targets_of(module.code, placed))
    yield from _header(module, code, len(placed), len(missing))
    function = next(f for f in module.tree.functions if f.name == name)
    locs = locations_of(function)
    section = None
    labels: dict[int, list[str]] = {}
    for number, item in enumerate(placed):
        instruction = item.instruction
        if instruction.base == "NOP" and instruction.address >= _padding(item.section):
            continue
        if item.section is not section:
            section = item.section
            labels = {}
            for label, address in section.labels.items():
                labels.setdefault(address, []).append(label)
        for label in labels.get(instruction.address, ()):
            yield f"{label}:"
        registers = _counts(live[number]) if live else "R ?"
        pipe = item.form.instruction.pipe if item.form is not None else "not known"
        source = _source(instruction.ptx_line, ptx_lines)
        loc = locs.get(instruction.ptx_line)
        cuda = f"{module.tree.files.get(loc.file, '?').rsplit('/', 1)[-1]}:{loc.line}" if loc is not None else ""
        place_ = f"  /*{instruction.address:04x}*/ {instruction.text:54}"
        yield f"{place_} {instruction.control!s:42} {pipe:8} {registers:14} {source} {cuda}".rstrip()
    yield ""


def _padding(section: CodeSection) -> int:
    """The address behind a section's last instruction that does something."""
    return max((i.address for i in section.instructions if i.base != "NOP"), default=0) + 16


def _header(module: ModuleCode, code: CodeSection, count: int, missing: int) -> Iterator[str]:
    yield f"{code.name}  for {module.listing.target}, ptxas {module.listing.assembler}"
    yield (
        f"  {count} instructions, {code.registers} registers, {code.static_shared} bytes of shared memory, {code.stack} bytes "
        f"of stack, parameters: {code.parameter_size} bytes at c[0x0][{code.parameter_base:#x}]"
    )
    if missing:
        yield f"  {missing} instructions cannot be executed by tcsim; the kernel runs as PTX"
    yield f"  {'address':10} {'instruction':52} {'control':42} {'pipe':8} {'live':14} PTX and CUDA lines"


def _counts(live: set[tuple[str, int]]) -> str:
    """``R 12 P 1 UR 4``: live registers of each file that has any."""
    files = [name for name, _ in live]
    return " ".join(f"{file} {files.count(file)}" for file in ("R", "P", "UR", "UP") if file in files)


def _source(line: int, ptx_lines: list[str]) -> str:
    if not 1 <= line <= len(ptx_lines):
        return ""
    text = " ".join(ptx_lines[line - 1].split())
    return f"ptx:{line} {text[:60]}"
