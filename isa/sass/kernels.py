"""Compiled kernels of machine instructions: those of PTX instructions, with operands read as machine code reads them.

Two things differ. An operand may be negated, made absolute, inverted or taken from half a register as it is read. An address
may have a scale and a uniform register besides its base and offset.

Uniform registers, one for a whole warp on hardware, are planes like any other, written in the lanes that execute: all lanes
that run together see the same value, and groups of lanes that have separated cannot disturb each other. Under the guard of some
lanes (``@P1 R2UR``, in loops that take one lane's address after another) they are written for all, as on hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from isa.kernels.specialize import Specialized, specialize
from isa.kernels.wrap import LaneKernel, PlanesKernel, WarpKernel
from isa.machine import SPACES
from isa.sass.registry import MachineForm
from isa.spec.registry import ResolvedOperand

__all__ = ["EVERYWHERE", "MachineKernelSpec"]


class MachineKernelSpec(Struct, frozen=True, eq=False):
    """A form and what else its compiled kernel depends on.

    ``readings``: for each operand, what is done to it when it is read, in order (``abs``, ``neg``, ``inv``, ``not``, a half
    such as ``H1_H1``; of an address ``scale4``, ``uniform``; of a destination :data:`EVERYWHERE`). ``planes``: register planes
    of each operand (of the base for an address). ``constants``: parameters that depend on the target.
    """

    form: MachineForm
    readings: tuple[tuple[str, ...], ...]
    planes: tuple[int, ...]
    constants: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Identity: two specs with the same key share a kernel."""
        extra = "".join(f",{name}={value}" for name, value in sorted(self.constants.items()))
        return f"{self.form.name}|{id(self.form.instruction)}|{self.readings}|{self.planes}{extra}"

    def source(self) -> str:
        """The Python source of the module that defines ``kernel``."""
        entry = self.form.instruction
        assert entry.function is not None
        names = (o.name for o in self.form.operands)
        signs = {f"negated_{n}": "neg" in r or "inv" in r for n, r in zip(names, self.readings, strict=True)}
        space = {"space": SPACES[entry.state]}
        special = specialize(entry.function, {**space, **self.form.params, **self.constants, **signs})
        if entry.body == "planes":
            return PlanesKernel(self, special).module()  # type: ignore[arg-type]
        writer: _MachineLane | _MachineWarp
        writer = (_MachineLane if entry.body == "lane" else _MachineWarp)(self, special)
        return writer.module()


EVERYWHERE = "everywhere"
"""As a reading of a destination: what is written is written in all lanes."""

_IMPORTS = ("from isa.arith.float64 import abs_f64, neg_f64",)
# A pair of halves is named high half first.
_PAIR = {
    "H0_H0": "np.uint32(({0} & np.uint32(0xFFFF)) * np.uint32(0x10001))",
    "H1_H1": "np.uint32(({0} >> np.uint32(16)) * np.uint32(0x10001))",
    "H0_NH1": "np.uint32((({0} >> np.uint32(16)) | ({0} << np.uint32(16))) ^ np.uint32(0x8000))",
}
_PART = {"H1": 16, "B1": 8, "B2": 16, "B3": 24}
# ``R6.28`` of I2IP: how many low bits of the register stay, which its other modifiers say too.
_NOTHING_DONE = frozenset({"H1_H0", "H0", "B0", "ROW", "COL", "64", "24", "28"})


def read_text(operand: ResolvedOperand, value: str, reading: tuple[str, ...], raw_sign: bool) -> str:
    """The expression for an operand's value, given the one for what its register holds (of the operand's own lane type)."""
    kind, bits = operand.type.kind, operand.type.bits
    for step in reading:
        if step in _NOTHING_DONE or (raw_sign and step in ("neg", "inv")):
            continue
        if step == "not":
            value = f"(not {value})"
        elif step in _PAIR and bits == 32:
            value = _PAIR[step].format(value)
        elif step in _PART and kind == "u" and bits == 32:  # UR2UP
            value = f"(({value} >> np.uint32({_PART[step]})) & np.uint32(0xFF))"
        elif kind == "f" and bits == 32:  # on the bits, whatever they mean: FSEL passes a NaN on so
            sign = "^ np.uint32(0x80000000)" if step == "neg" else "& np.uint32(0x7FFFFFFF)"
            value = f"bits_f32(f32_bits({value}) {sign})"
        elif kind == "f":
            value = f"{step}_f64({value})"
        elif kind == "x":
            sign = {16: "np.uint16(0x8000)", 32: "np.uint32(0x80008000)"}[bits]
            value = f"({value} ^ {sign})" if step == "neg" else f"({value} & ~{sign})"
        elif step == "neg":
            value = f"np.{operand.type.lane}(-np.int64({value}))"
        elif step == "inv":
            value = f"np.{operand.type.lane}(~{value})"
        elif step == "abs" and kind == "s":
            value = f"np.{operand.type.lane}(abs(np.int64({value})))"
        else:
            raise ValueError(f"{operand.name}: cannot read {step} of .{operand.type.name}")
    return value


