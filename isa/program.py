"""A program: a kernel decoded for an executor, with no trace of the text it came from.

Instructions are rows of integers; registers are planes of a block of 32-bit words; every operand is a byte offset into that
block. Constants and special registers are planes too, filled once by whoever allocates the block. The executor runs programs
and knows no instruction set; PTX makes them today, machine code can tomorrow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from isa.kernels.wrap import KernelSpec
from isa.ptx.ast import Location
from isa.sass.control import ControlBits

if TYPE_CHECKING:  # isa.lower makes programs, so it imports this module
    from isa.lower.ir import Parameter, SymbolRef

__all__ = [
    "COLUMNS",
    "FUNCTION_ADDRESSES",
    "FUNCTION_SPACING",
    "ConstantImage",
    "Kind",
    "MemoryAccess",
    "Program",
    "TilePattern",
]

FUNCTION_ADDRESSES, FUNCTION_SPACING = 0x7100_0000_8000, 8
"""Function number n has the address base + 8 n; numbers start at 1. No memory is there. Machine code reads a word pair of its
constant bank 2 at the low half of such an address to learn where the function is (:mod:`isa.sass.bank`)."""


class Kind:
    """What the executor does with an instruction."""

    KERNEL = 0  # call its compiled kernel for the active lanes
    COLLECTIVE = 1  # gather the member lanes first, then call its kernel
    BRANCH = 2  # to TARGET; RECONVERGE is where both sides meet again
    EXIT = 3
    BARRIER_SYNC = 4
    BARRIER_ARRIVE = 5
    BARRIER_REDUCE = 6
    WARP_SYNC = 7  # gather the member lanes, nothing else
    NOTHING = 8  # ordering that an in-order executor has anyway
    SLEEP = 9  # let other warps run
    BRANCH_INDEXED = 10  # to entry number (first operand) of a table
    CALL = 11  # to TARGET; the instruction before it has put the place behind it into a register
    RETURN = 12  # to where the first operand says
    CALL_INDIRECT = 13  # to the function whose address is the first operand
    HOST_CALL = 14  # one of isa.instructions.control.HOST_FUNCTIONS; operands: return values, then arguments
    WAIT = 15  # call its kernel, which may say that what it waits for has not come (isa.machine.WAIT)
    CONVERGE = 20  # of machine code, as all that follow: wait for the lanes of MEMBERS, then go on together
    BREAK = 21  # leave the lanes of MEMBERS, a convergence barrier (EXTRA: a second guard)
    JUMP = 22  # to the instruction at a code address (first operand) plus a number of instructions (second)
    BRANCH_BOTH = 23  # to TARGET where EXTRA, a second guard, holds too
    BRANCH_DIVERGED = 24  # all to TARGET unless the executing lanes are those of MEMBERS
    BRANCH_CONVERGED = 25  # all to TARGET if the executing lanes are those of MEMBERS

    NAMES: ClassVar[dict[str, int]] = {
        "branch": BRANCH,
        "exit": EXIT,
        "barrier_sync": BARRIER_SYNC,
        "barrier_arrive": BARRIER_ARRIVE,
        "barrier_reduce": BARRIER_REDUCE,
        "warp_sync": WARP_SYNC,
        "nothing": NOTHING,
        "sleep": SLEEP,
        "branch_indexed": BRANCH_INDEXED,
        "roots": BRANCH,
        "enter": NOTHING,
        "call": CALL,
        "return": RETURN,
        "call_indirect": CALL_INDIRECT,
        "host_call": HOST_CALL,
        "wait": WAIT,
    }


# Columns of Program.code (int64).
class Meeting:
    """EXTRA of a CONVERGE instruction: whom lanes wait for, and how they go on."""

    LANES = -1  # those of MEMBERS, or all live lanes
    COLLECTIVE = 1  # those of MEMBERS; each set goes on by itself
    EXCLUSIVE = 2  # the same, and it issues once for each set
    AT_BARRIER = 3  # those that a convergence barrier register holds
    # No meeting, but what is done to the barrier register of MEMBERS; TARGET is the plane of another register.
    SET = 4
    SAVE = 5
    SAVE_AND_CLEAR = 6
    RESTORE = 7


FUNCTION, KIND, GUARD, OPERANDS, TARGET, RECONVERGE, MEMBERS, EXTRA = range(8)
COLUMNS = 8
# GUARD: 2 * predicate word + negated, or -1. OPERANDS: byte offset into the operand pool. MEMBERS: byte offset of the member
# mask's plane, or -1 for all live lanes of the warp. EXTRA, of a kernel: 1 if its result depends on when it executes; of a
# barrier: 1 if no thread count is given, plus 2 to reduce by and, 4 by or, 8 by count, 16 if the predicate is negated; of
# cp.async.wait_group: its count; of an indexed branch or indirect call: the number of its table; of a host call: which of
# HOST_FUNCTIONS.


@dataclass(frozen=True, slots=True)
class TilePattern:
    """Where the elements of a wmma tile are: what each bit of (element, lane, register) adds to the row and the column.

    ``elements`` of ``bits`` bits per register. ``stride_operand``: place of the stride in the operand row, or -1: then it is
    ``packed_stride`` elements.
    """

    row_steps: tuple[int, ...]
    column_steps: tuple[int, ...]
    elements: int
    registers: int
    bits: int
    row_major: bool
    stride_operand: int
    packed_stride: int


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """What the timing model must know of an instruction that touches memory.

    ``kind``: load, store, atomic, copy (cp.async), matrix_load, matrix_store, tile_load, tile_store. ``space``: as
    :data:`isa.machine.SPACES`. ``size``: bytes per lane (per row for matrix accesses). ``operand``: position of the address
    in the operand row, ``planes`` of its base. ``second_operand``: the shared-memory address of a copy (the first is then the
    global one), else -1. ``rows``: how many lanes give an address. ``tile``: the pattern of a wmma load or store. ``scale``:
    what the base is multiplied by; ``uniform``: whether a register more is added, whose plane stands behind the offset (both of
    machine code, whose 32-bit addresses wrap around).
    """

    kind: str
    space: int
    size: int
    operand: int
    planes: int
    second_operand: int = -1
    second_planes: int = 0
    rows: int = 32
    tile: TilePattern | None = None
    scale: int = 1
    uniform: bool = False


@dataclass(frozen=True, slots=True)
class ConstantImage:
    """The constant banks of machine code as one block of bytes, which takes the place of the parameter block.

    ``content``: its bytes before a launch. ``block_at``, ``grid_at``: where the launch's extents go, three 32-bit words each;
    ``dynamic_shared_at``, ``sm_count_at``: where the bytes of dynamic shared memory and the device's number of SMs go.
    ``symbols``: (offset, width in bytes, address) to write. ``variables``: (offset, size, name) of ``.const`` variables to copy
    in. ``planes``: (offset, plane) of the 32-bit words that instructions read as operands; all lanes hold the word.
    """

    content: bytes
    block_at: int
    grid_at: int
    dynamic_shared_at: int
    sm_count_at: int
    symbols: list[tuple[int, int, SymbolRef]]
    variables: list[tuple[int, int, str]]
    planes: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Program:
    """A kernel ready to run. Arrays are indexed by instruction.

    ``code``: int64 [n, 8], columns above; FUNCTION is an index into ``kernels`` (-1 without one) until a loader replaces it by
    an address. ``pool``: int32 operand rows. ``block_words``: 32-bit words of a warp's register block. ``constants``: planes
    to fill, (byte offset, 32 bits or symbol, half). ``specials``: special register -> byte offset of its plane. ``reads`` and
    ``writes``: byte offsets of the planes and predicate words each instruction uses; ``stage_at``, ``stages``: staging rows
    of collectives (see :func:`isa.lower.emit._Writer._stage`), -1 for none. Sizes in bytes. ``origins``: the pass that made
    an instruction what it is, ``""`` for one as written. ``branch_tables``: instructions that indexed branches and indirect
    calls may go to, -1 for a function that this kernel cannot reach. ``frames``: bytes of ``local_size`` that are a stack for
    recursive functions. ``notes``: what a report must tell about this program, such as sums
    whose rounding depends on how ptxas unrolls a loop. Of machine code: ``reserved_shared`` bytes at the start of shared
    memory are the system's, and ``image`` holds the constant banks; parameter offsets count from its start; ``control`` has
    the control bits of each instruction (empty for PTX, None for the exit behind the last).
    """

    name: str
    target_sm: int
    code: NDArray[np.int64]
    pool: NDArray[np.int32]
    kernels: list[KernelSpec]
    block_words: int
    constants: list[tuple[int, int | SymbolRef, int]]
    specials: dict[str, int]
    parameters: list[Parameter]
    param_size: int
    static_shared: int
    local_size: int
    directives: dict[str, tuple[int, ...]]
    opcodes: list[str]
    lines: NDArray[np.int32]
    locs: list[Location | None]
    files: dict[int, str]
    reads: list[tuple[int, ...]]
    writes: list[tuple[int, ...]]
    timing: list[str]
    memory: list[MemoryAccess | None]
    stages: NDArray[np.int32]
    stage_at: NDArray[np.int32]
    registers_per_thread: int
    origins: list[str] = field(default_factory=list)
    branch_tables: list[tuple[int, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frames: int = 0
    reserved_shared: int = 0
    image: ConstantImage | None = None
    control: list[ControlBits | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.opcodes)

    def where(self, pc: int) -> str:
        """``softmax.cu:41  ptx:118`` for messages."""
        loc = self.locs[pc]
        cuda = ""
        if loc is not None:
            path = self.files.get(loc.file, "?")
            cuda = f"{path.rsplit('/', 1)[-1]}:{loc.line}  "
        return f"{cuda}ptx:{self.lines[pc]}"
