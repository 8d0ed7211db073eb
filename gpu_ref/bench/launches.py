"""Launches: what an empty one takes, how fast and in which order CTAs are dispatched, and when the next one follows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .gpu import Benchmark, Gpu
from .ptx import module, plain_kernel
from .results import Number, Outcome, median_spread

__all__ = ["FAMILY", "benchmarks", "turnaround"]

FAMILY = "launch"

_MARK = """\
    .reg .b64 %out, %c0, %c1, %g0, %g1, %s, %a; .reg .b32 %spin, %id, %sm, %t, %span; .reg .pred %p;
    mov.u64 %g0, %globaltimer; mov.u64 %c0, %clock64;
    ld.param.u64 %out, [out]; ld.param.u32 %spin, [spin];
    mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0;
    @%p bra DONE;
SPIN:
    mov.u64 %c1, %clock64; sub.u64 %a, %c1, %c0; cvt.u32.u64 %span, %a; setp.lt.u32 %p, %span, %spin;
    @%p bra SPIN;
    mov.u64 %g1, %globaltimer; mov.u64 %c1, %clock64;
    mov.u32 %id, %ctaid.x; mul.wide.u32 %a, %id, 48; add.u64 %out, %out, %a;
    mov.u32 %sm, %smid; cvt.u64.u32 %s, %sm;
    st.global.v2.u64 [%out], {%c0, %c1}; st.global.v2.u64 [%out + 16], {%g0, %g1}; st.global.u64 [%out + 32], %s;
DONE:
    ret;"""

_MANY = """\
    .reg .b64 %out; .reg .b32 %r<200>, %sum; .reg .pred %p;
    ld.param.u64 %out, [out];
    {loads}
    bar.sync 0;
    mov.u32 %sum, 0;
    {sums}
    setp.eq.u32 %p, %sum, 0x9E3779B9;
    @%p st.global.u32 [%out], %sum;
    ret;"""


def _module() -> str:
    loads = "\n    ".join(f"ld.volatile.global.u32 %r{i}, [%out + {4 * i}];" for i in range(200))
    sums = "\n    ".join(f"xor.b32 %sum, %sum, %r{i};" for i in range(200))
    return module(
        [
            plain_kernel("empty", "", "    ret;"),
            plain_kernel("mark", ".param .u64 out, .param .u32 spin", _MARK),
            plain_kernel("registers", ".param .u64 out", _MANY.format(loads=loads, sums=sums)),
        ]
    )


def _marks(gpu: Gpu, grid: int, block: int, spin: int, shared: int = 0) -> npt.NDArray[np.int64]:
    """int64[CTAs, 5]: %clock64 and %globaltimer at begin and end (c0, c1, g0, g1), and the SM."""
    out = gpu.upload(np.zeros((grid, 6), np.uint64))
    gpu.launch("mark", grid, block, [out, np.uint32(spin)], shared)
    return np.asarray(out.get()).reshape(grid, 6).astype(np.int64)[:, :5]


def turnaround(marks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Cycles from the end of a CTA to the start of the next one on the same SM, where an SM runs one at a time."""
    gaps = []
    for sm in np.unique(marks[:, 4]):
        mine = marks[marks[:, 4] == sm]
        mine = mine[np.argsort(mine[:, 0])]
        gaps.append(mine[1:, 0] - mine[:-1, 1])
    return np.concatenate(gaps) if gaps else np.zeros(0, np.int64)


def _overhead(gpu: Gpu) -> Outcome:
    outcome = Outcome()
    for grid, block in ((1, 32), (132, 128), (1056, 128), (4224, 128), (33792, 128), (33792, 32), (33792, 256), (135168, 128)):
        count = 400 if grid <= 4224 else 100
        gpu.seconds("empty", grid, block, [], count=20)
        runs = [gpu.seconds("empty", grid, block, [], count=count) / count * 1e6 for _ in range(5)]
        middle, spread = median_spread(runs)
        how = f"{count} empty kernels of {grid} CTAs of {block} threads in a row, by events"
        outcome.numbers[f"empty_{grid}x{block}"] = Number(middle, "microseconds", how, spread, 5)
    for shared in (0, 1024, 16384, 49152, 102400, 204800):
        runs = [gpu.seconds("empty", 33792, 128, [], shared, 50) / 50 * 1e6 for _ in range(5)]
        middle, spread = median_spread(runs)
        how = f"50 empty kernels of 33792 CTAs of 128 threads with {shared} bytes of dynamic shared memory, by events"
        outcome.numbers[f"empty_shared_{shared}"] = Number(middle, "microseconds", how, spread, 5)
    single = [gpu.seconds("empty", 1, 32, []) * 1e6 for _ in range(21)]
    middle, spread = median_spread(single)
    outcome.numbers["one_launch"] = Number(middle, "microseconds", "one empty kernel between two events", spread, 21)
    return outcome


