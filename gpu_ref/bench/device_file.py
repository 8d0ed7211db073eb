"""A device file from measured numbers: what ``tcsim profile --device FILE.toml`` takes.

The file is complete: limits as the driver states them, clocks and memory, and all tables of the die. What the benchmarks
measure replaces the numbers of the die that tcsim knows and that is nearest in compute capability; everything else is copied
from there and says so. The head of the file lists both.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gpu_ref.device import ATTRIBUTES
from tcsim.arch import Arch, Chip, arch_names, find_arch, find_timing, load_arch

from .compare import PARTS, ROWS, read_measured
from .gpu import BenchError
from .results import toml_value

__all__ = ["device_file", "write_device_file"]

Table = dict[str, Any]

DRAM_SHARE = 142.0 / 195.2
"""Of what a chase through memory takes beyond the L2 (``latency.dram``), the part that one cold miss takes: 142 ns of 195 on
an H200, where both were measured (docs/microbenchmarks.md)."""


def _barrier(get: Callable[[str, str], float]) -> float:
    """Cycles that each warp adds to a round of the CTA's barrier."""
    return (get("barriers.bar_sync", "warps_32") - get("barriers.bar_sync", "warps_1")) / 31


MACHINE: tuple[tuple[str, str, str, str], ...] = (
    ("@alu", "interval", "integer.lop3", "interval"),
    ("CS2R", "interval", "integer.cs2r_clock64", "interval"),
    ("@fma", "interval", "integer.imad", "interval"),
    ("IMAD.WIDE", "interval", "integer.imad_wide", "interval"),
    ("@fp64", "interval", "floating.dfma", "interval"),
    ("@fp64", "latency", "floating.dfma", "latency"),
    ("@xu", "interval", "special.mufu_ex2", "interval"),
    ("@xu", "latency", "special.mufu_ex2", "latency"),
    ("@uniform", "interval", "issue.uniform_iadd3", "interval"),
    ("SHFL", "latency", "warp.shfl_bfly", "latency"),
    ("MOVM", "latency", "warp.movmatrix", "latency"),
    ("HMMA.16816", "latency", "tensor.mma_m16n8k16_f32_f16_f16_f32", "latency"),
    ("HMMA.16816", "interval", "tensor.mma_m16n8k16_f32_f16_f16_f32", "interval"),
    ("HMMA.1688", "latency", "tensor.mma_m16n8k8_f32_f16_f16_f32", "latency"),
    ("HMMA.1688", "interval", "tensor.mma_m16n8k8_f32_f16_f16_f32", "interval"),
    ("HMMA.SP.16832", "latency", "tensor.mma_sp_m16n8k32_f32_f16_f16_f32", "latency"),
    ("HMMA.SP.16832", "interval", "tensor.mma_sp_m16n8k32_f32_f16_f16_f32", "interval"),
    ("HMMA.SP.16816", "latency", "tensor.mma_sp_m16n8k16_f32_f16_f16_f32", "latency"),
    ("HMMA.SP.16816", "interval", "tensor.mma_sp_m16n8k16_f32_f16_f16_f32", "interval"),
    ("DMMA.8x8x4", "latency", "tensor.mma_m8n8k4_f64_f64_f64_f64", "latency"),
    ("DMMA.8x8x4", "interval", "tensor.mma_m8n8k4_f64_f64_f64_f64", "interval"),
    ("DMMA.16x8x4", "latency", "tensor.mma_m16n8k4_f64_f64_f64_f64", "latency"),
    ("DMMA.16x8x8", "latency", "tensor.mma_m16n8k8_f64_f64_f64_f64", "latency"),
    ("DMMA.16x8x16", "latency", "tensor.mma_m16n8k16_f64_f64_f64_f64", "latency"),
    *((f"HGMMA.64x{n}x16", "interval", f"wgmma.f16_n{n}_ss", "interval") for n in (8, 16, 32, 64, 96, 128, 192, 256)),
    ("MEMBAR", "latency", "barriers.membar_gl", "warps_1"),
    ("MEMBAR.CTA", "latency", "barriers.membar_cta", "warps_1"),
    ("MEMBAR.SYS", "latency", "barriers.membar_sys", "warps_1"),
)
"""Of machine code: an opcode of the entry, its field, and the benchmark and number that measure it."""

