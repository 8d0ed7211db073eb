"""The timed loop as machine code: what ``nvdisasm -c`` prints, and whether it is what was meant to be measured."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Check", "Instruction", "Listing", "check", "disassemble", "port_cycles", "read_listing", "timed_loop"]

_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P[0-9T]+)\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([\w$]+)")


@dataclass(frozen=True)
class Instruction:
    """``address`` in bytes; ``opcode`` with its modifiers; ``operands`` as printed; ``guard`` such as ``@!P0`` or ""."""

    address: int
    guard: str
    opcode: str
    operands: str


@dataclass(frozen=True)
class Listing:
    """The instructions of one kernel, and the address of each label."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


@dataclass(frozen=True)
class Check:
    """In kernel ``entry``, the timed loop must hold ``count`` instructions whose opcode matches ``opcode`` (a regular
    expression, matched from the start), and at most ``others`` that do not, NOPs left out (None: any number)."""

    entry: str
    opcode: str
    count: int
    others: int | None = None


def disassemble(nvdisasm: Path, cubin: Path) -> dict[str, Listing]:
    """The kernels of a cubin, by name. Raises OSError or CalledProcessError."""
    answer = subprocess.run([str(nvdisasm), "-c", str(cubin)], capture_output=True, text=True, check=True)
    return read_listing(answer.stdout)


def read_listing(text: str) -> dict[str, Listing]:
    """Parse what ``nvdisasm -c`` prints."""
    kernels: dict[str, tuple[list[Instruction], dict[str, int]]] = {}
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    for line in text.splitlines():
        if section := _SECTION.match(line):
            instructions, labels = kernels.setdefault(section.group(1), ([], {}))
        elif label := _LABEL.match(line):
            waiting.append(label.group(1))
        elif match := _INSTRUCTION.match(line):
            address, guard, opcode, operands = match.groups()
            instructions.append(Instruction(int(address, 16), guard or "", opcode, operands))
            labels.update(dict.fromkeys(waiting, int(address, 16)))
            waiting.clear()
    return {name: Listing(tuple(found), known) for name, (found, known) in kernels.items()}


def timed_loop(listing: Listing) -> tuple[Instruction, ...]:
    """The longest loop that holds no other loop: from the target of a backward branch to the branch. () without one."""
    spans = []
    for instruction in listing.instructions:
        target = re.search(r"\.L_x_\d+", instruction.operands)
        if instruction.opcode.startswith("BRA") and target:
            start = listing.labels.get(target.group(), instruction.address)
            if start < instruction.address:
                spans.append((start, instruction.address))
    inner = [a for a in spans if not any(a[0] <= b[0] and b[1] <= a[1] and a != b for b in spans)]
    if not inner:
        return ()
    start, end = max(inner, key=lambda span: span[1] - span[0])
    return tuple(i for i in listing.instructions if start <= i.address <= end)


def check(listings: dict[str, Listing], wanted: Check) -> str | None:
    """None if the loop is as wanted, else what is wrong with it."""
    listing = listings.get(wanted.entry)
    if listing is None:
        return f"{wanted.entry}: no such kernel in the machine code"
    loop = timed_loop(listing)
    found = sum(re.match(wanted.opcode, i.opcode) is not None for i in loop)
    others = sum(i.opcode != "NOP" for i in loop) - found  # ptxas fills waits of more than 15 cycles with NOP
    if found != wanted.count or (wanted.others is not None and others > wanted.others):
        kinds: dict[str, int] = {}
        for i in loop:
            kinds[i.opcode] = kinds.get(i.opcode, 0) + 1
        most = ", ".join(f"{n} {op}" for op, n in sorted(kinds.items(), key=lambda kind: -kind[1])[:6])
        return f"{wanted.entry}: {found} of {wanted.count} x {wanted.opcode} and {others} others in the loop ({most})"
    return None


def port_cycles(loop: tuple[Instruction, ...]) -> float:
    """Cycles per instruction that reading registers would take: each of two banks (register number modulo 2) gives one
    register a cycle, and a queue evens out neighbouring instructions. A value read with ``.reuse`` stays in a cache of one
    register for each bank and operand position until another is read there (Huerta et al., MICRO'25; measured intervals of
    FFMA on an H200 agree). 64-bit operands are counted once."""
    kept: dict[tuple[int, int], int] = {}
    reads = [0, 0]
    for instruction in loop:
        seen = set()
        for position, operand in enumerate(instruction.operands.split(",")[1:]):
            match = re.search(r"\bR(\d+)\b", operand)
            if match is None:
                continue
            register = int(match.group(1))
            bank = register % 2
            if kept.get((bank, position)) != register and register not in seen:
                reads[bank] += 1
                kept.pop((bank, position), None)
            seen.add(register)
            if ".reuse" in operand:
                kept[bank, position] = register
    return max(reads) / max(1, len(loop))
