"""Bind syntax to meaning: every opcode to a form of the registry, every name to what it refers to.

The parser takes any opcode; here an unknown one becomes an :class:`~isa.errors.Unsupported` record, and all records of a kernel
come together. What PTX itself forbids (undeclared names, wrong operand kinds or widths) is a :class:`~isa.errors.PtxError`.
"""

from __future__ import annotations

from collections.abc import Iterator

from isa.errors import UnsupportedError
from isa.lower import specials
from isa.lower.callgraph import is_call, named
from isa.lower.calls import CallBinder
from isa.lower.functions import bind_functions, bind_parameter, bind_return
from isa.lower.ir import Arg, Guard, Instr, Kernel, VReg
from isa.lower.matching import Mismatch, match_operands
from isa.lower.operands import OperandBinder
from isa.lower.rewrite import long_hand, needs_rewriting
from isa.lower.scopes import LabelRef, Scope
from isa.lower.stack import allocates, bind_stack, place_stack, start_stack
from isa.lower.supported import unsupported_in
from isa.ptx import ast
from isa.spec.registry import Form, find

__all__ = ["bind_kernel"]


def bind_kernel(module: ast.Module, name: str) -> Kernel:
    """The kernel ``name`` of a module over virtual registers.

    Raises KeyError if there is no such entry, UnsupportedError with everything unsupported in it, PtxError for bad PTX.
    """
    function = next((f for f in module.functions if f.name == name and f.kind == "entry" and f.body), None)
    if function is None:
        raise KeyError(name)
    missing = unsupported_in(function, module)
    if missing:
        raise UnsupportedError(missing, f"kernel {name}")
    return Binder(module, function).bind()


