"""Random PTX kernels of all types mixed, with branches, loops, guards, shared memory and exchange between lanes: what machine
code and PTX must agree on.

Left out is what ptxas 13.0 changes the value of, so that machine code rightly differs from PTX: the bits of NaNs (which NaN
comes out of a float64 operation on several depends on the order of its operands, and a float32 NaN stays as it is where two
negations cancel; so floats do not become integers bit by bit, and :func:`same` takes NaNs as equal); products and sums that
may be contracted (:mod:`tests.test_contract_fuzz`); ``rcp.approx`` of ``rcp.approx``, which it drops; ``cvt.f32.u32`` of
``abs.s32``, which becomes a signed conversion; and ``shr.s16`` by a negated truth value, ``mad.hi`` in loops that it unrolls,
``lop3`` with equal operands, and ``testp`` and ``set`` to float32 under a guard, which it gets wrong. (Of such a ``set`` it
guards the comparison but not the conversion after it, ``@P SEL R0, RZ, -1, P1; IABS R5, R0; I2FP.F32.S32 R5, R5``: where the
guard is false, the old bits are taken for an integer and become a float.) Not left out, as they hang on rare values: ``slct``
by an integer constant that is negative, ``rem.s32`` and ``cvt.sat`` of ``abs.s32`` of -2^31, ``cvt.sat`` of the negative of
-2^31, and ``sub.sat`` of a sum and one of its terms, all of which it takes to be what they are in exact arithmetic (it takes
``abs.s32`` to be at least 0, so that ``cvt.sat.s16.s32`` of it is an unsigned minimum with 0x7fff).
(:mod:`tests.test_scalar_hardware` checks instructions one by one.)
"""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

THREADS = 64
WORDS = 8
"""32-bit words that every thread reads; it writes :data:`RESULTS` of them."""
RESULTS = 44

