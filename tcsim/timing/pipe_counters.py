"""Which of Nsight Compute's pipe counters a machine instruction adds to.

Facts of an H200: with them ``sm__inst_executed_pipe_{cbu,lsu,uniform,tensor}.sum`` of 30 recorded launches come out exactly,
but for those whose threads diverge differently or wait for each other.
"""

from __future__ import annotations

from isa.program import OPERANDS, Program

__all__ = ["PipeCounters"]

_CBU = frozenset(("BREAK", "BRX", "BRXU", "BSSY", "BSYNC", "CALL", "EXIT", "RET", "WARPSYNC"))
_NOT_UNIFORM = frozenset(("ELECT", "R2UR", "S2UR", "ULDC", "UMOV", "VOTEU"))


class PipeCounters:
    """The counters of a program of machine code."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._thread_numbers = {place for name, place in program.specials.items() if name.startswith("tid.")}

    def of(self, pc: int, pipe: str) -> str:
        """The counter of an instruction that a pipe of the model takes; "" if none counts it."""
        opcode = self.program.opcodes[pc]
        base = opcode.partition(".")[0]
        if pipe == "cbu":
            return pipe if base in _CBU else ""  # plain branches are not counted
        if pipe == "uniform":
            return "" if base in _NOT_UNIFORM else pipe
        if pipe == "tensor":
            return pipe if "MMA" in opcode else ""  # HFMA2.MMA, too
        return "lsu" if self.reads_thread_number(pc) else pipe

    def reads_thread_number(self, pc: int) -> bool:
        """Whether it is S2R of a thread's number in its CTA, which the LSU answers."""
        if not self._thread_numbers or self.program.opcodes[pc] != "S2R":
            return False
        row = int(self.program.code[pc, OPERANDS]) // 4
        return any(int(word) in self._thread_numbers for word in self.program.pool[row : row + 2])
