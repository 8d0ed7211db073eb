"""Products and sums of pairs of f32: which ptxas 13.0 makes one multiply-add of, read from its machine code for sm_100a."""

from __future__ import annotations

import pytest

from isa.lower import lower
from isa.ptx import parse

KERNEL = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p)
{{
    .reg .b64 a, x, y, z, w, m, n, d, e;
    ld.param.u64 a, [p];
    ld.global.b64 x, [a]; ld.global.b64 y, [a+8]; ld.global.b64 z, [a+16]; ld.global.b64 w, [a+24];
    {body}
    st.global.b64 [a], d;
    st.global.b64 [a+8], e;
    ret;
}}
"""
# What the machine code has: FFMA2 with its signs, FMUL2, FADD2.
CASES = {
    "mul.f32x2 m, x, y; add.f32x2 d, m, z; mov.b64 e, d;": ["fma.rn.f32x2"],
    "mul.rn.f32x2 m, x, y; add.f32x2 d, m, z; mov.b64 e, d;": ["fma.rn.f32x2"],
    "mul.rz.f32x2 m, x, y; add.rz.f32x2 d, m, z; mov.b64 e, d;": ["fma.rz.f32x2"],
    "mul.rz.f32x2 m, x, y; add.f32x2 d, m, z; mov.b64 e, d;": ["mul.rz.f32x2", "add.f32x2"],
    "mul.ftz.f32x2 m, x, y; add.ftz.f32x2 d, m, z; mov.b64 e, d;": ["fma.rn.ftz.f32x2"],
    "mul.ftz.f32x2 m, x, y; add.f32x2 d, m, z; mov.b64 e, d;": ["mul.ftz.f32x2", "add.f32x2"],
    "mul.f32x2 m, x, y; sub.f32x2 d, m, z; mov.b64 e, d;": ["fused_multiply_add.minus_addend.rn.f32x2"],
    "mul.f32x2 m, x, y; sub.f32x2 d, z, m; mov.b64 e, d;": ["fused_multiply_add.minus_product.rn.f32x2"],
    "mul.f32x2 m, x, y; add.f32x2 d, m, z; mov.b64 e, m;": ["mul.f32x2", "add.f32x2"],
    "mul.f32x2 m, x, y; add.f32x2 d, m, z; add.f32x2 e, m, w;": ["fma.rn.f32x2", "fma.rn.f32x2"],
    "mul.f32x2 m, x, y; mul.f32x2 n, z, w; add.f32x2 d, m, n; mov.b64 e, d;": ["mul.f32x2", "fma.rn.f32x2"],
    "mul.f32x2 m, x, y; add.f32x2 d, m, m; mov.b64 e, d;": ["mul.f32x2", "add.f32x2"],
}


@pytest.mark.parametrize("body", CASES)
def test_pairs_are_contracted_as_ptxas_does(body: str) -> None:
    program = lower(parse(KERNEL.format(body=body)), "k", sm=100)
    assert [opcode for opcode in program.opcodes if "f32x2" in opcode] == CASES[body]