class _MachineLane(LaneKernel):
    """The loop over lanes around a scalar body."""

    def __init__(self, spec: MachineKernelSpec, special: Specialized) -> None:
        special.imports = (*special.imports, *_IMPORTS)
        super().__init__(spec, special)  # type: ignore[arg-type]
        self.reading = dict(zip((o.name for o in spec.form.operands), spec.readings, strict=True))
        self.raw = spec.form.instruction.raw_signs

    def _read(self, operand: ResolvedOperand, index: int, reads: list[str]) -> str:
        reading = self.reading[operand.name]
        name, kind = f"{operand.name}{index}", operand.type
        if reading == ("SIGN",):
            self.emit(f"{name}_plane = as_u32({self.plane(operand.name, index)})")
            reads.append(f"{name} = ({name}_plane[lane] >> np.uint32(31)) != np.uint32(0)")
            return name
        part = next((step for step in reading if step in _PART), None)
        if part is not None and kind.bits < 32:
            self.emit(f"{name}_plane = as_u32({self.plane(operand.name, index)})")
            value = f"np.uint{kind.bits}({name}_plane[lane] >> np.uint32({_PART[part]}))"
            reads.append(f"{name} = " + (f"np.int{kind.bits}({value})" if kind.kind == "s" else value))
            reading = tuple(step for step in reading if step != part)
        else:
            super()._read(operand, index, reads)
        text = read_text(operand, name, reading, operand.name in self.raw)
        if text != name:
            reads.append(f"{name} = {text}")
        return name


class _MachineWarp(WarpKernel):
    """A body over whole warps."""

    def __init__(self, spec: MachineKernelSpec, special: Specialized) -> None:
        self.readings = spec.readings
        super().__init__(spec, special)  # type: ignore[arg-type]
        self.reading = dict(zip((o.name for o in spec.form.operands), spec.readings, strict=True))

    def body(self) -> None:
        if "predicates" in self.special.arguments:  # P0 to P6 are the first words of the register block
            self.emit("predicates = as_u32(R)")
        super().body()

    def slots(self, operand: ResolvedOperand) -> int:
        """An address has a third entry for its uniform register."""
        place = self.spec.form.operands.index(operand)
        return super().slots(operand) + ("uniform" in self.readings[place])

    def _address(self, operand: ResolvedOperand) -> None:
        name, reading = operand.name, self.reading[operand.name]
        slot = self.at[name]
        self.emit(f"{name} = stack_array(32, np.uint64)")
        self.emit(f"{name}_lo = as_u32(R + o[{slot}])")
        scale = next((step[5:] for step in reading if step.startswith("scale")), "1")
        low = f"{name}_lo[lane]" + (f" * np.uint32({scale})" if scale != "1" else "")
        if "uniform" in reading:
            self.emit(f"{name}_more = as_u32(R + o[{slot + 2}])")
            low += f" + {name}_more[lane]"
        if self.planes[name] == 2:
            self.emit(f"{name}_hi = as_u32(R + o[{slot}] + 128)")
            value = f"(np.uint64({name}_lo[lane]) | (np.uint64({name}_hi[lane]) << np.uint64(32)))"
            value += f" + np.uint64(np.int64(o[{slot + 1}]))"
        else:
            value = f"np.uint64(np.uint32({low} + np.uint32(o[{slot + 1}])))"
        self.emit("for lane in range(32):")
        self.emit(f"{name}[lane] = {value}", 2)

    def _scatter(self, operand: ResolvedOperand) -> None:
        if EVERYWHERE in self.reading[operand.name]:
            self.emit(f"lo = as_u32({self.plane(operand.name, 0)})")
            self.emit("for lane in range(32):")
            self.emit(f"lo[lane] = {operand.name}_flat[lane]", 2)
        else:
            super()._scatter(operand)

    def _gather(self, operand: ResolvedOperand) -> None:
        super()._gather(operand)
        reading = self.reading[operand.name]
        if operand.type.kind == "p":
            if "not" in reading:
                self.emit(f"{operand.name} = ~{operand.name}")
        elif any(step not in _NOTHING_DONE for step in reading):
            self.emit(f"for lane in range({32 * operand.count}):")
            name = f"{operand.name}_flat[lane]"
            self.emit(f"{name} = {read_text(operand, name, reading, False)}", 2)
