"""Values that ptxas computes again where they are used, instead of keeping them in a register over a region that does not.

Before it contracts, ptxas copies an expression to each use that is two or more regions further down the dominator tree, if all
its uses are that far and the expression is small. It may be made of constants and parameters, of values that are needed beyond
that use anyway, of loads that are used outside their region, and of instructions for which the same holds. A multiplication
inside such an expression is copied with it. The copy has one use, so it fuses whatever else the original is used for, and the
original has one use less. Across a call, such as the slow path of a division, registers are so few that with many values alive
it copies what is needed beyond the use as well.

Found and delimited with ptxas 13.0: at most nine operations, counted as a tree; nothing leaves a loop. ptxas weighs registers
in ways that these rules only approximate, so a sum whose fate hangs on them is also reported as undecided.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isa.lower.contract.live import Analysis
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.contract.values import ABS, CONST, DEF, FLUSH, MERGE, NEG, OTHER, PACK, PHI, PIECE, Value, resolve
from isa.lower.ir import Instr

__all__ = ["Sinking", "find_sinking"]

_MOST_OPERATIONS = 9
_DISTANCE = 2
_MANY_ALIVE = 11  # from 8 (values just loaded) to 11 (computed ones) alive across a call
# Never copied: loads, predicates, and what is several instructions of machine code (these without ``.ftz``, and divisions but
# ``div.approx.ftz``).
_NEVER = frozenset({"ld", "div", "rem", "setp", "sin", "cos", "tex"})
_EXPANDED = frozenset({"sqrt", "rsqrt", "rcp", "ex2", "lg2"})


@dataclass(slots=True)
class Sinking:
    """``moved``: instructions that only exist as copies further down. ``copied``: the instructions in those copies whose
    originals stay. ``inside[i]``: the instructions copied along with moved instruction i."""

    moved: set[int] = field(default_factory=set)
    copied: set[int] = field(default_factory=set)
    inside: dict[int, set[int]] = field(default_factory=dict)


def find_sinking(instructions: list[Instr], analysis: Analysis, most: bool = False) -> Sinking:
    """What moves; with ``most``, everything that could, whatever registers that takes."""
    if max(analysis.regions.depth, default=0) < _DISTANCE:
        return Sinking()
    return _Finder(instructions, analysis, most).find()


@dataclass(frozen=True, slots=True)
class _Use:
    """Where a value is used: by an instruction, or (``instr`` past the last) by a join at the end of a region."""

    region: int
    instr: int


class _Finder:
    def __init__(self, instructions: list[Instr], analysis: Analysis, most: bool) -> None:
        self.instructions, self.analysis, self.regions, self.most = instructions, analysis, analysis.regions, most
        self.found = Sinking()
        self.uses: dict[int, list[_Use]] = {}  # of each defining instruction,
        self.slot_uses: dict[tuple[int, int], list[_Use]] = {}  # and of each of its results
        self.join_uses: dict[int, list[_Use]] = {}  # of each join, by id
        self.joined: set[int] = set()  # instructions that write the register of a join themselves
        self.is_pressed = False
        self._needed: dict[int, set[int]] = {}
        self._counted: dict[int, int] | None = None
        self._before: list[list[int]] = [[] for _ in self.regions.parent]
        for source, targets in enumerate(self.regions.successors):
            for target in targets:
                self._before[target].append(source)
        self._collect()

    def _collect(self) -> None:
        values, of = self.analysis.values, self.regions.of
        for index in range(len(self.instructions)):
            if not self.analysis.live[index]:
                continue
            results = values.results[index]
            if results and results[0].kind in (NEG, FLUSH, ABS):
                continue
            use = _Use(of[index], index)
            for value in values.sources[index] or ():
                self._used(value, use)
            if values.guards[index] is not None:
                self._used(values.guards[index], use)
        for join in self.analysis.joins:
            for place, part in enumerate(join.parts):
                part = resolve(part)
                if part.kind == DEF and any(map(values.is_shared, self.instructions[part.instr].destinations())):
                    self.joined.add(part.instr)
                if join.kind != PHI:
                    self._used(part, _Use(of[join.instr], join.instr))
                elif place < len(values.predecessors[join.instr]):
                    region = self.regions.last[values.predecessors[join.instr][place]]
                    self._used(part, _Use(region, len(self.instructions)))

    def _used(self, value: Value | None, use: _Use) -> None:
        stack = [value]
        while stack:
            item = stack.pop()
            if item is None:
                continue
            item = resolve(item)
            if item.kind == DEF:
                self.uses.setdefault(item.instr, []).append(use)
                self.slot_uses.setdefault((item.instr, item.slot), []).append(use)
            elif item.kind in (NEG, FLUSH, ABS, PIECE, PACK):
                stack.extend(item.parts)
            else:
                self.join_uses.setdefault(id(item), []).append(use)

    def find(self) -> Sinking:
        found = self.found
        points: dict[int, list[_Use]] = {}
        for index in reversed(range(len(self.instructions))):
            if not self._can_copy(index):
                continue
            region = self.regions.of[index]
            uses = self.uses.get(index, [])
            if self.regions.in_loop[region] or not uses:
                continue
            at: list[_Use] = []
            for use in uses:
                at += points[use.instr] if use.instr in found.moved else [use]
            if not all(self._is_far(region, use.region) for use in at):
                continue
            self.is_pressed = any(self._is_pressed(region, use.region) for use in at)
            trees: list[set[int]] = [set() for _ in at]
            if all(self._tree(index, use, tree, _MOST_OPERATIONS) for use, tree in zip(at, trees, strict=True)):
                found.moved.add(index)
                found.inside[index] = set.intersection(*trees) - {index}
                points[index] = at
        for index in found.moved:
            found.copied |= found.inside[index]
        found.copied -= found.moved
        return found

    def _can_copy(self, index: int) -> bool:
        analysis = self.analysis
        if not analysis.live[index] or analysis.values.guards[index] is not None:
            return False
        if index in self.joined and not self.most:
            return False
        results = analysis.values.results[index]
        instr = self.instructions[index]
        return len(results) == 1 and results[0].kind == DEF and _is_simple(op_of(instr.form), instr)

    def _is_far(self, region: int, place: int) -> bool:
        depth, parent = self.regions.depth, self.regions.parent
        if depth[place] < depth[region] + _DISTANCE:
            return False
        while depth[place] > depth[region]:
            place = parent[place]
        return place == region

    def _tree(self, index: int, use: _Use, inside: set[int], budget: int) -> int | None:
        """How many operations it takes to compute instruction ``index`` again at a use, None if that cannot be."""
        if budget <= 0 or not self._can_copy(index):
            return None
        size = 2 if op_of(self.instructions[index].form).base == "div" else 1  # a reciprocal and a multiplication
        for value in self.analysis.values.sources[index] or ():
            value = resolve(value)
            while value.kind in (NEG, FLUSH, ABS):
                value = resolve(value.parts[0])
            if value.kind in (CONST, OTHER) or not (self.is_pressed or self.most or not self._is_live(value, use)):
                continue
            cost = None
            if value.kind == DEF and self._can_copy(value.instr):
                cost = self._tree(value.instr, use, inside, budget - size)
                if cost is None and not self._is_at_hand(value, use):
                    return None
            elif not self._is_global(value) and not self._is_at_hand(value, use):
                return None
            size += cost or 0
        inside.add(index)
        return size if size <= budget else None

    def _is_pressed(self, region: int, place: int) -> bool:
        """Whether a call with many values alive lies between two regions."""
        while place != region and place >= 0:
            if place in self.regions.after_call and self._alive(place) >= _MANY_ALIVE:
                return True
            place = self.regions.parent[place]
        return False

    def _alive(self, region: int) -> int:
        """How many values are needed from the start of a region on that were there before it."""
        if self._counted is None:
            self._counted = {}
            for source, uses in self.uses.items():
                home = self.regions.of[source]
                for place in self._live_in({use.region for use in uses} - {home}, home) - {home}:
                    self._counted[place] = self._counted.get(place, 0) + 1
        return self._counted.get(region, 0)

    def _uses_of(self, value: Value) -> list[_Use]:
        if value.kind == DEF:
            return self.slot_uses.get((value.instr, value.slot), [])
        return self.join_uses.get(id(value), [])

    def _home(self, value: Value) -> int:
        """The region that a value is made in."""
        if value.kind == PHI:
            return self.regions.first[value.instr]
        if value.kind == MERGE:
            return self.regions.behind[value.instr]
        return self.regions.of[value.instr] if value.instr >= 0 else -1

    def _is_global(self, value: Value) -> bool:
        """Whether a load is used outside its region; parameters are always at hand."""
        if value.kind != DEF:
            return False
        instr = self.instructions[value.instr]
        op = op_of(instr.form)
        if op.constant_space and not instr.sources():
            return True
        if op.base != "ld":
            return False
        home = self._home(value)
        return any(use.region != home for use in self._uses_of(value))

    def _is_at_hand(self, value: Value, at: _Use) -> bool:
        return self.most or self._is_live(value, at)

    def _is_live(self, value: Value, at: _Use) -> bool:
        """Whether a value is needed beyond a use of another."""
        uses = self._uses_of(value)
        if any(use.region == at.region and use.instr >= at.instr for use in uses):
            return True
        needed = self._needed.get(id(value))
        if needed is None:
            home = self._home(value)
            needed = self._needed[id(value)] = self._live_in({use.region for use in uses if use.region != home}, home)
        return any(successor in needed for successor in self.regions.successors[at.region])

    def _live_in(self, places: set[int], home: int) -> set[int]:
        """Regions at whose start a value is needed: back from its uses to where it is made."""
        live: set[int] = set()
        stack = list(places)
        while stack:
            place = stack.pop()
            if place not in live:
                live.add(place)
                stack.extend(before for before in self._before[place] if before != home)
        return live


def _is_simple(op: Op, instr: Instr) -> bool:
    """Whether an instruction is one machine instruction, or two, without effects or memory."""
    if not op.pure or op.splits or instr.form.instruction.body != "lane":
        return False
    if op.base in _NEVER and not (op.base == "div" and {"approx", "ftz", "f32"} <= op.words):
        return False
    return op.ftz or op.base not in _EXPANDED