NOT_ALONE = {("shared_memory", "barrier_release"), ("lsu", "address_interval")}
"""Parts of :data:`.compare.PARTS` that hold something else as well: a round of the barrier has the arrival in it, a shuffle
takes half the address stage of an access."""

MORE_PARTS: tuple[tuple[str, str, Callable[[Callable[[str, str], float]], float]], ...] = (
    ("shared_memory", "barrier_interval", lambda get: _barrier(get)),
    ("shared_memory", "barrier_release", lambda get: get("barriers.bar_sync", "warps_1") - _barrier(get)),
    ("lsu", "address_interval", lambda get: 2 * get("warp.shfl_bfly", "interval_alone")),
    ("launch", "sm_interval", lambda get: get("launch.dispatch", "sm_interval_32") - 1),
    ("launch", "warp_interval", lambda get: get("launch.dispatch", "sm_interval_1024") / 32),
)
"""Parts of the die that :data:`.compare.PARTS` leaves out: table, key, how the measured numbers give it."""


@dataclass
class _Notes:
    """What was measured (``PATH: old -> new``) and what was copied (``PATH``)."""

    measured: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)


def device_file(measured: Table) -> tuple[Table, list[str]]:
    """The device as a table to be written, and the comment lines in front of it. ``measured``: what ``gpu_ref bench`` wrote.

    Raises :class:`.BenchError` if it does not say enough of the GPU.
    """
    about = measured.get("provenance", {})
    product, date = str(about.get("gpu", "unknown GPU")), str(about.get("date", "unknown date"))
    capability = str(about.get("compute_capability", ""))
    if not re.fullmatch(r"\d+\.\d", capability):
        raise BenchError(f"the measured file does not state the GPU's compute capability (found {capability!r})")
    nearest = _nearest(product, int(capability.replace(".", "")))
    chip: Table = msgspec.to_builtins(find_timing(nearest).chip)
    chip = msgspec.json.decode(msgspec.json.encode(chip))  # lists to write into
    notes = _Notes()
    where = f"{product}, {date}"
    _measure_chip(chip, measured, where, notes)
    chip["name"] = _slug(product)
    board = _board(nearest, measured, where, notes)
    board["timing"]["chip"] = chip["name"]
    table = {
        "name": f"{_slug(product)}-measured",
        "full_name": product,
        "aliases": [],
        "sm": int(capability.replace(".", "")),
        **board,
        "chip": chip,
    }
    return table, _head(product, date, find_timing(nearest).chip, notes)


def write_device_file(measured: Path, out: Path) -> Arch:
    """Write the device file of a file of measured numbers; returns the device as it reads. Raises :class:`.BenchError`."""
    table, head = device_file(read_measured(measured))
    lines = [*(f"# {line}".rstrip() for line in head), ""]
    _write(table, "", lines)
    out.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return load_arch(out)


