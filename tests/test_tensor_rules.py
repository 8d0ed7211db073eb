"""The rule table, and answers worked out by hand from the rules."""

from __future__ import annotations

import numpy as np
import pytest

from isa.errors import TcsimError
from isa.tensor import (
    MMA_FORMS,
    RULES,
    SPARSE_FORMS,
    WMMA_FORMS,
    MmaForm,
    NoFormError,
    NoRuleError,
    block_dot,
    execute,
    find_form,
    find_rule,
)
from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.layouts import mma_fragment
from isa.tensor.plans import make_plan
from isa.tensor.reference import decode, dot, integer_dot, round_to
from isa.tensor.rules import ARCHITECTURES, FAMILIES, Rule
from isa.tensor.scaled_forms import KINDS


def test_rows_are_well_formed() -> None:
    for rule in RULES.values():
        assert rule.sm in ARCHITECTURES
        assert rule.family in (*FAMILIES.values(), "fp4")
        assert rule.status in ("verified", "published", "hypothesis")
        assert rule.source
        base = ("mma", "mma.m8n8k4", "mma.rounded", "mma.sp", "wmma", "wgmma", "wgmma.sp")
        assert rule.instruction in (*base, *(f"{name}.{kind}" for name in ("mma", "mma.sp") for kind in KINDS))
        if rule.method == "fused_groups":
            assert (rule.products, rule.fraction_bits, rule.output) == (64, 35, "f32")
        elif rule.method.startswith("fused"):
            assert rule.output in (("f16",) if rule.d == "f16" else ("f32", "e8m13"))
            assert rule.nan == (0x7FFF if rule.d == "f16" else 0x7FFFFFFF)
            # The kernels sum up to eight products of up to 2^(F + 2) in int32.
            assert 13 <= rule.fraction_bits <= 25
            assert rule.products in (4, 8, 16, 32)
        else:
            assert rule.method in ("fma", "ffma", "integer")


@pytest.mark.parametrize("form", MMA_FORMS + SPARSE_FORMS + WMMA_FORMS, ids=str)
def test_every_form_has_a_plan_wherever_it_exists(form: MmaForm) -> None:
    for sm in ARCHITECTURES:
        if sm >= form.sm:
            plan = make_plan(form, sm)
            assert plan.rule.family == form.family
        else:
            with pytest.raises(NoFormError, match=f"needs sm_{form.sm}"):
                make_plan(form, sm)


def test_an_architecture_between_two_follows_the_one_below() -> None:
    assert find_rule(87, "mma", "f16", "f32").sm == 86
    assert find_rule(103, "mma", "f16", "f32").sm == 100
    assert find_rule(121, "mma", "fp8", "f32").sm == 120


def test_wmma_has_the_rule_of_mma_unless_it_has_its_own() -> None:
    assert find_rule(90, "wmma", "f16", "f32") is find_rule(90, "mma", "f16", "f32")
    assert find_rule(90, "wmma", "tf32", "f32").products == 4
    assert find_rule(90, "mma", "tf32", "f32").products == 8


@pytest.mark.parametrize(
    "sm, instruction, family, d", [(60, "mma", "f16", "f32"), (80, "mma", "fp8", "f32"), (80, "wgmma", "f16", "f32")]
)
def test_missing_rules_are_explained(sm: int, instruction: str, family: str, d: str) -> None:
    with pytest.raises(NoRuleError, match=f"sm_{sm}") as error:
        find_rule(sm, instruction, family, d)
    assert isinstance(error.value, TcsimError)
    assert family in str(error.value)


def test_missing_forms_are_explained() -> None:
    with pytest.raises(NoFormError, match="no mma form has shape m16n8k16, a f16, b bf16"):
        find_form("mma", "m16n8k16", "f16", "bf16", "f32", "f32")


# -------------------------------------------------------------------------------------------------- answers by hand

ONE_F32, INFINITY_F32 = 0x3F800000, 0x7F800000


def f16(x: float) -> int:
    return int(np.float16(x).view(np.uint16))


