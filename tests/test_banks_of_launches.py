"""Shared-memory banks of whole launches: the hardware's counts, the worst access, and every kind of access seen."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tcsim
from tcsim.cli import main
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.lanes import bank_report
from tcsim.lanes.kernel_accesses import SharedAccesses, SharedInstruction

TRACES = Path(__file__).parents[1] / "traces"


@cache
def watched(name: str) -> tuple[SharedInstruction, ...]:
    """The accesses of a recorded launch, all with addresses."""
    launch = prepare(str(TRACES / name), LaunchOptions())
    observer = SharedAccesses(lambda program, pc: True)
    with observer:
        launch.run()
    for comparison in launch.bundle.compare(launch.outputs()):
        assert comparison.equal  # watching changes nothing
    return tuple(observer.found)


def recorded(name: str, metric: str) -> float:
    metrics = json.loads((TRACES / name / "bundle.json").read_text())["metrics"]
    return float(metrics[f"l1tex__data_{metric}.sum"]["value"])


@pytest.mark.parametrize("name", ["transpose_conflicts", "transpose_padded", "gemm_f16_small", "triton_softmax"])
def test_totals_are_the_hardwares(name: str) -> None:
    """Recorded on an H200 with Nsight Compute 2025.3."""
    sums = bank_report.totals(watched(name))
    for kind, op in (("load", "ld"), ("store", "st"), ("copy", "ldgsts")):
        _, taken, conflicts = sums.get(kind, (0, 0, 0))
        assert conflicts == recorded(name, f"bank_conflicts_pipe_lsu_mem_shared_op_{op}")
        if kind != "copy":
            assert taken == recorded(name, f"pipe_lsu_wavefronts_mem_shared_op_{op}")


def test_totals_are_the_profiles() -> None:
    launch = prepare(str(TRACES / "gemm_f16_small"), LaunchOptions())
    with tcsim.Profiler(code="ptx") as profiler:
        launch.run()
    timed = {each.pc: each.wavefronts for each in profiler.launches[-1].instructions}
    for each in watched("gemm_f16_small"):
        assert each.wavefronts == timed[each.pc]
    metrics = profiler.launches[-1].metrics
    requests, taken, _ = bank_report.totals(watched("gemm_f16_small"))["load"]
    assert taken == metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"]
    assert requests == metrics["smsp__inst_executed_op_ldsm.sum"]


def test_the_worst_access_of_a_transpose() -> None:
    loads = [each for each in watched("transpose_conflicts") if each.kind == "load"]
    assert [each.ptx_line for each in loads] == [120, 132, 144, 156]
    for each in loads:
        assert each.worst is not None and each.worst.access.wavefronts == 32
        assert each.wavefronts == 32 * each.requests
        assert len(each.patterns) == 8  # one for each warp of a block
    first = loads[0].first
    assert first is not None and (first.cta, first.warp, first.number) == ((0, 0, 0), 0, 1)
    np.testing.assert_array_equal(first.access.addresses, 128 * np.arange(32))


EVERYTHING = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry all(.param .u64 data) {
  .reg .b32 %r<30>; .reg .b64 %rd<8>; .reg .pred %p, %q, %odd;
  .shared .align 128 .b8 tile[8192];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  ld.param.u64 %rd1, [data];
  and.b32 %r3, %r1, 1;
  setp.eq.u32 %odd, %r3, 1;
  mov.u32 %r4, 0;
LOOP:
  shl.b32 %r5, %r4, 2;
  mul.lo.u32 %r6, %r1, %r5;
  add.u32 %r6, %r6, %r2;
  @%odd st.shared.u32 [%r6+4], %r1;
  setp.lt.u32 %p, %r1, %r4;
  @%p bra LOW;
  mad.lo.u32 %r7, %r1, 128, %r5;
  add.u32 %r7, %r7, %r2;
  ld.shared.u32 %r8, [%r7];
  bra JOIN;
LOW:
  mad.lo.u32 %r7, %r1, 64, %r5;
  add.u32 %r7, %r7, %r2;
  ld.shared.u32 %r8, [%r7];
JOIN:
  bar.warp.sync -1;
  cvt.u64.u32 %rd2, %r7;
  cvta.shared.u64 %rd3, %rd2;
  ld.u32 %r9, [%rd3+64];
  and.b32 %r10, %r1, 7;
  mul.lo.u32 %r10, %r10, 128;
  mad.lo.u32 %r10, %r4, 16, %r10;
  add.u32 %r10, %r10, %r2;
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r11, %r12}, [%r10];
  mad.lo.u32 %r13, %r4, 16, 32;
  wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r14, %r15, %r16, %r17, %r18, %r19, %r20, %r21}, [%r2], %r13;
  mad.lo.u32 %r22, %r1, 32, %r2;
  mad.lo.u32 %r22, %r4, 16, %r22;
  mad.wide.u32 %rd4, %r1, 16, %rd1;
  cp.async.cg.shared.global [%r22], [%rd4], 16;
  cp.async.wait_all;
  atom.shared.add.u32 %r23, [%r7], %r9;
  ld.u32 %r24, [%rd4];
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %q, %r4, 7;
  @%q bra LOOP;
  ret;
}
"""


