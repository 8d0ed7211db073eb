"""What the checker finds: one kernel with a bug of each kind, the same kernel without it, nothing in kernels that are right."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tcsim
from tcsim.cli import main
from tests.kernels import kernel

FOLDER = Path(__file__).parent / "data" / "hazards"
SOURCE = (FOLDER / "hazards.cu").read_text().splitlines()

Array = Callable[..., Any]


@pytest.fixture(scope="module")
def module() -> tcsim.RawModule:
    return tcsim.RawModule(path=FOLDER / "hazards.ptx")


def floats(count: int) -> Any:
    return tcsim.asarray(np.random.default_rng(count).standard_normal(count).astype(np.float32))


def zeros(count: int) -> Any:
    return tcsim.zeros(count, np.float32)


def halves(value: float) -> Any:
    return tcsim.asarray(np.full(256, value, np.float16))


LAUNCHES: dict[str, tuple[int, int, Callable[[], tuple[Any, ...]]]] = {
    "reduce": (2, 256, lambda: (floats(512), zeros(2))),
    "tiles": (1, 128, lambda: (floats(512), zeros(128), np.int32(512))),
    "warp_sum": (1, 32, lambda: (floats(64), zeros(1))),
    "handover": (1, 64, lambda: (floats(32), zeros(32))),
    "last_block": (8, 32, lambda: (floats(512), zeros(8), tcsim.zeros(1, np.uint32), zeros(1))),
    "blur": (4, 64, lambda: (floats(256), zeros(256), np.int32(256))),
    "count": (4, 64, lambda: (tcsim.asarray(np.arange(256, dtype=np.int32)), tcsim.zeros(8, np.int32))),
    "barrier": (1, 128, lambda: (zeros(128), np.int32(100))),
    "lock": (2, 40, lambda: (tcsim.zeros(1, np.int32), tcsim.zeros(1, np.int32))),
    "called": (1, 128, lambda: (zeros(128), np.int32(100))),
    "deadlocked": (1, 128, lambda: (zeros(128),)),
    "copy": (1, 128, lambda: (floats(1024), zeros(512))),
    "uninitialised_shared": (1, 128, lambda: (zeros(128),)),
    "uninitialised_local": (1, 32, lambda: (zeros(32), np.int32(5))),
    "out_of_bounds": (2, 64, lambda: (floats(127), zeros(127), np.int32(127))),
    "misaligned": (1, 32, lambda: (floats(256), zeros(128))),
    "shuffle": (1, 32, lambda: (floats(32), zeros(32), np.int32(16))),
    "pipeline": (1, 64, lambda: (tcsim.asarray(np.arange(320, dtype=np.int32)), tcsim.zeros(32, np.int32), np.int32(10))),
    "message": (2, 32, lambda: (zeros(32), tcsim.zeros(1, np.int32), floats(32), zeros(32))),
    "count_in_block": (4, 64, lambda: (tcsim.asarray(np.arange(256, dtype=np.int32)), tcsim.zeros(8, np.int32))),
    "tensor_core": (1, 32, lambda: (halves(100), halves(100), halves(0))),
}


def check(module: tcsim.RawModule, name: str, **options: Any) -> tcsim.CheckReport:
    grid, block, arguments = LAUNCHES.get(name) or LAUNCHES.get(name.rpartition("_")[0]) or LAUNCHES[name.partition("_")[0]]
    return tcsim.check(module.get_function(name), (grid,), (block,), arguments(), **options)


# (kernel, kind, text of the source lines of the two sides, what the message says)
BUGS = [
    ("reduce_racing", "RACE", ("partial[t] += partial[t + step]",) * 2, "__syncthreads() before hazards.cu"),
    ("tiles_racing", "RACE", ("sum += tile[i]", "tile[t] = x[start + t]"), "__syncthreads() before hazards.cu"),
    ("warp_sum_racing", "RACE", ("v[t] = v[t] + other", "float other = v["), "no __syncwarp() orders these lanes"),
    ("handover_racing", "RACE", ("box[lane] = x[lane]", "y[lane] = box[31 - lane]"), "no barrier orders warp 0 before warp 1"),
    ("last_block_racing", "RACE", ("partial[blockIdx.x] = sum", "sum += partial[i]"), "__threadfence()"),
    ("blur_racing", "RACE", ("0.5f * (x[i] + x[i + 1])", "(BUG ? x : y)[i] = value"), "nothing orders CTA (0, 0, 0)"),
    ("count_racing", "RACE", ("bins[b] += 1",) * 2, "an atomic operation"),
    ("barrier_divergent", "DIVERGENT BARRIER", ("if (t < n) __syncthreads()",), "lanes 4-31 of the warp have not exited"),
    ("lock_racing", "RACE", ("*sum += threadIdx.x",) * 2, "no __syncwarp() orders these lanes"),
    ("called_returning", "DIVERGENT BARRIER", ("__syncthreads();",), "lanes 4-31 of the warp have not exited"),
    ("called_branching", "DIVERGENT BARRIER", ("__syncthreads();",), "lanes 4-31 of the warp have not exited"),
    ("deadlocked", "DEADLOCK", (), "wait at barrier 1"),
    ("copy_early", "IN FLIGHT", (None, "y[t] = tile[1][127 - t]"), "no cp.async.wait_group of the copying thread"),
    ("copy_uncommitted", "IN FLIGHT", (None, "y[t] = tile[1][127 - t]"), "behind the commit"),
    ("copy_unsynchronised", "RACE", (None, "y[t] = tile[1][127 - t]"), "__syncthreads() before hazards.cu"),
    ("uninitialised_shared", "UNINITIALISED", ("y[t] = s[t]",), "no thread has written these bytes of shared memory"),
    ("uninitialised_local", "UNINITIALISED", ("history[(threadIdx.x + n) & 15]",), "bytes of local memory"),
    ("out_of_bounds", "OUT OF BOUNDS", ("y[i] = x[i]",), "past the end of the 508-byte buffer"),
    ("misaligned", "MISALIGNED", ("*(const float4*)",), "is 4 mod 16"),
    ("shuffle_inactive", "INACTIVE SOURCE", (None,), "the mask names lanes 16-31"),
    ("pipeline_racing", "RACE", ("ring[s][lane ^ 1]", "ring[s][lane] = x["), "no barrier orders warp 1 before warp 0"),
    ("message_racing", "RACE", ("box[t] = x[t]", "y[t] = box[31 - t]"), "__threadfence() before hazards.cu:279"),
    ("message_block_fence", "RACE", ("box[t] = x[t]", "y[t] = box[31 - t]"), "no fence is between the two writes"),
    ("message_late_fence", "RACE", ("box[t] = x[t]", "y[t] = box[31 - t]"), "set behind this at hazards.cu:279"),
    ("count_in_block", "RACE", (None, None), "device scope: atomicAdd in place of atomicAdd_block"),
    ("tensor_core", "OVERFLOW", (None,), "it passed 65504"),
]


@pytest.mark.parametrize(("name", "kind", "lines", "said"), BUGS, ids=[bug[0] for bug in BUGS])
def test_a_planted_bug_is_found(
    module: tcsim.RawModule, name: str, kind: str, lines: tuple[str | None, ...], said: str
) -> None:
    report = check(module, name)
    found = [hazard for hazard in report.hazards if hazard.kind == kind]
    assert not report.ok and found, report.text()
    assert said in "\n".join(hazard.text() for hazard in found)

    def shows(hazard: Any) -> bool:
        sides = hazard.accesses
        return len(sides) == len(lines) and all(
            expected is None or (side.file == "hazards.cu" and expected in SOURCE[side.line - 1])
            for side, expected in zip(sides, lines, strict=True)
        )

    assert any(shows(hazard) for hazard in found), report.text()


RIGHT = [
    "reduce", "tiles", "warp_sum", "handover", "last_block", "blur", "count", "barrier", "copy", "shuffle", "pipeline",
    "message", "called", "lock",
]  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found_without_the_bug(module: tcsim.RawModule, name: str) -> None:
    report = check(module, f"{name}_right", seed=1)
    assert report.ok, report.text()


def test_a_mask_without_the_thread_and_a_partial_warp(module: tcsim.RawModule) -> None:
    wrong = tcsim.check(module.get_function("shuffle_wrong_mask"), 1, 32, (floats(32), zeros(32)))
    assert [hazard.kind for hazard in wrong.hazards] == ["NOT A MEMBER"]
    partial = tcsim.check(module.get_function("tensor_core"), 1, 16, (halves(1), halves(1), halves(0)))
    assert set(partial.kinds()) == {"PARTIAL WARP"}
    assert "lanes 16-31 have exited or never were" in partial.text()


def test_cancellation_is_a_note() -> None:
    """C is 32768 + 1/8 and A * B adds -32768: of the accumulator's 24 bits, 18 are gone."""
    body = """
        mov.b32 %r1, 0x3c003c00; mov.b32 %r2, 0xe800e800; mov.f32 %f1, 0f47000020;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r2, %r2},
            {%f1, %f1, %f1, %f1};
        mov.b32 result, %f2;
    """
    function = tcsim.RawModule(code=kernel(body)).get_function("k")
    arguments = (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32))
    report = tcsim.check(function, 1, 32, arguments)
    assert tcsim.asnumpy(arguments[0]).view(np.float32)[0] == 0.125
    assert report.ok and "CANCELLATION  mma.sync" in report.text() and " 18 at most" in report.text()
    assert not tcsim.check(function, 1, 32, arguments, numerics=False).notes


