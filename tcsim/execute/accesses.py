"""Where a memory instruction goes: the sectors of device memory it touches, the wavefronts it takes in shared memory.

Computed from the address registers just before the instruction executes, in timed runs only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.arith.stack import stack_array
from isa.compiled import compiled
from isa.kernels.planes import as_i32, as_i64, as_u32, load_i64
from isa.lower.copies import BYTES, CLEAR, CopyAccess
from isa.machine import (
    GENERIC,
    GLOBAL,
    LOCAL,
    LOCAL_DEVICE,
    LOCAL_SIZE,
    LOCAL_WINDOW,
    PARAM,
    RANK,
    SHARED,
    SHARED_BITS,
    SHARED_WINDOW,
    WARP,
    WINDOW_BITS,
)
from isa.program import OPERANDS, Program
from tcsim.execute.banks import are_in_a_row, busiest_bank, load_wavefronts_of, wavefronts_of
from tcsim.execute.barriers import popcount

__all__ = ["COLUMNS", "MAX_WORDS", "PEERS", "SPACE", "access_table", "constant_address", "describe", "tile_table"]

SECTOR_BITS, LINE_BITS = 5, 7
MAX_WORDS = 8 * 67
"""Payload words that one instruction can need: a tile of eight registers, each touching up to two sectors a lane."""

# Columns of the access table. TILE: row of the tile table, or -1. SCALE, UNIFORM: as of MemoryAccess. WHAT: see below. READING,
# HOW: as of CopyAccess.
SPACE, SIZE, OPERAND, PLANES, SECOND, SECOND_PLANES, ROWS, ROW_AT, TILE, SCALE, UNIFORM, WHAT, READING, HOW = range(14)
COLUMNS = 14

LOAD, STORE, ATOMIC, MATRIX, CONSTANT = range(5)
"""What an access does, as far as its wavefronts differ."""

PEERS = 31
"""Word of the ctx table (:mod:`isa.machine`): address of the numbers of the SMs that the CTAs of the cluster are on, int64 by
rank. Only timed runs of clusters have it."""

# Columns of the tile table; then the steps of rows and, MAX_STEPS further, of columns.
T_REGISTERS, T_ELEMENTS, T_BITS, T_ROW_MAJOR, T_STRIDE_OPERAND, T_STRIDE, T_COUNT, T_STEPS = range(8)
MAX_STEPS = 16
TILE_COLUMNS = T_STEPS + 2 * MAX_STEPS


def access_table(program: Program) -> NDArray[np.int32]:
    """The memory accesses of a program as integers, int32 [n, COLUMNS]; SPACE is -1 where there is none."""
    table = np.full((len(program.code), COLUMNS), -1, np.int32)
    tiles = 0
    for pc, access in enumerate(program.memory):
        if access is None or access.kind == "mbarrier":
            continue
        table[pc, :TILE] = (
            access.space,
            access.size,
            access.operand,
            access.planes,
            access.second_operand,
            access.second_planes,
            access.rows,
            program.code[pc, OPERANDS],
        )
        table[pc, SCALE:READING] = access.scale, access.uniform, _what(access.kind)
        if isinstance(access, CopyAccess):
            table[pc, READING:] = access.reading, access.how
        if access.kind.startswith("async_"):  # of the address's two words, the first
            table[pc, SPACE], table[pc, PLANES] = SHARED, 1
        if access.tile is not None:
            table[pc, TILE] = tiles
            tiles += 1
    for pc, opcode in enumerate(program.opcodes):
        if program.image is not None and opcode.startswith("LDC") and program.reads[pc]:
            position, _, _ = constant_address(program, pc)
            size, row = 8 if "64" in opcode.split(".") else 4, program.code[pc, OPERANDS]
            table[pc, : WHAT + 1] = PARAM, size, position, 1, -1, 0, 32, row, -1, 1, 0, CONSTANT
    return table


def constant_address(program: Program, pc: int) -> tuple[int, int, int]:
    """Of an LDC or ULDC of machine code: the position of its address in its operand row, behind what it writes; the plane of
    its base register and its offset in the image of constants."""
    position = 2 if "64" in program.opcodes[pc].split(".") else 1
    first = int(program.code[pc, OPERANDS]) // 4 + position
    base, offset = program.pool[first : first + 2].tolist()
    return position, base, offset


def _what(kind: str) -> int:
    if kind.startswith("matrix"):
        return MATRIX
    return STORE if "store" in kind or kind == "copy" else ATOMIC if kind.endswith("atomic") else LOAD


def tile_table(program: Program) -> NDArray[np.int64]:
    """The element patterns of wmma loads and stores, int64 [tiles, 8 + 2 * MAX_STEPS]."""
    rows = []
    for access in program.memory:
        if access is not None and access.tile is not None:
            tile = access.tile
            row = np.zeros(TILE_COLUMNS, np.int64)
            row[:T_STEPS] = (
                tile.registers,
                tile.elements,
                tile.bits,
                tile.row_major,
                tile.stride_operand,
                tile.packed_stride,
                len(tile.row_steps),
            )
            row[T_STEPS : T_STEPS + len(tile.row_steps)] = tile.row_steps
            row[T_STEPS + MAX_STEPS : T_STEPS + MAX_STEPS + len(tile.column_steps)] = tile.column_steps
            rows.append(row)
    return np.array(rows) if rows else np.zeros((0, TILE_COLUMNS), np.int64)


@compiled
def describe(words, start, row, tiles, pool, base, executing, ctx):
    """Append the payload of one instruction to a warp's words; returns the position behind it. All but ``start`` and
    ``executing`` (uint32, lanes) are addresses: of the words, of the instruction's row of the access table, of the tile table,
    of the operand pool, of the warp's registers, of the ctx table.

    For shared memory [wavefronts, -1], or of another CTA of the cluster [wavefronts, -2 - its SM]; for device memory [sectors,
    detail, sector address / 32, ...], where the detail is of a load the wavefronts it takes if it hits the L1, of a store
    how many bytes it stores if it leaves some of its sectors' alone, else 0, of an atomic the most lanes on one word, of a
    load of constants, whose addresses are places in their image, how many differ. Behind the sectors of an atomic stands for
    each of them the most lanes on one of its words. A copy has both parts, shared first; its detail is the number of its
    requests past the L1, which follow (:func:`_requests`; 0: not described). A tile has one part per register.
    """
    words, row = as_i64(words), as_i32(row)
    addresses = as_i64(stack_array(32, np.int64).ctypes.data)
    targets = as_i64(stack_array(32, np.int64).ctypes.data)
    operands = as_i32(pool + row[ROW_AT])
    if row[SECOND] >= 0:
        _addresses(targets, row[SECOND], row[SECOND_PLANES], operands, base)
        start = _append(words, start, targets, executing, np.int64(row[SIZE]), np.int64(SHARED), np.int64(STORE), ctx)
    _addresses(addresses, row[OPERAND], row[PLANES], operands, base)
    if row[SCALE] > 1 or row[UNIFORM]:
        _complete(addresses, row, operands, base)
    if row[TILE] < 0:
        lanes = executing if row[ROWS] >= 32 else executing & np.uint32((np.int64(1) << row[ROWS]) - 1)
        if row[READING] >= 0:
            lanes = lanes & _reading(row[HOW], as_u32(base + operands[row[READING]]))
        if row[SECOND] >= 0:
            what = np.int64(LOAD)
        else:
            what = np.int64(row[WHAT])
        end = _append(words, start, addresses, np.uint32(lanes), np.int64(row[SIZE]), np.int64(row[SPACE]), what, ctx)
        if row[SECOND] >= 0:
            words[start + 1] = 0
            if row[SIZE] == 16:
                end = _requests(words, start, end, addresses, targets, np.uint32(lanes))
        return end
    tile = as_i64(tiles + 8 * TILE_COLUMNS * row[TILE])
    return _append_tile(words, start, row, tile, addresses, base, operands, executing, ctx)


@compiled
def _requests(words, start, end, addresses, targets, lanes):
    """Append to a part of a copy of 16 bytes a lane the sectors its tags count and its requests past the L1, each line << 4 |
    sectors of it; returns the position behind them.

    A request brings what goes to one line of 128 bytes of shared memory. A sector that does not go to an aligned place there is
    asked for twice, once for each half, and counted for each of the two places that it partly fills. (Nsight Compute on an
    H200: rows of 32, 64, 128 and 512 bytes at pitches of 32 to 272 bytes, sectors and requests exact; in
    ``tcsim.timing.l2`` those for the same sectors become one.)
    """
    if end == start + 2:
        return end
    places = as_i64(stack_array(32, np.int64).ctypes.data)
    count = np.int64(0)
    askew = False
    for lane in range(32):
        if not (lanes >> np.uint32(lane)) & np.uint32(1):
            continue
        line, place = addresses[lane] >> LINE_BITS, (targets[lane] >> LINE_BITS) * 4
        if (addresses[lane] ^ targets[lane]) & 16:
            askew = True
            place += 1 + (addresses[lane] >> 4 & 1)
        sector = np.int64(1) << (addresses[lane] >> SECTOR_BITS & 3)
        at = count - 1
        while at >= 0 and (places[at] != place or words[end + 1 + at] >> 4 != line):
            at -= 1
        if at < 0:
            places[count] = place
            words[end + 1 + count] = line << 4 | sector
            count += 1
        else:
            words[end + 1 + at] |= sector
    words[start + 1] = count
    words[end] = _filled(addresses, targets, lanes) if askew else words[start]
    return end + 1 + count


@compiled
def _filled(addresses, targets, lanes):
    """The sectors of shared memory that are filled, counted again for each line that they are filled from."""
    count = np.int64(0)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            count += 1
            for other in range(lane):
                if (
                    (lanes >> np.uint32(other)) & np.uint32(1)
                    and addresses[other] >> LINE_BITS == addresses[lane] >> LINE_BITS
                    and targets[other] >> SECTOR_BITS == targets[lane] >> SECTOR_BITS
                ):
                    count -= 1
                    break
    return count


@compiled
def _append_tile(words, start, row, tile, addresses, base, operands, executing, ctx):
    """The parts of a tile's payload, one for each register."""
    stride = tile[T_STRIDE]
    if tile[T_STRIDE_OPERAND] >= 0:
        stride = np.int64(as_u32(base + operands[tile[T_STRIDE_OPERAND]])[0])
    size = max(4, tile[T_ELEMENTS] * tile[T_BITS] // 8)
    places = as_i64(stack_array(32, np.int64).ctypes.data)
    for register in range(tile[T_REGISTERS]):
        for lane in range(32):
            index = (register * 32 + lane) * tile[T_ELEMENTS]
            places[lane] = addresses[lane] + _tile_offset(tile, index, stride)
        start = _append(words, start, places, executing, np.int64(size), np.int64(row[SPACE]), np.int64(row[WHAT]), ctx)
    return start


@compiled
def _reading(how, place):
    """The lanes of a copy that read what it is from."""
    if how != BYTES:
        return ~place[0] if how == CLEAR else place[0]
    lanes = np.uint32(0)
    for lane in range(32):
        if place[lane]:
            lanes |= np.uint32(1) << np.uint32(lane)
    return lanes


@compiled
def _tile_offset(tile, index, stride):
    """Bytes from the start of a tile to an element."""
    r = c = 0
    for position in range(tile[T_COUNT]):
        if (index >> position) & 1:
            r += tile[T_STEPS + position]
            c += tile[T_STEPS + MAX_STEPS + position]
    elements = r * stride + c if tile[T_ROW_MAJOR] else c * stride + r
    return elements * tile[T_BITS] // 8


@compiled
def _addresses(addresses, operand, planes, operands, base):
    """The address of every lane, from its base register and offset."""
    low = as_u32(base + operands[operand])
    high = as_u32(base + operands[operand] + (128 if planes == 2 else 0))
    for lane in range(32):
        address = np.int64(low[lane])
        if planes == 2:
            address |= np.int64(high[lane]) << np.int64(32)
        addresses[lane] = address + np.int64(operands[operand + 1])


@compiled
def _complete(addresses, row, operands, base):
    """Turn ``base + offset`` into ``base * scale + uniform + offset``, in 32 bits unless the base has two planes."""
    low = as_u32(base + operands[row[OPERAND]])
    more = as_u32(base + (operands[row[OPERAND] + 2] if row[UNIFORM] else operands[row[OPERAND]]))
    for lane in range(32):
        address = addresses[lane] + (row[SCALE] - 1) * np.int64(low[lane])
        if row[UNIFORM]:
            address += np.int64(more[lane])
        addresses[lane] = address if row[PLANES] == 2 else address & np.int64(0xFFFF_FFFF)


@compiled
def _append(words, start, addresses, lanes, size, space, what, ctx):
    """One part of a payload: what ``lanes`` touch at ``addresses`` with ``size`` bytes each."""
    owner = np.int64(0)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            address = addresses[lane]
            if space == GENERIC:
                window = address >> np.int64(WINDOW_BITS)
                if address >> np.int64(SHARED_BITS) == np.int64(SHARED_WINDOW >> SHARED_BITS):
                    space = np.int64(SHARED)
                elif window == np.int64(LOCAL_WINDOW >> WINDOW_BITS):
                    space = np.int64(LOCAL)
                else:
                    space = np.int64(GLOBAL)
            if space == SHARED:
                owner = address
                addresses[lane] = address & np.int64((1 << WINDOW_BITS) - 1)
            elif space == LOCAL:
                # Threads' words of local memory are interleaved, so that a warp's accesses to one variable coalesce.
                offset = address & np.int64((1 << WINDOW_BITS) - 1)
                warp = load_i64(ctx + 8 * LOCAL_DEVICE) + load_i64(ctx + 8 * WARP) * 32 * load_i64(ctx + 8 * LOCAL_SIZE)
                addresses[lane] = warp + (offset >> 2) * 128 + lane * 4
    rows = max(np.int64(1), size // 4) if space == LOCAL else np.int64(1)
    each = size // rows
    run = are_in_a_row(addresses, lanes, each)
    if space == SHARED:
        if what == ATOMIC:
            words[start] = busiest_bank(addresses, lanes)
        elif run:
            words[start] = max(np.int64(1), size // 4)
        elif what == LOAD:
            words[start] = load_wavefronts_of(addresses, lanes, size)
        else:
            words[start] = wavefronts_of(addresses, lanes, size)
        words[start + 1] = _whose(owner, ctx)
        return start + 2
    if run:
        end = _run_of_sectors(words, start, addresses[0], 32 * size)
    else:
        end = _sectors(words, start, addresses, lanes, each, rows)
    if what == ATOMIC:
        words[start + 1], end = _busiest_words(words, start, addresses, lanes)
    elif what == CONSTANT:
        words[start + 1] = _different(addresses, lanes)
    elif what == LOAD:
        words[start + 1] = max(np.int64(1), size // 4) if run else rows * load_wavefronts_of(addresses, lanes, each)
    else:
        stored = popcount(lanes) * size
        words[start + 1] = stored if stored < 32 * words[start] else 0
    return end


@compiled
def _whose(address, ctx):
    """The mark of an access to shared memory: -1, or -2 - n of that of a CTA on SM n."""
    peers, rank = load_i64(ctx + 8 * PEERS), (address >> np.int64(WINDOW_BITS)) & np.int64(15)
    if peers == 0 or rank == load_i64(ctx + 8 * RANK):
        return np.int64(-1)
    return np.int64(-2) - load_i64(peers + 8 * rank)


@compiled
def _sectors(words, start, addresses, lanes, size, rows):
    """The distinct 32-byte sectors of an access, those of a line together, behind a word for the detail. ``rows``: each lane
    accesses ``size`` bytes in so many lines one after another, as those of local memory are."""
    count = 0
    for place in range(32 * rows):
        lane = place % 32
        if not (lanes >> np.uint32(lane)) & np.uint32(1):
            continue
        first = addresses[lane] + (place // 32 << LINE_BITS)
        for sector in range(first >> SECTOR_BITS, ((first + size - 1) >> SECTOR_BITS) + 1):
            known = False
            behind = count
            for earlier in range(count, 0, -1):  # neighbours share sectors: look back from the latest
                other = words[start + 1 + earlier]
                if other == sector:
                    known = True
                    break
                if behind == count and other >> 2 == sector >> 2:
                    behind = earlier
            if not known:
                for later in range(count, behind, -1):
                    words[start + 2 + later] = words[start + 1 + later]
                words[start + 2 + behind] = sector
                count += 1
    words[start] = count
    return start + 2 + count


@compiled
def _run_of_sectors(words, start, address, size):
    """The same of ``size`` bytes without gaps."""
    first = address >> SECTOR_BITS
    count = (address + size - 1 >> SECTOR_BITS) - first + 1
    words[start] = count
    for index in range(count):
        words[start + 2 + index] = first + index
    return start + 2 + count


@compiled
def _different(addresses, lanes):
    """How many different addresses there are."""
    count = 0
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            count += 1
            for other in range(lane):
                if (lanes >> np.uint32(other)) & np.uint32(1) and addresses[other] == addresses[lane]:
                    count -= 1
                    break
    return count


@compiled
def _busiest_words(words, start, addresses, lanes):
    """The most lanes on one word; appends for each sector of the part at ``start`` the most on one of its words, and returns
    where these end, too."""
    count = words[start]
    for index in range(count):
        words[start + 2 + count + index] = 0
    most = 0
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            same = 0
            for other in range(lane, 32):
                if (lanes >> np.uint32(other)) & np.uint32(1) and addresses[other] >> 2 == addresses[lane] >> 2:
                    same += 1
            most = max(most, same)
            for index in range(count):
                if words[start + 2 + index] == addresses[lane] >> SECTOR_BITS:
                    place = start + 2 + count + index
                    words[place] = max(words[place], same)
    return most, start + 2 + 2 * count
