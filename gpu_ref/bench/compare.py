"""Measured numbers beside those of the timing tables in use (``tcsim/arch``)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .gpu import BenchError

__all__ = ["ROWS", "Row", "compare", "read_measured", "table"]

Measured = dict[str, Any]
TOLERANCE = 0.08


@dataclass(frozen=True)
class Row:
    """One line: what, its value in the file (None: not there), the measured one, and whether they agree."""

    what: str
    in_file: float | None
    measured: float
    unit: str

    @property
    def agrees(self) -> bool:
        return self.in_file is not None and abs(self.in_file - self.measured) <= max(TOLERANCE * abs(self.measured), 0.3)


# Timing class of the file, its field, and the benchmark and number that measure it.
ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("alu", "latency", "integer.lop3", "latency"),
    ("alu", "interval", "integer.lop3", "interval"),
    ("imad", "latency", "integer.imad", "latency"),
    ("imad", "interval", "integer.imad", "interval"),
    ("imad.wide", "interval", "integer.imad_wide", "interval"),
    ("popc", "latency", "integer.popc", "latency"),
    ("popc", "interval", "integer.popc", "interval"),
    ("fma", "latency", "floating.ffma", "latency"),
    ("fma", "interval", "floating.ffma", "interval"),
    ("half", "latency", "floating.hfma2", "latency"),
    ("half", "interval", "floating.hfma2", "interval"),
    ("fp64", "latency", "floating.dfma", "latency"),
    ("fp64", "interval", "floating.dfma", "interval"),
    ("mufu", "latency", "special.mufu_ex2", "latency"),
    ("mufu", "interval", "special.mufu_ex2", "interval"),
    ("convert", "latency", "special.f2i_s32", "latency"),
    ("convert", "interval", "special.f2i_s32", "interval"),
    ("convert.64", "interval", "special.f2f_f64_f32", "interval"),
    ("convert.pack", "latency", "special.f2fp_f16x2", "latency"),
    ("convert.pack", "interval", "special.f2fp_f16x2", "interval"),
    ("convert.i2f", "latency", "special.i2f_s32", "latency"),
    ("convert.i2f", "interval", "special.i2f_s32", "interval"),
    ("imad.hi", "latency", "integer.imad_hi", "latency"),
    ("imad.hi", "interval", "integer.imad_hi", "interval"),
    ("div.u32", "latency", "integer.div_u32", "latency"),
    ("div.s32", "latency", "integer.div_s32", "latency"),
    ("div.u64", "latency", "integer.div_u64", "latency"),
    ("div.rn.f32", "latency", "floating.div_rn_f32", "latency"),
    ("sqrt.rn.f32", "latency", "floating.sqrt_rn_f32", "latency"),
    ("div.rn.f64", "latency", "floating.div_rn_f64", "latency"),
    ("clock", "interval", "integer.cs2r_clock64", "interval"),
    ("shfl", "latency", "warp.shfl_bfly", "latency"),
    ("mma.m16n8k16.f16", "latency", "tensor.mma_m16n8k16_f32_f16_f16_f32", "latency"),
    ("mma.m16n8k16.f16", "interval", "tensor.mma_m16n8k16_f32_f16_f16_f32", "interval"),
    ("mma.m16n8k8.f16", "latency", "tensor.mma_m16n8k8_f32_f16_f16_f32", "latency"),
    ("mma.m16n8k8.f16", "interval", "tensor.mma_m16n8k8_f32_f16_f16_f32", "interval"),
    ("mma.m16n8k8.tf32", "interval", "tensor.mma_m16n8k8_f32_tf32_tf32_f32", "interval"),
    ("mma.m16n8k4.tf32", "interval", "tensor.mma_m16n8k4_f32_tf32_tf32_f32", "interval"),
    ("mma.m16n8k32.s8", "interval", "tensor.mma_m16n8k32_s32_s8_s8_s32", "interval"),
    ("mma.m16n8k16.s8", "interval", "tensor.mma_m16n8k16_s32_s8_s8_s32", "interval"),
    ("mma.m8n8k16.s8", "latency", "tensor.mma_m8n8k16_s32_s8_s8_s32", "latency"),
    ("mma.m8n8k16.s8", "interval", "tensor.mma_m8n8k16_s32_s8_s8_s32", "interval"),
    ("mma.m16n8k32.e4m3", "latency", "tensor.mma_m16n8k32_f32_e4m3_e4m3_f32", "latency_to_a"),
    ("mma.m16n8k64.s4", "latency", "tensor.mma_m16n8k64_s32_s4_s4_s32", "latency"),
    ("mma.m16n8k64.u4", "latency", "tensor.mma_m16n8k64_s32_u4_u4_s32", "latency"),
    ("mma.m8n8k4.f16", "latency", "tensor.mma_m8n8k4_f32_f16_f16_f32", "latency"),
    ("mma.m16n8k256.b1", "interval", "tensor.mma_m16n8k256_s32_b1_b1_s32_and", "interval"),
    ("mma.m8n8k4.f64", "latency", "tensor.mma_m8n8k4_f64_f64_f64_f64", "latency"),
    ("mma.m8n8k4.f64", "interval", "tensor.mma_m8n8k4_f64_f64_f64_f64", "interval"),
    ("mma.m16n8k4.f64", "interval", "tensor.mma_m16n8k4_f64_f64_f64_f64", "interval"),
    ("mma.m16n8k4.f64", "latency", "tensor.mma_m16n8k4_f64_f64_f64_f64", "latency"),
    ("mma.m16n8k8.f64", "latency", "tensor.mma_m16n8k8_f64_f64_f64_f64", "latency"),
    ("mma.m16n8k8.f64", "interval", "tensor.mma_m16n8k8_f64_f64_f64_f64", "interval"),
    ("mma.m16n8k16.f64", "latency", "tensor.mma_m16n8k16_f64_f64_f64_f64", "latency"),
    ("mma.m16n8k16.f64", "interval", "tensor.mma_m16n8k16_f64_f64_f64_f64", "interval"),
)

_Get = Callable[[str, str], float]


def _clock(get: _Get) -> float:
    """SM cycles per ns."""
    return get("bandwidth.dram_read_cg_16", "sm_clock")


def _dispatch(get: _Get) -> float:
    more = get("launch.overhead", "empty_135168x128") - get("launch.overhead", "empty_33792x128")
    return more * 1e3 * _clock(get) / (135168 - 33792)


# Other values of the chip's file and of the board's: table, key, unit, how the measured numbers give it.
PARTS: tuple[tuple[str, str, str, Callable[[_Get], float]], ...] = (
    ("shared_memory", "latency", "cycles", lambda get: get("shared.lds_32_latency", "latency_linear")),
    (
        "shared_memory",
        "wavefront_latency",
        "cycles",
        lambda get: (get("shared.lds_32_latency", "latency_conflict_32") - get("shared.lds_32_latency", "latency_linear")) / 31,
    ),
    (
        "shared_memory",
        "atomic_latency",
        "cycles beyond a load, both with an addition, and 4 for a LOP3",
        lambda get: get("shared.atoms_add_u32_latency", "latency_linear") - get("shared.lds_add_latency", "latency_linear") - 4,
    ),
    ("shared_memory", "barrier_release", "cycles, a round of one warp", lambda get: get("barriers.bar_sync", "warps_1")),
    ("lsu", "address_interval", "cycles, SHFL", lambda get: get("warp.shfl_bfly", "interval_alone")),
    ("l1", "latency", "cycles", lambda get: get("latency.l1", "plateau_1024")),
    ("l1", "line_tags", "cycles per line", lambda get: get("coalescing.ldg_ca_4", "spread_32") / 32),
    (
        "l2",
        "hit_ns",
        "ns beyond the L1, mean of both halves",
        lambda get: (get("latency.l2", "plateau_262144") - get("latency.l1", "plateau_1024")) / _clock(get),
    ),
    (
        "l2",
        "port_bytes",
        "bytes a cycle, reads of one SM",
        lambda get: get("bandwidth.l2_read_cg_16", "one_sm_bytes_per_cycle"),
    ),
    ("launch", "retire_interval", "cycles per empty CTA", _dispatch),
    ("dram", "bytes_per_second", "bytes a second", lambda get: get("bandwidth.dram_read_cg_16", "all_sms_gb_per_s") * 1e9),
    (
        "dram",
        "latency_ns",
        "ns beyond an L2 hit",
        lambda get: (get("latency.dram", "plateau_268435456") - get("latency.l2", "plateau_262144")) / _clock(get),
    ),
)


def read_measured(path: Path) -> Measured:
    """What :func:`.results.write_toml` wrote. Raises :class:`.BenchError`."""
    return _read(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"{path}: {error}") from None


def _number(measured: Measured, benchmark: str, number: str) -> float | None:
    family, _, name = benchmark.partition(".")
    value = measured.get(family, {}).get(name, {}).get(number)
    return float(value) if isinstance(value, int | float) else None


def _cost(operations: dict[str, dict[str, Any]], kind: str, key: str) -> float | None:
    """The file's latency or interval of a class; of one that is made of another, together with that."""
    operation = operations.get(kind)
    if operation is None or (key not in operation and "made_of" not in operation):
        return None
    cost = float(operation.get(key, 0))
    if "made_of" in operation:
        base, times = operations[operation["made_of"]], operation.get("times", 1)
        cost += float(base[key]) if key == "latency" else 0.0
        cost += float(base["interval"]) * (times - 1 if key == "latency" else times)
    return cost


