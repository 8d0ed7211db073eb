"""Contraction on random kernels: decisions against ptxas's machine code, and the program it makes against a reference.

The kernels are random expression graphs in one type, straight or with branches, guards, loops and registers that are used
again.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tcsim
from gpu_ref.contraction_oracle import check, find_nvdisasm
from gpu_ref.toolchain import find_ptxas
from isa.lower import prepare
from isa.lower.contract import contract, decide
from isa.lower.contract.opcodes import op_of
from isa.lower.contract.products import Sum
from isa.lower.ir import Arg, Const, Instr, Kernel, MemoryArg, Special, VReg
from isa.ptx import parse
from tcsim.module import RoundingWarning
from tests.reference.formats import BF16, F16, F32, F64, Format
from tests.reference.scalar import evaluate

HAVE_TOOLS = find_ptxas() is not None and find_nvdisasm() is not None
needs_ptxas = pytest.mark.skipif(not HAVE_TOOLS, reason="ptxas and nvdisasm are not installed")

THREADS = 32
INPUTS = 6
OUTPUTS = 64


@dataclass(frozen=True)
class Kind:
    """A type: its register prefix, load type, bytes, format, some constants, and whether constants go into registers first."""

    name: str
    prefix: str
    moved: str
    size: int
    format: Format
    constants: tuple[str, ...]
    by_register: bool = False

    @property
    def halves(self) -> int:
        return 2 if self.name.endswith("x2") else 1


KINDS = {
    kind.name: kind
    for kind in (
        Kind("f32", "f", "f32", 4, F32, ("0f3F000000", "0f40400000", "0f40000000", "0fC0A00000")),
        Kind("f64", "d", "f64", 8, F64, ("0d3FE0000000000000", "0d4008000000000000", "0d4000000000000000")),
        Kind("f16", "h", "b16", 2, F16, ("0x3800", "0x4200", "0x4000"), True),
        Kind("bf16", "h", "b16", 2, BF16, ("0x3F00", "0x4040", "0x4000"), True),
        Kind("f16x2", "r", "b32", 4, F16, ("0x38004200", "0x42004200"), True),
        Kind("bf16x2", "r", "b32", 4, BF16, ("0x3F004040", "0x40404040"), True),
    )
}


@dataclass
class Shape:
    """What a kernel is made of: operations, how many, and which extras. ``reuse``: a few registers, written again and again."""

    operations: int = 16
    weights: dict[str, int] = field(default_factory=lambda: {"mul": 36, "add": 28, "sub": 16, "neg": 6, "fma": 6, "max": 4})
    flags: bool = False
    constants: bool = False
    branches: bool = False
    loops: bool = False
    reuse: int = 0


SHAPES = {
    "mixed": Shape(),
    "dense": Shape(weights={"mul": 42, "add": 36, "sub": 20, "neg": 4}),
    "wide": Shape(operations=60),
    "flags": Shape(flags=True),
    "constants": Shape(constants=True),
}


class Writer:
    """Writes one random kernel: ``k(inputs, outputs, n)``, every thread on its own numbers."""

    def __init__(self, rng: random.Random, kind: Kind, shape: Shape, name: str) -> None:
        self.rng, self.kind, self.shape, self.name = rng, kind, shape, name
        self.lines: list[str] = []
        self.registers = self.predicates = self.labels = self.stored = 0
        self.values: list[str] = []
        self.products: list[str] = []
        self.unread: set[str] = set()
        self.pool: list[str] = []

    def kernel(self) -> str:
        """The text of the kernel."""
        kind = self.kind
        self.lines += [
            f".visible .entry {self.name}(.param .u64 inputs, .param .u64 outputs, .param .u32 n)",
            "{",
            ".reg .b64 %rd<4>; .reg .b32 %r<900>; .reg .f32 %f<900>; .reg .f64 %d<900>; .reg .b16 %h<900>; .reg .pred %p<90>;",
            "ld.param.u64 %rd1, [inputs];\nld.param.u64 %rd2, [outputs];\nld.param.u32 %r899, [n];\nmov.u32 %r898, %tid.x;",
            f"mul.wide.u32 %rd3, %r898, {INPUTS * kind.size};\nadd.s64 %rd1, %rd1, %rd3;",
            f"mul.wide.u32 %rd3, %r898, {OUTPUTS * kind.size};\nadd.s64 %rd2, %rd2, %rd3;\nadd.s32 %r899, %r899, %r898;",
        ]
        self.pool = [f"%{kind.prefix}{700 + i}" for i in range(self.shape.reuse)]
        for place in range(self.rng.choice([3, 4, INPUTS])):
            self._value(f"ld.global.{kind.moved}", f"[%rd1+{kind.size * place}]")
        self._block(self.shape.operations, 0)
        for value in dict.fromkeys(self.values):
            if value in self.unread or self.rng.random() < 0.08:
                self._store(value)
        return "\n".join([*self.lines, "ret;", "}", ""])

    # ------------------------------------------------------------------------------------------------- statements

    def _new(self) -> str:
        if self.pool and self.rng.random() < 0.7:
            return self.rng.choice(self.pool)
        self.registers += 1
        return f"%{self.kind.prefix}{self.registers}"

    def _value(self, opcode: str, *operands: str, guard: str = "") -> str:
        target = self._new()
        if guard and target not in self.values:
            self.lines.append(f"mov.{_bits(self.kind)} {target}, {self._pick()};")
        self.lines.append(f"{guard}{opcode} {target}, {', '.join(operands)};")
        self.values = [value for value in self.values if value != target] + [target]
        self.products = [value for value in self.products if value != target]
        self.unread.add(target)
        return target

    def _pick(self, factor: bool = False) -> str:
        recent = self.products[-6:] if self.products and self.rng.random() < 0.45 else self.values[-14:]
        if self.shape.reuse:  # so that more products have sums as their only uses
            fresh = [value for value in self.products if value in self.unread]
            recent = [value for value in self.values if value not in fresh] if factor else fresh or recent
        value = self.rng.choice(recent)
        self.unread.discard(value)
        return value

    def _store(self, value: str) -> None:
        if self.stored < OUTPUTS:
            self.lines.append(f"st.global.{self.kind.moved} [%rd2+{self.kind.size * self.stored}], {value};")
            self.stored += 1
            self.unread.discard(value)

    def _flags(self) -> str:
        if not self.shape.flags:
            return ""
        rng, text = self.rng, ""
        if rng.random() < 0.12:
            text += ".rn"
        if self.kind.name in ("f32", "f16", "f16x2"):
            text += ".ftz" * (rng.random() < 0.4) + ".sat" * (rng.random() < 0.08)
        return text

    def _constant(self) -> str:
        constant = self.rng.choice(self.kind.constants)
        return self._value(f"mov.{_bits(self.kind)}", constant) if self.kind.by_register else constant

    def _operation(self, guard: str = "") -> None:
        rng, kind = self.rng, self.kind.name
        (operation,) = rng.choices(list(self.shape.weights), list(self.shape.weights.values()))
        if operation == "mul":
            first = self._pick(factor=True)
            second = self._constant() if self.shape.constants and rng.random() < 0.35 else self._pick(factor=True)
            self.products.append(self._value(f"mul{self._flags()}.{kind}", first, second, guard=guard))
        elif operation in ("add", "sub"):
            operands = [self._pick(), self._pick(factor=rng.random() < 0.7)]
            rng.shuffle(operands)
            self._value(f"{operation}{self._flags()}.{kind}", *operands, guard=guard)
        elif operation == "fma":
            self._value(f"fma.rn.{kind}", self._pick(), self._pick(), self._pick(), guard=guard)
        elif operation == "max":
            self._value(f"max.{kind}", self._pick(), self._pick(), guard=guard)
        else:
            carried = self._value(f"neg.{kind}", self._pick(), guard=guard)
            if rng.random() < 0.5:
                self.products.append(carried)

    def _predicate(self) -> str:
        self.predicates += 1
        self.lines.append(f"setp.gt.s32 %p{self.predicates}, %r899, {self.rng.randint(1, THREADS)};")
        return f"%p{self.predicates}"

    def _block(self, operations: int, depth: int) -> None:
        while operations > 0:
            chance = self.rng.random() if self.shape.branches or self.shape.loops else 0.0
            if chance < 0.75 or depth > 1:
                self._operation()
                operations -= 1
            elif self.shape.loops and chance < 0.88 and depth == 0:
                operations -= self._loop(min(operations, 5))
            elif self.shape.branches and chance < 0.86:
                self._operation(guard=f"@{self._predicate()} ")
                operations -= 1
            elif self.shape.branches:
                operations -= self._branch(min(operations, 6), depth)

    def _branch(self, operations: int, depth: int) -> int:
        predicate = self._predicate()
        self.labels += 1
        label = f"L{self.labels}"
        before = (list(self.values), list(self.products))
        self.lines.append(f"@{predicate} bra {label};")
        self._block(operations, depth + 1)
        self._store(self._pick())
        kept = set(before[0])
        self.values = [value for value in before[0] if value in kept]
        self.products = [value for value in before[1] if value in kept]
        self.unread &= kept
        self.lines.append(f"{label}:")
        return operations

    def _loop(self, operations: int) -> int:
        self.labels += 1
        label, counter, predicate = f"L{self.labels}", f"%r{800 + self.labels}", f"%p{60 + self.labels}"
        carried = self._value(f"mov.{_bits(self.kind)}", self._pick())
        self.lines += [f"mov.u32 {counter}, 0;", f"{label}:", '.pragma "nounroll";']
        outside = list(self.values)
        for _ in range(operations):
            self._operation()
        self.lines.append(f"mov.{_bits(self.kind)} {carried}, {self._pick()};")
        self._store(self._pick())
        self.lines += [
            f"add.u32 {counter}, {counter}, 1;",
            f"setp.lt.u32 {predicate}, {counter}, 3;",
            f"@{predicate} bra {label};",
        ]
        self.values = [value for value in self.values if value in outside]
        self.products = [value for value in self.products if value in outside]
        self.unread = (self.unread & set(outside)) | {carried}
        return operations


def _bits(kind: Kind) -> str:
    return f"b{8 * kind.size}"


def module(seed: int, kind: str, shapes: list[Shape], target: str) -> str:
    """A module with one kernel ``k0``, ``k1``, ... per shape."""
    rng = random.Random(f"{seed} {kind}")
    kernels = [Writer(rng, KINDS[kind], shape, f"k{number}").kernel() for number, shape in enumerate(shapes)]
    return f".version 8.0\n.target {target}\n.address_size 64\n" + "".join(kernels)


# ------------------------------------------------------------------------------------------------ against machine code


@needs_ptxas
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_straight_kernels_fuse_as_ptxas_does(kind: str, target: str) -> None:
    if kind.startswith("bf16") and target == "sm_80":
        pytest.skip("bf16 arithmetic needs sm_90")
    agreement = check(module(1, kind, list(SHAPES.values()) * 8, target))
    assert len(agreement.rows) > 300
    assert {row.actual for row in agreement.rows} >= {"fused", "plain"}
    assert not [str(row) for row in agreement.disagreements]


@needs_ptxas
def test_branches_fuse_as_ptxas_does() -> None:
    """Here ptxas also moves computations over branches, in ways that are only partly known: most sums must agree, and most of
    the others must be reported as undecided."""
    agreement = check(module(2, "f32", [Shape(branches=True, constants=n % 2 == 0) for n in range(60)], "sm_90"))
    wrong = [row for row in agreement.disagreements if not row.undecided]
    seen = [row for row in agreement.rows if row.actual in ("fused", "plain")]
    assert len(seen) > 200
    assert len(wrong) < 0.02 * len(seen), [str(row) for row in wrong]


# --------------------------------------------------------------------------------------------------- against a reference


class Thread:
    """One thread of a kernel before it is contracted, in plain Python, with the chosen sums fused."""

    def __init__(self, kernel: Kernel, inputs: list[int], n: int, kind: Kind) -> None:
        self.kernel, self.inputs, self.n, self.kind = kernel, inputs, n, kind
        self.registers: dict[int, int] = {}
        self.outputs = [0] * OUTPUTS
        self.factors: dict[int, tuple[int, int]] = {}
        self.chosen = {total.instr: total for total in decide(kernel).candidates.sums if total.chosen is not None}

    def run(self) -> list[int]:
        """The words that it stores."""
        index = 0
        while index < len(self.kernel.instructions):
            instr = self.kernel.instructions[index]
            index += 1
            if instr.guard is not None and bool(self.registers.get(instr.guard.register.index)) == instr.guard.negated:
                continue
            if instr.form.instruction.control == "exit":
                break
            if instr.target is not None:
                index = instr.target
            else:
                self._execute(index - 1, instr)
        return self.outputs

    def _read(self, arg: Arg) -> int:
        if isinstance(arg, Const):
            return arg.bits
        if isinstance(arg, Special):
            return self.n  # %tid.x
        assert isinstance(arg, VReg)
        return self.registers.get(arg.index, 0)

    def _execute(self, number: int, instr: Instr) -> None:
        op = op_of(instr.form)
        if op.base in ("ld", "st"):
            self._access(instr, op.base, op.type)
            return
        target = instr.args["d"] if "d" in instr.args else instr.args["p"]
        if op.type in KINDS or op.base == "mov":
            sources = [self._read(instr.args[name]) for name in op.sources]
            if op.base == "mov":
                result = sources[0]
            elif number in self.chosen:
                result = self._fused(self.chosen[number], op.base, op.ftz, op.sat, sources)
            else:
                result = self._evaluate(instr.opcode, sources)
            if op.base == "mul":
                self.factors[number] = (sources[0], sources[1])
        elif op.base == "setp":
            a, b = (self._read(instr.args[name]) for name in op.sources[:2])
            result = int(a > b if "gt" in op.words else a < b)
        elif op.type in ("u32", "s32") and op.base == "add":
            result = (self._read(instr.args["a"]) + self._read(instr.args["b"])) & 0xFFFF_FFFF
        else:
            return  # addresses
        assert isinstance(target, VReg)
        self.registers[target.index] = result

    def _access(self, instr: Instr, base: str, type_: str) -> None:
        address = instr.args["a"]
        assert isinstance(address, MemoryArg)
        if type_ == "u64":
            return
        if base == "ld":
            target = instr.args["d"]
            target = target[0] if isinstance(target, tuple) else target
            assert isinstance(target, VReg)
            is_parameter = not isinstance(address.base, VReg)
            self.registers[target.index] = 0 if is_parameter else self.inputs[address.offset // self.kind.size]
        else:
            value = instr.args["b"]
            self.outputs[address.offset // self.kind.size] = self._read(value[0] if isinstance(value, tuple) else value)

    def _evaluate(self, opcode: str, words: list[int]) -> int:
        if opcode.startswith("mov"):
            return words[0]
        return evaluate(opcode, tuple(words))["d"]

    def _fused(self, total: Sum, base: str, ftz: bool, sat: bool, sources: list[int]) -> int:
        assert total.chosen is not None
        taken = total.operands[total.chosen]
        assert taken.product is not None
        a, b = self.factors[taken.product.instr]
        c = sources[1 - total.chosen]
        if taken.negative != (base == "sub" and total.chosen == 1):
            a = self._negated(a)
        if base == "sub" and total.chosen == 0:
            c = self._negated(c)
        return self._evaluate(f"fma.rn{'.ftz' * ftz}{'.sat' * sat}.{self.kind.name}", [a, b, c])

    def _negated(self, word: int) -> int:
        sign = self.kind.format.sign
        return word ^ (sign | sign << self.kind.format.width if self.kind.halves == 2 else sign)


def _numbers(rng: random.Random, kind: Kind) -> list[list[int]]:
    """Inputs of all threads: numbers of moderate size with full significands, so that a fused sum shows."""
    f = kind.format

    def one() -> int:
        exponent = f.bias + rng.randint(-3, 3)
        return rng.getrandbits(1) * f.sign | exponent << f.mbits | rng.getrandbits(f.mbits)

    def word() -> int:
        return one() | one() << f.width if kind.halves == 2 else one()

    return [[word() for _ in range(INPUTS)] for _ in range(THREADS)]


def _run_both(text: str, name: str, kind: Kind, seed: int) -> Iterator[tuple[list[int], list[int]]]:
    rng = random.Random(seed)
    inputs = _numbers(rng, kind)
    dtype: Any = {2: np.uint16, 4: np.uint32, 8: np.uint64}[kind.size]
    out = tcsim.zeros((THREADS, OUTPUTS), dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoundingWarning)  # compared with what was decided, not with hardware
        function = tcsim.RawModule(code=text).get_function(name)
    function((1,), (THREADS,), (tcsim.asarray(np.array(inputs, dtype)), out, np.uint32(0)))
    results = tcsim.asnumpy(out)
    kernel = prepare(parse(text), name)
    for number in range(0, THREADS, 5):
        yield [int(word) for word in results[number]], Thread(kernel, inputs[number], number, kind).run()


DENSE = {"mul": 32, "add": 40, "sub": 26, "neg": 2}
REUSING = [
    Shape(40, DENSE, reuse=5),
    Shape(30, DENSE, reuse=4, loops=True),
    Shape(30, DENSE, reuse=6, branches=True),
    Shape(30, DENSE, reuse=3, flags=True),
] * 4


@pytest.mark.parametrize("kind", ["f32", "f64", "f16x2"])
def test_contracted_programs_compute_what_was_decided(kind: str) -> None:
    """Factors survive until the sum although their registers are overwritten, in loops and over branches too."""
    text = module(3, kind, REUSING, "sm_90")
    fused = saved = 0
    for number in range(len(REUSING)):
        name = f"k{number}"
        kernel = prepare(parse(text), name)
        fused += sum(total.chosen is not None for total in decide(kernel).candidates.sums)
        contract(kernel)
        saved += sum(instr.origin == "contract" and instr.opcode.startswith("mov") for instr in kernel.instructions)
        for got, wanted in _run_both(text, name, KINDS[kind], number):
            assert got == wanted
    assert fused > 20
    assert saved > 3
