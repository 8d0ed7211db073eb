"""Which L2 slice is where: the latency of each line from each SM.

One SM at a time loads a line several times past the L1 and keeps the smallest latency. Lines of one slice have the same
latencies from all SMs; an SM has half of the slices near.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .gpu import BenchError, Benchmark, Gpu
from .ptx import module, plain_kernel
from .results import Number, Outcome

__all__ = ["FAMILY", "analyse", "benchmarks"]

FAMILY = "slices"
LINES = 768
STEP = 128

_PROBE = """\
    .reg .b64 %out, %at, %begin, %end; .reg .b32 %target, %n, %sm, %rep, %least, %span, %v; .reg .pred %p, %more, %never;
    ld.param.u64 %out, [out]; ld.param.u64 %at, [data]; ld.param.u32 %target, [target]; ld.param.u32 %n, [count];
    mov.u32 %sm, %smid; setp.ne.u32 %p, %sm, %target;
    @%p ret;
LINE:
    mov.u32 %least, 100000; mov.u32 %rep, 6;
REPEAT:
    mov.u64 %begin, %clock64;
    ld.volatile.global.u32 %v, [%at];
    setp.eq.u32 %never, %v, 0x12345678;
    @%never st.volatile.global.u32 [%out], %v;
    mov.u64 %end, %clock64;
    sub.u64 %end, %end, %begin; cvt.u32.u64 %span, %end; min.u32 %least, %least, %span;
    sub.u32 %rep, %rep, 1; setp.ne.u32 %more, %rep, 0;
    @%more bra REPEAT;
    st.global.u32 [%out], %least;
    add.u64 %out, %out, 4; add.u64 %at, %at, @STEP@;
    sub.u32 %n, %n, 1; setp.ne.u32 %more, %n, 0;
    @%more bra LINE;
    ret;"""


# Every thread reads 16 bytes at a time, 4 MiB apart.
_FLUSH = """\
    .reg .b64 %at, %a; .reg .b32 %n, %i, %t, %r<4>, %sum; .reg .pred %more, %never;
    ld.param.u64 %at, [data]; ld.param.u32 %n, [count];
    mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, 256, %t; mul.wide.u32 %a, %i, 16; add.u64 %at, %at, %a;
    mov.u32 %sum, 0;
