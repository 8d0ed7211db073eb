"""The L2 cache: two partitions of slices, each next to half of the SMs and half of the memory.

A line has a home partition, chosen by a hash of its address. An SM asks the partition next to it; what that does not
have, it fetches from the home partition (farther away) or from memory, and keeps a copy. Stores and atomics go to the
home partition, and the copy is dropped. Sectors of 32 bytes have their own valid and dirty bits; dirty ones are written
back when their line is replaced. Lines are replaced least recently used over a whole partition: addresses are hashed
well enough that sets do not matter to first order.

A slice serves so many *requests* (of up to a line) a second, whatever their size: on an H200 that gives both the 9.8
TB/s of whole lines and the 36 to 40 scattered sectors a cycle.
"""

from __future__ import annotations

from collections import OrderedDict

from tcsim.arch.timing_spec import L2 as L2Spec
from tcsim.timing.dram import Dram
from tcsim.timing.queueing import Server
from tcsim.timing.translation import Translation
from tcsim.timing.units import TICKS, cycles_of_ns, ticks_of_rate

__all__ = ["L2", "SmPort"]

LINE_BYTES = 128
_SPREAD = 0x9E3779B1
_VALID, _DIRTY, _TIME = (
    0,
    4,
    8,
)  # bit positions in a tag: four valid bits, four dirty bits, the cycle in which the data is there
_WHOLE = 15
_COUNT = tuple(bin(mask).count("1") for mask in range(16))
# What a fetch of some sectors brings with units of two sectors, and how many units that are.
_PAIRS = tuple((3 if mask & 3 else 0) | (12 if mask & 12 else 0) for mask in range(16))


class SmPort:
    """An SM's connection to the L2. ``near``: its partition; ``down`` and ``up``: queues of the data to and from the
    SM.
    """

    __slots__ = ("down", "near", "up")

    def __init__(self, near: int) -> None:
        self.near = near
        self.down = Server()
        self.up = Server()


