"""How much more memory a whole chip touches than a sample of its SMs: what CTAs share is fetched once for all of them.

The CTAs of the first wave begin, one after another and without time, and go on until each warp has executed a few hundred
instructions; the lines of device memory that they touch by then are compared with those that the sample's CTAs do. Memory is
put back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from isa.compiled import compiled
from isa.program import KIND, Kind, Program
from tcsim.errors import KernelFault
from tcsim.execute.accesses import ATOMIC, SECOND, SPACE, WHAT
from tcsim.execute.cluster import Cluster
from tcsim.execute.cta import CtaSlot
from tcsim.execute.recorder import Recorder, new_counts, new_recorder
from tcsim.execute.signals import Signal
from tcsim.memory import DeviceMemory

__all__ = ["lines_per_line"]

_RECORDS = 512
"""Instructions of each warp that are looked at: pipelined matrix products have asked for several tiles by then."""
_NO_LIMIT = 1 << 40
_FIRST_COPY, _MOVE = Signal.LOAD, Signal.MOVE
_LINE_BITS, _SECTORS_BITS = 7, 2


def lines_per_line(
    program: Program,
    warps: int,
    pool: int,
    memory: DeviceMemory,
    make_slot: Callable[[int, Recorder], CtaSlot],
    whole: int,
    sampled: Sequence[int],
    size: int,
) -> float:
    """Lines that ``whole`` clusters of ``size`` CTAs touch for each that the ``sampled`` ones do: from 1 to as many as there
    are clusters for each of those; the latter, too, for a program that calls its host and cannot begin twice.
    ``make_slot``: a slot for a rank, with a recorder."""
    most = whole / len(sampled)
    if (program.code[:, KIND] == Kind.HOST_CALL).any():
        return most
    recorders: list[Recorder] = []

    def slot(rank: int) -> CtaSlot:
        recorder = new_recorder(program, warps, _RECORDS, pool, new_counts(program))
        recorders.append(recorder)
        return make_slot(rank, recorder)

    cluster, before = Cluster(slot, size), memory.contents()
    try:
        touched = [_touched(cluster, recorders, number) for number in range(whole)]
    except KernelFault:
        return most  # the timed run meets it again, and tells of it
    finally:
        memory.restore(before)
    mine = len(np.unique(np.concatenate([touched[number] for number in sampled])))
    return min(most, len(np.unique(np.concatenate(touched))) / mine) if mine else most


def _touched(cluster: Cluster, recorders: Sequence[Recorder], number: int) -> NDArray[np.int64]:
    """The lines that the CTAs of one cluster touch in their first instructions."""
    for recorder in recorders:
        recorder.used[...], recorder.permits[...] = 0, _NO_LIMIT
    cluster.start(number)
    cluster.run(_NO_LIMIT)
    found = []
    for log in recorders:
        lines, count = np.zeros(0, np.int64), 1 << 12
        while count > len(lines):
            lines = np.zeros(count, np.int64)
            count = int(_lines(log.pcs, log.payload, log.words, log.used, log.program.accesses, log.program.signals, lines))
        found.append(lines[:count])
    return np.unique(np.concatenate(found))


@compiled
def _lines(pcs, payload, words, used, accesses, signals, lines):
    """Write down the line of every sector and of every row of a copy that warps have accessed. Returns how many there are,
    maybe more than there is room for."""
    count = 0
    for warp in range(len(pcs)):
        for index in range(used[warp, 0]):
            at, pc = payload[warp, index], pcs[warp, index]
            if at < 0:
                continue
            end = _payload_end(payload[warp], index, used[warp])
            if signals[pc, 0] >= _FIRST_COPY:
                count = _copied(words[warp], at, lines, count)
                continue
            if accesses[pc, SPACE] < 0 or signals[pc, 0] >= 0:
                continue
            if accesses[pc, SECOND] >= 0:
                at += 2  # what it does to shared memory
            while at < end:
                sectors = words[warp, at]
                if words[warp, at + 1] < 0:
                    at += 2
                    continue
                for place in range(at + 2, at + 2 + sectors):
                    count = _note(lines, count, words[warp, place] >> _SECTORS_BITS)
                at = end if accesses[pc, WHAT] == ATOMIC or accesses[pc, SECOND] >= 0 else at + 2 + sectors
    return count


@compiled
def _payload_end(payload, index, used):
    """Where the payload of a record ends: where the next one has its own."""
    for later in range(index + 1, used[0]):
        if payload[later] >= 0:
            return np.int64(payload[later])
    return used[1]


@compiled
def _copied(words, at, lines, count):
    """The lines of a bulk or tensor copy, but none of one that does not go to or from device memory."""
    if words[at] == _MOVE:
        return count
    for i4 in range(words[at + 10]):
        for i3 in range(words[at + 9]):
            for i2 in range(words[at + 8]):
                for i1 in range(words[at + 7]):
                    start = words[at + 5] + i1 * words[at + 11] + i2 * words[at + 12] + i3 * words[at + 13]
                    start += i4 * words[at + 14]
                    for line in range(start >> _LINE_BITS, (start + words[at + 6] - 1 >> _LINE_BITS) + 1):
                        count = _note(lines, count, line)
    return count


@compiled
def _note(lines, count, line):
    """Append a line, unless it is the last one again."""
    if 0 < count <= len(lines) and lines[count - 1] == line:
        return count
    if count < len(lines):
        lines[count] = line
    return count + 1