def _slug(product: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", product.lower().removeprefix("nvidia").strip()).strip("-") or "gpu"


def _nearest(product: str, sm: int) -> Arch:
    """The GPU with timing tables that has this name, else the one nearest in compute capability."""
    timed = [arch for arch in map(find_arch, arch_names()) if arch.timing is not None]
    return min(timed, key=lambda arch: (arch.full_name != product, abs(arch.sm - sm), arch.name))


def _getter(measured: Table) -> Callable[[str, str], float]:
    def get(benchmark: str, number: str) -> float:
        family, _, name = benchmark.partition(".")
        value = measured.get(family, {}).get(name, {}).get(number)
        if not isinstance(value, int | float):
            raise KeyError(benchmark)
        return float(value)

    return get


def _measure_chip(chip: Table, measured: Table, where: str, notes: _Notes) -> None:
    """Put what was measured into the die's tables and note, table by table, what was not."""
    get = _getter(measured)
    changed: dict[str, dict[str, str]] = {}

    def put(path: str, into: Table, key: str, value: float, benchmark: str) -> None:
        old = into.get(key, 0)
        into[key] = max(1, round(value)) if isinstance(old, int) else float(f"{value:.4g}")
        changed.setdefault(path, {})[key] = benchmark
        notes.measured.append(f"{path}.{key} = {into[key]} (was {old}; {benchmark})")

    by_class = {name: each for each in chip["operations"] for name in each["classes"]}
    done: set[tuple[int, str]] = set()
    for kind, key, benchmark, number in ROWS:
        entry = by_class.get(kind)
        if entry is None or entry.get("made_of") or (id(entry), key) in done:
            continue
        try:
            put(f"operations.{entry['classes'][0]}", entry, key, get(benchmark, number), benchmark)
            done.add((id(entry), key))
        except KeyError:
            continue
    by_opcode = {name: each for each in chip["machine"] for name in each["opcodes"]}
    for opcode, key, benchmark, number in MACHINE:
        entry = by_opcode.get(opcode)
        try:
            if entry is not None:
                put(f"machine.{entry['opcodes'][0]}", entry, key, get(benchmark, number), benchmark)
        except KeyError:
            continue
    parts = [*((part, key, formula) for part, key, _, formula in PARTS if (part, key) not in NOT_ALONE), *MORE_PARTS]
    for part, key, formula in parts:
        try:
            if isinstance(chip.get(part), dict) and key in chip[part]:
                put(part, chip[part], key, formula(get), "docs/microbenchmarks.md")
        except KeyError:
            continue
    copied: dict[str, list[str]] = {}
    for path, entry in _tables(chip):
        keys = changed.get(path, {})
        left = [key for key in entry if key not in keys and key not in _WORDS]
        if keys:
            entry["source"] = _source(keys, f"measured, {where}", chip["name"], entry["source"])
        else:
            entry["source"] = f"copied from {chip['name']}: {entry['source']}"
        group, _, name = path.partition(".")
        if group in ("operations", "machine"):  # what they are for is the same everywhere; how long they take is not
            for key in sorted({"latency", "interval"} & set(left)):
                copied.setdefault(f"{group}.*.{key}", []).append(name)
        elif left:
            copied.setdefault(path, []).extend(left)
    notes.copied += [f"{path}: {', '.join(names)}" for path, names in sorted(copied.items())]


_WORDS = ("source", "classes", "opcodes", "pipe", "scoreboard", "throttle", "metric", "pause", "made_of", "other")
"""Keys that say what an entry is for, not how long something takes."""


def _tables(chip: Table) -> list[tuple[str, Table]]:
    """Every table of a die that has a source, with its path."""
    found = [(key, value) for key, value in chip.items() if isinstance(value, dict) and "source" in value]
    found += [(f"pipes.{name}", pipe) for name, pipe in chip["pipes"].items()]
    found += [(f"operations.{each['classes'][0]}", each) for each in chip["operations"]]
    return found + [(f"machine.{each['opcodes'][0]}", each) for each in chip["machine"]]


def _board(nearest: Arch, measured: Table, where: str, notes: _Notes) -> Table:
    """Limits, memory and clocks: the driver's, the measured bandwidth, and what is left from the nearest board."""
    about = measured["provenance"]
    said = {key: int(about[f"attribute_{key}"]) for key in (*ATTRIBUTES, "memory_bytes") if f"attribute_{key}" in about}
    base: Table = msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(nearest)))
    limits, timing = base["limits"], base["timing"]
    if not said and nearest.full_name != about.get("gpu"):
        raise BenchError("the measured file has no limits of the GPU (attribute_*); measure again with this version")
    names = {key: key for key in limits if key in said} | ({"max_warps_per_sm": "max_threads_per_sm"} if said else {})
    for key, name in names.items():
        limits[key] = said[name] // 32 if key == "max_warps_per_sm" else said[name]
    if said and said["sms"] != nearest.limits.sms:
        for key in ("gpcs", "halves", "units", "clusters"):
            limits.pop(key, None)
    driver = f"the driver, {where}"
    limits["source"] = _source(names, driver, nearest.name, limits["source"])
    notes.copied.append(f"limits: {', '.join(key for key in limits if key not in names and key != 'source')}")
    if said:
        base["memory"] = {"bytes": said["memory_bytes"], "source": driver}
        timing["l2"] = {"bytes": said["l2_bytes"], "source": driver}
        if said["max_sm_khz"]:
            timing["clocks"]["sm_hz"] = said["max_sm_khz"] * 1000
            timing["clocks"]["source"] = _source(["sm_hz"], driver, nearest.name, timing["clocks"]["source"])
    get = _getter(measured)
    dram = timing["dram"]
    keys = []
    for part, key, _, formula in PARTS:
        try:
            if part == "dram":
                value = formula(get)
                if key == "latency_ns":
                    dram["far_latency_ns"] = float(f"{value * DRAM_SHARE * dram['far_latency_ns'] / dram['latency_ns']:.4g}")
                    value *= DRAM_SHARE
                old, dram[key] = dram[key], float(f"{value:.4g}")
                keys.append(key)
                notes.measured.append(f"timing.dram.{key} = {dram[key]} (was {old}; docs/microbenchmarks.md)")
        except KeyError:
            continue
    if said and said["memory_khz"] and said["memory_bus_bits"]:
        dram["peak_bytes_per_second"] = said["memory_khz"] * 1e3 * 2 * said["memory_bus_bits"] / 8
        keys.append("peak_bytes_per_second (twice the memory clock on every line of the bus)")
    dram["source"] = _source(keys, f"measured, {where}", nearest.name, dram["source"])
    left = [key for key in dram if key != "source" and not any(done.startswith(key) for done in keys)]
    notes.copied.append(f"timing.dram: {', '.join(left)}")
    clocks = [key for key in timing["clocks"] if key != "source" and (key != "sm_hz" or not said)]
    notes.copied.append(f"timing.clocks: {', '.join(clocks)}")
    return {"limits": limits, "memory": base["memory"], "timing": timing}


