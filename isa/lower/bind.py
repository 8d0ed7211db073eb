"""Bind syntax to meaning: every opcode to a form of the registry, every name to what it refers to.

The parser takes any opcode; here an unknown one becomes an :class:`~isa.errors.Unsupported` record, and all records of a kernel
come together. What PTX itself forbids (undeclared names, wrong operand kinds or widths) is a :class:`~isa.errors.PtxError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from isa.errors import PtxError, Unsupported, UnsupportedError
from isa.lower import specials
from isa.lower.callgraph import call_graph, is_call, missing_functions, named, walk
from isa.lower.calls import CallBinder
from isa.lower.functions import bind_functions, bind_parameter, bind_return, range_names
from isa.lower.ir import (
    SHARED_SYMBOL,
    Arg,
    Const,
    Guard,
    Instr,
    Kernel,
    MemoryArg,
    Parameter,
    Routine,
    Special,
    SymbolRef,
    VReg,
)
from isa.lower.matching import Mismatch, immediate_bits, match_operands, names_in
from isa.lower.parameters import Writer, parameter_cells
from isa.lower.rewrite import long_hand, needs_rewriting
from isa.lower.scopes import (
    Cells,
    LabelRef,
    Scope,
    Symbol,
    Wide,
    element_bytes,
    layout,
    variable_align,
    variable_bytes,
)
from isa.lower.stack import allocates, bind_stack, place_stack, start_stack
from isa.ptx import ast
from isa.spec.registry import Form, ResolvedOperand, find
from isa.tensor.forms import NoFormError
from isa.types import ScalarType, scalar_type

__all__ = ["bind_kernel", "unsupported_in"]

_CLUSTER = ("mapa", "getctarank", "barrier.cluster")
"""What a kernel uses to reach the shared memory of other CTAs."""


def unsupported_in(function: ast.Function, module: ast.Module | None = None) -> list[Unsupported]:
    """Everything in a function that no registered form covers, without binding operands (fast: once per distinct opcode). With
    its module, also what is in the functions that it may call, and calls of functions that have no body."""
    found: list[Unsupported] = []
    if function.body is None:
        return found
    functions = [function]
    if module is not None and module.address_size == 32:
        found.append(Unsupported(".address_size 32", "tcsim has 64-bit addresses only; compile with -m64", 1, function.name))
    if module is not None and any(is_call(statement) for statement in walk(function.body)):
        functions += call_graph(module, function).functions
        bodies = named(module)
        found += [item for each in functions for item in missing_functions(each, bodies)]
    for each in functions:
        assert each.body is not None
        for statement in walk(each.body):
            if isinstance(statement, ast.Instruction):
                forms, reason = find(statement.opcode)
                if forms and module is not None:
                    reason = _wrong_target(statement.opcode, module.target)
                if reason:
                    found.append(Unsupported(statement.opcode, reason, statement.line, each.name))
    return found


@cache
def _wrong_target(opcode: str, target: str) -> str:
    """Why a module for a target cannot have an opcode, which there is; "" if it can."""
    forms, _ = find(opcode)
    entry = forms[0].instruction
    if target in entry.targets:
        return ""
    if entry.targets:
        where = f"exists on {' and '.join(entry.targets)} only"
        return f"{where}, and the module is for {target} (PTX ISA {entry.section}). Try compiling for {entry.targets[0]}"
    number = re.match(r"sm_(\d+)", target)
    if number is None:
        return ""
    sm, first = int(number[1]), min(form.instruction.sm for form in forms)
    if sm < first:
        needs = f"needs sm_{first} or later, and the module is for {target} (PTX ISA {entry.section})"
        return f"{needs}. Try compiling for sm_{first}"
    try:  # a matrix instruction may be younger than others of its name
        if entry.arch_rule is not None:
            entry.arch_rule(forms[0].params, sm)
    except NoFormError as problem:
        return str(problem)
    return ""


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


class Binder:
    def __init__(self, module: ast.Module, function: ast.Function) -> None:
        self.module, self.function = module, function
        self.kernel = Kernel(function.name, line=function.line)
        self.module_scope = Scope(self.kernel)
        self.fixups: list[tuple[Instr, LabelRef]] = []
        self.carry: VReg | None = None
        self.reaches_cluster = False  # whether it addresses the shared memory of other CTAs of its cluster
        self.own_shared: dict[int, int] = {}  # offsets of the shared variables declared in the body, by id of their node
        self.graph = call_graph(module, function)
        self.calls = CallBinder(self.kernel, self.graph, self.error, self.fixups)
        self.routine: Routine | None = None  # the function being bound, None in the kernel's own body
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

    # ------------------------------------------------------------------------------------------------ memory layout

    def _lay_out_parameters(self, scope: Scope) -> None:
        offset = 0
        for variable in self.function.params:
            start, offset = layout(offset, variable)
            scope.names[variable.name] = Symbol(variable.name, "param", start, element_bytes(variable))
            self.kernel.parameters.append(
                Parameter(
                    variable.name,
                    start,
                    variable_bytes(variable),
                    variable_align(variable),
                    variable.type,
                    bool(variable.dims),
                )
            )
        self.kernel.param_size = offset

    def _lay_out_shared(self) -> None:
        """Static shared variables: those of the module that the kernel names, then its own; dynamic ones behind them all."""
        bodies = [f.body for f in (self.function, *self.graph.functions) if f.body is not None]
        statements = [statement for body in bodies for statement in walk(body)]
        instructions = [s for s in statements if isinstance(s, ast.Instruction)]
        distinct = {id(operand): operand for s in instructions for operand in s.operands}  # the parser shares equal ones
        used = set(names_in(tuple(distinct.values())))
        self.reaches_cluster = any(s.opcode.startswith(_CLUSTER) for s in instructions) or any(
            name.startswith("%cluster") for name in used
        )
        dynamic: list[ast.Variable] = []
        for variable in (v for v in self.module.variables if v.space == "shared" and v.name in used):
            if (variable.dims and variable.dims[0] < 0) or variable.linkage == "extern":
                dynamic.append(variable)
            else:
                start, self.kernel.shared_size = layout(self.kernel.shared_size, variable)
                self._shared_symbol(variable, start, self.module_scope)
        for statement in statements:
            if isinstance(statement, ast.Variable) and statement.space == "shared":
                self.own_shared[id(statement)], self.kernel.shared_size = layout(self.kernel.shared_size, statement)
        for variable in dynamic:  # all of them begin at one address
            align = max(variable_align(variable), 16)
            self.kernel.shared_size = -(-self.kernel.shared_size // align) * align
        for variable in dynamic:
            self._shared_symbol(variable, self.kernel.shared_size, self.module_scope)

    def _shared_symbol(self, variable: ast.Variable, offset: int, scope: Scope) -> None:
        scope.names[variable.name] = Symbol(variable.name, "shared", offset, element_bytes(variable))
        self.kernel.shared_symbols[variable.name] = offset

    def _declare(self, variable: ast.Variable, scope: Scope) -> None:
        if variable.space == "local":
            scope.names[variable.name] = self.local(
                variable.name, variable_align(variable), variable_bytes(variable), element_bytes(variable)
            )
        elif variable.space == "param":
            for name in range_names(variable):
                scope.names[name] = parameter_cells(variable, self.kernel)
        elif variable.space == "shared":
            self._shared_symbol(variable, self.own_shared[id(variable)], scope)
        elif variable.space in ("global", "const"):
            scope.names[variable.name] = variable
        else:
            raise PtxError(f".{variable.space} variable {variable.name} inside a kernel is not supported", variable.line)

    def local(self, name: str, align: int, size: int, element: int = 0) -> Symbol:
        """A place in local memory: at a fixed offset, or in the frame of a recursive function."""
        routine = self.routine
        if routine is not None and routine.recursive:
            start = -(-routine.local_size // align) * align
            routine.local_size = start + size
            return Symbol(name, "frame", start, element)
        start = -(-self.kernel.local_size // align) * align
        self.kernel.local_size = start + size
        return Symbol(name, "local", start, element)

    def place(self, symbol: Symbol, offset: int) -> MemoryArg:
        """``[symbol + offset]``."""
        if symbol.space == "frame":
            assert self.routine is not None and self.routine.frame is not None
            return MemoryArg(self.routine.frame, symbol.offset + offset)
        return MemoryArg(self._base(symbol, 0), offset)

    def _base(self, symbol: Symbol, offset: int) -> Const | SymbolRef:
        """``symbol + offset``, not of space ``frame``."""
        if symbol.space == "shared" and self.reaches_cluster:
            return SymbolRef(SHARED_SYMBOL, symbol.offset + offset)
        return Const(symbol.offset + offset)

    def _address_of(self, symbol: Symbol, offset: int, node: ast.Instruction) -> Arg:
        """``symbol + offset`` as a value."""
        if symbol.space != "frame":
            return self._base(symbol, offset)
        address = self.kernel.new_register(scalar_type("b64"), symbol.name)
        writer = Writer(self.kernel, self.kernel.instructions, None, node.line, node.loc, "call")
        assert self.routine is not None and self.routine.frame is not None
        writer.emit("add.u64", d=address, a=self.routine.frame, b=Const(symbol.offset + offset))
        return address

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

    def error(self, message: str, node: ast.Instruction) -> PtxError:
        return PtxError(f"{node.opcode}: {message}", node.line, self.kernel.name, self.module.path)

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

    # ----------------------------------------------------------------------------------------------------- operands

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
