"""Bandwidth of L1, L2 and DRAM by bytes in flight: SMs x warps x independent loads of a thread, and writes.

Each CTA goes over its part of a buffer; thread 0 notes %clock64 and %globaltimer before and after, and %smid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .gpu import Benchmark, Gpu
from .ptx import module, plain_kernel
from .results import Number, Outcome

__all__ = ["FAMILY", "benchmarks", "stream_kernel"]

FAMILY = "bandwidth"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNROLLS = (1, 2, 4, 8)

_PARAMETERS = ".param .u64 out, .param .u64 data, .param .u64 cta, .param .u64 step, .param .u32 steps, .param .u32 turns"

_FRAME = """\
    .reg .b64 %out, %data, %cta, %step, %a, %at, %c0, %c1, %g0, %g1, %s; .reg .b32 %steps, %turns, %i, %x, %sum, %id, %sm;
    .reg .b32 %r<40>; .reg .pred %more, %p;
    ld.param.u64 %out, [out]; ld.param.u64 %data, [data]; ld.param.u64 %cta, [cta]; ld.param.u64 %step, [step];
    ld.param.u32 %steps, [steps]; ld.param.u32 %turns, [turns];
    mov.u32 %id, %ctaid.x; cvt.u64.u32 %a, %id; mul.lo.u64 %a, %a, %cta; add.u64 %data, %data, %a;
    mov.u32 %x, %tid.x; mul.wide.u32 %a, %x, {width}; add.u64 %data, %data, %a;
    mov.u32 %sum, 0; mov.u32 %r0, %id; mov.u32 %r1, %id; mov.u32 %r2, %id; mov.u32 %r3, %id;
    bar.sync 0;
    mov.u64 %g0, %globaltimer; mov.u64 %c0, %clock64;
TURN:
    mov.u32 %i, %steps; mov.u64 %at, %data;
STEP:
    .pragma "nounroll";
{body}
    add.u64 %at, %at, %step;
    sub.u32 %i, %i, 1; setp.ne.u32 %more, %i, 0;
    @%more bra STEP;
    sub.u32 %turns, %turns, 1; setp.ne.u32 %more, %turns, 0;
    @%more bra TURN;
    setp.eq.u32 %p, %sum, 0x9E3779B9;
    @%p st.volatile.global.u32 [%out], %sum;
    bar.sync 0;
    mov.u64 %c1, %clock64; mov.u64 %g1, %globaltimer;
    setp.ne.u32 %p, %x, 0;
    @%p ret;
    mov.u32 %sm, %smid; cvt.u64.u32 %s, %sm;
    mul.wide.u32 %a, %id, 48; add.u64 %out, %out, %a;
    st.global.v2.u64 [%out], {{%c0, %c1}}; st.global.v2.u64 [%out + 16], {{%g0, %g1}}; st.global.u64 [%out + 32], %s;
    ret;"""


def stream_kernel(entry: str, kind: str, width: int, unroll: int, threads: int) -> str:
    """``kind``: read_ca, read_cg, write or copy (to 32 GiB further on: ``%cta`` apart is up to the caller)."""
    words = width // 4
    vector = {1: "", 2: ".v2", 4: ".v4"}[words]
    lines = []
    for u in range(unroll):
        names = ", ".join(f"%r{4 * u + i}" for i in range(words))
        group = f"{{{names}}}" if words > 1 else names
        address = f"[%at + {u * threads * width}]"
        if kind.startswith("read"):
            lines.append(f"    ld.global.{kind[5:]}{vector}.u32 {group}, {address};")
        else:
            zero = ", ".join(f"%r{i}" for i in range(words))
            lines.append(f"    st.global{vector}.u32 {address}, {f'{{{zero}}}' if words > 1 else zero};")
    if kind.startswith("read"):
        # The last one first: so all are under way before any is waited for.
        lines += [f"    xor.b32 %sum, %sum, %r{4 * u + i};" for u in reversed(range(unroll)) for i in range(words)]
    return plain_kernel(entry, _PARAMETERS, _FRAME.format(width=width, body="\n".join(lines)))


@dataclass(frozen=True)
class _Run:
    """One launch: bytes in all, and per CTA its cycles, times in ns and SM."""

    nbytes: float
    cycles: npt.NDArray[np.int64]
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    sms: npt.NDArray[np.int64]

    @property
    def per_second(self) -> float:
        return self.nbytes / max(1.0, float(self.end.max() - self.begin.min())) * 1e9

    @property
    def per_cycle(self) -> float:
        """Bytes per cycle of an SM that takes part, from the mean of the CTAs' own cycles."""
        return self.nbytes / len(set(self.sms.tolist())) / float(self.cycles.mean())

    @property
    def clock(self) -> float:
        """SM cycles per ns."""
        return float(self.cycles.mean() / np.maximum(1, self.end - self.begin).mean())


