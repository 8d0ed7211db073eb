"""What the checker keeps about a launch, as tables of 64-bit words that compiled hooks reach through the machine's ctx.

**Stamps.** One counter for the whole launch, raised at every event that orders accesses (a barrier opens, a warp
synchronises, a fence). An access is stamped with the counter's value. A thread *knows* an earlier access of another thread if
some event ordered the one before the other; knowledge is kept as the largest stamp known.

**Agents.** A warp of the grid: CTA number * warps per CTA + warp. Knowledge inside a warp is kept lane by lane, knowledge of
other warps per warp that knows and thread that is known. What one lane learns about other warps its whole warp is taken to
know. That can hide a race (a missing ``__syncwarp`` behind one lane's wait), never invent one.

**Cells.** Per granule of shared memory, and of global memory: the last write, and the last reads by two different warps. A
granule is the smallest access that the kernel makes to that space, so no two accesses overlap in part of one.
"""

from __future__ import annotations

from isa.machine import WORDS

__all__ = ["CELL_WORDS", "CHECKER", "FINDING_WORDS"]

CHECKER = WORDS - 1
"""Word of the ctx table: address of the CTA's checker table (words ``T_*``)."""

# The checker table of a CTA slot, int64. Addresses unless said otherwise.
T_GRID = 0  # the table of the launch
T_WARPS, T_CTA, T_BEGIN, T_FLOOR = 1, 2, 3, 4
# numbers: warps of a CTA; the CTA in the slot; the stamp at its start; up to which stamp all its threads know all others
T_LANES = 5  # uint32 [warp, 32, 32]: what a lane knows of another of its warp
T_WARP_FLOOR = 6  # int64 [warp]: up to which stamp all lanes of a warp know each other
T_OTHERS = 7  # uint32 [warp, thread]: what a warp knows of the threads of other warps
T_CELLS, T_SHARED_BITS, T_SHARED_SIZE = 8, 9, 10  # uint32 [granule, CELL_WORDS]; numbers: granule = 1 << bits, bytes
T_LIVE = 11  # uint32 [warp], the executor's
T_ARRIVED, T_NEEDED, T_PHASE = 12, 13, 14  # of CTA barriers: uint32 [16, warp], int64 [16], int64 [16]
T_GATHERED = 15  # uint32 [16, PHASES, thread]: what those who arrived at a barrier knew
T_MY_PHASE = 16  # int64 [16, warp]
T_OPEN, T_DONE, T_WAITED = 17, 18, 19  # of copies, per thread: int64 [thread] open group, last group waited for;
# uint32 [thread, RING] the stamp of that wait
T_LOCAL, T_LOCAL_SIZE = 20, 21  # uint8 [thread, bytes]: which bytes of local memory were written; number
T_WRITTEN = 22  # uint8 [warp, tracked registers, 32]: which lanes have written a register that may be read before
T_NUMERIC = 23  # uint32 [warp, KEPT, 32]: accumulators before a matrix instruction
T_PEERS = 24  # int64 [16]: the checker tables of the CTAs of the cluster, by rank
T_RANK = 25  # number: the CTA's rank in its cluster
T_FENCED = 26  # uint32 [thread]: up to which stamp its writes are behind a fence.proxy.async
T_MBARRIERS, T_MBARRIER_COUNT = 27, 28  # int64 [MBARRIERS, MB_WORDS]; number in use
T_MBARRIER_CLOCKS = 29  # uint32 [MBARRIERS, 2, thread + 1]: what those knew who arrived in even and odd phases, or before
T_MBARRIER_WAITED = 30  # uint32 [MBARRIERS, RING, warp, 2]: when a warp was first let through a phase, and which lanes
T_BULK_OPEN, T_BULK_READ, T_BULK_DONE = 31, 32, 33  # of bulk copies from shared memory, per thread: int64 [thread] open group,
# last group known to have read, known to have written
T_BULK_WAITED = 34  # uint32 [thread, 2, RING]: the stamps of those waits
T_PRODUCT_OPEN, T_PRODUCT_DONE = 35, 36  # of wgmma, per warp: int64 [warp] open group, last group waited for
T_PRODUCT_WAITED = 37  # uint32 [warp, RING]
T_PRODUCT_REGISTERS = 38  # int64 [warp, watched register]: the group of the product that it is part of; or JUST_SET
T_GROUP_MASKS, T_GROUP_PLACES = 39, 40  # uint32, int32 [warp, 32], the executor's: lanes of a group, their instruction
T_FENCE_AT = 41  # int64 [warp]: when it, or one that it has met at a barrier, last made a fence for more than its CTA
T_SEEN = 42  # int64 [warp, SEEN, SEEN_WORDS]: the last words set by other CTAs that it has read (tcsim.checking.messages)
T_CLUSTER_PHASE = 43  # int64 [warp, 2]: barriers of the cluster that it has waited for; which lanes have, for the next
T_CLUSTER_STAMPS = 44  # int64 [PHASES], of the CTA of rank 0: when the last threads arrived at a barrier of the cluster
T_WORDS = 46

JUST_SET = -1
"""In place of a group: an ordinary instruction has written the register since the last wgmma.fence."""

