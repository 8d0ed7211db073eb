"""The compiled kernels against the exact reference, on inputs chosen to be hard."""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from isa.tensor import (
    MMA_FORMS,
    WMMA_FORMS,
    MmaForm,
    block_dot,
    execute,
    find_rule,
    make_plan,
    mma_fragment,
    wmma_fragment,
)
from isa.tensor.bulk import BulkShapeError
from isa.tensor.formats import FLOAT_FORMATS
from isa.tensor.forms import element_bits, find_form
from isa.tensor.mma_float import FloatNumbers
from isa.tensor.plans import Plan
from isa.tensor.reference import convert, dot, integer_dot
from isa.tensor.rules import ARCHITECTURES, RULES, Rule

KINDS = ("raw", "near one", "wide", "sparse", "subnormal", "cancelling", "overflowing", "special", "last bit", "floor")
FORMATS = {name: (f.exponent_bits, f.fraction_bits, f.bits) for name, f in FLOAT_FORMATS.items()} | {"f64": (11, 52, 64)}


def draw(rng: np.random.Generator, ptx_type: str, shape: tuple[int, int], kind: str) -> np.ndarray:
    """Bit patterns of a floating-point type."""
    exponent_bits, fraction_bits, bits = FORMATS[ptx_type]
    low = bits - 1 - exponent_bits - fraction_bits  # tf32 has bits that do not count
    top, bias = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    raw = rng.integers(0, 1 << 63, shape, dtype=np.uint64) * np.uint64(2) + rng.integers(0, 2, shape, dtype=np.uint64)
    raw &= np.uint64((1 << bits) - 1)
    if kind == "raw":
        return raw
    field = {
        "wide": lambda: rng.integers(0, top, shape),
        "subnormal": lambda: rng.integers(0, 2, shape),
        "overflowing": lambda: rng.integers(top - 3, top, shape),
    }.get(kind, lambda: rng.integers(bias - 1, bias + 2, shape))()
    keep = np.uint64(1 << (bits - 1) | ((1 << fraction_bits) - 1) << low | ((1 << low) - 1))
    out = raw & keep | field.astype(np.uint64) << np.uint64(fraction_bits + low)
    if kind == "sparse":
        out = np.where(rng.random(shape) < 0.7, raw & np.uint64(1 << (bits - 1)), out)
    if kind == "special":
        chance = rng.random(shape)
        magnitude = np.uint64(top << (fraction_bits + low))
        sign = raw & np.uint64(1 << (bits - 1))
        out = np.where(chance < 0.02, sign | magnitude, out)
        out = np.where((chance > 0.02) & (chance < 0.03), raw | magnitude, out)
        out = np.where((chance > 0.03) & (chance < 0.1), sign, out)
    return out


def powers(ptx_type: str, exponents: np.ndarray) -> np.ndarray:
    """Bit patterns of powers of two, subnormal ones too."""
    exponent_bits, fraction_bits, bits = FORMATS[ptx_type]
    field = exponents + (1 << (exponent_bits - 1)) - 1
    subnormal = (1 << fraction_bits) >> np.minimum(np.maximum(1 - field, 0), fraction_bits)
    pattern = np.where(field > 0, field << fraction_bits, subnormal)
    return pattern.astype(np.uint64) << np.uint64(bits - 1 - exponent_bits - fraction_bits)


def signs(rng: np.random.Generator, ptx_type: str, shape: tuple[int, int]) -> np.ndarray:
    return rng.integers(0, 2, shape, dtype=np.uint64) << np.uint64(FORMATS[ptx_type][2] - 1)


