"""Bind ``call``, functions and ``brx.idx``: arguments to registers, targets to functions and labels.

What a call passes is settled here (:mod:`isa.lower.parameters`), how it passes it only after contraction
(:mod:`isa.lower.link`): until then a ``call`` is one instruction that reads the arguments and writes the return values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from isa.errors import PtxError
from isa.instructions.control import HOST_FUNCTIONS
from isa.lower.callgraph import CallGraph, call_parts
from isa.lower.ir import Arg, Const, Guard, Instr, Kernel, Routine, VReg
from isa.lower.parameters import Writer, parameter_cells
from isa.lower.scopes import Cells, LabelRef, Scope, Wide
from isa.ptx import ast
from isa.spec.registry import find
from isa.types import SCALAR_TYPES, scalar_type

__all__ = ["CallBinder", "new_routine", "shared_register"]

Error = Callable[[str, ast.Instruction], PtxError]


def new_routine(function: ast.Function, kernel: Kernel, graph: CallGraph) -> Routine:
    """A function before its body is bound: its parameters have registers."""
    formals = [r for v in function.params for r in _interface(v, kernel)]
    results = [r for v in function.returns for r in _interface(v, kernel)]
    reach = frozenset(graph.reach[function.name])
    return Routine(function.name, formals, results, function.name in graph.by_address, reach)


def _interface(variable: ast.Variable, kernel: Kernel) -> list[VReg]:
    if variable.space == "reg":
        type_ = SCALAR_TYPES.get(variable.type)
        if type_ is None or type_.bits not in (32, 64) or variable.dims or variable.vector != 1:
            what = f".reg .{variable.type} {variable.name}"
            raise PtxError(f"{what}: parameters in registers have 32 or 64 bits, as for ptxas; use .param", variable.line)
        return [kernel.new_register(type_, variable.name)]
    return parameter_cells(variable, kernel).registers


@dataclass(slots=True)
class CallBinder:
    """Binds the calls of a kernel and its functions. ``error`` makes an error about an instruction, ``operand`` binds a source
    operand that is no parameter."""

    kernel: Kernel
    graph: CallGraph
    error: Error
    fixups: list[tuple[Instr, LabelRef]]

    def call(self, node: ast.Instruction, scope: Scope, guard: Guard | None, caller: Routine | None) -> None:
        """Append a call. A guarded one is branched around."""
        parts = call_parts(node.operands)
        if parts is None or node.opcode not in ("call", "call.uni"):
            raise self.error("expected call (returns), function, (arguments)", node)
        returns, target, arguments, prototype = parts
        if caller is not None:
            caller.calls = True
        after = LabelRef("after the call")
        if guard is not None:
            around = Guard(guard.register, not guard.negated)
            self._branch(Instr(find("bra")[0][0], {"target": None}, around, node.line, node.loc, label=after.name), after)
        results = tuple(r for item in returns for r in self._registers(item, node, scope))
        values = tuple(r for item in arguments for r in self._registers(item, node, scope))
        if any(not isinstance(result, VReg | None) for result in results):
            raise self.error("a return value goes to a register or a .param variable", node)
        returned, expected, name = self._interface(target, prototype, node, scope)
        results = self._filled(results, returned)
        if prototype is not None:
            values = self._in_registers(values, expected, node)
        self._check(results, values, returned, expected, name, node)
        args: dict[str, Arg] = {"d": results, "a": values}
        if prototype is not None:
            args["t"] = self._address(target, node, scope)
            form = find("call.by_address")[0][0]
        elif target in self.graph.bodies:
            target = self.graph.bodies[target].name
            form = find(node.opcode)[0][0]
        else:
            form = find(f"call.host.{target}")[0][0]
        self.kernel.instructions.append(Instr(form, args, None, node.line, node.loc, label=target))
        after.index = len(self.kernel.instructions)

    def _branch(self, instr: Instr, label: LabelRef) -> None:
        self.fixups.append((instr, label))
        self.kernel.instructions.append(instr)

    def _registers(self, item: ast.Operand, node: ast.Instruction, scope: Scope) -> list[Arg]:
        """What one argument or return value is: the cells of a ``.param`` variable, a register, a constant."""
        if item == ast.Name("_"):
            return [None]
        if isinstance(item, ast.Immediate):
            return [Const(item.value & 0xFFFF_FFFF_FFFF_FFFF)]
        meaning = scope.find(item.name) if isinstance(item, ast.Name) else None
        if isinstance(meaning, Cells):
            return list(meaning.registers)
        if isinstance(meaning, VReg):
            return [meaning]
        if isinstance(meaning, Wide):
            return [meaning.low, meaning.high]
        name = item.name if isinstance(item, ast.Name) else "an operand"
        raise self.error(f"{name} is not a register, constant or .param variable that a call can pass", node)

    def _address(self, name: str, node: ast.Instruction, scope: Scope) -> VReg:
        register = scope.find(name)
        if not isinstance(register, VReg) or register.type.bits not in (32, 64):
            raise self.error(f"{name} is not a register with the address of a function", node)
        return register

    def _interface(
        self, target: str, prototype: str | None, node: ast.Instruction, scope: Scope
    ) -> tuple[tuple[int, ...], tuple[int, ...], str]:
        """What a call must pass: bytes of the registers for return values and for arguments, and who says so."""
        if prototype is not None:
            described = scope.find(prototype)
            if not isinstance(described, ast.Directive) or described.name not in ("callprototype", "calltargets"):
                raise self.error(f"{prototype} is not a .callprototype or .calltargets of this block", node)
            if described.name == "callprototype":
                scratch = Kernel(self.kernel.name)
                returns, params = (
                    [r for v in side for r in _interface(v, scratch)] for side in (described.returns, described.params)
                )
                return _widths(returns), _widths(params), prototype
            target = described.arguments[0]
        if target in self.graph.bodies:
            routine = self.kernel.functions[self.graph.bodies[target].name]
            return _widths(routine.results), _widths(routine.formals), target
        if target in HOST_FUNCTIONS:
            return *HOST_FUNCTIONS[target], target
        raise self.error(f"{target} is no function of this module; a call through a register needs a .callprototype", node)

    def _filled(self, results: tuple[Arg, ...], returned: tuple[int, ...]) -> tuple[Arg, ...]:
        """Return values with a register for each that the text discards (``_``)."""
        widths = (*returned, *([4] * len(results)))
        return tuple(
            self.kernel.new_register(scalar_type(f"b{8 * max(4, width)}"), "_") if result is None else result
            for result, width in zip(results, widths, strict=False)
        )

    def _in_registers(self, values: tuple[Arg, ...], expected: tuple[int, ...], node: ast.Instruction) -> tuple[Arg, ...]:
        """Arguments with a register for each constant, whose width only the prototype says."""
        writer = Writer(self.kernel, self.kernel.instructions, None, node.line, node.loc, "call")
        out: list[Arg] = []
        for value, width in zip(values, (*expected, *([4] * len(values))), strict=False):
            if isinstance(value, Const):
                register = self.kernel.new_register(scalar_type(f"b{8 * max(4, width)}"), "constant")
                writer.move(register, Const(value.bits & ((1 << register.type.bits) - 1)))
                value = register
            out.append(value)
        return tuple(out)

    def _check(
        self,
        results: tuple[Arg, ...],
        values: tuple[Arg, ...],
        returned: tuple[int, ...],
        expected: tuple[int, ...],
        name: str,
        node: ast.Instruction,
    ) -> None:
        """Raise an error unless what is passed fits what is expected, register by register."""
        for what, given, wanted in (("return values", results, returned), ("arguments", values, expected)):
            if len(given) != len(wanted) or any(
                isinstance(one, VReg) and one.type.bytes != width for one, width in zip(given, wanted, strict=True)
            ):
                raise self.error(f"the {what} are not those that {name} is declared with", node)

    def branch_indexed(
        self, operands: dict[str, ast.Operand | None], index: Arg, node: ast.Instruction, scope: Scope, guard: Guard | None
    ) -> None:
        """Append ``brx.idx`` and, behind it, a branch for every entry of its list."""
        operand = operands["n"]
        targets = scope.find(operand.name) if isinstance(operand, ast.Name) else None
        if not isinstance(targets, ast.Directive) or targets.name != "branchtargets":
            raise self.error("the last operand is not the label of a .branchtargets list of this block", node)
        names: list[str] = []
        for name in targets.arguments:
            stem, _, count = name.rstrip(">").partition("<")
            names += [f"{stem}{number}" for number in range(int(count))] if count else [name]
        labels = [scope.find(name) for name in names]
        after = LabelRef("after the branch")
        if guard is not None:
            around = Guard(guard.register, not guard.negated)
            self._branch(Instr(find("bra")[0][0], {"target": None}, around, node.line, node.loc, label=after.name), after)
        form = find(node.opcode)[0][0]
        args: dict[str, Arg] = {"a": index, "n": Const(len(names))}
        self.kernel.instructions.append(Instr(form, args, None, node.line, node.loc))
        for name, label in zip(names, labels, strict=True):
            if not isinstance(label, LabelRef):
                raise self.error(f"{name} is not a label of this or an enclosing block", node)
            self._branch(Instr(find("bra")[0][0], {"target": None}, None, node.line, node.loc, label=name), label)
        after.index = len(self.kernel.instructions)


def shared_register(kernel: Kernel, name: str, bits: int) -> VReg:
    """A register of the calling convention, made when first asked for."""
    found = kernel.shared_registers.get(name)
    if found is None:
        found = kernel.shared_registers[name] = kernel.new_register(scalar_type(f"b{bits}"), name)
    return found


def _widths(registers: list[VReg]) -> tuple[int, ...]:
    """Bytes of each register."""
    return tuple(register.type.bytes for register in registers)
