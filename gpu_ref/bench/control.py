"""Branches, divergence, and the instruction caches."""

from __future__ import annotations

from .gpu import Benchmark, Gpu
from .machine_code import Check
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import REPEATS, elapsed, per_operation, run_timed

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "control"

_DECLARATIONS = """\
.shared .b32 cells[64];
.reg .b32 %x<4>, %cell, %limit; .reg .pred %p, %q; .reg .f32 %f<8>, %g;"""
_SETUP = [
    "mov.u32 %cell, cells;",
    *(f"add.u32 %x{i}, %pa, {i};" for i in range(4)),
    *(f"mov.b32 %f{i}, %pb;" for i in range(8)),
    "mov.b32 %g, %pc;",
    "setp.lt.u32 %p, %lane, %pc; setp.eq.u32 %q, %pc, 77;",
]
_FINISH = ["xor.b32 %x0, %x0, %x1; xor.b32 %x2, %x2, %x3; xor.b32 %x0, %x0, %x2; st.global.u32 [%own], %x0;"]


def _timed(entry: str, body: list[str], after: list[str] | None = None) -> str:
    return timed_kernel(entry, body, declarations=_DECLARATIONS, setup=_SETUP, finish=_FINISH, after=after or [])


def _loop() -> Benchmark:
    """Cycles of one turn of a loop: a counter, a comparison, a branch, and n dependent additions."""
    sizes = (1, 2, 4, 8, 16)
    kernels = [_timed(f"loop_{n}", ["mad.lo.u32 %x0, %x0, %x1, %x2;"] * n) for n in sizes]

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        for n in sizes:
            for warps in (1, 16):
                long = sorted(elapsed(gpu, f"loop_{n}", iterations=2048, warps=warps))
                short = sorted(elapsed(gpu, f"loop_{n}", iterations=1024, warps=warps))
                turn = (long[REPEATS // 2] - short[REPEATS // 2]) / 1024
                how = f"{warps} warps, a loop of {n} dependent IMAD, a counter, a comparison and a branch"
                outcome.numbers[f"turn_{n}_warps_{warps}"] = Number(turn, "cycles per turn", how, repeats=REPEATS)
        return outcome

    return Benchmark(FAMILY, "loop", module(kernels), measure)


def _branches() -> Benchmark:
    """Branches that are not taken (to one place behind the return), and ones that are (over eight stores).

    The predicate depends on the turn, so that the assembler cannot make two loops of one.
    """
    skipped = ["st.volatile.shared.u32 [%cell], %x0;"] * 8
    multiply = "mad.lo.u32 %x0, %x0, %x1, %x2;"
    never, always = "setp.eq.u32 %q, %n, 0xffff0000;", "setp.ne.u32 %q, %n, 0xffff0000;"
    away = ["AWAY:", "st.volatile.shared.u32 [%cell + 4], %x0;", "ret;"]
    kernels = []
    for copies in (16, 48):
        kernels.append(_timed(f"nottaken_{copies}", [never, *["@%q bra AWAY;", multiply] * copies], away))
        body = [always]
        for i in range(copies):
            body += [f"@%q bra OVER{i};", *skipped, f"OVER{i}:", multiply]
        kernels.append(_timed(f"taken_{copies}", body))
        kernels.append(_timed(f"none_{copies}", [never, *["@%q add.u32 %x3, %x3, 1;", multiply] * copies]))

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        names = {"none": "a guarded addition", "nottaken": "a branch not taken", "taken": "a branch taken"}
        for name, what in names.items():
            for warps in (1, 4, 16, 32):
                each = 32 * -(-warps // 4)
                cycles, spread = per_operation(gpu, f"{name}_16", f"{name}_48", each, warps=warps, operands=(1, 3, 5))
                how = f"{warps} warps: a dependent IMAD and {what}"
                key = f"{name}_warps_{warps}"
                outcome.numbers[key] = Number(cycles, "cycles each, of a sub-partition", how, spread, REPEATS)
        return outcome

    checks = tuple(Check(f"{name}_{n}", "BRA", n + 1, None) for name in ("nottaken", "taken") for n in (16, 48))
    return Benchmark(FAMILY, "branches", module(kernels), measure, checks)


def _divergence() -> Benchmark:
    """``if (lane < n) A else B`` with 8 dependent IMAD and a store in each, for n = 0, 1, 16, 32."""
    kernels = []
    for copies in (4, 12):
        body = []
        for i in range(copies):
            body += [f"@%p bra THEN{i};"]
            body += ["mad.lo.u32 %x0, %x0, %x1, %x2;"] * 8 + ["st.volatile.shared.u32 [%cell], %x0;", f"bra JOIN{i};"]
            body += [f"THEN{i}:", *["mad.lo.u32 %x0, %x0, %x3, %x1;"] * 8, "st.volatile.shared.u32 [%cell + 4], %x0;"]
            body += [f"JOIN{i}:", "bar.warp.sync 0xffffffff;"]
        kernels.append(_timed(f"diverge_{copies}", body))

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        for lanes in (0, 1, 16, 31, 32):
            for warps in (1, 16):
                cycles, spread = per_operation(gpu, "diverge_4", "diverge_12", 8, warps=warps, operands=(1, 3, lanes))
                how = f"{warps} warps: if and else of 8 dependent IMAD and a store, {lanes} of 32 lanes in the first"
                outcome.numbers[f"lanes_{lanes}_warps_{warps}"] = Number(cycles, "cycles each", how, spread, REPEATS)
        return outcome

    return Benchmark(FAMILY, "divergence", module(kernels), measure)


CODE_KIB = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 112, 120, 128, 136, 144, 160, 192, 256, 384)


def _straight(entry: str, copies: int) -> str:
    """A loop over ``copies`` FFMA in eight chains."""
    body = [f"fma.rn.f32 %f{i % 8}, %f{i % 8}, %g, %g;" for i in range(copies)]
    finish = [f"add.f32 %f0, %f0, %f{i};" for i in range(1, 8)]
    return timed_kernel(entry, body, declarations=_DECLARATIONS, setup=_SETUP, finish=[*finish, "mov.b32 %x0, %f0;", *_FINISH])


def _code(kib: int) -> Benchmark:
    """A loop over ``kib`` KiB of straight FFMA code: cycles per instruction once the caches hold what they can."""
    copies = kib * 64 - 8
    kernel = _straight("code", copies)

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        for label, warps, ctas in (("warps_1", 1, 1), ("warps_4", 4, 1), ("warps_16", 16, 1), ("all_sms", 4, gpu.sms)):
            turns = 4 if kib > 64 else 16
            runs = []
            for _ in range(3):
                timed = run_timed(gpu, "code", warps=warps, ctas=ctas, iterations=turns)
                spans = timed.clocks[:, 1] - timed.clocks[:, 0]
                runs.append(float(spans.mean()) / turns / copies / -(-warps // 4))
            how = f"{warps} warps on {ctas} SMs, loop over {kib} KiB of FFMA, {turns} turns after a first"
            middle = sorted(runs)[1]
            outcome.numbers[label] = Number(middle, "cycles per instruction", how, max(runs) - min(runs), 3)
        return outcome

    return Benchmark(FAMILY, f"code_{kib}_kib", module([kernel]), measure)


def _cold() -> Benchmark:
    """A first pass over code: cycles per instruction with nothing of it in the caches of the SM, since 384 KiB of other
    code have gone through all of them."""
    sizes = (8, 64)
    kernels = [_straight(f"cold_{kib}", kib * 64).replace("mov.u32 %pass, 2;", "mov.u32 %pass, 1;") for kib in sizes]
    kernels.append(_straight("other", 384 * 64))

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        for kib in sizes:
            runs = []
            for _ in range(9):
                run_timed(gpu, "other", ctas=gpu.sms, iterations=1)
                runs.append(float(run_timed(gpu, f"cold_{kib}", iterations=1).cycles) / (kib * 64))
            how = f"one warp, {kib} KiB of FFMA once, after 384 KiB of other code on all SMs"
            number = Number(sorted(runs)[4], "cycles per instruction", how, max(runs) - min(runs), 9)
            outcome.numbers[f"kib_{kib}"] = number
        return outcome

    return Benchmark(FAMILY, "code_cold", module(kernels), measure)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    return [_loop(), _branches(), _divergence(), _cold(), *(_code(kib) for kib in CODE_KIB)]
