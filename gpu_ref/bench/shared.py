"""Shared memory: latency of loads, matrix loads and atomics; wavefronts of loads and stores by conflicts.

Which lane accesses what comes from the host, as a table of byte addresses, so that one kernel serves all patterns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .gpu import Benchmark, Gpu
from .machine_code import Check
from .patterns import SHARED, SHARED_8, SHARED_16, Pattern
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import REPEATS, per_operation

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "shared"
SHORT, LONG = 16, 48
BYTES = 32768

_DECLARATIONS = f"""\
.shared .align 1024 .b8 cells[{BYTES}];
.reg .b32 %base, %at, %low, %high, %r<8>, %sum; .reg .b64 %table, %wide; .reg .f32 %f<4>;"""

# Word i of shared memory holds its own address, so that a load gives the address of the next one.
_FILL = """\
    mov.u32 %base, cells;
    mov.u32 %low, %thread;
FILL:
    shl.b32 %at, %low, 2;
    add.u32 %at, %at, %base;
    {value}
    st.shared.u32 [%at], %high;
    add.u32 %low, %low, %n_threads;
    setp.lt.u32 %more, %low, {words};
    @%more bra FILL;
    mul.wide.u32 %table, %lane, 4;
    add.u64 %table, %table, %data;
    ld.global.u32 %at, [%table];
    add.u32 %at, %at, %base;
    mov.u32 %sum, 0;
    bar.sync 0;"""


def _setup(own_addresses: bool) -> list[str]:
    value = "mov.u32 %high, %at;" if own_addresses else "mov.u32 %high, 0;"
    return [
        ".reg .b32 %n_threads; mov.u32 %n_threads, %ntid.x;",
        _FILL.format(value=value, words=BYTES // 4),
    ]


_FINISH = ["add.u32 %sum, %sum, %at;", "st.global.u32 [%own + 512], %sum;"]


def _kernel(entry: str, op: str, copies: int, own_addresses: bool) -> str:
    """``{k}`` in ``op`` is an offset of its own for each copy; the store, which could be anywhere, keeps loads in the loop."""
    body = [op.replace("{k}", str(512 * i)) for i in range(copies)]
    if "{k}" in op:
        body.append(f"st.volatile.shared.u32 [%base + {BYTES - 4}], %pa;")
    return timed_kernel(entry, body, declarations=_DECLARATIONS, setup=_setup(own_addresses), finish=_FINISH)


def _table(pattern: Pattern) -> npt.NDArray[np.uint32]:
    """The lanes' byte addresses, and room for the results behind them."""
    table = np.zeros(128 + 1024 + 64, np.uint32)
    table[:32] = pattern
    return table


def _latency(name: str, op: str, sass: str, patterns: dict[str, Pattern], chase: bool = True, others: int = 12) -> Benchmark:
    """A chain through ``%at``: the load gives the next address (``chase``), or a zero to add to it."""
    kernels = [_kernel(f"chain_{copies}", op, copies, chase) for copies in (SHORT, LONG)]
    checks = tuple(Check(f"chain_{c}", sass, c, others) for c in (SHORT, LONG))

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=op)
        for label, pattern in patterns.items():
            data = gpu.upload(_table(pattern))
            cycles, spread = per_operation(gpu, f"chain_{SHORT}", f"chain_{LONG}", LONG - SHORT, data=data)
            how = f"one warp, dependent chain, addresses {label}"
            outcome.numbers[f"latency_{label}"] = Number(cycles, "cycles", how, spread, REPEATS)
        return outcome

    return Benchmark(FAMILY, f"{name}_latency", module(kernels), measure, checks)


