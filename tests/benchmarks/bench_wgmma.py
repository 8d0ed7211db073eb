"""How many products a core computes in a second by executing ``wgmma`` in a kernel.

    python -m pytest tests/benchmarks/bench_wgmma.py --benchmark-columns=median

``m_products_per_second`` in the extra information is what to read. One CTA of a warpgroup; A and B in shared memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcsim
from isa.tensor.forms import element_bits
from isa.tensor.matrix_descriptor import Descriptor
from isa.tensor.wgmma_forms import find_wgmma_form
from isa.tensor.wgmma_plans import accumulator_registers, operand_order

LOOPS = 200

CASES = [
    ("m64n128k16", "f32", "f16"), ("m64n256k16", "f32", "bf16"), ("m64n128k16", "f16", "f16"), ("m64n128k8", "f32", "tf32"),
    ("m64n256k32", "f32", "e4m3"), ("m64n8k16", "f32", "f16"), ("m64n128k32", "s32", "s8"), ("m64n128k256", "s32", "b1"),
]  # fmt: skip

KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u64 da, .param .u64 db)
{{
    .reg .b32 %d<{registers}>, %r<6>;
    .reg .b64 %rd<4>;
    .reg .pred %p, %on;
    .shared .align 1024 .b8 tiles[{bytes}];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %r0;
    ld.param.u64 %rd0, [in];
COPY:
    mul.wide.u32 %rd1, %r1, 4;
    add.u64 %rd1, %rd1, %rd0;
    ld.global.u32 %r2, [%rd1];
    mov.u32 %r3, tiles;
    mad.lo.u32 %r3, %r1, 4, %r3;
    st.shared.u32 [%r3], %r2;
    add.u32 %r1, %r1, 128;
    setp.lt.u32 %p, %r1, {words};
    @%p bra COPY;
    bar.sync 0;
    {zeros}
    setp.eq.u32 %on, %r0, %r0;
    ld.param.u64 %rd2, [da];
    ld.param.u64 %rd3, [db];
    mov.u32 %r4, 0;
LOOP:
    {form} {{{vector}}}, %rd2, %rd3, {tail};
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p, %r4, {loops};
    @%p bra LOOP;
    ret;
}}
"""


@pytest.mark.parametrize(("shape", "d", "a"), CASES, ids=["-".join(case) for case in CASES])
def test_products(shape: str, d: str, a: str, benchmark: Any) -> None:
    form = find_wgmma_form(shape, d, a, a, bit_operation="and" if a == "b1" else "")
    registers = accumulator_registers(form)
    words = (64 + form.n) * form.k * element_bits(a) // 32
    given = {"scale_d": "%on", "scale_a": "1", "scale_b": "1", "trans_a": "0", "trans_b": "0"}
    text = KERNEL.format(
        form=form, registers=registers, words=words, bytes=4 * words, loops=LOOPS,
        vector=", ".join(f"%d{i}" for i in range(registers)), zeros=" ".join(f"mov.b32 %d{i}, 0;" for i in range(registers)),
        tail=", ".join(given[name] for name in operand_order(form, False)),
    )  # fmt: skip
    function = tcsim.RawModule(code=text).get_function("k")
    a_matrix, b_matrix = (Descriptor(start, 128, 256).encode() for start in (0, 64 * form.k * element_bits(a) // 8))
    one = {"f16": 0x3C003800, "bf16": 0x3F803F00, "tf32": 0x3F800000, "e4m3": 0x38303C34}.get(a, 0x01020304)
    data = tcsim.asarray(np.full(words, one, np.uint32))
    arguments = (tcsim.zeros(1, np.uint32), data, np.uint64(a_matrix), np.uint64(b_matrix))
    function((1,), (128,), arguments)
    benchmark(function, (1,), (128,), arguments)
    products = LOOPS * form.m * form.n * form.k
    benchmark.extra_info["m_products_per_second"] = round(products / benchmark.stats["median"] / 1e6)