class Binder(OperandBinder):
    """One kernel's way from syntax to forms, registers and labels."""

    def __init__(self, module: ast.Module, function: ast.Function) -> None:
        super().__init__(module, function)
        self.fixups: list[tuple[Instr, LabelRef]] = []
        self.calls = CallBinder(self.kernel, self.graph, self.error, self.fixups)
        self.returns = LabelRef("the end of the function")

    def bind(self) -> Kernel:
        for directive in self.function.directives:
            numbers = tuple(int(a, 0) for a in directive.arguments if a.strip().lstrip("-").isdigit())
            self.kernel.directives[directive.name] = numbers
        for variable in sorted(self.module.variables, key=lambda v: v.linkage != "extern"):  # definitions hide declarations
            if variable.space not in ("shared",):
                self.module_scope.names[variable.name] = variable
        self.module_scope.names.update(named(self.module))
        self._lay_out_shared()
        if self.graph.functions or self.graph.indirect:
            bind_functions(self)
        else:
            self.kernel_body()
        for instr, label in self.fixups:
            instr.target = label.index
        return self.kernel

    def kernel_body(self) -> None:
        assert self.function.body is not None
        scope = Scope(self.kernel, self.module_scope)
        self._lay_out_parameters(scope)
        stack = None
        if not self.kernel.function_table and allocates(self.function):  # with functions, isa.lower.link does it
            stack = start_stack(self.kernel, self.function.line)
            self.kernel.instructions.append(stack)
        self.block(self.function.body, Scope(self.kernel, scope))
        if stack is not None:
            place_stack(self.kernel, stack)

    # --------------------------------------------------------------------------------------------------- statements

    def block(self, block: ast.Block, scope: Scope) -> None:
        work: list[tuple[Iterator[ast.Statement], Scope]] = []
        scope.declare_labels(block)
        work.append((iter(block.statements), scope))
        nounroll = -1
        while work:
            statements, scope = work[-1]
            for statement in statements:
                if isinstance(statement, ast.Instruction):
                    self._instruction(statement, scope)
                    if nounroll >= 0 and len(self.kernel.instructions) > nounroll:
                        self.kernel.instructions[nounroll].pragma, nounroll = "nounroll", -1
                elif isinstance(statement, ast.Label):
                    label = scope.names[statement.name]
                    assert isinstance(label, LabelRef)
                    label.index = len(self.kernel.instructions)
                elif isinstance(statement, ast.Registers):
                    scope.declare_registers(statement)
                elif isinstance(statement, ast.Variable):
                    self._declare(statement, scope)
                elif isinstance(statement, ast.Directive) and self.routine is not None:
                    if statement.name == "pragma" and "nounroll" in statement.arguments:
                        nounroll = len(self.kernel.instructions)
                elif isinstance(statement, ast.Block):
                    inner = Scope(self.kernel, scope)
                    inner.declare_labels(statement)
                    work.append((iter(statement.statements), inner))
                    break
            else:
                work.pop()

    def _instruction(self, node: ast.Instruction, scope: Scope) -> None:
        if needs_rewriting(node) or self.kernel.vector_registers:
            for plain in long_hand(self, node, scope):
                self._plain(plain, scope)
        else:
            self._plain(node, scope)

    def _plain(self, node: ast.Instruction, scope: Scope) -> None:
        forms, _ = find(node.opcode)
        if is_call(node):
            self.calls.call(node, scope, self.guard(node, scope), self.routine)
            return
        if node.opcode.startswith(("ld.", "st.")) and ".param" in node.opcode and bind_parameter(self, node, scope):
            return
        if self.routine is not None and node.opcode in ("ret", "ret.uni"):
            bind_return(self, node, scope)
            return
        reasons: list[Mismatch] = []
        fitting: list[tuple[Form, dict[str, ast.Operand | None]]] = []
        for form in forms:
            matched = match_operands(form, node.operands)
            if isinstance(matched, Mismatch):
                reasons.append(matched)
            else:
                fitting.append((form, matched))
        if not fitting:
            best = max(reasons, key=lambda reason: reason.fitting, default="no form takes these operands")
            raise self.error(best, node)
        form, operands = fitting[0]
        for other in fitting[1:]:  # the text's shape leaves a choice: the kinds of its registers decide
            if self._suits(form, operands, scope):
                break
            form, operands = other
        self.emit(form, operands, node, scope)

    def _suits(self, form: Form, operands: dict[str, ast.Operand | None], scope: Scope) -> bool:
        """Whether the registers among the operands are of the kind and width that a form takes."""
        for spec in form.operands:
            operand = operands.get(spec.name)
            if isinstance(operand, ast.Not) and spec.type.kind != "p":
                return False
            register = scope.find(operand.name) if isinstance(operand, ast.Name) else None
            if isinstance(register, VReg) and not spec.is_address:
                same = register.type.bits == spec.type.bits or spec.name in form.instruction.relaxed
                if register.is_predicate != (spec.type.kind == "p") or not (same or register.is_predicate):
                    return False
        return True

    def guard(self, node: ast.Instruction, scope: Scope) -> Guard | None:
        if node.guard is None:
            return None
        register = scope.find(node.guard.name)
        if not isinstance(register, VReg) or not register.is_predicate:
            raise self.error(f"guard @{node.guard.name} is not a predicate register", node)
        return Guard(register, node.guard.negated)

    def emit(self, form: Form, operands: dict[str, ast.Operand | None], node: ast.Instruction, scope: Scope) -> None:
        guard = self.guard(node, scope)
        if form.instruction.control == "branch":
            self._branch(form, operands, node, scope, guard)
            return
        if form.instruction.control == "stack":
            bind_stack(self, form, operands, node, scope)
            return
        if form.instruction.control == "branch_indexed":
            index = operands["a"]
            assert index is not None
            value = self.scalar(index, form.operands[0], form, node, scope)
            self.calls.branch_indexed(operands, value, node, scope, guard)
            return
        args: dict[str, Arg] = {}
        for spec in form.operands:
            if spec.name in form.instruction.hidden:
                args[spec.name] = self._hidden(spec, form, args)
                continue
            operand = operands[spec.name]
            args[spec.name] = None if operand is None else self._operand(operand, spec, form, node, scope)
        instr = Instr(form, args, guard, node.line, node.loc, pragma=node.pragma)
        self.kernel.instructions += specials.read_clocks(instr, self.kernel)

    def _branch(
        self,
        form: Form,
        operands: dict[str, ast.Operand | None],
        node: ast.Instruction,
        scope: Scope,
        guard: Guard | None,
    ) -> None:
        operand = operands["target"]
        name = operand.name if isinstance(operand, ast.Name) else ""
        label = scope.find(name)
        if not isinstance(label, LabelRef):
            raise self.error(f"{name or 'the operand'} is not a label of this or an enclosing block", node)
        instr = Instr(form, {"target": None}, guard, node.line, node.loc, label=name)
        self.fixups.append((instr, label))
        self.kernel.instructions.append(instr)
