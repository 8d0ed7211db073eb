"""The sections of a listing, and the bytes of its data sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Relocation", "Section", "split_sections", "trim"]

_SECTION = re.compile(r"\t\.section\s+([^\s,]+)")
_TARGET = re.compile(r"\s*\.target\s+(\w+)")
# What code of CUDA 12's ptxas says instead: "EF_CUDA_64BIT_ADDRESS EF_CUDA_ACCELERATORS EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(...)".
_FLAGS = re.compile(r'\s*\.headerflags\s+@"(?P<flags>[^"(]*\bEF_CUDA_SM(?P<sm>\d+))')
_DATA = re.compile(r"\s*(?:/\*[0-9a-f]+\*/)?\s*\.(byte|short|word|dword|zero)\s+(.*)$")
_ATTRIBUTE = re.compile(r"\s*//----- nvinfo : (\w+)")
_NUMBER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)$")
_WIDTH = {"byte": 1, "short": 2, "word": 4, "dword": 8}

# Needed to run and to time code. Everything else (debug information, notes) is left out of a kept listing.
_KEPT = re.compile(r"\.(text\.|nv\.(info|constant|shared|global))")


@dataclass(frozen=True, slots=True)
class Relocation:
    """``width`` bytes at ``offset`` that hold the address of a symbol: ``lock_word``, ``fun(f)``."""

    offset: int
    width: int
    symbol: str


@dataclass(slots=True)
class Section:
    """A section of a listing: its name and its lines."""

    name: str
    lines: list[str] = field(default_factory=list)

    @property
    def align(self) -> int:
        """Bytes that its start is a multiple of."""
        return next((int(line.split()[1]) for line in self.lines if line.strip().startswith(".align")), 1)

    def content(self) -> bytearray:
        """Its bytes, with zeros where the linker puts addresses (:meth:`relocations`)."""
        out = bytearray()
        for width, value in self._items():
            number = int(value, 0) if _NUMBER.match(value) else 0
            out += bytes(number) if width == 0 else (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        return out

    def relocations(self) -> list[Relocation]:
        """Where addresses belong."""
        found = []
        at = 0
        for width, value in self._items():
            if not _NUMBER.match(value):
                found.append(Relocation(at, width, value))
            at += width or int(value, 0)
        return found

    def symbols(self) -> dict[str, int]:
        """Offset of each symbol that is defined in the section."""
        out: dict[str, int] = {}
        at = 0
        for line in self.lines:
            if line.endswith(":") and not line.startswith((" ", "\t")):
                out[line[:-1]] = at
            elif match := _DATA.match(line):
                for value in match[2].split(","):
                    at += int(value, 0) if match[1] == "zero" else _WIDTH[match[1]]
        return out

    def _items(self) -> Iterator[tuple[int, str]]:
        """(width in bytes, value as text) of each datum; width 0 means that many zeros."""
        for line in self.lines:
            if match := _DATA.match(line):
                for value in match[2].split(","):
                    yield (0 if match[1] == "zero" else _WIDTH[match[1]]), value.strip()

    def attributes(self) -> Iterator[tuple[str, list[str]]]:
        """(name, values) of each attribute of an information section, what stands before its size and that left out."""
        name, values = "", list[str]()
        for line in self.lines:
            if match := _ATTRIBUTE.match(line):
                if name:
                    yield name, values[1:] or [""]
                name, values = match[1], []
            elif (match := _DATA.match(line)) and (values or match[1] != "byte"):
                values += [value.strip() for value in match[2].split(",")]
        if name:
            yield name, values[1:] or [""]


def split_sections(text: str) -> tuple[str, list[Section]]:
    """The target (``sm_90``) and the sections of a listing, in order."""
    target = ""
    sections: list[Section] = []
    for line in text.splitlines():
        if match := _SECTION.match(line):
            sections.append(Section(match[1]))
        elif sections:
            sections[-1].lines.append(line)
        elif match := _TARGET.match(line):
            target = match[1]
        elif not target and (match := _FLAGS.match(line)):
            target = f"sm_{match['sm']}{'a' if 'EF_CUDA_ACCELERATORS' in match['flags'] else ''}"
    return target, sections


def _wanted(section: Section, line: str) -> bool:
    """Alignment says something of data sections only."""
    return not line.lstrip().startswith(".align") or section.name in (".nv.global", ".nv.global.init", ".nv.constant3")


def trim(text: str) -> str:
    """A listing without the sections that neither running nor timing needs (debug information is most of it), without
    alignment lines and trailing blanks."""
    target, sections = split_sections(text)
    lines = [f"\t.target\t{target}"]
    for section in sections:
        if _KEPT.match(section.name):
            lines.append(f"\t.section\t{section.name}")
            lines += [
                re.sub(r"\s{2,}/\* 0x", "  /* 0x", line) for line in section.lines if line.strip() and _wanted(section, line)
            ]
    return "\n".join(lines) + "\n"