def _dispatch(gpu: Gpu) -> Outcome:
    """Starts of CTAs by %globaltimer and by %clock64."""
    outcome = Outcome()
    for block in (32, 128, 256, 1024):
        grid = gpu.sms * min(32, 2048 // block)
        runs = [_marks(gpu, grid, block, 20000) for _ in range(3)]
        rates = []
        for marks in runs:
            begin = np.sort(marks[:, 2])
            rates.append(float(begin[-1] - begin[0]) / max(1, grid - 1))
        middle, spread = median_spread(rates)
        how = f"%globaltimer at the start of {grid} CTAs of {block} threads, all resident: last less first, per CTA"
        outcome.numbers[f"interval_{block}"] = Number(middle, "ns per CTA", how, spread, 3)
        marks = runs[1]
        # By its own clock: starts of CTAs on one SM.
        per_sm = [np.diff(np.sort(marks[marks[:, 4] == sm, 0])) for sm in range(gpu.sms)]
        gaps = np.concatenate(per_sm)
        middle = float(np.median(gaps)) if len(gaps) else 0.0
        how = f"%clock64 from the start of a CTA to that of the next on the same SM, {grid} CTAs of {block} threads"
        outcome.numbers[f"sm_interval_{block}"] = Number(
            middle, "cycles", how, float(np.ptp(gaps)) if len(gaps) else 0.0, len(gaps)
        )
        outcome.arrays[f"marks_{block}"] = (marks - marks.min(axis=0, keepdims=True))[:1056].astype(np.int32)
        outcome.arrays[f"sm_{block}"] = marks[:, 4].astype(np.uint8)
    return outcome


def _order(gpu: Gpu) -> Outcome:
    """Which SM gets which CTA, with one, two and four CTAs fitting on an SM."""
    outcome = Outcome()
    for fits, shared in ((1, 200 * 1024), (2, 100 * 1024), (4, 50 * 1024)):
        grid = gpu.sms * fits
        runs = [_marks(gpu, grid, 128, 50000, shared)[:, 4] for _ in range(3)]
        same = bool((runs[0] == runs[1]).all() and (runs[1] == runs[2]).all())
        outcome.raw[f"fits_{fits}"] = {"sm_of_cta": runs[0].tolist(), "same_in_3_runs": same}
        used = len(set(runs[0].tolist()))
        outcome.numbers[f"sms_used_fits_{fits}"] = Number(float(used), "SMs", f"{grid} CTAs, {fits} fit on an SM")
    half = _marks(gpu, gpu.sms // 2, 128, 50000)[:, 4]
    outcome.raw["half_grid"] = half.tolist()
    return outcome


def _waves(gpu: Gpu) -> Outcome:
    """Turnaround of CTAs in grids of several waves, one CTA to an SM, by shared memory and threads."""
    outcome = Outcome()
    for block in (32, 128, 1024):
        for shared in (120 * 1024, 160 * 1024, 226 * 1024):
            marks = _marks(gpu, gpu.sms * 4, block, 20000, shared)
            gaps = turnaround(marks)
            how = f"{gpu.sms * 4} CTAs of {block} threads and {shared} bytes of shared memory, one to an SM: end to next start"
            middle, spread = median_spread(gaps)
            outcome.numbers[f"turnaround_{block}_{shared // 1024}"] = Number(middle, "cycles", how, spread, len(gaps))
            outcome.raw[f"percentiles_{block}_{shared // 1024}"] = np.percentile(gaps, [0, 10, 50, 90, 100]).tolist()
    marks = _marks(gpu, gpu.sms * 3 + 7, 128, 20000, 120 * 1024)
    per_sm = np.bincount(marks[:, 4], minlength=gpu.sms)
    outcome.raw["ctas_per_sm_of_3_waves_and_7"] = per_sm.tolist()
    return outcome


def _registers(gpu: Gpu) -> Outcome:
    data = gpu.empty(4096)
    outcome = Outcome()
    for grid in (132, 1056, 8448):
        runs = [gpu.seconds("registers", grid, 256, [data], count=20) / 20 * 1e6 for _ in range(5)]
        middle, spread = median_spread(runs)
        how = f"kernels of {grid} CTAs of 256 threads with more than 200 registers, 200 loads each, by events"
        outcome.numbers[f"grid_{grid}"] = Number(middle, "microseconds", how, spread, 5)
    return outcome


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    text = _module()
    parts = {"overhead": _overhead, "dispatch": _dispatch, "order": _order, "waves": _waves, "registers": _registers}
    return [Benchmark(FAMILY, name, text, measure) for name, measure in parts.items()]
