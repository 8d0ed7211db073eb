"""What a sub-partition can issue: pairs of instructions on the same or on different pipes, warps needed to fill a pipe,
register ports, the uniform datapath, and constants."""

from __future__ import annotations

from itertools import combinations_with_replacement

from .gpu import Benchmark, Gpu
from .machine_code import Check
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import REPEATS, per_operation

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "issue"
SHORT, LONG = 32, 96

# Instructions on registers %r{i} (32 bits) or %d{i} (64), with the opcode that each becomes.
PIPES = {
    "ffma": ("fma.rn.f32 {r}, {r}, %pb, %pc;", "FFMA"),
    "imad": ("mad.lo.u32 {r}, {r}, %pb, %pc;", r"IMAD(?!\.MOV)"),
    "lop3": ("lop3.b32 {r}, {r}, %pb, %pc, 0x6a;", "LOP3"),
    "hfma2": ("fma.rn.f16x2 {r}, {r}, %pb, %pc;", "HFMA2"),
    "dfma": ("fma.rn.f64 {d}, {d}, %Y, %Z;", "DFMA"),
    "mufu": ("ex2.approx.ftz.f32 {r}, {r};", "MUFU"),
    "f2i": ("cvt.rzi.s32.f32 {r}, {r};", "F2I"),
    "popc": ("popc.b32 {r}, {r};", "POPC"),
    "shfl": ("shfl.sync.bfly.b32 {r}, {r}, 1, 31, 0xffffffff;", "SHFL"),
    "lds": ("ld.shared.u32 {a}, [{a}];", "LDS"),
    "hmma": (
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {{{m0}, {m1}}}, {{%pa, %pb, %pc, %pa}}, {{%pb, %pc}}, "
        "{{{m0}, {m1}}};",
        "HMMA",
    ),
    "dmma": ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{{d0}, {d1}}}, {{%Y}}, {{%Z}}, {{{d0}, {d1}}};", "DMMA"),
}  # fmt: skip

_CHAINS = 4
_DECLARATIONS = """\
.shared .b32 cells[64];
.reg .b32 %r<8>, %s<8>, %m<16>, %k<16>, %q<8>, %cell, %low, %sum; .reg .b64 %d<8>, %e<8>, %w<32>, %Y, %Z;"""


def _setup() -> list[str]:
    lines = [
        "mov.u32 %cell, cells; st.shared.u32 [%cell], %cell; bar.sync 0;",
        "mov.b64 %Y, {%pb, %pc}; mov.b64 %Z, {%pc, %pb};",
    ]
    lines += [f"mov.u32 %q{i}, %cell;" for i in range(8)]
    for letter, count in (("r", 8), ("s", 8), ("m", 16), ("k", 16)):
        lines += [f"add.u32 %{letter}{i}, %pa, %lane;" for i in range(count)]
    for letter, count in (("d", 8), ("e", 8), ("w", 32)):
        lines += [f"mov.b64 %{letter}{i}, {{%pa, %pb}};" for i in range(count)]
    return lines


def _finish() -> list[str]:
    lines = ["mov.u32 %sum, 0;"]
    for letter, count in (("r", 8), ("s", 8), ("m", 16), ("k", 16), ("q", 8)):
        lines += [f"xor.b32 %sum, %sum, %{letter}{i};" for i in range(count)]
    for letter, count in (("d", 8), ("e", 8), ("w", 32)):
        for i in range(count):
            lines.append(f"cvt.u32.u64 %low, %{letter}{i}; xor.b32 %sum, %sum, %low; shr.u64 %{letter}{i}, %{letter}{i}, 32;")
            lines.append(f"cvt.u32.u64 %low, %{letter}{i}; xor.b32 %sum, %sum, %low;")
    return [*lines, "st.global.u32 [%own], %sum;"]


def _one(name: str, chain: int, second: bool) -> str:
    r, m, d, w = ("s", "k", "e", 16) if second else ("r", "m", "d", 0)
    return PIPES[name][0].format(
        r=f"%{r}{chain}", d=f"%{d}{chain}", m0=f"%{m}{2 * chain}", m1=f"%{m}{2 * chain + 1}",
        d0=f"%w{w + 2 * chain}", d1=f"%w{w + 2 * chain + 1}", a=f"%q{4 * second + chain}",
    )  # fmt: skip


