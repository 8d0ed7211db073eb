"""A sample of a launch: the CTAs that the work distributor gives to a few SMs, executed and timed for those of the whole chip.

Which CTAs those are depends, on the chip, on when others end. Here it is settled beforehand: SMs take turns, and a place gets
the cluster that it would get if all took equally long; among the SMs that are simulated, whoever is free gets the next. SMs
have their share of the L2's slices. What CTAs share is fetched once for the chip, not once for every sample:
:mod:`tcsim.timing.footprint` measures how much more the chip touches than the sample, and the L2's capacity and the rate of
memory are divided by that. An access to a word that all CTAs contend for waits for those of the sample only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from msgspec import Struct, convert
from numpy.typing import NDArray

from tcsim.arch import Arch
from tcsim.arch.timing_spec import Chip
from tcsim.errors import DeviceError
from tcsim.timing.counters import Counters
from tcsim.timing.hierarchy import (
    DRAM_READ,
    FABRIC_HITS,
    FABRIC_REQUESTS,
    FABRIC_SECTORS,
    FABRIC_WRITES,
    FILLS,
    LAST_SERVED,
    NEAR,
    READ_HITS,
    READ_SECTORS,
    Hierarchy,
    locations,
)

__all__ = ["SampleError", "Sampled", "check_sample", "sample_error", "sampled_sms", "scale_up"]


class SampleError(Struct, frozen=True, forbid_unknown_fields=True):
    """How far cycles of samples of ``sms`` SMs are from those of the whole chip, as fractions, over ``launches`` recorded
    launches. ``source``: how that was measured."""

    sms: int
    launches: int
    mean: float
    median: float
    worst: float
    worst_launch: str
    source: str

    def __str__(self) -> str:
        return (
            f"cycles of samples of {self.sms} SMs are {self.mean:.1%} from those of the whole chip on average, "
            f"{self.median:.1%} in the median and {self.worst:.0%} at worst ({self.launches} recorded launches)"
        )


@cache
def sample_error() -> SampleError:
    """The measured error, from ``sample_error.toml``."""
    return convert(tomllib.loads((Path(__file__).parent / "sample_error.toml").read_text()), SampleError)


@dataclass(frozen=True)
class Sampled:
    """What of a launch was simulated: ``simulated`` of ``clusters`` clusters, on ``sms``. ``requests``: the part of the
    clusters resident at once that these are; ``footprint``: lines that all touch for each that these do. ``loads``: CTAs that
    each SM of the chip gets, of which it holds ``per_sm`` at once."""

    simulated: int
    clusters: int
    sms: tuple[int, ...]
    requests: float
    footprint: float
    loads: Mapping[int, int]
    per_sm: int


def check_sample(name: str, sms: int, arch: Arch, depends: bool) -> None:
    """Raise DeviceError for a sample of ``sms`` SMs that there cannot be. ``depends``: CTAs wait for one another."""
    if not 2 <= sms <= arch.limits.sms:
        raise DeviceError(f"a sample of {sms} SMs: {arch.full_name} has {arch.limits.sms}; try 2 or more of them")
    if depends:
        raise DeviceError(
            f"kernel {name}: no sample can be taken, as its CTAs wait for one another (a cooperative launch, or a loop that "
            "ends when memory holds what another thread puts there) and would wait for those left out. Try the whole chip"
        )


def sampled_sms(sms: int, arch: Arch, chip: Chip, clustered: bool) -> frozenset[int]:
    """The SMs of a sample of about ``sms``: as many next to each partition of the L2; or, for clusters, each of which lies in a
    unit, the first units that have so many."""
    if clustered and arch.limits.clusters:
        chosen: list[int] = []
        for unit in arch.limits.clusters:
            if len(chosen) >= sms:
                break
            chosen += unit
        return frozenset(chosen)
    partitions, near = chip.l2.partitions, locations(arch, chip.l2)[:, NEAR]
    by_partition = [np.flatnonzero(near == number).tolist() for number in range(partitions)]
    each = [-(-(sms - number) // partitions) for number in range(partitions)]
    return frozenset(sm for some, count in zip(by_partition, each, strict=True) for sm in some[:count])


def scale_up(sampled: Sampled, counters: Counters, counts: NDArray[np.int64], memories: Hierarchy, ctas: int) -> None:
    """Make of what a sample counted what the chip's ``ctas`` CTAs would: sums grow with the number of CTAs, what comes from
    memory with the lines touched. Other SMs are taken to be active as long for each round of CTAs as those simulated."""
    some, all_of_them = sampled.simulated, sampled.clusters
    counters.stalls = [_scaled(value, all_of_them, some) for value in counters.stalls]
    counters.warp_cycles = sum(counters.stalls)
    counters.warps = counters.warps * all_of_them // some
    counters.ctas = ctas
    rounds = {sm: max(1.0, load / sampled.per_sm) for sm, load in sampled.loads.items()}
    each = sum(counters.sm_active) / sum(rounds[sm] for sm in sampled.sms)
    for sm in rounds.keys() - set(sampled.sms):
        counters.sm_active[sm] = round(each * rounds[sm])
    counts[...] = np.rint(counts * (all_of_them / some)).astype(np.int64)
    memories.events[...] = np.rint(memories.events * (all_of_them / some)).astype(np.int64)
    totals, more = memories.totals, all_of_them / some
    lines = more * sampled.requests * sampled.footprint
    missed = int(totals[READ_SECTORS] - totals[READ_HITS])
    fabric = int(totals[FABRIC_SECTORS] + totals[FABRIC_WRITES])
    scaled = np.rint(totals * more).astype(np.int64)
    scaled[LAST_SERVED] = totals[LAST_SERVED]
    for number in (FILLS, DRAM_READ, FABRIC_SECTORS, FABRIC_HITS):
        scaled[number] = round(int(totals[number]) * lines)
    scaled[READ_HITS] = scaled[READ_SECTORS] - round(missed * lines)
    if fabric:
        requests = int(totals[FABRIC_REQUESTS]) / fabric
        scaled[FABRIC_REQUESTS] = round(requests * int(scaled[FABRIC_SECTORS] + scaled[FABRIC_WRITES]))
    totals[...] = scaled


def _scaled(value: int, numerator: int, denominator: int) -> int:
    return (value * numerator + denominator // 2) // denominator
