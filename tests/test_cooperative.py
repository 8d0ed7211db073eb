"""Cooperative launches: grid barriers as cooperative groups make them, and forward progress of threads that wait for others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tcsim.cli.app import main
from tcsim.errors import KernelFault, LaunchError
from tests.kernels import kernel, run

needs_tools = pytest.mark.skipif(None in (find_ptxas(), find_nvdisasm()), reason="ptxas and nvdisasm are not installed")

# What cooperative_groups::this_grid().sync() does, less elegantly: the counter is the second word of the workspace.
GRID_BARRIER = """
    bar.sync 0;
    setp.ne.u32 %p1, tid, 0;
    @%p1 bra BEHIND{n};
    atom.acq_rel.gpu.add.u32 %r20, [%rd20+4], 1;
    WAIT{n}:
    ld.acquire.gpu.u32 %r20, [%rd20+4];
    setp.lt.u32 %p1, %r20, %r21;
    @%p1 bra WAIT{n};
    BEHIND{n}:
    bar.sync 0;
"""
BODY = (
    """
    mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; mov.b64 %rd20, {%r2, %r1};
    setp.eq.u64 %p2, %rd20, 0; @%p2 trap;
    mov.u32 %r10, %ctaid.x; mov.u32 %r11, %nctaid.x; mov.u32 %r21, %r11;
    mul.wide.u32 %rd3, %r10, 4; add.u64 %rd3, %rd3, pin; st.global.u32 [%rd3], %r10;
    """
    + GRID_BARRIER.format(n=1)
    + """
    // read what the next CTA wrote
    add.u32 %r12, %r10, 1; rem.u32 %r12, %r12, %r11;
    mul.wide.u32 %rd4, %r12, 4; add.u64 %rd4, %rd4, pin; ld.global.u32 %r13, [%rd4];
    add.u32 %r21, %r21, %r11;
    """
    + GRID_BARRIER.format(n=2)
    + "mul.lo.u32 %r13, %r13, 3; st.global.u32 [%rd3], %r13;"
)


def launch(ctas: int, threads: int = 64, cooperative: bool = True) -> np.ndarray:
    module = tcsim.RawModule(code=kernel(BODY), enable_cooperative_groups=cooperative)
    buffer = tcsim.zeros(max(64, ctas), np.uint32)
    module.get_function("k")((ctas,), (threads,), (tcsim.zeros(threads, np.uint32), buffer))
    return tcsim.asnumpy(buffer)


@pytest.mark.parametrize("ctas", [1, 2, 37, 300])
def test_grid_barriers(ctas: int) -> None:
    np.testing.assert_array_equal(launch(ctas)[:ctas], 3 * ((np.arange(ctas) + 1) % ctas))


@needs_tools
@pytest.mark.parametrize("device", ["a100", "h200"])
@pytest.mark.parametrize("around", [nullcontext, tcsim.Profiler])
def test_grid_barriers_of_machine_code(device: str, around: Callable[[], AbstractContextManager[object]]) -> None:
    with tcsim.Device(device, execute="machine"), around():
        np.testing.assert_array_equal(launch(37)[:37], 3 * ((np.arange(37) + 1) % 37))
        with pytest.raises(KernelFault, match="enable_cooperative_groups=True"):
            launch(2, cooperative=False)


def test_a_grid_that_does_not_fit_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"cooperative launch of 10,000 CTAs, but h200 holds [\d,]+ of these at once"):
        launch(10_000)


def test_without_a_cooperative_launch_the_barrier_traps() -> None:
    with pytest.raises(KernelFault, match="enable_cooperative_groups=True"):
        launch(2, cooperative=False)


def test_lanes_of_a_warp_take_turns_at_a_spin_lock() -> None:
    run(
        """
        L: atom.global.cas.b32 %r1, [pin], 0, 1;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra L;
        ld.global.u32 %r2, [pin+4]; add.u32 %r2, %r2, 1; st.global.u32 [pin+4], %r2;
        atom.global.exch.b32 %r3, [pin], 0;
        """,
        threads=8,
    )
    assert list(run.buffer[:2]) == [0, 8]  # type: ignore[attr-defined]


def test_producer_and_consumer_at_named_barriers() -> None:
    """One warp fills a buffer five times, another reads it: full and empty are barriers 1 and 2."""
    got = run(
        """
        .shared .u32 box[32];
        mov.u32 %r8, box; mad.lo.u32 %r8, lane, 4, %r8;
        mov.u32 %r9, 0;
        setp.lt.u32 %p1, tid, 32;
        @%p1 bra PRODUCE;
        CONSUME:
        bar.sync 1, 64;
        ld.shared.u32 %r2, [%r8];
        mad.lo.u32 result, result, 10, %r2;
        bar.arrive 2, 64;
        add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 5;
        @%p2 bra CONSUME;
        bra DONE;
        PRODUCE:
        setp.eq.u32 %p3, %r9, 0;
        @!%p3 bar.sync 2, 64;
        add.u32 %r3, %r9, 1; st.shared.u32 [%r8], %r3;
        bar.arrive 1, 64;
        add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 5;
        @%p2 bra PRODUCE;
        bar.sync 2, 64;
        DONE:
        """,
        threads=64,
    )
    np.testing.assert_array_equal(got[32:], 12345)


def test_a_deadlock_names_both_sides() -> None:
    with pytest.raises(tcsim.DeadlockError) as told:
        run(
            """
            setp.lt.u32 %p1, tid, 32;
            @%p1 bra A;
            bar.sync 1, 64;
            bar.sync 2, 64;
            bra B;
            A: bar.sync 2, 64;
            bar.sync 1, 64;
            B:
            """,
            threads=64,
        )
    text = str(told.value)
    assert "warp 0 lanes 0-31: wait at barrier 2" in text and "for warp 1 lanes 0-31" in text
    assert "warp 1 lanes 0-31: wait at barrier 1" in text and "for warp 0 lanes 0-31" in text


@pytest.mark.parametrize(
    ("space", "what"), [("global", r"at 0x7f\w+, now 0x0"), ("shared", "at 0x0 of shared memory, now 0x5")]
)
def test_an_endless_loop_names_what_it_waits_for(space: str, what: str) -> None:
    with pytest.raises(tcsim.DeadlockError, match=rf"in a loop that reads 4 bytes {what} \(ld\.volatile\.{space}\.u32  ptx:"):
        run(
            f"""
            .shared .u32 flag;
            st.shared.u32 [flag], 5;
            mov.u64 %rd1, {"pin" if space == "global" else "flag"};
            L: ld.volatile.{space}.u32 %r1, [%rd1];
            setp.ne.u32 %p1, %r1, 9;
            @%p1 bra L;
            """
        )


def test_the_command_line_launches_grid_barriers_cooperatively(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.ptx").write_text(kernel(BODY))
    words = ["run", str(tmp_path / "k.ptx"), "--grid", "4", "--block", "64", "--out", "u32[64]", "--inout", "u32[4]:zeros"]
    assert main(words) == 0
    assert "[3, 6, 9, 0]" in capsys.readouterr().out
