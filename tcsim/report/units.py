"""Units of metrics, by their names; the units that ``ncu`` prints, as factors; and metrics chosen by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tcsim.errors import TcsimError

__all__ = ["UNIT_FACTORS", "chosen_metrics", "unit_of"]

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


def chosen_metrics(known: Collection[str], wanted: Sequence[str]) -> list[str]:
    """The names among ``known`` that ``--metrics`` asks for, in its order; all, sorted, if it names none. As in ncu a name may
    be without its roll-up (``sm__cycles_active`` is ``.avg``, ``.max`` and so on), and ``regex:EXPRESSION`` matches part of
    one. Raises TcsimError for what none answers to."""
    if not wanted:
        return sorted(known)
    chosen: dict[str, None] = {}
    for name in wanted:
        if name.startswith("regex:"):
            try:
                pattern = re.compile(name.removeprefix("regex:"))
            except re.error as problem:
                raise TcsimError(f"--metrics {name}: {problem}") from None
            found = [each for each in sorted(known) if pattern.search(each)]
        else:
            found = [name] if name in known else [each for each in sorted(known) if each.startswith(f"{name}.")]
        if not found:
            near = [each for each in sorted(known) if name.partition("__")[2].partition(".")[0] in each][:3]
            hint = f"; there is {', '.join(near)}" if near else ""
            raise TcsimError(f"--metrics {name}: not modelled, or no metric{hint}")
        chosen |= dict.fromkeys(found)
    return list(chosen)
