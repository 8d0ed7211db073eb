"""Conversions with lists of operands (stochastic rounding to four numbers), and small formats from end to end."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

import isa.instructions  # noqa: F401  (fills the registry)
import tcsim
from isa.kernels.cache import kernel_address
from isa.kernels.wrap import KernelSpec
from isa.spec import find
from tests.reference import words
from tests.reference.formats import F32
from tests.reference.scalar_new import convert, small_value

_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int64)


def near_small(rng: random.Random) -> int:
    """A float32 in the range of the small formats: on a number, half way between two, or anywhere."""
    code = rng.getrandbits(5)
    value = small_value(rng.choice(["e2m1", "e2m3", "e3m2"]), code & 7 if rng.random() < 0.5 else code)
    word = F32.round(value) if value else rng.getrandbits(22)
    return word + rng.choice([0, 1, 0x1FFFFF, 0x200000, 0x80000, 0x100000, rng.getrandbits(20)]) | rng.getrandbits(1) << 31


@pytest.mark.parametrize("dtype", ["e4m3x4", "e2m1x4"])
def test_four_rounded_stochastically(dtype: str) -> None:
    opcode = f"cvt.rs.relu.satfinite.{dtype}.f32" if dtype == "e4m3x4" else f"cvt.rs.satfinite.{dtype}.f32"
    form = find(opcode)[0][0]
    kernel = _KERNEL(kernel_address(KernelSpec(form, (1, 1, 1), {})))
    rng = random.Random(opcode)
    offsets = np.array([0, *range(128, 128 * 6, 128)], np.int32)
    specials = words.specials(F32)
    for _ in range(20):
        rows = [[rng.choice([near_small(rng), rng.choice(specials)]) for _ in range(4)] for _ in range(32)]
        chance = [rng.getrandbits(32) for _ in range(32)]
        block = np.array([[0] * 32, *zip(*rows, strict=True), chance], np.uint32)
        assert kernel(block.ctypes.data, 0xFFFFFFFF, offsets.ctypes.data, 0) == 0
        for lane in range(32):
            want = convert(opcode.split(".")[1:-2], dtype, "f32", [*rows[lane], chance[lane]])
            assert int(block[0, lane]) == want, ([hex(word) for word in rows[lane]], hex(chance[lane]))


def test_a_kernel_packs_bytes() -> None:
    """The way CUDA's headers do it: 8-bit registers, put together by ``mov``."""
    source = """.version 8.6
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b64 a; .reg .f32 x, y; .reg .b32 r, h; .reg .b8 c0, c1, zero;
    ld.param.u64 a, [p];
    mov.f32 x, 0f40400000;
    mov.f32 y, 0fBF000000;
    cvt.rn.satfinite.e2m1x2.f32 c0, x, y;
    cvt.rn.satfinite.e2m1x2.f32 c1, y, x;
    cvt.rn.f16x2.e2m1x2 h, c0;
    mov.b32 r, {c0, c1, c0, c1};
    st.global.b32 [a], r;
    st.global.b32 [a+4], h;
    ret;
}
"""
    with tcsim.Device("sm_120"):
        out = tcsim.zeros(2, np.uint32)
        tcsim.RawKernel(source, "k")(1, 1, (out,))
    assert out.get().tolist() == [0x95599559, 0x4200B800]
