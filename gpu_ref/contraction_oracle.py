"""Does tcsim contract as ptxas does? Assemble the PTX, read the fate of every sum from the machine code, and compare.

ptxas keeps the PTX line of every machine instruction (``-lineinfo``), and a fused multiply-add carries the line of its ``add``
or ``sub``. So each sum of the PTX is fused, plain, or, in copies of an unrolled loop, both. Needs ptxas and nvdisasm but no
GPU.

>>> agreement = check(ptx_text)
>>> agreement.disagreements
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from isa import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.errors import TcsimError
from isa.lower import prepare, unsupported_in
from isa.lower.contract import decide
from isa.lower.contract.opcodes import op_of
from isa.ptx import ast, parse
from isa.sass.toolchain import AssemblerError, find_nvdisasm, find_ptxas, run_ptxas

__all__ = ["Agreement", "Row", "check", "find_nvdisasm", "one_statement_per_line"]


@dataclass(frozen=True, slots=True)
class Row:
    """One unrounded ``add`` or ``sub``: what tcsim and what the machine code do with it.

    ``line``: of the PTX. ``expected``: "fused" or "plain". ``actual``: the same, or "both" (copies of a loop differ), or
    "absent" (no machine instruction carries its line: optimised away, or merged with an equal one). ``undecided``: why tcsim
    says itself that it only guesses, else "".
    """

    kernel: str
    line: int
    opcode: str
    expected: str
    actual: str
    undecided: str

    @property
    def agrees(self) -> bool:
        """Nothing contradicts the expectation."""
        return self.actual in (self.expected, "absent")

    def __str__(self) -> str:
        why = f" ({self.undecided})" if self.undecided else ""
        return f"{self.kernel}: line {self.line}: {self.opcode} is {self.actual} in machine code, {self.expected} here{why}"


@dataclass(slots=True)
class Agreement:
    """The comparison of one module, assembled for ``arch``. ``skipped``: kernels that tcsim cannot lower."""

    arch: str
    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def disagreements(self) -> list[Row]:
        """Sums that are the one thing in machine code and the other here."""
        return [row for row in self.rows if not row.agrees and row.actual != "both"]

    @property
    def ambiguous(self) -> list[Row]:
        """Sums that are fused in some copies of an unrolled loop and not in others."""
        return [row for row in self.rows if row.actual == "both"]

    def __str__(self) -> str:
        counts = {kind: sum(row.actual == kind for row in self.rows) for kind in ("fused", "plain", "both", "absent")}
        found = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        skipped = f"; {len(self.skipped)} kernels skipped" if self.skipped else ""
        return f"{self.arch}: {len(self.rows)} sums ({found or 'none'}), {len(self.disagreements)} disagree{skipped}"


def check(ptx_text: str, kernel: str | None = None, arch: str | None = None) -> Agreement:
    """Compare the contraction of a module (or of one kernel) with ptxas's.

    arch: what to assemble for, such as ``sm_90``; the module's target by default, and always for one with an ``a`` or ``f``.
    Raises AssemblerError if ptxas or nvdisasm is missing or ptxas refuses the module, PtxSyntaxError, PtxError.
    """
    module = parse(ptx_text)
    laid_out = one_statement_per_line(ptx_text, module)
    original = _original_lines(ptx_text, module)
    module = parse(laid_out)
    target = arch if arch is not None and module.target[-1].isdigit() else module.target
    machine = _machine_code(laid_out, target)
    agreement = Agreement(target)
    for function in module.functions:
        if function.kind != "entry" or function.body is None or kernel not in (None, function.name):
            continue
        if unsupported_in(function):
            agreement.skipped.append(function.name)
        else:
            agreement.rows += _compare(module, function.name, machine.get(function.name, {}), original)
    return agreement


def _compare(module: ast.Module, name: str, machine: dict[int, list[str]], original: list[int]) -> Iterator[Row]:
    kernel = prepare(module, name)
    decision = decide(kernel)
    fused = {total.instr for total in decision.candidates.sums if total.chosen is not None}
    guesses = {guess.instr: guess.why for guess in decision.undecided}
    for index, instr in enumerate(kernel.instructions):
        op = op_of(instr.form)
        if instr.origin or op.base not in ("add", "sub") or not op.floating or op.rounding:
            continue
        actual = _fate(machine.get(instr.line, []))
        expected = "fused" if index in fused else "plain"
        yield Row(name, original[instr.line - 1], instr.opcode, expected, actual, guesses.get(index, ""))


# ------------------------------------------------------------------------------------------------------------ layout


def one_statement_per_line(text: str, module: ast.Module) -> str:
    """The same PTX with a line break before every instruction that shares its line with an earlier one."""
    return "\n".join(piece for _, piece in _pieces(text, module))


def _original_lines(text: str, module: ast.Module) -> list[int]:
    """For each line of the text laid out that way, its line in the original."""
    return [line for line, _ in _pieces(text, module)]


def _pieces(text: str, module: ast.Module) -> Iterator[tuple[int, str]]:
    columns: dict[int, list[int]] = {}
    blocks = [function.body for function in module.functions if function.body is not None]
    while blocks:
        for statement in blocks.pop().statements:
            if isinstance(statement, ast.Block):
                blocks.append(statement)
            elif isinstance(statement, ast.Instruction):
                columns.setdefault(statement.line, []).append(statement.column - 1)
    for number, line in enumerate(text.split("\n"), 1):
        start = 0
        for column in sorted(columns.get(number, ()))[1:]:
            yield number, line[start:column]
            start = column
        yield number, line[start:]


# ------------------------------------------------------------------------------------------------------ machine code


def _machine_code(ptx: str, arch: str) -> dict[str, dict[int, list[str]]]:
    """Machine instructions by kernel and PTX line."""
    ptxas, nvdisasm = find_ptxas(), find_nvdisasm()
    if ptxas is None or nvdisasm is None:
        tool, package = ("ptxas", "nvidia-cuda-nvcc") if ptxas is None else ("nvdisasm", "nvidia-cuda-nvdisasm")
        raise AssemblerError(f"{tool} is not installed, and reading machine code needs it; pip install {package} brings it")
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "module.ptx", Path(folder) / "module.cubin"
        source.write_text(ptx)
        run_ptxas(ptxas, source, cubin, arch, "-lineinfo")
        listing = subprocess.run([str(nvdisasm), "-c", "-gp", str(cubin)], capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        raise AssemblerError(f"nvdisasm: {listing.stderr.strip()[:2000]}")
    return _read_listing(listing.stdout)


_LINE = re.compile(r'\s*//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)')
_SECTION = re.compile(r"\.text\.(\S+):")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")


def _read_listing(listing: str) -> dict[str, dict[int, list[str]]]:
    found: dict[str, dict[int, list[str]]] = {}
    lines: dict[int, list[str]] = {}
    line = 0
    for text in listing.splitlines():
        if match := _LINE.match(text):
            line = int(match[1])
        elif match := _INSTRUCTION.match(text):
            lines.setdefault(line, []).append(match[1])
        elif match := _SECTION.match(text):
            lines, line = found.setdefault(match[1], {}), 0
    return found


_GUARD = re.compile(r"@!?U?P\w+\s+")
_ADDITIONS = ("FADD", "DADD", "HADD2")
_MULTIPLY_ADDS = ("FFMA", "DFMA", "HFMA2")


def _fate(instructions: list[str]) -> str:
    """What the machine instructions of one PTX line say of its sum."""
    kinds = set()
    for text in instructions:
        opcode, _, operands = _GUARD.sub("", text).partition(" ")
        name = opcode.partition(".")[0]
        values = [value.strip() for value in operands.split(",")]
        if name in _ADDITIONS and not any(value.startswith("-RZ") for value in values):
            kinds.add("plain")  # adding -0 is how a register is copied, negated or flushed
        elif name in _MULTIPLY_ADDS and not values[1].lstrip("-").startswith("RZ"):
            # A multiply-add by one is a sum too; half-precision units do sums that way, and name both halves' constants.
            one = values[2] in ("1", "-1") and (name != "HFMA2" or values[3] == values[2])
            kinds.add("plain" if one else "fused")
    return "absent" if not kinds else kinds.pop() if len(kinds) == 1 else "both"


def report(agreement: Agreement) -> Iterator[str]:
    """The lines of a report: disagreements, then loops that nothing static decides, then the counts."""
    yield from (str(row) for row in agreement.disagreements)
    yield from (f"{row} [unrolled]" for row in agreement.ambiguous)
    yield str(agreement)


def require_agreement(ptx_text: str, kernel: str, arch: str) -> list[Row]:
    """Raise TcsimError with every disagreement of a kernel. Returns the sums that are both fused and plain."""
    agreement = check(ptx_text, kernel, arch)
    if agreement.disagreements:
        listed = "\n".join(f"  {row}" for row in agreement.disagreements)
        raise TcsimError(
            f"{kernel}: contraction differs from ptxas's in {len(agreement.disagreements)} sums, so bits would differ from the "
            f"hardware's\n{listed}\n  Run with fmad=True to go on all the same."
        )
    return agreement.ambiguous
