"""The names of a program's registers, of PTX or of machine code, and their values in words that people read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isa.lower import simplified
from isa.lower.emit import register_places
from isa.lower.ir import VReg
from isa.lower.link import link
from isa.ptx import ast

if TYPE_CHECKING:
    from isa.program import Program
    from isa.sass.source import MachineSource

__all__ = ["Names", "Register", "lane_text", "machine_names", "register_names"]


@dataclass(frozen=True)
class Register:
    """A register: its name in the PTX, its declared type, the byte offset of its first plane (predicate: of its word)."""

    name: str
    type: str
    place: int
    planes: int

    @property
    def is_predicate(self) -> bool:
        return self.type == "pred"

    def read(self, block: NDArray[np.uint32]) -> NDArray[np.uint64]:
        """Its value in every lane, uint64 [32], from a warp's register block."""
        at = self.place // 4
        if self.is_predicate:
            return (np.uint64(block[at]) >> np.arange(32, dtype=np.uint64)) & np.uint64(1)
        low = block[at : at + 32].astype(np.uint64)
        if self.planes < 2:
            return low
        return low | (block[at + 32 : at + 64].astype(np.uint64) << np.uint64(32))


@dataclass
class Names:
    """By instruction: the registers it reads and those it writes."""

    reads: list[tuple[Register, ...]] = field(default_factory=list)
    writes: list[tuple[Register, ...]] = field(default_factory=list)


def register_names(module: ast.Module, kernel: str, *, fmad: bool) -> Names:
    """The registers of a kernel's program, by instruction."""
    lowered = simplified(module, kernel, fmad=fmad)
    link(lowered)
    places = register_places(lowered)
    known: dict[int, Register] = {}

    def of(vreg: VReg) -> Register:
        if vreg.index not in known:
            kind = "pred" if vreg.is_predicate else vreg.type.name
            known[vreg.index] = Register(vreg.name, kind, places[vreg.index], max(1, vreg.type.planes))
        return known[vreg.index]

    names = Names()
    for instr in lowered.instructions:
        names.reads.append(tuple(dict.fromkeys(of(r) for r in instr.sources())))
        names.writes.append(tuple(dict.fromkeys(of(r) for r in instr.destinations())))
    names.reads.append(())
    names.writes.append(())
    return names


def machine_names(source: MachineSource, program: Program) -> Names:
    """The registers of a program of machine code, by instruction: R, uniform UR, predicates P and UP, barriers B. They have no
    types; what an instruction on float32 reads or writes counts as such there."""

    def of(name: tuple[str, int], is_float: bool) -> Register:
        file, index = name
        kind = "pred" if file in ("P", "UP") else "f32" if is_float and file == "R" else "b32"
        return Register(f"{file}{index}", kind, source.places[name], 1)

    names = Names()
    for opcode, reads, writes in zip(program.opcodes, source.reads, source.writes, strict=False):
        base = opcode.partition(".")[0]
        is_float = base in _FLOATS
        names.reads.append(tuple(of(name, is_float and base != "I2F") for name in reads))
        names.writes.append(tuple(of(name, is_float or opcode.startswith(_SUMS)) for name in writes))
    behind: list[tuple[Register, ...]] = [()] * (len(program) - len(names.reads))
    return Names(names.reads + behind, names.writes + behind)


_FLOATS = frozenset(("FADD", "FCHK", "FFMA", "FMNMX", "FMUL", "FSEL", "FSET", "FSETP", "FSWZADD", "I2F", "I2FP", "MUFU"))
"""Machine instructions on float32, whose registers are shown as such."""

_SUMS = tuple(f"HMMA.{shape}.F32" for shape in ("1684", "1688", "16816")) + tuple(f"HMMA.SP.{k}.F32" for k in (16816, 16832))
"""Those whose results only are float32."""


def lane_text(value: int, type_: str, style: str = "") -> str:
    """A lane's value as its type suggests, or as ``style`` says: hex, dec, f32, f16x2."""
    style = style or ("f32" if type_ == "f32" else "f64" if type_ == "f64" else "")
    if type_ == "pred":
        return "1" if value else "0"
    if style == "f32":
        return f"{np.uint32(value & 0xFFFF_FFFF).view(np.float32):.6g}"
    if style == "f64":
        return f"{np.uint64(value).view(np.float64):.10g}"
    if style == "f16x2":
        low, high = (np.uint16(value >> shift & 0xFFFF).view(np.float16) for shift in (0, 16))
        return f"{high:.4g}|{low:.4g}"
    if style == "hex":
        return f"{value:#x}"
    if type_.startswith("s") or (style == "dec" and type_.startswith("b")):
        bits = int(type_[1:]) if type_[1:].isdigit() else 32
        return str(value - (1 << bits) if value >> (bits - 1) & 1 else value)
    return str(value) if value < 1 << 20 else f"{value:#x}"