# The table of the launch, int64.
G_SEQUENCE, G_FOUND, G_LOST = 0, 1, 2  # numbers: the counter; findings; findings for which there was no room
G_FINDINGS, G_CAPACITY = 3, 4  # int64 [capacity, FINDING_WORDS]; number
G_META, G_POOL, G_TILES = 5, 6, 7  # int32 [instruction, META_WORDS]; the operand pool; int64 tile patterns
G_RELEASED, G_ACQUIRED = 8, 9  # int64 [agent]: the last stamp that was released; the last release it has seen
G_REGIONS, G_REGION_COUNT, G_GLOBAL_BITS = 10, 11, 12  # int64 [n, 4]: start, end, cells, host address; numbers
G_NUMERICS = 13  # int64 [instruction, NUMERIC_WORDS]
G_ARRIVES = 14  # number: 1 if the kernel arrives at barriers without waiting there
G_RELEASED_CTA, G_ACQUIRED_CTA = 15, 16  # int64 [agent]: the same inside a CTA, where narrower fences do
G_WORDS = 18

ONLY_READ = -1
"""In place of the cells of a region: no store of the kernel has an address made of a pointer to it."""

# An mbarrier object: its offset in shared memory; how many phases have ended; the last phases of T_MBARRIER_CLOCKS.
MB_OFFSET, MB_PHASE, MB_EVEN, MB_ODD = 0, 1, 2, 3
MB_WORDS, MBARRIERS = 4, 64

# A cell, uint32. Stamp 0: never. A place is pc << 7 | swap << 6 | strong << 5 | lane. A group is that of an asynchronous write
# or read, whose end a wait tells, as one of the kinds below << GROUP_BITS | number; else 0.
C_WRITE, C_WRITER, C_WRITE_PLACE = 0, 1, 2
C_READ, C_READER, C_READ_PLACE, C_READ_LANES, C_READ_GROUP = 3, 4, 5, 6, 7
C_READ2, C_READER2, C_READ_PLACE2, C_READ_LANES2, C_READ_GROUP2 = 8, 9, 10, 11, 12
C_GROUP = 13  # of the write
C_RELEASE = 14  # of the last strong write: what other CTAs know that read it, all released before this stamp
C_FLOOR = 15  # of the last strong write: up to which stamp its CTA was behind a barrier
CELL_WORDS = 16

GROUP_BITS = 29
COPY, TRANSACTION, BULK, PRODUCT = 1, 2, 3, 4
"""cp.async: number of the thread's group. Told to an mbarrier: number of the object << PHASE_BITS | phase. Bulk copy from
shared memory: number of the thread's group. wgmma: number of the warp's group."""
PHASE_BITS = 22

# What an instruction is to the hooks: the columns of tcsim.execute.accesses.access_table, then:
M_ACTION = 11  # READ, WRITE, or both
M_STRONG = 12  # bits: STRONG (volatile, atomic, scoped), ACQUIRE, RELEASE, SWAP (compare and swap), CTA_SCOPE, DATA
M_DATA, M_DATA_COUNT, M_DATA_BYTES = 13, 14, 15  # of a store: place of its data in the operand row, registers, bytes of each
M_GIVEN, M_GIVEN_KIND = 16, 17  # of a copy: place of its source size (1) or of the predicate to ignore it (2)
M_NUMBER = 18  # an argument of the hook, see tcsim.checking.plan
M_MEMBERS = 19  # plane of the member mask, or -1
M_ROW = 20  # the operand row of the instruction, bytes
META_WORDS = 21

READ, WRITE = 1, 2
STRONG, ACQUIRE, RELEASE, SWAP, ASYNC, CTA_SCOPE, DATA = 1, 2, 4, 16, 32, 64, 128
"""ASYNC: by the asynchronous proxy. CTA_SCOPE: for threads of the same CTA only. DATA: nothing the kernel does depends on
whether the value read is old (:mod:`tcsim.checking.flags`)."""

PHASES, RING, SEEN, SEEN_WORDS = 4, 8, 4, 4

# A finding, int64.
F_KIND, F_COUNT, F_SPACE, F_ADDRESS, F_SIZE, F_PC, F_AGENT, F_LANES = range(8)
F_OTHER_PC, F_OTHER_AGENT, F_OTHER_LANES, F_EXTRA, F_ROLE = range(8, 13)
FINDING_WORDS = 13

# Kinds of findings.
RACE, UNINITIALISED, IN_FLIGHT, DIVERGENT_BARRIER, INACTIVE_SOURCE = 1, 2, 3, 4, 5
PARTIAL_WARP, UNSET_REGISTER, OVERFLOW, STRAY, PROXY, REGISTER = 6, 7, 8, 9, 10, 11

# F_EXTRA of IN_FLIGHT: what was not waited for.
NOT_COMMITTED, COPIES, MBARRIER, BULK_WRITES, BULK_READS, PRODUCTS = 1, 2, 3, 4, 5, 6

# F_ROLE of a race.
WRITE_AFTER_WRITE, WRITE_AFTER_READ, READ_AFTER_WRITE = 1, 2, 3
