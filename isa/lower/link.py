"""Make calls what the machine does: moves of arguments, a jump that keeps where it came from, moves of return values.

Done after contraction, to which a call is one instruction. The calling convention:

- an argument is moved to the register where the function expects it, a return value from the one where it leaves it;
- what is passed to a function known only by its address goes through registers of the convention, by position and width;
  functions that can be called so have a second entry, which moves them on;
- the place to return to is put into the register *link*; a function that calls others itself moves it away first;
- a recursive function has a frame on a stack in local memory for its local variables; around a call that may lead back to it
  it saves the registers that are alive there too. One that allocates there remembers where the stack was.
"""

from __future__ import annotations

from isa.lower.allocate import live_across
from isa.lower.calls import shared_register
from isa.lower.cfg import build_blocks
from isa.lower.ir import Arg, Const, Instr, Kernel, MemoryArg, Routine, VReg
from isa.lower.parameters import Writer
from isa.lower.stack import FRAME_ALIGN, place_stack, start_stack
from isa.spec.registry import find
from isa.types import scalar_type

__all__ = ["link"]

ORIGIN = "call"


def link(kernel: Kernel) -> None:
    """Expand the calls of a bound kernel in place."""
    if kernel.function_table:
        _Linker(kernel).run()


class _Linker:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.out: list[Instr] = []
        self.entries: dict[str, int] = {}
        self.doors: dict[str, int] = {}  # second entries
        self.link = shared_register(kernel, "link", 32)
        self.stacked = "stack" in kernel.shared_registers or any(r.frame is not None for r in kernel.functions.values())
        self.indirect = False
        self.places: list[Instr] = []  # moves of the place behind a call
        self.saved: dict[int, list[VReg]] = {}
        self.frame_bytes: dict[str, int] = {}

    def run(self) -> None:
        kernel = self.kernel
        stack = None
        if self.stacked:
            self._plan_frames()
        moved: list[int] = []
        start = kernel.instructions[0].target
        routine: Routine | None = None
        for index, instr in enumerate(kernel.instructions):
            moved.append(len(self.out))
            control = instr.form.instruction.control
            if index == start and self.stacked:
                stack = start_stack(kernel, instr.line)
                self.out.append(stack)
            if control == "enter":
                routine = kernel.functions[instr.label or ""]
                self._enter(instr, routine)
            elif control == "return":
                assert routine is not None
                self._return(instr, routine)
                routine = None
            elif control == "call":
                self._call(index, instr, routine)
            elif control == "call_indirect":
                self._call_by_address(index, instr, routine)
            else:
                self.out.append(instr)
        moved.append(len(self.out))
        for instr in self.out:
            if instr.target is not None:
                instr.target = moved[instr.target]
        for instr in self.out:
            if instr.form.instruction.control == "call":
                instr.target = self.entries[instr.label or ""]
        self._second_entries()
        place_of = {id(instr): at for at, instr in enumerate(self.out)}
        for move in self.places:
            move.args["a"] = Const(place_of[id(move)] + 2)
        kernel.instructions = self.out
        if stack is not None:
            place_stack(kernel, stack)

    def _writer(self, instr: Instr) -> Writer:
        return Writer(self.kernel, self.out, None, instr.line, instr.loc, ORIGIN)

    def _stack(self) -> VReg:
        return shared_register(self.kernel, "stack", 64)

    def _passing(self, what: str, number: int, register: VReg) -> VReg:
        """The register of the convention for argument or return value ``number``."""
        bits = max(32, register.type.bits)
        return shared_register(self.kernel, f"{what}{number}.{bits}", bits)

    # --------------------------------------------------------------------------------------------------- functions

    def _enter(self, instr: Instr, routine: Routine) -> None:
        self.entries[routine.name] = len(self.out)
        instr.args = {"d": ()}
        self.out.append(instr)
        writer = self._writer(instr)
        if routine.calls:
            routine.link = routine.link or self.kernel.new_register(scalar_type("b32"), "link'")
            writer.move(routine.link, self.link)
        if routine.frame is not None:
            writer.move(routine.frame, self._stack())
            writer.emit("add.u64", d=self._stack(), a=self._stack(), b=Const(self.frame_bytes[routine.name]))

    def _return(self, instr: Instr, routine: Routine) -> None:
        writer = self._writer(instr)
        if routine.by_address:
            for number, register in enumerate(routine.results):
                self._copy(writer, self._passing("returned", number, register), register)
        if routine.frame is not None:
            writer.move(self._stack(), routine.frame)
        instr.args = {"a": (), "b": routine.link or self.link}
        self.out.append(instr)

    def _second_entries(self) -> None:
        for name in self.kernel.function_table:
            if not name:
                continue
            routine = self.kernel.functions[name]
            first = self.out[self.entries[name]]
            self.doors[name] = len(self.out)
            writer = self._writer(first)
            for number, register in enumerate(routine.formals):
                self._copy(writer, register, self._passing("argument", number, register))
            jump = Instr(find("bra")[0][0], {"target": None}, None, first.line, first.loc, origin=ORIGIN, label=name)
            jump.target = self.entries[name]
            self.out.append(jump)
        if self.indirect:
            self.kernel.branch_tables.append(tuple(self.doors.get(name, -1) for name in self.kernel.function_table))

    def _copy(self, writer: Writer, target: VReg, source: VReg) -> None:
        """Copy a register to one that may be of another kind: a predicate as a number, less than a word as a word."""
        if target.is_predicate:
            writer.emit("setp.ne.u32", p=target, q=None, a=source, b=Const(0))
        elif source.is_predicate:
            writer.emit("selp.b32", d=target, a=Const(1), b=Const(0), c=source)
        elif min(target.type.bits, source.type.bits) < 32:
            narrow = min(target.type.bits, source.type.bits)
            writer.emit(f"extract_field.b{narrow}.b32", d=target, a=source, b=Const(0))
        else:
            writer.move(target, source)

    # ------------------------------------------------------------------------------------------------------- calls

    def _call(self, index: int, instr: Instr, caller: Routine | None) -> None:
        callee = self.kernel.functions[instr.label or ""]
        self._transfer(index, instr, caller, callee.formals, callee.results)

    def _call_by_address(self, index: int, instr: Instr, caller: Routine | None) -> None:
        self.indirect = True
        values, results = instr.args["a"], instr.args["d"]
        assert isinstance(values, tuple) and isinstance(results, tuple)
        formals = []
        for number, value in enumerate(values):
            assert isinstance(value, VReg)  # isa.lower.calls put constants into registers
            formals.append(self._passing("argument", number, value))
        returned = [self._passing("returned", number, result) for number, result in enumerate(results)]
        self._transfer(index, instr, caller, formals, returned)

    def _transfer(
        self, index: int, instr: Instr, caller: Routine | None, formals: list[VReg], returned: list[VReg]
    ) -> None:
        """Arguments, the call itself, return values; around a call that may lead back here, saving and restoring."""
        writer = self._writer(instr)
        values, results = instr.args["a"], instr.args["d"]
        assert isinstance(values, tuple) and isinstance(results, tuple)
        saved = self.saved.get(index)
        if saved is not None:
            assert caller is not None and caller.frame is not None
            self._save(writer, caller, saved)
            if caller.allocates:
                writer.emit("st.local.b64", a=MemoryArg(self._stack(), 0), b=caller.frame)
                writer.emit("add.u64", d=self._stack(), a=self._stack(), b=Const(FRAME_ALIGN))
            # What is passed may stand in the very registers that take it.
            values = tuple(self._aside(writer, value) for value in values)
        for formal, value in zip(formals, values, strict=True):
            self._pass(writer, formal, value)
        writer.move(self.link, Const(0))
        self.places.append(self.out[-1])
        self.out.append(instr)
        instr.args = {**instr.args, "d": (), "a": ()}
        if saved is not None:
            assert caller is not None and caller.frame is not None
            returned = [self._aside(writer, register) for register in returned]  # type: ignore[misc]
            if caller.allocates:  # how far the stack is from the frame, nobody knows
                writer.emit("sub.u64", d=self._stack(), a=self._stack(), b=Const(FRAME_ALIGN))
                writer.emit("ld.local.b64", d=caller.frame, a=MemoryArg(self._stack(), 0))
            else:
                writer.emit("sub.u64", d=caller.frame, a=self._stack(), b=Const(self.frame_bytes[caller.name]))
            self._restore(writer, caller, saved)
        for result, register in zip(results, returned, strict=True):
            assert isinstance(result, VReg)
            self._copy(writer, result, register)

    def _pass(self, writer: Writer, formal: VReg, value: Arg) -> None:
        if isinstance(value, VReg):
            self._copy(writer, formal, value)
        else:
            assert isinstance(value, Const)
            writer.move(formal, Const(value.bits & ((1 << max(formal.type.bits, 8)) - 1)))

    def _aside(self, writer: Writer, value: Arg) -> Arg:
        if not isinstance(value, VReg):
            return value
        copy = self.kernel.new_register(value.type, f"{value.name}'")
        writer.move(copy, value)
        return copy

    # --------------------------------------------------------------------------------------------------- recursion

    def _plan_frames(self) -> None:
        """Which registers each call that may lead back to its caller must save, and how large frames are."""
        kernel = self.kernel
        callers: dict[int, Routine] = {}
        routine: Routine | None = None
        for index, instr in enumerate(kernel.instructions):
            control = instr.form.instruction.control
            if control == "enter":
                routine = kernel.functions[instr.label or ""]
            elif control == "return":
                routine = None
            elif control in ("call", "call_indirect") and routine is not None and routine.recursive:
                callees = [instr.label or ""] if control == "call" else [name for name in kernel.function_table if name]
                if any(name == routine.name or routine.name in kernel.functions[name].reach for name in callees):
                    callers[index] = routine
        for routine in {r.name: r for r in callers.values()}.values():
            routine.link = kernel.new_register(scalar_type("b32"), "link'")
        alive = live_across(kernel.instructions, build_blocks(kernel.instructions), list(callers))
        apart = {r.index for r in kernel.shared_registers.values()}
        apart |= {routine.frame.index for routine in callers.values() if routine.frame is not None}
        for index, routine in callers.items():
            assert routine.link is not None
            live = alive.get(index, 0)
            registers = [r for r in kernel.registers[: live.bit_length()] if live >> r.index & 1 and r.index not in apart]
            self.saved[index] = [*registers, routine.link]
        for routine in kernel.functions.values():
            if routine.frame is not None:
                sizes = [sum(map(_slot, self.saved[i])) for i, r in callers.items() if r is routine]
                whole = -(-routine.local_size // 8) * 8 + max(sizes, default=0)
                self.frame_bytes[routine.name] = -(-whole // FRAME_ALIGN) * FRAME_ALIGN

    def _slots(self, routine: Routine, saved: list[VReg]) -> list[tuple[VReg, MemoryArg]]:
        assert routine.frame is not None
        at = -(-routine.local_size // 8) * 8
        out = []
        for register in sorted(saved, key=lambda r: (-_slot(r), r.index)):
            out.append((register, MemoryArg(routine.frame, at)))
            at += _slot(register)
        return out

    def _save(self, writer: Writer, routine: Routine, saved: list[VReg]) -> None:
        for register, place in self._slots(routine, saved):
            value = register
            if register.is_predicate:
                value = self.kernel.new_register(scalar_type("b32"), register.name)
                self._copy(writer, value, register)
            writer.emit(f"st.local.b{value.type.bits}", a=place, b=value)

    def _restore(self, writer: Writer, routine: Routine, saved: list[VReg]) -> None:
        for register, place in self._slots(routine, saved):
            value = register
            if register.is_predicate:
                value = self.kernel.new_register(scalar_type("b32"), register.name)
            writer.emit(f"ld.local.b{value.type.bits}", a=place, d=value)
            if register.is_predicate:
                self._copy(writer, register, value)


def _slot(register: VReg) -> int:
    """Bytes that a saved register takes."""
    return 8 if register.type.bits == 64 else 4