class L2:
    """Counters are in sectors unless they say otherwise."""

    def __init__(self, spec: L2Spec, capacity: int, dram: Dram, translation: Translation, sm_hz: int) -> None:
        self.dram, self._translation = dram, translation
        self.partitions = spec.partitions
        self.sms_in_turn = spec.sms_in_turn
        self._slices_each = spec.slices // spec.partitions
        self._slices = [Server() for _ in range(self._slices_each * spec.partitions)]
        self._service = ticks_of_rate(spec.requests_per_second / spec.slices, sm_hz)
        self._atomic_service = max(1, round(TICKS * spec.atomic_ns * sm_hz / 1e9))
        self._port_ticks = tuple(sectors * 32 * TICKS // spec.port_bytes for sectors in range(5))
        self._hit = TICKS * cycles_of_ns(spec.hit_ns, sm_hz)
        self._far = TICKS * cycles_of_ns(spec.far_ns, sm_hz)
        self._lines_each = capacity // LINE_BYTES // spec.partitions
        self._tags: list[OrderedDict[int, int]] = [OrderedDict() for _ in range(spec.partitions)]
        self._fill_pairs = dram.fill_bytes > 32
        self.requests = self.read_sectors = self.read_hits = self.write_sectors = self.atomic_sectors = 0
        self.fabric_sectors = self.fabric_hits = self.fills = 0

    def port(self, sm: int) -> SmPort:
        """The port of an SM: partitions alternate in runs of SMs."""
        return SmPort(sm // self.sms_in_turn % self.partitions)

    def _place(self, line: int) -> tuple[int, int]:
        """Home partition of a line, and the number of its slice within a partition."""
        mixed = ((line ^ line >> 15) * _SPREAD & 0xFFFFFFFF) >> 7
        return mixed % self.partitions, mixed // self.partitions % self._slices_each

    def read(self, port: SmPort, line: int, mask: int, now: int) -> int:
        """An SM asks for the sectors ``mask`` of a line in cycle ``now``; returns the cycles until they are there,
        without the L1's.
        """
        ticks = now * TICKS
        near = port.near
        home, number = self._place(line)
        count = _COUNT[mask]
        self.requests += 1
        self.read_sectors += count
        delay = self._hit + self._slices[near * self._slices_each + number].serve(ticks, self._service)
        tag = self._tags[near].get(line, 0)
        missing = mask & ~tag & _WHOLE
        self.read_hits += count - _COUNT[missing]
        there = tag >> _TIME
        if missing:
            wait = self._translation.wait(line, now)
            fetch = 0
            absent = missing
            if home != near:
                self.fabric_sectors += _COUNT[missing]
                delay += self._far + self._slices[home * self._slices_each + number].serve(ticks, self._service)
                home_tag = self._tags[home].get(line, 0)
                absent = missing & ~home_tag & _WHOLE
                self.fabric_hits += _COUNT[missing] - _COUNT[absent]
                there = max(there, home_tag >> _TIME)
            if absent:
                brought = _PAIRS[absent] if self._fill_pairs else absent
                self.fills += _COUNT[brought]
                fetch = self.dram.read(line, _COUNT[brought] * 32 // self.dram.fill_bytes, ticks)
                missing |= brought
            delay += wait * TICKS + fetch
            there = max(there, now + delay // TICKS)
            self._keep(near, line, missing, 0, there, ticks)
            if home != near:
                self._keep(home, line, missing, 0, there, ticks)
        else:
            self._tags[near].move_to_end(line)
        delay += port.down.serve(ticks, self._port_ticks[count])
        done = now + -(-delay // TICKS)
        return (there if there > done else done) - now

    def write(self, port: SmPort, line: int, mask: int, now: int) -> tuple[int, int]:
        """An SM stores to sectors; returns the cycles until the data has left the SM, and until the L2 has acknowledged
        it.
        """
        ticks = now * TICKS
        home, number = self._place(line)
        self.requests += 1
        self.write_sectors += _COUNT[mask]
        left = port.up.serve(ticks, self._port_ticks[_COUNT[mask]])
        delay = left + self._slices[home * self._slices_each + number].serve(ticks, self._service)
        self._own(port, home, line, mask, now)
        trip = self._hit + (self._far if home != port.near else 0) + self._translation.wait(line, now) * TICKS
        return -(-left // TICKS), -(-(delay + trip) // TICKS)

    def atomic(self, port: SmPort, line: int, mask: int, now: int) -> int:
        """An atomic on sectors of a line, executed at its home slice; returns the cycles until its result is there."""
        ticks = now * TICKS
        home, number = self._place(line)
        count = _COUNT[mask]
        self.requests += 1
        self.atomic_sectors += count
        delay = self._hit + port.up.serve(ticks, self._port_ticks[count])
        delay += self._slices[home * self._slices_each + number].serve(ticks, count * self._atomic_service)
        if home != port.near:
            delay += self._far
        tag = self._tags[home].get(line, 0)
        absent = mask & ~tag & _WHOLE
        if absent:
            delay += self._translation.wait(line, now) * TICKS
            brought = _PAIRS[absent] if self._fill_pairs else absent
            self.fills += _COUNT[brought]
            delay += self.dram.read(line, _COUNT[brought] * 32 // self.dram.fill_bytes, ticks)
            self._keep(home, line, brought, 0, now + delay // TICKS, ticks)
        done = now + -(-delay // TICKS)
        there = tag >> _TIME
        self._own(port, home, line, mask, now)
        return (there if there > done else done) - now

    def _own(self, port: SmPort, home: int, line: int, mask: int, now: int) -> None:
        """Make the home partition the only one with these sectors, and them dirty."""
        for partition in range(self.partitions):
            if partition != home:
                tags = self._tags[partition]
                tag = tags.get(line)
                if tag is not None:
                    tags[line] = tag & ~mask
        self._keep(home, line, mask, mask, 0, now * TICKS)

    def _keep(self, partition: int, line: int, valid: int, dirty: int, there: int, ticks: int) -> None:
        """Note sectors of a line in a partition, replacing the least recently used line if it is full."""
        tags = self._tags[partition]
        tag = tags.pop(line, 0)
        when = max(tag >> _TIME, there)
        tags[line] = (tag & 0xFF) | valid << _VALID | dirty << _DIRTY | when << _TIME
        if len(tags) > self._lines_each:
            old, tag = tags.popitem(last=False)
            written = tag >> _DIRTY & _WHOLE
            if written:
                self.dram.write(old, _COUNT[written], ticks)

    @property
    def busy_ticks(self) -> int:
        """Ticks of service over all slices."""
        return sum(server.busy for server in self._slices)

    @property
    def slices(self) -> int:
        return len(self._slices)
