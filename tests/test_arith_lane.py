"""Lane functions in the loops they are made for: they keep their types, become vector code, and need no compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest

from isa.arith import approx, bfloat16, bitfield, compare, convert, float8, float16, float32, float64, integer
from isa.arith.primitives import select
from isa.arith.stack import stack_array

F32, F64, U32, S32, U16 = np.float32, np.float64, np.uint32, np.int32, np.uint16

# Function, operand types, result type: the longest of each kind, and those where numba would widen by itself.
VECTORISED = [
    (float32.fma_f32_rm, (F32,) * 3, F32),
    (float32.fma_ftz_f32_rn, (F32,) * 3, F32),
    (float64.fma_f64_rz, (F64,) * 3, F64),
    (float16.fma_f16x2, (U32,) * 3, U32),
    (bfloat16.fma_bf16x2, (U32,) * 3, U32),
    (compare.min_f32, (F32,) * 2, F32),
    (float8.f32x2_to_e4m3x2, (F32,) * 2, U16),
    (bitfield.prmt, (U32,) * 3, U32),
    (bitfield.fns, (U32, U32, S32), U32),
    (integer.div_s32, (S32,) * 2, S32),
    (approx.ex2_approx_f32, (F32,), F32),
    (approx.div_full_f32, (F32,) * 2, F32),
]


def lane_loop(function: Callable, result: type, operands: int) -> Callable:
    """A compiled loop over 32 lanes, written as the generated kernels are."""
    if operands == 1:

        @numba.njit(error_model="numpy")
        def loop(out, a):
            scratch = stack_array(32, result)
            for lane in range(32):
                scratch[lane] = function(a[lane])
            for lane in range(32):
                out[lane] = scratch[lane]

    elif operands == 2:

        @numba.njit(error_model="numpy")
        def loop(out, a, b):
            scratch = stack_array(32, result)
            for lane in range(32):
                scratch[lane] = function(a[lane], b[lane])
            for lane in range(32):
                out[lane] = scratch[lane]

    else:

        @numba.njit(error_model="numpy")
        def loop(out, a, b, c):
            scratch = stack_array(32, result)
            for lane in range(32):
                scratch[lane] = function(a[lane], b[lane], c[lane])
            for lane in range(32):
                out[lane] = scratch[lane]

    return loop


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs the compiler")
@pytest.mark.parametrize(("function", "operands", "result"), VECTORISED, ids=lambda x: getattr(x, "__name__", ""))
def test_becomes_vector_code(function: Callable, operands: tuple[type, ...], result: type) -> None:
    loop = lane_loop(function, result, len(operands))
    columns = [np.ones(32, dtype) for dtype in operands]
    out = np.zeros(32, result)
    loop(out, *columns)
    assert np.array_equal(out, np.full(32, function(*(column[0] for column in columns)), result))
    code = next(iter(loop.inspect_llvm().values()))
    assert re.search(r"= (?:f?add|f?mul|fma|and|[fi]cmp \w+|select) <\d+ x ", code), "the loop stayed scalar"


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="needs the compiler")
@pytest.mark.parametrize(
    ("function", "operands", "result"),
    [
        (bitfield.lop3, (U32, U32, U32, np.int64), U32),
        (bitfield.selector_ecl, (U32,), U32),
        (bitfield.bfe_u32, (U32,) * 3, U32),
        (bitfield.shl_b16, (U16, U32), U16),
        (convert.f32_to_tf32_rna, (F32,), U32),
        (integer.sad_u16, (U16,) * 3, U16),
        (integer.abs_s32, (S32,), S32),
        (float16.add_f16, (U16,) * 2, U16),
        (float32.add_f32_rz, (F32,) * 2, F32),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_keeps_its_width(function: Callable, operands: tuple[type, ...], result: type) -> None:
    types = tuple(numba.from_dtype(np.dtype(dtype)) for dtype in operands)
    function.compile(types)
    assert function.overloads[types].signature.return_type == numba.from_dtype(np.dtype(result))


def test_select_computes_both_and_picks_one() -> None:
    @numba.njit
    def compiled(condition, a, b):
        return select(condition, a, b)

    for pick in (compiled, select):
        assert pick(True, np.uint32(1), np.uint32(2)) == 1
        assert pick(False, np.float64(1.5), np.float64(2.5)) == 2.5


PROGRAM = """
import numpy as np
from isa.arith import approx, bitfield, convert, float16, float32, float64
from isa.arith.primitives import bits_f32, bits_f64, f32_bits, f64_bits
x, y, z = (bits_f32(np.uint32(w)) for w in (0x3F8CCCCD, 0xBF99999A, 0x00000123))
d, e = bits_f64(np.uint64(0x3FF123456789ABCD)), bits_f64(np.uint64(0x3E50000000000001))
words = [f32_bits(float32.fma_f32_rz(x, y, z)), f32_bits(float32.div_f32_rp(x, y)),
         f64_bits(float64.fma_f64_rm(d, e, d)),
         float16.fma_f16x2(np.uint32(0x3C013C02), np.uint32(0x42004300), np.uint32(0xC200C301)),
         f32_bits(approx.ex2_approx_f32(y)), f32_bits(approx.sin_approx_f32(x)), convert.f64_to_f16_rp(d),
         bitfield.prmt(np.uint32(0x12345678), np.uint32(0x9ABCDEF0), np.uint32(0x7A1C))]
print(*(f"{int(w):x}" for w in words))
"""


def test_plain_python_gives_the_same_bits() -> None:
    """``NUMBA_DISABLE_JIT=1`` runs the functions as they are written."""
    root = Path(__file__).parents[1]

    def run(disabled: str) -> str:
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("1") == run("0")