# Opcode and register classes of its operands, the destination first. r: 32 bits, q: 64 bits, h: 16 bits, f, d: floats, p: a
# predicate; a class in capitals is a constant of that kind.
_OPERATIONS = [
    *(f"{op}.{t} r r r" for op in ("add", "sub", "min", "max", "mul.lo", "mul.hi") for t in ("s32", "u32")),
    *(f"{op}.s32 r r r r" for op in ("mad.lo", "sad")),
    *("div.s32 r r r", "rem.u32 r r r", "div.u32 r r r", "rem.s32 r r r"),
    *("and.b32 r r r", "or.b32 r r r", "xor.b32 r r r", "not.b32 r r", "cnot.b32 r r"),
    *("shl.b32 r r r", "shr.u32 r r r", "shr.s32 r r r", "shl.b32 r r R5", "shr.s32 r r R5"),
    *("shf.l.wrap.b32 r r r r", "shf.r.clamp.b32 r r r r", "prmt.b32 r r r r", "prmt.b32 r r r R"),
    *(
        "bfe.u32 r r r r",
        "bfe.s32 r r R5 R5",
        "bfi.b32 r r r R5 R5",
        "popc.b32 r r",
        "clz.b32 r r",
        "brev.b32 r r",
        "bfind.s32 r r",
    ),
    *("lop3.b32 r r r r B", "abs.s32 r r", "neg.s32 r r", "dp4a.s32.u32 r r r r", "add.s32 r r R", "mad.lo.s32 r r R r"),
    *("add.s64 q q q", "sub.s64 q q q", "mul.lo.s64 q q q", "mul.wide.s32 q r r", "mul.wide.u32 q r r", "mad.wide.s32 q r r q"),
    *("and.b64 q q q", "xor.b64 q q q", "shl.b64 q q r", "shr.s64 q q r", "shr.u64 q q R5", "min.s64 q q q", "max.u64 q q q"),
    *("neg.s64 q q", "abs.s64 q q", "popc.b64 r q", "clz.b64 r q", "mul.hi.u64 q q q", "div.u64 q q q", "rem.s64 q q q"),
    *("add.s16 h h h", "mul.lo.s16 h h h", "mul.wide.u16 r h h", "min.s16 h h h", "sub.u16 h h h"),
    *("cvt.u32.u16 r h", "cvt.s32.s16 r h", "cvt.u16.u32 h r", "cvt.s64.s32 q r", "cvt.u32.u64 r q", "cvt.s32.s8 r r"),
    *("cvt.rn.f32.s32 f r", "cvt.rzi.s32.f32 r f", "cvt.rni.u32.f32 r f", "cvt.rmi.s64.f32 q f"),
    *(
        "cvt.rn.f64.s32 d r",
        "cvt.rn.f64.s64 d q",
        "cvt.rzi.s32.f64 r d",
        "cvt.rpi.s64.f64 q d",
        "cvt.rn.f32.f64 f d",
        "cvt.f64.f32 d f",
    ),
    *("add.rn.f32 f f f", "mul.rn.f32 f f f", "fma.rn.f32 f f f f", "fma.rz.f32 f f f f"),
    *("min.f32 f f f", "max.f32 f f f", "abs.f32 f f", "neg.f32 f f", "add.ftz.f32 f f f", "mul.ftz.sat.f32 f f f"),
    *("div.rn.f32 f f f", "sqrt.rn.f32 f f", "ex2.approx.ftz.f32 f f", "lg2.approx.f32 f f"),
    *("add.rn.f64 d d d", "mul.rn.f64 d d d", "fma.rn.f64 d d d d", "min.f64 d d d", "sqrt.rn.f64 d d", "div.rn.f64 d d d"),
    *("selp.b32 r r r p", "selp.b64 q q q p", "selp.f32 f f f p", "selp.f64 d d d p"),
    *(f"setp.{cmp}.s32 p r r" for cmp in ("lt", "le", "eq", "ne", "gt", "ge")),
    *(f"setp.{cmp}.u64 p q q" for cmp in ("lt", "ge", "eq")),
    *(f"setp.{cmp}.f32 p f f" for cmp in ("lt", "leu", "neu", "nan")),
    *(
        "setp.gt.f64 p d d",
        "setp.lt.and.s32 p r r p",
        "setp.ne.or.u32 p r R p",
        "and.pred p p p",
        "xor.pred p p p",
        "not.pred p p",
    ),
    *("mov.b32 f r", "mov.b64 d q", "mov.u32 r R"),
]
# Less common ones, which random kernels of "more" kinds use as well. f16x2 and bf16x2 are pairs in 32-bit registers.
_MORE = """
add.rn.f16x2 r r r; sub.rn.f16x2 r r r; mul.rn.f16x2 r r r; fma.rn.f16x2 r r r r; min.f16x2 r r r; max.NaN.f16x2 r r r;
fma.rn.relu.f16x2 r r r r; add.rn.sat.f16x2 r r r; cvt.rn.f16x2.f32 r f f; cvt.rn.bf16x2.f32 r f f; cvt.rn.f16.f32 h f;
cvt.f32.f16 f h; cvt.f32.bf16 f h; fma.rn.bf16x2 r r r r; min.bf16x2 r r r; max.NaN.bf16x2 r r r; set.ltu.u32.f16x2 r r r;
mul.hi.s64 q q q; mad.lo.s64 q q q q; mad.hi.u64 q q q q; div.s64 q q q; rem.u64 q q q; brev.b64 q q; bfe.u64 q q R5 R5;
bfe.s64 q q r r; bfi.b64 q q q R5 R5; bfind.u64 r q; not.b64 q q; or.b64 q q q; cnot.b64 q q; mad.wide.u32 q r r q;
shl.b64 q q R5; shr.s64 q q R5; max.s64 q q q; min.u64 q q q; cvt.u64.u32 q r; setp.le.s64 p q q; setp.hi.u64 p q q;
setp.lt.xor.u64 p q q p; setp.equ.f64 p d d; setp.num.and.f32 p f f p; or.pred p p p; mov.pred p p; selp.b16 h h h p;
selp.u32 r R r p; slct.s32.s32 r r r r; slct.u64.f32 q q q f; set.lt.u32.s32 r r r; set.gt.f32.f64 f d d;
set.ne.and.s32.u32 r r r p; dp2a.lo.u32.s32 r r r r; dp4a.u32.u32 r r r r; prmt.b32.f4e r r r r; prmt.b32.b4e r r r r;
prmt.b32.rc16 r r r r; bmsk.clamp.b32 r r r; szext.wrap.s32 r r r; fns.b32 r r r r; mul24.lo.s32 r r r;
mad24.hi.u32 r r r r; sad.u16 h h h h; shr.u16 h h r; and.b16 h h h; add.sat.s32 r r r; sub.sat.s32 r r r;
cvt.sat.u8.s32 r r; cvt.sat.s16.s32 h r; cvt.pack.sat.s16.s32 r r r; cvt.rzi.u64.f64 q d; cvt.rni.f32.f32 f f;
cvt.rmi.f64.f64 d d; cvt.rn.f32.u64 f q; cvt.rp.f64.u64 d q; add.rz.f32 f f f; add.rm.f64 d d d; mul.rp.f32 f f f;
fma.rm.f64 d d d d; rcp.rn.f64 d d; rsqrt.approx.f32 f f; sqrt.approx.f32 f f; rcp.rz.f32 f f; div.rp.f64 d d d;
sin.approx.f32 f f; cos.approx.ftz.f32 f f; tanh.approx.f32 f f; min.NaN.f32 f f f; max.ftz.f32 f f f;
testp.finite.f32 p f; testp.subnormal.f64 p d; vadd.s32.u32.s32.sat r r r; vabsdiff.u32.s32.s32 r r r;
vmin.s32.s32.s32 r r r
"""
_FOR_SM_90 = ("bf16x2 r r", "f32.bf16")  # of these, what older architectures lack
_CLASSES = "rqhfdp"
_COUNT = 6


