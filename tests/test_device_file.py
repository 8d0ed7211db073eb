"""``python -m gpu_ref bench --device-file``: a GPU described by what was measured on it, and ``--device FILE.toml``."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

import tcsim
from gpu_ref.__main__ import main
from gpu_ref.bench.compare import read_measured
from gpu_ref.bench.device_file import device_file, write_device_file
from gpu_ref.bench.gpu import BenchError
from tcsim.arch import find_arch, find_timing
from tcsim.errors import DeviceError

MEASURED = Path(__file__).parents[1] / "traces" / "bench" / "h200.toml"
LIMITS = {"sms": 144, "max_threads_per_sm": 1536, "max_ctas_per_sm": 24, "max_threads_per_cta": 1024, "shared_per_cta": 49152}
MORE = {"shared_per_sm": 102400, "registers_per_sm": 65536, "shared_per_cta_opt_in": 101376, "shared_reserved_per_cta": 1024}
CLOCKS = {"max_sm_khz": 2_500_000, "memory_khz": 9_000_000, "memory_bus_bits": 384, "l2_bytes": 1 << 26}
MEMORY = {"memory_bytes": 1 << 34}


def test_what_was_measured_on_an_h200_gives_an_h200(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    assert main(["bench", "--measured", str(MEASURED), "--device-file", str(path)]) == 0
    assert f"--device {path}" in capsys.readouterr().out
    made, known = find_arch(str(path)), find_arch("h200")
    assert made.name == "h200-measured" and made.full_name == "NVIDIA H200" and made.limits.sms == 132
    timing, tables = find_timing(made), find_timing(known)
    assert timing.chip.name == "h200"
    new, old = ({each.opcodes[0]: each for each in chip.machine} for chip in (timing.chip, tables.chip))
    for name in ("@alu", "@xu", "HMMA.16816", "DMMA.16x8x16", "HGMMA.64x256x16", "MEMBAR"):
        assert (new[name].latency, new[name].interval) == (old[name].latency, old[name].interval)
        assert "measured, NVIDIA H200" in new[name].source
    assert timing.chip.shared_memory.barrier_release == tables.chip.shared_memory.barrier_release
    assert timing.dram.latency_ns == pytest.approx(tables.dram.latency_ns, rel=0.02)
    assert timing.chip.translation.source.startswith("copied from gh100: ")
    text = path.read_text()
    assert "#   machine.HMMA.16816.interval = 6 (was 6; tensor.mma_m16n8k16_f32_f16_f16_f32)" in text
    assert "#   translation: first_touch_ns" in text


def test_a_kernel_is_timed_with_the_file(tmp_path: Path, traces: Path) -> None:
    path = tmp_path / "slow.toml"
    write_device_file(MEASURED, path)
    slow = path.read_text().replace("overhead_ns = 1500.0", "overhead_ns = 15000.0")
    path.write_text(slow)
    cycles = []
    for device in ("h200", str(path)):
        with tcsim.Device(device), tcsim.Profiler() as profiler:
            module = tcsim.RawModule(path=traces / "kernels" / "vector_add.ptx")
            x = tcsim.zeros(32, "f4")
            module.get_function("vector_add")((1,), (32,), (x, x, x, np.int32(32)))
        cycles.append(profiler.launches[-1].cycles)
    assert cycles[1] - cycles[0] == pytest.approx(13.5e-6 * 1.98e9, rel=0.05)


def test_limits_are_those_of_the_driver() -> None:
    measured = read_measured(MEASURED)
    said = {f"attribute_{name}": value for name, value in (LIMITS | MORE | CLOCKS | MEMORY).items()}
    measured["provenance"] |= {"gpu": "NVIDIA New 5000", "compute_capability": "8.9", **said}
    table, head = device_file(measured)
    assert table["name"] == "new-5000-measured" and table["sm"] == 89
    assert table["limits"]["sms"] == 144 and table["limits"]["max_warps_per_sm"] == 48 and "gpcs" not in table["limits"]
    assert table["timing"]["clocks"]["sm_hz"] == 2_500_000_000 and table["memory"]["bytes"] == 1 << 34
    assert table["timing"]["dram"]["peak_bytes_per_second"] == 9e9 * 2 * 48
    assert any("may be wrong for this GPU" in line for line in head)
    msgspec.convert(table, tcsim.arch.Arch)


def test_what_a_device_file_lacks_is_told(tmp_path: Path) -> None:
    measured = read_measured(MEASURED)
    measured["provenance"]["gpu"] = "NVIDIA New 5000"
    with pytest.raises(BenchError, match="no limits of the GPU"):
        device_file(measured)
    measured["provenance"].pop("compute_capability")
    with pytest.raises(BenchError, match="compute capability"):
        device_file(measured)
    with pytest.raises(DeviceError, match="cannot read the device file"):
        tcsim.Device(str(tmp_path / "gone.toml"))
    copy = tmp_path / "copy.toml"
    copy.write_text((Path(tcsim.arch.__file__).parent / "t4.toml").read_text())
    with pytest.raises(DeviceError, match="name = 't4' is that of a GPU that tcsim brings"):
        tcsim.Device(str(copy))
