"""The grammar of argument specifications, and the bytes that generators make."""

from __future__ import annotations

import hashlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcsim.bundle import (
    DTYPES,
    GENERATORS,
    Argument,
    ArgumentError,
    BundleError,
    decode,
    encode,
    generate,
    parse_argument,
)
from tcsim.bundle.generators import random_words

# ------------------------------------------------------------------------------------------------------- the grammar


@pytest.mark.parametrize(
    ("text", "role", "spec"),
    [
        ("f16[1024,1024]:normal", "in", "f16[1024,1024]:normal(0,1)@3"),
        ("f32[4096]:uniform(-1,1)", "in", "f32[4096]:uniform(-1,1)@3"),
        ("f32[4096]:uniform( -1 , 0.5 )@7", "in", "f32[4096]:uniform(-1,0.5)@7"),
        ("i32:1024", "in", "s32:1024"),
        ("u64:5", "in", "u64:5"),
        ("f32:0.5", "in", "f32:0.5"),
        ("f64:-inf", "in", "f64:-inf"),
        ("b32:0x7fc00000", "in", "b32:2143289344"),
        ("out f32[1024, 1024]", "out", "f32[1024,1024]:zeros"),
        ("inout u32[1]:const(0xff)", "inout", "u32[1]:const(255)"),
        ("s8[64,64]:randint(-128,127)", "in", "s8[64,64]:randint(-128,127)@3"),
        ("u8[16]:file(weights.bin)", "in", "u8[16]:file(weights.bin)"),
        ("e4m3[8]:bits@18446744073709551615", "in", "e4m3[8]:bits@18446744073709551615"),
        ("s32[7]:arange(3)", "in", "s32[7]:arange(3,1)"),
    ],
)
def test_accepted(text: str, role: str, spec: str) -> None:
    argument = parse_argument(text, position=2)
    assert (argument.role, argument.spec) == (role, spec)


