"""Solve a recording of the special-function unit for its coefficient tables.

    python -m gpu_ref.mufu.solve FOLDER [--out isa/arith/mufu_tables.toml]

Every result of the unit says that a polynomial in ``y`` and the truncated ``square(y)``, with integer coefficients,
lies in a certain integer interval. For one segment that is a system of some 10^5 inequalities in three unknowns.
Least squares gives the slope and the curvature to far better than one unit; all integer pairs near that are tried,
and a pair is a solution if it leaves room for a constant term. The script prints how many solutions each unit's
segments have, and which rounding constants all segments allow. FOLDER holds what ``gpu_ref.mufu.record`` wrote.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_ref.mufu import codec
from gpu_ref.mufu.forms import FILES, dense_inputs

__all__ = ["Solution", "constraints", "load_dense", "main", "solve_segment", "square"]

Ints = npt.NDArray[np.int64]
_FRACTION = 0x7FFFFF
_ONE = 1 << 23


class Constraints(NamedTuple):
    """For each sample: its segment, ``y``, ``square``, and the interval [low, high] that holds the polynomial."""

    segment: Ints
    y: Ints
    square: Ints
    low: Ints
    high: Ints


class Solution(NamedTuple):
    """Slope and curvature of one segment, and the constant terms [least, greatest] that satisfy all its samples."""

    b: int
    c: int
    least: int
    greatest: int


class Unit(NamedTuple):
    """A unit's dense sweeps, and how its constant term is A << ``shift`` plus a rounding constant."""

    opcode: str
    constraints: Callable[[Ints, Ints], Constraints]
    shift: int
    rounding: int
    steps: Callable[[int], tuple[int, int]]
    """For a segment: what B and C are multiples of."""


def square(y: Ints) -> Ints:
    """``y * y * 2^-19`` of the unit's truncated squarer, for ``y`` of 17 bits."""
    total = np.zeros_like(y)
    for i in range(17):
        total += np.where((y >> i) & 1, y >> (18 - i), 0)
    return total >> 1


# --------------------------------------------------------------------------------------- from results to inequalities


def _significand(out: Ints, exponent: int) -> Ints:
    """The result over ``2**(exponent - 23)``: 2^23 to 2^24, both included, from 2^exponent to 2^(exponent + 1)."""
    return (out & 0x7FFFFFFF) - ((exponent + 127) << 23) + _ONE


def _fixed(out: Ints, point: int) -> tuple[Ints, Ints]:
    """The interval of integers ``p`` for which ``p * 2**-point``, truncated to 24 significant bits, is the result."""
    exponent = ((out >> 23) & 0xFF) - 127
    significand = np.where(out & 0x7FFFFFFF, (out & _FRACTION) | _ONE, 0)
    shift = point + exponent - 23
    up, down = np.maximum(shift, 0), np.clip(-shift, 0, 63)
    low = (significand << np.minimum(up, 38)) >> down
    return low, low + (np.int64(1) << np.minimum(up, 38)) - 1


def _of(y: Ints, segment: Ints, low: Ints, high: Ints, doubled: bool = False) -> Constraints:
    return Constraints(segment, y, square(2 * y if doubled else y), low, high)


def _rcp(x: Ints, out: Ints) -> Constraints:
    low = _significand(out, -1) << 15
    return _of(x & 0xFFFF, (x >> 16) & 0x7F, low, low + (1 << 15) - 1, doubled=True)


def _roots(x: Ints) -> tuple[Ints, Ints]:
    return x & 0x1FFFF, ((x >> 17) & 0x7F) ^ 0x40


def _rsq(x: Ints, out: Ints) -> Constraints:
    low = _significand(out, -1) << 16
    y, segment = _roots(x)
    keep = (x & 0xFFFFFF) != 0x800000  # even powers of two are exact, whatever the table
    return Constraints(*(column[keep] for column in _of(y, segment, low, low + (1 << 16) - 1)))


def _sqrt(x: Ints, out: Ints) -> Constraints:
    low = _significand(out, 0) << 17
    return _of(*_roots(x), low, low + (1 << 17) - 1)


def _ex2(x: Ints, out: Ints) -> Constraints:
    keep = (x >= 0x3F800000) & (x < 0x40000000)  # [1, 2) has exactly the 23 fraction bits that the unit looks at
    x, out = x[keep], out[keep]
    low = _significand(out, 1) << 15
    return _of(x & 0x1FFFF, (x & _FRACTION) >> 17, low, low + (1 << 15) - 1)


