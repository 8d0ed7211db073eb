"""Clusters and mbarriers: kernels against an H200, the mbarrier's bits, and what a kernel that waits for ever is told.

``data/cluster/kernels.cu`` says what each kernel does; ``h200.npz`` holds what an H200 made of the same inputs.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tcsim
from isa import mbarrier
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tcsim.errors import DeadlockError, KernelFault, LaunchError

FOLDER = Path(__file__).parent / "data" / "cluster"

# name, grid, block, inputs' lengths, cluster, further arguments: in the order of the recording
LAUNCHES = (
    ("pipeline", (2,), (128,), (2 * 13 * 32,), None, (np.int32(13),)),
    ("token", (2,), (256,), (512,), None, ()),
    ("distributed", (8,), (128,), (8 * 128,), None, ()),
    ("passed", (4,), (32,), (), None, ()),
    ("remote", (6,), (64,), (), None, ()),
    ("registers", (4, 2), (32,), (), (2, 2), ()),
)


@pytest.fixture(scope="module")
def kernels() -> tcsim.RawModule:
    with tcsim.Device("h200"):
        return tcsim.RawModule(path=FOLDER / "kernels.ptx")


@pytest.fixture(scope="module")
def recorded() -> dict[str, NDArray[np.int32]]:
    with np.load(FOLDER / "h200.npz") as data:
        return dict(data)


@pytest.fixture(scope="module")
def inputs() -> dict[str, list[NDArray[np.int32]]]:
    rng = np.random.default_rng(20261130)
    return {
        name: [rng.integers(-(2**31), 2**31, length).astype(np.int32) for length in lengths]
        for name, _, _, lengths, _, _ in LAUNCHES
    }


HAVE_TOOLS = find_ptxas() is not None and find_nvdisasm() is not None


@pytest.mark.parametrize(
    "execute", ["ptx", pytest.param("machine", marks=pytest.mark.skipif(not HAVE_TOOLS, reason="needs ptxas and nvdisasm"))]
)
@pytest.mark.parametrize("launch", LAUNCHES, ids=lambda launch: launch[0])
def test_a_kernel_as_on_an_h200(kernels, recorded, inputs, launch, execute) -> None:
    name, grid, block, _, cluster, extra = launch
    expected = recorded[name]
    with tcsim.Device("h200", execute=execute):
        out = tcsim.zeros(expected.shape, np.int32)
        arguments = (*(tcsim.asarray(each) for each in inputs[name]), out, *extra)
        kernels.get_function(name)(grid, block, arguments, cluster=cluster)
        np.testing.assert_array_equal(out.get(), expected)


# Reductions that signal an mbarrier, each of three on every lane's own word.
ASYNC = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred p;
    .shared .align 8 .b64 barrier;
    .shared .align 8 .b64 x[32];
    mov.u32 %r1, barrier;
    mov.u32 %r2, x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r3, 8, %r2;
    setp.eq.u32 p, %r3, 0;
    @p mbarrier.init.shared.b64 [%r1], 1;
    mul.lo.u32 %r5, %r3, 77;
    st.shared.u32 [%r4], %r5;
    bar.sync 0;
    @p mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512;
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r4], 0x1ffffffff, [%r1];
    cvt.u64.u32 %rd2, %r1; cvta.shared.u64 %rd2, %rd2; cvt.u64.u32 %rd3, %r4; cvta.shared.u64 %rd3, %rd3;
    red.async.relaxed.cluster.mbarrier::complete_tx::bytes.max.s32 [%rd3], -5, [%rd2];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.xor.b32 [%r4], 12, [%r1];
again:
    mbarrier.try_wait.parity.shared.b64 p, [%r1], 0;
    @!p bra again;
    ld.shared.u64 %rd1, [%r4];
    ld.param.u64 %rd2, [out];
    mad.wide.u32 %rd3, %r3, 8, %rd2;
    st.global.u64 [%rd3], %rd1;
    ret;
}
"""