@pytest.mark.parametrize(
    ("text", "marked", "says"),
    [
        ("f16[4]:normall", "normall", "did you mean 'normal'"),
        ("f33:1", "f33", "unknown type"),
        ("", "", "expected a type"),
        ("f32[4:zeros", "[4:zeros", "never closed"),
        ("f32[0]:zeros", "0", "not an extent"),
        ("f32[4,]:zeros", "", "not an extent"),
        ("f32[1e3]:zeros", "1e3", "not an extent"),
        ("f64[1000000,1000000]:zeros", "[1000000,1000000]", "bytes"),
        ("f32", "", "needs a value"),
        ("f32:", "", "not a number"),
        ("i32:1.5", "1.5", "not a whole number"),
        ("s8:200", "200", "-128..127"),
        ("u16:-1", "-1", "0..65535"),
        ("f32:normal", "normal", "takes a number"),
        ("f32[4]", "", "nothing says what fills"),
        ("f32[4]:3", "3", "unknown generator"),
        ("f32[4]:", "", "const(number)"),
        ("f32[4]:const", "const", "lacks its parameter 'value'"),
        ("f32[4]:const(abc)", "abc", "not a number"),
        ("f32[4]:uniform(1,2,3)", "3", "too many"),
        ("f32[4]:uniform(1", "(1", "never closed"),
        ("u8[4]:uniform(0,1)", "uniform", "randint"),
        ("f32[4]:permutation", "permutation", "integer type"),
        ("u8[257]:permutation", "permutation", "do not fit u8"),
        ("s8[4]:randint(0,300)", "randint(0,300)", "does not fit s8"),
        ("s8[4]:randint(5,4)", "randint(5,4)", "empty"),
        ("s8[4]:randint(0.5,4)", "0.5", "not a whole number"),
        ("u8[4]:const(256)", "const(256)", "0..255"),
        ("f32[4]:zeros@3", "@3", "takes no seed"),
        ("f32[4]:normal@x", "@x", "seed"),
        ("f32[4]:normal@18446744073709551616", "@18446744073709551616", "2^64"),
        ("f32[4]:normal junk", " junk", "unexpected 'junk'"),
        ("inn f32[4]:zeros", "inn", "did you mean 'in'"),
        ("out i32:5", "out i32", "cannot be 'out'"),
        ("u8[4]:file()", "file()", "lacks its parameter 'name'"),
    ],
)
def test_refused(text: str, marked: str, says: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_argument(text)
    error = caught.value
    assert text[error.start : error.end] == marked
    assert says in str(error)
    assert repr(text) in str(error) and "^" in str(error)


_dtypes = st.sampled_from(sorted(DTYPES.values(), key=lambda dtype: dtype.name))
_reals = st.floats(allow_nan=False, allow_infinity=False, width=64)


@st.composite
def _arguments(draw: st.DrawFn) -> Argument:
    """Any argument that can be written down."""
    dtype = draw(_dtypes)
    low, high = dtype.integer_range() if dtype.kind != "float" else (-(1 << 20), 1 << 20)
    whole = st.integers(low, high)
    if draw(st.booleans()):
        return Argument(dtype, None, value=draw(_reals if dtype.kind == "float" else whole))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    role = draw(st.sampled_from(["in", "out", "inout"]))
    size = int(np.prod(shape))
    allowed = [g for g in GENERATORS.values() if dtype.kind in g.kinds and g.name != "file"]
    generator = draw(
        st.sampled_from([g for g in allowed if g.name != "permutation" or size - 1 <= dtype.integer_range()[1]])
    )
    numbers = {"real": _reals, "integer": whole, "element": _reals if dtype.kind == "float" else whole}
    parameters = [draw(numbers[generator.numbers]) for _ in generator.parameters]
    if generator.name == "randint":
        parameters.sort()
    seed = draw(st.integers(0, (1 << 64) - 1)) if generator.random else None
    return Argument(dtype, shape, role, "", None, generator.name, tuple(parameters), seed)


@given(_arguments(), st.integers(0, 5))
def test_spec_round_trip(argument: Argument, position: int) -> None:
    again = parse_argument(f"{argument.role} {argument.spec}", position)
    assert again == argument
    assert again.spec == argument.spec


@given(st.text(alphabet="f16u32e4m[],:()@. -normal", max_size=20))
def test_any_text_parses_or_is_explained(text: str) -> None:
    try:
        argument = parse_argument(text)
    except ArgumentError as error:
        assert 0 <= error.start <= error.end <= max(1, len(text))
    else:
        assert parse_argument(f"{argument.role} {argument.spec}") == argument


@given(_arguments())
def test_values_have_the_declared_type_and_shape(argument: Argument) -> None:
    if argument.shape is None:
        scalar = argument.scalar()
        assert scalar.dtype == argument.dtype.storage
        assert scalar.nbytes == argument.bytes
    else:
        array = argument.array()
        assert array.dtype == argument.dtype.storage
        assert array.shape == argument.shape
        assert array.nbytes == argument.bytes


def test_default_seeds_follow_the_position() -> None:
    first, second = (parse_argument("f32[64]:normal", position) for position in (0, 1))
    assert (first.seed, second.seed) == (1, 2)
    assert not np.array_equal(first.array(), second.array())


def test_scalar_bits() -> None:
    assert parse_argument("bf16:1").scalar() == np.uint16(0x3F80)
    assert parse_argument("e4m3:448").scalar() == np.uint8(0x7E)
    assert parse_argument("s16:-2").scalar() == np.int16(-2)
    assert parse_argument("b64:0xffffffffffffffff").scalar() == np.uint64(0xFFFFFFFFFFFFFFFF)


# ---------------------------------------------------------------------------------------------- generators: the bytes

PINNED = {
    "f16[1000]:normal@1": "e623f37148ad2460",
    "bf16[1000]:normal(1,3)@2": "78ee12eb9509841c",
    "f32[1000]:normal@3": "f17547d8cbf1bab8",
    "f64[1000]:normal@4": "701dff32e3da9c54",
    "e4m3[1000]:normal@5": "e2a47219e6408e5b",
    "e5m2[1000]:normal@6": "01325edad497f0d0",
    "u8[1000]:normal(128,20)@7": "59d4fda6f78ae67d",
    "f16[1000]:uniform@8": "f87cc01ce152b589",
    "f32[1000]:uniform(-1,1)@9": "61f7260776d225e3",
    "f64[1000]:uniform(0,1e-300)@10": "0ed0e8eea8496d7c",
    "s8[1000]:randint(-128,127)@11": "05084df6051aa9d3",
    "s64[1000]:randint(-9223372036854775808,9223372036854775807)@12": "20a7c472042fb53d",
    "f32[1000]:randint(-7,7)@13": "c13d2da05b77945d",
    "u32[1000]:permutation@14": "a8a23adce62e50ad",
    "f32[1000]:bits@15": "c9d32d58932fe06c",
    "e4m3[1001]:bits@16": "c92ebb210dd684e8",
    "f16[1000]:arange(-2,0.25)": "32895e25d5897390",
    "u8[1000]:arange(250,3)": "423983bfea441638",
    "bf16[1000]:const(0.1)": "4c5f33e2aedf2013",
    "f16[300000]:normal@17": "0f86253f8b0038cf",
}
"""The first 16 digits of the SHA-256 of each array. They may never change: recorded bundles name arrays by generator."""


@pytest.mark.parametrize("spec", PINNED)
def test_pinned_checksums(spec: str) -> None:
    assert hashlib.sha256(parse_argument(spec).array().tobytes()).hexdigest()[:16] == PINNED[spec]


def _philox(key: int, counter: int) -> list[int]:
    """One block of Philox4x64-10, written from its publication (Salmon et al., SC'11, table 2 and section 3.3)."""
    mask = (1 << 64) - 1
    words = [(counter >> (64 * i)) & mask for i in range(4)]
    keys = [key & mask, key >> 64]
    for _ in range(10):
        product0, product1 = words[0] * 0xD2E7470EE14C6C93, words[2] * 0xCA5A826395121157
        words = [
            (product1 >> 64) ^ words[1] ^ keys[0],
            product1 & mask,
            (product0 >> 64) ^ words[3] ^ keys[1],
            product0 & mask,
        ]
        keys = [(keys[0] + 0x9E3779B97F4A7C15) & mask, (keys[1] + 0xBB67AE8584CAA73B) & mask]
    return words


@given(st.integers(0, (1 << 64) - 1), st.integers(0, 100))
def test_words_are_philox(seed: int, block: int) -> None:
    assert random_words(seed, 4, skip=4 * block).tolist() == _philox(seed, block + 1)


def test_normal_is_the_documented_sum() -> None:
    words = random_words(21, 12).reshape(2, 6).tolist()
    sums = [sum((w & 0xFFFFFFFF) + (w >> 32) for w in six) for six in words]
    expected = [2.0 + 0.5 * ((s - 6 * 0xFFFFFFFF) / 2**32) for s in sums]
    assert parse_argument("f64[2]:normal(2,0.5)@21").array().tolist() == expected


def test_normal_looks_normal() -> None:
    z = parse_argument("f64[200000]:normal@3").array()
    inside = [(np.abs(z) < k).mean() for k in (1, 2, 3)]
    assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01
    assert np.allclose(inside, [0.683, 0.954, 0.997], atol=0.006)  # Irwin-Hall of 12 is within 0.003 of these


def test_uniform_and_randint_cover_their_range() -> None:
    u = parse_argument("f64[100000]:uniform(-2,3)@1").array()
    assert u.min() >= -2 and u.max() < 3 and abs(u.mean() - 0.5) < 0.02
    counts = np.bincount(parse_argument("s8[100000]:randint(-3,3)@1").array().astype(int) + 3)
    assert len(counts) == 7 and counts.min() > 13000


def test_permutation_holds_each_index_once() -> None:
    assert np.array_equal(np.sort(parse_argument("u16[5000]:permutation@9").array()), np.arange(5000))


def test_files(tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(bytes(range(16)))
    np.save(tmp_path / "array.npy", np.arange(4, dtype=np.float32))
    raw = parse_argument("u32[2,2]:file(raw.bin)").array(tmp_path)
    assert raw.tolist() == [[0x03020100, 0x07060504], [0x0B0A0908, 0x0F0E0D0C]]
    assert parse_argument("f32[4]:file(array.npy)").array(tmp_path).tolist() == [0, 1, 2, 3]
    with pytest.raises(BundleError, match="holds 16 bytes, but 5 elements of u32 are 20 bytes"):
        parse_argument("u32[5]:file(raw.bin)").array(tmp_path)
    with pytest.raises(BundleError, match="there is no file"):
        parse_argument("u32[5]:file(gone.bin)").array(tmp_path)


# ------------------------------------------------------------------------------------------------ small floats

_ML = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("name", _ML)
def test_decode_agrees_with_ml_dtypes(name: str) -> None:
    dtype = DTYPES[name]
    bits = np.arange(1 << dtype.bits, dtype=np.uint32).astype(f"u{dtype.bytes}")
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        values = bits.view(_ML[name]).astype(np.float64)
    assert np.array_equal(decode(bits.view(dtype.storage), dtype), values, equal_nan=True)


@pytest.mark.parametrize("name", _ML)
@given(value=st.floats(allow_nan=False, width=64))
def test_encode_rounds_to_nearest_even(name: str, value: float) -> None:
    dtype = DTYPES[name]
    largest = float(ml_dtypes.finfo(_ML[name]).max)
    encoded = encode(np.array([value]), dtype)
    with np.errstate(over="ignore"):
        # From f64 in one step for f16; ml_dtypes goes through f32, so give it a value that f32 holds.
        narrow = np.array([value]) if name == "f16" else np.array([value], dtype=np.float32).astype(np.float64)
    if dtype.bits == 8 and abs(value) > largest:
        assert decode(encoded, dtype)[0] == np.copysign(largest, value)
    elif narrow[0] == value:
        with np.errstate(over="ignore"):
            expected = narrow.astype(_ML[name])
        assert encoded.view(f"u{dtype.bytes}")[0] == expected.view(f"u{dtype.bytes}")[0]


@pytest.mark.parametrize("name", _ML)
def test_encode_inverts_decode(name: str) -> None:
    dtype = DTYPES[name]
    bits = np.arange(1 << dtype.bits, dtype=np.uint32).astype(f"u{dtype.bytes}")
    values = decode(bits.view(dtype.storage), dtype)
    kept = np.isfinite(values) | (np.isinf(values) & (dtype.bits > 8))
    assert np.array_equal(encode(values[kept], dtype).view(f"u{dtype.bytes}"), bits[kept])


def test_encode_ties() -> None:
    e4m3 = DTYPES["e4m3"]
    # 1 + 1/16 lies between 1 and 1.125: even is 1. 1 + 3/16 lies between 1.125 and 1.25: even is 1.25.
    assert decode(encode(np.array([1.0625, 1.1875, 2.0**-10, 3 * 2.0**-10]), e4m3), e4m3).tolist() == [
        1,
        1.25,
        0,
        2.0**-8,
    ]


def test_integers_round_and_saturate() -> None:
    values = np.array([0.5, 1.5, -300.0, 300.0, np.nan, np.inf])
    assert encode(values, DTYPES["s8"]).tolist() == [0, 2, -128, 127, 0, 127]
    assert encode(np.array([2.0**64, -1.0, 2.0**63]), DTYPES["u64"]).tolist() == [(1 << 64) - 1, 0, 1 << 63]


def test_generate_needs_no_parser() -> None:
    assert generate(DTYPES["s32"], (2, 2), "arange", (0, 1)).tolist() == [[0, 1], [2, 3]]
