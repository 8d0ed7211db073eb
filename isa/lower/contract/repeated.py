"""Sums that repeat an earlier one, and what that does to the product they take.

ptxas contracts, then takes an earlier value for a sum that repeats it further down, and then fuses a product that has one use
left. So a product whose uses are one sum in its own region and repetitions of that elsewhere is fused after all (seen with
ptxas 13.0: with any other use, a sum too, it is not).
"""

from __future__ import annotations

from bisect import bisect_right

from isa.lower.contract.editing import ORIGIN, Definitions, Editor, plain_mov
from isa.lower.contract.live import Analysis, analyse
from isa.lower.contract.opcodes import op_of
from isa.lower.contract.products import find_products
from isa.lower.contract.sinking import Sinking
from isa.lower.contract.values import ABS, CONST, DEF, FLUSH, NEG, PACK, PIECE, Value, resolve
from isa.lower.ir import Instr, Kernel, VReg

__all__ = ["merge_repeated"]

Key = tuple[object, ...]


def merge_repeated(kernel: Kernel) -> None:
    """Make copies of sums that repeat another and leave its product with one use, in place."""
    suspects = _suspects(kernel.instructions)
    if suspects:
        _Merger(kernel, suspects).merge()


def _suspects(instructions: list[Instr]) -> list[int]:
    """Sums whose text says that they may be equal to another."""
    groups: dict[Key, list[int]] = {}
    for index, instr in enumerate(instructions):
        op = op_of(instr.form)
        if op.base in ("add", "sub") and op.floating and op.fuses and isinstance(instr.args["d"], VReg):
            names = sorted(str(a.index) if isinstance(a, VReg) else str(a) for a in (instr.args["a"], instr.args["b"]))
            groups.setdefault((instr.form.name, *names), []).append(index)
    return sorted(index for group in groups.values() if len(group) > 1 for index in group)


class _Merger:
    def __init__(self, kernel: Kernel, suspects: list[int]) -> None:
        self.kernel, self.suspects = kernel, suspects
        self.analysis: Analysis = analyse(kernel)
        self.definitions = Definitions(kernel)
        self.products = find_products(kernel.instructions, self.analysis, Sinking()).products
        self.uses = self._uses()

    def merge(self) -> None:
        """Replace what can be replaced."""
        editor = Editor(self.kernel)
        for first, others in self._groups().items():
            if self._is_only_use(first, others):
                instr = self.kernel.instructions[first]
                destination = instr.args["d"]
                assert isinstance(destination, VReg)
                kept = self.kernel.new_register(destination.type, f"{destination.name}'")
                editor.insert(first, Instr(instr.form, instr.args | {"d": kept}, None, instr.line, instr.loc, origin=ORIGIN))
                for index in (first, *others):
                    editor.replace(index, self._copy(kept, index))
        editor.apply()

    def _groups(self) -> dict[int, list[int]]:
        """Live sums, and those further down that repeat them."""
        values, known = self.analysis.values, dict[Key, list[int]]()
        found: dict[int, list[int]] = {}
        for index in self.suspects:
            if not values.sources[index] or not self.analysis.live[index]:
                continue
            key = self._key(index)
            first = next((i for i in known.get(key, ()) if self._is_above(i, index)), None)
            if first is not None:
                found.setdefault(first, []).append(index)
            else:
                known.setdefault(key, []).append(index)
        return found

    def _key(self, index: int) -> Key:
        instr = self.kernel.instructions[index]
        operands = [_identity(value) for value in self.analysis.values.sources[index] or ()]
        if op_of(instr.form).base == "add":
            operands.sort()
        return (instr.form.name, *operands)

    def _is_above(self, first: int, index: int) -> bool:
        """Whether every way to an instruction passes another. (The guard of that does not count: ptxas computes it always, and
        chooses.)"""
        starts, above = self.definitions.starts, self.analysis.values.dominators
        home, place = bisect_right(starts, first) - 1, bisect_right(starts, index) - 1
        if home == place:
            return first < index
        while place >= 0 and place != home:
            place = above.get(place, -1)
        return place == home

    def _is_only_use(self, first: int, others: list[int]) -> bool:
        """Whether a product of the region of ``first`` is used there and by what repeats it elsewhere only, and neither operand
        may be fused in any region."""
        regions = self.analysis.regions.of
        if all(regions[index] == regions[first] for index in others):
            return False
        operands = [_behind(value) for value in self.analysis.values.sources[first] or ()]
        taken = [self.products[v.instr] for v in operands if v.kind == DEF and v.instr in self.products]
        if any(product.anywhere for product in taken):
            return False
        uses = {first, *others}
        return any(p.region == regions[first] and self.uses.get(p.instr, set()) <= uses for p in taken)

    def _uses(self) -> dict[int, set[int]]:
        """The instructions that use each product; -1 for a join."""
        values, uses = self.analysis.values, dict[int, set[int]]()
        read = [
            (index, value)
            for index, live in enumerate(self.analysis.live)
            if live and not (values.results[index] and values.results[index][0].kind in (NEG, FLUSH, ABS))  # these carry it on
            for value in values.sources[index] or ()
        ]
        read += [(-1, part) for join in self.analysis.joins for part in join.parts]
        for index, value in read:
            stack = [value]
            while stack:
                item = resolve(stack.pop())
                if item.kind in (NEG, FLUSH, ABS, PIECE, PACK):
                    stack.extend(item.parts)
                elif item.kind == DEF and item.instr in self.products:
                    uses.setdefault(item.instr, set()).add(index)
        return uses

    def _copy(self, kept: VReg, index: int) -> Instr:
        instr = self.kernel.instructions[index]
        args = {"d": instr.args["d"], "a": kept}
        return Instr(plain_mov(kept.type.bits), args, instr.guard, instr.line, instr.loc, origin=ORIGIN)


def _behind(value: Value) -> Value:
    """A value without its negations."""
    value = resolve(value)
    while value.kind == NEG:
        value = resolve(value.parts[0])
    return value


def _identity(value: Value) -> tuple[int, int]:
    value = resolve(value)
    return (CONST, value.bits) if value.kind == CONST else (DEF, id(value))
