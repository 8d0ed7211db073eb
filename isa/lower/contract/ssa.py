"""Values instead of registers: which definition each operand of a kernel reads.

PTX reuses registers: compilers write loop-carried variables and both sides of a branch into one name. This module gives every
definition a :class:`Value` and every operand the value it reads, with a :data:`PHI` where definitions meet, so that "the same
product" can be told from "the same register". Copies leave no trace: a ``mov`` hands its source's value on, packing and
unpacking are looked through, and so are multiplications by one and spills to local memory at constant addresses.

Joins are placed where a variable that is read may have several definitions (on the iterated dominance frontier of its
definitions, after Cytron et al., 1991, but on demand only), and stay open until the end. Registers with one definition,
nearly all of them, need no lookup at all.
"""

from __future__ import annotations

from isa.lower.cfg import Block
from isa.lower.contract.constants import fold
from isa.lower.contract.copies import carried
from isa.lower.contract.dominators import dominance_frontiers, immediate_dominators, reverse_postorder
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.contract.values import ABS, CONST, DEF, FLUSH, FORWARD, MERGE, OTHER, PHI, UNDEF, UNDEFINED, Value, resolve
from isa.lower.ir import Arg, Const, Guard, Instr, MemoryArg, VReg

__all__ = ["Values"]

_OTHER = Value(OTHER)