NEXT:
    ld.global.cg.v4.u32 {%r0, %r1, %r2, %r3}, [%at];
    xor.b32 %sum, %sum, %r0;
    add.u64 %at, %at, 4194304;
    sub.u32 %n, %n, 1; setp.ne.u32 %more, %n, 0;
    @%more bra NEXT;
    setp.eq.u32 %never, %sum, 0x12345678;
    @%never st.global.u32 [%at], %sum;
    ret;"""


def analyse(latencies: npt.NDArray[np.float64]) -> dict[str, object]:
    """``latencies``: [SMs, lines]. Two groups of lines (near one half of the SMs or the other) from the sign of the first
    principal component, likewise two groups of SMs; mean near and far latency; mean per SM."""
    centred = latencies - latencies.mean(axis=1, keepdims=True) - latencies.mean(axis=0, keepdims=True) + latencies.mean()
    left, strength, right = np.linalg.svd(centred, full_matrices=False)
    sms, lines = left[:, 0] > 0, right[0] > 0
    same = sms[:, None] == lines[None, :]
    first, second = float(latencies[same].mean()), float(latencies[~same].mean())
    near, far = min(first, second), max(first, second)
    return {
        "near": near,
        "far": far,
        "share_of_variance": float(strength[0] ** 2 / max(1e-9, float((strength**2).sum()))),
        "sm_half": sms.astype(int).tolist(),
        "line_half": lines.astype(int).tolist(),
        "sm_mean": latencies.mean(axis=1).round(1).tolist(),
    }


def _groups(latencies: npt.NDArray[np.float64], tolerance: float) -> int:
    """How many different columns there are: a column joins the first whose mean absolute difference is below ``tolerance``."""
    kept: list[npt.NDArray[np.float64]] = []
    for column in latencies.T:
        if not any(float(np.abs(column - other).mean()) < tolerance for other in kept):
            kept.append(column)
    return len(kept)


def _measure(gpu: Gpu) -> Outcome:
    data = gpu.upload(np.zeros(LINES * STEP, np.uint8))
    out = gpu.empty(4 * LINES)
    rows = np.zeros((gpu.sms, LINES), np.uint16)
    for sm in range(gpu.sms):
        # One CTA fits on an SM at a time. All but those of the wanted SM leave at once; twice as many as SMs reach them all.
        gpu.launch("probe", 2 * gpu.sms, 1, [out, data, np.uint32(sm), np.uint32(LINES)], 128 * 1024)
        rows[sm] = out.get().view(np.uint32)[:LINES]
        out = gpu.empty(4 * LINES)
    reached = rows.min(axis=1) > 0
    if not reached.any():
        raise BenchError("no SM answered under its %smid")
    found = analyse(rows[reached].astype(np.float64))
    outcome = Outcome(raw={**found, "sms_reached": int(reached.sum())}, arrays={"latency": rows})
    how = f"smallest of 6 loads past the L1 of each of {LINES} neighbouring lines, from each SM in turn, clocks around the load"
    outcome.numbers["near"] = Number(float(str(found["near"])), "cycles", f"{how}; mean of near lines")
    outcome.numbers["far"] = Number(float(str(found["far"])), "cycles", f"{how}; mean of far lines")
    outcome.numbers["least"] = Number(float(rows[reached].min()), "cycles", f"{how}; smallest")
    outcome.numbers["most"] = Number(float(np.percentile(rows[reached], 99)), "cycles", f"{how}; 99th percentile")
    for tolerance in (2.0, 4.0, 6.0):
        count = _groups(rows[reached].astype(np.float64), tolerance)
        outcome.numbers[f"groups_{tolerance:.0f}"] = Number(
            float(count), "slices", f"lines that differ by {tolerance} cycles or more in the mean over SMs"
        )
    return outcome


def _homes(gpu: Gpu) -> Outcome:
    """After all lines left the L2 and SM 0 has loaded each once: the latency of the first load by another SM.

    An SM of SM 0's half finds them all in its own half; one of the other half finds in its own those that belong there.
    """
    lines, flush = 256, 160 << 20
    data = gpu.upload(np.zeros(lines * STEP, np.uint8))
    other = gpu.empty(flush)
    rows = np.zeros((gpu.sms, lines), np.uint16)
    for sm in range(gpu.sms):
        out = gpu.empty(4 * lines)
        gpu.launch("flush", 1024, 256, [other, np.uint32(flush // 1024 // 256 // 16)])
        for reader in (0, sm):
            gpu.launch("once", gpu.sms, 1, [out, data, np.uint32(reader), np.uint32(lines)], 128 * 1024)
        rows[sm] = out.get().view(np.uint32)[:lines]
    outcome = Outcome(arrays={"first_latency": rows})
    means = rows[1:].astype(np.float64).mean(axis=1)
    outcome.raw["sm_mean"] = means.round(1).tolist()
    for percent in (5, 25, 50, 75, 95):
        value = float(np.percentile(rows[1:], percent))
        how = f"first load of each of {lines} lines that SM 0 had brought into the L2, from each other SM, percentile {percent}"
        outcome.numbers[f"percentile_{percent}"] = Number(value, "cycles", how)
    return outcome


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    flush = plain_kernel("flush", ".param .u64 data, .param .u32 count", _FLUSH)
    parameters = ".param .u64 out, .param .u64 data, .param .u32 target, .param .u32 count"
    probe = _PROBE.replace("@STEP@", str(STEP))
    kernels = [plain_kernel("probe", parameters, probe), plain_kernel("once", parameters, probe.replace("%rep, 6", "%rep, 1"))]
    text = module([*kernels, flush])
    return [Benchmark(FAMILY, "by_sm", text, _measure), Benchmark(FAMILY, "homes", text, _homes)]
