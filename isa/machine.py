"""The machine that an instruction sees: memory windows, and a place to report a fault.

An instruction's body gets ``ctx``, the address of a table of 64-bit words. This module defines what stands where (the machine
fills it) and the few questions an instruction may ask: where does this address live on the host, what is the clock. The table
is all that the instruction set and the machine share.

State spaces and generic addressing: PTX ISA 5.1 and 6.4.1.1. The window positions are ours; hardware chooses them per context.
"""

from __future__ import annotations

import numpy as np

from isa.arith.lane import lane
from isa.kernels.planes import load_i64, load_u64, store_i64

__all__ = ["FAULT_NAMES", "SPACES", "WAIT", "WORDS", "YIELD", "clock", "fault", "in_shared", "locate", "shared_of"]

# State spaces as small integers (compile-time constants in bodies).
GLOBAL, SHARED, LOCAL, PARAM, GENERIC = 0, 1, 2, 3, 4
SPACES = {
    "": GENERIC,
    "global": GLOBAL,
    "const": GLOBAL,  # constant variables live in device memory; the window differs only in its cache
    "shared": SHARED,
    "shared::cta": SHARED,
    "shared::cluster": SHARED,  # an address says which CTA's
    "local": LOCAL,
    "param": PARAM,
    "param::entry": PARAM,
}

# Generic windows: a generic address inside one of them belongs to that space, any other to global memory.
WINDOW_BITS = 24
SHARED_WINDOW = 0x7000_0000_0000
LOCAL_WINDOW = 0x7000_4000_0000
PARAM_WINDOW = 0x7000_8000_0000

# An address in shared memory names a CTA of the cluster: its rank in bits 24 and up, as on an H200 (driver 580.159), where in a
# CTA of rank r a variable at offset x has the address r << 24 | x. There is a window for each rank.
SHARED_BITS = 28
WINDOW_BASE = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW, "global": 0, "const": 0}

# Words of the ctx table.
FAULT_CODE, FAULT_LANE, FAULT_ADDRESS, FAULT_SIZE, FAULT_SPACE = 0, 1, 2, 3, 4
SHARED_HOST, SHARED_SIZE = 5, 6
LOCAL_HOST, LOCAL_SIZE = 7, 8  # LOCAL_SIZE: bytes per thread; threads follow each other
PARAM_HOST, PARAM_SIZE = 9, 10
ALLOCATIONS, ALLOCATION_COUNT = 11, 12  # table of (start, end, host address) sorted by start
HINT_START, HINT_END, HINT_HOST = 13, 14, 15  # the allocation found last
WARP = 16  # index of the running warp in its CTA
CLOCK = 17  # %clock64
GLOBAL_TIMER = 18  # %globaltimer, ns
LOCAL_DEVICE = 19  # where the CTA's local memory would be in device memory (for caches; values never go there)
GROUPS = 20  # of machine code: table of the CTA's groups (tcsim.execute.convergence)
CLUSTER = 21  # address of the table of the CTA's cluster (below)
RANK = 22  # rank of the CTA in it
IMPATIENT = 23  # how little waiting helps: 1, nothing else can go on; 2, so waits that may time out do
UNDEFINED = 24  # bits of isa.tensor.undefined: operands without a meaning in the PTX ISA that instructions have met
CONSTANTS, CONSTANT_COUNT = 25, 26  # table of (start, end) of the module's .const variables
WORDS = 32

# Words of the cluster table: how many CTAs, the phase of the cluster's barrier, then a row for each CTA.
CLUSTER_SIZE, CLUSTER_PHASE, CLUSTER_ROWS, CLUSTER_ROW = 0, 1, 8, 8
# Words of a row. Addresses of: shared memory; lanes that have not exited (uint32 per warp); lanes that have arrived at the
# cluster's barrier in its present phase (uint32 per warp); the phase in which each thread arrived last (int32).
ROW_SHARED, ROW_SHARED_SIZE, ROW_LIVE, ROW_WARPS, ROW_ARRIVED, ROW_PHASES = range(6)
MOST_CTAS = 16  # of a cluster (with non-portable sizes, CUDA programming guide)
CLUSTER_WORDS = CLUSTER_ROWS + MOST_CTAS * CLUSTER_ROW

# What a body of a waiting instruction returns besides 0 and fault codes.
WAIT = -10  # not yet: execute this again later, and let others run
YIELD = -11  # done, but let others run first


# Why an instruction stopped its kernel; 0 is "no fault".
OUT_OF_BOUNDS, MISALIGNED, TRAP, BAD_OPERAND, BAD_MBARRIER = 1, 2, 3, 4, 5
FAULT_NAMES = {
    OUT_OF_BOUNDS: "OUT OF BOUNDS",
    MISALIGNED: "MISALIGNED",
    TRAP: "TRAP",
    BAD_OPERAND: "BAD OPERAND",
    BAD_MBARRIER: "MBARRIER MISUSE",
}


