"""Exchange between lanes: shuffles, votes, matches, reductions, barriers, and 8 x 8 matrices in registers.

Where lanes stay out of an instruction they do so in three ways: they have branched around it, they have exited, or their guard
predicate is false. A result that a probe did not compute is 0xDEADDEAD in the output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tensor.draw import Draw
from gpu_ref.tensor.probes import Probe, kernel

__all__ = ["WARP_PROBES"]

_TRIALS = 64
_NOTHING = 0xDEADDEAD
_WAYS = ("branch", "exit", "guard")


def _words(draw: Draw, *shape: int) -> NDArray[np.uint32]:
    return (draw.words(*shape) >> np.uint64(32)).astype(np.uint32)


def _masks(draw: Draw) -> NDArray[np.uint32]:
    """Member masks: one for each trial, few members and many."""
    dense = _words(draw, _TRIALS) | _words(draw, _TRIALS)
    sparse = _words(draw, _TRIALS) & _words(draw, _TRIALS)
    masks = np.where(draw.chance(8, _TRIALS), dense, sparse)
    return np.where(masks == 0, 1, masks).astype(np.uint32)


def _apart(results: int, instructions: Sequence[str], way: str) -> list[str]:
    """Run ``instructions`` in the lanes of the member mask %r1 only, then store the ``results`` words %r10, %r11, ... of
    each thread, one array [CTA, lane] after another."""
    arrays = [f"mov.b32 %r{10 + i}, {_NOTHING};" for i in range(results)]
    setup = ["mov.u32 %r2, 1;", "shl.b32 %r2, %r2, %lane;", "and.b32 %r2, %r2, %r1;", "setp.ne.b32 %p1, %r2, 0;"]
    store = ["mul.wide.u32 %rd50, %index, 4;", "add.u64 %rd50, %out, %rd50;"]
    store += [f"st.global.b32 [%rd50+{i * _TRIALS * 32 * 4}], %r{10 + i};" for i in range(results)]
    if way == "guard":
        guarded = [f"@%p1 {text}" for text in instructions]
        return [*arrays, *setup, *guarded, *store]
    if way == "exit":
        return [*arrays, *setup, "@%p1 bra STAY;", *store, "ret;", "STAY:", *instructions, *store]
    return [*arrays, *setup, "@!%p1 bra AROUND;", *instructions, "AROUND:", "bar.warp.sync 0xffffffff;", *store]


_LOAD_MASK = ["mul.wide.u32 %rd1, %cta, 4;", "add.u64 %rd1, %in, %rd1;", "ld.global.b32 %r1, [%rd1];"]


def _load(register: int, array: int) -> list[str]:
    """Load %r``register`` from the array'th array [CTA, lane] behind the member masks."""
    offset = 4 * _TRIALS * (1 + 32 * array)
    return [
        f"mul.wide.u32 %rd{register}, %index, 4;",
        f"add.u64 %rd{register}, %in, %rd{register};",
        f"ld.global.b32 %r{register}, [%rd{register}+{offset}];",
    ]


def _apart_probe(
    name: str, before: list[str], instructions: list[str], results: int, way: str, data: NDArray[np.uint32]
) -> Probe:
    body = [*_LOAD_MASK, *before, *_apart(results, instructions, way)]
    return Probe(f"{name}, others {way}", kernel(body, 32), _TRIALS, 32, data, results * _TRIALS * 32)