def f32(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


def bf16(x: float) -> int:
    return f32(x) >> 16


def both(rule: Rule, pairs: list[tuple[int, int]], c: int, a_type: str, b_type: str | None = None) -> int:
    """One dot product by kernel and by reference, which must agree."""
    a, b = zip(*pairs, strict=True)
    fast = block_dot(np.array([a], np.uint64), np.array([b], np.uint64), np.array([c], np.uint64), rule, a_type, b_type)
    slow = dot(a, b, c, rule, a_type, b_type or a_type)
    assert fast[0] == slow
    return slow


@pytest.mark.parametrize(
    "sm, tiny, result",
    [
        (90, -(2.0**-25), 0x3F7FFFFF),  # F = 25 keeps it, and rounding is toward zero
        (90, -(2.0**-26), ONE_F32),
        (80, -(2.0**-24), 0x3F7FFFFF),
        (80, -(2.0**-25), ONE_F32),
        (90, 2.0**-24, ONE_F32),  # would round up to nearest from just above: but it is cut
        (90, 1.75 * 2.0**-24, ONE_F32),
    ],
)
def test_alignment_keeps_f_bits(sm: int, tiny: float, result: int) -> None:
    assert (
        both(find_rule(sm, "mma", "bf16", "f32"), [(bf16(tiny), bf16(1.0))] + [(0, 0)] * 15, ONE_F32, "bf16") == result
    )


def test_volta_keeps_23_bits() -> None:
    rule = find_rule(70, "mma.m8n8k4", "f16", "f32")
    assert both(rule, [(f16(-(2.0**-12)), f16(2.0**-12))] + [(0, 0)] * 3, ONE_F32, "f16") == ONE_F32
    assert both(rule, [(f16(-(2.0**-12)), f16(2.0**-11))] + [(0, 0)] * 3, ONE_F32, "f16") == 0x3F7FFFFE


def test_terms_are_cut_one_by_one_before_they_are_added() -> None:
    pairs = [(bf16(2.0**-13), bf16(2.0**-12))] * 16  # sixteen times 2^-25
    assert both(find_rule(90, "mma", "bf16", "f32"), pairs, ONE_F32, "bf16") == f32(1 + 2.0**-21)
    assert both(find_rule(80, "mma", "bf16", "f32"), pairs, ONE_F32, "bf16") == ONE_F32


def test_truncation_is_of_the_magnitude() -> None:
    # -1.5 * 2^-25 becomes -2^-25, not -2^-24
    pairs = [(bf16(1.0), bf16(1.0)), (bf16(-1.5 * 2.0**-25), bf16(1.0)), (bf16(-(2.0**-25)), bf16(1.0))] + [(0, 0)] * 13
    assert both(find_rule(90, "mma", "bf16", "f32"), pairs, 0, "bf16") == 0x3F7FFFFF  # 1 - 2^-24


def test_products_are_not_normalised() -> None:
    # 1.5 * 1.5 = 2.25 has exponent 0 where it counts, so -2^-25 is kept; C = 2.25 would have exponent 1
    rule = find_rule(90, "mma", "bf16", "f32")
    tiny = (bf16(-(2.0**-25)), bf16(1.0))
    assert both(rule, [(bf16(1.5), bf16(1.5)), tiny] + [(0, 0)] * 14, 0, "bf16") == f32(2.25) - 1
    assert both(rule, [(0, 0), tiny] + [(0, 0)] * 14, f32(2.25), "bf16") == f32(2.25)


def test_zero_times_huge_does_not_align_the_rest() -> None:
    huge = (0x0000, bf16(2.0**100))
    assert (
        both(find_rule(90, "mma", "bf16", "f32"), [huge, (bf16(1.0), bf16(1.0))] + [(0, 0)] * 14, 0, "bf16") == ONE_F32
    )


def test_zero_results_are_positive() -> None:
    minus_zero = [(0x8000, f16(1.0))] * 16
    assert both(find_rule(90, "mma", "f16", "f32"), minus_zero, 0x80000000, "f16") == 0
    assert both(find_rule(90, "mma", "f16", "f16"), minus_zero, 0x8000, "f16") == 0
    # a negative result too small for float16
    underflow = [(f16(-(2.0**-14)), f16(2.0**-13))] + [(0, 0)] * 15
    assert both(find_rule(90, "mma", "f16", "f16"), underflow, 0, "f16") == 0


def test_overflow_gives_infinity() -> None:
    rule = find_rule(90, "mma", "bf16", "f32")
    assert both(rule, [(bf16(2.0**100), bf16(2.0**100))] + [(0, 0)] * 15, 0, "bf16") == INFINITY_F32
    assert both(rule, [(bf16(-(2.0**100)), bf16(2.0**100))] + [(0, 0)] * 15, 0, "bf16") == INFINITY_F32 | 1 << 31
    largest = 0x7F7FFFFF  # toward zero, but the next power of two is too large
    assert both(rule, [(bf16(2.0**60), bf16(2.0**43))] + [(0, 0)] * 15, largest, "bf16") == largest
    assert both(rule, [(bf16(2.0**60), bf16(2.0**44))] + [(0, 0)] * 15, largest, "bf16") == INFINITY_F32


def test_special_values() -> None:
    rule, infinity, one = find_rule(90, "mma", "f16", "f32"), 0x7C00, f16(1.0)
    rest = [(one, one)] * 14
    assert both(rule, [(infinity, one), (one, one), *rest], 0, "f16") == INFINITY_F32
    assert both(rule, [(infinity, 0x8001), (one, one), *rest], 0, "f16") == INFINITY_F32 | 1 << 31
    assert both(rule, [(infinity, 0x8000), (one, one), *rest], 0, "f16") == 0x7FFFFFFF
    assert both(rule, [(infinity, one), (infinity, 0xBC00), *rest], 0, "f16") == 0x7FFFFFFF
    assert both(rule, [(0xFE01, one), (one, one), *rest], 0, "f16") == 0x7FFFFFFF
    assert both(rule, [(infinity, one), (one, one), *rest], 0xFF800000, "f16") == 0x7FFFFFFF
    assert both(find_rule(90, "mma", "f16", "f16"), [(infinity, 0), *rest, (0, 0)], 0, "f16") == 0x7FFF


def test_tf32_drops_its_low_bits_first() -> None:
    rule, one = find_rule(90, "mma", "tf32", "f32"), ONE_F32
    rest = [(0, 0)] * 7
    assert both(rule, [(0x7F800001, one), *rest], 0, "tf32") == INFINITY_F32  # a NaN no more
    assert both(rule, [(0x7F802000, one), *rest], 0, "tf32") == 0x7FFFFFFF
    assert both(rule, [(0x3F801FFF, one), *rest], 0, "tf32") == ONE_F32
    assert both(rule, [(0x00001FFF, 0x7F800000), *rest], 0, "tf32") == 0x7FFFFFFF  # zero times infinity


@pytest.mark.parametrize("b1, result", [(0x0100, 1), (0x0008, 1), (0x0004, 1), (0x0002, 0), (0x0001, 0)])
def test_floor_of_float16_accumulation(b1: int, result: int) -> None:
    """2^-25 is half the least float16: a tie, rounded to even zero, unless a bit below it survives. With a floor of
    -21, those down to 2^-46 do."""
    pairs = [(f16(2.0**-12), f16(2.0**-13)), (0x0001, b1)] + [(0, 0)] * 14
    assert both(find_rule(90, "mma", "f16", "f16"), pairs, 0, "f16") == result


@pytest.mark.parametrize("sm, last_kept", [(90, -158), (80, -156)])
def test_floor_of_float32_accumulation(sm: int, last_kept: int) -> None:
    rule = find_rule(sm, "mma", "bf16", "f32")
    for exponent, result in ((last_kept, 0), (last_kept - 1, 1)):
        pairs = [(bf16(2.0**-75), bf16(2.0**-74)), (bf16(-(2.0**-80)), bf16(2.0 ** (exponent + 80)))] + [(0, 0)] * 14
        assert both(rule, pairs, 0, "bf16") == result  # 2^-149, less something or nothing


def test_fp8_on_hopper_is_two_steps_and_a_rounded_addition() -> None:
    rule, one = find_rule(90, "mma", "fp8", "f32"), 0x38
    # nearest even on C: 1 + 1.5 * 2^-24 rounds up, which no fused step does
    assert both(rule, [(one, one)] + [(0, 0)] * 31, f32(1.5 * 2.0**-24), "e4m3") == ONE_F32 + 1
    # a minus zero of C is added to plus zero
    assert both(find_rule(90, "mma", "fp8", "f16"), [(0, 0)] * 32, 0x8000, "e5m2") == 0


def test_fp8_steps_take_alternate_pairs_of_k() -> None:
    """In f16, 2048 + 1 = 2048 (a tie), but 2048 + 1 + 1 = 2050 if both ones meet 2048 in one step."""
    rule, one, big = find_rule(90, "mma", "fp8", "f16"), 0x38, (0x60, 0x60)  # 32 * 32 = 1024
    pairs = [(0, 0)] * 32
    pairs[0] = pairs[1] = big
    for ones, result in (((4, 5), 2050.0), ((2, 3), 2050.0), ((4, 2), 2048.0)):
        chosen = list(pairs)
        for k in ones:
            chosen[k] = (one, one)
        assert both(rule, chosen, 0, "e4m3") == f16(result)


def test_fp8_on_ada_has_13_fraction_bits() -> None:
    rule, one = find_rule(89, "mma", "fp8", "f32"), 0x38
    assert both(rule, [(one, one)] + [(0, 0)] * 31, f32(2.0**-13), "e4m3") == f32(1 + 2.0**-13)
    assert both(rule, [(one, one)] + [(0, 0)] * 31, f32(2.0**-14), "e4m3") == ONE_F32
    assert both(rule, [(0, 0)] * 32, 0x3F8003FF, "e4m3") == ONE_F32  # C alone is cut too


def test_e4m3_has_no_infinity() -> None:
    rule = find_rule(90, "wgmma", "fp8", "f32")
    assert both(rule, [(0x7E, 0x38)] + [(0, 0)] * 31, 0, "e4m3") == f32(448.0)
    assert both(rule, [(0xFF, 0x38)] + [(0, 0)] * 31, 0, "e4m3") == 0x7FFFFFFF


def test_rounding() -> None:
    assert round_to(3, -25, "f16", nearest=True) == 2  # 1.5 units: tie to even
    assert round_to(1, -25, "f16", nearest=True) == 0
    assert round_to(0x1FFF, 4, "f16", nearest=True) == 0x7C00
    assert round_to(0x7FF, 5, "f16", nearest=False) == 0x7BFF
    assert round_to((1 << 24) - 1, -149, "f32", nearest=True) == 0x00FFFFFF
    assert round_to((1 << 25) - 1, -25, "f32", nearest=False, kept_fraction_bits=13) == 0x3F7FFC00
    for name in ("f16", "f32", "bf16", "e5m2"):
        largest = FLOAT_FORMATS[name].nan - 2
        number = decode(largest, name)
        assert round_to(number.significand, number.unit, name, nearest=True) == largest


def test_884_by_hand() -> None:
    """Each output of m8n8k4 is alike here: row of A (x0 x1 x2 x3), column of B of ones."""

    def one_output(x: list[float], c: int, d_type: str, sm: int) -> int:
        form = find_form("mma", "m8n8k4", "f16", "f16", d_type, d_type)
        a = np.tile(np.array([f16(v) for v in x], np.uint64), (4, 8, 1))
        b, accumulators = np.full((4, 4, 8), f16(1.0), np.uint64), np.full((4, 8, 8), c, np.uint64)
        plan = make_plan(form, sm)
        packed = (mma_fragment(form, n).pack(v) for n, v in zip("abc", (a, b, accumulators), strict=True))
        out = mma_fragment(form, "d").unpack(execute(plan, *packed))
        assert len(set(out.ravel().tolist())) == 1
        return int(out[0, 0, 0])

    tiny = 2.0**-24
    # to nearest even at each addition: 1 + 2^-24 is a tie, and 1 again
    assert one_output([1, tiny, tiny, tiny], 0, "f32", 80) == ONE_F32
    assert one_output([tiny, tiny, tiny, 1], 0, "f32", 80) == ONE_F32 + 2  # 3 * 2^-24 first: a tie, to even
    # one fused step on sm_70 keeps 23 bits of each: nothing
    assert one_output([tiny, tiny, tiny, 1], 0, "f32", 70) == ONE_F32
    # f16 results keep the sign of zero from sm_80 on; a tensor core gives +0
    assert one_output([-0.0, -0.0, -0.0, -0.0], 0x8000, "f16", 80) == 0x8000
    assert one_output([-0.0, -0.0, -0.0, -0.0], 0x8000, "f16", 70) == 0
    # f32 results start from +0, so only C could make them -0, and +0 + -0 is +0
    assert one_output([-0.0, -0.0, -0.0, -0.0], 0x80000000, "f32", 80) == 0


def test_f64_nans_keep_their_payload() -> None:
    rule, one = find_rule(90, "mma", "f64", "f64"), 0x3FF0000000000000
    quiet, signalling, other = 0xFFF8000000000123, 0x7FF0000000000001, 0x7FF8000000000456
    assert dot([one], [one], signalling, rule, "f64", "f64") == signalling | 1 << 51
    assert dot([quiet], [other], signalling, rule, "f64", "f64") == other  # b first
    assert dot([quiet], [one], signalling, rule, "f64", "f64") == signalling | 1 << 51  # then the sum
    assert dot([one, one], [one, quiet], other, rule, "f64", "f64") == quiet
    assert dot([0], [0x7FF0000000000000], one, rule, "f64", "f64") == 0xFFF8000000000000


@pytest.mark.parametrize(
    "a, b, c, results",
    [  # to nearest, toward zero, down, up
        (1.0, 2.0**-53, 1.0, (1.0, 1.0, 1.0, 1.0 + 2.0**-52)),
        (-1.0, 2.0**-53, -1.0, (-1.0, -1.0, -1.0 - 2.0**-52, -1.0)),
        (-1.0, 2.0**-54, 1.0, (1.0, 1.0 - 2.0**-53, 1.0 - 2.0**-53, 1.0)),
        (2.0**-600, 2.0**-600, 0.0, (0.0, 0.0, 0.0, 2.0**-1074)),
        (2.0**600, 2.0**600, 0.0, (float("inf"), 2.0**1023 * (2 - 2.0**-52), 2.0**1023 * (2 - 2.0**-52), float("inf"))),
        (1.0, 1.0, -1.0, (0.0, 0.0, -0.0, 0.0)),
    ],
)
def test_f64_rounding_modes(a: float, b: float, c: float, results: tuple[float, ...]) -> None:
    """By the reference and by the kernel, in every output of m8n8k4 (the other three products are +0)."""

    def bits(x: float) -> int:
        return int(np.float64(x).view(np.uint64))

    for rounding, result in zip(("", "rz", "rm", "rp"), results, strict=True):
        form = find_form("mma", "m8n8k4", "f64", "f64", "f64", "f64", rounding=rounding)
        plan = make_plan(form, 90)
        assert dot([bits(a)], [bits(b)], bits(c), plan.rule, "f64", "f64", rounding) == bits(result)
        a_matrix, b_matrix = np.zeros((8, 4), np.uint64), np.zeros((4, 8), np.uint64)
        a_matrix[:, 3], b_matrix[3] = bits(a), bits(b)
        matrices = (a_matrix, b_matrix, np.full((8, 8), bits(c), np.uint64))
        packed = (mma_fragment(form, name).pack(x) for name, x in zip("abc", matrices, strict=True))
        d = mma_fragment(form, "d").unpack(execute(plan, *packed))
        assert set(d.ravel().tolist()) == {bits(result)}


def test_rn_is_the_default_rounding() -> None:
    plain = find_form("mma", "m16n8k8", "f64", "f64", "f64", "f64")
    assert find_form("mma", "m16n8k8", "f64", "f64", "f64", "f64", rounding="rn") is plain
    assert str(find_form("wmma", "m8n8k4", "f64", "f64", "f64", "f64", rounding="rm")).startswith(
        "wmma.sync.m8n8k4.row.col.rm."
    )


def test_integer_by_hand() -> None:
    assert integer_dot([127] * 4, [127] * 4, 2**31 - 1, satfinite=True) == 2**31 - 1
    assert integer_dot([127] * 4, [127] * 4, 2**31 - 1, satfinite=False) == 4 * 127 * 127 - 1 - 2**31
    assert integer_dot([-128, 127], [127, -128], -(2**31), satfinite=True) == -(2**31)
    # one clamp at the end: a sum that leaves the range on the way and comes back is exact
    assert integer_dot([127, -127], [127, 127], 2**31 - 1, satfinite=True) == 2**31 - 1
