"""A profile from PTX says how far that is from one of machine code."""

from __future__ import annotations

from pathlib import Path

import tcsim
from gpu_ref.correlation import stand_in as measuring
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.timing.stand_in import stand_in

TRACES = Path(__file__).parents[1] / "traces"


def test_a_profile_of_ptx_tells_its_error() -> None:
    launch = prepare(str(TRACES / "vector_add_bits"), LaunchOptions())
    with launch.device, tcsim.Profiler(code="ptx") as profiler:
        launch.run()
    (profile,) = profiler.launches
    assert str(stand_in()) in profile.notes
    assert "from those predicted from machine code on average" in str(stand_in())
    with launch.device, tcsim.Profiler() as profiler:
        launch.run()
    assert str(stand_in()) not in profiler.launches[0].notes


def test_the_error_is_measured_from_bundles(tmp_path: Path) -> None:
    """Written as it is read; the launch here is one of those that the kept file tells of."""
    with tcsim.Device("h200"):
        measuring.write(TRACES, tmp_path / "stand_in.toml", ["vector_add_bits"])
    text = (tmp_path / "stand_in.toml").read_text()
    assert "launches = 1\n" in text
    assert 'worst_launch = "vector_add_bits"' in text
    mean = float(text.partition("mean = ")[2].split()[0])
    assert 0 < mean < stand_in().worst
