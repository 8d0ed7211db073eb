"""Both engines take the same for random kernels of every kind of instruction, on random chips: machine code of sm_90a, with
locks, atomics, divergence, copies, mbarriers, clusters and ``wgmma``, timed with many numbers of the tables halved or doubled.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import kernel
from timing_support import H200

from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tcsim import RawModule
from tcsim.arch import Timing
from tests.test_timing_engines import CLUSTER_SYNC, PIECES, profiles, same

ASSEMBLES = find_ptxas() is not None and find_nvdisasm() is not None
SHARED = ".shared .align 1024 .b8 box[8192]; .shared .align 8 .b64 signal[16];"

# {n}: a number of its own for each piece.
MORE_PIECES = (
    # A lock that a warp at a time takes, as its first lane.
    "setp.ne.u32 %p3, lane, 0; @%p3 bra D{n}; G{n}: atom.global.cas.b32 %r1, [pin+256], 0, 1; setp.ne.u32 %p2, %r1, 0; "
    "@%p2 bra G{n}; ld.volatile.global.u32 %r2, [pin+260]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [pin+260], %r2; "
    "membar.gl; atom.global.exch.b32 %r1, [pin+256], 0; D{n}: bar.warp.sync -1;",
    "and.b32 %r1, lane, 3; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, pin, %rd2; atom.global.add.u32 %r2, [%rd3+512], 1; "
    "add.u32 result, result, %r2;",
    "mov.u32 %r1, box; and.b32 %r2, lane, 7; mad.lo.u32 %r3, %r2, 4, %r1; red.shared.max.u32 [%r3+128], lane;",
    # Lanes go round a loop a different number of times.
    "mov.u32 %r8, lane; W{n}: add.u32 result, result, %r8; shr.u32 %r8, %r8, 1; setp.ne.u32 %p4, %r8, 0; @%p4 bra W{n};",
    "mul.wide.u32 %rd2, lane, 16; add.s64 %rd3, pin, %rd2; ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd3]; "
    "add.u32 result, result, %r4; st.global.v4.u32 [%rd3+1024], {{%r1, %r2, %r3, %r4}};",
    # A block comes by the TMA, and all wait for it.
    "setp.ne.u32 %p3, tid, 0; mov.u32 %r1, signal; mov.u32 %r2, box; @%p3 bra B{n}; mbarrier.init.shared.b64 [%r1+{at}], 1; "
    "fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r1+{at}], 256; "
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [pin], 256, [%r1+{at}]; B{n}: bar.sync 0; "
    "V{n}: mbarrier.try_wait.parity.shared.b64 %p2, [%r1+{at}], 0; @!%p2 bra V{n}; ld.shared.u32 %r3, [%r2+64]; "
    "add.u32 result, result, %r3; bar.sync 0;",
    # 64 x 8 x 16 by four warps, both operands in shared memory.
    "mov.u32 %r1, box; shr.u32 %r2, %r1, 4; cvt.u64.u32 %rd2, %r2; or.b64 %rd2, %rd2, 0x0000000800080000; "
    "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f10, %f11, %f12, %f13}}, %rd2, %rd2, "
    "1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; cvt.rzi.u32.f32 %r3, %f10; "
    "add.u32 result, result, %r3;",
    CLUSTER_SYNC,
    "mov.u32 %r1, box; mad.lo.u32 %r2, lane, 16, %r1; mapa.shared::cluster.u32 %r3, %r2, 1; "
    "st.shared::cluster.u32 [%r3+4096], lane;",
)


@st.composite
def wide_bodies(draw: st.DrawFn) -> str:
    text = "mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f10, %f1; mov.f32 %f11, %f1; "
    text += "mov.f32 %f12, %f1; mov.f32 %f13, %f1;\n"
    simple = tuple(piece.replace("{", "{{").replace("}", "}}") for piece in PIECES if "bar.arrive" not in piece)
    for number, piece in enumerate(draw(st.lists(st.sampled_from(MORE_PIECES * 2 + simple), min_size=2, max_size=7))):
        text += piece.format(n=number, at=8 * number) + "\n"
    return text


def chip_of(seed: int) -> Timing:
    """An H200 of which some times and rates are halved or doubled, some units more or fewer."""
    rng, chip, dram = random.Random(seed), H200.chip, H200.dram
    l2, pipes = chip.l2, {name: rng.choice((1, pipe.queue, 16)) if pipe.queue else 0 for name, pipe in chip.pipes.items()}
    parts: dict[str, Any] = {name: _scaled(getattr(chip, name), rng) for name in _SCALED}
    parts["scheduler"] = msgspec.structs.replace(
        _scaled(chip.scheduler, rng, but="sub_partitions"),
        order=rng.choice(("least_recent", "youngest", "oldest", "oldest_cta")),
        greedy=rng.choice((False, True)),
    )
    parts["l1"] = msgspec.structs.replace(chip.l1, latency=rng.choice((10, 33, 80)), line_tags=rng.choice((0.5, 1.0, 2.0)))
    parts["l2"] = msgspec.structs.replace(
        l2,
        slices=rng.choice((2, 8, l2.slices)),
        hit_ns=rng.choice((30.0, l2.hit_ns)),
        merging_requests=rng.choice((1, 2, l2.merging_requests)),
        port_bytes=rng.choice((32, 64)),
    )
    parts["pipes"] = {name: msgspec.structs.replace(pipe, queue=pipes[name]) for name, pipe in chip.pipes.items()}
    memory = msgspec.structs.replace(dram, channels=rng.choice((1, 5, dram.channels)))
    return msgspec.structs.replace(H200, chip=msgspec.structs.replace(chip, **parts), dram=memory)


_SCALED = ("lsu", "shared_memory", "instruction_cache", "clusters", "tma", "translation", "launch")


def _scaled(table: Any, rng: random.Random, but: str = "") -> Any:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(table)):
        value, factor = getattr(table, field.name), rng.choice((1, 1, 0.5, 2))
        if isinstance(value, int | float) and not isinstance(value, bool) and value and field.name != but:
            values[field.name] = max(1, int(value * factor)) if isinstance(value, int) else value * factor
    return msgspec.structs.replace(table, **values)


@pytest.mark.skipif(not ASSEMBLES, reason="needs ptxas and nvdisasm")
@settings(max_examples=5, deadline=None)
@given(wide_bodies(), st.sampled_from(((2, 2), (8, 4), (1, None), (7, None))), st.integers(0, 1 << 30))
def test_random_machine_code_on_random_chips(body: str, shape: tuple[int, int | None], chip: int) -> None:
    grid, cluster = shape
    if cluster is None:
        body = "\n".join(line for line in body.splitlines() if "cluster.u32" not in line and "barrier.cluster" not in line)
    else:
        body += CLUSTER_SYNC
    text = kernel(body, target="sm_90a", declarations=SHARED)
    function = RawModule(code=text).get_function("k")
    one, other = profiles(function, grid, 128, chip_of(chip), "machine", cluster)
    assert "machine code" in one.timed
    assert same(one, other) and sum(one.stalls.values()) == one.warp_cycles
