"""Units of metrics, by their names; and the units that ``ncu`` prints, as factors."""

from __future__ import annotations

__all__ = ["UNIT_FACTORS", "unit_of"]

UNIT_FACTORS = {
    "": 1.0, "%": 1.0, "hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9,
    "ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "nsecond": 1.0, "usecond": 1e3, "msecond": 1e6, "second": 1e9,
    "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9, "tbyte": 1e12,
    "byte/s": 1.0, "kbyte/s": 1e3, "mbyte/s": 1e6, "gbyte/s": 1e9, "tbyte/s": 1e12,
    "byte/second": 1.0, "kbyte/second": 1e3, "mbyte/second": 1e6, "gbyte/second": 1e9, "tbyte/second": 1e12,
    "byte/block": 1.0, "kbyte/block": 1e3,
}  # fmt: skip
"""To ns, bytes, bytes per second and hertz, in which metrics are kept. ``ncu`` scales what it prints; unknown units count as
1."""

_ENDINGS = (
    ("_pct", "%"), (".pct", "%"), ("pct_of_peak_sustained_active", "%"), ("pct_of_peak_sustained_elapsed", "%"),
)  # fmt: skip
_PARTS = (
    ("gpu__time_duration", "ns"), ("cycles", "cycle"), ("bytes", "byte"), ("sectors", "sector"), ("requests", "request"),
    ("wavefronts", "wavefront"), ("bank_conflicts", "conflict"), ("inst_", "inst"), ("warps", "warp"), ("ctas", "block"),
    ("registers", "register/thread"), ("shared_mem", "byte/block"), ("limit", "block"), ("thread_count", "thread"),
)  # fmt: skip


def unit_of(metric: str) -> str:
    """The unit in which a metric is kept, as Nsight Compute writes it; empty for a pure number."""
    if metric.endswith(".per_second"):
        return "byte/s" if "bytes" in metric else "hz"
    for ending, unit in _ENDINGS:
        if metric.endswith(ending):
            return unit
    if metric.endswith((".ratio", ".per_cycle_active", ".per_cycle_elapsed")):
        return ""
    if metric == "launch__shared_mem_config_size":
        return "byte"
    return next((unit for part, unit in _PARTS if part in metric), "")