def last_bit(rng: np.random.Generator, form: MmaForm) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One large product, one of half the last bit of a float16 of its size, one 12 to 29 binary places below it,
    nothing else: which small one survives the alignment decides how the sum rounds."""
    k = form.k
    a, b = np.zeros((form.m, k), np.uint64), np.zeros((k, form.n), np.uint64)
    fraction = draw(rng, form.a, (form.m, 1), "subnormal") & np.uint64(
        (1 << (element_bits(form.a) - 1 - FORMATS[form.a][0])) - 1
    )
    a[:, 0], b[0] = powers(form.a, np.zeros(form.m, int)) | fraction[:, 0], powers(form.b, np.full(form.n, 8))
    a[:, 1], b[1] = powers(form.a, np.full(form.m, -1)), powers(form.b, np.full(form.n, -2))
    small = 4 if k > 4 else 2
    a[:, small], b[small] = (powers(t, rng.integers(-10, -1, n)) for t, n in ((form.a, form.m), (form.b, form.n)))
    a, b = a | signs(rng, form.a, a.shape), b | signs(rng, form.b, b.shape)
    c = np.where(rng.random((form.m, form.n)) < 0.5, 0, powers(form.c, rng.integers(-14, 8, (form.m, form.n))))
    return a, b, c | signs(rng, form.c, c.shape)


def near_floor(rng: np.random.Generator, form: MmaForm) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums of tiny products and no or a subnormal accumulator, where only the floor of emax decides what is kept."""
    a, b = np.zeros((form.m, form.k), np.uint64), np.zeros((form.k, form.n), np.uint64)
    if form.a in ("bf16", "tf32"):
        a[:, 0], b[0] = powers(form.a, np.full(form.m, -70)), powers(form.b, np.full(form.n, -70))
        a[:, 1:3] = powers(form.a, rng.integers(-82, -74, (form.m, 2)))
        b[1:3] = powers(form.b, rng.integers(-82, -74, (2, form.n)))
    else:
        a[:, 0], b[0] = powers(form.a, np.full(form.m, -12)), powers(form.b, np.full(form.n, -13))  # half the least f16
        a[:, 1], b[1] = 1, 1 << rng.integers(0, min(9, FORMATS[form.b][1]), form.n)
    a, b = a | signs(rng, form.a, a.shape), b | signs(rng, form.b, b.shape)
    c = draw(rng, form.c, (form.m, form.n), "subnormal")
    return a, b, np.where(rng.random(c.shape) < 0.7, c & np.uint64(1 << (element_bits(form.c) - 1)), c)


