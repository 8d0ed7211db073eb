"""Bind the functions that a kernel may call, and the accesses to parameters in them and around calls.

The kernel's instructions and those of its functions are one list (:class:`~isa.lower.ir.Kernel`), in the order of the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isa.lower.callgraph import is_call, walk
from isa.lower.calls import new_routine
from isa.lower.ir import Instr, VReg
from isa.lower.parameters import Writer
from isa.lower.scopes import Cells, LabelRef, Scope, variable_align, variable_bytes
from isa.lower.stack import allocates
from isa.ptx import ast
from isa.spec.registry import find
from isa.types import scalar_type

if TYPE_CHECKING:
    from isa.lower.bind import Binder

__all__ = ["bind_functions", "bind_parameter", "bind_return", "range_names"]


def bind_functions(binder: Binder) -> None:
    """The kernel and all functions that it may call, in the order of the text."""
    graph, kernel = binder.graph, binder.kernel
    kernel.functions = {f.name: new_routine(f, kernel, graph) for f in graph.functions}
    kernel.function_table = [""] * (1 + max(graph.numbers.values(), default=0))
    for name in graph.by_address:
        kernel.function_table[graph.numbers[name]] = name
    everything = sorted([binder.function, *graph.functions], key=lambda f: f.line)
    start = LabelRef(kernel.name)
    root = Instr(find("function_list")[0][0], {}, None, everything[0].line, None, label=kernel.name)
    binder.fixups.append((root, start))
    kernel.instructions.append(root)
    for function in everything:
        if function is binder.function:
            start.index = len(kernel.instructions)
            binder.kernel_body()
            last = kernel.instructions[-1]
            kernel.instructions.append(Instr(find("exit")[0][0], {}, None, last.line, last.loc))
        else:
            _function_body(binder, function)


def _function_body(binder: Binder, function: ast.Function) -> None:
    """A function: its entry, its body and, where every ``ret`` goes, its one end."""
    assert function.body is not None
    binder.routine = routine = binder.kernel.functions[function.name]
    binder.returns, binder.carry = LabelRef("the end of the function"), None
    scope = Scope(binder.kernel, binder.module_scope)
    entry = find("function_entry")[0][0]
    out = binder.kernel.instructions
    given = list(routine.formals)
    routine.allocates = allocates(function)
    if routine.recursive or routine.allocates:
        routine.frame = binder.kernel.new_register(scalar_type("b64"), "frame")
        given.append(routine.frame)
    out.append(Instr(entry, {"d": tuple(given)}, None, function.line, None, label=routine.name))
    _declare_interface(function.returns, routine.results, scope)
    _declare_interface(function.params, routine.formals, scope)
    _copy_addressed(binder, function, scope)
    binder.block(function.body, Scope(binder.kernel, scope))
    end = len(out)
    if out[-1].label == binder.returns.name and out[-1].guard is None:  # what follows is the end anyway
        del out[-1]
        binder.fixups.pop()
        for _, label in binder.fixups:
            if label.index == end:
                label.index = end - 1
    binder.returns.index = len(out)
    leave = find("function_return")[0][0]
    last = out[-1]
    out.append(Instr(leave, {"a": tuple(routine.results), "b": None}, None, last.line, last.loc, label=routine.name))
    binder.routine = None


def _declare_interface(variables: tuple[ast.Variable, ...], registers: list[VReg], scope: Scope) -> None:
    position = 0
    for variable in variables:
        if variable.space == "reg":
            scope.names[variable.name] = registers[position]
            position += 1
        else:
            size = variable_bytes(variable)
            count = -(-size // 4) if variable.dims or variable.vector != 1 or size > 8 else 1
            scope.names[variable.name] = Cells(variable.name, size, registers[position : position + count])
            position += count


def _copy_addressed(binder: Binder, function: ast.Function, scope: Scope) -> None:
    """Parameters whose address the function takes go to local memory first (PTX ISA 5.1.6.2)."""
    assert function.body is not None
    taken = {
        operand.name
        for s in walk(function.body)
        if isinstance(s, ast.Instruction) and not is_call(s)
        for operand in s.operands
        if isinstance(operand, ast.Name | ast.Offset)
    }
    for variable in function.params:
        cells = scope.names[variable.name]
        if variable.name not in taken or not isinstance(cells, Cells):
            continue
        size = cells.width * len(cells.registers)
        cells.address = binder.local(variable.name, max(variable_align(variable), cells.width), size)
        writer = Writer(binder.kernel, binder.kernel.instructions, None, function.line, None, "call")
        for number, register in enumerate(cells.registers):
            place = binder.place(cells.address, number * cells.width)
            writer.emit(f"st.local.b{8 * cells.width}", a=place, b=register)


def bind_parameter(binder: Binder, node: ast.Instruction, scope: Scope) -> bool:
    """Bind a load or store of a parameter that is in registers. False if its address is another one."""
    address = node.operands[0 if node.opcode.startswith("st.") else -1] if node.operands else None
    if len(node.operands) != 2 or not isinstance(address, ast.Address) or not isinstance(address.base, ast.Name):
        return False
    cells = scope.find(address.base.name)
    if not isinstance(cells, Cells):
        if node.opcode.startswith("st."):
            raise binder.error(f"{address.base.name} is not a .param variable of a call or a return value", node)
        if not isinstance(cells, VReg) or binder.routine is None:
            return False
        # The address of a parameter that was taken: it is in local memory.
        local = node.opcode.replace(".param::func", ".param").replace(".param", ".local")
        form = find(local)[0][0]
        binder.emit(form, {o.name: v for o, v in zip(form.operands, node.operands, strict=True)}, node, scope)
        return True
    form = find(node.opcode)[0][0]
    data = node.operands[1] if node.opcode.startswith("st.") else node.operands[0]
    spec = next(o for o in form.operands if not o.is_address)
    items = data.elements if isinstance(data, ast.Vector) else (data,)
    if len(items) != spec.count:
        raise binder.error(f"takes {spec.count} register(s), {len(items)} given", node)
    writer = Writer(binder.kernel, binder.kernel.instructions, binder.guard(node, scope), node.line, node.loc, "call")
    for number, item in enumerate(items):
        value = binder.scalar(item, spec, form, node, scope)
        offset = address.offset + number * spec.type.bytes
        if node.opcode.startswith("st."):
            writer.store(cells, offset, spec.type.name, value)
        elif isinstance(value, VReg):
            writer.load(cells, offset, spec.type.name, value)
    return True


def range_names(variable: ast.Variable) -> list[str]:
    """The names that ``.param .b32 %p<3>`` declares: ``%p0`` ... ``%p2``."""
    return [variable.name] if variable.count is None else [f"{variable.name}{number}" for number in range(variable.count)]


def bind_return(binder: Binder, node: ast.Instruction, scope: Scope) -> None:
    """``ret`` in a function: a branch to its end."""
    label = binder.returns.name
    instr = Instr(find("bra")[0][0], {"target": None}, binder.guard(node, scope), node.line, node.loc, label=label)
    binder.fixups.append((instr, binder.returns))
    binder.kernel.instructions.append(instr)