def _throughput(name: str, op: str, sass: str, patterns: dict[str, Pattern], others: int | None = 80) -> Benchmark:
    """Independent accesses by 16 warps, and by one."""
    kernels = [_kernel(f"stream_{copies}", op, copies, False) for copies in (SHORT, LONG)]
    checks = tuple(Check(f"stream_{c}", sass, c, others) for c in (SHORT, LONG))

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=op)
        for label, pattern in patterns.items():
            data = gpu.upload(_table(pattern))
            for warps in (1, 16):
                cycles, spread = per_operation(
                    gpu, f"stream_{SHORT}", f"stream_{LONG}", (LONG - SHORT) * warps, data=data, repeats=3, warps=warps
                )
                how = f"{warps} warps, independent, addresses {label}"
                key = f"interval_{label}" if warps > 1 else f"one_warp_{label}"
                outcome.numbers[key] = Number(cycles, "cycles per instruction of an SM", how, spread, 3)
        return outcome

    return Benchmark(FAMILY, f"{name}_interval", module(kernels), measure, checks)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    few = {name: SHARED[name] for name in ("broadcast", "linear", "conflict_2", "conflict_4", "conflict_8", "conflict_32")}
    linear = {"linear": SHARED["linear"]}
    rows = {name: SHARED_16[name] for name in ("linear_16", "row_32", "row_64", "row_80", "row_128", "row_144", "swizzle")}
    eight = {name: SHARED_8[name] for name in ("linear_8", "linear_16")}
    one_row = {"linear_16": SHARED_16["linear_16"]}
    load4, load16 = "{%r0, %r1}", "{%r0, %r1, %r2, %r3}"
    result = [
        _latency("lds_32", "ld.shared.u32 %at, [%at];", r"LDS", few),
        _latency("lds_64", "ld.shared.v2.u32 {%at, %r1}, [%at];", r"LDS", eight),
        _latency("lds_128", "ld.shared.v4.u32 {%at, %r1, %r2, %r3}, [%at];", r"LDS", one_row),
        _latency("lds_u8", "ld.shared.u8 %r0, [%at]; add.u32 %at, %at, %r0;", r"LDS", linear, False, 60),
        _latency("lds_add", "ld.shared.u32 %r0, [%at]; add.u32 %at, %at, %r0;", r"LDS", few, False, 60),
        _throughput("lds_32", "ld.volatile.shared.u32 %r0, [%at]; xor.b32 %sum, %sum, %r0;", r"LDS", SHARED),
        _throughput(
            "lds_64",
            f"ld.volatile.shared.v2.u32 {load4}, [%at]; lop3.b32 %sum, %sum, %r0, %r1, 0x96;",
            r"LDS",
            SHARED_8,
        ),
        _throughput(
            "lds_128", f"ld.volatile.shared.v4.u32 {load16}, [%at]; lop3.b32 %sum, %sum, %r0, %r3, 0x96;", r"LDS", SHARED_16
        ),
        _throughput("sts_32", "st.volatile.shared.u32 [%at], %pa;", r"STS", SHARED),
        _throughput(
            "sts_64",
            "st.volatile.shared.v2.u32 [%at], {%pa, %pb};",
            r"STS",
            SHARED_8,
        ),
        _throughput("sts_128", "st.volatile.shared.v4.u32 [%at], {%pa, %pb, %pc, %pa};", r"STS", SHARED_16),
    ]
    for x, names in ((1, "{%r0}"), (2, load4), (4, load16)):
        for label, trans in (("", ""), ("_trans", ".trans")):
            text = f"ldmatrix.sync.aligned.m8n8.x{x}{trans}.shared.b16 {names}, [%at];"
            result.append(_latency(f"ldsm_x{x}{label}", f"{text} add.u32 %at, %at, %r0;", r"LDSM", one_row, False, 60))
            stream = text.replace("[%at]", "[%at + {k}]")
            result.append(_throughput(f"ldsm_x{x}{label}", f"{stream} add.u32 %sum, %sum, %r{x - 1};", r"LDSM", rows))
    for x, names in ((1, "{%pa}"), (2, "{%pa, %pb}"), (4, "{%pa, %pb, %pc, %pa}")):
        op = f"stmatrix.sync.aligned.m8n8.x{x}.shared.b16 [%at], {names};"
        result.append(_throughput(f"stsm_x{x}", op, r"STSM", rows))
    return result + _atomics(few)


def _atomics(patterns: dict[str, Pattern]) -> list[Benchmark]:
    kinds = {
        "add_u32": ("atom.shared.add.u32 %r0, [%at], %pc;", "red.shared.add.u32 [%at], %pc;"),
        "inc_u32": ("atom.shared.inc.u32 %r0, [%at], %pc;", ""),
        "min_s32": ("atom.shared.min.s32 %r0, [%at], %pc;", "red.shared.min.s32 [%at], %pc;"),
        "and_b32": ("atom.shared.and.b32 %r0, [%at], %pc;", ""),
        "exch_b32": ("atom.shared.exch.b32 %r0, [%at], %pc;", ""),
        "cas_b32": ("atom.shared.cas.b32 %r0, [%at], %pb, %pc;", ""),
        "add_f32": ("atom.shared.add.f32 %f0, [%at], %f1; mov.b32 %r0, %f0;", "red.shared.add.f32 [%at], %f1;"),
        "add_u64": ("atom.shared.add.u64 %wide, [%at], %table; cvt.u32.u64 %r0, %wide;", ""),
    }
    result = []
    for name, (atom, red) in kinds.items():
        some = SHARED_8 if "u64" in name else patterns
        zero = f"{atom} and.b32 %r0, %r0, %pb; add.u32 %at, %at, %r0;"
        result.append(_sequence(f"atoms_{name}", zero, some, "latency", "with LOP3 and IADD3"))
        result.append(_sequence(f"atoms_{name}", f"{atom} xor.b32 %sum, %sum, %r0;", some, "interval", ""))
        if red:
            result.append(_sequence(f"reds_{name}", red, some, "interval", ""))
    return result


def _sequence(name: str, op: str, patterns: dict[str, Pattern], what: str, note: str) -> Benchmark:
    """An atomic, which may be a loop: %pa is 0 and %pb 0, %pc 0, so that memory keeps its zeros."""
    kernels = [_kernel(f"atomic_{copies}", op, copies, False) for copies in (8, 24)]

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=op)
        warps = 1 if what == "latency" else 16
        for label, pattern in patterns.items():
            data = gpu.upload(_table(pattern))
            cycles, spread = per_operation(
                gpu, "atomic_8", "atomic_24", 16 * warps, 8, 3, data=data, warps=warps, operands=(0, 0, 0)
            )
            how = f"{warps} warps, addresses {label} {note}".strip()
            unit = "cycles" if what == "latency" else "cycles per instruction of an SM"
            outcome.numbers[f"{what}_{label}"] = Number(cycles, unit, how, spread, 3)
        return outcome

    return Benchmark(FAMILY, f"{name}_{what}", module(kernels), measure)