def test_asynchronous_reductions() -> None:
    with tcsim.Device("h200"):
        out = tcsim.zeros(32, np.uint64)
        tcsim.RawModule(code=ASYNC).get_function("k")((1,), (32,), (out,))
    sums = np.arange(32, dtype=np.uint64) * np.uint64(77) + np.uint64(0x1_FFFF_FFFF)
    low = np.maximum(sums.astype(np.uint32).astype(np.int32), -5) ^ 12
    expected = (sums >> np.uint64(32) << np.uint64(32)) | low.astype(np.uint32).astype(np.uint64)
    np.testing.assert_array_equal(out.get(), expected)


# Spellings that ptxas 13.0 accepts for sm_90a; the sink _ stands for a state.
ACCEPTED = (
    "mbarrier.arrive.shared::cluster.b64 _, [%r1]",
    "mbarrier.arrive.release.cta.b64 %rd1, [%rd1]",
    "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r1], %r2",
    "mbarrier.arrive.noComplete.release.cta.shared.b64 %rd1, [%r1], %r2",
    "mbarrier.arrive_drop.shared::cluster.b64 _, [%r1]",
    "mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], %r2",
    "mbarrier.arrive.expect_tx.b64 %rd2, [%rd1], %r2",
    "mbarrier.test_wait.parity.acquire.cluster.shared.b64 p, [%r1], %r2",
    "mbarrier.test_wait.relaxed.cta.b64 p, [%rd1], %rd2",
    "mbarrier.try_wait.parity.relaxed.cluster.b64 p, [%rd1], %r2, %r3",
    "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r1], %r1",
    "mbarrier.complete_tx.b64 [%rd1], %r1",
    "mbarrier.pending_count.b64 %r1, %rd1",
    "cp.async.mbarrier.arrive.noinc.b64 [%rd1]",
    "cp.async.mbarrier.arrive.shared::cta.b64 [%r1]",
    "barrier.cluster.arrive.relaxed",
    "barrier.cluster.wait.acquire.aligned",
    "mapa.u64 %rd1, %rd2, 1",
    "mapa.shared::cluster.u32 %r1, %r2, %r3",
    "getctarank.shared::cluster.u64 %r1, %rd2",
    "fence.proxy.async",
    "fence.proxy.async.shared::cluster",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
    "fence.release.sync_restrict::shared::cta.cluster",
    "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128",
    "fence.proxy.tensormap::generic.release.sys",
    "fence.mbarrier_init.release.cluster",
    "membar.proxy.alias",
    "setmaxnreg.inc.sync.aligned.u32 232",
    "griddepcontrol.launch_dependents",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r1], {%r1, %r2, %r3, %r4}, [%r5]",
    "elect.sync _|p, %r1",
)


@pytest.mark.parametrize("line", ACCEPTED)
def test_a_spelling_that_ptxas_accepts_is_accepted(line: str) -> None:
    body = f".reg .b32 %r<6>; .reg .b64 %rd<3>; .reg .pred p; {line}; ret;"
    module = tcsim.RawModule(code=f".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {{ {body} }}\n")
    assert module.program("k", 90) is not None


# ---------------------------------------------------------------------------------------------------------- the object's bits


def test_states_as_on_an_h200() -> None:
    """States that an H200 returned: of a fresh object of 1, 3 and 2^20 - 1 arrivals, and after its phase has ended."""
    for count, high in ((1, 0x7FFFF800), (3, 0x7FFFE800), (0xFF, 0x7FF80800), (0xFFFFF, 0x00000800)):
        assert mbarrier.state(mbarrier.initial(np.uint32(count))) == np.uint64(high) << np.uint64(32)
        assert mbarrier.pending(np.uint64(high) << np.uint64(32)) == count