def _pair(first: str, second: str) -> Benchmark:
    """Cycles for one of each, 8 warps a sub-partition, 4 chains of each per warp."""
    kernels, checks = [], []
    for copies in (SHORT // 2, LONG // 2):
        body = []
        for i in range(copies):
            body += [_one(first, i % _CHAINS, False), _one(second, i % _CHAINS, True)]
        kernels.append(timed_kernel(f"pair_{copies}", body, declarations=_DECLARATIONS, setup=_setup(), finish=_finish()))
        count = 2 * copies if first == second else copies
        checks += [Check(f"pair_{copies}", PIPES[name][1], count, 120) for name in (first, second)]

    def measure(gpu: Gpu) -> Outcome:
        low, high = f"pair_{SHORT // 2}", f"pair_{LONG // 2}"
        outcome = Outcome()
        for warps in (4, 32):
            cycles, spread = per_operation(gpu, low, high, (LONG - SHORT) / 2 * (warps // 4), repeats=3, warps=warps)
            how = f"{warps} warps, one {first} and one {second}, 4 chains of each per warp"
            key = "pair" if warps == 32 else "pair_one_warp"
            outcome.numbers[key] = Number(cycles, "cycles per pair, of a sub-partition", how, spread, 3)
        return outcome

    return Benchmark(FAMILY, f"pair_{first}_{second}", module(kernels), measure, tuple(checks))


def _registers(name: str, text: str, opcode: str, chains: int, operands: int) -> Benchmark:
    """``text`` with registers of its own for every operand, so that ports are not shared by reuse."""
    declarations = f".reg .b32 %x<{chains}>, %a<{operands}>, %b<{operands}>, %sum;"
    setup = [f"add.u32 %x{i}, %pa, %thread; add.u32 %x{i}, %x{i}, {i};" for i in range(chains)]
    setup += [f"ld.volatile.global.u32 %{letter}{i}, [%own + {64 * i}];" for letter in "ab" for i in range(operands)]
    finish = ["mov.u32 %sum, 0;", *(f"xor.b32 %sum, %sum, %x{i};" for i in range(chains)), "st.global.u32 [%own], %sum;"]
    kernels = []
    for copies in (SHORT, LONG):
        body = [text.format(x=f"%x{i % chains}", a=f"%a{i % operands}", b=f"%b{(i * 3 + 1) % operands}") for i in range(copies)]
        kernels.append(timed_kernel(f"ports_{copies}", body, declarations=declarations, setup=setup, finish=finish))
    checks = tuple(Check(f"ports_{copies}", opcode, copies, 24) for copies in (SHORT, LONG))

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=text)
        for warps in (4, 8, 16, 32):
            each = (LONG - SHORT) * (warps // 4)
            cycles, spread = per_operation(gpu, f"ports_{SHORT}", f"ports_{LONG}", each, repeats=3, warps=warps)
            how = f"{warps} warps, {chains} chains, {operands} registers for each of two operands"
            outcome.numbers[f"warps_{warps}"] = Number(cycles, "cycles each, of a sub-partition", how, spread, 3)
        return outcome

    return Benchmark(FAMILY, name, module(kernels), measure, checks)


def _fill(name: str, text: str) -> Benchmark:
    """How many warps with one dependent chain fill the pipe."""
    kernels = []
    for copies in (SHORT, LONG):
        body = [text.format(r="%r0", d="%d0", m0="%m0", m1="%m1", d0="%w0", d1="%w1")] * copies
        kernels.append(timed_kernel(f"fill_{copies}", body, declarations=_DECLARATIONS, setup=_setup(), finish=_finish()))

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome()
        for warps in range(1, 9):
            cycles, spread = per_operation(
                gpu, f"fill_{SHORT}", f"fill_{LONG}", (LONG - SHORT) * warps, repeats=3, warps=warps * 4, skip=3
            )
            how = f"{warps} warps on one sub-partition, one dependent chain each: {name}"
            outcome.numbers[f"warps_{warps}"] = Number(cycles, "cycles each", how, spread, 3)
        return outcome

    return Benchmark(FAMILY, f"fill_{name}", module(kernels), measure)


UNIFORM = {
    "iadd3": ("add.u32 %low, %low, %pa; add.u32 %low, %low, %n;", "UIADD3"),
    "lop3": ("lop3.b32 %low, %low, %pb, %n, 0x6a;", "ULOP3"),
    "imad": ("mad.lo.u32 %low, %low, %pb, %n;", "UIMAD"),
    "shf": ("shf.l.wrap.b32 %low, %low, %pb, 7;", "USHF"),
}


def _uniform(name: str) -> Benchmark:
    """A chain from the loop counter, which is the same in all lanes."""
    text, opcode = UNIFORM[name]
    kernels, checks = [], []
    for copies in (16, 48):
        body = ["mov.u32 %low, %n;", *[text] * copies, "xor.b32 %r0, %r0, %low;"]
        kernels.append(timed_kernel(f"uniform_{copies}", body, declarations=_DECLARATIONS, setup=_setup(), finish=_finish()))
        checks.append(Check(f"uniform_{copies}", opcode, copies + (opcode == "UIADD3"), 16))  # and the loop's counter

    def measure(gpu: Gpu) -> Outcome:
        outcome = Outcome(code=text)
        for warps in (1, 32):
            each = 32 * (-(-warps // 4))
            cycles, spread = per_operation(gpu, "uniform_16", "uniform_48", each, warps=warps)
            how = f"{warps} warps, a dependent chain"
            key = "latency" if warps == 1 else "interval"
            outcome.numbers[key] = Number(cycles, "cycles", how, spread, REPEATS)
        return outcome

    return Benchmark(FAMILY, f"uniform_{name}", module(kernels), measure, tuple(checks))


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    result = [_pair(a, b) for a, b in combinations_with_replacement(PIPES, 2)]
    result += [_fill(name, PIPES[name][0]) for name in ("ffma", "imad", "lop3", "mufu", "hmma", "dfma")]
    for operands in (1, 2, 8):
        result += [
            _registers(f"ports_ffma_{operands}", "fma.rn.f32 {x}, {a}, {b}, {x};", "FFMA", 8, operands),
            _registers(f"ports_imad_{operands}", "mad.lo.u32 {x}, {x}, {a}, {b};", r"IMAD$", 8, operands),
            _registers(f"ports_lop3_{operands}", "lop3.b32 {x}, {x}, {a}, {b}, 0x6a;", "LOP3", 8, operands),
        ]
    return result + [_uniform(name) for name in UNIFORM]
