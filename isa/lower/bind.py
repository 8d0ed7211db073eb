"""Bind syntax to meaning: every opcode to a form of the registry, every name to what it refers to.

The parser takes any opcode; here an unknown one becomes an :class:`~isa.errors.Unsupported` record, and all records of a kernel
come together. What PTX itself forbids (undeclared names, wrong operand kinds or widths) is a :class:`~isa.errors.PtxError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from isa.errors import PtxError, Unsupported, UnsupportedError
from isa.lower import specials
from isa.lower.ir import Arg, Const, Guard, Instr, Kernel, MemoryArg, Parameter, Special, SymbolRef, VReg
from isa.lower.scopes import LabelRef, Scope, Symbol, layout, variable_align, variable_bytes
from isa.ptx import ast
from isa.spec.registry import Form, ResolvedOperand, find
from isa.types import ScalarType, scalar_type

__all__ = ["bind_kernel", "unsupported_in"]


def unsupported_in(function: ast.Function) -> list[Unsupported]:
    """Everything in a function that no registered form covers, without binding operands (fast: once per distinct opcode)."""
    found: list[Unsupported] = []
    if function.body is None:
        return found
    for statement in _walk(function.body):
        if isinstance(statement, ast.Instruction):
            forms, reason = find(statement.opcode)
            if not forms:
                found.append(Unsupported(statement.opcode, reason, statement.line, function.name))
    return found


def _walk(block: ast.Block) -> Iterator[ast.Statement]:
    stack = [iter(block.statements)]
    while stack:
        for statement in stack[-1]:
            yield statement
            if isinstance(statement, ast.Block):
                stack.append(iter(statement.statements))
                break
        else:
            stack.pop()


def bind_kernel(module: ast.Module, name: str) -> Kernel:
    """The kernel ``name`` of a module over virtual registers.

    Raises KeyError if there is no such entry, UnsupportedError with everything unsupported in it, PtxError for bad PTX.
    """
    function = next((f for f in module.functions if f.name == name and f.kind == "entry" and f.body), None)
    if function is None:
        raise KeyError(name)
    missing = unsupported_in(function)
    if missing:
        raise UnsupportedError(missing, f"kernel {name}")
    return _Binder(module, function).bind()


class _Binder:
    def __init__(self, module: ast.Module, function: ast.Function) -> None:
        self.module, self.function = module, function
        self.kernel = Kernel(function.name, line=function.line)
        self.module_scope = Scope(self.kernel)
        self.fixups: list[tuple[Instr, LabelRef]] = []
        self.carry: VReg | None = None
        self.own_shared: dict[int, int] = {}  # offsets of the shared variables declared in the body, by id of their node

    def bind(self) -> Kernel:
        assert self.function.body is not None
        for directive in self.function.directives:
            numbers = tuple(int(a, 0) for a in directive.arguments if a.strip().lstrip("-").isdigit())
            self.kernel.directives[directive.name] = numbers
        for variable in self.module.variables:
            if variable.space not in ("shared",):
                self.module_scope.names[variable.name] = variable
        self._lay_out_parameters()
        self._lay_out_shared()
        self._block(self.function.body, Scope(self.kernel, self.module_scope))
        for instr, label in self.fixups:
            instr.target = label.index
        return self.kernel

    # ------------------------------------------------------------------------------------------------ memory layout

    def _lay_out_parameters(self) -> None:
        offset = 0
        for variable in self.function.params:
            start, offset = layout(offset, variable)
            self.module_scope.names[variable.name] = Symbol(variable.name, "param", start)
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
        assert self.function.body is not None
        statements = list(_walk(self.function.body))
        used = {name for s in statements if isinstance(s, ast.Instruction) for name in _names(s.operands)}
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
        scope.names[variable.name] = Symbol(variable.name, "shared", offset)
        self.kernel.shared_symbols[variable.name] = offset

    def _declare(self, variable: ast.Variable, scope: Scope) -> None:
        if variable.space == "local":
            start, self.kernel.local_size = layout(self.kernel.local_size, variable)
            scope.names[variable.name] = Symbol(variable.name, "local", start)
        elif variable.space == "shared":
            self._shared_symbol(variable, self.own_shared[id(variable)], scope)
        elif variable.space in ("global", "const"):
            scope.names[variable.name] = variable
        else:
            raise PtxError(f".{variable.space} variable {variable.name} inside a kernel is not supported", variable.line)

    # --------------------------------------------------------------------------------------------------- statements

    def _block(self, block: ast.Block, scope: Scope) -> None:
        work: list[tuple[Iterator[ast.Statement], Scope]] = []
        scope.declare_labels(block)
        work.append((iter(block.statements), scope))
        while work:
            statements, scope = work[-1]
            for statement in statements:
                if isinstance(statement, ast.Instruction):
                    self._instruction(statement, scope)
                elif isinstance(statement, ast.Label):
                    label = scope.names[statement.name]
                    assert isinstance(label, LabelRef)
                    label.index = len(self.kernel.instructions)
                elif isinstance(statement, ast.Registers):
                    scope.declare_registers(statement)
                elif isinstance(statement, ast.Variable):
                    self._declare(statement, scope)
                elif isinstance(statement, ast.Block):
                    inner = Scope(self.kernel, scope)
                    inner.declare_labels(statement)
                    work.append((iter(statement.statements), inner))
                    break
            else:
                work.pop()

    def _error(self, message: str, node: ast.Instruction) -> PtxError:
        return PtxError(f"{node.opcode}: {message}", node.line, self.kernel.name, self.module.path)

    def _instruction(self, node: ast.Instruction, scope: Scope) -> None:
        forms, _ = find(node.opcode)
        reasons: list[str] = []
        for form in forms:
            matched = _match_operands(form, node.operands)
            if isinstance(matched, str):
                reasons.append(matched)
                continue
            self._emit(form, matched, node, scope)
            return
        raise self._error(reasons[0] if reasons else "no form takes these operands", node)

    def _emit(self, form: Form, operands: dict[str, ast.Operand | None], node: ast.Instruction, scope: Scope) -> None:
        guard = None
        if node.guard is not None:
            register = scope.find(node.guard.name)
            if not isinstance(register, VReg) or not register.is_predicate:
                raise self._error(f"guard @{node.guard.name} is not a predicate register", node)
            guard = Guard(register, node.guard.negated)
        if form.instruction.control in ("branch", "branch_indexed"):
            self._branch(form, operands, node, scope, guard)
            return
        args: dict[str, Arg] = {}
        for spec in form.operands:
            if spec.name in form.instruction.hidden:
                args[spec.name] = self._carry_flag()
                continue
            operand = operands[spec.name]
            args[spec.name] = None if operand is None else self._operand(operand, spec, form, node, scope)
        instr = Instr(form, args, guard, node.line, node.loc, pragma=node.pragma)
        self.kernel.instructions.append(specials.read_clock(instr, self.kernel))

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
            raise self._error(f"{name or 'the operand'} is not a label of this or an enclosing block", node)
        instr = Instr(form, {"target": None}, guard, node.line, node.loc, label=name)
        self.fixups.append((instr, label))
        self.kernel.instructions.append(instr)

    # ----------------------------------------------------------------------------------------------------- operands

    def _operand(
        self, operand: ast.Operand, spec: ResolvedOperand, form: Form, node: ast.Instruction, scope: Scope
    ) -> Arg:
        if spec.is_address:
            return self._address(operand, node, scope)
        if isinstance(operand, ast.Vector):
            if spec.count == 1 and len(operand.elements) == 1:
                return self._operand(operand.elements[0], spec, form, node, scope)
            return tuple(self._scalar(e, spec, form, node, scope) for e in operand.elements)
        value = self._scalar(operand, spec, form, node, scope)
        return (value,) if spec.count == 1 and spec.is_vector else value

    def _scalar(
        self, operand: ast.Operand, spec: ResolvedOperand, form: Form, node: ast.Instruction, scope: Scope
    ) -> Arg:
        if isinstance(operand, ast.Immediate):
            if spec.is_destination:
                raise self._error("a constant cannot be a destination", node)
            return Const(self._constant(operand, spec.type, node))
        if isinstance(operand, ast.Not):
            return self._negated(operand, node, scope)
        if isinstance(operand, ast.Offset):
            return self._offset(operand, node, scope)
        if not isinstance(operand, ast.Name):
            raise self._error(f"operand {spec.name} is not a register or constant", node)
        if operand.name == "_":
            if not spec.is_destination:
                raise self._error("the sink _ can only be a destination", node)
            return None
        meaning = scope.find(operand.name)
        if isinstance(meaning, VReg):
            self._check_width(meaning, spec, form, node)
            return meaning
        if spec.is_destination:
            raise self._error(f"{operand.name} is not a declared register", node)
        if isinstance(meaning, Symbol):
            return Const(meaning.offset)
        if isinstance(meaning, ast.Variable):
            return SymbolRef(meaning.name)
        if specials.is_special(operand.name):
            return Special(operand.name.lstrip("%"))
        raise self._error(f"{operand.name} is not declared in this or an enclosing block", node)

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
            raise self._error(f"the constant of a .{type_.name} operand is written as a float, such as {example}", node)
        if type_.kind == "x" or (type_.kind in "us" and not whole):
            raise self._error(f"a {'whole number' if whole else 'float'} cannot be a .{type_.name} operand", node)
        return immediate_bits(operand, type_)

    def _offset(self, operand: ast.Offset, node: ast.Instruction, scope: Scope) -> Arg:
        """``symbol+4`` as a value."""
        meaning = scope.find(operand.name)
        if isinstance(meaning, Symbol):
            return Const(meaning.offset + operand.offset)
        if isinstance(meaning, ast.Variable):
            return SymbolRef(meaning.name, operand.offset)
        raise self._error(f"{operand.name} is not a variable whose address can be taken", node)

    def _negated(self, operand: ast.Not, node: ast.Instruction, scope: Scope) -> VReg:
        """``!p`` as a source: an explicit ``not`` into a fresh predicate, so that no form has to know of it."""
        register = scope.find(operand.name)
        if not isinstance(register, VReg) or not register.is_predicate:
            raise self._error(f"!{operand.name}: not a predicate register", node)
        fresh = self.kernel.new_register(scalar_type("pred"), f"!{operand.name}")
        form = find("not.pred")[0][0]
        self.kernel.instructions.append(Instr(form, {"p": fresh, "a": register}, None, node.line, node.loc))
        return fresh

    def _check_width(self, register: VReg, spec: ResolvedOperand, form: Form, node: ast.Instruction) -> None:
        relaxed = spec.name in form.instruction.relaxed
        if register.is_predicate != (spec.type.kind == "p"):
            wanted = "a predicate" if spec.type.kind == "p" else f"a {spec.type.bits}-bit register"
            raise self._error(f"operand {register.name} is .{register.type.name}, expected {wanted}", node)
        if register.is_predicate:
            return
        narrow = register.type.bits < spec.type.bits
        wide = register.type.bits > spec.type.bits and not relaxed
        # 8-bit types have no 8-bit arithmetic registers in compilers' output: they use 16-bit ones.
        if narrow or (wide and spec.type.bits >= 16):
            raise self._error(
                f"register {register.name} is {register.type.bits} bits wide, .{spec.type.name} needs {spec.type.bits}",
                node,
            )

    def _address(self, operand: ast.Operand, node: ast.Instruction, scope: Scope) -> MemoryArg:
        if not isinstance(operand, ast.Address):
            raise self._error("expected an address such as [%rd1+16]", node)
        if operand.extra:
            raise self._error("tensor coordinates are not supported here", node)
        if isinstance(operand.base, ast.Immediate):
            return MemoryArg(Const(operand.base.value & 0xFFFF_FFFF_FFFF_FFFF), operand.offset)
        name = operand.base.name
        meaning = scope.find(name)
        if isinstance(meaning, VReg):
            if meaning.type.bits not in (32, 64):
                raise self._error(f"address register {name} is {meaning.type.bits} bits wide (32 or 64 allowed)", node)
            return MemoryArg(meaning, operand.offset)
        if isinstance(meaning, Symbol):
            return MemoryArg(Const(meaning.offset), operand.offset)
        if isinstance(meaning, ast.Variable):
            return MemoryArg(SymbolRef(meaning.name), operand.offset)
        raise self._error(f"{name} is not a register or variable that can be addressed", node)


def _names(operands: tuple[ast.Operand, ...]) -> Iterator[str]:
    for operand in operands:
        if isinstance(operand, ast.Name):
            yield operand.name
        elif isinstance(operand, ast.Address) and isinstance(operand.base, ast.Name):
            yield operand.base.name
        elif isinstance(operand, ast.Offset | ast.Element):
            yield operand.name
        elif isinstance(operand, ast.Vector | ast.Group):
            yield from _names(operand.elements)


def _match_operands(form: Form, given: tuple[ast.Operand, ...]) -> dict[str, ast.Operand | None] | str:
    """Pair the text's operands with a form's, or say why they do not fit."""
    out: dict[str, ast.Operand | None] = {}
    queue = list(given)
    specs = tuple(o for o in form.operands if o.name not in form.instruction.hidden)
    needed = sum(not o.is_optional for o in specs)
    position = 0
    while position < len(specs):
        spec = specs[position]
        paired = specs[position + 1] if position + 1 < len(specs) and specs[position + 1].paired else None
        if not queue:
            if not spec.is_optional:
                return f"{len(given)} operands given, {needed} needed ({', '.join(o.name for o in specs)})"
            out[spec.name] = None
            position += 1
            continue
        operand = queue.pop(0)
        if isinstance(operand, ast.Pair):
            if paired is None:
                return f"operand {spec.name} takes one register, not a pair"
            out[spec.name], out[paired.name] = operand.first, operand.second
            position += 2
            continue
        why_not = _shape_mismatch(form, spec, operand)
        if why_not:
            return why_not
        out[spec.name] = operand
        position += 1
        if paired is not None:
            out[paired.name] = None
            position += 1
    if queue:
        return f"{len(given)} operands given, {len(specs)} at most ({', '.join(o.name for o in specs)})"
    return out


def _shape_mismatch(form: Form, spec: ResolvedOperand, operand: ast.Operand) -> str:
    if spec.is_address:
        return "" if isinstance(operand, ast.Address) else f"operand {spec.name} must be an address in []"
    if isinstance(operand, ast.Address):
        return f"operand {spec.name} is not an address"
    count = len(operand.elements) if isinstance(operand, ast.Vector) else 1
    if count != spec.count:
        return f"operand {spec.name} takes {spec.count} register(s), {count} given"
    return ""


def immediate_bits(immediate: ast.Immediate, type_: ScalarType) -> int:
    """The bits of a constant used as ``type_``. A double used where f32 is expected is rounded, as ptxas does."""
    value = immediate.value
    if immediate.kind == "f64" and type_.bits == 32:
        number = struct.unpack("<d", value.to_bytes(8, "little"))[0]
        try:
            packed = struct.pack("<f", number)
        except OverflowError:
            packed = struct.pack("<f", float("inf") if number > 0 else float("-inf"))
        value = int.from_bytes(packed, "little")
    elif immediate.kind == "f32" and type_.bits == 64:
        number = struct.unpack("<f", value.to_bytes(4, "little"))[0]
        value = int.from_bytes(struct.pack("<d", number), "little")
    bits = max(type_.bits, 8)
    return value & ((1 << bits) - 1)