def sums(opcode: str, a: int, b: int, c: int, registers: tuple[int, int, int], more: str = "") -> tcsim.CheckReport:
    """Check one matrix instruction all whose A, B and C have the same bits. registers: of A, of B, of C."""
    lists = ["{" + ", ".join([f"%r{10 + n}"] * count) + "}" for n, count in enumerate(registers)]
    d = "{" + ", ".join(f"%r{20 + n}" for n in range(registers[2])) + "}"
    body = f"""
        mov.b32 %r10, {a}; mov.b32 %r11, {b}; mov.b32 %r12, {c}; mov.b32 %r13, 0x44444444;
        {opcode} {d}, {", ".join(lists)}{more}; mov.b32 result, %r20;
    """
    function = tcsim.RawModule(code=kernel(body, target="sm_90")).get_function("k")
    return tcsim.check(function, 1, 32, (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32)))


def test_sums_that_wrap_or_overflow() -> None:
    """32-bit integers that pass 2^31 wrap unless they are clamped; f16 sums of bytes and of sparse products overflow."""
    s8, most = "mma.sync.aligned.m16n8k32.row.col{}.s32.s8.s8.s32", 0x7FFF_FFE0
    wrapped = sums(s8.format(""), 0x0101_0101, 0x0101_0101, most, (4, 2, 4))
    assert wrapped.kinds() == {"OVERFLOW": 1} and "wrapped around" in wrapped.text()
    assert sums(s8.format(""), 0x0101_0101, 0x0101_0101, most - 1, (4, 2, 4)).ok  # 2^31 - 1 it is
    assert sums(s8.format(".satfinite"), 0x0101_0101, 0x0101_0101, most, (4, 2, 4)).ok
    small = sums("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16", 0x7070_7070, 0x7070_7070, 0, (4, 2, 2))
    assert small.kinds() == {"OVERFLOW": 1} and "passed 65504" in small.text()
    sparse = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16"
    assert sums(sparse, 0x6400_6400, 0x6400_6400, 0, (4, 4, 2), ", %r13, 0").kinds() == {"OVERFLOW": 1}
    assert sums(sparse, 0x7C00_7C00, 0x6400_6400, 0, (4, 4, 2), ", %r13, 0").ok  # A is infinite to begin with