class Model:
    """The counting of PTX ISA 9.7.13.15 in plain integers."""

    def __init__(self, count: int) -> None:
        self.expected = self.pending = count
        self.bytes = self.phase = 0

    def end(self) -> None:
        if self.pending == 0 and self.bytes == 0:
            self.phase ^= 1
            self.pending = self.expected

    def do(self, action: str, amount: int) -> bool:
        """Whether the rules allow it."""
        if action in ("arrive", "drop"):
            if amount > self.pending:
                return False
            self.pending -= amount
            self.expected -= amount if action == "drop" else 0
            self.end()
        else:
            total = self.bytes + (amount if action == "expect_tx" else -amount)
            if abs(total) > mbarrier.MOST_BYTES:
                return False
            self.bytes = total
            if action == "complete_tx":
                self.end()
        return True


@settings(deadline=None)  # the first call compiles
@given(
    st.integers(1, mbarrier.MOST_ARRIVALS),
    st.lists(
        st.tuples(
            st.sampled_from(("arrive", "drop", "expect_tx", "complete_tx")),
            st.one_of(st.integers(1, 4), st.sampled_from((16, 128, 65536, mbarrier.MOST_BYTES))),
        ),
        max_size=30,
    ),
)
def test_the_object_counts(count: int, actions: list[tuple[str, int]]) -> None:
    ctx = np.zeros(32, np.int64)
    word = np.array([mbarrier.initial(np.uint32(count))], np.uint64)
    model = Model(count)
    for action, amount in actions:
        status = getattr(mbarrier, action)(ctx.ctypes.data, word.ctypes.data, np.uint32(amount), 0)
        assert (status == 0) == model.do(action, amount)
        if status != 0:
            return
        assert int(mbarrier.parity(word[0])) == model.phase
        assert int(mbarrier.pending(word[0])) == (model.pending or 1 << 20)
        assert bool(mbarrier.is_complete(word.ctypes.data, np.uint32(0))) == (model.phase == 1)


# ------------------------------------------------------------------------------------------------------------------- misuse


def test_waiting_for_ever_says_for_what(kernels) -> None:
    with tcsim.Device("h200"), pytest.raises(DeadlockError) as error:
        kernels.get_function("hang")((1,), (64,), (tcsim.zeros(64, np.int32),))
    assert re.search(r"warp 1 lanes 0-31: wait at mbarrier\.try_wait.*waits for 1 arrivals and 0 bytes", str(error.value))


def test_a_cluster_that_waits_for_ever_is_reported_cta_by_cta(kernels) -> None:
    with tcsim.Device("h200"), pytest.raises(DeadlockError) as error:
        kernels.get_function("absent")((2,), (64,), (tcsim.zeros(64, np.int32),))
    message = str(error.value)
    assert "CTA (0, 0, 0)" in message and "CTA (1, 0, 0)" in message
    assert re.search(r"wait at barrier\.cluster\.wait.*for the threads of the cluster", message)
    assert re.search(r"warp 1 lanes 0-31: wait at mbarrier\.try_wait", message)


def test_too_many_arrivals_stop_the_kernel(kernels) -> None:
    with tcsim.Device("h200"), pytest.raises(KernelFault, match=r"MBARRIER MISUSE .*\n.*more arrivals .* which is 3"):
        kernels.get_function("excess")((1,), (1,), (tcsim.zeros(64, np.int32),))


@pytest.mark.parametrize(
    ("name", "grid", "cluster", "message"),
    [
        ("distributed", (6,), None, "whole number of clusters"),
        ("distributed", (8,), (2,), r"compiled for clusters of \(4, 1, 1\)"),
        ("pipeline", (32,), (32,), "at most 16"),
    ],
)
def test_launches_that_cannot_be_clustered(kernels, name: str, grid, cluster, message: str) -> None:
    with tcsim.Device("h200"), pytest.raises(LaunchError, match=message):
        kernels.get_function(name)(grid, (128,), (tcsim.zeros(1, np.int32), tcsim.zeros(1, np.int32)), cluster=cluster)
