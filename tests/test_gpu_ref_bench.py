"""Microbenchmarks without a GPU: their kernels (on tcsim, and through ptxas where it is installed), their analysis on made-up
data, the files they write, and how they go on when something fails."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tcsim
from gpu_ref.__main__ import main
from gpu_ref.bench import bandwidth, compare, latency, launches, slices
from gpu_ref.bench.chains import LONG, SHORT, Op, chain_benchmark
from gpu_ref.bench.command import run_benchmarks
from gpu_ref.bench.families import FAMILIES, select
from gpu_ref.bench.gpu import BenchError, Benchmark, build
from gpu_ref.bench.machine_code import Check, check, port_cycles, read_listing, timed_loop
from gpu_ref.bench.patterns import GLOBAL, SHARED, touched
from gpu_ref.bench.results import Number, Outcome, median_spread, plateaus, slope, steps, write_raw, write_toml
from gpu_ref.bench.workers import isolated, measure
from gpu_ref.toolchain import find_ptxas, ptxas_version
from isa.sass.toolchain import find_nvdisasm

ROOT = Path(__file__).parent.parent


class SimulatedGpu:
    """A GPU whose kernels tcsim executes, without time."""

    def __init__(self, sms: int = 2) -> None:
        self.sms = sms

    def load(self, image: Path) -> None:
        self.module = tcsim.RawModule(path=str(image))

    def upload(self, array: Any) -> Any:
        return tcsim.asarray(np.ascontiguousarray(array))

    def empty(self, nbytes: int) -> Any:
        return tcsim.zeros(nbytes, np.uint8)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def forget_translations(self) -> None:
        pass

    def launch(self, entry: str, grid: int, block: int, args: Any, shared: int = 0) -> None:
        self.module.get_function(entry)((grid,), (block,), tuple(args), shared_mem=shared)

    def seconds(self, entry: str, grid: int, block: int, args: Any, shared: int = 0, count: int = 1) -> float:
        self.launch(entry, grid, block, args, shared)
        return 1e-6


class Held:
    """An array of :class:`ModelledGpu`."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def get(self) -> Any:
        return self.array


