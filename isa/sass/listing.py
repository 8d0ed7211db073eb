"""Machine code as nvdisasm lists it (``nvdisasm -gp -hex``, and ``-g``), read into typed instructions.

A listing holds everything that running a kernel needs: its instructions with their encoding, the PTX line of each, what its
sections say of registers, memory and parameters, and the contents of the constant banks. Nothing is skipped: a line of a code
section that is not understood is an error that names its address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from isa.errors import TcsimError
from isa.sass.control import ControlBits, control_bits
from isa.sass.operands import Operand, Register, parse_operands
from isa.sass.sections import Section, split_sections

__all__ = ["CodeSection", "ListingError", "MachineCode", "MachineInstruction", "read_listing"]

INSTRUCTION_BYTES = 16


class ListingError(TcsimError):
    """A listing that this version cannot read: the message says what and at which address."""


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One instruction. ``address``: bytes from the start of its section. ``opcode``: with modifiers, as ``LDG.E.64``.

    ``guard``: the predicate of ``@P0``, or None. ``ptx_line``: 0 where none is known. ``low``, ``high``: the two 64-bit words
    of the encoding. ``targets``: labels of an indirect branch.
    """

    address: int
    opcode: str
    guard: Register | None
    operands: tuple[Operand, ...]
    ptx_line: int
    low: int
    high: int
    text: str
    targets: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def control(self) -> ControlBits:
        """Stall count, barriers and reuse flags."""
        return control_bits(self.high)

    @property
    def immediate(self) -> int:
        """The 32-bit immediate of the encoding (word bits 32 to 63)."""
        return self.low >> 32