class _Kernel:
    """Writes one kernel ``name(in, out)``: every thread reads its words, computes, and writes every register."""

    def __init__(self, rng: random.Random, name: str, operations: list[str], more: bool) -> None:
        self.rng, self.name, self.operations, self.more = rng, name, operations, more
        self.lines: list[str] = []
        self.labels = 0

    def text(self, operations: int) -> str:
        self.lines += [
            f".visible .entry {self.name}(.param .u64 in, .param .u64 out)",
            "{",
            ".reg .b32 %r<40>; .reg .b64 %q<40>; .reg .b16 %h<40>; .reg .f32 %f<40>; .reg .f64 %d<40>; .reg .pred %p<40>;",
            f".reg .b32 %u<3>; .shared .align 8 .b8 slots[{8 * THREADS}];",
            ".reg .b32 %t<9>; .reg .b64 %a<9>; .reg .pred %c<99>; .reg .f32 %s<1>;",
            "ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out]; mov.u32 %t0, %tid.x; mov.u32 %t1, %ctaid.x;",
            "mov.u32 %u2, slots; shl.b32 %u1, %t0, 2; add.u32 %u0, %u2, %u1; xor.b32 %u1, %u1, 132; add.u32 %u1, %u2, %u1;",
            "shl.b32 %t2, %t0, 3; add.u32 %u2, %u2, %t2;",
            f"mad.lo.u32 %t0, %t1, {THREADS}, %t0; mul.wide.u32 %a2, %t0, {4 * WORDS}; add.u64 %a0, %a0, %a2;",
            f"mul.wide.u32 %a2, %t0, {4 * RESULTS}; add.u64 %a1, %a1, %a2;",
        ]
        for index in range(_COUNT):
            self.lines.append(f"ld.global.u32 %r{index}, [%a0+{4 * index}];")
            self.lines.append(f"ld.global.u64 %q{index}, [%a0+{8 * (index % 4)}]; cvt.u16.u32 %h{index}, %r{index};")
            self.lines.append(f"mov.b32 %f{index}, %r{index}; mov.b64 %d{index}, %q{index};")
            self.lines.append(f"setp.lt.s32 %p{index}, %r{index}, {self.rng.randint(-100, 1 << 30)};")
        self._block(operations, 0)
        at = 0
        for kind, size, store in (("r", 4, "u32"), ("f", 4, "f32"), ("q", 8, "u64"), ("d", 8, "f64"), ("h", 4, "")):
            for index in range(_COUNT):
                value = f"%{kind}{index}"
                if kind == "h":
                    self.lines.append(f"cvt.u32.u16 %t2, {value}; selp.u32 %t3, 65536, 0, %p{index}; or.b32 %t2, %t2, %t3;")
                    value, store = "%t2", "u32"
                at = -(-at // size) * size
                self.lines.append(f"st.global.{store} [%a1+{at}], {value};")
                at += size
        return "\n".join([*self.lines, "ret;", "}", ""])

    def _operand(self, kind: str) -> str:
        rng = self.rng
        if kind == "R5":
            return str(rng.randint(0, 31))
        if kind == "R":
            return str(rng.choice([0, 1, 2, 7, 31, 100, 0xFFFF, 0x80000000, rng.getrandbits(32)]))
        if kind == "B":
            return str(rng.getrandbits(8))
        return f"%{kind}{rng.randrange(_COUNT)}"

    def _operation(self) -> str:
        opcode, *kinds = self.rng.choice(self.operations).split()
        operands = [self._operand(kind) for kind in kinds]
        while opcode == "lop3.b32" and len(set(operands[1:4])) < 3:
            operands = [self._operand(kind) for kind in kinds]
        if opcode == "cvt.rn.f32.f64":  # keeps the top of a NaN; the addition does not
            return f"{{ cvt.rn.f32.f64 %s0, {operands[1]}; add.rn.f32 {operands[0]}, %s0, 0f00000000; }}"
        return f"{opcode} {', '.join(operands)};"

    def _block(self, operations: int, depth: int) -> None:
        while operations > 0:
            chance = self.rng.random()
            if depth == 0 and self.rng.random() < 0.08:
                self.lines.append(self._exchange())
                operations -= 1
            elif chance < 0.8 or depth == 2:
                self.lines.append(self._operation())
                operations -= 1
            elif chance < 0.87:
                negated = self.rng.choice(["", "!"])
                operation = self._operation()
                if not operation.startswith(("{", "testp", "set.")):
                    operation = f"@{negated}{self._operand('p')} {operation}"
                self.lines.append(operation)
                operations -= 1
            else:
                size = min(operations, self.rng.randint(2, 8))
                loop = self._unrolled if self.more and self.rng.random() < 0.5 else self._loop
                (self._branch if chance < 0.96 else loop)(size, depth)
                operations -= size

    def _exchange(self) -> str:
        """What only all threads together can do: lanes, shared memory. (Where they have branched, they are apart.)"""
        d, a = self._operand("r"), self._operand("r")
        choices: list[str] = [
            f"shfl.sync.bfly.b32 {d}, {a}, {self.rng.randint(0, 31)}, 31, -1;",
            f"shfl.sync.up.b32 {d}, {a}, {self.rng.randint(0, 31)}, 0, -1;",
            f"shfl.sync.idx.b32 {d}, {a}, {self._operand('r')}, 31, -1;",
            f"vote.sync.ballot.b32 {d}, {self._operand('p')}, -1;",
            f"vote.sync.any.pred {self._operand('p')}, {self._operand('p')}, -1;",
            f"redux.sync.add.s32 {d}, {a}, -1;",
            f"redux.sync.min.u32 {d}, {a}, -1;",
            f"bar.sync 0; st.shared.b32 [%u0], {a}; bar.sync 0; ld.shared.b32 {d}, [%u1];",
            f"bar.sync 0; st.shared.b64 [%u2], {self._operand('q')}; ld.shared.b64 {self._operand('q')}, [%u2];",
            f"bar.sync 0; st.shared.b32 [%u0], 0; bar.sync 0; atom.shared.add.u32 {d}, [%u0], {a};",
        ]
        return self.rng.choice([*choices, *self._more_exchanges(d, a)] if self.more else choices)

    def _more_exchanges(self, d: str, a: str) -> list[str]:
        op = self.rng.choice(["min.s32", "max.u32", "and.b32", "xor.b32", "exch.b32", "inc.u32"])
        b, q = self._operand("r"), self._operand("q")
        return [
            f"bar.sync 0; st.shared.b32 [%u0], {b}; bar.sync 0; atom.shared.{op} {d}, [%u0], {a};",
            f"bar.sync 0; st.shared.b32 [%u0], {b}; bar.sync 0; atom.shared.cas.b32 {d}, [%u0], {a}, {b};",
            f"bar.sync 0; st.shared.b64 [%u2], {q}; bar.sync 0; atom.shared.add.u64 {q}, [%u2], {self._operand('q')};",
            f"bar.sync 0; st.shared.b32 [slots], 0; bar.sync 0; red.shared.add.u32 [slots], {a}; bar.sync 0; "
            f"ld.shared.b32 {d}, [slots]; bar.sync 0;",
            f"shfl.sync.down.b32 {d}|{self._operand('p')}, {a}, {self.rng.randint(0, 31)}, 0x1c1f, -1;",
            f"vote.sync.uni.pred {self._operand('p')}, {self._operand('p')}, -1; match.any.sync.b32 {d}, {a}, -1;",
            f"redux.sync.xor.b32 {d}, {a}, -1; redux.sync.max.s32 {b}, {d}, -1;",
            f"bar.red.popc.u32 {d}, 0, {self._operand('p')};",
            f"bar.sync 0; st.shared.v2.b32 [%u2], {{{a}, {b}}}; ld.shared.u16 {d}, [%u2+2]; ld.shared.s8 {b}, [%u2+5];",
        ]

    def _unrolled(self, operations: int, depth: int) -> None:
        """A loop of a constant count, of which ptxas makes straight code, whole or in part."""
        self.labels += 1
        number, counter = self.labels, f"%t{4 + depth}"
        self.lines.append(f"mov.u32 {counter}, 0; L{number}:")
        self._block(operations, depth + 1)
        if self.rng.random() < 0.5:
            self.lines.append(f"add.u32 {self._operand('r')}, {self._operand('r')}, {counter};")
        test = f"setp.lt.u32 %c{number}, {counter}, {self.rng.randint(2, 9)};"
        self.lines.append(f"add.u32 {counter}, {counter}, 1; {test} @%c{number} bra L{number};")

    def _branch(self, operations: int, depth: int) -> None:
        self.labels += 1
        number = self.labels
        self.lines.append(f"@{self._operand('p')} bra E{number};")
        self._block(operations // 2, depth + 1)
        self.lines += [f"bra D{number};", f"E{number}:"]
        self._block(operations - operations // 2, depth + 1)
        self.lines.append(f"D{number}:")

    def _loop(self, operations: int, depth: int) -> None:
        self.labels += 1
        number, counter = self.labels, f"%t{4 + depth}"
        self.lines.append(f"and.b32 {counter}, {self._operand('r')}, 3; L{number}:")
        self._block(operations, depth + 1)
        self.lines.append(f"sub.s32 {counter}, {counter}, 1; setp.gt.s32 %c{number}, {counter}, 0; @%c{number} bra L{number};")


SINGLES, DOUBLES = slice(6, 12), slice(24, 36)
"""Words of a thread's results that are float32 and float64 numbers."""


def same(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> bool:
    """Whether results, uint32 [threads, RESULTS], agree in every bit, those of NaNs aside."""
    return bool((_plain(first) == _plain(second)).all())


def _plain(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A copy in which every NaN has the same bits."""
    words = words.copy()
    for place, kind in ((SINGLES, np.float32), (DOUBLES, np.float64)):
        numbers = np.ascontiguousarray(words[:, place]).view(kind)
        numbers[np.isnan(numbers)] = np.nan
        words[:, place] = numbers.view(np.uint32)
    return words


def inputs(seed: int) -> NDArray[np.uint32]:
    """Words for two CTAs: bits, small integers, floats, and values at the edges; uint32 [2 * THREADS, WORDS]."""
    rng = np.random.default_rng(seed)
    shape = (2 * THREADS, WORDS)
    words = rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    words = np.where(rng.random(shape) < 0.3, rng.integers(0, 64, shape).astype(np.uint32), words)
    words = np.where(rng.random(shape) < 0.3, rng.normal(0, 100, shape).astype(np.float32).view(np.uint32), words)
    edges = [0, 1, 0xFFFFFFFF, 0x80000000, 0x7F800000, 0x7FC00000, 0x00800000, 0x3F800000]
    words[: len(edges)] = np.array(edges, np.uint32)[:, None]
    return words


def mixed_module(seed: int, kernels: int, target: str, operations: int = 40, more: bool = False) -> str:
    """A module with kernels ``k0``, ``k1``, ... With ``more``, of more kinds of instruction, and with loops to unroll."""
    rng = random.Random(seed)
    chosen = [*_OPERATIONS, *(text.strip() for text in _MORE.split(";") if more)]
    if target < "sm_90":
        chosen = [text for text in chosen if not any(word in text for word in _FOR_SM_90)]
    body = "".join(_Kernel(rng, f"k{number}", chosen, more).text(operations) for number in range(kernels))
    return f".version 8.0\n.target {target}\n.address_size 64\n{body}"
