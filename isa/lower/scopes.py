"""What a name means: PTX scopes registers, variables and labels to their ``{}`` block (PTX ISA 4.1, 5.1, 6.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from isa.errors import PtxError
from isa.lower.ir import Kernel, VReg
from isa.ptx.ast import Block, Directive, Function, Label, Registers, Variable
from isa.ptx.initializers import evaluate
from isa.types import SCALAR_TYPES, ScalarType

__all__ = [
    "OPAQUE",
    "Cells",
    "LabelRef",
    "Scope",
    "Symbol",
    "VectorRegister",
    "Wide",
    "element_bytes",
    "layout",
    "variable_align",
    "variable_bytes",
]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable whose address is known while lowering: shared, local and parameter space. ``offset`` in its window, or, of
    space ``frame`` (local variables of recursive functions), from the start of the function's frame on the stack.
    ``element``: bytes of an element."""

    name: str
    space: str
    offset: int
    element: int = 0


@dataclass(eq=False, slots=True)
class LabelRef:
    """A label of one block; ``index`` is the instruction it stands before, once seen."""

    name: str
    index: int = -1


@dataclass(eq=False, slots=True)
class Cells:
    """A parameter variable of a function or of a call: see :mod:`isa.lower.parameters`. ``registers`` of 4 bytes each, or one
    of 8 bytes. ``address``: where it is in local memory, if its address is taken."""

    name: str
    size: int
    registers: list[VReg]
    address: Symbol | None = None

    @property
    def width(self) -> int:
        """Bytes of a cell."""
        return self.registers[0].type.bytes if self.registers else 4


@dataclass(frozen=True, slots=True)
class Wide:
    """A ``.b128`` register: a pair of 64-bit ones, which instructions see as a vector (the low half first)."""

    low: VReg
    high: VReg


@dataclass(frozen=True, slots=True)
class VectorRegister:
    """``.reg .v4 .f32 v``: the names of its scalar registers, ``v.x`` to ``v.w``."""

    elements: tuple[str, ...]


Meaning = VReg | Wide | VectorRegister | Symbol | Cells | LabelRef | Variable | Directive | Function

OPAQUE = ("texref", "samplerref", "surfref")
"""Types of variables that are handles and have no bytes (PTX ISA 5.3)."""

_RANGE = re.compile(r"(.*?)(\d+)$")


@dataclass(slots=True)
class Scope:
    """The names of one block. Looking up goes outwards."""

    kernel: Kernel
    outer: Scope | None = None
    names: dict[str, Meaning] = field(default_factory=dict)
    ranges: dict[str, tuple[int, ScalarType]] = field(default_factory=dict)

    def declare_registers(self, node: Registers) -> None:
        """Names are bound now; the members of ``%r<100>`` on first use (files declare tens of thousands)."""
        type_ = SCALAR_TYPES.get(node.type)
        if type_ is None or (type_.bits < 8 and type_.kind != "p"):
            raise PtxError(f".reg .{node.type}: not a register type (PTX ISA 5.2)", node.line, self.kernel.name)
        if node.vector not in (1, 2, 4) or (node.vector > 1 and (node.ranges or type_.bits > 64)):
            raise PtxError(f".reg .v{node.vector} .{node.type}: vector registers are .v2 or .v4 of plain names", node.line)
        for name in node.names:
            if node.vector == 1:
                self.names[name] = self._new(type_, name)
                continue
            elements = tuple(f"{name}.{axis}" for axis in "xyzw"[: node.vector])
            self.names[name] = VectorRegister(elements)
            self.names |= {element: self._new(type_, element) for element in elements}
            self.kernel.vector_registers = True
        for prefix, count in node.ranges:
            self.ranges[prefix] = (count, type_)

    def declare_labels(self, block: Block) -> None:
        """All labels of a block at once: a branch may go forward."""
        for statement in block.statements:
            if isinstance(statement, Label):
                if statement.name in self.names:
                    raise PtxError(f"label {statement.name} is defined twice in this block", statement.line)
                self.names[statement.name] = LabelRef(statement.name)
            elif isinstance(statement, Directive) and statement.label is not None:
                self.names[statement.label] = statement

    def find(self, name: str) -> Meaning | None:
        """What ``name`` refers to here, or None."""
        scope: Scope | None = self
        match = None
        while scope is not None:
            meaning = scope.names.get(name)
            if meaning is not None:
                return meaning
            if scope.ranges:
                match = match or _RANGE.match(name)
                if match is not None:
                    register = scope._member(name, match)
                    if register is not None:
                        return register
            scope = scope.outer
        return None

    def _member(self, name: str, match: re.Match[str]) -> VReg | Wide | None:
        # ``%r12`` may belong to ``%r<20>`` or, oddly, to ``%r1<5>``: try every split of the trailing digits.
        stem, digits = match.groups()
        for split in range(len(digits)):
            declared = self.ranges.get(stem + digits[:split])
            index = digits[split:]
            if declared is not None and int(index) < declared[0] and (index == "0" or index[0] != "0"):
                register = self.names[name] = self._new(declared[1], name)
                return register
        return None

    def _new(self, type_: ScalarType, name: str) -> VReg | Wide:
        if type_.bits < 128:
            return self.kernel.new_register(type_, name)
        half = SCALAR_TYPES["b64"]
        wide = Wide(self.kernel.new_register(half, f"{name}.lo"), self.kernel.new_register(half, f"{name}.hi"))
        self.names[wide.low.name], self.names[wide.high.name] = wide.low, wide.high
        return wide


def variable_bytes(variable: Variable) -> int:
    """Size of a variable in bytes; 0 for an unsized array."""
    size = element_bytes(variable)
    if variable.dims and variable.dims[0] < 0 and variable.init is not None:  # as long as its initialiser
        return len(evaluate(variable)[0])
    for extent in variable.dims:
        size *= max(extent, 0)
    return size


def variable_align(variable: Variable) -> int:
    """Alignment in bytes: as declared, else the natural one of the type."""
    return variable.align or max(1, element_bytes(variable))


def element_bytes(variable: Variable) -> int:
    """Bytes of an element of a variable. Raises PtxError for a type that has none."""
    type_ = SCALAR_TYPES.get(variable.type)
    if type_ is None:
        what = "textures, samplers and surfaces are not supported" if variable.type in OPAQUE else "unknown type"
        raise PtxError(f"variable {variable.name}: {what} (.{variable.type})", variable.line)
    return type_.bytes * variable.vector


def layout(offset: int, variable: Variable) -> tuple[int, int]:
    """Place a variable at the next suitable offset: (its offset, the offset behind it)."""
    align = variable_align(variable)
    start = -(-offset // align) * align
    return start, start + variable_bytes(variable)
