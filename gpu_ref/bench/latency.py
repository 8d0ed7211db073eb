"""Latency of global memory by pointer chasing: L1, L2, DRAM and address translation, over footprint and stride.

The chain visits its elements in a random order (one cycle through all). A scatter kernel writes it, so that memory of any
size takes only as long as it has elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .gpu import Benchmark, Gpu
from .ptx import module, plain_kernel
from .results import Number, Outcome, median_spread, plateaus, steps

__all__ = ["FAMILY", "benchmarks", "chain"]

FAMILY = "latency"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNROLL = 8

_SCATTER = """\
    .reg .b64 %base, %position, %next, %a, %b; .reg .b32 %i, %n, %c; .reg .pred %p;
    ld.param.u64 %base, [base]; ld.param.u64 %position, [position]; ld.param.u64 %next, [next]; ld.param.u32 %n, [n];
    mov.u32 %i, %ctaid.x; mov.u32 %c, %ntid.x; mul.lo.u32 %i, %i, %c; mov.u32 %c, %tid.x; add.u32 %i, %i, %c;
    setp.ge.u32 %p, %i, %n;
    @%p ret;
    mul.wide.u32 %a, %i, 8; add.u64 %position, %position, %a; add.u64 %next, %next, %a;
    ld.global.u64 %a, [%position]; ld.global.u64 %b, [%next];
    add.u64 %a, %a, %base; add.u64 %b, %b, %base;
    st.global.u64 [%a], %b;
    ret;"""

_CHASE = """\
    .reg .b64 %p, %out, %begin, %end; .reg .b32 %n, %warm, %count; .reg .pred %more;
    ld.param.u64 %out, [out]; ld.param.u64 %p, [start]; ld.param.u32 %warm, [warm]; ld.param.u32 %count, [count];
WARM:
    @@LOADS@@
    sub.u32 %warm, %warm, 1; setp.ne.u32 %more, %warm, 0;
    @%more bra WARM;
    mov.u64 %begin, %clock64;
LOOP:
    @@LOADS@@
    sub.u32 %count, %count, 1; setp.ne.u32 %more, %count, 0;
    @%more bra LOOP;
    mov.u64 %end, %clock64;
    sub.u64 %end, %end, %begin;
    st.global.u64 [%out], %end; st.global.u64 [%out + 8], %p;
    ret;"""

_FIRST = """\
    .reg .b64 %p, %out, %begin, %end; .reg .b32 %n, %count; .reg .pred %more, %never;
    ld.param.u64 %out, [out]; ld.param.u64 %p, [start]; ld.param.u32 %count, [count];
