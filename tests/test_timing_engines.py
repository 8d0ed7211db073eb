"""The two engines of the timing model give the same cycles, stalls and metrics to the last digit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import kernel
from timing_support import H200, empty_memory

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tcsim.arch import Timing
from tcsim.errors import DeviceError
from tcsim.profile import LaunchProfile
from tcsim.timeline import Timeline, Track

ASSEMBLES = find_ptxas() is not None and find_nvdisasm() is not None

PIECES = (
    "fma.rn.f32 %f1, %f1, %f2, %f3; fma.rn.f32 %f2, %f1, %f2, %f3;",
    "min.s32 %r1, lane, 7; mad.lo.u32 %r2, %r1, 3, lane; add.u32 result, result, %r2;",
    "ex2.approx.ftz.f32 %f4, %f1; add.f32 %f1, %f1, %f4;",
    "mul.wide.u32 %rd2, lane, 4; add.s64 %rd3, pin, %rd2; ld.global.u32 %r1, [%rd3]; add.u32 result, result, %r1;",
    "mul.wide.u32 %rd2, lane, 68; add.s64 %rd3, pin, %rd2; ld.global.u32 %r1, [%rd3+64]; add.u32 result, result, %r1;",
    "mul.wide.u32 %rd2, lane, 4; add.s64 %rd3, pin, %rd2; st.global.u32 [%rd3], 5;",
    "mov.u32 %r1, box; mad.lo.u32 %r2, lane, 128, %r1; st.shared.u32 [%r2], lane; "
    "ld.shared.u32 %r3, [%r2]; add.u32 result, result, %r3;",
    "mov.u32 %r1, box; mad.lo.u32 %r2, lane, 16, %r1; ld.shared.v2.u32 {%r3, %r4}, [%r2]; add.u32 result, result, %r4;",
    "bar.sync 0;",
    "bar.arrive 1, 32;",
    "shfl.sync.bfly.b32 %r1, lane, 1, 31, -1; add.u32 result, result, %r1;",
    "red.global.add.u32 [pin+512], 1;",
    "mov.u32 %r1, box; atom.shared.add.u32 %r2, [%r1+64], 1;",
    "mov.u32 %r1, box; mad.lo.u32 %r2, lane, 4, %r1; cp.async.ca.shared.global [%r2], [pin], 4; cp.async.commit_group; "
    "cp.async.wait_group 0;",
    "membar.gl;",
)


CLUSTER_SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
CLUSTER_PIECES = (
    CLUSTER_SYNC,
    "mov.u32 %r1, box; mad.lo.u32 %r2, lane, 4, %r1; mapa.shared::cluster.u32 %r3, %r2, 1; ld.shared::cluster.u32 %r4, [%r3]; "
    "add.u32 result, result, %r4;",
    "mov.u32 %r1, box; mad.lo.u32 %r2, lane, 16, %r1; mapa.shared::cluster.u32 %r3, %r2, 0; "
    "st.shared::cluster.u32 [%r3], lane;",
    "mov.u32 %r1, box; mapa.shared::cluster.u32 %r3, %r1, 1; atom.shared::cluster.add.u32 %r4, [%r3], 1;",
)


@st.composite
def bodies(draw: st.DrawFn, pieces: tuple[str, ...] = PIECES) -> str:
    """A few pieces, some of them in a loop, some for part of a warp only."""
    text = "mov.u32 result, 0; mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1;\n"
    for number, piece in enumerate(draw(st.lists(st.sampled_from(pieces), min_size=2, max_size=8))):
        how = draw(st.sampled_from(("", "", "loop", "part"))) if "bar" not in piece else ""
        if how == "loop":
            text += f"mov.u32 %r9, 0; L{number}: {piece} add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra L{number};\n"
        elif how == "part":
            apart = piece.replace("31, -1", "31, 0xFFFFF800")  # the lanes that are there
            text += f"setp.lt.u32 %p1, lane, 11; @%p1 bra P{number}; {apart} P{number}:\n"
        else:
            text += piece + "\n"
    return text


CONFIGURATIONS = st.fixed_dictionaries(
    {
        "order": st.sampled_from(("least_recent", "youngest", "oldest", "oldest_cta")),
        "greedy": st.booleans(),
        "queue": st.integers(1, 8),
        "merging": st.sampled_from((1, 4)),
    }
)


def configured(order: str, greedy: bool, queue: int, merging: int) -> Timing:
    chip = H200.chip
    pipes = {name: msgspec.structs.replace(pipe, queue=queue if pipe.queue else 0) for name, pipe in chip.pipes.items()}
    chip = msgspec.structs.replace(
        chip,
        pipes=pipes,
        scheduler=msgspec.structs.replace(chip.scheduler, order=order, greedy=greedy),
        l2=msgspec.structs.replace(chip.l2, merging_requests=merging),
    )
    return msgspec.structs.replace(H200, chip=chip)


def profiles(
    function: tcsim.module.Function, grid: int, threads: int, timing: Timing, code: str, cluster: int | None = None
) -> list[LaunchProfile]:
    """The same launch on both engines."""
    found = []
    for engine in ("compiled", "simpy"):
        empty_memory()
        out, buffer = tcsim.zeros(threads * grid, np.uint32), tcsim.zeros(1024, np.uint32)
        with tcsim.Profiler(timing=timing, engine=engine, code=code) as profiler:  # type: ignore[arg-type]
            function((grid,), (threads,), (out, buffer), cluster=cluster)
        found += profiler.launches
    return found


def same(one: LaunchProfile, other: LaunchProfile) -> bool:
    numbers = [(profile.cycles, profile.metrics, profile.stalls, profile.instructions) for profile in (one, other)]
    return numbers[0] == numbers[1]


@settings(max_examples=25, deadline=None)
@given(bodies(), st.sampled_from((1, 3, 133, 300)), st.sampled_from((32, 64, 100, 256)), CONFIGURATIONS)
def test_random_kernels_take_the_same_on_both_engines(body: str, grid: int, threads: int, options: dict[str, object]) -> None:
    declarations = ".shared .align 16 .b8 box[8192];"
    module = tcsim.RawModule(code=kernel(body, declarations=declarations))
    timing = configured(**options)  # type: ignore[arg-type]
    assert same(*profiles(module.get_function("k"), grid, threads, timing, "ptx"))


@settings(max_examples=15, deadline=None)
@given(bodies(CLUSTER_PIECES * 3 + PIECES), st.sampled_from((4, 136)), st.sampled_from((2, 4)), st.sampled_from((64, 100)))
def test_random_clusters_take_the_same_on_both_engines(body: str, grid: int, cluster: int, threads: int) -> None:
    declarations = ".shared .align 16 .b8 box[8192];"
    module = tcsim.RawModule(code=kernel(body + CLUSTER_SYNC, target="sm_90", declarations=declarations))
    one, other = profiles(module.get_function("k"), grid, threads, H200, "ptx", cluster)
    assert same(one, other) and sum(one.stalls.values()) == one.warp_cycles


CLUSTER_KERNELS = Path(__file__).parent / "data" / "cluster"


@pytest.mark.skipif(not ASSEMBLES, reason="needs ptxas and nvdisasm")
@pytest.mark.parametrize(
    "name, grid, threads",
    [("distributed", 8, 128), ("passed", 4, 32), ("remote", 6, 64), ("pipeline", 2, 128), ("token", 2, 256)],
)
def test_clusters_and_mbarriers_take_the_same_on_both_engines(name: str, grid: int, threads: int) -> None:
    recorded = np.load(CLUSTER_KERNELS / "h200.npz")[name]
    data = np.random.default_rng(1).integers(0, 99, 8 * 128).astype(np.int32)
    found, results = [], []
    for engine in ("compiled", "simpy"):
        empty_memory()
        function = tcsim.RawModule(path=CLUSTER_KERNELS / "kernels.ptx").get_function(name)
        given, out = tcsim.asarray(data), tcsim.zeros(recorded.shape, np.int32)
        with tcsim.Profiler(engine=engine) as profiler:  # type: ignore[arg-type]
            arguments = (out,) if name in ("passed", "remote") else (given, out)
            function((grid,), (threads,), (*arguments, np.int32(13)) if name == "pipeline" else arguments)
        found += profiler.launches
        results.append(tcsim.asnumpy(out))
    assert same(*found) and np.array_equal(*results)
    if name not in ("distributed", "pipeline", "token"):
        assert np.array_equal(results[0], recorded)


@pytest.mark.skipif(not ASSEMBLES, reason="needs ptxas and nvdisasm")
@settings(max_examples=6, deadline=None)
@given(bodies(), st.sampled_from((1, 133)), st.sampled_from((64, 100)), CONFIGURATIONS)
def test_machine_code_takes_the_same_on_both_engines(body: str, grid: int, threads: int, options: dict[str, object]) -> None:
    declarations = ".shared .align 16 .b8 box[8192];"
    module = tcsim.RawModule(code=kernel(body, declarations=declarations))
    one, other = profiles(module.get_function("k"), grid, threads, configured(**options), "machine")  # type: ignore[arg-type]
    assert "machine code" in one.timed and same(one, other)


@pytest.mark.parametrize(
    "name",
    [
        "block_scan",
        "gemm_f16_small",
        "producer_consumer",
        "bytecode",
        "polynomial",
        "block_pipeline",
        "tensor_multicast",
        "locks",
    ],
)
def test_recorded_kernels_take_the_same_on_both_engines(name: str, traces: Path) -> None:
    """A timeline that watches changes nothing either."""
    from tcsim.cli.launches import LaunchOptions, prepare

    found, timeline = [], Timeline()
    for engine, observers in (("compiled", ()), ("simpy", (timeline,))):
        empty_memory()
        launch = prepare(str(traces / name), LaunchOptions())
        with tcsim.Profiler(observers, engine=engine) as profiler:  # type: ignore[arg-type]
            launch.run()
        found += profiler.launches
        assert all(comparison.equal for comparison in launch.bundle.compare(launch.outputs()))
    assert same(*found)
    if "machine code" in found[0].timed:
        recorded = launch.bundle.metrics["smsp__inst_executed.sum"].value
        spins = name == "locks"  # how often, changes from run to run
        assert found[0].metrics["smsp__inst_executed.sum"] == pytest.approx(recorded, rel=0.4 if spins else 0.005)
        if name == "tensor_multicast":
            _check_copies(timeline.tracks(found[1]))


def _check_copies(tracks: list[Track]) -> None:
    """Four multicast copies of a cluster on as many SMs, for which four warps of the first wait, and a store."""
    copies = [each for track in tracks if track.name.startswith("bulk copies") for each in track.slices]
    loads = [each for each in copies if "UTMALDG" in each.name]
    assert len(loads) == 4 and len(copies) == 5 and all("1,024 B" in each.name for each in loads)
    waits = [each for track in tracks if track.name.startswith("mbarrier waits") for each in track.slices]
    assert len(waits) == 4 and min(each.end for each in waits) >= max(each.end for each in loads)
    reached = [each for track in tracks if track.name.startswith("CTA 0 warp") for each in track.slices]
    for load in loads:
        users = [each for each in reached if set(load.out) & set(each.into)]
        assert len(users) == 4 and min(each.start for each in users) >= load.end
    assert [each.name for track in tracks if track.name == "CTA slot 0" for each in track.slices] == ["CTA 0"]


def test_every_cycle_of_every_warp_has_one_reason_on_the_compiled_engine() -> None:
    module = tcsim.RawModule(code=kernel("\n".join(PIECES[:8]), declarations=".shared .align 16 .b8 box[8192];"))
    empty_memory()
    with tcsim.Profiler(code="ptx") as profiler:
        module.get_function("k")((140,), (96,), (tcsim.zeros(140 * 96, np.uint32), tcsim.zeros(1024, np.uint32)))
    profile = profiler.launches[0]
    assert sum(profile.stalls.values()) == profile.warp_cycles
    assert profile.stalls["selected"] == profile.metrics["smsp__inst_issued.sum"]


def test_an_unknown_engine_is_refused() -> None:
    function = tcsim.RawModule(code=kernel("mov.u32 result, 1;")).get_function("k")
    with tcsim.Profiler(engine="slow") as profiler, pytest.raises(DeviceError, match="'compiled' or 'simpy'"):  # type: ignore[arg-type]
        function((1,), (32,), (tcsim.zeros(32, np.uint32), tcsim.zeros(4, np.uint32)))
    assert profiler.launches == []