def operands(rng: np.random.Generator, form: MmaForm, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C as bit patterns ``[matrix, row, column]``."""
    count = 4 if form.is_884 else 1
    if kind in ("last bit", "floor"):
        make = last_bit if kind == "last bit" else near_floor
        a, b, c = (np.stack(x) for x in zip(*(make(rng, form) for _ in range(count)), strict=True))
        return a, b, c
    a = np.stack([draw(rng, form.a, (form.m, form.k), kind) for _ in range(count)])
    b = np.stack([draw(rng, form.b, (form.k, form.n), kind) for _ in range(count)])
    # An accumulator of another size than the products now and then; huge ones would hide them.
    c_kind = kind if kind in ("raw", "special", "subnormal") else str(rng.choice(["near one", "wide", "subnormal", "sparse"]))
    c = np.stack([draw(rng, form.c, (form.m, form.n), c_kind) for _ in range(count)])
    if kind == "cancelling":  # neighbours in k cancel but for the last bits
        bits = element_bits(form.a)
        flip = np.uint64(1 << (bits - 1)) | rng.integers(0, 3, a[..., 1::2].shape, dtype=np.uint64)
        a[..., 1::2] = a[..., ::2] ^ flip
        b[:, 1::2] = b[:, ::2]
    return a, b, c


def run(plan: Plan, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D as bit patterns ``[matrix, row, column]``."""
    fragment = mma_fragment if plan.form.instruction == "mma" else wmma_fragment
    packed = (fragment(plan.form, name).pack(x) for name, x in zip("abc", (a, b, c), strict=True))
    d = fragment(plan.form, "d")
    return d.unpack(execute(plan, *packed)).reshape(d.matrices, d.rows, d.columns)


def expected(plan: Plan, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The reference's D."""
    form, rule = plan.form, plan.rule
    out = np.zeros(c.shape, np.uint64)
    for index in np.ndindex(*c.shape):
        matrix, row, column = index
        accumulator = int(c[index]) if form.c == rule.d else convert(int(c[index]), form.c, rule.d)
        d = dot(a[matrix, row].tolist(), b[matrix, :, column].tolist(), accumulator, rule, form.a, form.b, form.rounding)
        out[index] = d if form.d == rule.d else convert(d, rule.d, form.d)
    return out


def check(form: MmaForm, sm: int, kinds: tuple[str, ...] = KINDS, rounds: int = 1) -> None:
    plan = make_plan(form, sm)
    rng = np.random.default_rng(zlib.crc32(f"{form} {sm}".encode()))
    for kind in kinds * rounds:
        a, b, c = operands(rng, form, kind)
        found, right = run(plan, a, b, c), expected(plan, a, b, c)
        wrong = np.argwhere(found != right)
        first = tuple(wrong[0]) if len(wrong) else (0, 0, 0)
        assert not len(wrong), (
            f"{form} on sm_{sm}, {kind}: {len(wrong)} of {right.size} wrong, first at {first}: "
            f"{int(found[first]):#x} instead of {int(right[first]):#x}"
        )


FLOAT_FORMS = [f for f in MMA_FORMS if f.family in ("f16", "bf16", "tf32", "fp8")]


def newest_of_each_rule(form: MmaForm) -> list[int]:
    """One architecture for each different arithmetic of a form: the newest, but sm_90 where it is among them."""
    found: dict[tuple[object, ...], int] = {}
    for sm in ARCHITECTURES:
        if sm >= form.sm and (sm < 90 or sm in (90, 120)):
            rule = make_plan(form, sm).rule
            found[(rule.method, rule.products, rule.fraction_bits, rule.emax_floor, rule.output)] = sm
    return sorted(set(found.values()) | ({90} if form.sm <= 90 else set()))


CASES = [(form, sm) for form in FLOAT_FORMS for sm in newest_of_each_rule(form)]


@pytest.mark.parametrize("form, sm", CASES, ids=str)
def test_float_forms(form: MmaForm, sm: int) -> None:
    check(form, sm, rounds=2 if sm == 90 and not form.is_884 else 1)


@pytest.mark.parametrize("change", ["fraction_bits", "emax_floor", "kept_fraction_bits", "step_words"])
@pytest.mark.parametrize("sm", [80, 90])
def test_the_inputs_tell_rules_apart(sm: int, change: str) -> None:
    """One number of a rule off by one (or a step half as long) is noticed: the checks above do check."""
    form = find_form("mma", "m16n8k16", "bf16", "bf16", "f32", "f32")
    plan = make_plan(form, sm)
    numbers = plan.numbers
    assert isinstance(numbers, FloatNumbers)
    for off in (-1, 1):
        if change == "step_words":
            wrong = numbers._replace(step_words=numbers.step_words // 2)
        else:
            wrong = numbers._replace(step=numbers.step._replace(**{change: getattr(numbers.step, change) + off}))
        if wrong.step.kept_fraction_bits > 23:
            continue  # float32 has no more
        rng = np.random.default_rng(sm)
        differing = 0
        for kind in ("wide", "overflowing", "last bit", "floor", "floor"):
            a, b, c = operands(rng, form, kind)
            differing += int((run(replace(plan, numbers=wrong), a, b, c) != expected(plan, a, b, c)).sum())
        assert differing > 0


@pytest.mark.parametrize("form", [f for f in MMA_FORMS if f.a == "f64"], ids=str)
def test_f64_forms(form: MmaForm) -> None:
    check(form, 90)


@pytest.mark.parametrize("form", [f for f in WMMA_FORMS if f.family in ("f16", "bf16", "tf32", "f64")], ids=str)
def test_wmma_float_forms(form: MmaForm) -> None:
    check(form, 90, kinds=("raw", "near one", "subnormal", "special"))


@pytest.mark.parametrize("sm", [70, 75, 80])
def test_wmma_f16_on_older_architectures(sm: int) -> None:
    for c, d in (("f32", "f32"), ("f16", "f16")):
        check(find_form("wmma", "m16n16k16", "f16", "f16", c, d), sm, kinds=("near one", "wide", "special"))


def integer_values(bits: np.ndarray, ptx_type: str) -> np.ndarray:
    width = element_bits(ptx_type)
    values = bits.astype(np.int64)
    return np.where(values >> (width - 1) & 1, values - (1 << width), values) if ptx_type.startswith("s") else values


INTEGER_FORMS = [f for f in MMA_FORMS + WMMA_FORMS if f.family in ("int8", "int4")]


@pytest.mark.parametrize("form", INTEGER_FORMS, ids=str)
def test_integer_forms(form: MmaForm) -> None:
    plan = make_plan(form, 90)
    rng = np.random.default_rng(zlib.crc32(str(form).encode()))
    width = element_bits(form.a)
    for kind in ("raw", "extreme", "near the limits"):
        high = 1 << width
        choices = [0, 1, high // 2 - 1, high // 2, high - 1]
        a, b = (
            rng.integers(0, high, s, dtype=np.uint64) if kind == "raw" else rng.choice(choices, s).astype(np.uint64)
            for s in ((form.m, form.k), (form.k, form.n))
        )
        c = rng.integers(-(2**31), 2**31, (form.m, form.n))
        if kind == "near the limits":
            c = np.where(c < 0, -(2**31), 2**31 - 1) - np.sign(c) * rng.integers(0, 3 << width, c.shape)
        found = run(plan, a, b, c.astype(np.uint64) & np.uint64(0xFFFFFFFF))[0].astype(np.uint32).view(np.int32)
        exact = integer_values(a, form.a) @ integer_values(b, form.b) + c
        right = np.clip(exact, -(2**31), 2**31 - 1) if form.satfinite else exact.astype(np.int32)
        np.testing.assert_array_equal(found, right)
        assert kind != "near the limits" or ((exact != right).any() and (exact == right).any())
    one = integer_dot(
        integer_values(a, form.a)[0].tolist(), integer_values(b, form.b)[:, 0].tolist(), int(c[0, 0]), form.satfinite
    )
    assert one == found[0, 0]


@pytest.mark.parametrize("form", [f for f in MMA_FORMS + WMMA_FORMS if f.a == "b1"], ids=str)
def test_bit_forms(form: MmaForm) -> None:
    plan = make_plan(form, 90)
    rng = np.random.default_rng(form.k)
    a, b = rng.integers(0, 2, (form.m, form.k), dtype=np.uint64), rng.integers(0, 2, (form.k, form.n), dtype=np.uint64)
    c = rng.integers(2**32 - 200, 2**32, (form.m, form.n), dtype=np.uint64)  # some sums wrap
    matches = (a[:, :, None] ^ b) if form.bit_operation == "xor" else (a[:, :, None] & b)
    right = (matches.sum(axis=1) + c) % 2**32
    assert (right < 2**31).any()
    np.testing.assert_array_equal(run(plan, a, b, c)[0], right)


def test_accumulating_in_place() -> None:
    """``d`` and ``c`` may be the same registers."""
    rng = np.random.default_rng(7)
    for form in (*MMA_FORMS[:2], find_form("mma", "m16n8k16", "f16", "f16", "f16", "f16")):
        plan = make_plan(form, 90)
        a, b, c = (mma_fragment(form, name).pack(x) for name, x in zip("abc", operands(rng, form, "near one"), strict=True))
        right = execute(plan, a, b, c)
        plan.kernel(c, a, b, c, plan.numbers)
        np.testing.assert_array_equal(c, right)


# ------------------------------------------------------------------------------------------------------ one dot product


@cache
def edges(ptx_type: str) -> list[int]:
    """Bit patterns at the edges of a format, of either sign."""
    f = FLOAT_FORMATS[ptx_type]
    one = f.bias << (f.fraction_bits + f.ignored_low_bits)
    unit = 1 << f.ignored_low_bits
    least_normal = 1 << (f.fraction_bits + f.ignored_low_bits)
    largest = (f.nan if f.infinity is None else f.infinity) - unit
    magnitudes = {
        0,
        unit,
        2 * unit,
        least_normal - unit,
        least_normal,
        one - unit,
        one,
        one + unit,
        largest,
        largest + unit,
    }
    magnitudes |= {f.nan, f.magnitude_mask} | ({1, f.infinity + 1} if f.ignored_low_bits and f.infinity else set())
    return sorted(magnitudes | {m | 1 << (f.bits - 1) for m in magnitudes})


def patterns(ptx_type: str) -> st.SearchStrategy[int]:
    return st.sampled_from(edges(ptx_type)) | st.integers(0, (1 << FLOAT_FORMATS[ptx_type].bits) - 1)


# (tests/test_tensor_scaled.py does the same for the families with scales.)
DOT_TYPES = {"f16": ("f16", "f16"), "bf16": ("bf16", "bf16"), "tf32": ("tf32", "tf32"), "fp8": ("e4m3", "e5m2")}
DOT_RULES = [
    r for r in RULES.values() if r.family in DOT_TYPES and r.method.startswith("fused") and r.sm in (70, 75, 80, 89, 90, 120)
]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("rule", DOT_RULES, ids=lambda r: f"sm_{r.sm} {r.instruction} {r.family} {r.d}")
def test_dot_products_at_the_edges(rule: Rule, data: st.DataObject) -> None:
    a_type, b_type = DOT_TYPES[rule.family]
    k = 256 // element_bits(a_type)
    a = data.draw(st.lists(st.lists(patterns(a_type), min_size=k, max_size=k), min_size=2, max_size=2))
    b = data.draw(st.lists(st.lists(patterns(b_type), min_size=k, max_size=k), min_size=2, max_size=2))
    c = data.draw(st.lists(patterns(rule.d), min_size=2, max_size=2))
    found = block_dot(np.array(a, np.uint64), np.array(b, np.uint64), np.array(c, np.uint64), rule, a_type, b_type)
    right = [dot(x, y, z, rule, a_type, b_type) for x, y, z in zip(a, b, c, strict=True)]
    assert found.tolist() == right


def test_block_dot_refuses_what_does_not_fit() -> None:
    rule = find_rule(90, "mma", "f16", "f32")
    a = np.zeros((3, 16), np.uint16)
    with pytest.raises(BulkShapeError, match=r"\(3, 16\)"):
        block_dot(a, a[:2], np.zeros(3, np.uint32), rule, "f16")
    with pytest.raises(BulkShapeError, match="K up to 16"):
        block_dot(np.zeros((3, 17)), np.zeros((3, 17)), np.zeros(3, np.uint32), rule, "f16")
    with pytest.raises(BulkShapeError, match="method ffma"):
        block_dot(a, a, np.zeros(3, np.uint32), find_rule(90, "mma.m8n8k4", "f16", "f32"), "f16")