def _lg2(x: Ints, out: Ints) -> Constraints:
    low, high = _fixed(out, 36)
    below = x < 0x3F800000  # [0.5, 1): the unit complements its negative sum
    one = np.int64(1) << 36
    low, high = np.where(below, one - 1 - high, low) << 2, (np.where(below, one - 1 - low, high) << 2) + 3
    keep = x != 0x3F800000
    return Constraints(*(c[keep] for c in _of(x & 0x1FFFF, (x & _FRACTION) >> 17, low, high)))


_TURNS = np.uint32(0x3E22F983).view(np.float32)


def _turn(x: Ints) -> Ints:
    """Quarter turns, with 23 fraction bits, of an operand in [0, 2^20) (bits of f32), as the instruction forms them."""
    exact = x.astype(np.uint32).view(np.float32).astype(np.float64) * np.float64(_TURNS)
    near = exact.astype(np.float32)
    truncated = (near.view(np.uint32) - (near.astype(np.float64) > exact)).view(np.float32)
    return np.floor(truncated.astype(np.float64) * 2.0**25).astype(np.int64) & 0x1FFFFFF


def _wave(offset: int) -> Callable[[Ints, Ints], Constraints]:
    def build(x: Ints, out: Ints) -> Constraints:
        turn = (_turn(x) + offset) & 0x1FFFFFF
        f = np.where(turn & _ONE, ~turn, turn) & _FRACTION
        low, high = _fixed(out, 37)
        return _of(f & 0x1FFFF, f >> 17, low, high)

    return build


_TANH_INDEX_BITS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3])
_TANH_FIRST = np.concatenate([[0], np.cumsum(1 << _TANH_INDEX_BITS)[:-1]])


def _tanh(x: Ints, out: Ints) -> Constraints:
    binade = ((x >> 23) & 0xFF) - 119
    keep = (binade >= 0) & (binade <= 10)
    x, out, binade = x[keep], out[keep], binade[keep]
    bits = _TANH_INDEX_BITS[binade]
    f = x & _FRACTION
    return _of(((f << bits) & _FRACTION) >> 6, _TANH_FIRST[binade] + (f >> (23 - bits)), *_fixed(out, 46))


def constraints(name: str, x: npt.NDArray[np.uint32], out: npt.NDArray[np.uint32]) -> Constraints:
    """The inequalities that results ``out`` for input words ``x`` put on unit ``name``'s polynomial."""
    return UNITS[name].constraints(x.astype(np.int64), out.astype(np.int64))


UNITS = {
    "rcp": Unit("rcp.approx.ftz.f32", _rcp, 13, 0x47E7, lambda i: (1, 1)),
    "rsq": Unit("rsqrt.approx.ftz.f32", _rsq, 14, 0x7FFF, lambda i: (1, 4)),
    "sqrt": Unit("sqrt.approx.ftz.f32", _sqrt, 15, 0x7FFF, lambda i: (1 if i < 64 else 2, 2)),
    "ex2": Unit("ex2.approx.ftz.f32", _ex2, 13, 0x77E2, lambda i: (1, 1)),
    "lg2": Unit("lg2.approx.ftz.f32", _lg2, 12, 0x3345, lambda i: (1, 2)),
    "sin": Unit("sin.approx.ftz.f32", _wave(0), 11, 0, lambda i: (1, 1)),
    "tanh": Unit("tanh.approx.f32", _tanh, 0, 0, lambda i: (128, 128) if i < 43 else (512, 1024)),
}


# ------------------------------------------------------------------------------------------------------------ solving


def solve_segment(part: Constraints, b_step: int = 1, c_step: int = 1, reach: int = 3) -> list[Solution]:
    """All (B, C) within ``reach`` steps of the least-squares fit that satisfy every sample of one segment."""
    y, q = part.y, part.square
    middle = (part.low + part.high) / 2.0
    weight = 1.0 / (part.high - part.low + 1.0)
    design = np.stack([np.ones(len(y)), y, q], axis=1)
    fit = np.linalg.lstsq(design * weight[:, None], middle * weight, rcond=None)[0]
    found = []
    centre = round(fit[2] / c_step)
    for c in range(centre - reach, centre + reach + 1):
        rest = (middle - c * c_step * q) * weight
        slope = np.linalg.lstsq(design[:, :2] * weight[:, None], rest, rcond=None)[0][1]
        for b in range(round(slope / b_step) - reach, round(slope / b_step) + reach + 1):
            value = b * b_step * y + c * c_step * q
            least, greatest = int((part.low - value).max()), int((part.high - value).min())
            if least <= greatest:
                found.append(Solution(b * b_step, c * c_step, least, greatest))
    return found


