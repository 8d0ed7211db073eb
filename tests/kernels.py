"""Small kernels in PTX for tests: write the body, get the results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tcsim

HEADER = ".version 8.0\n.target {target}\n.address_size 64\n"

PROLOGUE = """
.visible .entry k(.param .u64 out, .param .u64 in)
{{
    .reg .b32 %r<60>; .reg .b64 %rd<40>; .reg .pred %p<20>; .reg .f32 %f<40>; .reg .f64 %fd<20>; .reg .b16 %h<40>;
    .reg .b32 tid, lane, result; .reg .b64 pout, pin, slot;
    ld.param.u64 pout, [out];
    ld.param.u64 pin, [in];
    mov.u32 tid, %tid.x;
    mov.u32 lane, %laneid;
    mov.u32 result, 0;
    mul.wide.u32 slot, tid, 4;
    add.s64 slot, slot, pout;
{body}
    st.global.u32 [slot], result;
    ret;
}}
"""


def kernel(body: str, *, target: str = "sm_80", declarations: str = "") -> str:
    """PTX of a kernel that computes ``result`` per thread and stores it to ``out[tid]``; ``pin`` is a second buffer.

    Registers: %r %rd %p %f %fd %h, ``tid``, ``lane``, ``result``.
    """
    return HEADER.format(target=target) + declarations + PROLOGUE.format(body=body)


def run(
    body: str,
    threads: int = 32,
    *,
    data: NDArray[Any] | None = None,
    target: str = "sm_80",
    declarations: str = "",
    grid: int = 1,
) -> NDArray[np.uint32]:
    """Run :func:`kernel` with one CTA (or ``grid``) of ``threads`` threads; returns the results of all threads
    (of each CTA's own ``tid``, the last CTA winning). ``data`` is put into the second buffer."""
    function = tcsim.RawModule(code=kernel(body, target=target, declarations=declarations)).get_function("k")
    out = tcsim.zeros(threads, np.uint32)
    buffer = tcsim.asarray(np.zeros(64, np.uint32) if data is None else data)
    function((grid,), (threads,), (out, buffer))
    run.buffer = tcsim.asnumpy(buffer)  # type: ignore[attr-defined]
    return tcsim.asnumpy(out)


def words(values: Sequence[int]) -> NDArray[np.uint32]:
    """uint32 array."""
    return np.array(values, np.uint32)
