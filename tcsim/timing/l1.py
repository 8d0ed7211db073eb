"""The L1 data cache of an SM: tags for lines of 128 bytes, valid bits for their four sectors.

Stores write through. They allocate their line, as the hit rates of an H200 show, but only a load makes a sector valid;
a sector that is valid takes the store and stays valid. Replacement is least recently used over the whole cache
(hardware has few, wide sets). A load that hits a sector still on its way waits for it.
"""

from __future__ import annotations

from collections import OrderedDict

from tcsim.timing.l2 import L2, LINE_BYTES, SmPort

__all__ = ["L1", "lines_of", "port_cycles"]

_COUNT = tuple(bin(mask).count("1") for mask in range(16))


class L1:
    """``latency``: cycles of a hit. ``capacity`` in bytes: what shared memory leaves."""

    __slots__ = ("_l2", "_lines", "_port", "_tags", "latency")

    def __init__(self, latency: int, capacity: int, l2: L2, port: SmPort) -> None:
        self.latency = latency
        self._lines = max(1, capacity // LINE_BYTES)
        self._l2, self._port = l2, port
        self._tags: OrderedDict[int, list[int]] = OrderedDict()

    def load(self, words: list[int], first: int, count: int, now: int, start: int, cached: bool) -> tuple[int, int]:
        """Load ``count`` sectors, ``words[first:]``, for an instruction that issued in cycle ``now`` and reached the
        tags in ``start``.

        Returns the cycle in which all data is there, and how many sectors hit.
        """
        tags = self._tags
        ready = base = start + self.latency
        hits = 0
        index, end = first, first + count
        while index < end:
            sector = words[index]
            line = sector >> 2
            mask = 1 << (sector & 3)
            index += 1
            while index < end and words[index] >> 2 == line:
                mask |= 1 << (words[index] & 3)
                index += 1
            missing = mask
            entry = None
            if cached:
                entry = tags.get(line)
                if entry is not None:
                    missing = mask & ~entry[0]
                    if missing != mask:
                        hits += _COUNT[mask & entry[0]]
                        if entry[1] > ready:
                            ready = entry[1]
                    tags.move_to_end(line)
            if missing:
                there = base + self._l2.read(self._port, line, missing, now)
                if there > ready:
                    ready = there
                if entry is not None:
                    entry[0] |= missing
                    entry[1] = max(entry[1], there)
                elif cached:
                    self._keep(line, missing, there)
        return ready, hits

    def store(self, words: list[int], first: int, count: int, now: int, start: int) -> tuple[int, int, int]:
        """Store to sectors; returns the cycle in which their data has left the SM, that in which the last is
        acknowledged, and how many sectors found their line.
        """
        left = acknowledged = start
        hits = 0
        for line, mask in lines_of(words, first, count):
            gone, done = self._l2.write(self._port, line, mask, now)
            left, acknowledged = max(left, start + gone), max(acknowledged, start + done)
            if line in self._tags:
                hits += _COUNT[mask]
                self._tags.move_to_end(line)
            else:
                self._keep(line, 0, 0)
        return left, acknowledged, hits

    def _keep(self, line: int, mask: int, there: int) -> None:
        """Make room for a line, with the valid sectors ``mask`` that are there in cycle ``there``."""
        self._tags[line] = [mask, there]
        if len(self._tags) > self._lines:
            self._tags.popitem(last=False)

    def atomic(self, words: list[int], first: int, count: int, now: int, start: int) -> int:
        """Atomics on sectors, done at the L2; returns the cycle in which all results are back. The L1 forgets the
        sectors.
        """
        ready = base = start + self.latency
        for line, mask in lines_of(words, first, count):
            entry = self._tags.get(line)
            if entry is not None:
                entry[0] &= ~mask
            ready = max(ready, base + self._l2.atomic(self._port, line, mask, now))
        return ready


def lines_of(words: list[int], first: int, count: int) -> list[tuple[int, int]]:
    """Sectors ``words[first : first + count]`` by line: (line, mask of its sectors), neighbours put together."""
    lines: list[tuple[int, int]] = []
    line = mask = -1
    for sector in words[first : first + count]:
        if sector >> 2 == line:
            mask |= 1 << (sector & 3)
        else:
            if line >= 0:
                lines.append((line, mask))
            line, mask = sector >> 2, 1 << (sector & 3)
    lines.append((line, mask))
    return lines


def port_cycles(words: list[int], first: int, count: int, line_tags: float) -> int:
    """Cycles that sectors take on the data port: four, at different quarters of a line, pass together, and each line
    takes ``line_tags`` cycles of the tag stage.

    Measured on an H200 with loads of one word per lane: strides of 1, 2, 4, 8 words take 1, 2, 4, 8 cycles.
    """
    columns = [0, 0, 0, 0]
    lines = 0
    line = -1
    for sector in words[first : first + count]:
        columns[sector & 3] += 1
        if sector >> 2 != line:
            line = sector >> 2
            lines += 1
    return max(max(columns), round(line_tags * lines))
