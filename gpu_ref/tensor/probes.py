"""Small kernels whose results on hardware the PTX ISA leaves open, or that are easily got wrong.

Every probe is a PTX kernel ``probe(in, out)`` of two buffers; it runs on a GPU and on tcsim as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

__all__ = ["ENTRY", "Probe", "kernel"]

ENTRY = "probe"


@dataclass(frozen=True)
class Probe:
    """``ptx`` has the kernel :data:`ENTRY`, to be launched with ``grid`` CTAs of ``block`` threads on ``data`` and a buffer of
    ``out_words`` words of 32 bits that starts out as zeros."""

    name: str
    ptx: str
    grid: int
    block: int
    data: NDArray[Any]
    out_words: int


_FRAME = """.version 9.0
.target sm_90
.address_size 64
{declarations}
.visible .entry {entry}(.param .u64 in, .param .u64 out)
{{
    .reg .b16 %h<100>; .reg .b32 %r<100>; .reg .b64 %rd<100>; .reg .pred %p<20>;
    .reg .b32 %thread, %lane, %cta, %index; .reg .b64 %in, %out;
    ld.param.u64 %in, [in];
    cvta.to.global.u64 %in, %in;
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    mov.u32 %thread, %tid.x;
    mov.u32 %cta, %ctaid.x;
    and.b32 %lane, %thread, 31;
    mad.lo.u32 %index, %cta, {block}, %thread;
{body}
    ret;
}}
"""


def kernel(body: Sequence[str], block: int, declarations: str = "") -> str:
    """The PTX of a probe. The body may use %h, %r, %rd (0 to 99), %p (0 to 19), and finds the buffers in %in and %out, the
    thread's number in its CTA in %thread and in the grid in %index, its %lane and %cta."""
    text = "\n".join(line if line.endswith(":") else f"    {line}" for line in body)
    return _FRAME.format(declarations=declarations, entry=ENTRY, block=block, body=text)
