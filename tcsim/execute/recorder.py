"""What a timed run writes down: per warp, each executed instruction, and where its memory accesses went.

Records are bounded: a warp whose buffer is full stops until the timing model has read it, so a grid of any size needs
the same memory. A record is (pc, active lanes, executing lanes, payload). The payload of a memory instruction is that
of :func:`tcsim.execute.accesses.describe`; that of a CTA barrier is [its number, the threads it waits for or 0 for
all]; that of an asynchronous instruction is one of :class:`tcsim.execute.signals.Signal`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.compiled import call, compiled, compiled_for_address, inlined
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64, load_u8, store_i64
from isa.machine import CLOCK, GLOBAL_TIMER
from isa.program import EXTRA, KIND, OPERANDS, Kind, Program
from tcsim.execute.accesses import COLUMNS, MAX_WORDS, SPACE, access_table, describe, tile_table
from tcsim.execute.barriers import popcount
from tcsim.execute.signals import SIGNAL_COLUMNS, describer, signal_table

__all__ = [
    "ISSUED_AGAIN",
    "LAST",
    "RECORD",
    "SHARES",
    "Recorded",
    "Recorder",
    "barrier_table",
    "count_parting",
    "new_counts",
    "new_recorder",
    "record",
    "recorded",
    "recording",
]


# Words of a recorder's table, what compiled code takes: the address of what records, and of arrays; lengths of a warp's row.
(
    RECORD, PCS, EXECUTING, PAYLOAD, WORDS, USED, LENGTH, ROOM, ACCESSES, TILES, BARRIERS, SIGNALS, DESCRIBER, POOL, TIMED,
    PERMITS, NOW, LAST, COUNTS, ACTIVE, SHARES,
) = range(21)  # fmt: skip
_TABLE = 21
_COUNTS = 6
ISSUED_AGAIN = 4
"""The first of the two columns of counts that say what was issued again."""


class Recorded(NamedTuple):
    """What recorders of a program have in common. ``accesses`` and ``tiles`` describe its memory instructions, ``barriers`` its
    CTA barriers (:func:`barrier_table`), ``signals`` its asynchronous instructions
    (:func:`~tcsim.execute.signals.signal_table`; ``describer``: what describes those); ``pool`` is its operand pool's address.
    ``timed``: instructions whose result depends on when they execute (``%clock``). ``counts``: :func:`new_counts`.
    """

    accesses: NDArray[np.int32]
    tiles: NDArray[np.int64]
    barriers: NDArray[np.int32]
    signals: NDArray[np.int32]
    describer: int
    pool: int
    timed: NDArray[np.bool_]
    counts: NDArray[np.int64]


class Recorder:
    """Buffers ``pcs``, ``executing``, ``payload`` and, if given, ``active`` [warp, record] and, for payloads, ``words`` [warp,
    word]. ``used``: int64 [warp, 2], records and payload words written. All have to be contiguous.

    ``payload`` of a record is the position of its first payload word, or -1. A warp stops before an instruction of ``timed``
    until ``permits[warp]`` is positive, and uses up one permit; it then reads ``now[warp]``: (cycle, ns). ``last``: the group
    of each warp that has had its turn. ``address``: what the interpreter takes.
    """

    def __init__(
        self,
        program: Recorded,
        pcs: NDArray[np.int32],
        executing: NDArray[np.uint32],
        payload: NDArray[np.int32],
        words: NDArray[np.int64],
        used: NDArray[np.int64],
        active: NDArray[np.uint32] | None = None,
    ) -> None:
        warps = len(used)
        self.program, self.timed = program, program.timed
        self.permits = np.zeros(warps, np.int64)
        self.now = np.zeros((warps, 2), np.int64)
        self.last = np.full(warps, 31)
        table = self._table = np.zeros(_TABLE, np.int64)
        arrays: dict[int, NDArray[Any]] = {
            ACCESSES: program.accesses,
            TILES: program.tiles,
            BARRIERS: program.barriers,
            SIGNALS: program.signals,
            TIMED: program.timed,
            PERMITS: self.permits,
            NOW: self.now,
            LAST: self.last,
            COUNTS: program.counts,
        }
        self._enter(arrays)
        self.write_to(pcs, executing, payload, words, used, active)
        table[RECORD], table[DESCRIBER], table[POOL] = recording(), program.describer, program.pool
        table[SHARES] = program.timed.any()
        self.address = int(table.ctypes.data)

    def _enter(self, arrays: dict[int, NDArray[Any]]) -> None:
        for place, array in arrays.items():
            assert array.flags.c_contiguous
            self._table[place] = array.ctypes.data

    def write_to(
        self,
        pcs: NDArray[np.int32],
        executing: NDArray[np.uint32],
        payload: NDArray[np.int32],
        words: NDArray[np.int64],
        used: NDArray[np.int64],
        active: NDArray[np.uint32] | None = None,
    ) -> None:
        """Record into these buffers from now on."""
        self.pcs, self.executing, self.payload, self.words, self.used = pcs, executing, payload, words, used
        self.active = active
        self._enter({PCS: pcs, EXECUTING: executing, PAYLOAD: payload, WORDS: words, USED: used})
        if active is not None:
            self._enter({ACTIVE: active})
        self._table[LENGTH], self._table[ROOM] = pcs.shape[1], words.shape[1]


def new_counts(program: Program) -> NDArray[np.int64]:
    """int64 [instruction, 6]: how often a warp executed it, with how many active and how many executing threads; how often
    some but not all active threads executed it or, of a jump, went its way; and how much of the first and of the third it
    issued again."""
    return np.zeros((len(program), _COUNTS), np.int64)


def recorded(program: Program, pool: int, counts: NDArray[np.int64]) -> Recorded:
    """What to record of a program."""
    signals = signal_table(program)
    return Recorded(
        accesses=access_table(program),
        tiles=tile_table(program),
        barriers=barrier_table(program),
        signals=signals,
        describer=describer() if (signals[:, 0] >= 0).any() else 0,
        pool=pool,
        timed=(program.code[:, KIND] == Kind.KERNEL) & (program.code[:, EXTRA] == 1),
        counts=counts,
    )


def new_recorder(program: Program, warps: int, records: int, pool: int, counts: NDArray[np.int64]) -> Recorder:
    """Buffers for ``records`` instructions per warp."""
    shape = (warps, records)
    return Recorder(
        recorded(program, pool, counts),
        pcs=np.zeros(shape, np.int32),
        executing=np.zeros(shape, np.uint32),
        payload=np.zeros(shape, np.int32),
        words=np.zeros((warps, 2 * MAX_WORDS + 8 * records), np.int64),
        used=np.zeros((warps, 2), np.int64),
        active=np.zeros(shape, np.uint32),
    )


def barrier_table(program: Program) -> NDArray[np.int32]:
    """The CTA barriers of a program, int32 [n, 3]: operand row (bytes), and the places in it of the barrier's number and of its
    thread count (-1: all threads). The first is -1 where there is no barrier.
    """
    table = np.full((len(program.code), 3), -1, np.int32)
    for pc, row in enumerate(program.code):
        if row[KIND] in (Kind.BARRIER_SYNC, Kind.BARRIER_ARRIVE, Kind.BARRIER_REDUCE):
            number = 1 if row[KIND] == Kind.BARRIER_REDUCE else 0  # a reduction's destination comes first
            table[pc] = row[OPERANDS], number, -1 if row[EXTRA] & 1 else number + 1
    return table


@functools.cache
def recording() -> int:
    """The address of what records an instruction. The interpreter finds it in a recorder's table: without one it need not be
    compiled."""
    return int(_compiled().address)


@functools.cache
def _compiled() -> Any:
    return compiled_for_address("int64(int64, int64, int64, int64, int64, int64, int64)", _record)


def record(recorder: Recorder, warp: int, pc: int, active: int, executing: int, base: int, ctx: int) -> bool:
    """Write down one instruction before it executes, as the interpreter does. ``base``: address of the warp's registers.
    Returns False if the warp must stop first (nothing is written)."""
    return bool(_compiled().ctypes(recorder.address, warp, pc, active, executing, base, ctx))


@inlined
def _word(log, place):
    return load_i64(log + 8 * place)


@inlined
def count_parting(log, pc):
    """A jump that all active threads execute sends some of them elsewhere: by its second predicate, or by their registers."""
    as_i64(_word(log, COUNTS) + 8 * _COUNTS * pc)[3] += 1


def _record(log, w, pc, active, executing, base, ctx):
    again, pc = pc >> 24, pc & 0xFFFFFF  # of machine code, as tcsim.execute.groups has it: AGAIN, or lanes taken along
    used, length, room = as_i64(_word(log, USED) + 16 * w), _word(log, LENGTH), _word(log, ROOM)
    position, at = used[0], used[1]
    if position >= length or at + MAX_WORDS > room:
        return np.int64(0)
    if load_u8(_word(log, TIMED) + pc):
        permits, now = as_i64(_word(log, PERMITS)), as_i64(_word(log, NOW) + 16 * w)
        if permits[w] == 0:
            return np.int64(0)
        permits[w] -= 1
        store_i64(ctx + 8 * CLOCK, now[0])
        store_i64(ctx + 8 * GLOBAL_TIMER, now[1])
    place = 4 * (w * length + position)
    as_i32(_word(log, PCS) + place)[0] = pc
    as_u32(_word(log, EXECUTING) + place)[0] = executing
    if _word(log, ACTIVE):
        as_u32(_word(log, ACTIVE) + place)[0] = active
    used[0] = position + 1
    counts = as_i64(_word(log, COUNTS) + 8 * _COUNTS * pc)
    counts[0] += 1
    counts[1] += popcount(np.uint32(active))
    counts[2] += popcount(np.uint32(executing))
    counts[3] += executing != 0 and executing != active
    if again & 0x80:
        counts[4] += 1
        counts[5] += popcount(np.uint32(executing))
    elif again & 0x40:
        counts[5] += again & 0x3F
    access = _word(log, ACCESSES) + 4 * COLUMNS * pc
    words = _word(log, WORDS) + 8 * w * room
    described = np.int64(-1)
    if executing:
        if as_i32(access)[SPACE] >= 0:
            described = describe(words, at, access, _word(log, TILES), _word(log, POOL), base, np.uint32(executing), ctx)
            if _signals(log, pc):  # an access that signals an mbarrier object, too
                described = _signal(log, words, pc, described, base, executing, ctx)
        elif as_i32(_word(log, BARRIERS) + 12 * pc)[0] >= 0:
            described = _describe_barrier(log, as_i64(words), pc, at, base, np.uint32(executing))
        elif _signals(log, pc):
            described = _signal(log, words, pc, at, base, executing, ctx)
    as_i32(_word(log, PAYLOAD) + place)[0] = at if described >= 0 else -1
    if described >= 0:
        used[1] = described
    return np.int64(1)


@inlined
def _signals(log, pc):
    return as_i32(_word(log, SIGNALS) + 4 * SIGNAL_COLUMNS * pc)[0] >= 0


@compiled
def _describe_barrier(log, words, pc, at, base, executing):
    barrier = as_i32(_word(log, BARRIERS) + 12 * pc)
    operands = as_i32(_word(log, POOL) + barrier[0])
    for column in range(2):
        place = barrier[1 + column]
        words[at + column] = 0 if place < 0 else _first_value(base + operands[place], executing)
    if barrier[2] >= 0 and operands[barrier[1]] == operands[barrier[2]]:  # one register for both
        words[at] &= 0xF
        words[at + 1] >>= 16
    return at + 2


@inlined
def _signal(log, words, pc, start, base, executing, ctx):
    row = _word(log, SIGNALS) + 4 * SIGNAL_COLUMNS * pc
    return call(_word(log, DESCRIBER), (words, start, row, _word(log, POOL), base, executing, ctx))


@compiled
def _first_value(plane, lanes):
    """The value that the lowest of ``lanes`` has in a plane."""
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            return np.int64(as_u32(plane)[lane])
    return np.int64(0)