class ModelledGpu:
    """A GPU that executes nothing: a chain's warp needs ``latency`` cycles a copy, a sub-partition ``interval`` for each."""

    sms = 4

    def __init__(self, latency: int, interval: int) -> None:
        self.latency, self.interval = latency, interval

    def load(self, image: Path) -> None:
        pass

    def upload(self, array: Any) -> Any:
        return Held(np.array(array))

    def empty(self, nbytes: int) -> Any:
        return Held(np.zeros(nbytes, np.uint8))

    def address(self, array: Any) -> int:
        return 4096

    def forget_translations(self) -> None:
        pass

    def launch(self, entry: str, grid: int, block: int, args: Any, shared: int = 0) -> None:
        kind, copies = entry.split("_")
        turns = int(args[2]) * int(copies)
        busy = turns * -(-block // 128) * self.interval
        waits = turns * self.latency // (1 if kind == "latency" else 4)
        clocks = args[0].array
        clocks[:, 0] = 1000 + np.arange(len(clocks))
        clocks[:, 1] = 1000 + 77 + 9 * int(args[2]) + max(busy, waits)

    def seconds(self, entry: str, grid: int, block: int, args: Any, shared: int = 0, count: int = 1) -> float:
        return 1e-6 * count


@pytest.fixture
def loaded(tmp_path: Path) -> Any:
    """Puts a benchmark's PTX onto a simulated GPU."""

    def load(name: str) -> tuple[SimulatedGpu, Benchmark]:
        (benchmark,) = select([name])
        image = tmp_path / "kernel.ptx"
        image.write_text(benchmark.ptx)
        gpu = SimulatedGpu()
        gpu.load(image)
        return gpu, benchmark

    return load


# ------------------------------------------------------------------------------------------------------------ without a GPU


def test_import_needs_no_gpu_and_running_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert main(["bench", "--out", str(tmp_path / "x.toml")]) == 2
    assert "pip install cupy-cuda13x" in capsys.readouterr().err
    assert main(["bench", "--only", "nix", "--out", "x"]) == 2
    assert "no family of benchmarks is called 'nix'" in capsys.readouterr().err
    assert main(["bench"]) == 2
    assert "--out" in capsys.readouterr().err


def test_package_runs_without_the_simulator() -> None:
    """The machine with the GPU need have nothing but NumPy and CuPy."""
    program = (
        "import sys\n"
        "sys.modules['gpu_ref'] = type(sys)('gpu_ref'); sys.modules['gpu_ref'].__path__ = ['gpu_ref']\n"
        "import gpu_ref.bench.command\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('tcsim', 'msgspec', 'numba', 'cupy')])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert answer.stdout.strip() == "[]"


def test_every_family_has_benchmarks_with_names_of_their_own() -> None:
    everything = select([])
    assert len({b.key for b in everything}) == len(everything) > 400
    assert {b.family for b in everything} == set(FAMILIES)
    for benchmark in everything:
        entries = re.findall(r"\.entry (\w+)\(", benchmark.ptx)
        assert len(set(entries)) == len(entries) > 0
        assert all(c.entry in entries and c.count > 0 for c in benchmark.checks)


# ------------------------------------------------------------------------------------------------------------ machine code

LISTING = """
\t.section\t.text.k,"ax",@progbits
.text.k:
        /*0000*/                   CS2R R2, SR_CLOCKLO ;
.L_x_1:
        /*0010*/                   FFMA R4, R4, R6, R8 ;
        /*0020*/                   FFMA R5, R4.reuse, R6, R10 ;
        /*0030*/                   NOP ;
        /*0040*/                   UIADD3 UR4, UR4, -0x1, URZ ;
        /*0050*/               @P0 BRA `(.L_x_1) ;
        /*0060*/                   CS2R R4, SR_CLOCKLO ;
        /*0070*/               @P1 BRA `(.L_x_2) ;
        /*0080*/                   FADD R4, R4, R5 ;
.L_x_2:
        /*0090*/                   EXIT ;
"""


def test_loop_is_found_and_counted() -> None:
    listings = read_listing(LISTING)
    loop = timed_loop(listings["k"])
    assert [i.opcode for i in loop] == ["FFMA", "FFMA", "NOP", "UIADD3", "BRA"]
    assert (loop[-1].guard, loop[1].address) == ("@P0", 0x20)
    assert check(listings, Check("k", "FFMA", 2, 2)) is None
    assert check(listings, Check("k", "FFMA", 2, 1)) is not None
    wrong = check(listings, Check("k", "FADD", 2))
    assert wrong is not None and "0 of 2" in wrong and "2 FFMA" in wrong
    assert check(listings, Check("other", "FADD", 2)) == "other: no such kernel in the machine code"


def test_register_ports() -> None:
    def cycles(*operands: str) -> float:
        lines = "".join(f"        /*{16 * i:04x}*/  FFMA {text} ;\n" for i, text in enumerate(operands))
        text = f"\t.section\t.text.k\n.L_x_0:\n{lines}        /*1000*/  @P0 BRA `(.L_x_0) ;\n"
        return port_cycles(timed_loop(read_listing(text)["k"])[:-1])

    assert cycles("R6, R6, R8, R9", "R6, R6, R8, R9") == 2.0  # measured 2.00: two of three registers in one bank
    assert cycles("R25, R8, R17, R25", "R30, R9, R20, R30") == 1.5  # measured 1.50: banks take turns
    kept = cycles(*["R14, R9.reuse, R12.reuse, R14", "R15, R10.reuse, R11.reuse, R15"] * 20)
    assert kept == pytest.approx(0.5, abs=0.1)  # measured 1.00, the issue limit: a value for each bank and position
    assert cycles("R6, R17, R17, UR8", "R7, R19, R19, UR8") == 1.0


@pytest.mark.skipif(find_ptxas() is None or find_nvdisasm() is None, reason="needs ptxas and nvdisasm")
def test_assembled_loops_hold_what_is_meant(tmp_path: Path) -> None:
    chosen = select(["integer.iadd3", "floating.dfma", "special.mufu_ex2", "warp.shfl_bfly", "shared.ldsm_x4_interval"])
    chosen += select(["tensor.mma_m16n8k16_f32_f16_f16_f32", "wgmma.f16_n64_ss", "latency.l1", "launch.order"])
    for made in build(chosen, tmp_path, "sm_90").values():
        assert (made.error, made.doubts) == ("", []) and len(made.digest) == 16


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80"])
def test_older_targets_assemble_what_they_have(tmp_path: Path, architecture: str) -> None:
    chosen = select(["integer.lop3", "warp.shfl_bfly", "shared.lds_32_latency", "wgmma.f16_n64_ss", "bandwidth.l2_footprint"])
    made = build(chosen, tmp_path, architecture)
    assert {key[0]: built.skipped for key, built in made.items() if built.error} == {"wgmma": True}
    wrong = Benchmark("x", "y", chosen[0].ptx.replace("lop3.b32", "lop9.b32"), chosen[0].measure)
    (built,) = build([wrong], tmp_path, architecture).values()
    assert built.error and not built.skipped


# ---------------------------------------------------------------------------------------------------------------- analysis


@given(st.integers(1, 40), st.integers(1, 16))
def test_chains_recover_latency_and_interval(cycles: int, interval: int) -> None:
    op = Op("x", "add.f32 {x}, {x}, {y};", "FADD")
    outcome = measure(ModelledGpu(4 * cycles, interval), chain_benchmark("f", op), Path("unused"))
    assert isinstance(outcome, Outcome)
    assert outcome.numbers["latency"].value == pytest.approx(max(4 * cycles, interval))
    assert outcome.numbers["interval"].value == pytest.approx(max(interval, cycles / 8))
    assert LONG - SHORT == 64 and outcome.numbers["latency"].spread == 0


def test_statistics() -> None:
    assert median_spread([3, 1, 2]) == (2, 2)
    assert slope([100, 102, 101], [301, 299, 300], 10) == pytest.approx((19.9, 0.4))
    xs, ys = [1, 2, 4, 8, 16, 32, 64], [33, 33, 34, 33, 260, 262, 600]
    assert plateaus(ys, 0.06) == [(0, 3, 33), (4, 5, 261)]
    assert steps(xs, ys, 0.06) == [8, 32]


def test_lines_and_sectors_of_patterns() -> None:
    assert touched(GLOBAL["linear_4"], 4) == (4, 1)
    assert touched(GLOBAL["shifted_4"], 4) == (5, 2)
    assert touched(GLOBAL["stride_128"], 4) == (32, 32)
    assert touched(GLOBAL["stride_16"], 16) == (16, 4)
    banks = {name: max(np.bincount([a // 4 % 32 for a in set(pattern)])) for name, pattern in SHARED.items()}
    assert (banks["conflict_8"], banks["stride_33"], banks["words_4"], banks["same_bank_words_4"]) == (8, 1, 1, 4)


def test_halves_of_the_l2_are_told_apart() -> None:
    random = np.random.default_rng(3)
    sms, lines = random.integers(0, 2, 20), random.integers(0, 2, 300)
    far = sms[:, None] != lines[None, :]
    made = 260 + 150 * far + random.normal(0, 12, (20, 1)) + random.normal(0, 12, (1, 300))
    found = slices.analyse(made)
    assert float(str(found["near"])) == pytest.approx(260, abs=8) and float(str(found["far"])) == pytest.approx(410, abs=8)
    halves = np.asarray(found["sm_half"])
    assert (halves == sms).all() or (halves == 1 - sms).all()


def test_turnaround_goes_by_sm() -> None:
    marks = np.array([[100, 200, 0, 0, 5], [300, 400, 0, 0, 5], [100, 250, 0, 0, 6], [260, 300, 0, 0, 6]])
    assert sorted(launches.turnaround(marks).tolist()) == [10, 100]


@given(st.integers(2, 200), st.sampled_from([128, 4096]), st.booleans())
def test_chain_is_one_cycle(elements: int, stride: int, jitter: bool) -> None:
    position, following = latency.chain(elements, stride, stride * jitter, 7)
    after = dict(zip(position.tolist(), following.tolist(), strict=True))
    at, seen = int(position[0]), set()
    for _ in range(elements):
        seen.add(at)
        at = after[at]
    assert len(seen) == elements and at == position[0] and all(offset % 128 == 0 for offset in seen)


# ----------------------------------------------------------------------------------------------------- kernels, on tcsim


def test_pointer_chase_follows_the_chain(loaded: Any) -> None:
    gpu, _ = loaded("latency.l1")
    chaser = latency._Chaser(gpu, 1 << 16)
    chaser.chase("cg", 40, 512)
    position, following = latency.chain(40, 512, 0, 40)
    after = dict(zip(position.tolist(), following.tolist(), strict=True))
    at = int(position[0])
    for _ in range(8 * (5 + 256)):  # 5 turns before the clock and 256 after, of 8 loads
        at = after[at]
    assert int(chaser.out.get()[1]) == gpu.address(chaser.memory) + at


def test_streams_touch_every_byte_once(loaded: Any) -> None:
    gpu, _ = loaded("bandwidth.l2_write_16")
    for interleaved in (False, True):
        data = gpu.upload(np.full(1 << 16, 255, np.uint8))
        run = bandwidth._launch(gpu, "stream_u4_w2", data, 4, 64, 16, 4, 1 << 14, 2, interleaved)
        assert run.nbytes == 2 * (1 << 16)
        assert set(np.unique(data.get().view(np.uint32))) == {0, 1, 2, 3}  # CTA numbers


@pytest.mark.parametrize(
    "name",
    [
        "warp.ballot", "shared.lds_128_interval",
        "shared.ldsm_x4_latency", "shared.atoms_add_u32_latency", "coalescing.ldg_ca_16", "coalescing.redg_add_f32_all_sms",
        "constants.indexed", "control.divergence", "issue.pair_ffma_lds", "issue.ports_imad_8",
    ],
)  # fmt: skip
def test_kernels_run_without_a_fault(loaded: Any, name: str) -> None:
    """Addresses are in bounds and aligned, and all warps come to the end."""
    gpu, benchmark = loaded(name)
    outcome = benchmark.measure(gpu)
    assert outcome.numbers and all(number.unit and number.how for number in outcome.numbers.values())


# ------------------------------------------------------------------------------------------------------- files and failures


def test_files_can_be_read_again(tmp_path: Path) -> None:
    key = ("pipes", "m16n8k16.f16")
    outcome = Outcome({"latency": Number(24.0312345, "cycles", "one warp", 0.25, 5)}, {"curve": [1.23456789, float("nan")]})
    outcome.arrays["table"] = np.arange(3)
    outcome.code = 'say "fma"'
    write_toml(tmp_path / "x.toml", {"gpu": "NVIDIA H200", "failed": ["a"]}, {key: outcome}, {key: "abc"}, {key: ["odd"]})
    read = tomllib.loads((tmp_path / "x.toml").read_text())
    assert read["provenance"] == {"gpu": "NVIDIA H200", "failed": ["a"]}
    table = read["pipes"]["m16n8k16.f16"]
    assert table["latency"] == 24.0312 and table["kernel"] == "abc" and table["doubts"] == ["odd"]
    assert table["latency_source"] == "cycles; one warp; spread 0.25 over 5 runs" and table["code"] == 'say "fma"'
    write_raw(tmp_path / "x.toml", {}, {key: outcome})
    assert '"curve":[1.23457,null]' in (tmp_path / "x.json").read_text()
    assert np.load(tmp_path / "x.npz")["pipes/m16n8k16.f16/table"].tolist() == [0, 1, 2]


def test_comparison_names_disagreements(tmp_path: Path) -> None:
    measured = {"integer": {"lop3": {"latency": 4.02, "interval": 2.0}}, "floating": {"hfma2": {"latency": 5.0}}}
    rows = {row.what: row for row in compare.compare(measured, ROOT / "tcsim/arch/h200.toml")}
    assert rows["alu latency"].agrees and rows["alu interval"].agrees and not rows["half latency"].agrees
    text = compare.table(list(rows.values()))
    assert "1 of 3 disagree" in text and re.search(r"^! half latency +8 +5 ", text, re.MULTILINE)
    with pytest.raises(BenchError, match="cannot read"):
        compare.read_measured(tmp_path / "missing.toml")


def test_every_row_of_the_comparison_exists() -> None:
    names = {".".join(b.key) for b in select([])}
    asked: set[str] = set()

    def get(benchmark: str, number: str) -> float:
        asked.add(benchmark)
        return 2.0

    assert all(np.isfinite(formula(get)) for _, _, _, formula in compare.PARTS)
    assert {row[2] for row in compare.ROWS} | asked <= names


def test_recording_is_complete_and_small() -> None:
    folder = ROOT / "traces" / "bench"
    recorded = tomllib.loads((folder / "h200.toml").read_text())
    assert recorded["provenance"]["gpu"] == "NVIDIA H200" and recorded["provenance"]["assembler"].startswith("ptxas")
    assert set(FAMILIES) <= set(recorded)
    assert sum(path.stat().st_size for path in folder.glob("h200.[jn]*")) < 300 * 1024
    for family in FAMILIES:
        for table in recorded[family].values():
            numbers = {key for key, value in table.items() if isinstance(value, int | float)}
            assert numbers and all(f"{key}_source" in table for key in numbers) and "doubts" not in table


@pytest.mark.skipif(
    find_ptxas() is None or ptxas_version(find_ptxas() or Path()) != "13.0.88", reason="needs the recording's ptxas"
)
def test_recorded_code_is_what_these_kernels_become(tmp_path: Path) -> None:
    recorded = tomllib.loads((ROOT / "traces" / "bench" / "h200.toml").read_text())
    chosen = select(["integer.lop3", "special.mufu_ex2", "tensor.mma_m16n8k8_f32_f16_f16_f32", "shared.lds_32_latency"])
    for (family, name), built in build(chosen, tmp_path, "sm_90").items():
        assert built.digest == recorded[family][name]["kernel"], (family, name)


WORKER = """
import os, sys
from pathlib import Path
from gpu_ref.bench.workers import work

class Fake:
    sms = 1
    def load(self, image): self.image = str(image)
    def upload(self, array): return array
    def empty(self, nbytes):
        class A: get = lambda self: 0
        return A()
    def launch(self, entry, *args):
        if "loop" in self.image: os._exit(9)
        raise RuntimeError("illegal address")
    def seconds(self, *args, **more): return 1e-6

sys.exit(work(Fake(), Path(sys.argv[1])))
"""


def test_failures_do_not_take_the_others_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)

    def runner(benchmarks: Any, images: Any, folder: Path) -> Any:
        return isolated(benchmarks, images, folder, (sys.executable, str(script)))

    chosen = select(["control.loop", "launch.registers", "launch.order", "launch.overhead"])
    bad = Benchmark("launch", "broken", "not PTX", chosen[0].measure)
    failures = run_benchmarks([*chosen, bad], tmp_path / "out.toml", {"gpu": "none"}, runner=runner)
    said = {failure.partition(":")[0]: failure for failure in failures}
    assert "exit code 9" in said["control.loop"] and "illegal address" in said["launch.order"]
    read = tomllib.loads((tmp_path / "out.toml").read_text())
    assert read["launch"]["overhead"]["one_launch"] == 1.0 and read["launch"]["registers"]["grid_132"] > 0
    assert len(read["provenance"]["failed"]) == len(failures) == (3 if find_ptxas() else 2)
    assert "FAILED control.loop" in capsys.readouterr().out


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
def test_the_model_can_be_measured_like_a_gpu(tmp_path: Path, traces: Path) -> None:
    """Shared memory is as slow in the model as on the H200 from which its number comes."""
    out = tmp_path / "model.toml"
    assert main(["bench", "--simulate", "h200", "--only", "shared.lds_32_latency", "--out", str(out)]) == 0
    model, card = (tomllib.loads(path.read_text()) for path in (out, traces / "bench" / "h200.toml"))
    assert model["provenance"]["gpu"] == "tcsim's model of h200"
    for name, value in card["shared"]["lds_32_latency"].items():
        if isinstance(value, float):
            assert model["shared"]["lds_32_latency"][name] == pytest.approx(value, rel=0.08, abs=1.5)