def test_sums_of_warpgroups_that_overflow_or_cancel() -> None:
    """f16 accumulators of wgmma, A in registers; B is 16 x 8 ones."""
    body = """
        mov.u32 %r1, s; shl.b32 %r2, tid, 1; add.u32 %r1, %r1, %r2; mov.b16 %h1, 0x3c00; st.shared.b16 [%r1], %h1;
        bar.sync 0; fence.proxy.async.shared::cta;
        mov.u32 %r3, s; shr.u32 %r3, %r3, 4; cvt.u64.u32 %rd1, %r3; or.b64 %rd1, %rd1, 0x0000000800080000;
        ld.global.u32 %r4, [pin]; ld.global.u32 %r5, [pin + 4]; mov.b32 %r6, %r5;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r5, %r6}, {%r4, %r4, %r4, %r4}, %rd1, 1, 1, 1, 0;
        wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
        mov.b32 result, %r5;
    """
    text = kernel(body, target="sm_90a", declarations=".shared .align 128 .b8 s[256];\n")
    function = tcsim.RawModule(code=text).get_function("k")

    def check(a: int, c: int) -> tcsim.CheckReport:
        out = tcsim.zeros(128, np.uint32)
        return tcsim.check(function, 1, 128, (out, tcsim.asarray(np.array([a, c], np.uint32))))

    assert check(0x3C00_3C00, 0x3C00_3C00).ok  # 16 + 1
    assert check(0x7800_7800, 0).kinds() == {"OVERFLOW": 1}  # 16 * 32768
    assert check(0x7C00_7C00, 0).ok
    cancelled = check(0xE800_E800, 0x7801_7801)  # 16 * -2048 + 32800 = 32
    assert cancelled.ok and "CANCELLATION  wgmma" in cancelled.text()