def _source(keys: Iterable[str], whence: str, base: str, old: str) -> str:
    """Where a table's numbers come from: ``keys`` from ``whence``, the rest as in ``base``, whose source was ``old``."""
    named = ", ".join(keys)
    return f"{named}: {whence}; others as in {base}: {old}" if named else f"as in {base}: {old}"


def _head(product: str, date: str, chip: Chip, notes: _Notes) -> list[str]:
    lines = [
        f"{product} as `python -m gpu_ref bench` measured it on {date}. tcsim/arch/timing_spec.py says what each key means.",
        f"Numbers that no benchmark gives are those of {chip.name}, and may be wrong for this GPU.",
        "",
        f"Measured ({len(notes.measured)}):",
        *(f"  {line}" for line in notes.measured),
        "",
        f"Copied from {chip.name}, by table:",
        *(part for line in notes.copied for part in textwrap.wrap(line, 120, initial_indent="  ", subsequent_indent="    ")),
    ]
    return lines


def _write(table: Mapping[str, Any], path: str, lines: list[str]) -> None:
    """TOML: a table's values, then the tables in it."""

    def tables(value: object) -> bool:
        return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)

    plain = {key: value for key, value in table.items() if not isinstance(value, dict) and not tables(value)}
    lines += [f"{key} = {toml_value(value)}" for key, value in plain.items() if value is not None]
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            lines += ["", f"[{inner}]"]
            _write(value, inner, lines)
        elif tables(value):
            for each in value:
                lines += ["", f"[[{inner}]]"]
                _write(each, inner, lines)
