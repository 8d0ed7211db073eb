"""Latency and interval of one instruction, from chains of it.

Each operation is timed in loops of 32 and of 96 copies: the difference, over 64 copies, holds nothing of the loop itself.

latency     one warp, one chain: every copy needs the result of the one before
interval    32 warps (8 a sub-partition), 4 independent chains each: cycles from one start to the next, per sub-partition
alone       the same with the warps of one sub-partition only; shorter than ``interval`` if the four share the unit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .gpu import Benchmark, Gpu
from .machine_code import Check
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import OPERANDS, REPEATS, per_operation

__all__ = ["Op", "chain_benchmark", "chain_benchmarks"]

SHORT, LONG = 32, 96
CHAINS = 4
WARPS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Op:
    """An instruction in a chain.

    ``text``: PTX; ``{x}`` is the chain's register (its source and destination), of ``kind`` b32 or b64; ``{y} {z}``
    registers of the same kind that all chains share (``{a} {b}`` always 32 bits, ``{Y} {Z}`` always 64); ``{j}`` (32
    bits) and ``{v}`` (64) a second register of the chain, predicates ``{p} {q}``, all with a value to begin with;
    scratch ``{h} {k}`` (16 bits), ``{t} {u}`` (32), ``{w}`` (64). ``second``: what every other copy is instead.
    ``sass``: the opcode that it becomes (regular expression), ``count`` times; "" where it becomes a sequence, which is
    timed as a whole; ``others``: how many other instructions the loop may hold. ``operands``: pa, pb, pc; chains start at
    pa + thread.
    """

    name: str
    text: str
    sass: str
    kind: str = "b32"
    count: int = 1
    operands: tuple[int, int, int] = OPERANDS
    others: int | None = 16
    note: str = ""
    target: str = "sm_90"
    second: str = ""


def _registers(op: Op, chain: int) -> dict[str, str]:
    wide = op.kind == "b64"
    names = {letter: f"%{letter}{chain}" for letter in "xpqhtuwvkj"}
    return names | {"y": "%Y" if wide else "%y", "z": "%Z" if wide else "%z", "Y": "%Y", "Z": "%Z", "a": "%y", "b": "%z"}


def _kernel(op: Op, entry: str, copies: int, chains: int) -> str:
    names = [_registers(op, chain) for chain in range(chains)]
    declarations = [
        ".reg .b32 %y, %z, %sum, %low;",
        ".reg .b64 %Y, %Z, %Sum;",
        ".reg .pred %odd;",
    ]
    setup = [
        "mov.b32 %y, %pb;",
        "mov.b32 %z, %pc;",
        "mov.b64 %Y, {%pc, %pb};",
        "mov.b64 %Z, {%pb, %pc};",
        "and.b32 %low, %pb, 1;",
        "setp.ne.u32 %odd, %low, 0;",
    ]
    finish = ["mov.b32 %sum, 0;"]
    for name in names:
        declarations.append(
            f".reg .{op.kind} {name['x']}; .reg .pred {name['p']}, {name['q']}; .reg .b16 {name['h']}, {name['k']}; "
            f".reg .b32 {name['t']}, {name['u']}, {name['j']}; .reg .b64 {name['w']}, {name['v']};"
        )
        chain = names.index(name)
        setup.append(f"add.u32 %low, %pa, %thread; add.u32 %low, %low, {chain * 2}; add.u32 {name['j']}, %low, 77;")
        setup.append(f"setp.lt.u32 {name['p']}, %low, %pb; setp.gt.u32 {name['q']}, %low, %pc;")
        setup.append(f"mov.b64 {name['v']}, {{%low, %pb}};")
        setup.append(f"mov.b32 {name['x']}, %low;" if op.kind == "b32" else f"mov.b64 {name['x']}, {{%low, %pa}};")
        if op.kind == "b64":
            finish.append(f"cvt.u32.u64 %low, {name['x']}; xor.b32 %sum, %sum, %low; shr.u64 {name['x']}, {name['x']}, 32;")
            finish.append(f"cvt.u32.u64 %low, {name['x']}; xor.b32 %sum, %sum, %low;")
        else:
            finish.append(f"xor.b32 %sum, %sum, {name['x']};")
        finish.append(f"xor.b32 %sum, %sum, {name['j']}; cvt.u32.u64 %low, {name['v']}; xor.b32 %sum, %sum, %low;")
        finish.append(f"shr.u64 {name['v']}, {name['v']}, 32; cvt.u32.u64 %low, {name['v']}; xor.b32 %sum, %sum, %low;")
        finish.append(f"selp.b32 %low, 1, 0, {name['p']}; xor.b32 %sum, %sum, %low;")
    finish.append("st.global.u32 [%own], %sum;")
    texts = (op.text, op.second or op.text)
    body = [texts[i // chains % 2].format(**names[i % chains]) for i in range(copies)]
    return timed_kernel(entry, body, declarations="\n".join(declarations), setup=setup, finish=finish)


def chain_benchmark(family: str, op: Op) -> Benchmark:
    """Latency and interval of ``op``."""
    kernels, checks = [], []
    for label, chains in (("latency", 1), ("interval", CHAINS)):
        for copies in (SHORT, LONG):
            entry = f"{label}_{copies}"
            kernels.append(_kernel(op, entry, copies, chains))
            if op.sass:
                checks.append(Check(entry, op.sass, copies * op.count, op.others))

    def measure(gpu: Gpu) -> Outcome:
        return _measure(gpu, op)

    return Benchmark(family, op.name, module(kernels, op.target), measure, tuple(checks))


def chain_benchmarks(family: str, ops: Sequence[Op]) -> list[Benchmark]:
    """One benchmark per operation."""
    return [chain_benchmark(family, op) for op in ops]


def _measure(gpu: Gpu, op: Op) -> Outcome:
    each = LONG - SHORT
    latency, spread = per_operation(gpu, f"latency_{SHORT}", f"latency_{LONG}", each, operands=op.operands)
    outcome = Outcome(code=f"{op.text} {op.second} {op.note}".strip())
    outcome.numbers["latency"] = Number(latency, "cycles", "one warp, one dependent chain", spread, REPEATS)
    curves: dict[str, list[float]] = {}
    for label, name in (("latency", "one_chain"), ("interval", "four_chains")):
        short, long = f"{label}_{SHORT}", f"{label}_{LONG}"
        curves[name] = []
        for warps in WARPS:
            busiest = -(-warps // 4)
            cycles, spread = per_operation(gpu, short, long, each * busiest, operands=op.operands, repeats=3, warps=warps)
            curves[name].append(cycles)
    outcome.numbers["interval"] = Number(
        curves["four_chains"][-1], "cycles per warp instruction of a sub-partition", "32 warps, 4 chains each", spread, 3
    )
    alone, spread = per_operation(
        gpu, f"interval_{SHORT}", f"interval_{LONG}", each * 8, operands=op.operands, repeats=3, warps=32, skip=3
    )
    outcome.numbers["interval_alone"] = Number(
        alone, "cycles per warp instruction", "8 warps of one sub-partition, 4 chains each", spread, 3
    )
    outcome.raw |= {"warps": list(WARPS), **curves}
    return outcome
