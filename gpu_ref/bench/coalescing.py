"""Global loads, stores and atomics by the sectors and lines that a warp's lanes touch, in the L1 and in the L2."""

from __future__ import annotations

import numpy as np

from .gpu import Benchmark, Gpu
from .machine_code import Check
from .patterns import GLOBAL, GLOBAL_8, GLOBAL_16, Pattern, touched
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import REPEATS, per_operation, run_timed

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "coalescing"
SHORT, LONG = 8, 24
SPACING = 8192

_DECLARATIONS = ".reg .b64 %at, %keep, %v; .reg .b32 %r<4>, %sum; .reg .f32 %f<4>; .reg .f64 %d;"
_SETUP = [
    "mul.wide.u32 %at, %lane, 4; add.u64 %at, %at, %data; ld.global.u32 %r0, [%at];",
    "cvt.u64.u32 %at, %r0; add.u64 %at, %at, %data; add.u64 %at, %at, 8192;",
    "mul.lo.u32 %r0, %warp, %pc; cvt.u64.u32 %v, %r0; add.u64 %at, %at, %v;",
    "add.u64 %keep, %data, 4096; mov.u32 %sum, 0; mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;",
    "mov.u64 %v, 0; mov.f32 %f0, 0f00000000; mov.f64 %d, 0d0000000000000000;",
]


def _kernel(entry: str, op: str, copies: int, store: bool) -> str:
    body = [op.replace("{k}", str(SPACING * i)) for i in range(copies)]
    if store:
        body.append("st.volatile.global.u32 [%keep], %pa;")
    finish = ["cvt.u32.u64 %r0, %at; add.u32 %sum, %sum, %r0; st.global.u32 [%keep + 1024], %sum;"]
    return timed_kernel(entry, body, declarations=_DECLARATIONS, setup=_SETUP, finish=finish)


def _data(gpu: Gpu, pattern: Pattern) -> object:
    table = np.zeros((1 << 23) // 4, np.uint32)
    table[:32] = pattern
    return gpu.upload(table)


def _throughput(
    name: str, op: str, width: int, patterns: dict[str, Pattern], sass: str, store: bool = True, apart: int = 0
) -> Benchmark:
    """``apart``: bytes from the addresses of one warp to those of the next."""
    kernels = [_kernel(f"stream_{copies}", op, copies, store) for copies in (SHORT, LONG)]
    checks = tuple(Check(f"stream_{c}", sass, c, 120) for c in (SHORT, LONG)) if sass else ()

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=op)
        for label, pattern in patterns.items():
            data = _data(gpu, pattern)
            sectors, lines = touched(pattern, width)
            for warps in (1, 16):
                cycles, spread = per_operation(
                    gpu, f"stream_{SHORT}", f"stream_{LONG}", 16 * warps, 16, 3, data=data, warps=warps, operands=(0, 0, apart)
                )
                how = f"{warps} warps of one SM, {apart} bytes apart, addresses {label}: {sectors} sectors, {lines} lines"
                key = f"{label}" if warps > 1 else f"{label}_one_warp"
                outcome.numbers[key] = Number(cycles, "cycles per instruction of an SM", how, spread, 3)
        return outcome

    return Benchmark(FAMILY, name, module(kernels), measure, checks)


def _latency(name: str, op: str, patterns: dict[str, Pattern]) -> Benchmark:
    text = f"{op} and.b32 %r0, %r0, %pa; cvt.u64.u32 %v, %r0; add.u64 %at, %at, %v;"
    kernels = [_kernel(f"chain_{copies}", text, copies, False) for copies in (SHORT, LONG)]

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=op)
        for label, pattern in patterns.items():
            cycles, spread = per_operation(
                gpu, f"chain_{SHORT}", f"chain_{LONG}", 16, 16, data=_data(gpu, pattern), operands=(0, 0, 0)
            )
            how = f"one warp, dependent (with LOP3 and a 64-bit addition), addresses {label}"
            outcome.numbers[label] = Number(cycles, "cycles", how, spread, REPEATS)
        return outcome

    return Benchmark(FAMILY, name, module(kernels), measure)


