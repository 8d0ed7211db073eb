"""What simplifications have in common: looking at what makes an operand, copies looked through, and replacing instructions."""

from __future__ import annotations

from bisect import bisect_right

from isa.lower.contract.constants import fold
from isa.lower.contract.editing import ORIGIN, Definitions, Editor, Saver, form_of, live_reads, plain_mov
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.ir import Arg, Const, Instr, Kernel, VReg
from isa.spec.registry import Form
from isa.types import scalar_type

__all__ = ["Simplifier"]

_DEEPEST = 16  # instructions that constants are followed through


class Simplifier:
    """A kernel being simplified in program order: what was replaced so far is what is seen. The kernel itself does not change
    before ``editor.apply()``."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.editor = Editor(kernel)
        self.definitions = Definitions(kernel)
        self.saver = Saver(self.definitions, self.editor)
        self._reads: dict[int, int] | None = None

    # ------------------------------------------------------------------------------------------------------ looking

    def root(self, arg: Arg) -> Arg:
        """The operand that copies carry to this one."""
        while True:
            index = self.definitions.only(arg)
            instr = None if index is None else self.editor.now(index)
            if instr is None or op_of(instr.form).base != "mov":
                return arg
            source = instr.args.get("a")
            if source is None or isinstance(source, tuple) or isinstance(instr.args.get("d"), tuple):
                return arg
            if isinstance(source, VReg) and len(self.definitions.writes.get(source.index, ())) > 1:
                return arg  # overwritten perhaps since it was copied
            arg = source

    def _traced(self, arg: Arg, at: int) -> tuple[Arg, int | None]:
        """The operand that copies carry to one of instruction ``at``, and the instruction that computes it, if one is known to.
        Registers may be written again and again."""
        while True:
            index = self.definitions.reaching(arg, at)
            instr = None if index is None else self.editor.now(index)
            if index is None or instr is None or op_of(instr.form).base != "mov":
                return arg, None if instr is None else index
            source = instr.args.get("a")
            if source is None or isinstance(source, tuple) or isinstance(instr.args.get("d"), tuple):
                return arg, index
            arg, at = source, index

    def made_by(self, arg: Arg, at: int | None = None) -> tuple[int, Instr, Op] | None:
        """The instruction that computes an operand (of instruction ``at``, where registers written more than once count)."""
        index = self.definitions.only(self.root(arg))
        if index is None and at is not None:
            index = self._traced(arg, at)[1]
        instr = None if index is None else self.editor.now(index)
        return None if index is None or instr is None else (index, instr, op_of(instr.form))

    def constant(self, arg: Arg, at: int | None = None) -> int | None:
        """The bits of an operand (of instruction ``at``, likewise) that is an immediate."""
        found = self.root(arg)
        if at is None or isinstance(found, Const):
            return found.bits if isinstance(found, Const) else None
        return self._evaluated(arg, at, _DEEPEST)

    def _evaluated(self, arg: Arg, at: int, depth: int) -> int | None:
        """The bits of an operand that is an immediate, or that ptxas can work out from immediates."""
        found, index = self._traced(arg, at)
        if isinstance(found, Const):
            return found.bits
        instr = None if index is None else self.editor.now(index)
        if index is None or instr is None or depth == 0:
            return None
        op = op_of(instr.form)
        if not op.pure or len(op.destinations) != 1 or instr.form.instruction.body != "lane":
            return None
        sources: list[int] = []
        for name in op.sources:
            operand = instr.args.get(name)
            bits = None if operand is None or isinstance(operand, tuple) else self._evaluated(operand, index, depth - 1)
            if bits is None:
                return None
            sources.append(bits)
        return fold(op, sources) if sources else None

    def is_same(self, one: Arg, at: int, other: Arg, later: int) -> bool:
        """Whether an operand of instruction ``at`` and one of a later instruction are one value."""
        one, other = self.root(one), self.root(other)
        if one != other or not isinstance(one, VReg):
            return isinstance(one, Const) and one == other
        writes = self.definitions.writes.get(one.index, ())
        if len(writes) < 2:
            return True
        starts = self.saver.starts
        in_one_block = bisect_right(starts, at) == bisect_right(starts, later) and at < later
        return in_one_block and not any(at <= write < later for write in writes)

    def reads(self, register: VReg) -> int:
        """How many operands and guards read a register in the kernel as it was, dead code not counted."""
        if self._reads is None:
            self._reads = live_reads(self.kernel, self.definitions)
        return self._reads.get(register.index, 0)

    # ----------------------------------------------------------------------------------------------------- replacing

    def put(self, index: int, form: Form | str, args: dict[str, Arg]) -> None:
        """Another instruction instead of number ``index``, under the same guard."""
        instr = self.kernel.instructions[index]
        chosen = form_of(form) if isinstance(form, str) else form
        self.editor.replace(index, Instr(chosen, args, instr.guard, instr.line, instr.loc, origin=ORIGIN))

    def move(self, index: int, destination: Arg, source: Arg) -> None:
        """A copy instead of number ``index``."""
        assert isinstance(destination, VReg)
        self.put(index, plain_mov(destination.type.bits), {"d": destination, "a": source})

    def before(self, index: int, opcode: str, type_: str, args: dict[str, Arg]) -> VReg:
        """Compute a value before number ``index``; returns its register, of type ``type_``."""
        instr = self.kernel.instructions[index]
        register = self.kernel.new_register(scalar_type(type_), "part")
        made = Instr(form_of(opcode), {"d": register, **args}, None, instr.line, instr.loc, origin=ORIGIN)
        self.editor.insert(index, made)
        return register
