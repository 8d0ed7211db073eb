"""The stack in local memory: alloca, stacksave and stackrestore (PTX ISA 9.7.16).

The stack grows upwards behind the thread's local variables, from the register ``stack`` of the machine's calling convention on.
A function that allocates puts it back where it was when it returns (:mod:`isa.lower.link`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isa.lower.callgraph import walk
from isa.lower.calls import shared_register
from isa.lower.ir import Arg, Const, Instr, Kernel, VReg
from isa.lower.parameters import Writer
from isa.lower.scopes import Scope
from isa.ptx import ast
from isa.spec.registry import Form
from isa.types import scalar_type

if TYPE_CHECKING:
    from isa.lower.bind import Binder

__all__ = ["FRAME_ALIGN", "STACK_BYTES", "allocates", "bind_stack", "place_stack", "start_stack"]

STACK_BYTES = 1 << 14
"""Bytes of stack per thread for recursive functions and alloca. CUDA gives 1024 by default, but its frames are smaller."""

FRAME_ALIGN = 16
_DEFAULT_ALIGN = 8  # of alloca (PTX ISA 9.7.16.3)
_BASES = ("alloca", "stacksave", "stackrestore")


def allocates(function: ast.Function) -> bool:
    """Whether a function's body uses the stack by itself."""
    return function.body is not None and any(
        isinstance(s, ast.Instruction) and s.opcode.partition(".")[0] in _BASES for s in walk(function.body)
    )


def start_stack(kernel: Kernel, line: int) -> Instr:
    """The instruction that makes the stack empty; :func:`place_stack` completes it when all local variables are known."""
    out: list[Instr] = []
    Writer(kernel, out, None, line, None, "call").move(shared_register(kernel, "stack", 64), Const(0))
    return out[0]


def place_stack(kernel: Kernel, start: Instr) -> None:
    """Put the stack behind the local variables of a kernel."""
    base = -(-kernel.local_size // FRAME_ALIGN) * FRAME_ALIGN
    start.args["a"] = Const(base)
    kernel.stack = STACK_BYTES
    kernel.local_size = base + STACK_BYTES


def bind_stack(
    binder: Binder, form: Form, operands: dict[str, ast.Operand | None], node: ast.Instruction, scope: Scope
) -> None:
    """Bind one of the three instructions: arithmetic on the stack register."""
    kernel = binder.kernel
    stack = shared_register(kernel, "stack", 64)
    writer = Writer(kernel, kernel.instructions, binder.guard(node, scope), node.line, node.loc, "alloca")
    specs = {spec.name: spec for spec in form.operands}
    given = {name: operand for name, operand in operands.items() if operand is not None}
    args: dict[str, Arg] = {name: binder.scalar(given[name], specs[name], form, node, scope) for name in given}
    word = str(form.params["t"]) == "u32"
    if form.instruction.pattern.base == "stackrestore":
        _set(writer, stack, args["a"], word)
        return
    result = args["d"]
    if form.instruction.pattern.base == "alloca":
        align = args.get("b", Const(_DEFAULT_ALIGN))
        if not isinstance(align, Const) or align.bits not in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            raise binder.error("the alignment is a constant power of two, 256 at most", node)
        start = kernel.new_register(scalar_type("b64"), "alloca")
        size = kernel.new_register(scalar_type("b64"), "alloca")
        _set(writer, size, args["a"], word)
        writer.emit("add.u64", d=start, a=stack, b=Const(align.bits - 1))
        writer.emit("and.b64", d=start, a=start, b=Const((1 << 64) - align.bits))
        writer.emit("add.u64", d=size, a=size, b=Const(FRAME_ALIGN - 1))  # frames begin at multiples of this
        writer.emit("add.u64", d=stack, a=start, b=size)
        writer.emit("and.b64", d=stack, a=stack, b=Const((1 << 64) - FRAME_ALIGN))
    else:
        start = stack
    if isinstance(result, VReg):
        if word:
            writer.emit("cvt.u32.u64", d=result, a=start)
        else:
            writer.move(result, start)


def _set(writer: Writer, target: VReg, value: Arg, word: bool) -> None:
    """A 64-bit register from an operand of 32 or 64 bits."""
    if word and isinstance(value, VReg):
        writer.emit("cvt.u64.u32", d=target, a=value)
    else:
        writer.move(target, value)
