"""``wgmma`` (sm_90a) by N: what a group of them costs from fence to wait, and each further one in the group.

Operands come from shared memory in the layout without swizzle, rows of a core matrix next to each other; a further one per
accumulator, which they all share.
"""

from __future__ import annotations

from .gpu import Benchmark, Gpu
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import REPEATS, elapsed, per_operation

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "wgmma"
GROUPS = (1, 4, 12)
TYPES = {"f16": ("f32.f16.f16", 16), "tf32": ("f32.tf32.tf32", 8), "e4m3": ("f32.e4m3.e4m3", 32), "s8": ("s32.s8.s8", 32)}
_DESCRIPTOR = 8 << 16 | 16 << 32
"""Leading offset 128 bytes, stride 256 bytes, no swizzle (PTX ISA, "Matrix descriptor format")."""


def _kernel(entry: str, n: int, types: str, k: int, count: int, registers: bool) -> str:
    regs = n // 2
    d = "{" + ", ".join(f"%d{i}" for i in range(regs)) + "}"
    a = "{%a0, %a1, %a2, %a3}" if registers else "%da"
    tail = ", %on, 1, 1" if types.startswith("f32") else ", %on"
    transposed = ", 0" if registers and k == 16 else ", 0, 0" if k == 16 else ""
    one = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {d}, {a}, %db{tail}{transposed};"
    declarations = (
        f".reg .b32 %d<{regs}>, %a<4>, %low; .reg .b64 %da, %db, %base; .reg .pred %on;\n.shared .align 1024 .b8 tiles[40960];"
    )
    setup = [
        "mov.u64 %base, tiles; cvta.to.shared.u64 %base, %base; and.b64 %base, %base, 0x3ffff; shr.u64 %base, %base, 4;",
        f"or.b64 %da, %base, {_DESCRIPTOR}; add.u64 %db, %da, 512;",
        "setp.ne.u32 %on, %pb, 0;",
        *(f"mov.u32 %d{i}, 0;" for i in range(regs)),
        *(f"mov.u32 %a{i}, %pa;" for i in range(4)),
    ]
    body = [
        "wgmma.fence.sync.aligned;",
        *[one] * count,
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
    ]
    finish = ["mov.b32 %low, 0;", *(f"xor.b32 %low, %low, %d{i};" for i in range(regs)), "st.global.u32 [%own], %low;"]
    return timed_kernel(entry, body, declarations=declarations, setup=setup, finish=finish)


def _benchmark(kind: str, n: int, registers: bool) -> Benchmark:
    types, k = TYPES[kind]
    kernels = [_kernel(f"group_{count}", n, types, k, count, registers) for count in GROUPS]
    kernels.append(_kernel("group_2", n, types, k, 2, registers))
    source = "rs" if registers else "ss"

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=f"wgmma m64n{n}k{k} {types}, A from {'registers' if registers else 'shared memory'}")
        for warps, name in ((4, ""), (8, "_two_warpgroups")):
            each, spread = per_operation(gpu, "group_4", "group_12", 8 * (warps // 4), warps=warps)
            how = f"{warps} warps, 12 less 4 in a group"
            outcome.numbers["interval" + name] = Number(each, "cycles per wgmma of an SM", how, spread, REPEATS)
        one = per_operation(gpu, "group_1", "group_2", 1, warps=4)
        outcome.numbers["second"] = Number(one[0], "cycles", "a second one in a group", one[1], REPEATS)
        whole = [cycles / 32 for cycles in elapsed(gpu, "group_1", warps=4, iterations=32)]
        middle = sorted(whole)[len(whole) // 2]
        how = "fence, one, commit, wait, with the loop around them"
        outcome.numbers["round"] = Number(middle, "cycles", how, max(whole) - min(whole), REPEATS)
        return outcome

    return Benchmark(FAMILY, f"{kind}_n{n}_{source}", module(kernels, "sm_90a"), measure)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    sizes = (8, 16, 32, 64, 96, 128, 192, 256)
    found = [_benchmark("f16", n, registers) for registers in (False, True) for n in sizes]
    return found + [_benchmark(kind, n, False) for kind in ("tf32", "e4m3", "s8") for n in (8, 64, 128, 256)]