def test_addresses_of_every_kind_of_access() -> None:
    """With one warp and different addresses each time, the addresses read make up all of the counted wavefronts: guarded,
    divergent, generic, matrix, tile, copy and atomic accesses alike."""
    kernel = tcsim.RawModule(code=EVERYTHING).get_function("all")
    observer = SharedAccesses(lambda program, pc: True)
    with observer:
        kernel((1,), (32,), (tcsim.zeros(512, np.uint8),))
    found = {each.opcode.split(".")[0] + "." + each.kind: each for each in observer.found}
    assert len(observer.found) == 8  # the last ld reaches global memory only
    requests = {"st.store": 7, "ld.load": 7, "ldmatrix.matrix_load": 7, "wmma.tile_load": 56, "cp.copy": 7, "atom.atomic": 7}
    for name, number in requests.items():
        assert found[name].requests == number, name
    for each in observer.found:
        if each.kind == "tile_load":  # registers may touch the same words
            assert each.first is not None and each.first.access.wavefronts <= each.wavefronts
        else:
            assert len(each.patterns) == each.requests, each.opcode
            assert sum(access.wavefronts for access in each.patterns.values()) == each.wavefronts
            assert sum(access.conflicts for access in each.patterns.values()) == each.conflicts
    store = found["st.store"]
    assert store.first is not None and store.first.access.lanes == 0xAAAAAAAA
    low = [each for each in observer.found if each.opcode == "ld.shared.u32"]
    assert sorted(access.lanes for access in low[1].patterns.values()) == [(1 << n) - 1 for n in range(1, 7)]
    tile = found["wmma.tile_load"]
    register_two = list(tile.patterns.values())[2].addresses - store.first.access.addresses[1] + 4
    np.testing.assert_array_equal(register_two, [lane // 4 * 64 + lane % 4 * 4 + 16 for lane in range(32)])


CLOCKS = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry clocks() {
  .reg .b32 %r<9>; .reg .pred %p;
  .shared .align 4 .b8 tile[512];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  and.b32 %r3, %r1, 31;
  shl.b32 %r3, %r3, 3;
  add.u32 %r3, %r3, %r2;
  mov.u32 %r4, 0;
LOOP:
  mov.u32 %r5, %clock;
  st.shared.u32 [%r3], %r5;
  bar.sync 0;
  mov.u32 %r6, %clock;
  sub.u32 %r7, %r6, %r5;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p, %r4, 5;
  @%p bra LOOP;
  ret;
}
"""


@pytest.mark.parametrize("addresses", [False, True])
def test_kernels_that_read_the_clock_are_watched_too(addresses: bool) -> None:
    kernel = tcsim.RawModule(code=CLOCKS).get_function("clocks")
    observer = SharedAccesses(lambda program, pc: addresses)
    with observer:
        kernel((3,), (64,), ())
    (store,) = observer.found
    assert (store.requests, store.wavefronts, store.conflicts) == (30, 60, 30)
    assert len(store.patterns) == addresses


def test_command_line_of_a_launch(capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(TRACES / "transpose_conflicts")
    assert main(["banks", bundle]) == 0
    assert "loads: 16,384 requests, 524,288 wavefronts, 507,904 bank conflicts" in capsys.readouterr().out
    assert main(["banks", bundle, "--line", "ptx:120"]) == 0
    shown = capsys.readouterr().out
    assert "4,096 requests, 131,072 wavefronts (32.0 each, ideal 1), 126,976 bank conflicts" in shown
    assert "Swizzle<5,2,5>" in shown and "4 bytes of padding behind each 128 bytes" in shown
    assert main(["banks", bundle, "--line", "transpose.cu:21", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [each["ptx_line"] for each in data["accesses"]] == [120, 132, 144, 156]
    assert data["accesses"][0]["worst"]["wavefronts"] == 32


def test_a_line_without_an_access_says_where_there_are_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["banks", str(TRACES / "transpose_padded"), "--line", "ptx:1"]) == 2
    said = capsys.readouterr().err
    assert re.search(r"no access to shared memory there; it has\n  transpose.cu:16  ptx:\d+  st.shared.f32", said)


def test_totals_of_the_large_gemm_are_the_hardwares() -> None:
    """gemm_f16 itself: 196,608 ldmatrix.x4, 65,536 cp.async, counted without addresses."""
    launch = prepare(str(TRACES / "gemm_f16"), LaunchOptions())
    observer = SharedAccesses()
    with observer:
        launch.run()
    sums = bank_report.totals(observer.found)
    assert sums["load"][0] == 196_608 and sums["copy"][0] == 65_536
    assert sums["load"][1] == recorded("gemm_f16", "pipe_lsu_wavefronts_mem_shared_op_ld")
    for kind, op in (("load", "ld"), ("copy", "ldgsts")):
        assert sums[kind][2] == recorded("gemm_f16", f"bank_conflicts_pipe_lsu_mem_shared_op_{op}") == 0
