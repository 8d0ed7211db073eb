"""Which lane holds which element of a matrix instruction, and in which register and bits: ``tcsim.layout``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.tensor import Fragment, MmaForm, metadata_fragment, metadata_layout, mma_fragment, wmma_fragment
from isa.tensor.forms import element_bits
from isa.tensor.matrix_moves import address_lane, matrix_fragment
from isa.tensor.metadata import reading_lanes
from isa.tensor.wgmma_layouts import wgmma_fragment
from tcsim.errors import TcsimError
from tcsim.lanes.names import MatrixInstruction, find_matrix_instruction
from tcsim.lanes.words import spans

__all__ = ["Feeds", "Layout", "LayoutError", "OperandLayout", "Place", "layout"]

Ints = NDArray[np.int64]


class LayoutError(TcsimError):
    """An operand, element or register that an instruction does not have."""


class Place(NamedTuple):
    """Where an element is: ``bits`` bits from ``bit`` on of a register of a lane. ``number`` counts the elements that the lane
    holds, register by register, as the PTX ISA's figures do (a0, a1, ...)."""

    lane: int
    register: int
    bit: int
    bits: int
    number: int

    @property
    def bit_range(self) -> str:
        """``16-31``, or the bit."""
        return f"{self.bit}-{self.bit + self.bits - 1}" if self.bits > 1 else str(self.bit)


class Element(NamedTuple):
    """An element and where it is."""

    matrix: int
    row: int
    column: int
    place: Place


