"""Bind the operands of an instruction: registers, constants, addresses, and what the text does not have."""

from __future__ import annotations

from isa.errors import PtxError
from isa.lower import specials
from isa.lower.ir import Arg, Const, Instr, MemoryArg, Special, SymbolRef, VReg
from isa.lower.matching import immediate_bits
from isa.lower.placement import Placement
from isa.lower.scopes import Cells, Scope, Symbol, Wide
from isa.ptx import ast
from isa.spec.registry import Form, ResolvedOperand, find
from isa.types import ScalarType, scalar_type

__all__ = ["OperandBinder"]


class OperandBinder(Placement):
    """What the operands of an instruction refer to."""

    carry: VReg | None = None

    def error(self, message: str, node: ast.Instruction) -> PtxError:
        return PtxError(f"{node.opcode}: {message}", node.line, self.kernel.name, self.module.path)

    def _operand(self, operand: ast.Operand, spec: ResolvedOperand, form: Form, node: ast.Instruction, scope: Scope) -> Arg:
        if spec.is_address:
            return self._address(operand, node, scope)
        if isinstance(operand, ast.Vector):
            if spec.count == 1 and len(operand.elements) == 1:
                return self._operand(operand.elements[0], spec, form, node, scope)
            return tuple(self.scalar(e, spec, form, node, scope) for e in operand.elements)
        value = self.scalar(operand, spec, form, node, scope)
        return (value,) if spec.count == 1 and spec.is_vector else value

    def scalar(self, operand: ast.Operand, spec: ResolvedOperand, form: Form, node: ast.Instruction, scope: Scope) -> Arg:
        if isinstance(operand, ast.Immediate):
            if spec.is_destination:
                raise self.error("a constant cannot be a destination", node)
            return Const(self._constant(operand, spec.type, node))
        if isinstance(operand, ast.Not):
            return self._negated(operand, node, scope)
        if isinstance(operand, ast.Offset):
            return self._offset(operand, node, scope)
        if not isinstance(operand, ast.Name):
            raise self.error(f"operand {spec.name} is not a register or constant", node)
        if operand.name == "_":
            if not spec.is_destination:
                raise self.error("the sink _ can only be a destination", node)
            return None
        meaning = scope.find(operand.name)
        if isinstance(meaning, VReg):
            self._check_width(meaning, spec, form, node)
            return meaning
        if isinstance(meaning, Wide):
            raise self.error(f"register {operand.name} is 128 bits wide, .{spec.type.name} needs {spec.type.bits}", node)
        if spec.is_destination:
            raise self.error(f"{operand.name} is not a declared register", node)
        if isinstance(meaning, Cells) and meaning.address is not None:
            meaning = meaning.address
        if isinstance(meaning, Symbol):
            return self._address_of(meaning, 0, node)
        if isinstance(meaning, ast.Variable | ast.Function):
            return self._reference(meaning, 0, node)
        if any(operand.name == function.name for function in self.module.functions if function.kind == "entry"):
            raise self.error(f"{operand.name} is a kernel; launching kernels from kernels is not supported", node)
        if specials.is_special(operand.name):
            return Special(operand.name.lstrip("%"))
        raise self.error(f"{operand.name} is not declared in this or an enclosing block", node)

    def _hidden(self, spec: ResolvedOperand, form: Form, args: dict[str, Arg]) -> Arg:
        """An operand that the text does not have."""
        numbers = form.instruction.numbers
        if spec.name == "numbers" and numbers is not None:
            return tuple(Const(number & 0xFFFF_FFFF) for number in numbers(form.params))
        return self._carry_flag() if spec.type.kind == "p" else args["d"]

    def _carry_flag(self) -> VReg:
        """The condition code register's carry flag: one per thread, outside every scope (PTX ISA 9.7.2)."""
        if self.carry is None:
            self.carry = self.kernel.new_register(scalar_type("pred"), "CC.CF")
        return self.carry

    def _constant(self, operand: ast.Immediate, type_: ScalarType, node: ast.Instruction) -> int:
        """A constant's bits. Kinds are as strict as ptxas is (PTX ISA 4.5): 0f and 0d for floats."""
        whole = operand.kind == "int"
        if type_.kind == "f" and whole:
            example = "0f3F800000" if type_.bits == 32 else "0d3FF0000000000000"
            raise self.error(f"the constant of a .{type_.name} operand is written as a float, such as {example}", node)
        if type_.kind == "x" or (type_.kind in "us" and not whole):
            raise self.error(f"a {'whole number' if whole else 'float'} cannot be a .{type_.name} operand", node)
        return immediate_bits(operand, type_)

    def _offset(self, operand: ast.Offset, node: ast.Instruction, scope: Scope) -> Arg:
        """``symbol+4`` as a value."""
        meaning = scope.find(operand.name)
        if isinstance(meaning, Cells) and meaning.address is not None:
            meaning = meaning.address
        if isinstance(meaning, Symbol):
            return self._address_of(meaning, operand.offset, node)
        if isinstance(meaning, ast.Variable):
            return self._reference(meaning, operand.offset, node)
        raise self.error(f"{operand.name} is not a variable whose address can be taken", node)

    def _reference(self, meaning: ast.Variable | ast.Function, offset: int, node: ast.Instruction) -> SymbolRef:
        """The address of something of the module."""
        if isinstance(meaning, ast.Variable) and meaning.linkage == "extern":
            why = "no module here defines it; link the one that does: RawModule(code=[this, that])"
            raise self.error(f"{meaning.name} is .extern, and {why}", node)
        return SymbolRef(meaning.name, offset)

    def _negated(self, operand: ast.Not, node: ast.Instruction, scope: Scope) -> VReg:
        """``!p`` as a source: an explicit ``not`` into a fresh predicate, so that no form has to know of it."""
        register = scope.find(operand.name)
        if not isinstance(register, VReg) or not register.is_predicate:
            raise self.error(f"!{operand.name}: not a predicate register", node)
        fresh = self.kernel.new_register(scalar_type("pred"), f"!{operand.name}")
        form = find("not.pred")[0][0]
        self.kernel.instructions.append(Instr(form, {"p": fresh, "a": register}, None, node.line, node.loc))
        return fresh

    def _check_width(self, register: VReg, spec: ResolvedOperand, form: Form, node: ast.Instruction) -> None:
        relaxed = spec.name in form.instruction.relaxed
        if register.is_predicate != (spec.type.kind == "p"):
            wanted = "a predicate" if spec.type.kind == "p" else f"a {spec.type.bits}-bit register"
            raise self.error(f"operand {register.name} is .{register.type.name}, expected {wanted}", node)
        if register.is_predicate:
            return
        narrow = register.type.bits < spec.type.bits
        wide = register.type.bits > spec.type.bits and not relaxed
        # 8-bit types have no 8-bit arithmetic registers in compilers' output: they use 16-bit ones.
        if narrow or (wide and spec.type.bits >= 16):
            raise self.error(
                f"register {register.name} is {register.type.bits} bits wide, .{spec.type.name} needs {spec.type.bits}",
                node,
            )

    def _address(self, operand: ast.Operand, node: ast.Instruction, scope: Scope) -> MemoryArg:
        if not isinstance(operand, ast.Address):
            raise self.error("expected an address such as [%rd1+16]", node)
        if operand.extra:
            raise self.error("tensor coordinates are not supported here", node)
        if isinstance(operand.base, ast.Immediate):
            return MemoryArg(Const(operand.base.value & 0xFFFF_FFFF_FFFF_FFFF), operand.offset)
        name = operand.base.name
        meaning = scope.find(name)
        if isinstance(meaning, VReg):
            if meaning.type.bits not in (32, 64):
                raise self.error(f"address register {name} is {meaning.type.bits} bits wide (32 or 64 allowed)", node)
            return MemoryArg(meaning, operand.offset)
        if isinstance(meaning, Symbol):
            return self.place(meaning, operand.offset)
        if isinstance(meaning, ast.Variable):
            return MemoryArg(self._reference(meaning, 0, node), operand.offset)
        raise self.error(f"{name} is not a register or variable that can be addressed", node)
