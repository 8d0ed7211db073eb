"""Matrix instructions: every ``mma.sync`` shape and type, ``mma.sp``, and ``wgmma`` by N.

mma: chains as in :mod:`.chains`, through the accumulator (D to C), through A and through B; the interval with 1 to 16 warps
and 1, 2 or 4 independent accumulators each.
"""

from __future__ import annotations

from dataclasses import dataclass

from .gpu import Benchmark, Gpu
from .machine_code import Check
from .ptx import module, timed_kernel
from .results import Number, Outcome
from .timing import REPEATS, per_operation

__all__ = ["FAMILY", "FORMS", "Form", "benchmarks"]

FAMILY = "tensor"
SHORT, LONG = 8, 24
WARPS = (1, 2, 4, 8, 16)
METADATA = 0x44444444
"""Of sparse operands: the first two elements of every four are stored."""


@dataclass(frozen=True)
class Form:
    """``shape`` and ``types`` (D, A, B, C) of a dense or (``sparse``) structured-sparse mma; registers of A, B and D.

    ``sass``: the opcode that it becomes on sm_90, ``count`` times; "" for sequences.
    """

    shape: str
    types: str
    a: int
    b: int
    d: int
    sass: str
    count: int = 1
    sparse: bool = False
    extra: str = ""

    @property
    def name(self) -> str:
        kind = "mma_sp" if self.sparse else "mma"
        return f"{kind}_{self.shape}_{self.types.replace('.', '_')}{self.extra.replace('.', '_')}"

    @property
    def wide(self) -> bool:
        return self.types.startswith("f64")

    @property
    def warps(self) -> tuple[int, ...]:
        """Numbers of warps to try: large operands, in four accumulators, leave room for eight."""
        large = (self.a + self.b > 8 and self.wide) or (self.sparse and "e4m3" in self.types)
        return tuple(w for w in WARPS if not large or w <= 8)

    def text(self, d: list[str], a: list[str], b: list[str], c: list[str]) -> str:
        kind = "mma.sp::ordered_metadata" if self.sparse else "mma"
        tail = self.extra if self.types.startswith("s32") else ""
        operation = f".{tail[1:]}.popc" if self.types.endswith("b1.s32") else ""
        saturate = tail if not operation else ""
        groups = ", ".join("{" + ", ".join(group) + "}" for group in (d, a, b, c))
        meta = ", %pa, 0x0" if self.sparse else ""
        return f"{kind}.sync.aligned.{self.shape}.row.col{saturate}.{self.types}{operation} {groups}{meta};"


