"""The special-function unit and approximate instructions: against plain Python, H200 recordings, and mathematics."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_ref.mufu import codec, solve
from gpu_ref.mufu.forms import FORMS, SWEEPS, sample_inputs, sweep_operands
from gpu_ref.mufu.verify import block_hash, model
from gpu_ref.scalar.forms import probes
from gpu_ref.scalar.inputs import operands
from isa.arith import approx, mufu
from isa.arith.primitives import bits_f32, f32_bits
from tests.reference import mufu as reference
from tests.reference.formats import F32
from tests.reference.words import tuples

RECORDED = tomllib.loads((Path(__file__).parent / "reference" / "mufu_recorded.toml").read_text())
TRACES = Path(__file__).parents[1] / "traces" / "mufu"


def jitted(function: Callable) -> Callable:
    """A float32 unit from bits to bits."""
    return numba.njit(lambda u: f32_bits(function(bits_f32(np.uint32(u)))))


@pytest.mark.parametrize("unit", sorted(reference.UNITS))
def test_unit_equals_the_plain_one(unit: str) -> None:
    compiled = jitted(getattr(mufu, f"mufu_{unit}"))
    near = [F32.round(reference.Fraction(x)) + d for x in (0.25, 0.5, 1, 2, 4, 7.5, 8, 126, 127, 128) for d in (-1, 0, 1)]
    words = [w for (w,) in tuples(F32, 1, 1200, seed=len(unit))] + near + [w | F32.sign for w in near]
    for word in words:
        assert int(compiled(np.uint32(word))) == reference.UNITS[unit](word), f"{unit} {word:08x}"


def test_square_drops_what_the_hardware_drops() -> None:
    for y in [*range(0, 1 << 17, 97), (1 << 17) - 1, 0x1FE00, 0x1FF]:
        assert int(mufu.square(np.uint32(y))) == reference.square(y)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.opcode)
def test_recorded_results(form) -> None:
    rows = RECORDED[form.opcode]["rows"]
    assert len(rows) >= 25
    instruction = model(form.opcode)
    for row in rows:
        *operands, want = (int(word, 16) for word in row)
        a, b = [*operands, 0][:2]
        got = int(instruction(np.uint64(a), np.uint64(b)))
        assert got == want, (form.opcode, row, f"{got:x}")


def test_ftz_division_flushes_what_rounds_up_to_the_least_normal_number() -> None:
    """The only word in the block 0x01 of ``x / 3`` that tells the two readings of ``.ftz`` apart; the hash decided."""
    a, three = bits_f32(np.uint32(0x013FFFFF)), np.float32(3.0)
    assert f32_bits(approx.div_approx_ftz_f32(a, three)) == 0
    assert f32_bits(approx.div_full_ftz_f32(a, three)) == 0
    assert f32_bits(approx.div_approx_f32(a, three)) == 0x00800000


MATHEMATICS: dict[str, tuple[Callable[[float], float], float, float, float]] = {
    # Function, operand range, error as the PTX ISA bounds it (relative; for lg2, sin and cos absolute).
    "rcp": (lambda x: 1 / x, 0.01, 100.0, 2.0**-23),
    "rsq": (lambda x: 1 / math.sqrt(x), 0.01, 100.0, 2.0**-22.9),
    "sqrt": (math.sqrt, 0.01, 100.0, 2.0**-23),
    "ex2": (lambda x: 2.0**x, -20.0, 20.0, 2.0**-22.5),
    "lg2": (math.log2, 0.5, 2.0, 2.0**-22),
    "sin": (lambda x: math.sin(2 * math.pi * x), -0.5, 0.5, 2.0**-20.5),
    "cos": (lambda x: math.cos(2 * math.pi * x), -0.5, 0.5, 2.0**-20.5),
    "tanh": (math.tanh, -7.0, 7.0, 2.0**-11),
}


@pytest.mark.parametrize("unit", sorted(MATHEMATICS))
def test_accuracy_is_what_the_ptx_isa_promises(unit: str) -> None:
    function, low, high, bound = MATHEMATICS[unit]
    evaluate = getattr(mufu, f"mufu_{unit}")
    for x in np.linspace(low, high, 2001).astype(np.float32):
        exact = function(float(x))
        scale = 1.0 if unit in ("lg2", "sin", "cos") else abs(exact)
        assert abs(float(evaluate(x)) - exact) <= bound * scale, (unit, float(x))


@pytest.mark.parametrize("unit", ["rcp", "rsqrt", "sqrt", "ex2", "lg2", "sin", "cos", "tanh"])
def test_a_block_of_every_unit_hashes_as_recorded(unit: str) -> None:
    """2^24 results at once, where the recording is at hand."""
    if not (TRACES / "hashes.npz").exists():
        pytest.skip("traces/mufu/hashes.npz is not there")
    opcode = "tanh.approx.f32" if unit == "tanh" else f"{unit}.approx.ftz.f32"
    block = 0x3E if unit in ("sin", "cos", "tanh") else 0x40
    with np.load(TRACES / "hashes.npz") as stored:
        want = tuple(int(word) for word in stored[opcode][block])
    got = block_hash(opcode)(np.uint32(block), np.int32(0), np.uint32(0))
    assert tuple(map(int, got)) == want


# ---------------------------------------------------------------------------------- recording and solving


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(-5, 5), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_packed_sweeps_unpack(start: int, slope: int, count: int, seed: int) -> None:
    noise = codec.Stream(seed).integers(-3, 4, count)
    noise[:: max(count // 3, 1)] += 1 << 20
    values = ((start + slope * np.arange(count) + noise) & 0xFFFFFFFF).astype(np.uint32)
    assert np.array_equal(codec.unpack(**codec.pack(values)), values)


def test_hash_of_the_model_is_the_hash_of_its_results() -> None:
    sweep = next(s for s in SWEEPS if s.opcode == "rcp.approx.ftz.f32")
    index = np.arange(0x40 << 24, 0x41 << 24, dtype=np.uint32)
    function = model(sweep.opcode)

    @numba.njit
    def results(a, out):
        for i in range(len(a)):
            out[i] = function(a[i], np.uint64(0))

    operands, _ = sweep_operands(sweep, "f32", index)
    out = np.zeros_like(operands)
    results(operands, out)
    got = block_hash(sweep.opcode)(np.uint32(0x40), np.int32(0), np.uint32(0))
    assert tuple(map(int, got)) == codec.hash_block(index, out)


def test_sample_inputs_are_the_recorded_ones() -> None:
    """They are generated again for every check, so they must never change."""
    for form in FORMS:
        a, b = sample_inputs(form)
        known = {(int(x), int(y)) for x, y in zip(a, b, strict=True)}
        for row in RECORDED[form.opcode]["rows"]:
            a, b = [*(int(word, 16) for word in row[:-1]), 0][:2]
            assert (a, b) in known


def test_scalar_operands_are_the_recorded_ones() -> None:
    """A recording stores results only; this digest is that of the operands when the H200 was recorded."""
    digest = hashlib.sha1()
    for probe in probes():
        digest.update(probe.name.encode() + probe.ptx.encode())
        for column in operands(probe):
            digest.update(column.tobytes())
    assert digest.hexdigest() == "73c3ee73abbf3f2c2c186e68ce58e8b559b2e581"


@pytest.mark.parametrize("unit", ["rcp", "sin", "tanh"])
def test_solver_finds_the_table_it_was_given(unit: str) -> None:
    """Results of our own model over one segment lead back to that segment's row."""
    first = {"rcp": 0x3F820000, "sin": 0x3F400000, "tanh": 0x3F000000}[unit]
    count = 1 << (16 if unit == "rcp" else 17)
    x = np.arange(first, first + (count << (4 if unit == "tanh" else 0)), 16 if unit == "tanh" else 1, dtype=np.uint32)
    opcode = solve.UNITS[unit].opcode
    function = model(opcode)
    out = np.array([function(np.uint64(word), np.uint64(0)) for word in x], dtype=np.uint32)
    everything = solve.constraints(unit, x, out)
    segment = int(np.bincount(everything.segment).argmax())
    part = solve.Constraints(*(column[everything.segment == segment] for column in everything))
    solution = solve.solve_segment(part, *solve.UNITS[unit].steps(segment))
    a, b, c = reference.TABLES[unit]["coefficients"][segment]
    assert [(s.b, s.c) for s in solution] == [(b, c)]
    constant = (a << solve.UNITS[unit].shift) + solve.UNITS[unit].rounding
    assert solution[0].least <= constant <= solution[0].greatest
