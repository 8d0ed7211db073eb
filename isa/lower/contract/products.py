"""The multiplications that could be half of a fused multiply-add, and everything that uses them.

A product *M* is an unguarded multiplication without a rounding modifier or ``.sat``, or the last multiplication of an
approximate division. A use of M counts wherever copies and negations carry it. M can be fused only while each of its uses is
an operand of an unrounded ``add`` or ``sub`` of its type with its ``.ftz``, M is not both operands, and the sum is in M's own
region (:mod:`isa.lower.contract.regions`) unless one factor of M is a constant, a kernel parameter or a constant-bank load.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from isa.lower.contract.live import Analysis
from isa.lower.contract.loops import Unrolled
from isa.lower.contract.opcodes import Op, op_of
from isa.lower.contract.sinking import Sinking
from isa.lower.contract.values import ABS, CONST, DEF, FLUSH, NEG, PACK, PHI, PIECE, Value, resolve
from isa.lower.ir import Instr

__all__ = ["Candidates", "Operand", "Product", "Sum", "find_products", "negations", "root"]


@dataclass(eq=False, slots=True)
class Product:
    """``type``: the :attr:`~isa.lower.contract.opcodes.Op.kind`. ``factors``: the values multiplied, None for a division.
    ``anywhere``: fusible in other regions too. ``uses``: how many times sums use it. ``blocked``: something forbids every
    fusion from here on. ``fused``: how many sums have taken it. ``copy``: made for one sum that moved.
    """

    instr: int
    type: str
    ftz: bool
    region: int
    factors: tuple[Value, Value] | None
    anywhere: bool
    uses: int = 0
    blocked: bool = False
    fused: int = 0
    copy: bool = False


@dataclass(eq=False, slots=True)
class Operand:
    """An operand of a sum: the product it is, if any, whether negations turned its sign, and the value behind them."""

    product: Product | None
    negative: bool
    value: Value


@dataclass(eq=False, slots=True)
class Sum:
    """An ``add`` or ``sub`` with at least one product. ``chosen``: the operand (0 or 1) that is fused, None if neither."""

    instr: int
    operands: tuple[Operand, Operand]
    chosen: int | None = None


@dataclass(slots=True)
class Candidates:
    """All products by instruction, and the sums that use them in program order."""

    products: dict[int, Product] = field(default_factory=dict)
    sums: list[Sum] = field(default_factory=list)


def find_products(
    instructions: list[Instr], analysis: Analysis, sinking: Sinking, unrolled: Unrolled | None = None
) -> Candidates:
    """Every product of a kernel with its uses counted, and every sum that could take one.

    ``sinking``: which instructions exist as copies further down. ``unrolled``: look at one copy of the bodies of these loops
    instead of at the loop.
    """
    return _Finder(instructions, analysis, sinking, unrolled).find()


def _product(index: int, op: Op, instructions: list[Instr], analysis: Analysis) -> Product | None:
    if op.base not in ("mul", "div", "rcp") or not op.fuses or op.sat:
        return None
    values = analysis.values
    sources = values.sources[index]
    if values.guards[index] is not None or not sources or values.results[index][0].kind != DEF:
        return None
    region = analysis.regions.of[index]
    if op.base == "mul":
        a, b = resolve(sources[0]), resolve(sources[1])
        anywhere = _is_constant(a, instructions) or _is_constant(b, instructions)
        return Product(index, op.kind, op.ftz, region, (a, b), anywhere)
    if op.type != "f32":
        return None
    return _division(index, op, region, [resolve(s) for s in sources], instructions)


def _division(index: int, op: Op, region: int, sources: list[Value], instructions: list[Instr]) -> Product | None:
    """The last multiplication of ``div.full``, ``div.approx`` (numerator, scaled, by a reciprocal) and of ``rcp.approx`` (a
    scale by a reciprocal; with ``.ftz`` there is none)."""
    if op.base == "rcp":
        return None if op.ftz else Product(index, op.type, False, region, None, False)
    numerator, divisor = sources
    anywhere = divisor.kind == CONST or (numerator.kind == CONST and numerator.bits & 0x7FFF_FFFF == 0)
    if "approx" in op.words and op.ftz:
        anywhere = anywhere or _is_constant(numerator, instructions)
    return Product(index, op.type, op.ftz, region, None, anywhere)


def _is_constant(value: Value, instructions: list[Instr]) -> bool:
    """Whether an operand is an immediate or comes from the constant bank: kernel parameters, ``.const`` at a known address."""
    while value.kind in (NEG, PIECE):
        value = resolve(value.parts[0])
    if value.kind == CONST:
        return True
    if value.kind != DEF:
        return False
    op = op_of(instructions[value.instr].form)
    return op.constant_space and not instructions[value.instr].sources()


# ------------------------------------------------------------------------------------------------------------- uses


def root(value: Value, op: Op, instructions: list[Instr], subtracted: bool) -> tuple[Value, bool]:
    """The value behind negations that a sum absorbs as an operand modifier, and whether they turn its sign.

    A flush is absorbed between ``.ftz`` operations in f32 only, where it is not subtracted, and so is a flushing negation. The
    absolute value of a square is absorbed where it is added, not where it is subtracted.
    """
    negative = False
    value = resolve(value)
    while value.kind in (NEG, FLUSH, ABS):
        carrier = op_of(instructions[value.instr].form)
        if carrier.type != op.type or (value.kind == ABS and negative != subtracted):
            break
        if carrier.ftz and (subtracted or not op.ftz or op.type != "f32"):
            break
        negative ^= value.kind == NEG
        value = resolve(value.parts[0])
    return value, negative


def negations(value: Value) -> tuple[Value, bool]:
    """The value behind any negations, and whether they turn its sign."""
    negative = False
    value = resolve(value)
    while value.kind == NEG:
        negative = not negative
        value = resolve(value.parts[0])
    return value, negative


class _Finder:
    """Counts uses. Walks joins first, then live instructions in program order."""

    def __init__(self, instructions: list[Instr], analysis: Analysis, sinking: Sinking, unrolled: Unrolled | None) -> None:
        self.instructions, self.analysis, self.sinking, self.unrolled = instructions, analysis, sinking, unrolled
        self.products: dict[int, Product] = {}
        self.sums: list[Sum] = []
        self._readers: dict[int, int] | None = None
        self._escaping: set[int] = set()  # products whose flushed value is used by other than sums,
        self._hindered: set[int] = set()  # and those that cannot be fused then

    def find(self) -> Candidates:
        for index, instr in enumerate(self.instructions):
            if self.analysis.live[index]:
                product = _product(index, op_of(instr.form), self.instructions, self.analysis)
                if product is not None:
                    self.products[index] = product
        if self.products:
            self._joins()
            for index in range(len(self.instructions)):
                if self.analysis.live[index]:
                    self._uses(index)
            for index in self._escaping & self._hindered:
                self.products[index].blocked = True
        return Candidates(self.products, self.sums)

    def _joins(self) -> None:
        for join in self.analysis.joins:
            for place, part in enumerate(join.parts):
                if self.unrolled is None or not self.unrolled.dissolves(join, place):
                    self._block(part, join.instr if join.kind == PHI else self._block_of(join.instr))

    def _uses(self, index: int) -> None:
        values = self.analysis.values
        result = values.results[index]
        if result and result[0].kind in (NEG, FLUSH, ABS):
            return  # carried on: whoever reads the result counts
        op = op_of(self.instructions[index].form)
        sources = values.sources[index] or []
        is_sum = op.base in ("add", "sub") and op.fuses
        if index in self.sinking.moved:
            self._moved(index, op, sources, is_sum)
        elif is_sum:
            self._sum(index, op, sources)
        else:
            for source in sources:
                self._block(source, self._block_of(index))

    def _block_of(self, index: int) -> int:
        return self.unrolled.block_of[index] if self.unrolled is not None else -1

    def _block(self, value: Value, user: int) -> None:
        """Something other than a sum uses a value, in block ``user``: the products in it stay products."""
        stack = [value]
        while stack:
            value = resolve(stack.pop())
            if value.kind == DEF:
                product = self.products.get(value.instr)
                if product is not None and not self._leaves(product, user):
                    product.blocked = True
            elif value.kind in (NEG, FLUSH, ABS, PIECE, PACK):
                if self._is_flush_of_one(value):
                    self._escaping.add(resolve(value.parts[0]).instr)
                else:
                    stack.extend(value.parts)
            elif value.kind == PHI and self.unrolled is not None and not self.unrolled.is_idle(value, user):
                carried = self.unrolled.carried(value)
                if carried is not None and carried.kind != PHI:
                    stack.append(carried)

    def _is_flush_of_one(self, value: Value) -> bool:
        """Whether a value is a product flushed (and perhaps negated) in f32, and that the only thing that reads the product.

        What else reads the flushed value does not matter then to sums in its region. (Such a flush is an addition of zero
        itself.)
        """
        if value.kind not in (NEG, FLUSH):
            return False
        carrier = op_of(self.instructions[value.instr].form)
        base = resolve(value.parts[0])
        product = self._product(base)
        if product is None or not carrier.ftz or not product.ftz or carrier.type != "f32":
            return False
        return self._count_readers(base.instr) == 1

    def _count_readers(self, instr: int) -> int:
        """How many operands read the result of an instruction, negations and flushes counted as what they are."""
        if self._readers is None:
            self._readers = {}
            for index in range(len(self.instructions)):
                for source in (self.analysis.values.sources[index] or ()) if self.analysis.live[index] else ():
                    value = resolve(source)
                    if value.kind == DEF:
                        self._readers[value.instr] = self._readers.get(value.instr, 0) + 1
            for join in self.analysis.joins:
                for part in join.parts:
                    value = resolve(part)
                    if value.kind == DEF:
                        self._readers[value.instr] = self._readers.get(value.instr, 0) + 1
        return self._readers.get(instr, 0)

    def _leaves(self, product: Product, user: int) -> bool:
        return self.unrolled is not None and self.unrolled.leaves(product.instr, user)

    def _operand(self, index: int, op: Op, value: Value, subtracted: bool) -> tuple[Value, bool]:
        base, negative = root(value, op, self.instructions, subtracted)
        carried = self.unrolled.carried(base) if self.unrolled is not None else None
        if carried is None:
            return base, negative
        inner, turned = root(carried, op, self.instructions, subtracted != negative)
        return (inner, negative != turned) if self._product(inner) is not None else (base, negative)

    def _product(self, value: Value) -> Product | None:
        return self.products.get(value.instr) if value.kind == DEF else None

    def _reaches(self, product: Product, index: int) -> bool:
        """Whether a product is in the region of a sum, or one that can be used in any."""
        regions = self.analysis.regions
        if product.anywhere or product.region == regions.of[index]:
            return True
        return self.unrolled is not None and self.unrolled.joins(product.instr, index, regions)

    def _is_near(self, carrier: int, index: int) -> bool:
        return self.analysis.regions.of[carrier] == self.analysis.regions.of[index]

    def _sum(self, index: int, op: Op, sources: list[Value]) -> None:
        first = self._operand(index, op, sources[0], False)
        second = self._operand(index, op, sources[1], op.base == "sub")
        operands: list[Operand] = []
        for value, negative in (first, second):
            product = self._product(value)
            if product is None:
                self._block(value, self._block_of(index))
            elif product.type == op.kind and product.ftz == op.ftz and first[0] is not second[0]:
                flush = resolve(sources[len(operands)])
                if flush.kind in (NEG, FLUSH) and not self._is_near(flush.instr, index):
                    self._hindered.add(product.instr)
                if self._reaches(product, index):
                    product.uses += 1
                elif not self._leaves(product, self._block_of(index)):
                    product.blocked = True
            else:
                product.blocked = True
            operands.append(Operand(product, negative, value))
        if operands[0].product is not None or operands[1].product is not None:
            self.sums.append(Sum(index, (operands[0], operands[1])))

    def _moved(self, index: int, op: Op, sources: list[Value], is_sum: bool) -> None:
        """An instruction that is computed again further down, with its own copies of the products inside it."""
        inside = self.sinking.inside[index]
        roots = [root(source, op, self.instructions, place == 1 and op.base == "sub") for place, source in enumerate(sources)]
        twice = len(roots) > 1 and roots[0][0] is roots[1][0]
        operands = []
        for source, (value, negative) in zip(sources, roots, strict=True):
            product = self._product(value)
            if product is None or product.instr not in inside:
                self._block(source, self._block_of(index))
                product = None
            elif is_sum and product.type == op.kind and product.ftz == op.ftz:
                product = replace(product, uses=1, blocked=twice, copy=True)
            else:
                product = None
            operands.append(Operand(product, negative, value))
        if is_sum and (operands[0].product is not None or operands[1].product is not None):
            self.sums.append(Sum(index, (operands[0], operands[1])))
