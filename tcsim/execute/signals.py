"""What asynchronous instructions of machine code tell the timing model: which mbarrier objects they signal or wait for, and
where bulk and tensor copies go.

Computed, like where memory instructions go (:mod:`tcsim.execute.accesses`), just before the instruction executes, in timed
runs.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.arith.stack import stack_array
from isa.compiled import compiled, compiled_for_address
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64
from isa.machine import CLUSTER, CLUSTER_SIZE, GENERIC, SHARED, WINDOW_BITS, locate
from isa.mbarrier import is_complete
from isa.program import OPERANDS, Program
from isa.tma.geometry import ADDRESS, BOX, DIM, IM2COL, INTERLEAVE, PIXELS, SIZE, STEP, STRIDE, WORDS, read_map
from isa.tma.geometry import RANK as MAP_RANK
from isa.tma.walk import box_bytes

__all__ = ["COPY_WORDS", "SIGNAL_COLUMNS", "Signal", "describer", "signal_table"]


class Signal:
    """What an instruction does, the first word of its payload.

    To mbarrier objects, with payload [what, n, then for each of n: address, value]: give one its first value; so many arrivals;
    expect bytes; take note of bytes; expect bytes and arrive once; arrivals without others in later phases, and that after
    expecting bytes; arrive when the thread's copies have landed; wait for the phase of a parity (-1: it has been found under
    way, and the warp goes on).

    Copies: a block or a box to shared memory, to device memory, added to device memory, or to another CTA's shared memory. The
    payload has COPY_WORDS: [what, mask of the CTAs that get it, address in shared memory, address of the mbarrier object,
    bytes that it counts, address in device memory, bytes of a row, rows in four dimensions, bytes from one to the next in
    each].
    """

    INIT, ARRIVE, EXPECT, COMPLETE, EXPECT_ARRIVE, DROP, EXPECT_DROP, COPIES, WAIT = range(9)
    LOAD, STORE, ADD, MOVE = range(9, 13)


COPY_WORDS = 15
INIT, ARRIVE, EXPECT, COMPLETE, DROP = Signal.INIT, Signal.ARRIVE, Signal.EXPECT, Signal.COMPLETE, Signal.DROP
COPIES, WAIT, LOAD, STORE, ADD, MOVE = Signal.COPIES, Signal.WAIT, Signal.LOAD, Signal.STORE, Signal.ADD, Signal.MOVE

# Columns of the table. AT: of the operand row, bytes. ADDRESS_AT: place in it of an mbarrier's address. SCALE, UNIFORM: as of
# MemoryAccess. VALUE: place of the value. HIGH: the address is the upper word of a pair. ALWAYS: the value, where it has no
# place. Of copies DIMENSIONS of the box, 0 for a block; CAST: it goes to several CTAs.
WHAT, AT, ADDRESS_AT, SCALE, UNIFORM, VALUE, HIGH, ALWAYS, DIMENSIONS, CAST = range(10)
SIGNAL_COLUMNS = 10

_ARRIVALS = {"A1T0": ARRIVE, "ART0": ARRIVE, "A0TR": EXPECT, "A0TX": COMPLETE}
_BLOCKS = {"UBLKCP.S.G": LOAD, "UBLKCP.G.S": STORE, "UBLKCP.S.S": MOVE, "UBLKRED.G.S": ADD, "UBLKRED.S.S": MOVE}
_BOXES = {"UTMALDG": LOAD, "UTMASTG": STORE, "UTMAREDG": ADD}


def signal_table(program: Program) -> NDArray[np.int32]:
    """The asynchronous instructions of a program of machine code, int32 [n, 10]; WHAT is -1 for all others."""
    table = np.full((len(program), SIGNAL_COLUMNS), -1, np.int32)
    for pc, opcode in enumerate(program.opcodes) if program.control else ():
        words, access = opcode.split("."), program.memory[pc]
        row = table[pc]
        row[AT] = program.code[pc, OPERANDS]
        row[HIGH], row[ALWAYS] = 0, 1
        if access is not None and access.kind == "mbarrier":
            row[WHAT] = _what(words)
            row[ADDRESS_AT], row[SCALE], row[UNIFORM] = access.operand, access.scale, access.uniform
            if row[WHAT] != COPIES and "A1T0" not in words:
                row[VALUE] = access.operand + 2 + access.uniform
        elif access is not None and access.kind.startswith("async_"):
            row[WHAT], row[ADDRESS_AT], row[SCALE], row[UNIFORM] = COMPLETE, access.operand, 1, 0
            row[HIGH], row[ALWAYS] = 1, access.size
        elif ".".join(words[:3]) in _BLOCKS:
            row[WHAT], row[DIMENSIONS], row[CAST] = _BLOCKS[".".join(words[:3])], 0, "MULTICAST" in words
        elif words[0] in _BOXES:
            row[WHAT], row[DIMENSIONS], row[CAST] = _BOXES[words[0]], int(words[1][0]), "MULTICAST" in words
    return table


def _what(words: list[str]) -> int:
    if words[0] == "ARRIVES":
        return COPIES
    if words[1] != "ARRIVE":
        return INIT if words[1] == "EXCH" else WAIT
    what = next((_ARRIVALS[word] for word in words if word in _ARRIVALS), Signal.EXPECT_ARRIVE)
    if "OPTOUT" in words:
        return {ARRIVE: DROP, Signal.EXPECT_ARRIVE: Signal.EXPECT_DROP}.get(what, what)
    return what


def describer() -> int:
    """The address of what appends the payload of one instruction to a warp's words and returns the position behind it: int64
    (address of the words, where it starts, address of the instruction's row of the table, operand pool, register block,
    executing lanes, ctx). Compiled code calls it, so that a program without such instructions need not have it compiled."""
    return int(_compiled().address)


@functools.cache
def _compiled() -> Any:
    return compiled_for_address("int64(int64, int64, int64, int64, int64, int64, int64)", _describe_signal)


def _describe_signal(words, start, row, pool, base, executing, ctx):
    return describe_signal(as_i64(words), start, as_i32(row), pool, base, np.uint32(executing), ctx)


@compiled
def describe_signal(words, start, row, pool, base, executing, ctx):
    operands = as_i32(pool + row[AT])
    if row[WHAT] >= LOAD:
        return _describe_copy(words, start, row, operands, base, executing, ctx)
    words[start] = row[WHAT]
    words[start + 1] = 0
    at = start + 2
    low = as_u32(base + operands[row[ADDRESS_AT]] + 128 * row[HIGH])
    for lane in range(32):
        if not (executing >> np.uint32(lane)) & np.uint32(1):
            continue
        address = np.int64(low[lane]) * row[SCALE] + (0 if row[HIGH] else operands[row[ADDRESS_AT] + 1])
        if row[UNIFORM]:
            address += np.int64(as_u32(base + operands[row[ADDRESS_AT] + 2])[lane])
        address &= np.int64(0xFFFF_FFFF)
        value = np.int64(row[ALWAYS])
        if row[VALUE] >= 0:
            plane = base + operands[row[VALUE]]
            value = np.int64(as_u32(plane)[lane])
            if row[WHAT] == INIT:
                value |= np.int64(as_u32(plane + 128)[lane]) << np.int64(32)
        if row[WHAT] == WAIT:
            value = _awaited(ctx, address, value, lane)
        if at > start + 2 and words[at - 2] == address and row[WHAT] in (ARRIVE, EXPECT, COMPLETE, DROP, COPIES):
            words[at - 1] += value
        elif at == start + 2 or row[WHAT] != WAIT:
            words[at], words[at + 1] = address, value
            words[start + 1] += 1
            at += 2
        elif words[at - 1] < 0 and value >= 0:  # of several, one whose phase has ended
            words[at - 2], words[at - 1] = address, value
    return at


@compiled
def _awaited(ctx, address, value, lane):
    """The parity that a lane waits for, or -1 if that phase is still under way."""
    phase = value >> np.int64(31)
    host = locate(ctx, SHARED, address, 8, lane)
    return phase if host != 0 and is_complete(host, np.uint32(phase)) else np.int64(-1)


@compiled
def _describe_copy(words, start, row, operands, base, executing, ctx):
    lane = 0
    while not (executing >> np.uint32(lane)) & np.uint32(1):
        lane += 1
    for index in range(start, start + COPY_WORDS):
        words[index] = 0
    words[start] = row[WHAT]
    if row[DIMENSIONS]:
        _describe_box(words, start, row, operands, base, lane, ctx)
    else:
        _describe_block(words, start, row, operands, base, lane)
    if row[CAST] <= 0:  # to the CTA that its address names
        words[start + 1] = np.int64(1) << (words[start + 2] >> np.int64(WINDOW_BITS) & np.int64(15))
    words[start + 1] &= (np.int64(1) << load_i64(load_i64(ctx + 8 * CLUSTER) + 8 * CLUSTER_SIZE)) - 1
    return start + COPY_WORDS


@compiled
def _word(operands, position, base, lane):
    return np.int64(as_u32(base + operands[position])[lane])


@compiled
def _pair(operands, position, base, lane):
    return _word(operands, position, base, lane) | np.int64(as_u32(base + operands[position] + 128)[lane]) << np.int64(32)


@compiled
def _describe_block(words, start, row, operands, base, lane):
    """Registers: places in shared memory (the data, then the mbarrier), the place in device memory, the size."""
    if row[WHAT] in (STORE, ADD):
        words[start + 2] = _word(operands, 1, base, lane)
        words[start + 5] = _pair(operands, 0, base, lane)
        size = _word(operands, 2, base, lane)
    else:
        words[start + 2], words[start + 3] = _word(operands, 0, base, lane), _word(operands, 1, base, lane)
        if row[WHAT] == LOAD:
            words[start + 5] = _pair(operands, 2, base, lane)
        size = _word(operands, 3, base, lane)
    if row[CAST]:
        words[start + 1] = size >> np.int64(16)
    words[start + 4] = words[start + 6] = (size & np.int64(0xFFFF)) << np.int64(4)
    for index in range(4):
        words[start + 7 + index] = 1


@compiled
def _describe_box(words, start, row, operands, base, lane, ctx):
    """Registers: places in shared memory, coordinates; the map; the CTAs. Only what is inside the tensor moves. Pixels of a
    convolution count as neighbours."""
    dimensions, before = row[DIMENSIONS], 2 if row[WHAT] == LOAD else 1
    words[start + 2] = _word(operands, 0, base, lane)
    if row[WHAT] == LOAD:
        words[start + 3] = _word(operands, 1, base, lane)
    where = _pair(operands, before + dimensions, base, lane)
    if row[CAST]:
        words[start + 1] = _word(operands, before + dimensions + 1, base, lane) >> np.int64(16)
    g = stack_array(WORDS, np.int64)
    host = locate(ctx, GENERIC, where, 64, lane)
    if host == 0 or not read_map(host, g) or g[MAP_RANK] != dimensions:
        return  # the instruction itself will tell
    size = np.int64(16) << (g[INTERLEAVE] - 1) if g[INTERLEAVE] else g[SIZE]
    words[start + 4] = box_bytes(g)[0]
    words[start + 5] = g[ADDRESS]
    for index in range(4):
        words[start + 7 + index] = 1
    for index in range(dimensions):
        at = np.int64(np.int32(_word(operands, before + index, base, lane)))
        step = g[STEP + index] if index or g[INTERLEAVE] else np.int64(1)
        count = (g[BOX + index] + step - 1) // step
        low = min(count, max(np.int64(0), (-at + step - 1) // step))
        high = max(low, min(count, (g[DIM + index] - at + step - 1) // step))
        stride = g[STRIDE + index] if index else size
        words[start + 5] += (at + low * step) * stride
        if index:
            words[start + 6 + index] = high - low
            words[start + 10 + index] = step * stride
        else:
            words[start + 6] = (high - low) * size
    if g[IM2COL]:
        words[start + 7], words[start + 11] = g[PIXELS], g[STRIDE + 1]