LESSONS = Path(__file__).parents[1] / "docs" / "learn" / "kernels.ptx"


def tile_arguments() -> tuple[Any, ...]:
    return tcsim.zeros(128, np.uint32), tcsim.zeros(64, np.uint32), zeros(128)


def test_exchanged_fragment_registers_are_found() -> None:
    """A1 and A2 exchanged: the kernel runs, and its sums are of the wrong elements."""
    module = tcsim.RawModule(path=LESSONS)
    assert tcsim.check(module.get_function("mma_right"), 1, 32, tile_arguments(), fragments=True).ok
    swapped = module.get_function("mma_swapped")
    assert tcsim.check(swapped, 1, 32, tile_arguments()).ok  # nothing else is wrong with it
    (hazard,) = tcsim.check(swapped, 1, 32, tile_arguments(), fragments=True).hazards
    assert hazard.kind == "FRAGMENT" and hazard.what == "operand A: registers exchanged"
    assert hazard.suggestion.startswith("{a0, a2, a1, a3}")


def test_a_fragment_register_used_twice_is_found() -> None:
    text = LESSONS.read_text()
    start = text.index(".entry mma_right(")
    call = re.search(r"\{%r(\d+), %r(\d+), %r(\d+), %r(\d+)\}, \{%r", text[start:])
    assert call is not None
    one, two = call[0], call[0].replace(f"%r{call[2]}, %r{call[3]}", f"%r{call[3]}, %r{call[3]}")
    function = tcsim.RawModule(code=text[:start] + text[start:].replace(one, two, 1)).get_function("mma_right")
    (hazard,) = tcsim.check(function, 1, 32, tile_arguments(), fragments=True).hazards
    assert hazard.what == "operand A: registers a1 and a2 hold the same elements"


@pytest.mark.parametrize("name", ["gemm_f16_small", "triton_matmul"])
def test_fragments_of_recorded_gemms_are_in_order(name: str, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Through cp.async, swizzles, ldmatrix with and without .trans; and the launch's results stay what they are."""
    from tcsim.cli.launches import LaunchOptions, prepare

    launch = prepare(str(traces / name), LaunchOptions())
    with tcsim.Checker(fragments=True) as checker:
        launch.run()
    assert checker.report.ok, checker.report.text()
    assert all(comparison.equal for comparison in launch.bundle.compare(launch.outputs()))


def test_a_register_that_was_never_written() -> None:
    """Lanes that the guard leaves out store what the register happened to hold."""
    body = "setp.lt.u32 %p1, lane, 8; @%p1 mov.u32 %r1, 7; st.global.u32 [pin], %r1;"
    function = tcsim.RawModule(code=kernel(body)).get_function("k")
    report = tcsim.check(function, 1, 32, (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32)))
    (hazard,) = [h for h in report.hazards if h.kind == "UNSET REGISTER"]
    assert hazard.what == "%r1" and hazard.accesses[0].lanes == tuple(range(8, 32))
    moved = body.replace("[pin], %r1;", "[pin], %r3;").replace("st.global", "mov.b32 %r2, %r1; mov.b32 %r3, %r2; st.global")
    function = tcsim.RawModule(code=kernel(moved)).get_function("k")
    report = tcsim.check(function, 1, 32, (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32)))
    (hazard,) = [h for h in report.hazards if h.kind == "UNSET REGISTER"]
    assert hazard.what == "%r3" and hazard.accesses[0].lanes == tuple(range(8, 32))
    guarded = kernel(body.replace("st.global", "@%p1 st.global"))  # only the lanes that have written it store it
    report = tcsim.check(
        tcsim.RawModule(code=guarded).get_function("k"), 1, 32, (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32))
    )
    assert "UNSET REGISTER" not in report.kinds()
    fine = kernel("mov.u32 %r1, 0; " + body.replace("st.global", "@%p1 st.global"))
    report = tcsim.check(
        tcsim.RawModule(code=fine).get_function("k"), 1, 32, (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32))
    )
    assert "UNSET REGISTER" not in report.kinds()


