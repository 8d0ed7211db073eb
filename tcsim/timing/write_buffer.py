"""The write buffer of an SM, where stores wait for the way to the L2.

It holds lines, in the order in which they came. A store to a line that is there joins what waits: sectors that are written
again cost nothing more, others of the line go with those that have not left. A line is there until the L2 has taken it, and
for some cycles after the last store to it, unless a store to another line takes its place: that of the oldest. What an H200
counts tells how many lines there are and how long they stay (docs/microbenchmarks.md).

Sub-partitions take turns. What is timed here comes in bursts of one of them, so of its own lines only those count that would
still be there if all that have stores waiting had sent as many.
"""

from __future__ import annotations

from isa.compiled import compiled
from tcsim.timing.arrays import row
from tcsim.timing.hierarchy import COSTS, PORTS, UP, WRITE_HOLD, WRITE_LINES, WRITE_WORDS, WRITES, count4
from tcsim.timing.l2 import TOLD, l2_write
from tcsim.timing.units import TICKS

__all__ = ["queue_store", "write_line"]

SECTOR_BYTES = 32

# Words of a place: its line, sectors, bytes stored, when it has left the SM, when the L2 acknowledges it, until when it is
# open, which sub-partition stored first and how many lines that had stored before.
LINE, MASK, BYTES, LEFT, DONE, OPEN, SUB, NUMBER = range(WRITE_WORDS)
# Behind the places: which one comes next; then for each sub-partition how many lines it has stored, when its last store gets to
# the data port, and how many lines there are for it.
NEXT, STORED, STARTS, SHARE = 0, 1, 5, 9


@compiled
def queue_store(m, sm, sub, now, start):
    """A store that issues in cycle ``now`` gets to the data port in cycle ``start``."""
    writes, lines = row(m, WRITES, sm), row(m, COSTS, 0)[WRITE_LINES]
    behind = lines * WRITE_WORDS
    writes[behind + STARTS + sub] = start
    turns = 1
    for other in range(4):
        turns += other != sub and writes[behind + STARTS + other] > now
    writes[behind + SHARE + sub] = max(1, lines // turns)


@compiled
def write_line(m, sm, sub, line, mask, stored, now, start):
    """Store ``stored`` bytes to sectors of a line. Returns the cycle in which they have left the SM, and that in which they are
    acknowledged."""
    writes, lines = row(m, WRITES, sm), row(m, COSTS, 0)[WRITE_LINES]
    place = _waiting(writes, lines, sub, line, start)
    fresh, joined = mask, 0
    if place < 0:
        behind = lines * WRITE_WORDS
        place = writes[behind + NEXT] * WRITE_WORDS
        writes[behind + NEXT] = (writes[behind + NEXT] + 1) % lines
        writes[behind + STORED + sub] += 1
        if writes[place + BYTES] < SECTOR_BYTES * count4(writes[place + MASK]):
            row(m, PORTS, sm)[UP] += TICKS  # which bytes it has goes along
        writes[place + LINE], writes[place + MASK], writes[place + BYTES], writes[place + DONE] = line, 0, 0, 0
        writes[place + SUB], writes[place + NUMBER] = sub, writes[behind + STORED + sub]
    else:
        fresh = mask & ~writes[place + MASK]
        if writes[place + LEFT] > start:
            joined = count4(writes[place + MASK])
    writes[place + MASK] |= mask
    writes[place + BYTES] += stored
    writes[place + OPEN] = start + row(m, COSTS, 0)[WRITE_HOLD]
    if fresh:
        partial = TOLD if stored < SECTOR_BYTES * count4(mask) else 0
        left, done = l2_write(m, sm, line, fresh, partial, joined, now, start)
        writes[place + LEFT], writes[place + DONE] = left, max(done, writes[place + DONE])
    return writes[place + LEFT], writes[place + DONE]


@compiled
def _waiting(writes, lines, sub, line, start):
    """The place of a line that is in the buffer in cycle ``start``, or -1."""
    behind = lines * WRITE_WORDS
    for back in range(1, lines + 1):
        place = (writes[behind + NEXT] + lines - back) % lines * WRITE_WORDS
        if writes[place + LINE] == line:
            if writes[place + SUB] == sub:
                since = writes[behind + STORED + sub] - writes[place + NUMBER]
                if since >= writes[behind + SHARE + sub]:
                    return -1
            return place if start <= max(writes[place + LEFT], writes[place + OPEN]) else -1
    return -1
