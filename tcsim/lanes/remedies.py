"""Changes to addresses that remove bank conflicts, found by trying them all.

A swizzle XORs some bits of the address into those that choose the bank: ``a ^ ((a >> source) & mask) << base``. It needs no
memory, and each address goes to one of its own, since the bits that are read stay as they are. It is CUTLASS's
``Swizzle<bits, base, source - base>``. Padding puts unused bytes behind each row: ``a + a // row * pad``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcsim.execute.banks import wavefronts
from tcsim.lanes.bank_access import BankAccess

__all__ = ["Remedies", "Remedy", "RowPadding", "Swizzle", "find_remedies"]

Addresses = NDArray[np.int64]

_LINE_BITS = 7
"""Bits of an address below those of a line of 32 banks."""

_HIGHEST_BIT = 18
"""Above the highest bit of an address in shared memory (228 KiB at most, CUDA programming guide, compute capability 9.0)."""

_MOST_ROWS = 64
"""Row pitches that are tried besides the powers of two."""


@dataclass(frozen=True)
class Swizzle:
    """``bits`` address bits from ``source`` on are XORed into those from ``base`` on."""

    bits: int
    base: int
    source: int

    def __call__(self, addresses: Addresses) -> Addresses:
        return addresses ^ ((addresses >> self.source) & ((1 << self.bits) - 1)) << self.base

    def spell(self, address: str) -> str:
        """The expression of the new address."""
        return f"{address} ^ (({address} >> {self.source}) & {(1 << self.bits) - 1}) << {self.base}"

    def __str__(self) -> str:
        return f"Swizzle<{self.bits},{self.base},{self.source - self.base}> on byte addresses"


@dataclass(frozen=True)
class RowPadding:
    """``pad`` unused bytes behind each ``row`` bytes."""

    row: int
    pad: int

    def __call__(self, addresses: Addresses) -> Addresses:
        return addresses + addresses // self.row * self.pad

    def spell(self, address: str) -> str:
        """The expression of the new address."""
        return f"{address} + {address} // {self.row} * {self.pad}"

    def __str__(self) -> str:
        return f"{self.pad} bytes of padding behind each {self.row} bytes (+{100 * self.pad / self.row:.1f} % memory)"


@dataclass(frozen=True)
class Remedy:
    """A change, and the wavefronts that all accesses take with it."""

    change: Swizzle | RowPadding
    wavefronts: int


@dataclass(frozen=True)
class Remedies:
    """The best of each kind for some accesses to one buffer, None where none helps. ``wavefronts``: as they are now."""

    wavefronts: int
    ideal: int
    swizzle: Remedy | None
    padding: Remedy | None

    @property
    def needed(self) -> bool:
        return self.wavefronts > self.ideal


def find_remedies(accesses: Sequence[BankAccess]) -> Remedies:
    """Search for what makes all of these accesses to one buffer best.

    The swizzle of fewest wavefronts, then of fewest bits, then of the lowest source; the padding of fewest wavefronts, then of
    least memory.
    """
    now = _total(accesses, lambda addresses: addresses)
    ideal = sum(access.ideal for access in accesses)
    if now <= ideal:
        return Remedies(now, ideal, None, None)
    width = max(access.width for access in accesses)
    swizzles = sorted(_swizzles(width), key=lambda s: (s.bits, s.source, s.base))
    paddings = sorted(_paddings(accesses, width), key=lambda p: (p.pad / p.row, p.pad))
    return Remedies(now, ideal, _best(accesses, swizzles, now, ideal), _best(accesses, paddings, now, ideal))


def _total(accesses: Sequence[BankAccess], change: Callable[[Addresses], Addresses]) -> int:
    """Wavefronts of all accesses with their addresses changed."""
    return sum(
        max(access.ideal, int(wavefronts(change(access.addresses), np.uint32(access.lanes), np.int64(access.width))))
        for access in accesses
    )


def _best(
    accesses: Sequence[BankAccess], changes: Sequence[Swizzle] | Sequence[RowPadding], now: int, ideal: int
) -> Remedy | None:
    """The first of those with the fewest wavefronts, if that is fewer than now."""
    best: Remedy | None = None
    for change in changes:
        total = _total(accesses, change)
        if total < (now if best is None else best.wavefronts):
            best = Remedy(change, total)
            if total == ideal:
                break
    return best


def _swizzles(width: int) -> Iterator[Swizzle]:
    """All that keep ``width`` bytes together and choose a bank by bits above those that they change."""
    lowest = max(2, width.bit_length() - 1)
    for base in range(lowest, _LINE_BITS):
        for bits in range(1, _LINE_BITS - base + 1):
            for source in range(base + bits, _HIGHEST_BIT - bits + 1):
                yield Swizzle(bits, base, source)


def _paddings(accesses: Sequence[BankAccess], width: int) -> Iterator[RowPadding]:
    """Rows of a power of two, or as far apart as two lanes are; padded by what keeps accesses aligned."""
    unit = max(4, width)
    rows = {1 << n for n in range(unit.bit_length(), 14)}
    apart: set[int] = set()
    for access in accesses:
        mine = np.unique(access.addresses[list(access.active)])
        apart |= set(np.unique(np.abs(mine[:, None] - mine[None, :])).tolist())
    rows |= set(sorted(d for d in apart if d > unit and d % unit == 0)[:_MOST_ROWS])
    for row in rows:
        for pad in range(unit, min(row, 128) + 1, unit):
            yield RowPadding(row, pad)