def test_the_same_value_stored_twice_is_no_race() -> None:
    both = (tcsim.zeros(64, np.uint32), tcsim.zeros(32, np.uint32))
    same = tcsim.RawModule(code=kernel("mov.u32 %r1, 5; st.global.u32 [pin], %r1;")).get_function("k")
    assert tcsim.check(same, 1, 64, both).ok
    differs = tcsim.RawModule(code=kernel("st.global.u32 [pin], tid;")).get_function("k")
    assert set(tcsim.check(differs, 1, 64, both).kinds()) == {"RACE"}


def test_an_unwritten_word_that_is_thrown_away_is_a_note() -> None:
    body = "mov.u32 %r2, s; ld.shared.u32 %r1, [%r2]; and.b32 result, %r1, {mask};"
    for mask, ok in ((0, True), (1, False)):
        text = kernel(body.replace("{mask}", str(mask)), declarations=".shared .align 4 .b8 s[64];\n")
        arguments = (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32))
        report = tcsim.check(tcsim.RawModule(code=text).get_function("k"), 1, 32, arguments)
        assert report.ok == ok, report.text()
        assert ("no result depends on it" in report.text()) == ok
        assert not tcsim.asnumpy(arguments[0]).any()


def test_a_barrier_is_wanted_before_what_comes_second_in_the_program() -> None:
    """Warp 0 has stored before warp 1 reads, which stands above: the barrier belongs between the two."""
    body = """
        mov.u32 %r1, s; shl.b32 %r2, tid, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], tid; bar.sync 0;
        xor.b32 %r4, %r2, 128; add.u32 %r4, %r1, %r4;
        ld.shared.u32 result, [%r4];
        st.shared.u32 [%r3], lane;
    """
    text = kernel(body, declarations=".shared .align 4 .b8 s[256];\n")
    function = tcsim.RawModule(code=text).get_function("k")
    report = tcsim.check(function, 1, 64, (tcsim.zeros(64, np.uint32), tcsim.zeros(64, np.uint32)))
    store = next(n for n, line in enumerate(text.splitlines(), 1) if "st.shared.u32 [%r3], lane" in line)
    assert {hazard.suggestion for hazard in report.hazards} == {f"__syncthreads() before ptx:{store}"}, report.text()


CORRECT = [
    "block_scan", "gemm_s8", "histogram_u8", "locks", "producer_consumer", "reduce_sum_f32", "stream_sum", "triton_softmax",
]  # fmt: skip


