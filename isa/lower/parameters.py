"""Parameters of functions: variables in ``.param`` space that are registers here, as the machine's calling convention has it.

A variable is a list of *cells*: one register for a scalar, one per 32-bit word for an array of bytes (a structure). Loads and
stores of a whole cell are moves; those of part of one take it out or put it in. (PTX ISA 5.1.6: such variables have no address
a program could see; a function's parameter whose address is taken all the same is copied to local memory.)
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.errors import PtxError
from isa.lower.ir import Arg, Const, Guard, Instr, Kernel, VReg
from isa.lower.scopes import Cells, variable_bytes
from isa.ptx import ast
from isa.ptx.ast import Location
from isa.spec.registry import Form, find
from isa.types import SCALAR_TYPES, ScalarType, scalar_type

__all__ = ["Writer", "move_form", "parameter_cells"]


def parameter_cells(variable: ast.Variable, kernel: Kernel) -> Cells:
    """Registers for a ``.param`` variable."""
    size = variable_bytes(variable)
    if not variable.dims and variable.vector == 1 and size <= 8:
        type_ = scalar_type("b64" if size == 8 else "b32")
        return Cells(variable.name, size, [kernel.new_register(type_, variable.name)])
    words = [kernel.new_register(scalar_type("b32"), f"{variable.name}+{4 * word}") for word in range(-(-size // 4))]
    return Cells(variable.name, size, words)


def move_form(type_: ScalarType) -> Form:
    """The form that copies a register of a type."""
    opcode = "mov.pred" if type_.kind == "p" else f"mov.b{max(type_.bits, 16)}"
    return next(form for form in find(opcode)[0] if all(not operand.is_vector for operand in form.operands))


@dataclass(slots=True)
class Writer:
    """Appends instructions that stand for one of the text. ``guard``, ``line``, ``loc``: those of that one."""

    kernel: Kernel
    out: list[Instr]
    guard: Guard | None
    line: int
    loc: Location | None
    origin: str = ""

    def emit(self, opcode: str, **args: Arg) -> None:
        """An instruction by its opcode and operands."""
        self.put(find(opcode)[0][0], **args)

    def put(self, form: Form, **args: Arg) -> None:
        """An instruction of a form."""
        self.out.append(Instr(form, dict(args), self.guard, self.line, self.loc, origin=self.origin))

    def move(self, target: VReg, source: Arg) -> None:
        """Copy a register or constant."""
        args: dict[str, Arg] = {"p" if target.is_predicate else "d": target, "a": source}
        self.put(move_form(target.type), **args)

    def load(self, cells: Cells, offset: int, type_name: str, target: VReg) -> None:
        """``ld.param``: ``target`` gets what is at ``offset`` bytes of a variable, extended as the type says."""
        type_ = SCALAR_TYPES[type_name]
        index, shift = self._find(cells, offset, type_)
        if type_.bytes > cells.width:
            self._wide(d=target, a=(cells.registers[index], cells.registers[index + 1]))
        elif type_.bytes == cells.width and target.type.bits == type_.bits:
            self.move(target, cells.registers[index])
        else:
            self.emit(
                f"extract_field.{_whole(type_)}.b{8 * cells.width}", d=target, a=cells.registers[index], b=Const(8 * shift)
            )

    def store(self, cells: Cells, offset: int, type_name: str, value: Arg) -> None:
        """``st.param``: put a register or constant at ``offset`` bytes of a variable."""
        type_ = SCALAR_TYPES[type_name]
        index, shift = self._find(cells, offset, type_)
        cell = cells.registers[index]
        if type_.bytes > cells.width:
            if not isinstance(value, VReg):
                whole = self.kernel.new_register(scalar_type("b64"), "constant")
                self.move(whole, value)
                value = whole
            self._wide(d=(cell, cells.registers[index + 1]), a=value)
        elif type_.bytes == cells.width and not (isinstance(value, VReg) and value.type.bits != type_.bits):
            self.move(cell, value)
        else:
            # The rest of a scalar is never seen; that of a structure's word belongs to its neighbours.
            old: Arg = cell if len(cells.registers) > 1 or cells.size > type_.bytes else Const(0)
            opcode = f"insert_field.b{type_.bits}.b{8 * cells.width}"
            self.emit(opcode, d=cell, a=old, b=value, c=Const(8 * shift))

    def _wide(self, d: Arg, a: Arg) -> None:
        """Two words and a 64-bit register."""
        wanted = 2 if isinstance(d, tuple) else 1
        form = next(f for f in find("mov.b64")[0] if f.operands[0].count == wanted and f.operands[1].count == 3 - wanted)
        self.put(form, d=d, a=a)

    def _find(self, cells: Cells, offset: int, type_: ScalarType) -> tuple[int, int]:
        """(The cell at an offset, bytes into it.) Raises PtxError for an access that is misplaced."""
        if offset < 0 or offset + type_.bytes > cells.size:
            raise PtxError(
                f"{type_.bytes} bytes at {cells.name}+{offset}, but that parameter has {cells.size} bytes", self.line
            )
        if offset % type_.bytes:
            raise PtxError(f"{cells.name}+{offset}: a {type_.bytes}-byte access needs a multiple of {type_.bytes}", self.line)
        return offset // cells.width, offset % cells.width


def _whole(type_: ScalarType) -> str:
    """The integer type that has the bits of a type."""
    return type_.name if type_.kind in "sub" else f"b{type_.bits}"