EACH:
    mov.u64 %begin, %clock64;
    ld.volatile.global.u64 %p, [%p];
    setp.eq.u64 %never, %p, 0;
    @%never st.volatile.global.u64 [%out], %p;
    mov.u64 %end, %clock64;
    sub.u64 %end, %end, %begin;
    st.global.u64 [%out], %end;
    add.u64 %out, %out, 8;
    sub.u32 %count, %count, 1; setp.ne.u32 %more, %count, 0;
    @%more bra EACH;
    ret;"""


def _module() -> str:
    kernels = [plain_kernel("scatter", ".param .u64 base, .param .u64 position, .param .u64 next, .param .u32 n", _SCATTER)]
    parameters = ".param .u64 out, .param .u64 start, .param .u32 warm, .param .u32 count"
    for mode in ("ca", "cg"):
        body = _CHASE.replace("@@LOADS@@", "\n    ".join([f"ld.global.{mode}.u64 %p, [%p];"] * UNROLL))
        kernels.append(plain_kernel(f"chase_{mode}", parameters, body))
    kernels.append(plain_kernel("first", parameters, _FIRST))
    return module(kernels)


def chain(elements: int, stride: int, jitter: int, seed: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Byte offsets of a chain's elements and of their successors: one random cycle. Element i lies at i x ``stride``, plus a
    random multiple of 128 below ``jitter``."""
    random = np.random.default_rng(seed)
    offsets = np.arange(elements, dtype=np.uint64) * np.uint64(stride)
    if jitter:
        offsets += random.integers(0, jitter // 128, elements).astype(np.uint64) * np.uint64(128)
    order = random.permutation(elements)
    position = offsets[order]
    return position, np.roll(position, -1)


class _Chaser:
    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self.gpu, self.nbytes = gpu, nbytes
        self.memory = gpu.empty(nbytes)
        self.out = gpu.upload(np.zeros(4096, np.uint64))

    def write(self, elements: int, stride: int, jitter: int) -> np.uint64:
        """Write a chain; returns the offset of its first element."""
        position, following = chain(elements, stride, jitter, elements)
        arrays = [self.gpu.upload(position), self.gpu.upload(following)]
        self.gpu.launch("scatter", -(-elements // 256), 256, [self.memory, *arrays, np.uint32(elements)])
        return np.uint64(position[0])

    def address(self, offset: np.uint64) -> np.uint64:
        return np.uint64(self.gpu.address(self.memory) + int(offset))

    def chase(self, mode: str, elements: int, stride: int, jitter: int = 0, most: int = 1 << 15) -> float:
        """Cycles of a load, after one pass over all elements."""
        start = self.address(self.write(elements, stride, jitter))
        warm = max(1, -(-elements // UNROLL))
        count = max(256, min(elements, most) // UNROLL)
        self.gpu.launch(f"chase_{mode}", 1, 1, [self.out, start, np.uint32(warm), np.uint32(count)])
        return float(self.out.get()[0]) / (count * UNROLL)

    def first(self, elements: int, stride: int, jitter: int, count: int, forget: bool = False, warm: int = 0) -> list[int]:
        """Cycles of each of the first loads, after ``warm`` loads of the chain; ``forget`` translations before."""
        start = self.address(self.write(elements, stride, jitter))
        if warm:
            self.gpu.launch("chase_cg", 1, 1, [self.out, start, np.uint32(-(-warm // UNROLL)), np.uint32(1)])
        if forget:
            self.gpu.forget_translations()
        self.gpu.launch("first", 1, 1, [self.out, start, np.uint32(0), np.uint32(count)])
        return [int(value) for value in self.out.get()[:count]]


def _sweep(gpu: Gpu, mode: str, sizes: list[int], stride: int, what: str, most_elements: int = 1 << 20) -> Outcome:
    chaser = _Chaser(gpu, max(sizes) + 4096)
    curve = []
    for size in sizes:
        elements = min(size // stride, most_elements)
        curve.append(chaser.chase(mode, elements, size // elements))
    outcome = Outcome(raw={"bytes": sizes, "cycles": curve, "stride": stride})
    for first, last, middle in plateaus(curve, 0.06):
        how = f"pointer chase, {what}, footprints {sizes[first]} to {sizes[last]} bytes, stride {stride}"
        outcome.numbers[f"plateau_{sizes[first]}"] = Number(middle, "cycles", how)
    for i, at in enumerate(steps(sizes, curve, 0.06)):
        outcome.numbers[f"step_{i}"] = Number(at, "bytes", f"largest footprint before a rise of more than 6 %: {what}")
    return outcome


def _l1(gpu: Gpu) -> Outcome:
    sizes = [
        KIB * k for k in (1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 208, 216, 224, 232, 240, 248, 256, 288, 320, 384, 512)
    ]
    return _sweep(gpu, "ca", sizes, 128, "ld.ca")


def _l2(gpu: Gpu) -> Outcome:
    sizes = [MIB * k // 4 for k in (1, 2, 4, 8, 16, 32, 48, 64, 80, 88, 96, 100, 104, 112, 128, 144, 160, 176, 192, 208, 224,
                                    240, 256, 320, 384, 512)]  # fmt: skip
    return _sweep(gpu, "cg", sizes, 128, "ld.cg")


def _dram(gpu: Gpu) -> Outcome:
    return _sweep(gpu, "cg", [GIB // 4, GIB // 2, GIB, 2 * GIB, 4 * GIB, 8 * GIB, 16 * GIB], 128, "ld.cg, far beyond the L2")


def _translation(gpu: Gpu) -> Outcome:
    outcome = Outcome()
    chaser = _Chaser(gpu, 32 * GIB)
    for stride, most in ((2 * MIB, 16384), (16 * MIB, 2048), (32 * MIB, 1024)):
        counts = [1 << k for k in range(2, most.bit_length())]
        counts = sorted({*counts, *(c * 3 // 2 for c in counts if c * 3 // 2 <= most and c >= 8)})
        curve = [chaser.chase("cg", count, stride, 2 * MIB, 1 << 13) for count in counts]
        outcome.raw[f"stride_{stride}"] = {"pages": counts, "cycles": curve}
        for i, at in enumerate(steps(counts, curve, 0.06)):
            how = f"largest number of elements, {stride} bytes apart, before the latency rises by more than 6 %"
            outcome.numbers[f"step_{stride}_{i}"] = Number(at, "elements", how)
        for first, last, middle in plateaus(curve, 0.06):
            how = f"pointer chase in the L2 over {counts[first]} to {counts[last]} elements {stride} bytes apart"
            outcome.numbers[f"plateau_{stride}_{counts[first]}"] = Number(middle, "cycles", how)
    for label, stride in (("far", 256 * MIB), ("near", 2 * MIB)):
        cold = [chaser.first(64, stride, 128, 64, forget=True) for _ in range(5)]
        warm = [chaser.first(64, stride, 128, 64) for _ in range(5)]
        outcome.raw |= {f"cold_{label}": cold, f"warm_{label}": warm}
        for name, runs in (("cold", cold), ("warm", warm)):
            how = f"each of 64 loads of a chain over pages {stride // MIB} MiB apart, one warp, in the L2, translations {name}"
            middle, spread = median_spread(np.asarray(runs).reshape(-1))
            outcome.numbers[f"first_touch_{name}_{label}"] = Number(middle, "cycles", how, spread, 320)
    return outcome


def _spectrum(gpu: Gpu) -> Outcome:
    """Latency of single loads at footprints for which the mean lies between those of L2 and DRAM."""
    outcome = Outcome()
    chaser = _Chaser(gpu, 160 * MIB)
    for mib in (4, 24, 40, 48, 52, 96):
        elements = mib * MIB // 128
        values = np.asarray(chaser.first(elements, 128, 0, 4096, warm=2 * elements))
        counts, _ = np.histogram(np.clip(values, 240, 1199), bins=np.arange(240, 1208, 8))
        outcome.raw[f"histogram_{mib}"] = {"from": 240, "step": 8, "counts": counts.tolist()}
        for percent in (10, 25, 50, 75, 90):
            how = f"single loads of a chase over {mib} MiB, clocks around the load, percentile {percent}"
            value = float(np.percentile(values, percent))
            outcome.numbers[f"mib_{mib}_percentile_{percent}"] = Number(value, "cycles", how)
    return outcome


def _l1_of(kind: str, load: str, add: str) -> Benchmark:
    """Latency of one access within the L1, of ``kind``; the address comes from the value loaded."""
    body = f"""\
    .reg .b64 %p, %out, %begin, %end, %v, %w; .reg .b32 %n, %lane, %r<4>; .reg .pred %more;
    ld.param.u64 %out, [out]; ld.param.u64 %p, [start]; mov.u32 %lane, %tid.x; mul.wide.u32 %v, %lane, 16; add.u64 %p, %p, %v;
    mov.u32 %n, 2;
PASS:
    mov.u64 %begin, %clock64;
    {chr(10).join([load + add] * 32)}
    mov.u64 %end, %clock64;
    sub.u32 %n, %n, 1; setp.ne.u32 %more, %n, 0;
    @%more bra PASS;
    sub.u64 %end, %end, %begin;
    st.global.u64 [%out], %end; st.global.u64 [%out + 8], %p;
    ret;"""
    text = module([plain_kernel("once", ".param .u64 out, .param .u64 start", body)])

    def measure(gpu: Gpu) -> Outcome:
        out, memory = gpu.upload(np.zeros(16, np.uint64)), gpu.upload(np.zeros(4096, np.uint8))
        runs = []
        for _ in range(5):
            gpu.launch("once", 1, 32, [out, memory])
            runs.append(float(out.get()[0]) / 32)
        how = "one warp, 32 dependent"
        return Outcome({"latency": Number(float(np.median(runs)), "cycles", how, max(runs) - min(runs), 5)}, code=load + add)

    return Benchmark(FAMILY, f"l1_{kind}", text, measure)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    text = _module()
    sweeps: dict[str, Any] = {"l1": _l1, "l2": _l2, "dram": _dram, "spectrum": _spectrum, "translation": _translation}
    result = [Benchmark(FAMILY, name, text, measure) for name, measure in sweeps.items()]
    wide = " cvt.u64.u32 %w, %r0; add.u64 %p, %p, %w;"
    return [
        *result,
        _l1_of("32", "ld.global.ca.u32 %r0, [%p];", wide),
        _l1_of("64", "ld.global.ca.u64 %v, [%p];", " add.u64 %p, %p, %v;"),
        _l1_of("128", "ld.global.ca.v4.u32 {%r0, %r1, %r2, %r3}, [%p];", wide),
        _l1_of("nc", "ld.global.nc.u32 %r0, [%p];", wide),
        _l1_of("cg", "ld.global.cg.u32 %r0, [%p];", wide),
        _l1_of("volatile", "ld.volatile.global.u32 %r0, [%p];", wide),
    ]