@pytest.mark.parametrize("name", CORRECT)
def test_no_hazards_in_recorded_kernels(name: str, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those with barriers, atomics, copies or shuffles, which the hardware ran with one result."""
    assert main(["check", str(traces / name)]) == 0, capsys.readouterr().out


CLUSTERS = {
    "pipeline": (2, 128, None, 2 * 20 * 32, (20,)),
    "token": (2, 128, None, 256, ()),
    "distributed": (8, 128, None, 1024, ()),
    "passed": (4, 32, None, 0, ()),
    "remote": (6, 64, None, 0, ()),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_no_hazards_with_mbarriers_and_in_clusters(name: str) -> None:
    grid, block, cluster, inputs, numbers = CLUSTERS[name]
    function = tcsim.RawModule(path=FOLDER.parent / "cluster" / "kernels.ptx").get_function(name)
    arrays = [tcsim.asarray(np.arange(inputs, dtype=np.int32))] if inputs else []
    arguments = (*arrays, tcsim.zeros(2048, np.int32), *(np.int32(n) for n in numbers))
    with tcsim.Checker(seed=1) as checker:
        function((grid,), (block,), arguments, cluster=cluster)
    assert checker.report.ok, checker.report.text()


def test_the_same_bits_with_hooks(traces: Path) -> None:
    """Checked, in another order, a kernel computes what it computes unchecked."""
    from tcsim.cli.launches import LaunchOptions, prepare

    plain = prepare(str(traces / "gemm_f16_small"), LaunchOptions())
    plain.run()
    watched = prepare(str(traces / "gemm_f16_small"), LaunchOptions())
    with tcsim.Checker(seed=3) as checker:
        watched.run()
    assert checker.report.ok and checker.report.launches == 1
    for name, array in plain.outputs().items():
        assert watched.outputs()[name].tobytes() == array.tobytes()


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ptx = str(FOLDER / "hazards.ptx")
    words = ["check", ptx, "-k", "count_racing", "-g", "4", "-b", "64", "--arg", "i32[256]:arange", "--inout", "i32[8]:zeros"]
    assert main([*words, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "tcsim-check-1" and {hazard["kind"] for hazard in data["hazards"]} == {"RACE"}
    assert data["hazards"][0]["accesses"][0]["file"] == "hazards.cu"

    script = tmp_path / "script.py"
    script.write_text(
        "import sys, numpy as np, tcsim\n"
        f"f = tcsim.RawModule(path={ptx!r}).get_function('uninitialised_shared')\n"
        "f((1,), (int(sys.argv[1]),), (tcsim.zeros(128, np.float32),))\n"
    )
    assert main(["check", str(script), "100"]) == 0
    assert main(["check", str(script), "128"]) == 1
    assert "1 UNINITIALISED in 1 launch" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "none.py")]) == 2


def test_hazards_raise_where_asked(module: tcsim.RawModule) -> None:
    with pytest.raises(tcsim.HazardError, match="UNINITIALISED"):
        check(module, "uninitialised_shared").require()
    check(module, "barrier_right").require()


pytest_plugins = ["pytester"]


def test_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import numpy as np, tcsim
        def launch(name):
            f = tcsim.RawModule(path={str(FOLDER / "hazards.ptx")!r}).get_function(name)
            f((1,), (128,), (tcsim.zeros(128, np.float32), np.int32(100)))
        def test_good(tcsim_checker):
            launch("barrier_right")
            assert tcsim_checker.report.launches == 1
        def test_bad(tcsim_checker):
            launch("barrier_divergent")
        """
    )
    pytester.makeconftest("from tcsim.pytest_plugin import tcsim_checker")
    result = pytester.runpytest()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*DIVERGENT BARRIER*"])


def test_packages_are_not_hidden_by_functions() -> None:
    """``import tcsim.a.b as c`` must work for every module."""
    names = [module.name for module in pkgutil.iter_modules(tcsim.__path__)]
    assert "checking" in names
    assert not [name for name in names if not isinstance(getattr(tcsim, name, tcsim), ModuleType)]


def test_an_index_that_leads_into_another_buffer() -> None:
    """It is in memory, and so no fault; but no store is meant for that buffer."""
    arguments = (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32))
    into, other = (int(a.data.ptr) for a in arguments)
    for bytes_off, kinds in ((0, set()), (other - into, {"OUT OF BOUNDS"})):
        text = kernel(f"add.s64 %rd1, slot, {bytes_off}; st.global.u32 [%rd1], lane; mov.u32 result, lane;")
        report = tcsim.check(tcsim.RawModule(code=text).get_function("k"), 1, 32, arguments)
        assert set(report.kinds()) == kinds, report.text()


def test_machine_code_is_checked_for_what_stops_it(traces: Path) -> None:
    from tcsim.cli.launches import LaunchOptions, prepare

    launch = prepare(str(traces / "block_scan"), LaunchOptions(machine=True))
    with tcsim.Checker() as checker:
        launch.run()
    report = checker.report
    assert report.ok and report.launches == 1 and "this is machine code" in report.text()
    assert all(comparison.equal for comparison in launch.bundle.compare(launch.outputs()))
