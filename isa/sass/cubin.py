"""Machine code from a cubin, or from a fatbin that holds one: its listing, and PTX declarations of what it has.

A cubin says of each kernel where its parameters are, and of each variable its place and initial value. As the rest of tcsim
asks a PTX module for such things, they are written down as PTX whose kernels have no body worth the name. (Sections and
attributes as nvdisasm names them; a fatbin's headers as CUDA 13.0's fatbinary writes them.)
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from isa.cachefolder import cache_folder
from isa.errors import TcsimError
from isa.sass.assemble import Listing
from isa.sass.bank import GENERIC
from isa.sass.listing import CodeSection, MachineCode
from isa.sass.sections import Section, trim
from isa.sass.toolchain import AssemblerError, required, run_tool

__all__ = ["CubinError", "declarations", "is_machine_code", "listing_of", "runs_on"]

_ELF, _FATBIN = b"\x7fELF", struct.pack("<I", 0xBA55ED50)
_FATBIN_HEADER = struct.Struct("<IHHQ")
_ENTRY_HEADER = struct.Struct("<HHIQIIHHI")
_KIND_ELF = 2


class CubinError(TcsimError):
    """A cubin or fatbin that cannot be used: the message says why, and what to do."""


def is_machine_code(data: bytes) -> bool:
    """Whether a file is a cubin or a fatbin."""
    return data[:4] in (_ELF, _FATBIN)


def runs_on(target: str, sm: int) -> bool:
    """Whether machine code for ``sm_80`` runs on an architecture: those of the same major number from there on; code for
    ``sm_90a`` on that one alone (CUDA programming guide, "Binary Compatibility")."""
    number = int(re.sub(r"\D", "", target))
    return number == sm if target[-1] in "af" else number // 10 == sm // 10 and number <= sm


def listing_of(data: bytes, sm: int, where: str) -> Listing:
    """The listing of a cubin (or of the best one of a fatbin) for an architecture, kept on disk by the hash of its bytes.

    Raises CubinError, AssemblerError if nvdisasm is missing.
    """
    cubin = data if data[:4] == _ELF else _choose(_members(data, where), sm, where)
    folder = cache_folder() / "listings"
    folder.mkdir(exist_ok=True)
    kept = folder / f"{hashlib.sha256(cubin).hexdigest()[:24]}.lines.sass"
    if not kept.exists():
        draft = kept.with_suffix(f".{os.getpid()}.tmp")
        draft.write_text(_disassemble(cubin, where))
        draft.replace(kept)
    return Listing.from_text(kept.read_text())


def _disassemble(cubin: bytes, where: str) -> str:
    nvdisasm = required("nvdisasm")
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "module.cubin"
        file.write_bytes(cubin)
        answer = run_tool([str(nvdisasm), "-g", "-gp", "-hex", str(file)])
    if answer.returncode != 0:
        raise AssemblerError(f"nvdisasm refuses {where}: {answer.stderr.strip().replace(str(file), where)[:2000]}")
    version = re.search(rb"Cuda compilation tools, release [\d.]+, V([\d.]+)", cubin)
    return f"// ptxas {version[1].decode() if version else '0'}\n{trim(answer.stdout)}"


# ------------------------------------------------------------------------------------------------------------- fatbins


@dataclass(frozen=True, slots=True)
class _Member:
    """A part of a fatbin that holds machine code. ``sm``: its architecture; ``compressed``: bytes if it is, else 0."""

    sm: int
    data: bytes
    compressed: int


def _members(data: bytes, where: str) -> list[_Member]:
    try:
        _, _, header, size = _FATBIN_HEADER.unpack_from(data)
        at, end = header, header + size
        members = []
        while at < end:
            kind, _, start, length, compressed, _, _, _, sm = _ENTRY_HEADER.unpack_from(data, at)
            if kind == _KIND_ELF:
                members.append(_Member(sm, data[at + start : at + start + length], compressed))
            at += start + length
    except struct.error:
        raise CubinError(f"{where}: the fatbin ends in the middle") from None
    return members


def _choose(members: list[_Member], sm: int, where: str) -> bytes:
    fitting = [member for member in members if runs_on(f"sm_{member.sm}", sm)]
    if not fitting:
        has = ", ".join(f"sm_{member.sm}" for member in members) or "none"
        raise CubinError(f"{where} holds no machine code that runs on sm_{sm}. It has: {has}")
    best = max(fitting, key=lambda member: member.sm)
    if best.compressed or best.data[:4] != _ELF:
        raise CubinError(f"{where}: its code is compressed. Extract it with cuobjdump -xelf all, or build with -no-compress")
    return best.data


# -------------------------------------------------------------------------------------------------------- declarations


def declarations(machine: MachineCode) -> str:
    """PTX that declares the kernels of machine code with their parameters, and its variables with their values."""
    lines = [".version 8.0", f".target {machine.target}", ".address_size 64"]
    for name, space in ((".nv.global", "global"), (".nv.global.init", "global"), (".nv.constant3", "const")):
        if name in machine.data:
            lines += _variables(machine.data[name], space)
    lines += [_kernel(machine, code) for code in machine.kernels]
    return "\n".join(lines) + "\n"


def _variables(section: Section, space: str) -> list[str]:
    content, places = section.content(), section.symbols()
    starts = sorted({*places.values(), len(content)})
    ends = dict(pairwise(starts))
    relocations = {relocation.offset: relocation for relocation in section.relocations()}
    align = max((a for a in (16, 8, 4, 2, 1) if section.align % a == 0), default=1)
    out = []
    for name, start in places.items():
        end = ends.get(start, start)
        if name.startswith(".") or end == start:
            continue
        values, at = list[str](), start
        while at < end:
            relocation = relocations.get(at)
            if relocation is None:
                values.append(str(content[at]))
                at += 1
            else:
                symbol = relocation.symbol.removeprefix(GENERIC).strip("()")
                values += [f"{0xFF << 8 * byte:#x}({symbol})" for byte in range(relocation.width)]
                at += relocation.width
        value = f" = {{{', '.join(values)}}}" if any(text != "0" for text in values) else ""
        out.append(f".visible .{space} .align {align} .b8 {name}[{end - start}]{value};")
    return out


def _kernel(machine: MachineCode, code: CodeSection) -> str:
    own = machine.data.get(f".nv.info.{code.name}")
    parameters: list[tuple[int, int, int]] = []
    directives = ""
    for name, values in own.attributes() if own is not None else ():
        if name == "EIATTR_KPARAM_INFO":
            ordinal, offset = int(values[1], 0), int(values[2], 0)
            last = sum(int(byte, 0) << 8 * place for place, byte in enumerate(values[3:]))
            parameters.append((ordinal, offset, last >> 18))
        elif name in _DIRECTIVES and len(values) >= 3:
            directives += f" .{_DIRECTIVES[name]} {', '.join(str(int(value, 0)) for value in values[:3])}"
    texts, end = [], 0
    for ordinal, offset, size in sorted(parameters):
        align = next((a for a in (1, 2, 4, 8, 16) if -(-end // a) * a == offset), 1)
        plain = size in (1, 2, 4, 8) and offset % size == 0
        texts.append(f".param .b{8 * size} p{ordinal}" if plain else f".param .align {align} .b8 p{ordinal}[{size}]")
        end = offset + size
    return f".visible .entry {code.name}({', '.join(texts)}){directives}\n{{\ntrap;\n}}"


_DIRECTIVES = {
    "EIATTR_MAX_THREADS": "maxntid",
    "EIATTR_REQNTID": "reqntid",
    "EIATTR_CTA_PER_CLUSTER": "reqnctapercluster",
}