def _shuffles(way: str) -> Probe:
    """All four modes with lane numbers and clamps of each lane's own; sources that do not take part among them. The mask of
    the first trials is full."""
    draw = Draw("shfl", way)
    masks = _masks(draw)
    masks[: _TRIALS // 4] = 0xFFFFFFFF
    source = np.where(draw.chance(14, _TRIALS, 32), draw.below(34, _TRIALS, 32), _words(draw, _TRIALS, 32))
    clamp = draw.pick((0x1F, 0, 0x181F, 0x1C1F, 0x100F, 0x1010, 0x0800, 0x0705), _TRIALS, 1)
    clamp = np.where(draw.chance(12, _TRIALS, 1), clamp, _words(draw, _TRIALS, 32))
    data = np.concatenate([masks, source.reshape(-1), clamp.reshape(-1), _words(draw, _TRIALS * 32)]).astype(np.uint32)
    instructions = []
    for i, mode in enumerate(("up", "down", "bfly", "idx")):
        d, inside = 10 + 2 * i, 11 + 2 * i
        instructions += [f"shfl.sync.{mode}.b32 %r{d}|%p2, %r5, %r3, %r4, %r1;", f"selp.b32 %r{inside}, 1, 0, %p2;"]
    return _apart_probe("shfl", _load(3, 0) + _load(4, 1) + _load(5, 2), instructions, 8, way, data)


def _votes(way: str) -> Probe:
    """Votes, ballot, matches of 32 and 64 bits, election, and the active mask; predicates rare, frequent, or all alike."""
    draw = Draw("vote", way)
    masks = _masks(draw)
    values = draw.pick((0, 1, 7, 0x80000000), _TRIALS, 32)
    values = np.where(draw.chance(6, _TRIALS, 1), values[:, :1], values)
    data = np.concatenate([masks, values.reshape(-1)]).astype(np.uint32)
    instructions = []
    for i, mode in enumerate(("all", "any", "uni")):
        instructions += [f"vote.sync.{mode}.pred %p3, %p2, %r1;", f"selp.b32 %r{10 + i}, 1, 0, %p3;"]
    instructions += [
        "vote.sync.ballot.b32 %r13, %p2, %r1;",
        "match.any.sync.b32 %r14, %r3, %r1;",
        "match.any.sync.b64 %r15, %rd10, %r1;",
        "match.all.sync.b32 %r16|%p3, %r3, %r1;",
        "selp.b32 %r17, 1, 0, %p3;",
        "match.all.sync.b64 %r18|%p3, %rd10, %r1;",
        "selp.b32 %r19, 1, 0, %p3;",
        "elect.sync %r20|%p3, %r1;",
        "selp.b32 %r21, 1, 0, %p3;",
    ]
    before = [*_load(3, 0), "setp.ne.b32 %p2, %r3, 0;", "mov.b64 %rd10, {%r3, %r3};"]
    return _apart_probe("vote, match, elect", before, instructions, 12, way, data)


def _reductions(way: str) -> Probe:
    draw = Draw("redux", way)
    values = np.where(
        draw.chance(8, _TRIALS, 32), _words(draw, _TRIALS, 32), draw.pick((0, 1, 0xFFFFFFFF, 1 << 31), _TRIALS, 32)
    )
    data = np.concatenate([_masks(draw), values.reshape(-1)]).astype(np.uint32)
    ops = [f"{op}.{t}" for op in ("add", "min", "max") for t in ("u32", "s32")] + [f"{op}.b32" for op in ("and", "or", "xor")]
    instructions = [f"redux.sync.{op} %r{10 + i}, %r3, %r1;" for i, op in enumerate(ops)]
    return _apart_probe("redux", _load(3, 0), instructions, len(ops), way, data)


# ------------------------------------------------------------------------------------------------------------ barriers

_BARRIER_THREADS = 128


def _barriers(counted: bool) -> Probe:
    """Reductions over a CTA of four warps: whole, or with ``counted`` of two warps each on barriers of their own."""
    draw = Draw("bar.red", counted)
    values = draw.words(_TRIALS, _BARRIER_THREADS) >> np.uint64(32)
    rare = draw.pick((0, 1, 1 << 31, (1 << 32) - (1 << 25), 1 << 32), _TRIALS, _BARRIER_THREADS // 64, 1)
    data = (values.reshape(_TRIALS, -1, 64) < rare).astype(np.uint32).reshape(-1)
    barrier = ["shr.u32 %r4, %thread, 6;", "add.u32 %r4, %r4, 1;"]
    operands = "%r4, 64, %p1" if counted else "3, %p1"
    body = [
        "mul.wide.u32 %rd1, %index, 4;",
        "add.u64 %rd2, %in, %rd1;",
        "ld.global.b32 %r3, [%rd2];",
        "setp.ne.b32 %p1, %r3, 0;",
        *(barrier if counted else []),
        f"bar.red.popc.u32 %r10, {operands};",
        f"bar.red.and.pred %p2, {operands};",
        f"bar.red.or.pred %p3, {operands};",
        "selp.b32 %r11, 1, 0, %p2;",
        "selp.b32 %r12, 1, 0, %p3;",
        "add.u64 %rd3, %out, %rd1;",
        *(f"st.global.b32 [%rd3+{i * _TRIALS * _BARRIER_THREADS * 4}], %r{10 + i};" for i in range(3)),
    ]
    name = "bar.red of two warps" if counted else "bar.red"
    return Probe(name, kernel(body, _BARRIER_THREADS), _TRIALS, _BARRIER_THREADS, data, 3 * _TRIALS * _BARRIER_THREADS)


# ------------------------------------------------------------------------------------------------------------ matrices

_ROWS = 64  # of 16 bytes, in shared memory


def _matrix_data(draw: Draw) -> NDArray[np.uint32]:
    """Shared memory, then for every lane the row that it points to: in any order, and some more than once."""
    rows = np.where(draw.chance(12, 32), np.argsort(draw.words(_ROWS), kind="stable")[:32], draw.below(_ROWS, 32))
    return np.concatenate([_words(draw, _ROWS * 4), rows.astype(np.uint32)])


_FILL = [
    "mov.u32 %r1, rows;",
    "mul.wide.u32 %rd1, %lane, 4;",
    "add.u64 %rd2, %in, %rd1;",
    "shl.b32 %r2, %lane, 2;",
    "add.u32 %r2, %r1, %r2;",
    *(
        line
        for i in range(_ROWS * 4 // 32)
        for line in (f"ld.global.b32 %r3, [%rd2+{128 * i}];", f"st.shared.b32 [%r2+{128 * i}], %r3;")
    ),
    f"ld.global.b32 %r4, [%rd2+{16 * _ROWS}];",
    "shl.b32 %r4, %r4, 4;",
    "add.u32 %r4, %r1, %r4;",
    "bar.sync 0;",
    "add.u64 %rd3, %out, %rd1;",
]

_SHARED_ROWS = f".shared .align 16 .b8 rows[{16 * _ROWS}];"


def _registers(count: int) -> str:
    return "{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}"


def _matrix_loads() -> Probe:
    """``ldmatrix`` of one, two and four matrices, as they are and transposed."""
    body, place = list(_FILL), 0
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            body.append(f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {_registers(count)}, [%r4];")
            body += [f"st.global.b32 [%rd3+{128 * (place + i)}], %r{10 + i};" for i in range(count)]
            place += count
    return Probe("ldmatrix", kernel(body, 32, _SHARED_ROWS), 1, 32, _matrix_data(Draw("ldmatrix")), 32 * place)


def _matrix_stores(count: int, trans: str) -> Probe:
    """``stmatrix`` to rows of shared memory, all of which is then given out. No row is written twice: which would last is
    open."""
    draw = Draw("stmatrix", count, trans)
    data = _matrix_data(draw)
    data[-32:] = np.argsort(draw.words(_ROWS), kind="stable")[:32]
    body = list(_FILL)
    body += [f"xor.b32 %r{10 + i}, %r3, {0x10001 * (i + 1) * 77 & 0x7FFFFFFF};" for i in range(count)]
    body.append(f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r4], {_registers(count)};")
    body.append("bar.sync 0;")
    for i in range(_ROWS * 4 // 32):
        body += [f"ld.shared.b32 %r3, [%r2+{128 * i}];", f"st.global.b32 [%rd3+{128 * i}], %r3;"]
    return Probe(f"stmatrix.x{count}{trans}", kernel(body, 32, _SHARED_ROWS), 1, 32, data, _ROWS * 4)


def _matrix_transpose() -> Probe:
    body = [
        "mul.wide.u32 %rd1, %index, 4;",
        "add.u64 %rd2, %in, %rd1;",
        "ld.global.b32 %r3, [%rd2];",
        "movmatrix.sync.aligned.m8n8.trans.b16 %r4, %r3;",
        "add.u64 %rd3, %out, %rd1;",
        "st.global.b32 [%rd3], %r4;",
    ]
    return Probe("movmatrix", kernel(body, 32), 4, 32, _words(Draw("movmatrix"), 128), 128)


WARP_PROBES = (
    *(make(way) for make in (_shuffles, _votes, _reductions) for way in _WAYS),
    _barriers(False),
    _barriers(True),
    _matrix_loads(),
    *(_matrix_stores(count, trans) for count in (1, 2, 4) for trans in ("", ".trans")),
    _matrix_transpose(),
)