def _dense() -> list[Form]:
    forms = [
        Form("m16n8k8", "f16.f16.f16.f16", 2, 1, 2, "HMMA"),
        Form("m16n8k8", "f32.f16.f16.f32", 2, 1, 4, "HMMA"),
        Form("m16n8k16", "f16.f16.f16.f16", 4, 2, 2, "HMMA"),
        Form("m16n8k16", "f32.f16.f16.f32", 4, 2, 4, "HMMA"),
        Form("m16n8k8", "f32.bf16.bf16.f32", 2, 1, 4, "HMMA"),
        Form("m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4, "HMMA"),
        Form("m16n8k4", "f32.tf32.tf32.f32", 2, 1, 4, "HMMA"),
        Form("m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4, "HMMA"),
        Form("m8n8k4", "f32.f16.f16.f32", 2, 2, 8, ""),
        Form("m8n8k4", "f16.f16.f16.f16", 2, 2, 4, ""),
        Form("m8n8k16", "s32.s8.s8.s32", 1, 1, 2, "IMMA"),
        Form("m16n8k16", "s32.s8.s8.s32", 2, 1, 4, "IMMA"),
        Form("m16n8k32", "s32.s8.s8.s32", 4, 2, 4, "IMMA"),
        Form("m16n8k32", "s32.u8.s8.s32", 4, 2, 4, "IMMA"),
        Form("m16n8k32", "s32.s8.s8.s32", 4, 2, 4, "IMMA", extra=".satfinite"),
        Form("m8n8k32", "s32.s4.s4.s32", 1, 1, 2, ""),
        Form("m16n8k32", "s32.s4.s4.s32", 2, 1, 4, ""),
        Form("m16n8k64", "s32.s4.s4.s32", 4, 2, 4, ""),
        Form("m16n8k64", "s32.u4.u4.s32", 4, 2, 4, ""),
        Form("m8n8k4", "f64.f64.f64.f64", 1, 1, 2, "DMMA"),
        Form("m16n8k4", "f64.f64.f64.f64", 2, 1, 4, "DMMA"),
        Form("m16n8k8", "f64.f64.f64.f64", 4, 2, 4, "DMMA"),
        Form("m16n8k16", "f64.f64.f64.f64", 8, 4, 4, "DMMA"),
        Form("m16n8k32", "f32.e4m3.e4m3.f32", 4, 2, 4, ""),
        Form("m16n8k32", "f32.e5m2.e5m2.f32", 4, 2, 4, ""),
        Form("m16n8k32", "f16.e4m3.e4m3.f16", 4, 2, 2, ""),
        Form("m16n8k16", "f32.e4m3.e4m3.f32", 2, 1, 4, ""),
    ]
    for operation in ("xor", "and"):
        sass = "BMMA" if operation == "and" else ""
        forms += [
            Form("m8n8k128", "s32.b1.b1.s32", 1, 1, 2, sass, extra=f".{operation}"),
            Form("m16n8k128", "s32.b1.b1.s32", 2, 1, 4, sass, extra=f".{operation}"),
            Form("m16n8k256", "s32.b1.b1.s32", 4, 2, 4, sass, extra=f".{operation}"),
        ]
    return forms


FORMS = (
    *_dense(),
    Form("m16n8k16", "f32.f16.f16.f32", 2, 2, 4, "HMMA", sparse=True),
    Form("m16n8k32", "f32.f16.f16.f32", 4, 4, 4, "HMMA", sparse=True),
    Form("m16n8k32", "f16.f16.f16.f16", 4, 4, 2, "HMMA", sparse=True),
    Form("m16n8k32", "f32.bf16.bf16.f32", 4, 4, 4, "HMMA", sparse=True),
    Form("m16n8k8", "f32.tf32.tf32.f32", 2, 2, 4, "HMMA", sparse=True),
    Form("m16n8k16", "f32.tf32.tf32.f32", 4, 4, 4, "HMMA", sparse=True),
    Form("m16n8k32", "s32.s8.s8.s32", 2, 2, 4, "IMMA", sparse=True),
    Form("m16n8k64", "s32.s8.s8.s32", 4, 4, 4, "IMMA", sparse=True),
    Form("m16n8k64", "s32.s4.s4.s32", 2, 2, 4, "", sparse=True),
    Form("m16n8k128", "s32.s4.s4.s32", 4, 4, 4, "", sparse=True),
    Form("m16n8k64", "f32.e4m3.e4m3.f32", 4, 4, 4, "", sparse=True),
)


def _kernel(form: Form, entry: str, copies: int, chains: int, through: str) -> str:
    """``through``: which operand carries the chain, c, a or b."""
    size = "b64" if form.wide else "b32"
    declarations = [f".reg .{size} %a<{form.a}>, %b<{form.b}>, %c<{form.d}>, %z; .reg .b32 %low, %sum; .reg .b64 %high;"]
    setup = ["mov.b32 %low, %pb;"]
    value = "mov.b64 {}, {{%low, %low}};" if form.wide else "mov.b32 {}, %low;"
    for letter, count in (("a", form.a), ("b", form.b), ("c", form.d)):
        setup += [f"add.u32 %low, %low, %lane; {value.format(f'%{letter}{i}')}" for i in range(count)]
    for chain in range(chains):
        declarations.append(f".reg .{size} %d{chain}_<{form.d}>;")
        setup += [f"add.u32 %low, %low, 1; {value.format(f'%d{chain}_{i}')}" for i in range(form.d)]
    body = []
    for copy in range(copies):
        d = [f"%d{copy % chains}_{i}" for i in range(form.d)]
        a = [f"%a{i}" for i in range(form.a)]
        b = [f"%b{i}" for i in range(form.b)]
        c = d
        if through == "a":
            a, c = [d[i % form.d] for i in range(form.a)], [f"%c{i}" for i in range(form.d)]
        elif through == "b":
            b, c = [d[i % form.d] for i in range(form.b)], [f"%c{i}" for i in range(form.d)]
        body.append(form.text(d, a, b, c))
    finish = ["mov.b32 %sum, 0;"]
    for chain in range(chains):
        for i in range(form.d):
            name = f"%d{chain}_{i}"
            if form.wide:
                finish.append(f"cvt.u32.u64 %low, {name}; xor.b32 %sum, %sum, %low; shr.u64 %high, {name}, 32;")
                finish.append("cvt.u32.u64 %low, %high; xor.b32 %sum, %sum, %low;")
            else:
                finish.append(f"xor.b32 %sum, %sum, {name};")
    finish.append("st.global.u32 [%own], %sum;")
    return timed_kernel(entry, body, declarations="\n".join(declarations), setup=setup, finish=finish)


_KINDS = (("d_c", 1, "c"), ("d_a", 1, "a"), ("d_b", 1, "b"), ("ilp2", 2, "c"), ("ilp4", 4, "c"))


def _mma(form: Form) -> Benchmark:
    kernels, checks = [], []
    for label, chains, operand in _KINDS:
        # The products of FP8 operands that do not change are computed once and only added: let A change too.
        through = "a" if ("e4m3" in form.types or "e5m2" in form.types) and operand == "c" else operand
        for copies in (SHORT, LONG):
            entry = f"{label}_{copies}"
            kernels.append(_kernel(form, entry, copies, chains, through))
            if form.sass:
                checks.append(Check(entry, form.sass, copies * form.count, 240 if through != "c" else 16))
    return Benchmark(FAMILY, form.name, module(kernels, version="8.7"), lambda gpu: _measure(gpu, form), tuple(checks))


def _measure(gpu: Gpu, form: Form) -> Outcome:
    each = LONG - SHORT
    operands = (METADATA, 0, 0)
    text = form.text(["D"], ["A"], ["B"], ["C"])
    outcome = Outcome(code=text)
    for label, name in (("d_c", "latency"), ("d_a", "latency_to_a"), ("d_b", "latency_to_b")):
        cycles, spread = per_operation(gpu, f"{label}_{SHORT}", f"{label}_{LONG}", each, operands=operands)
        how = f"one warp, each takes the one before as {label[-1].upper()}"
        outcome.numbers[name] = Number(cycles, "cycles", how, spread, REPEATS)
    outcome.raw["warps"] = list(form.warps)
    for label, chains in (("d_c", 1), ("ilp2", 2), ("ilp4", 4)):
        curve = []
        for warps in form.warps:
            busiest = -(-warps // 4)
            cycles, spread = per_operation(
                gpu, f"{label}_{SHORT}", f"{label}_{LONG}", each * busiest, operands=operands, repeats=3, warps=warps
            )
            curve.append(cycles)
        outcome.raw[f"ilp{chains}"] = curve
    how = f"{form.warps[-1]} warps, 4 accumulators each"
    outcome.numbers["interval"] = Number(curve[-1], "cycles per warp instruction of a sub-partition", how, spread, 3)
    one, spread = per_operation(gpu, f"ilp4_{SHORT}", f"ilp4_{LONG}", each, operands=operands, repeats=3)
    how = "one warp, 4 accumulators"
    outcome.numbers["interval_one_warp"] = Number(one, "cycles per warp instruction", how, spread, 3)
    return outcome


def benchmarks() -> list[Benchmark]:
    """All of this family but ``wgmma``, which :mod:`.wgmma` has."""
    return [_mma(form) for form in FORMS]
