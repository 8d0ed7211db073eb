"""Where CTAs go: the places of a chip, and the sites that clusters take.

A *place* is room for a CTA: place p belongs to SM p // per_sm. A *site* has a place for each CTA of a cluster, by rank; those
of a cluster of more than one CTA lie in one GPC, as on hardware (CUDA programming guide, "Thread Block Clusters"), side by side
on different SMs as far as there are enough.

Which SMs get a CTA each is settled by turns, and then the CTAs are numbered: those of a unit, most often a GPC, in a row
(%smid of the CTAs of grids of 1 to 264 CTAs on an H200, each as :func:`_spread` gives them, but for a few of the second wave).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

__all__ = ["Placement"]


class Placement:
    """The sites of a launch, in the order in which they are first filled: breadth first over the SMs.

    ``sms``: of the chip; ``units``: its SMs in groups, for CTAs or for clusters (:class:`tcsim.arch.spec.Limits`; none given:
    it is one). ``per_sm``: CTAs that an SM holds at once. ``size``: CTAs of a cluster; ``clusters``: how many there are. Sites
    that no cluster will ever come to are left out.

    ``sites``: places by rank. ``site_of``, ``rank_of``: by place, -1 for one that is never used. ``used``: SMs up to the last
    that is used. ``busy``: SMs of the chip that run CTAs. ``numbers``: of the sites, among the ``whole`` that the chip has;
    :meth:`keep` leaves only some of them.
    """

    def __init__(self, sms: int, units: Sequence[Sequence[int]], per_sm: int, size: int, clusters: int) -> None:
        self.size = size
        self.per_sm = min(per_sm, -(-clusters * size // sms)) if size == 1 else per_sm
        units = units or (range(sms),)
        every = self._alone(sms, units, clusters) if size == 1 else self._clustered(units)
        self.sites = [site for site, _ in zip(every, range(clusters), strict=False)]
        self.numbers, self.whole = list(range(len(self.sites))), len(self.sites)
        self.busy = len(self.sms)
        self._index()

    def keep(self, sms: Container[int]) -> None:
        """Leave only the sites that lie on ``sms``; their clusters come in the order in which the whole chip would get them."""
        kept = [
            (number, site)
            for number, site in zip(self.numbers, self.sites, strict=True)
            if all(self.sm_of(place) in sms for place in site)
        ]
        self.numbers, self.sites = [number for number, _ in kept], [site for _, site in kept]
        self._index()

    @property
    def sms(self) -> list[int]:
        """The SMs of the sites, in ascending order."""
        return sorted({self.sm_of(place) for site in self.sites for place in site})

    def coming(self, clusters: int) -> int:
        """How many of a launch's ``clusters`` come to the sites there are."""
        return sum(-(-(clusters - number) // self.whole) for number in self.numbers)

    def loads(self, clusters: int) -> dict[int, int]:
        """By SM, the CTAs that its sites get of a launch's ``clusters``."""
        found: dict[int, int] = {}
        for number, site in zip(self.numbers, self.sites, strict=True):
            for place in site:
                found[self.sm_of(place)] = found.get(self.sm_of(place), 0) - (-(clusters - number) // self.whole)
        return found

    def _index(self) -> None:
        self.used = 1 + max(self.sms, default=-1)
        self.site_of = [-1] * self.places
        self.rank_of = [-1] * self.places
        for number, site in enumerate(self.sites):
            for rank, place in enumerate(site):
                self.site_of[place], self.rank_of[place] = number, rank

    @property
    def places(self) -> int:
        """Places of all SMs up to the last that is used."""
        return self.used * self.per_sm

    def sm_of(self, place: int) -> int:
        """The SM that a place belongs to."""
        return place // self.per_sm

    def _breadth_first(self, sms: Sequence[int]) -> Iterator[int]:
        for layer in range(self.per_sm):
            for sm in sms:
                yield sm * self.per_sm + layer

    @staticmethod
    def _by_turns(places: Iterator[int], size: int) -> Iterator[tuple[int, ...]]:
        yield from zip(*[places] * size, strict=False)

    def _alone(self, sms: int, units: Sequence[Sequence[int]], ctas: int) -> Iterator[tuple[int]]:
        """CTAs without a cluster: a layer on all SMs, then the next."""
        for layer in range(self.per_sm):
            for sm in _spread(units, min(sms, ctas - layer * sms)):
                yield (sm * self.per_sm + layer,)

    def _clustered(self, units: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
        """The units take clusters in turn."""
        waiting = [self._by_turns(self._breadth_first(unit), self.size) for unit in units]
        while waiting:
            for unit in tuple(waiting):
                site = next(unit, None)
                if site is None:
                    waiting.remove(unit)
                else:
                    yield site


_TPC = 2
"""SMs of a TPC."""


def _spread(units: Sequence[Sequence[int]], ctas: int) -> Iterator[int]:
    """The SMs that get one of ``ctas`` CTAs, in the order of their numbers.

    The first unit fills up, then the others take turns, beginning with the last: one CTA for each TPC, and a second where all
    TPCs have one.
    """
    counts = [min(ctas, len(units[0])), *[0] * (len(units) - 1)]
    left, turns = ctas - counts[0], (len(units) - 1, *range(1, len(units) - 1))
    for most in ([-(-len(unit) // _TPC) for unit in units], [len(unit) for unit in units]):
        while left and any(counts[number] < most[number] for number in turns):
            for number in turns:
                if left and counts[number] < most[number]:
                    counts[number] += 1
                    left -= 1
    for unit, count in zip(units, counts, strict=True):
        firsts = unit[::_TPC]
        both = max(0, count - len(firsts))
        yield from unit[: _TPC * both]
        yield from firsts[both:count]