@dataclass(slots=True)
class CodeSection:
    """The code of one kernel or device function. ``labels``: name to address; ``is_kernel``: whether it can be launched.

    ``registers``: per thread; ``static_shared``: bytes, the system's reserved ones included; ``stack``: bytes of local memory;
    ``recurses``: it takes more, how much is not known;
    ``parameter_base``, ``parameter_size``: where parameters are in constant bank 0, in bytes; ``parameter_offsets``: of each,
    by its number, from the first byte of all (alignment counts from the start of the bank). ``cuda_lines``: file and line of
    the CUDA source by PTX line, where the listing has them (``nvdisasm -g``).
    """

    name: str
    instructions: list[MachineInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    is_kernel: bool = False
    registers: int = 0
    static_shared: int = 0
    stack: int = 0
    recurses: bool = False
    parameter_base: int = 0
    parameter_size: int = 0
    parameter_offsets: dict[int, int] = field(default_factory=dict)
    cuda_lines: dict[int, tuple[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class MachineCode:
    """A listing: code by section name, and the data sections of constant banks by name (``.nv.constant3``)."""

    target: str
    code: dict[str, CodeSection]
    data: dict[str, Section]

    @property
    def variables(self) -> set[str]:
        """Names of the variables that data sections define."""
        return {name for section in self.data.values() for name in section.symbols() if not name.startswith(".")}

    @property
    def kernels(self) -> list[CodeSection]:
        """Those that can be launched, in the order of the listing."""
        return [section for section in self.code.values() if section.is_kernel]


_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*/\* 0x([0-9a-f]{16}) \*/$")
_SECOND_WORD = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/$")
_SOURCE = re.compile(r'\s*//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)')
_CUDA_SOURCE = re.compile(r'\s*//## File "([^"]+)", line (\d+)')
_LABEL = re.compile(r"([\w$.]+):$")
_GUARD = re.compile(r"@(!?)(U?P)(\d|T)\s+")
_SIZE = re.compile(r"\s*\.size\s+[\w$.]+,\(([\w$.]+) - ")
_UNKNOWN_STACK = 0xFFFF_FFFF
_PARAMETERS_FROM = (0x160, 0x210)  # of bank 0: up to sm_89, on sm_90 (EIATTR_PARAM_CBANK of ptxas 13.0)
_TARGETS = re.compile(r'\(\*"BRANCH_TARGETS ([^"]*)"\*\)')
_IGNORED = re.compile(r"\s*(\.(align|type|size|other|global|weak|section\w*|local|sectionflags)\b.*|//.*)?$")


def read_listing(text: str) -> MachineCode:
    """Read a listing. Raises ListingError."""
    target, sections = split_sections(text)
    machine = MachineCode(target, {}, {})
    for section in sections:
        if section.name.startswith(".text."):
            machine.code[section.name[6:]] = _read_code(section)
        else:
            machine.data[section.name] = section
    for code in machine.code.values():
        try:
            _attributes(machine, code)
        except (IndexError, ValueError):
            raise ListingError(f"{code.name}: what .nv.info says of it is not complete") from None
    return machine


def _read_code(section: Section) -> CodeSection:
    code = CodeSection(section.name[6:])
    ptx_line = 0
    cuda: tuple[str, int] | None = None
    ends = set[str]()
    pending: tuple[str, str, str] | None = None
    for line in section.lines:
        if pending is not None:
            second = _SECOND_WORD.match(line)
            if second is None:
                raise ListingError(f"{code.name}: no second encoding word behind address {pending[0]}: {line.strip()!r}")
            code.instructions.append(_instruction(*pending, second[1], ptx_line))
            pending = None
        elif match := _INSTRUCTION.match(line):
            pending = match[1], match[2], match[3]
            if cuda is not None and ptx_line:
                code.cuda_lines.setdefault(ptx_line, cuda)
            if int(match[1], 16) != (expected := INSTRUCTION_BYTES * len(code.instructions)):
                raise ListingError(f"{code.name}: the instruction at {expected:#x} is missing; at {match[1]} is {match[2]}")
        elif match := _SOURCE.match(line):
            ptx_line = int(match[1])
        elif match := _CUDA_SOURCE.match(line):
            cuda = match[1], int(match[2])
        elif match := _LABEL.match(line):
            code.labels[match[1]] = len(code.instructions) * INSTRUCTION_BYTES
        elif line.strip().startswith(".other") and "STO_CUDA_ENTRY" in line:
            code.is_kernel = True
        elif match := _SIZE.match(line):
            ends.add(match[1])
        elif not _IGNORED.match(line):
            raise ListingError(f"{code.name}: cannot read {line.strip()!r} behind address {16 * len(code.instructions):#x}")
    if pending is not None or not ends <= code.labels.keys():
        raise ListingError(f"{code.name}: the listing ends in the middle, behind address {16 * len(code.instructions):#x}")
    return code


def _instruction(address: str, text: str, low: str, high: str, ptx_line: int) -> MachineInstruction:
    guard = None
    body = text.strip("{} ")
    if match := _GUARD.match(body):
        index = -1 if match[3] == "T" else int(match[3])
        guard = Register(match[2], index, negated=bool(match[1]))
        body = body[match.end() :]
    opcode, _, rest = body.partition(" ")
    targets = _TARGETS.search(rest)
    return MachineInstruction(
        int(address, 16),
        opcode,
        guard,
        parse_operands(rest),
        ptx_line,
        int(low, 16),
        int(high, 16),
        text,
        tuple(targets[1].split(",")) if targets else (),
    )


def _attributes(machine: MachineCode, code: CodeSection) -> None:
    """What the information sections say of a piece of code."""
    shared = machine.data.get(f".nv.shared.{code.name}")
    code.static_shared = len(shared.content()) if shared is not None else 0
    everyone = machine.data.get(".nv.info")
    for name, values in everyone.attributes() if everyone is not None else ():
        if values[0] == f"index@({code.name})":
            if name == "EIATTR_REGCOUNT":
                code.registers = int(values[1], 0)
            elif name == "EIATTR_MIN_STACK_SIZE":
                code.stack = int(values[1], 0)
                code.recurses = code.stack == _UNKNOWN_STACK
                code.stack *= not code.recurses
    own = machine.data.get(f".nv.info.{code.name}")
    for name, values in own.attributes() if own is not None else ():
        if name == "EIATTR_PARAM_CBANK":
            code.parameter_base, code.parameter_size = int(values[1], 0), int(values[2], 0)
        elif name == "EIATTR_KPARAM_INFO":
            code.parameter_offsets[int(values[1], 0)] = int(values[2], 0)
    if not code.parameter_base:  # nothing is said of a kernel without parameters
        code.parameter_base = _PARAMETERS_FROM[int(re.sub(r"\D", "", machine.target) or 0) >= 90]
