"""Numbers and where they come from; the statistics behind them; the files they go to."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Number", "Outcome", "median_spread", "plateaus", "slope", "steps", "toml_value", "write_raw", "write_toml"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """One measured number: ``value`` in ``unit``, the median of ``repeats`` runs that span ``spread`` (largest less
    smallest); ``how`` says how it was measured."""

    value: float
    unit: str
    how: str
    spread: float = 0.0
    repeats: int = 1


@dataclass
class Outcome:
    """What one benchmark found: ``numbers`` by name, and what they were taken from (JSON: numbers, strings, lists,
    dictionaries); ``arrays`` go to an ``.npz``. ``code``: the PTX that was timed, where it is short."""

    numbers: dict[str, Number] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    code: str = ""


def median_spread(values: Sequence[float] | npt.NDArray[Any]) -> tuple[float, float]:
    """Median, and largest less smallest."""
    array = np.asarray(values, dtype=np.float64)
    return float(np.median(array)), float(array.max() - array.min())


def slope(short: Sequence[float], long: Sequence[float], operations: float) -> tuple[float, float]:
    """Time per operation from runs that differ by ``operations``: (median, spread). What both have in common drops out."""
    low, low_spread = median_spread(short)
    high, high_spread = median_spread(long)
    return (high - low) / operations, (low_spread + high_spread) / operations


def plateaus(values: Sequence[float], tolerance: float) -> list[tuple[int, int, float]]:
    """Runs of at least two neighbouring values within ``tolerance`` (relative) of their median: (first, last, median)."""
    found: list[tuple[int, int, float]] = []
    start = 0
    for i in range(1, len(values) + 1):
        middle = float(np.median(np.asarray(values[start:i])))
        if i == len(values) or abs(values[i] - middle) > tolerance * middle:
            if i - start >= 2:
                found.append((start, i - 1, middle))
            start = i
    return found


def steps(xs: Sequence[float], ys: Sequence[float], threshold: float) -> list[float]:
    """Where a curve rises: the largest ``x`` of each stretch after which ``y`` grows by more than ``threshold``
    (relative), not counting further rises that follow without a pause."""
    found: list[float] = []
    rising = False
    for i in range(1, len(xs)):
        rises = ys[i] > ys[i - 1] * (1 + threshold)
        if rises and not rising:
            found.append(float(xs[i - 1]))
        rising = rises
    return found


def toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "nan"
        return repr(float(f"{value:.6g}"))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(str(value), ensure_ascii=False)


def _key(name: str) -> str:
    return name if all(c.isalnum() or c in "_-" for c in name) and name.isascii() else json.dumps(name)


def write_toml(
    path: Path,
    provenance: dict[str, object],
    outcomes: dict[tuple[str, str], Outcome],
    kernels: dict[tuple[str, str], str],
    notes: dict[tuple[str, str], list[str]],
) -> None:
    """Write the numbers: a table per family and benchmark, each number with ``NAME_source`` beside it.

    ``kernels``: hash of each benchmark's machine code. ``notes``: what is doubtful about a benchmark.
    """
    lines = ["# Measured by `python -m gpu_ref bench`. Units, method, spread and repeats are in the _source strings.", ""]
    lines += ["[provenance]", *(f"{_key(k)} = {toml_value(v)}" for k, v in provenance.items())]
    for (family, name), outcome in outcomes.items():
        lines += ["", f"[{_key(family)}.{_key(name)}]"]
        if (family, name) in kernels:
            lines.append(f"kernel = {toml_value(kernels[family, name])}")
        if outcome.code:
            lines.append(f"code = {toml_value(outcome.code)}")
        if notes.get((family, name)):
            lines.append(f"doubts = {toml_value(notes[family, name])}")
        for key, number in outcome.numbers.items():
            lines.append(f"{_key(key)} = {toml_value(number.value)}")
            spread = f"spread {number.spread:.3g} over {number.repeats} runs" if number.repeats > 1 else "one run"
            lines.append(f"{_key(key + '_source')} = {toml_value(f'{number.unit}; {number.how}; {spread}')}")
    path.write_text("\n".join(lines) + "\n")


def _plain(value: object) -> Any:
    """JSON can hold it; numbers rounded to six digits."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def write_raw(path: Path, provenance: dict[str, object], outcomes: dict[tuple[str, str], Outcome]) -> None:
    """Write what the numbers were taken from: ``path`` with suffix ``.json``, and ``.npz`` if there are arrays."""
    raw: dict[str, Any] = {"provenance": provenance}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for (family, name), outcome in outcomes.items():
        raw.setdefault(family, {})[name] = _plain(outcome.raw)
        arrays |= {f"{family}/{name}/{key}": array for key, array in outcome.arrays.items()}
    path.with_suffix(".json").write_text(json.dumps(raw, separators=(",", ":")) + "\n")
    if arrays:
        np.savez_compressed(path.with_suffix(".npz"), **arrays)  # type: ignore[arg-type]