def _contended(name: str, op: str) -> Benchmark:
    """All SMs, 8 warps each, on the same addresses or on lines of their own."""
    kernels = [_kernel("all", op, 16, False)]
    places: dict[str, Pattern] = {k: GLOBAL[k] for k in ("same", "linear_4", "stride_32", "stride_128")}

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=op)
        for label, pattern in places.items():
            data = _data(gpu, pattern)
            runs = []
            for _ in range(3):
                clocks = run_timed(gpu, "all", ctas=gpu.sms, warps=8, iterations=8, data=data, operands=(0, 0, 0)).clocks
                runs.append(float((clocks[:, 1] - clocks[:, 0]).mean()) / (8 * 16 * 8 * gpu.sms))
            how = f"all SMs with 8 warps each, addresses {label}, the same in all warps"
            middle = sorted(runs)[1]
            outcome.numbers[label] = Number(middle, "cycles per instruction of the chip", how, max(runs) - min(runs), 3)
        return outcome

    return Benchmark(FAMILY, name, module(kernels), measure)


ATOMS = {
    "add_u32": "atom.global.add.u32 %r0, [%at], %pa;",
    "add_u64": "atom.global.add.u64 %v, [%at], %v; cvt.u32.u64 %r0, %v;",
    "add_f32": "atom.global.add.f32 %f1, [%at], %f0; mov.b32 %r0, %f1;",
    "add_f64": "atom.global.add.f64 %d, [%at], %d; cvt.rzi.u32.f64 %r0, %d;",
    "add_f16x2": "atom.global.add.noftz.f16x2 %r0, [%at], %pa;",
    "min_s32": "atom.global.min.s32 %r0, [%at], %pa;",
    "exch": "atom.global.exch.b32 %r0, [%at], %pa;",
    "cas": "atom.global.cas.b32 %r0, [%at], %pa, %pb;",
}
REDS = {
    "add_u32": "red.global.add.u32 [%at], %pa;",
    "add_f32": "red.global.add.f32 [%at], %f0;",
    "add_f16x2": "red.global.add.noftz.f16x2 [%at], %pa;",
    "min_s32": "red.global.min.s32 [%at], %pa;",
}


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    result = []
    for mode in ("ca", "cg"):
        add = "add.u32 %sum, %sum, {};"
        result += [
            _throughput(f"ldg_{mode}_4", f"ld.global.{mode}.u32 %r0, [%at + {{k}}]; {add.format('%r0')}", 4, GLOBAL, "LDG"),
            _throughput(
                f"ldg_{mode}_8", f"ld.global.{mode}.v2.u32 {{%r0, %r1}}, [%at + {{k}}]; {add.format('%r1')}", 8, GLOBAL_8, "LDG"
            ),
            _throughput(
                f"ldg_{mode}_16",
                f"ld.global.{mode}.v4.u32 {{%r0, %r1, %r2, %r3}}, [%at + {{k}}]; {add.format('%r3')}",
                16,
                GLOBAL_16,
                "LDG",
            ),
            _latency(f"ldg_{mode}_latency", f"ld.global.{mode}.u32 %r0, [%at];", GLOBAL),
        ]
    result += [
        _throughput(
            "ldg_cg_4_own", "ld.global.cg.u32 %r0, [%at + {k}]; add.u32 %sum, %sum, %r0;", 4, GLOBAL, "LDG", True, 1 << 18
        ),
        _throughput("stg_4_own", "st.global.u32 [%at + {k}], %pa;", 4, GLOBAL, "STG", False, 1 << 18),
        _throughput("stg_16_own", "st.global.v4.u32 [%at + {k}], {%pa, %pb, %pa, %pb};", 16, GLOBAL_16, "STG", False, 1 << 18),
        _throughput("stg_4", "st.global.u32 [%at + {k}], %pa;", 4, GLOBAL, "STG", False),
        _throughput("stg_16", "st.global.v4.u32 [%at + {k}], {%pa, %pb, %pc, %pa};", 16, GLOBAL_16, "STG", False),
    ]
    few = {k: GLOBAL[k] for k in ("same", "linear_4", "stride_32", "stride_128")}
    wide = {k: GLOBAL_8[k] for k in ("same", "linear_8", "stride_32", "stride_128")}
    for name, op in ATOMS.items():
        chosen = wide if "64" in name else few
        result.append(_latency(f"atomg_{name}_latency", op, chosen))
        result.append(_throughput(f"atomg_{name}", f"{op} add.u32 %sum, %sum, %r0;", 4, chosen, "", False))
    for name, op in REDS.items():
        result.append(_throughput(f"redg_{name}", op, 4, few, "", False))
        result.append(_contended(f"redg_{name}_all_sms", op))
    result.append(_contended("atomg_add_u32_all_sms", ATOMS["add_u32"] + " add.u32 %sum, %sum, %r0;"))
    return result
