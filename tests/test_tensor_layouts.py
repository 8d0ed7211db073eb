"""Fragments: every layout holds every element once, and is what the PTX ISA says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from isa.tensor.forms import MMA_FORMS, WMMA_FORMS, MmaForm, element_bits, find_form
from isa.tensor.layouts import Fragment, accumulator, mma_fragment, operand_a, operand_b
from isa.tensor.matrix_moves import address_lane, matrix_fragment
from isa.tensor.plans import make_plan
from isa.tensor.wmma_layouts import wmma_fragment

FORMS = MMA_FORMS + WMMA_FORMS


def fragment(form: MmaForm, operand: str) -> Fragment:
    return (mma_fragment if form.instruction == "mma" else wmma_fragment)(form, operand)


def shape(form: MmaForm, operand: str) -> tuple[int, int]:
    return {"a": (form.m, form.k), "b": (form.k, form.n), "c": (form.m, form.n), "d": (form.m, form.n)}[operand]


def distinct(f: Fragment) -> set[tuple[int, int, int]]:
    return set(zip(*(x.ravel().tolist() for x in f.coordinates()), strict=True))


@pytest.mark.parametrize("operand", "abcd")
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_element_is_held_once(form: MmaForm, operand: str) -> None:
    f = fragment(form, operand)
    rows, columns = shape(form, operand)
    assert (f.rows, f.columns) == (rows, columns)
    assert f.word_bits // f.per_register == element_bits(getattr(form, operand))
    everything = {(r, c, m) for r in range(rows) for c in range(columns) for m in range(f.matrices)}
    assert distinct(f) == everything
    slots = f.registers * 32 * f.per_register
    assert slots == f.copies * len(everything)
    own = make_plan(form, 90).registers[operand]
    assert f.registers == own * f.copies
    assert f.copies == 1 or (form.instruction, form.a, operand in "ab") == ("wmma", "f16", True)


@pytest.mark.parametrize("form", [f for f in WMMA_FORMS if f.a == "f16"], ids=str)
def test_first_registers_of_f16_wmma_operands_are_complete(form: MmaForm) -> None:
    # wmma.mma reads no others
    for operand in "ab":
        f = wmma_fragment(form, operand)
        assert f.registers == 8
        row, column, _ = f.coordinates()
        own = 8 // f.copies
        assert len(set(zip(row[:own].ravel(), column[:own].ravel(), strict=True))) == f.rows * f.columns
        for copy in range(1, f.copies):
            np.testing.assert_array_equal(row[copy * own : (copy + 1) * own], row[:own])
            np.testing.assert_array_equal(column[copy * own : (copy + 1) * own], column[:own])


def pick(condition: bool, yes: int, no: int) -> int:
    return yes if condition else no


# The formulas printed under the figures of PTX ISA 9.7.14.5: (group id g, thread in group t, element i) -> (row,
# column).
Formula = Callable[[int, int, int], tuple[int, int]]
FORMULAS: list[tuple[Fragment, int, Formula]] = [
    # m8n8k4 f64
    (operand_a(8, 4, 64), 1, lambda g, t, i: (g, t)),
    (operand_b(4, 8, 64), 1, lambda g, t, i: (t, g)),
    (accumulator(8, 8, 64), 2, lambda g, t, i: (g, 2 * t + (i & 1))),
    # m8n8k16 s8, m8n8k32 s4, m8n8k128 b1
    (operand_a(8, 16, 8), 4, lambda g, t, i: (g, 4 * t + i)),
    (operand_b(16, 8, 8), 4, lambda g, t, i: (4 * t + i, g)),
    (operand_a(8, 32, 4), 8, lambda g, t, i: (g, 8 * t + i)),
    (operand_b(32, 8, 4), 8, lambda g, t, i: (8 * t + i, g)),
    (operand_a(8, 128, 1), 32, lambda g, t, i: (g, 32 * t + i)),
    (operand_b(128, 8, 1), 32, lambda g, t, i: (32 * t + i, g)),
    (accumulator(8, 8, 32), 2, lambda g, t, i: (g, 2 * t + i)),
    # m16n8k4 tf32, f64
    (operand_a(16, 4, 32), 2, lambda g, t, i: (pick(i == 0, g, g + 8), t)),
    (operand_b(4, 8, 32), 1, lambda g, t, i: (t, g)),
    (operand_a(16, 4, 64), 2, lambda g, t, i: (pick(i == 0, g, g + 8), t)),
    (accumulator(16, 8, 64), 4, lambda g, t, i: (pick(i < 2, g, g + 8), 2 * t + (i & 1))),
    # m16n8k8 f16, tf32, f64
    (operand_a(16, 8, 16), 4, lambda g, t, i: (pick(i < 2, g, g + 8), 2 * t + (i & 1))),
    (operand_b(8, 8, 16), 2, lambda g, t, i: (2 * t + i, g)),
    (operand_a(16, 8, 32), 4, lambda g, t, i: (pick(i in (0, 2), g, g + 8), pick(i < 2, t, t + 4))),
    (operand_b(8, 8, 32), 2, lambda g, t, i: (pick(i == 0, t, t + 4), g)),
    (operand_a(16, 8, 64), 4, lambda g, t, i: (pick(i in (0, 2), g, g + 8), pick(i < 2, t, t + 4))),
    (operand_b(8, 8, 64), 2, lambda g, t, i: (pick(i == 0, t, t + 4), g)),
    # m16n8k16 f16, f64
    (operand_a(16, 16, 16), 8,
     lambda g, t, i: (pick(i < 2 or 4 <= i < 6, g, g + 8), 2 * t + (i & 1) + pick(i < 4, 0, 8))),
    (operand_b(16, 8, 16), 4, lambda g, t, i: (2 * t + (i & 1) + pick(i < 2, 0, 8), g)),
    (operand_a(16, 16, 64), 8, lambda g, t, i: (pick(i % 2 == 0, g, g + 8), (2 * i if i % 2 == 0 else 2 * i - 2) + t)),
    (operand_b(16, 8, 64), 4, lambda g, t, i: (t + 4 * i, g)),
    (accumulator(16, 8, 32), 4, lambda g, t, i: (pick(i < 2, g, g + 8), 2 * t + (i & 1))),
    (accumulator(16, 8, 16), 4, lambda g, t, i: (pick(i < 2, g, g + 8), 2 * t + (i & 1))),
    # m16n8k16 s8/e4m3, m16n8k32 s8/e4m3
    (operand_a(16, 16, 8), 8, lambda g, t, i: (pick(i < 4, g, g + 8), 4 * t + (i & 3))),
    (operand_b(16, 8, 8), 4, lambda g, t, i: (4 * t + i, g)),
    (operand_a(16, 32, 8), 16,
     lambda g, t, i: (pick(i < 4 or 8 <= i < 12, g, g + 8), 4 * t + (i & 3) + pick(i < 8, 0, 16))),
    (operand_b(32, 8, 8), 8, lambda g, t, i: (4 * t + (i & 3) + pick(i < 4, 0, 16), g)),
    # m16n8k32 s4, m16n8k64 s4
    (operand_a(16, 32, 4), 16, lambda g, t, i: (pick(i < 8, g, g + 8), 8 * t + (i & 7))),
    (operand_b(32, 8, 4), 8, lambda g, t, i: (8 * t + (i & 7), g)),
    (operand_a(16, 64, 4), 32,
     lambda g, t, i: (pick(i < 8 or 16 <= i < 24, g, g + 8), 8 * t + (i & 7) + pick(i < 16, 0, 32))),
    (operand_b(64, 8, 4), 16, lambda g, t, i: (8 * t + (i & 7) + pick(i < 8, 0, 32), g)),
    # m16n8k128 b1, m16n8k256 b1
    (operand_a(16, 128, 1), 64, lambda g, t, i: (pick(i < 32, g, g + 8), 32 * t + (i & 31))),
    (operand_a(16, 256, 1), 128,
     lambda g, t, i: (pick(i < 32 or 64 <= i < 96, g, g + 8), 32 * t + (i & 31) + pick(i < 64, 0, 128))),
    (operand_b(256, 8, 1), 64, lambda g, t, i: (32 * t + (i & 31) + pick(i < 32, 0, 128), g)),
]  # fmt: skip


@pytest.mark.parametrize("case", FORMULAS, ids=lambda c: f"{c[0].rows}x{c[0].columns}x{c[1]}")
def test_fragments_are_those_of_the_ptx_isa(case: tuple[Fragment, int, Formula]) -> None:
    f, per_lane, formula = case
    row, column, _ = f.coordinates()
    assert f.registers * f.per_register == per_lane
    for lane in range(32):
        for i in range(per_lane):
            register, element = divmod(i, f.per_register)
            found = row[register, lane, element], column[register, lane, element]
            assert found == formula(lane >> 2, lane % 4, i), (lane, i)


@pytest.mark.parametrize("layout", ["row", "col"])
def test_884_fragments_are_those_of_the_ptx_isa(layout: str) -> None:
    form = find_form("mma", "m8n8k4", "f16", "f16", "f16", "f32", a_layout=layout, b_layout=layout)
    four, eight = range(4), range(8)
    for lane in range(32):
        high, quad = 4 * (lane >= 16), lane % 16 // 4
        of_lane = {
            "a": [(lane % 4 + high, i) if layout == "row" else (i % 4 + high, lane % 4) for i in four],
            "b": [(lane % 4, i + high) if layout == "row" else (i, lane % 4 + high) for i in four],
            "c": [(lane % 4 + high, i) for i in eight],
            "d": [((lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)) for i in eight],
        }
        for operand, expected in of_lane.items():
            row, column, matrix = (x[:, lane].ravel().tolist() for x in mma_fragment(form, operand).coordinates())
            assert list(zip(row, column, strict=True)) == expected
            assert set(matrix) == {quad}


def test_wmma_fragments_are_pieces_of_mma_fragments() -> None:
    """The registers that a plan gives to each call are laid out as its kernel reads them: as m16n8 fragments."""
    for form in WMMA_FORMS:
        plan = make_plan(form, 90)
        turned = form.m == 8 and form.n == 32
        m, n = (16, 8) if form.m * form.n > 128 else (8, 8)
        kernel = {
            "a": operand_a(m, form.k, element_bits(form.a)),
            "b": operand_b(form.k, n, element_bits(form.b)),
            "d": accumulator(m, n, element_bits(form.d)),
            "c": accumulator(m, n, element_bits(form.c)),
        }
        for call in plan.calls:
            for name, taken in (("a", call.a), ("b", call.b), ("c", call.c), ("d", call.d)):
                row, column, _ = (
                    x[taken.first : taken.first + taken.count] for x in fragment(form, taken.operand).coordinates()
                )
                if turned:
                    row, column = column, row
                own_row, own_column, _ = kernel[name].coordinates()
                np.testing.assert_array_equal(row - row.min(), own_row)
                np.testing.assert_array_equal(column - column.min(), own_column)


@pytest.mark.parametrize("bits", [1, 4, 8, 16, 32, 64])
def test_pack_and_unpack_are_inverse(bits: int) -> None:
    rng = np.random.default_rng(bits)
    f = operand_a(16, 4 * max(32, bits) // bits, bits)
    elements = rng.integers(0, 2 ** min(bits, 63), (f.rows, f.columns), dtype=np.uint64)
    registers = f.pack(elements)
    assert registers.shape == (f.registers, 32)
    np.testing.assert_array_equal(f.unpack(registers), elements)


def test_pack_puts_the_lower_element_in_the_low_half() -> None:
    elements = np.arange(256, dtype=np.uint64).reshape(16, 16)
    registers = operand_a(16, 16, 16).pack(elements)
    assert registers[0, 0] == (1 << 16 | 0)
    assert registers[3, 31] == (255 << 16 | 254)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count: int) -> None:
    plain, turned = matrix_fragment(count, False), matrix_fragment(count, True)
    for f in (plain, turned):
        assert f.registers == count and f.copies == 1
        assert len(distinct(f)) == count * 64
    row, column, matrix = plain.coordinates()
    for register in range(count):
        for lane in range(32):
            for element in range(2):
                at = register, lane, element
                assert (row[at], column[at], matrix[at]) == (lane // 4, 2 * (lane % 4) + element, register)
    turned_row, turned_column, _ = turned.coordinates()
    np.testing.assert_array_equal(turned_row, column)
    np.testing.assert_array_equal(turned_column, row)
    assert sorted(address_lane(m, r) for m in range(count) for r in range(8)) == list(range(8 * count))


def test_ldmatrix_x4_loads_an_a_fragment() -> None:
    # the four matrices of a 16 x 16 A in the order rows 0, rows 8, columns 8, both: how every GEMM uses it
    row, column, matrix = matrix_fragment(4, False).coordinates()
    a_row, a_column, _ = operand_a(16, 16, 16).coordinates()
    np.testing.assert_array_equal(row + 8 * (matrix & 1), a_row)
    np.testing.assert_array_equal(column + 8 * (matrix >> 1), a_column)


def test_movmatrix_transposes() -> None:
    elements = np.arange(64, dtype=np.uint64).reshape(8, 8)
    source, result = matrix_fragment(1, False).pack(elements), matrix_fragment(1, True)
    # what is held as the transpose in the result's places is the matrix in the source's
    np.testing.assert_array_equal(matrix_fragment(1, False).unpack(result.pack(elements)), elements.T)
    np.testing.assert_array_equal(result.unpack(source), elements.T)