@lane
def fault(ctx, code, lane_number, space, address, size):
    """Record a fault and return its code, which the body returns."""
    store_i64(ctx + 8 * FAULT_CODE, np.int64(code))
    store_i64(ctx + 8 * FAULT_LANE, np.int64(lane_number))
    store_i64(ctx + 8 * FAULT_ADDRESS, np.int64(address))
    store_i64(ctx + 8 * FAULT_SIZE, np.int64(size))
    store_i64(ctx + 8 * FAULT_SPACE, np.int64(space))
    return np.int32(code)


@lane
def locate(ctx, space, address, size, lane_number):
    """Host address of ``size`` bytes at ``address`` of a state space for one lane, or 0 after recording a fault.

    Every access must be a multiple of its size (PTX ISA 6.4.1) and lie wholly inside its window or allocation.
    """
    offset = np.int64(address)
    kind = np.int64(space)
    if kind == GENERIC:
        window = offset >> np.int64(WINDOW_BITS)
        if offset >> np.int64(SHARED_BITS) == np.int64(SHARED_WINDOW >> SHARED_BITS):
            kind = np.int64(SHARED)
            offset -= np.int64(SHARED_WINDOW)
        elif window == np.int64(LOCAL_WINDOW >> WINDOW_BITS):
            kind = np.int64(LOCAL)
            offset -= np.int64(LOCAL_WINDOW)
        elif window == np.int64(PARAM_WINDOW >> WINDOW_BITS):
            kind = np.int64(PARAM)
            offset -= np.int64(PARAM_WINDOW)
        else:
            kind = np.int64(GLOBAL)
    if offset & (np.int64(size) - 1):
        fault(ctx, MISALIGNED, lane_number, kind, address, size)
        return np.int64(0)
    if kind == GLOBAL:
        host = _locate_global(ctx, offset, np.int64(size))
    elif kind == SHARED:
        host = _shared(ctx, offset, np.int64(size))
    elif kind == LOCAL:
        host = _window(ctx, LOCAL_HOST, offset, size)
        if host != 0:
            thread = load_i64(ctx + 8 * WARP) * 32 + lane_number
            host += thread * load_i64(ctx + 8 * LOCAL_SIZE)
    else:
        host = _window(ctx, PARAM_HOST, offset, size)
    if host == 0:
        fault(ctx, OUT_OF_BOUNDS, lane_number, kind, address, size)
    return host


@lane
def in_shared(space, address):
    """Whether an address of a state space, generic addresses included, is in shared memory, be it another CTA's."""
    kind = np.int64(space)
    window = np.int64(address) >> np.int64(SHARED_BITS)
    return (kind == SHARED) | ((kind == GENERIC) & (window == np.int64(SHARED_WINDOW >> SHARED_BITS)))


@lane
def shared_of(ctx, rank, offset, size):
    """Host address of ``size`` bytes at ``offset`` of the shared memory of the cluster's CTA ``rank``, or 0."""
    table = load_i64(ctx + 8 * CLUSTER)
    if table == 0 or rank < 0 or rank >= load_i64(table + 8 * CLUSTER_SIZE):
        return np.int64(0)
    row = table + 8 * (CLUSTER_ROWS + CLUSTER_ROW * rank)
    if offset < 0 or offset > load_i64(row + 8 * ROW_SHARED_SIZE) - size:
        return np.int64(0)
    return load_i64(row + 8 * ROW_SHARED) + offset


@lane
def _shared(ctx, address, size):
    rank = address >> np.int64(WINDOW_BITS)
    if rank != load_i64(ctx + 8 * RANK):
        return shared_of(ctx, rank, address & np.int64((1 << WINDOW_BITS) - 1), size)
    return _window(ctx, SHARED_HOST, address & np.int64((1 << WINDOW_BITS) - 1), size)


@lane
def _window(ctx, host_word, offset, size):
    limit = load_i64(ctx + 8 * (host_word + 1))
    if offset < 0 or offset > limit - np.int64(size):  # never offset + size, which could overflow
        return np.int64(0)
    return load_i64(ctx + 8 * host_word) + offset


@lane
def _locate_global(ctx, address, size):
    start = load_i64(ctx + 8 * HINT_START)
    if address >= start and address <= load_i64(ctx + 8 * HINT_END) - size:
        return load_i64(ctx + 8 * HINT_HOST) + (address - start)
    table = load_i64(ctx + 8 * ALLOCATIONS)
    low, high = np.int64(0), load_i64(ctx + 8 * ALLOCATION_COUNT)
    while low < high:  # the last allocation that starts at or below the address
        middle = (low + high) // 2
        if load_i64(table + 24 * middle) <= address:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return np.int64(0)
    row = table + 24 * (low - 1)
    if address > load_i64(row + 8) - size:
        return np.int64(0)
    store_i64(ctx + 8 * HINT_START, load_i64(row))
    store_i64(ctx + 8 * HINT_END, load_i64(row + 8))
    store_i64(ctx + 8 * HINT_HOST, load_i64(row + 16))
    return load_i64(row + 16) + (address - load_i64(row))


@lane
def clock(ctx):
    """``%clock64``: the machine's cycle count, as the machine last set it."""
    return load_u64(ctx + 8 * CLOCK)