def compare(measured: Measured, board: Path) -> list[Row]:
    """The rows for which both a measured number and a place in the file exist. ``board``: a file of ``tcsim/arch``."""
    chip = _read(board)
    own = chip.get("timing", {})
    if own:
        chip = _read(board.parent / "chips" / f"{own['chip']}.toml")
    operations = {name: operation for operation in chip.get("operations", []) for name in operation["classes"]}

    def get(benchmark: str, number: str) -> float:
        found = _number(measured, benchmark, number)
        if found is None:
            raise KeyError(benchmark)
        return found

    rows = []
    for kind, key, benchmark, number in ROWS:
        found = _number(measured, benchmark, number)
        if found is not None:
            rows.append(Row(f"{kind} {key}", _cost(operations, kind, key), found, f"cycles ({benchmark})"))
    for part, key, unit, formula in PARTS:
        try:
            found = formula(get)
        except KeyError:
            continue
        value = own.get(part, {}).get(key, chip.get(part, {}).get(key))
        rows.append(Row(f"{part}.{key}", None if value is None else float(value), found, unit))
    return rows


def table(rows: list[Row]) -> str:
    """Aligned text, one line per row; disagreements are marked."""
    lines = [f"{'':2}{'what':32}{'file':>10}{'measured':>11}  unit (benchmark)"]
    for row in rows:
        value = "-" if row.in_file is None else f"{row.in_file:g}"
        lines.append(f"{'  ' if row.agrees else '! '}{row.what:32}{value:>10}{row.measured:>11.5g}  {row.unit}")
    wrong = sum(not row.agrees for row in rows)
    return "\n".join([*lines, f"{wrong} of {len(rows)} disagree by more than {TOLERANCE:.0%} and 0.3"])