def load_dense(folder: Path, opcode: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """All dense samples of one instruction in a recording: input words, result words."""
    inputs, results = [], []
    for name, group in FILES.items():
        for dense in group:
            if dense.opcode == opcode:
                with np.load(folder / f"{name}.npz") as stored:
                    parts = {
                        key: stored[f"{dense.name}/{key}"] for key in ("anchors", "residual", "far_index", "far_value")
                    }
                inputs.append(dense_inputs(dense))
                results.append(codec.unpack(**parts))
    return np.concatenate(inputs), np.concatenate(results)


def _segments(all_samples: Constraints) -> list[Constraints]:
    """The samples of each segment, in order of segments."""
    order = np.argsort(all_samples.segment, kind="stable")
    sorted_samples = Constraints(*(column[order] for column in all_samples))
    bounds = np.searchsorted(sorted_samples.segment, np.arange(int(sorted_samples.segment[-1]) + 2))
    return [Constraints(*(c[a:b] for c in sorted_samples)) for a, b in itertools.pairwise(bounds)]


def solve_unit(unit: Unit, samples: Constraints) -> list[list[Solution]]:
    """Every solution of every segment of a unit."""
    return [solve_segment(part, *unit.steps(i)) for i, part in enumerate(_segments(samples))]


def rounding_range(unit: Unit, solutions: list[list[Solution]]) -> tuple[int, int]:
    """The rounding constants, as offsets from ``unit.rounding``, for which every segment has an A.

    The range is empty if its least exceeds its greatest. Only the first solution of each segment is asked.
    """
    step = 1 << unit.shift
    least, greatest = -step, step
    for found in solutions:
        if found:
            # A << shift + rounding + d must fall into [least, greatest]: the A nearest to the interval.
            a = ((found[0].least + found[0].greatest) // 2 - unit.rounding + step // 2) >> unit.shift
            least = max(least, found[0].least - (a << unit.shift) - unit.rounding)
            greatest = min(greatest, found[0].greatest - (a << unit.shift) - unit.rounding)
    return least, greatest


def table(unit: Unit, solutions: list[list[Solution]]) -> list[tuple[int, int, int]]:
    """Rows (A, B, C): the polynomial is ``(A << shift) + B * y + C * square(y)`` plus the unit's rounding constant.

    Where samples leave the constant term some room, it is the multiple of the largest power of two. Raises ValueError
    if a segment has no solution, or several.
    """
    rows = []
    for i, found in enumerate(solutions):
        if len(found) != 1:
            raise ValueError(f"{unit.opcode}: segment {i} has {len(found)} solutions; record it more densely")
        least, greatest = found[0].least - unit.rounding, found[0].greatest - unit.rounding
        step = (
            max(1 << k for k in range(unit.shift, 63) if greatest >> k << k >= least)
            if unit.shift == 0
            else 1 << unit.shift
        )
        constant = greatest // step * step
        if constant < least:
            raise ValueError(f"{unit.opcode}: segment {i} has no A for rounding constant {unit.rounding:#x}")
        rows.append((constant >> unit.shift, found[0].b, found[0].c))
    return rows


def _driver(line: str) -> str:
    """The version number in the driver's version line."""
    found = re.search(r"\d+\.\d+\.\d+", line)
    return f"driver {found[0]}" if found else "driver unknown"


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Solve a recording for the tables of the special-function unit.")
    parser.add_argument("folder", type=Path, help="what gpu_ref.mufu.record wrote")
    parser.add_argument("--out", type=Path, default=Path("isa/arith/mufu_tables.toml"))
    options = parser.parse_args(arguments)
    with np.load(options.folder / "hashes.npz") as stored:
        origin = json.loads(str(stored["provenance"]))
    source = f"{origin['gpu']}, {_driver(origin['driver'])}, {origin['date']}"
    lines = [
        "# Coefficients [A, B, C] of the special-function unit, a row per segment; used by isa/arith/mufu.py.",
        f"# Made by gpu_ref/mufu/solve.py from a recording: {source}.",
    ]
    for name, unit in UNITS.items():
        samples = constraints(name, *load_dense(options.folder, unit.opcode))
        solutions = solve_unit(unit, samples)
        least, greatest = rounding_range(unit, solutions)
        print(f"{name}: {len(samples.y)} samples, {len(solutions)} segments, one solution each, "
              f"rounding constant {unit.rounding:#x} ({least:+d}..{greatest:+d} allowed)")  # fmt: skip
        rows = table(unit, solutions)
        lines += ["", f"[{name}]", "coefficients = [", *(f"  [{a}, {b}, {c}]," for a, b, c in rows), "]"]
    options.out.write_text("\n".join(lines) + "\n")
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
