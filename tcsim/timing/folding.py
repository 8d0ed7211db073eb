"""Which PTX instructions ptxas folds into another one, so that they cost nothing themselves.

PTX is three-address code with two operands where the machine has three: ptxas makes one LEA of ``shl`` and ``add``, one
IMAD of ``mul`` and ``add``, one LOP3 of two logic instructions, one IADD3 of two ``add``, and puts a constant offset
into the address of a load. An instruction is folded if what takes it up, in the same basic block, is all that reads its
result. On 46 loops of compiled sm_80 kernels this brings the predicted number of machine instructions from a median
error of 15 % (plain PTX) to 6 %.
"""

from __future__ import annotations

from isa.program import GUARD, KIND, OPERANDS, TARGET, Kind, Program

__all__ = ["folded"]

_LOGIC = ("and", "or", "xor", "not")
_WIDE = ("s64", "u64", "b64")


def folded(program: Program) -> tuple[set[int], set[int]]:
    """The instructions that cost nothing, and those that take up a product, shift, sum or logic instruction in their
    place.
    """
    folding = _Folding(program)
    return folding.result, folding.taken


class _Folding:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.base = [opcode.partition(".")[0] for opcode in program.opcodes]
        self.type = [opcode.rpartition(".")[2] for opcode in program.opcodes]
        self.constants = {offset for offset, _, _ in program.constants}
        self.reads = [frozenset(places) for places in program.reads]
        self.writes = [frozenset(places) for places in program.writes]
        liveness = _Liveness(program)
        self.result: set[int] = set()
        self.taken: set[int] = set()
        for (start, end), live_out in zip(liveness.blocks, liveness.live_out, strict=True):
            for pc in range(start, end):
                if self._folds(pc, end, live_out):
                    self.result.add(pc)

    def _folds(self, pc: int, end: int, live_out: frozenset[int]) -> bool:
        program = self.program
        if not program.writes[pc] or program.code[pc, GUARD] >= 0 or program.memory[pc] is not None:
            return False
        readers = self._readers(pc, end, live_out)
        if not readers:
            return False
        if all(self._is_address(pc, reader) for reader in readers):
            return True
        # A product or shift is computed again for each sum that takes it; the sums of other kinds are not worth that.
        if len(readers) > 1 and self.base[pc] not in ("mul", "shl"):
            return False
        if any(reader in self.taken or reader in self.result or not self._fuses(pc, reader) for reader in readers):
            return False
        self.taken.update(readers)
        return True

    def _readers(self, pc: int, end: int, live_out: frozenset[int]) -> list[int]:
        """Who reads the result of ``pc``; empty if it may be read outside the block."""
        result = self.writes[pc]
        readers = []
        for later in range(pc + 1, end):
            if not result.isdisjoint(self.reads[later]):
                readers.append(later)
            if not result.isdisjoint(self.writes[later]):
                whole = self.program.code[later, GUARD] < 0 and result <= self.writes[later]
                return readers if whole else []
        return readers if result.isdisjoint(live_out) else []

    def _is_address(self, pc: int, reader: int) -> bool:
        """Whether ``pc`` adds a constant to a register that ``reader`` only uses as an address."""
        access = self.program.memory[reader]
        if access is None or self.base[pc] not in ("add", "sub") or not self._has_constant(pc):
            return False
        if access.tile is not None:
            return False
        place = self.program.writes[pc][0]
        row = int(self.program.code[reader, OPERANDS]) // 4
        pool = self.program.pool
        addresses = {int(pool[row + access.operand])}
        if access.second_operand >= 0:
            addresses.add(int(pool[row + access.second_operand]))
        uses = self.program.reads[reader].count(place)
        return place in addresses and uses == 1

    def _has_constant(self, pc: int) -> bool:
        row = int(self.program.code[pc, OPERANDS]) // 4
        return any(int(self.program.pool[row + position]) in self.constants for position in (1, 2))

    def _fuses(self, pc: int, reader: int) -> bool:
        if self.program.code[reader, GUARD] >= 0:
            return False
        first, second = self.base[pc], self.base[reader]
        wide = self.type[reader] in _WIDE
        if first in _LOGIC and second in _LOGIC:
            return self.type[pc] == "b32" and self.type[reader] == "b32"
        if second not in ("add", "sub") or self.type[reader] not in ("s32", "u32", *_WIDE):
            return False
        if first == "shl":
            return second == "add" and self._has_constant(pc) and (self.type[pc] in _WIDE) == wide
        if first == "mul":
            opcode = self.program.opcodes[pc]
            return second == "add" and (".wide" in opcode if wide else ".lo" in opcode)
        return first in ("add", "sub") and not wide and self.type[pc] in ("s32", "u32")


class _Liveness:
    """``blocks``: the basic blocks, (first instruction, one past the last). ``live_out``: the places that are live
    where each ends. While solving, a set of places is a bit mask.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        starts = {0}
        for pc in range(len(program)):
            if program.code[pc, KIND] in (Kind.BRANCH, Kind.BRANCH_INDEXED, Kind.EXIT):
                starts.update((pc + 1, *self._successors(pc)))
        edges = sorted(pc for pc in starts if 0 <= pc < len(program))
        self.blocks = list(zip(edges, [*edges[1:], len(program)], strict=True))
        places = sorted({place for written in program.writes for place in written})
        self._bit = {place: 1 << number for number, place in enumerate(places)}
        self.live_out = [frozenset(p for p, bit in self._bit.items() if bit & live) for live in self._solve()]

    def _bits(self, places: tuple[int, ...]) -> int:
        mask = 0
        for place in places:
            mask |= self._bit.get(place, 0)
        return mask

    def _successors(self, pc: int) -> tuple[int, ...]:
        kind, guarded = self.program.code[pc, KIND], self.program.code[pc, GUARD] >= 0
        following = (pc + 1,) if guarded or kind not in (Kind.BRANCH, Kind.EXIT, Kind.BRANCH_INDEXED) else ()
        if kind == Kind.BRANCH:
            return (int(self.program.code[pc, TARGET]), *following)
        if kind == Kind.BRANCH_INDEXED:
            return (*(target for table in self.program.branch_tables for target in table), *following)
        return following

    def _solve(self) -> list[int]:
        block_of = {start: index for index, (start, _) in enumerate(self.blocks)}
        uses, kills = [], []
        for start, end in self.blocks:
            use = kill = 0
            for pc in range(start, end):
                use |= self._bits(self.program.reads[pc]) & ~kill
                if self.program.code[pc, GUARD] < 0:
                    kill |= self._bits(self.program.writes[pc])
            uses.append(use)
            kills.append(kill)
        live_in, out = [0] * len(self.blocks), [0] * len(self.blocks)
        changed = True
        while changed:
            changed = False
            for index in reversed(range(len(self.blocks))):
                out[index] = 0
                for target in self._successors(self.blocks[index][1] - 1):
                    if target in block_of:
                        out[index] |= live_in[block_of[target]]
                now = uses[index] | (out[index] & ~kills[index])
                changed = changed or now != live_in[index]
                live_in[index] = now
        return out