class Values:
    """The values of a kernel's reachable code.

    ``sources[i]``: values that instruction i reads, in operand order (vectors in line, an address as its base register), or
    None if it cannot be reached. ``guards[i]``: the value of its guard, None without one or if the guard always holds.
    ``results[i]``: values of its destinations. ``skipped[i]``: its guard never holds. ``order``: reachable blocks in reverse
    postorder; ``predecessors`` of each, reachable ones only, and ``dominators``, the immediate ones.

    ``slots``: for loads and stores of local memory that are kept in registers, the (offset, size) of each element.
    ``dropped``: branches that are no longer there.
    """

    def __init__(
        self,
        instructions: list[Instr],
        blocks: list[Block],
        registers: int,
        slots: dict[int, list[tuple[int, int]]],
        dropped: set[int],
    ) -> None:
        self.instructions, self.blocks, self.slots, self.dropped = instructions, blocks, slots, dropped
        count = len(instructions)
        self.sources: list[list[Value] | None] = [None] * count
        self.guards: list[Value | None] = [None] * count
        self.results: list[list[Value]] = [[] for _ in range(count)]
        self.skipped = bytearray(count)
        self.order = reverse_postorder(blocks)
        self._rank = {number: rank for rank, number in enumerate(self.order)}
        self.predecessors = {n: [p for p in blocks[n].predecessors if p in self._rank] for n in self.order}
        self.dominators = immediate_dominators(self.order, self.predecessors)
        self._frontiers = dominance_frontiers(self.order, self.predecessors, self.dominators)
        self._defining: dict[object, set[int]] = {}  # blocks that write a variable with several definitions
        self._meeting: dict[object, set[int]] = {}  # joins where its definitions meet
        self._single: list[Value | None] = [None] * registers
        self._several = self._count_definitions(registers)
        self._variables: dict[int, dict[object, Value]] = {}
        self._open: list[tuple[Value, int, object]] = []  # joins whose incoming values are not known yet
        self._early: list[tuple[Value, int]] = []  # reads of a register before its one definition
        for number in self.order:
            self._block(number)
        self._close()

    def _count_definitions(self, registers: int) -> bytearray:
        """1 for registers with more than one definition; a guarded one counts as two."""
        places: list[int] = [-1] * registers
        several = bytearray(registers)
        defining = self._defining
        for number in self.order:
            block = self.blocks[number]
            for index in range(block.start, block.end):
                instr = self.instructions[index]
                args = instr.args
                for element in self.slots.get(index, ()):
                    defining.setdefault(element, set()).add(number)
                for name in op_of(instr.form).destinations:
                    arg = args.get(name)
                    for register in (arg,) if type(arg) is VReg else arg if type(arg) is tuple else ():
                        if type(register) is not VReg:
                            continue
                        place = register.index
                        if places[place] >= 0 or instr.guard is not None:
                            if not several[place]:
                                several[place] = 1
                                defining[place] = {places[place]} if places[place] >= 0 else set()
                            defining[place].add(number)
                        places[place] = number
        return several

    def _joins_of(self, key: object) -> set[int]:
        """The blocks where definitions of a variable meet: the iterated dominance frontier of where it is written."""
        found = self._meeting.get(key)
        if found is None:
            found = self._meeting[key] = set()
            stack = list(self._defining.get(key, ()))
            while stack:
                for join in self._frontiers[stack.pop()]:
                    if join not in found:
                        found.add(join)
                        stack.append(join)
        return found

    # ------------------------------------------------------------------------------------------------------ reading

    def is_shared(self, register: VReg) -> bool:
        """Whether several definitions write a register, so that a join may be of it."""
        return bool(self._several[register.index])

    def _read(self, block: int, register: int) -> Value:
        value = self._single[register]
        if value is not None:
            return value
        if self._several[register]:
            return self._lookup(block, register)
        value = Value(PHI, block)
        self._early.append((value, register))
        return value

    def _lookup(self, block: int, key: object) -> Value:
        """The value of a variable with several definitions at the end of a finished block, or at this point of the current
        one."""
        passed = []
        joins = self._joins_of(key)
        while True:
            variables = self._variables[block]
            value = variables.get(key)
            if value is not None:
                break
            if block in joins:
                value = variables[key] = Value(PHI, block)
                self._open.append((value, block, key))
                break
            above = self.dominators[block]
            if above < 0:
                value = variables[key] = UNDEFINED
                break
            passed.append(variables)
            block = above
        for variables in passed:
            variables[key] = value
        return value

    def _argument(self, block: int, arg: Arg, out: list[Value]) -> None:
        if type(arg) is VReg:
            value = self._single[arg.index]
            out.append(value if value is not None else self._read(block, arg.index))
        elif type(arg) is Const:
            out.append(Value(CONST, bits=arg.bits))
        elif type(arg) is MemoryArg:
            self._argument(block, arg.base, out)
        elif type(arg) is tuple:
            for item in arg:
                self._argument(block, item, out)
        elif arg is not None:
            out.append(_OTHER)

    def _guard(self, block: int, guard: Guard) -> Value | bool:
        """The guard's value, or whether it holds if that is known."""
        value = resolve(self._read(block, guard.register.index))
        return value if value.kind != CONST else bool(value.bits & 1) != guard.negated

    # ------------------------------------------------------------------------------------------------------ writing

    def _block(self, number: int) -> None:
        self._variables[number] = variables = {}
        block = self.blocks[number]
        single, several = self._single, self._several
        for index in range(block.start, block.end):
            instr = self.instructions[index]
            op = op_of(instr.form)
            guard: Value | None = None
            if instr.guard is not None and index not in self.dropped:
                known = self._guard(number, instr.guard)
                if known is False:
                    self.skipped[index] = 1
                    self.sources[index] = []
                    continue
                guard = None if known is True else known
                self.guards[index] = guard
            read: list[Value] = []
            args = instr.args
            for name in op.sources:
                self._argument(number, args.get(name), read)
            self.sources[index] = read
            if index in self.slots:
                self._local(number, index, op, read)
                if op.base == "st":
                    continue
            results = self.results[index]
            for slot, name in enumerate(op.destinations):
                arg = args.get(name)
                targets = arg if type(arg) is tuple else (arg,)
                for place, target in enumerate(targets):
                    value = self._result(index, op, read, slot, place, len(targets), target)
                    results.append(value)
                    if type(target) is not VReg:
                        continue
                    if guard is not None:
                        old = self._read(number, target.index)
                        if resolve(old) is not resolve(value):
                            value = Value(MERGE, index, parts=(value, old))
                    if several[target.index]:
                        variables[target.index] = value
                    else:
                        single[target.index] = value

    def _result(self, index: int, op: Op, read: list[Value], slot: int, place: int, count: int, target: Arg) -> Value:
        """The value of one destination: what it copies, else a definition of its own."""
        if index in self.slots:
            return read[place + 1]  # a reload: its values follow the address
        copied = carried(index, op, read, place, count, target)
        if copied is not None:
            return copied
        if op.base == "abs" and op.type == "f32" and self._is_square(read[0]):
            value = Value(ABS, index, parts=read)
            return Value(FLUSH, index, parts=(value,)) if op.ftz else value
        if read and all(resolve(value).kind == CONST for value in read):
            bits = fold(op, [resolve(value).bits for value in read])
            if bits is not None:
                return Value(CONST, bits=bits)
        return Value(DEF, index, slot + place)

    def _is_square(self, value: Value) -> bool:
        """Whether a value is x * x, never negative: ptxas drops ``abs`` of it."""
        value = resolve(value)
        if value.kind != DEF or op_of(self.instructions[value.instr].form).base != "mul":
            return False
        factors = self.sources[value.instr]
        return factors is not None and resolve(factors[0]) is resolve(factors[1])

    def _local(self, number: int, index: int, op: Op, read: list[Value]) -> None:
        """A spill or reload: local memory as variables. A reload's values are appended to what it reads."""
        variables = self._variables[number]
        elements = self.slots[index]
        if op.base == "st":
            for place, element in enumerate(elements):
                value = read[1 + place]
                if self.guards[index] is not None:
                    value = Value(MERGE, index, parts=(value, self._lookup(number, element)))
                variables[element] = value
        else:
            read += [self._lookup(number, element) for element in elements]

    # ---------------------------------------------------------------------------------------------------------- joins

    def _close(self) -> None:
        phis: list[Value] = []
        position = 0
        while position < len(self._open):
            phi, block, key = self._open[position]
            position += 1
            parts = [self._lookup(before, key) for before in self.predecessors[block]]
            phi.parts = [*parts, UNDEFINED] if block == 0 else parts
            phis.append(phi)
        for phi, register in self._early:
            phi.parts = (self._single[register] or UNDEFINED, UNDEFINED)
        changed = True
        while changed:
            changed = False
            rest = []
            for phi in phis:
                same = self._only_value(phi)
                if same is None:
                    rest.append(phi)
                else:
                    phi.kind, phi.parts = FORWARD, (same,)
                    changed = True
            phis = rest

    def _only_value(self, phi: Value) -> Value | None:
        """The one value that reaches a join, or None if several do. Undefined ones do not count, except around a loop."""
        loop = any(self._rank[p] >= self._rank[phi.instr] for p in self.predecessors[phi.instr])
        found: Value | None = None
        for part in phi.parts:
            part = resolve(part)
            if part is phi or (part.kind == UNDEF and not loop):
                continue
            if found is None:
                found = part
            elif part is not found and not (part.kind == CONST and found.kind == CONST and part.bits == found.bits):
                return None
        return found or UNDEFINED
