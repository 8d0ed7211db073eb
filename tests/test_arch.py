"""The tables of GPUs: complete, sourced, and strict about what they take."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tcsim.arch
from tcsim.arch import arch_names, find_arch, find_timing, load_arch, load_chip
from tcsim.errors import DeviceError

FOLDER = Path(tcsim.arch.__file__).parent
BOARDS = sorted(FOLDER.glob("*.toml"))
CHIPS = sorted((FOLDER / "chips").glob("*.toml"))


def tables(value: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table of a TOML file that holds a number."""
    if isinstance(value, dict):
        if any(
            isinstance(item, int | float) and not isinstance(item, bool) for key, item in value.items() if key != "sm"
        ):
            yield name, value
        for key, item in value.items():
            yield from tables(item, f"{name}.{key}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from tables(item, f"{name}[{position}]")


@pytest.mark.parametrize("path", [*BOARDS, *CHIPS], ids=lambda path: path.stem)
def test_every_table_of_numbers_names_its_source(path: Path) -> None:
    found = list(tables(tomllib.loads(path.read_text())))
    assert found
    for name, table in found:
        assert len(table.get("source", "")) > 5, f"{path.name}{name}"


@pytest.mark.parametrize("path", [*BOARDS, *CHIPS], ids=lambda path: path.stem)
def test_files_are_named_after_what_they_describe(path: Path) -> None:
    loaded = load_chip(path) if path.parent.name == "chips" else load_arch(path)
    assert loaded.name == path.stem


def test_names_and_aliases_lead_to_one_description() -> None:
    assert find_arch("H200") is find_arch("hopper") is find_arch("sm_90") is find_arch("sm_90a")
    assert find_arch("sm_80").name == "a100"
    assert arch_names()[0] == "v100"
    with pytest.raises(DeviceError, match=r"unknown device 'h2000'; known: v100.*h200"):
        find_arch("h2000")


def test_timing_joins_board_and_chip() -> None:
    h200, h100, a100 = (find_timing(find_arch(name)) for name in ("h200", "h100", "a100"))
    assert h200.chip is h100.chip and h200.chip.name == "gh100" and a100.chip.name == "ga100"
    assert h200.dram.bytes_per_second > h100.dram.bytes_per_second > a100.dram.bytes_per_second
    assert all(timing.dram.bytes_per_second < timing.dram.peak_bytes_per_second for timing in (h200, h100, a100))


def test_numbers_measured_on_an_h200_are_in_its_table() -> None:
    operations = {name: op for op in find_timing(find_arch("h200")).chip.operations for name in op.classes}
    assert [
        (operations[name].latency, operations[name].interval) for name in ("fma", "imad", "alu", "fp64", "mufu", "popc")
    ] == [
        (4, 1),
        (4, 2),
        (4, 2),
        (8, 2),
        (17, 8),
        (17, 8),
    ]
    mma = {
        "mma.m16n8k16.f16": (24, 6),
        "mma.m16n8k8.f16": (17, 4),
        "mma.m8n8k4.f64": (26, 16),
        "mma.m16n8k16.f64": (82, 64),
    }
    assert {name: (operations[name].latency, operations[name].interval) for name in mma} == mma


@pytest.mark.parametrize("name", [name for name in arch_names() if find_arch(name).timing is None])
def test_devices_without_timing_tables_say_which_have_them(name: str) -> None:
    with pytest.raises(DeviceError, match=f"{name} has no timing tables.*a100, h100, h200"):
        find_timing(find_arch(name))


def edited(path: Path, tmp_path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    copy = tmp_path / path.name
    copy.write_text(text.replace(old, new, 1))
    return copy


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("sms = 132", "sms = 132\nsmss = 3", "smss"),
        ("sms = 132", "", "sms"),
        ("sms = 132", 'sms = "many"', "sms"),
        ("channels = 48", "channels = 48\nbanks = 16", "banks"),
        ("[timing.clocks]", "[timing.clock]", "clock"),
    ],
)
def test_a_board_with_a_wrong_key_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(DeviceError, match=complaint):
        load_arch(edited(FOLDER / "h200.toml", tmp_path, old, new))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[lsu]", "[lsv]", "lsv"),
        ("address_interval = 4", "address_interval = 4\nports = 2", "ports"),
        ('order = "oldest_cta"', 'order = "random"', "random"),
        ('throttle = "math_pipe_throttle"', 'throttle = "tired"', "tired"),
        ("interval = 2", "intervall = 2", "intervall"),
    ],
)
def test_a_chip_with_a_wrong_key_is_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    with pytest.raises(DeviceError, match=complaint):
        load_chip(edited(FOLDER / "chips" / "gh100.toml", tmp_path, old, new))