@dataclass(frozen=True, eq=False)
class OperandLayout:
    """One operand: a matrix of ``rows`` x ``columns`` elements of ``bits`` bits (``matrices`` of them) over a warp.

    From element to place: ``lane``, ``register``, ``bit`` (of its lowest bit), int64 arrays ``[row, column]``, or
    ``[matrix, row, column]`` where there are several matrices. From place to element: ``element_row``, ``element_column`` and
    ``element_matrix``, ``[register, lane, position in the register]``, -1 in lanes that are not read. ``copies``: in how many
    places an element is; the arrays name the first.
    """

    operand: str
    type: str
    bits: int
    rows: int
    columns: int
    matrices: int
    registers: int
    register_bits: int
    copies: int
    lane: Ints
    register: Ints
    bit: Ints
    element_row: Ints
    element_column: Ints
    element_matrix: Ints
    note: str = ""

    @property
    def per_register(self) -> int:
        """Elements in a register."""
        return self.register_bits // self.bits

    @property
    def title(self) -> str:
        """``A  16 x 16 f16: 4 registers of 32 bits a lane, 2 elements each``."""
        count = f"{self.matrices} matrices of " if self.matrices > 1 else ""
        each = f", {self.per_register} elements each" if self.per_register > 1 else ""
        registers = f"{self.registers} register{'s' if self.registers > 1 else ''} of {self.register_bits} bits a lane{each}"
        name = self.operand.upper() if len(self.operand) == 1 else self.operand
        return f"{name}  {count}{self.rows} x {self.columns} {self.type}: {registers}"

    def places(self, row: int, column: int, matrix: int = 0) -> tuple[Place, ...]:
        """Everywhere that an element is (copies last). Raises LayoutError outside the matrix."""
        self._check(row, column, matrix)
        here = (self.element_row == row) & (self.element_column == column) & (self.element_matrix == matrix)
        return tuple(self._place(*where) for where in np.argwhere(here).tolist())

    def _check(self, row: int, column: int, matrix: int) -> None:
        if not (0 <= row < self.rows and 0 <= column < self.columns and 0 <= matrix < self.matrices):
            several = f" of {self.matrices} matrices" if self.matrices > 1 else ""
            which = f"{matrix},{row},{column}" if matrix else f"{row},{column}"
            raise LayoutError(
                f"operand {self.operand} has no element {which}: rows are 0 to {self.rows - 1}, columns 0 to "
                f"{self.columns - 1}{several}"
            )

    def _place(self, register: int, lane: int, position: int) -> Place:
        return Place(lane, register, position * self.bits, self.bits, register * self.per_register + position)

    def held_by(self, lane: int, register: int | None = None) -> list[Element]:
        """The elements that a lane (or one of its registers) holds. Raises LayoutError for one that there is not."""
        if not 0 <= lane < 32:
            raise LayoutError(f"there is no lane {lane}: a warp's lanes are 0 to 31")
        if register is not None and not 0 <= register < self.registers:
            raise LayoutError(f"operand {self.operand} has no register {register}: registers are 0 to {self.registers - 1}")
        chosen = range(self.registers) if register is None else (register,)
        return [
            self._element(r, lane, p) for r in chosen for p in range(self.per_register) if self.element_row[r, lane, p] >= 0
        ]

    def _element(self, register: int, lane: int, position: int) -> Element:
        where = register, lane, position
        matrix, row, column = (int(x[where]) for x in (self.element_matrix, self.element_row, self.element_column))
        return Element(matrix, row, column, self._place(*where))

    def elements(self) -> Iterator[Element]:
        """Every element with its first place, by matrix, row and column."""
        for matrix in range(self.matrices):
            for row in range(self.rows):
                for column in range(self.columns):
                    yield Element(matrix, row, column, self.first_place(row, column, matrix))

    def first_place(self, row: int, column: int, matrix: int = 0) -> Place:
        """The place that counts: where an instruction that reads the operand finds the element."""
        at = (row, column) if self.matrices == 1 else (matrix, row, column)
        register, lane, bit = int(self.register[at]), int(self.lane[at]), int(self.bit[at])
        return self._place(register, lane, bit // self.bits)

    def problems(self) -> list[str]:
        """What keeps this from being a bijection between elements and places, copies apart; empty if nothing does."""
        size = self.matrices * self.rows * self.columns
        flat = (self.element_matrix * self.rows + self.element_row) * self.columns + self.element_column
        held = np.bincount(flat[self.element_row >= 0], minlength=size)
        found = [f"element {i} is in {n} places" for i, n in enumerate(held.tolist()) if n != self.copies]
        places = (self.register * 32 + self.lane) * self.register_bits + self.bit
        if len(np.unique(places)) != size:
            found.append("two elements share a place")
        return found


class Feeds(NamedTuple):
    """What one output element is made of: its own places, C's, and the elements of A's row, B's column and, where A is sparse,
    the row's metadata."""

    d: Element
    c: Element
    a: tuple[Element, ...]
    b: tuple[Element, ...]
    metadata: tuple[Element, ...]


@dataclass(frozen=True, eq=False)
class Layout:
    """The operands of a matrix instruction, by name (``a``, ``b``, ``c``, ``d``, ``metadata``). ``layout["a"].lane[3, 5]``.

    ``selector``: of ``mma.sp``, which lanes' metadata are read. ``notes``: what else to know.
    """

    instruction: MatrixInstruction
    operands: dict[str, OperandLayout]
    selector: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        return self.instruction.name

    @property
    def form(self) -> MmaForm | None:
        return self.instruction.form

    def __getitem__(self, operand: str) -> OperandLayout:
        found = self.operands.get(operand.lower())
        if found is None:
            raise LayoutError(f"{self.name} has no operand {operand!r}; it has {', '.join(self.operands)}")
        return found

    def feeds(self, row: int, column: int, matrix: int = 0) -> Feeds:
        """What output element (row, column) is made of. Raises LayoutError for an instruction that does not multiply."""
        if not {"a", "b", "c", "d"} <= set(self.operands) or self.form is None:
            why = "has b in shared memory" if self.name.startswith("wgmma") else "multiplies nothing"
            raise LayoutError(f"{self.name} {why}; an output is fed by operands in lanes in mma, mma.sp and wmma.mma")
        d = self["d"]
        d.places(row, column, matrix)  # checks the element

        def line(operand: str, along_row: bool) -> tuple[Element, ...]:
            one = self[operand]
            places = [(row, k) if along_row else (k, column) for k in range(one.columns if along_row else one.rows)]
            return tuple(Element(matrix, r, c, one.first_place(r, c, matrix)) for r, c in places)

        def same(operand: str) -> Element:
            return Element(matrix, row, column, self[operand].first_place(row, column, matrix))

        codes = line("metadata", True) if "metadata" in self.operands else ()
        return Feeds(same("d"), same("c"), line("a", True), line("b", False), codes)

    def __str__(self) -> str:
        from tcsim.lanes.layout_text import whole_text

        return whole_text(self)

    def __repr__(self) -> str:
        return f"<tcsim layout of {self.name}: {', '.join(self.operands)}>"

    def svg(self) -> str:
        """The picture, as an SVG document."""
        from tcsim.lanes.layout_picture import layout_svg

        return layout_svg(self)

    def _repr_html_(self) -> str:
        return self.svg()


def layout(form: str, *, selector: int = 0) -> Layout:
    """Which lane, register and bits hold each element of an instruction's operands.

    form: ``mma.m16n8k16.f16``, ``ldmatrix.x4.trans``, ``wmma.m16n16k16.f16``, ``mma.sp.m16n8k32.f16``, or the opcode as PTX
    spells it. selector: the sparsity selector of ``mma.sp``. Raises NoFormError, with the nearest names, for what there is not.
    """
    instruction = find_matrix_instruction(form)
    if instruction.move:
        return _move_layout(instruction)
    assert instruction.form is not None
    return _form_layout(instruction, instruction.form, selector)


def _form_layout(instruction: MatrixInstruction, form: MmaForm, selector: int) -> Layout:
    warpgroup = form.instruction.startswith("wgmma")
    fragment_of = wgmma_fragment if warpgroup else wmma_fragment if form.instruction == "wmma" else mma_fragment
    names = (instruction.only,) if instruction.only else ("a", "c", "d") if warpgroup else ("a", "b", "c", "d")
    operands = {}
    for name in names:
        kind = str(getattr(form, name))
        bits = form.operand_bits if form.kind and name in "ab" else element_bits(kind)
        operands[name] = _operand(name, kind, bits, fragment_of(form, name))
    notes = []
    if form.kind and form.operand_bits == 8:
        notes.append("elements are in containers of 8 bits: 6 bits in its low ones, 4 bits in bits 2-5 (PTX ISA 9.7.14.5.14)")
    if form.is_sparse:
        lanes = reading_lanes(form, selector)
        read = metadata_layout(form)
        note = f"selector {selector} of {read.selectors}: the metadata of lanes {spans(lanes.tolist())} are read"
        operands["metadata"] = _operand("metadata", "code", 2, metadata_fragment(form), lanes, note)
        notes.append("A holds the stored elements of its rows; metadata say which of each chunk they are (PTX ISA 9.7.14.6.1)")
    if form.instruction == "wmma":
        notes.append("PTX leaves the layout of wmma open; this is what ptxas 13.0 makes of it for sm_80 and later")
        notes.append("recordings of wmma.mma on an H200 agree with it")
    if warpgroup:
        notes.append("rows are those of the first warp of the warpgroup; warp w has rows 16w to 16w + 15")
        notes.append("a may be in shared memory instead, b always is: --swizzle or --descriptor shows where")
    if form.is_884:
        notes.append("four independent products, one to eight lanes: 0-3 and 16-19, 4-7 and 20-23, and so on")
    if form.a == "tf32":
        notes.append("a tf32 element takes a whole register; its low 13 bits are ignored")
    return Layout(instruction, operands, selector if form.is_sparse else 0, tuple(notes))


def _move_layout(instruction: MatrixInstruction) -> Layout:
    count = instruction.count
    if instruction.move == "movmatrix":
        operands = {name: _operand(name, "b16", 16, matrix_fragment(1, name == "d")) for name in "ad"}
        return Layout(instruction, operands, notes=("d is shown by the rows and columns of a: lanes get its columns",))
    name = "d" if instruction.move == "ldmatrix" else "b"
    operands = {name: _operand(name, "b16", 16, matrix_fragment(count, instruction.transposed))}
    lanes = "; ".join(
        f"matrix {m}: lanes {address_lane(m, 0)}-{address_lane(m, 7)} give the addresses of rows 0-7" for m in range(count)
    )
    return Layout(instruction, operands, notes=(lanes, "rows and columns are those in shared memory, a row being 16 bytes"))


def _operand(
    name: str, kind: str, bits: int, fragment: Fragment, lanes: NDArray[Any] | None = None, note: str = ""
) -> OperandLayout:
    """Arrays from a fragment. ``lanes``: those that are read, where not all are."""
    row, column, matrix = (np.array(x, np.int64) for x in fragment.coordinates())
    if lanes is not None:
        unread = np.setdiff1d(np.arange(32), lanes)
        for each in (row, column, matrix):
            each[:, unread] = -1
    copies = fragment.copies if lanes is None else int((row >= 0).sum()) // (fragment.rows * fragment.columns)
    own = fragment.registers // copies
    if copies > 1:
        note = f"registers {own} to {fragment.registers - 1} hold copies, which wmma.mma does not read"
    shape = (fragment.matrices, fragment.rows, fragment.columns)
    places: tuple[Ints, Ints, Ints] = (np.full(shape, -1), np.full(shape, -1), np.full(shape, -1))
    register, lane, position = (x[row[:own] >= 0] for x in np.indices((own, 32, fragment.per_register)))
    at = tuple(x[:own][row[:own] >= 0] for x in (matrix, row, column))
    for array, values in zip(places, (lane, register, position * bits), strict=True):
        array[at] = values
    lane_of, register_of, bit_of = (x if fragment.matrices > 1 else x[0] for x in places)
    return OperandLayout(
        name, kind, bits, fragment.rows, fragment.columns, fragment.matrices, fragment.registers, fragment.word_bits,
        copies, lane_of, register_of, bit_of, row, column, matrix, note,
    )  # fmt: skip