def _launch(
    gpu: Gpu, entry: str, data: Any, ctas: int, threads: int, width: int, unroll: int, span: int, turns: int, interleaved: bool
) -> _Run:
    """Each CTA goes ``turns`` times over ``span`` bytes: its own, or every ctas-th piece of all (``interleaved``)."""
    piece = threads * width * unroll
    steps = max(1, span // piece)
    cta, step = (piece, piece * ctas) if interleaved else (steps * piece, piece)
    out = gpu.upload(np.zeros((ctas, 6), np.uint64))
    scalars = [np.uint64(cta), np.uint64(step), np.uint32(steps), np.uint32(turns)]
    gpu.launch(entry, ctas, threads, [out, data, *scalars])
    marks = np.asarray(out.get()).reshape(ctas, 6).astype(np.int64)
    total = float(ctas) * steps * piece * turns
    return _Run(total, marks[:, 1] - marks[:, 0], marks[:, 2], marks[:, 3], marks[:, 4])


def _middle(gpu: Gpu, cold: bool, entry: str, data: Any, *rest: Any) -> _Run:
    """The middle of three runs. ``cold``: 512 MiB elsewhere in the buffer go through the L2 before each."""
    runs = []
    for _ in range(3):
        if cold:
            elsewhere = np.uint64(gpu.address(data) + 6 * GIB)
            _launch(gpu, "stream_u4_w16", elsewhere, gpu.sms, 512, 16, 4, 4 * MIB, 1, True)
        runs.append(_launch(gpu, entry, data, *rest))
    return sorted(runs, key=lambda run: run.per_cycle)[1]


def _curves(kind: str, level: str, width: int) -> Benchmark:
    """Bytes per cycle over warps and unrolling, for one SM and for all."""
    warps = (1, 2, 4, 8, 16, 32)
    kernels = [stream_kernel(f"stream_u{u}_w{w}", kind, width, u, 32 * w) for u in UNROLLS for w in warps]

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        data = gpu.empty(8 * GIB + 64 * MIB if level == "dram" else 160 * MIB)
        for ctas, label in ((1, "one_sm"), (gpu.sms, "all_sms")):
            table: list[list[float]] = []
            seconds: list[list[float]] = []
            for u in UNROLLS:
                row, times = [], []
                for w in warps:
                    threads = 32 * w
                    if level == "l1":
                        span, turns = 64 * KIB, 4 * w
                    elif level == "l2":
                        span, turns = (128 * KIB, 3 * w) if ctas > 1 else (4 * MIB, 1)
                    else:
                        span, turns = (4 * MIB * min(8, w), 1) if ctas > 1 else (4 * MIB, 1)
                    if level != "dram":
                        _launch(gpu, f"stream_u{u}_w{w}", data, ctas, threads, width, u, span, 1, False)
                    cold = level == "dram" and ctas == 1  # what all SMs go over does not fit into the L2 anyway
                    run = _middle(gpu, cold, f"stream_u{u}_w{w}", data, ctas, threads, width, u, span, turns, level == "dram")
                    row.append(run.per_cycle)
                    times.append(run.per_second / 1e9)
                table.append(row)
                seconds.append(times)
            outcome.raw[label] = {
                "warps": list(warps),
                "unroll": list(UNROLLS),
                "bytes_per_cycle_sm": table,
                "gb_per_s": seconds,
            }
            best = max(max(row) for row in table)
            how = f"{kind}, {width} bytes a thread, best of warps {warps} x unroll {UNROLLS}, {level}, {label}"
            outcome.numbers[f"{label}_bytes_per_cycle"] = Number(best, "bytes per cycle of an SM", how, 0.0, 3)
            fastest = max(max(row) for row in seconds)
            outcome.numbers[f"{label}_gb_per_s"] = Number(fastest, "GB/s", how, 0.0, 3)
        how = "%clock64 over %globaltimer, mean over the CTAs of the last launch"
        outcome.numbers["sm_clock"] = Number(run.clock, "GHz", how)
        return outcome

    return Benchmark(FAMILY, f"{level}_{kind}_{width}", module(kernels), measure)


def _scaling(kind: str) -> Benchmark:
    """L2 and DRAM bandwidth by the number of SMs."""
    kernels = [stream_kernel("stream", kind, 16, 4, 1024)]

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        data = gpu.empty(8 * GIB)
        for level, span in (("l2", 128 * KIB), ("dram", 24 * MIB)):
            rows = []
            for ctas in (1, 2, 4, 8, 16, 24, 33, 48, 66, 88, 110, 132, 264):
                if ctas > 2 * gpu.sms:
                    continue
                turns = 64 if level == "l2" else 1
                if level == "l2":
                    _launch(gpu, "stream", data, ctas, 1024, 16, 4, span, 1, False)
                run = _middle(gpu, False, "stream", data, ctas, 1024, 16, 4, span, turns, level == "dram")
                rows.append([ctas, len(set(run.sms.tolist())), run.per_cycle, run.per_second / 1e9])
            outcome.raw[level] = {"columns": ["ctas", "sms", "bytes per cycle of an SM", "GB/s"], "rows": rows}
            how = f"{kind}, 32 warps an SM, 4 x 16 bytes a thread"
            outcome.numbers[f"{level}_gb_per_s"] = Number(max(row[3] for row in rows), "GB/s", how, 0.0, 3)
            outcome.numbers[f"{level}_one_sm"] = Number(rows[0][2], "bytes per cycle of an SM", how + ", one SM", 0.0, 3)
        return outcome

    return Benchmark(FAMILY, f"scaling_{kind}", module(kernels), measure)


def _footprint() -> Benchmark:
    """L2 read bandwidth of all SMs over growing footprints."""
    kernels = [stream_kernel("stream", "read_cg", 16, 4, 1024)]

    def measure(gpu: Gpu) -> Outcome:
        rows = []
        data = gpu.empty(4 * GIB)
        for pieces in (1, 2, 3, 4, 5, 6, 7, 8, 10, 16, 32, 64, 128):
            span = pieces * 64 * KIB
            turns = max(2, 512 * MIB // (span * gpu.sms))
            _launch(gpu, "stream", data, gpu.sms, 1024, 16, 4, span, 1, False)
            run = _middle(gpu, False, "stream", data, gpu.sms, 1024, 16, 4, span, turns, False)
            rows.append([span * gpu.sms / MIB, run.per_cycle, run.per_second / 1e9])
        columns = ["footprint MiB", "bytes per cycle of an SM", "GB/s"]
        outcome = Outcome(raw={"columns": columns, "rows": rows})
        outcome.numbers["largest"] = Number(max(r[2] for r in rows), "GB/s", "all SMs read a buffer over and over", 0.0, 3)
        return outcome

    return Benchmark(FAMILY, "l2_footprint", module(kernels), measure)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    return [
        *(_curves("read_ca", "l1", width) for width in (4, 8, 16)),
        _curves("read_cg", "l2", 16),
        _curves("read_cg", "l2", 4),
        _curves("write", "l2", 16),
        _curves("read_cg", "dram", 16),
        _curves("write", "dram", 16),
        _scaling("read_cg"),
        _scaling("write"),
        _footprint(),
    ]
