"""Storing outputs and comparing with them: what is kept, what a mismatch says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcsim.bundle import DTYPES, BundleError, RecordedOutput, compare, parse_argument, record_output

F32 = DTYPES["f32"]
SMALL = parse_argument("f32[10,20]:normal").array()
LARGE = parse_argument("f32[200,300]:normal").array()  # 240 000 bytes: hashed


def _restored(output: RecordedOutput) -> RecordedOutput:
    return RecordedOutput.restore(output.name, output.describe(), output.arrays())


def test_small_outputs_are_stored_whole() -> None:
    output = _restored(record_output("c", F32, SMALL))
    assert output.raw == SMALL.tobytes()
    assert compare(output, SMALL).equal
    assert str(compare(output, SMALL)) == "c (f32[10,20]): every byte equals the hardware's"


def test_small_mismatch_is_exact() -> None:
    wrong = SMALL.copy()
    wrong[3, 4] = 1.0
    wrong[9, 19] = np.nextafter(wrong[9, 19], np.float32(9))
    result = compare(record_output("c", F32, SMALL), wrong)
    assert (result.equal, result.differing_elements, result.first_element) == (False, 2, 64)
    assert result.differing_blocks == 2 and result.blocks == 4
    assert "2 of 200 elements differ" in str(result)
    assert "first at [3,4]: hardware 0x" in str(result) and "here 0x3f800000 (1.0)" in str(result)


def test_large_outputs_are_hashed_and_sampled() -> None:
    output = _restored(record_output("c", F32, LARGE))
    assert output.raw is None and output.crc32 is not None and output.sample_index is not None
    assert len(output.crc32) == -(-LARGE.nbytes // 256)
    assert output.sample_index[:64].tolist() == list(range(64)) and 400 < len(output.sample_index) <= 512
    assert sum(array.nbytes for array in output.arrays().values()) < LARGE.nbytes / 20
    assert compare(output, LARGE.tobytes()).equal


def test_large_mismatch_in_the_sample_shows_both_values() -> None:
    wrong = LARGE.copy()
    wrong[0, 5] = -2.0
    result = compare(record_output("c", F32, LARGE), wrong)
    assert (result.differing_blocks, result.first_element, result.first_block) == (1, 5, 0)
    assert result.differing_elements is None
    assert "1 of 938 blocks of 256 bytes differ; first known at [0,5]" in str(result) and "(-2.0)" in str(result)


def test_large_mismatch_outside_the_sample_is_bounded() -> None:
    output = record_output("c", F32, LARGE)
    assert output.sample_index is not None
    outside = next(i for i in range(1000, LARGE.size) if not (output.sample_index // 64 == i // 64).any())
    wrong = LARGE.copy()
    wrong.flat[outside] += 1
    result = compare(output, wrong)
    assert (result.first_block, result.first_element) == (outside // 64, None)
    assert "which the sample does not hold" in str(result)


@given(st.integers(0, LARGE.nbytes * 8 - 1))
def test_no_flipped_bit_goes_unnoticed(bit: int) -> None:
    wrong = LARGE.copy()
    wrong.view(np.uint8).reshape(-1)[bit // 8] ^= 1 << (bit % 8)
    result = compare(record_output("c", F32, LARGE), wrong)
    assert not result.equal
    assert (result.differing_blocks, result.first_block) == (1, bit // 8 // 256)


def test_negative_zero_and_nan_payloads_count() -> None:
    zero, nan = np.zeros(4, np.float32), np.full(4, np.nan, np.float32)
    assert not compare(record_output("c", F32, zero), -zero).equal
    other = nan.view(np.uint32) ^ np.uint32(1)
    assert compare(record_output("c", F32, nan), nan).equal and not compare(record_output("c", F32, nan), other).equal


def test_values_without_a_numpy_type_are_shown_as_numbers() -> None:
    bf16 = parse_argument("bf16[4]:const(1.5)").array()
    result = compare(record_output("c", DTYPES["bf16"], bf16), parse_argument("bf16[4]:const(-2)").array())
    assert (result.expected, result.actual) == ("0x3fc0 (1.5)", "0xc000 (-2.0)")
    bits = compare(record_output("c", DTYPES["b16"], bf16), bf16 + np.uint16(1))
    assert (bits.expected, bits.actual) == ("0x3fc0", "0x3fc1")


def test_wrong_size() -> None:
    result = compare(record_output("c", F32, SMALL), SMALL[:5])
    assert not result.equal and "it has 400 bytes, but the hardware's has 800" in str(result)


def test_tampering_is_noticed() -> None:
    output = record_output("c", F32, SMALL)
    changed = {"c.raw": np.roll(output.arrays()["c.raw"], 1)}
    with pytest.raises(BundleError, match=r"does not hold what bundle\.json says"):
        RecordedOutput.restore("c", output.describe(), changed)
    with pytest.raises(BundleError, match=r"c\.raw is missing"):
        RecordedOutput.restore("c", output.describe(), {})
