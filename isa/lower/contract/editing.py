"""Changing a kernel's instruction list: insertions and removals that keep branch targets right, and saved registers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from isa.lower.cfg import build_blocks
from isa.lower.contract.opcodes import op_of
from isa.lower.ir import Arg, Instr, Kernel, VReg
from isa.spec.registry import Form, find

__all__ = ["ORIGIN", "Definitions", "Editor", "Saver", "form_of", "live_reads", "plain_mov"]

ORIGIN = "contract"


def form_of(opcode: str) -> Form:
    """The form of an opcode that is known to have one."""
    forms, why_not = find(opcode)
    assert forms, why_not
    return forms[0]


def plain_mov(bits: int) -> Form:
    """The form that copies a register of this width."""
    forms, _ = find(f"mov.b{bits}")
    return next(form for form in forms if all(not operand.is_vector for operand in form.operands))


class Editor:
    """Changes to an instruction list. Nothing changes before :meth:`apply`."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._before: dict[int, list[Instr]] = {}
        self._instead: dict[int, Instr | None] = {}

    def insert(self, index: int, instr: Instr) -> None:
        """Put an instruction before number ``index``; a branch to that executes it too."""
        self._before.setdefault(index, []).append(instr)

    def replace(self, index: int, instr: Instr | None) -> None:
        """Put another instruction in the place of number ``index``, or nothing."""
        self._instead[index] = instr

    def now(self, index: int) -> Instr | None:
        """What will stand in the place of number ``index``."""
        return self._instead.get(index, self.kernel.instructions[index])

    def apply(self) -> bool:
        """Make the changes. Whether there were any."""
        if not self._before and not self._instead:
            return False
        out: list[Instr] = []
        moved: list[int] = []
        for index, instr in enumerate(self.kernel.instructions):
            moved.append(len(out))
            out += self._before.get(index, ())
            kept = self._instead.get(index, instr)
            if kept is not None:
                out.append(kept)
        moved.append(len(out))
        for instr in out:
            if instr.target is not None:
                instr.target = moved[instr.target]
        self.kernel.instructions = out
        return True


class Definitions:
    """Where registers are written. ``writes[r]``: instructions that write register number r, in program order."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.blocks = build_blocks(kernel.instructions)
        self.starts = [block.start for block in self.blocks]
        self.writes: dict[int, list[int]] = {}
        for index, instr in enumerate(kernel.instructions):
            for register in instr.destinations():
                self.writes.setdefault(register.index, []).append(index)

    def reaching(self, arg: Arg, at: int) -> int | None:
        """The unguarded instruction whose value of a register instruction ``at`` reads on every way to it, if there is one: the
        last that writes the register in the same block, or where the way here is straight, in the one before."""
        if not isinstance(arg, VReg) or arg.index not in self.writes:
            return None
        writes = self.writes[arg.index]
        block = bisect_right(self.starts, at) - 1
        seen: set[int] = set()
        while block not in seen:
            seen.add(block)
            place = bisect_left(writes, at) - 1
            if place >= 0 and writes[place] >= self.blocks[block].start:
                found = writes[place]
                return found if self.kernel.instructions[found].guard is None else None
            before = self.blocks[block].predecessors
            if len(before) != 1:
                return None
            block = before[0]
            at = self.blocks[block].end
        return None

    def only(self, arg: Arg) -> int | None:
        """The instruction that gives an operand its value, if it is a register that one unguarded instruction writes."""
        if not isinstance(arg, VReg):
            return None
        writes = self.writes.get(arg.index, ())
        if len(writes) != 1 or self.kernel.instructions[writes[0]].guard is not None:
            return None
        return writes[0]


def live_reads(kernel: Kernel, definitions: Definitions) -> dict[int, int]:
    """How many operands and guards read each register, dead code not counted."""
    instructions = kernel.instructions
    reads: dict[int, int] = {}
    live = bytearray(len(instructions))
    stack = [index for index, instr in enumerate(instructions) if not op_of(instr.form).pure]
    for index in stack:
        live[index] = 1
    while stack:
        for register in instructions[stack.pop()].sources():
            count = reads.get(register.index, 0)
            reads[register.index] = count + 1
            if count:
                continue
            for write in definitions.writes.get(register.index, ()):
                if not live[write]:
                    live[write] = 1
                    stack.append(write)
    return reads


class Saver:
    """Makes what an instruction reads available further down: the register itself, or a copy if it is overwritten between."""

    def __init__(self, definitions: Definitions, editor: Editor) -> None:
        self.kernel, self.definitions, self.editor = definitions.kernel, definitions, editor
        self.starts = definitions.starts
        self.saved: dict[tuple[int, int], VReg] = {}

    def keep(self, arg: Arg, source: int, at: int) -> Arg:
        """An operand of instruction ``source`` for use by instruction ``at``, which ``source`` dominates."""
        if not isinstance(arg, VReg):
            return arg
        writes = self.definitions.writes.get(arg.index, [])
        if len(writes) < 2 and source not in writes:
            return arg
        one_block = bisect_right(self.starts, source) == bisect_right(self.starts, at) and source < at
        if one_block and not any(source <= write < at for write in writes):
            return arg
        copy = self.saved.get((source, arg.index))
        if copy is None:
            copy = self.saved[source, arg.index] = self.kernel.new_register(arg.type, f"{arg.name}'")
            instr = self.kernel.instructions[source]
            args: dict[str, Arg] = {"d": copy, "a": arg}
            move = plain_mov(arg.type.bits)
            self.editor.insert(source, Instr(move, args, None, instr.line, instr.loc, origin=ORIGIN))
        return copy
