"""Constant memory: indexed loads over growing footprints, and constants as operands of instructions."""

from __future__ import annotations

from .gpu import Benchmark, Gpu
from .machine_code import Check
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import REPEATS, elapsed, per_operation

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "constants"
BYTES = 65536
STRIDE = 64


def _table() -> str:
    """Word i holds the byte offset of the word STRIDE further on, around 64 KiB."""
    words = ", ".join(str((4 * i + STRIDE) % BYTES) for i in range(BYTES // 4))
    return f".const .align 64 .u32 table[{BYTES // 4}] = {{{words}}};"


def _indexed() -> Benchmark:
    """A chain of loads whose addresses wrap around at pa + 1 bytes."""
    declarations = ".reg .b32 %index, %value; .reg .b64 %base, %at;"
    setup = ["mov.u32 %index, 0;", "mov.u64 %base, table;"]
    finish = ["st.global.u32 [%own], %index;"]
    step = "cvt.u64.u32 %at, %index; add.u64 %at, %at, %base; ld.const.u32 %value, [%at]; and.b32 %index, %value, %pa;"
    kernels = [timed_kernel(f"chain_{n}", [step] * n, declarations=declarations, setup=setup, finish=finish) for n in (16, 48)]

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        size = 64
        while size <= BYTES:
            turns = max(64, 4 * size // STRIDE // 32)
            cycles, spread = per_operation(gpu, "chain_16", "chain_48", 32, turns, operands=(size - 1, 0, 0))
            how = f"one warp, a chain of LDC (with its address arithmetic), stride {STRIDE} bytes over {size}"
            outcome.numbers[f"chain_{size}"] = Number(cycles, "cycles", how, spread, REPEATS)
            size *= 2
        return outcome

    checks = (Check("chain_16", "LDC", 16, 80), Check("chain_48", "LDC", 48, 200))
    return Benchmark(FAMILY, "indexed", module(kernels, declarations=_table()), measure, checks)


def _operands(count: int) -> Benchmark:
    """``count`` FFMA with a constant operand each, 64 bytes apart: over 64 x count bytes of constants."""
    declarations = ".reg .f32 %x<8>, %k; .reg .b32 %sum, %low;"
    setup = [f"mov.b32 %x{i}, %pa;" for i in range(8)]
    body = [
        f"ld.const.f32 %k, [floats + {STRIDE * i}]; fma.rn.f32 %x{i % 8}, %x{i % 8}, %k, %x{(i + 1) % 8};" for i in range(count)
    ]
    finish = ["mov.u32 %sum, 0;", *(f"mov.b32 %low, %x{i}; xor.b32 %sum, %sum, %low;" for i in range(8))]
    kernel = timed_kernel(
        "operands", body, declarations=declarations, setup=setup, finish=[*finish, "st.global.u32 [%own], %sum;"]
    )
    constants = f".const .align 64 .b8 floats[{max(STRIDE * count, 64)}];"

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        for warps in (1, 4):
            long, short = (sorted(elapsed(gpu, "operands", warps=warps, iterations=n)) for n in (24, 8))
            cycles = (long[REPEATS // 2] - short[REPEATS // 2]) / 16 / count
            how = f"{warps} warps, a loop over {count} FFMA with constant operands {STRIDE} bytes apart"
            outcome.numbers[f"warps_{warps}"] = Number(cycles, "cycles each", how, repeats=REPEATS)
        return outcome

    return Benchmark(FAMILY, f"operands_{count}", module([kernel], declarations=constants), measure)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    return [_indexed(), *(_operands(count) for count in (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1023))]
