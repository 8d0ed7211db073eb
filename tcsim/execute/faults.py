"""Tell what stopped a kernel: the instruction, the threads, the rule, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isa import machine, mbarrier
from isa.program import KIND, OPERANDS, Kind
from isa.tma.faults import COPY_FAULTS
from tcsim.errors import DeadlockError, KernelFault
from tcsim.execute.collectives import NOT_A_MEMBER, SEPARATED
from tcsim.execute.convergence import BAD_ADDRESS
from tcsim.execute.hostcalls import HostFault
from tcsim.execute.interpreter import Outcome
from tcsim.execute.polling import polled
from tcsim.execute.state import COUNT_FAULT_PC, COUNT_FAULT_WARP, GroupState
from tcsim.execute.transfer import BAD_TARGET

if TYPE_CHECKING:
    from tcsim.execute.cta import CtaSlot

__all__ = ["deadlock", "fault", "host_fault"]

_MOST_CTAS = 8
"""CTAs that a report of a deadlock describes."""

_SPACE_NAMES = {machine.GLOBAL: "global", machine.SHARED: "shared", machine.LOCAL: "local", machine.PARAM: "param"}


def lanes_text(mask: int) -> str:
    """``0-3,8`` for a lane mask."""
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    runs: list[list[int]] = []
    for lane in lanes:
        if runs and lane == runs[-1][1] + 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs) or "none"


def fault(slot: CtaSlot, status: int) -> KernelFault:
    """The error for a fault code that a CTA stopped with."""
    warp = int(slot.arrays.counters[COUNT_FAULT_WARP])
    kind, detail, lanes, address = _describe(slot, status, warp, int(slot.ctx[machine.FAULT_LANE]))
    return _error(slot, kind, detail, lanes, address)


def host_fault(slot: CtaSlot, problem: HostFault) -> KernelFault:
    """The error for what a kernel asked of the host in vain, such as a failed assertion."""
    return _error(slot, problem.kind, problem.detail, (problem.lane,), problem.address)


def _error(slot: CtaSlot, kind: str, detail: str, lanes: tuple[int, ...], address: int | None) -> KernelFault:
    program = slot.loaded.program
    pc = _pc(slot)
    warp = int(slot.arrays.counters[COUNT_FAULT_WARP])
    cta = slot.geometry.cta_index(slot.number)
    shown = f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {lanes_text(sum(1 << x for x in lanes))}"
    if len(lanes) == 1:
        shown += f" thread {_thread(slot, 32 * warp + lanes[0])}"
    head = f"{kind}  {program.opcodes[pc]}  {program.where(pc)}  CTA {cta} warp {warp} {shown}"
    return KernelFault(
        f"{head}\n  {detail}",
        kind=kind,
        pc=pc,
        ptx_line=int(program.lines[pc]),
        cta=cta,
        warp=warp,
        lanes=lanes,
        address=address,
    )


def _pc(slot: CtaSlot) -> int:
    return int(slot.arrays.counters[COUNT_FAULT_PC])


def _thread(slot: CtaSlot, number: int) -> tuple[int, int, int]:
    """The (x, y, z) of a thread given by its number in the CTA, x fastest."""
    x, y, _ = slot.geometry.block
    return number % x, number // x % y, number // (x * y)


def _describe(slot: CtaSlot, status: int, warp: int, lane: int) -> tuple[str, str, tuple[int, ...], int | None]:
    ctx = slot.ctx
    if status in (machine.OUT_OF_BOUNDS, machine.MISALIGNED) or int(ctx[machine.FAULT_CODE]) in (
        machine.OUT_OF_BOUNDS,
        machine.MISALIGNED,
    ):
        code = int(ctx[machine.FAULT_CODE])
        address, size = int(ctx[machine.FAULT_ADDRESS]), int(ctx[machine.FAULT_SIZE])
        space = int(ctx[machine.FAULT_SPACE])
        if code == machine.MISALIGNED:
            detail = (
                f"{_SPACE_NAMES[space]} address {address & 0xFFFF_FFFF_FFFF_FFFF:#x} is {address % size} mod {size}; "
                f"a {size}-byte access needs a multiple of {size} (PTX ISA 6.4.1)"
            )
        else:
            detail = _out_of_bounds(slot, space, address & 0xFFFF_FFFF_FFFF_FFFF, size)
        return machine.FAULT_NAMES[code], detail, (lane,), address & 0xFFFF_FFFF_FFFF_FFFF
    if status in COPY_FAULTS:
        kind, rule = COPY_FAULTS[status]
        words = {"address": int(ctx[machine.FAULT_ADDRESS]), "size": int(ctx[machine.FAULT_SIZE])}
        return kind, rule.format(**words), (lane,), None
    if status == machine.BAD_MBARRIER:
        return machine.FAULT_NAMES[status], _bad_mbarrier(ctx), (lane,), None
    if status == machine.TRAP:
        detail = "the kernel executed trap (often an assertion that failed)"
        program = slot.loaded.program  # machine code reads the workspace's address as it reads any constant
        if not slot.geometry.workspace and ("envreg1" in program.specials or program.image is not None):
            detail += ". A grid barrier traps unless the launch is cooperative: RawModule(..., enable_cooperative_groups=True)"
        return "TRAP", detail, (lane,), None
    if status == machine.BAD_OPERAND and slot.loaded.program.opcodes[_pc(slot)].startswith("mma."):
        return "BAD OPERAND", _bad_metadata(ctx), (lane,), None
    everyone = tuple(x for x in range(32) if int(slot.arrays.live[warp]) >> x & 1)
    details = {
        NOT_A_MEMBER: (
            "NOT A MEMBER",
            "a thread executes a .sync instruction whose member mask does not include it (undefined, PTX ISA 9.7.9.6). "
            "Try __activemask() or the mask of the threads that really get here",
        ),
        SEPARATED: (
            "DIVERGED",
            "an .aligned instruction must be executed by all threads of the warp together (PTX ISA 9.7.14), but they are at "
            "different places. Try __syncwarp() before it, outside the branch",
        ),
        Outcome.BAD_BARRIER: (
            "BAD BARRIER",
            "a barrier is numbered 0 to 15, and its thread count is a multiple of 32 up to the CTA's size (PTX ISA 9.7.13.1)",
        ),
        BAD_TARGET: (
            "BAD JUMP",
            "an indirect call of an address that is not that of a function with the call's prototype, or an index outside a "
            ".branchtargets list (PTX ISA 9.7.12.4, 9.7.12.5). Is the function pointer, or the object, initialised?",
        ),
        BAD_ADDRESS: ("BAD JUMP", "machine code jumps to an address outside the kernel and the functions it calls"),
        Outcome.BARRIER_TWICE: (
            "BARRIER MISUSE",
            "threads arrive at a barrier again before it has opened for their first arrival (PTX ISA 9.7.13.1)",
        ),
    }
    kind, detail = details.get(status, (machine.FAULT_NAMES.get(status, f"FAULT {status}"), "operand out of range"))
    return kind, detail, everyone, None


def _bad_mbarrier(ctx: NDArray[np.int64]) -> str:
    """The size word says which rule was broken (isa.mbarrier)."""
    number = int(ctx[machine.FAULT_ADDRESS])
    match int(ctx[machine.FAULT_SIZE]):
        case mbarrier.TOO_MANY_ARRIVALS:
            return (
                f"more arrivals than the phase waits for, which is {number} (PTX ISA 9.7.13.15.6). Is the object initialised, "
                "and with the number of arrivals of one phase? Does a thread arrive again before the phase has ended?"
            )
        case mbarrier.TOO_MANY_BYTES:
            what = "expected" if number > 0 else "completed"
            return (
                f"{abs(number)} bytes more {what}, and the bytes still to come leave the range of {mbarrier.MOST_BYTES} "
                "(PTX ISA 9.7.13.15.2). Do expect_tx and the copies agree about the number of bytes?"
            )
    return f"an arrival count of {number}; it is 1 to {mbarrier.MOST_ARRIVALS} (PTX ISA 9.7.13.15.2)"


def _bad_metadata(ctx: NDArray[np.int64]) -> str:
    """``mma.sp`` leaves the metadata word and the first of four bits; or the selector, and -1. Block scales leave a byte-id,
    and -2 (A) or -3 (B)."""
    word, bit = int(ctx[machine.FAULT_ADDRESS]), int(ctx[machine.FAULT_SIZE])
    if bit < -1:
        operand = "a" if bit == -2 else "b"
        return (
            f"byte-id-{operand} {word}, or thread-id-{operand}, is out of range: a byte-id is below 4 and a multiple of the "
            f"scales in a row, a thread-id below {2 if operand == 'a' else 4} (PTX ISA 9.7.14.3)"
        )
    if bit < 0:
        return f"sparsity selector {word} is out of range for this shape and type (PTX ISA 9.7.14.6.1)"
    word &= 0xFFFF_FFFF
    return (
        f"metadata {word:#010x}: bits {bit} to {bit + 3} are {word >> bit & 15:#06b}, which is no pair of indices of a 2:4 "
        "(tf32: 1:2) sparse row and undefined (PTX ISA 9.7.14.6.1). Is the metadata operand initialised, the selector right?"
    )


def _out_of_bounds(slot: CtaSlot, space: int, address: int, size: int) -> str:
    program = slot.loaded.program
    what = f"{size} bytes at {_SPACE_NAMES[space]} address {address:#x}"
    if space == machine.SHARED and program.opcodes[_pc(slot)].startswith("wgmma"):
        limit = program.static_shared + slot.geometry.dynamic_shared
        return (
            f"a matrix descriptor leads to {what}, but the CTA has {limit} bytes of shared memory. Its start is (address & "
            "0x3FFFF) >> 4, and so are its two offsets (PTX ISA 9.7.15.5.1.2.2); 'tcsim layout OPCODE --operand b --descriptor "
            "BITS' shows what it describes"
        )
    if space == machine.SHARED:
        limit = program.static_shared + slot.geometry.dynamic_shared
        return (
            f"{what}, but the CTA has {limit} bytes of shared memory ({program.static_shared} static, "
            f"{slot.geometry.dynamic_shared} dynamic). Try a larger shared_mem= in the launch, or check the index"
        )
    if space == machine.LOCAL:
        stack = f" ({program.frames} of them a stack: too deep a recursion?)" if program.frames else ""
        return f"{what}, but a thread has {program.local_size} bytes of local memory{stack}"
    if space == machine.PARAM:
        return f"{what}, but the kernel's parameters take {program.param_size} bytes"
    if address < 4096:
        return f"{what}: a null pointer, or an index added to one"
    near = slot.memory.nearest(address)
    if near is None:
        return f"{what}, which belongs to no allocation"
    if address < near.end:
        return f"{what} runs {address + size - near.end} bytes past the end of the {near.nbytes}-byte buffer at {near.start:#x}"
    return f"{what}, {address - near.end} bytes past the end of the {near.nbytes}-byte buffer at {near.start:#x}"


def deadlock(slots: Sequence[CtaSlot], *, spinning: bool = False) -> DeadlockError:
    """The error for the CTAs of a cluster none of whose threads can go on: who waits where for whom."""
    program, geometry = slots[0].loaded.program, slots[0].geometry
    ctas = ", ".join(f"CTA {geometry.cta_index(slot.number)}" for slot in slots)
    lines = [f"DEADLOCK  kernel {program.name}  {ctas}: no thread can go on"]
    if spinning:
        lines[0] = f"DEADLOCK  kernel {program.name}: threads wait in loops for something that no running thread will do"
    for slot in slots[:_MOST_CTAS]:
        if len(slots) > 1:
            lines.append(f"  CTA {geometry.cta_index(slot.number)}")
        lines += _waiting(slot)
    if len(slots) > _MOST_CTAS:
        lines.append(f"  and {len(slots) - _MOST_CTAS} more CTAs")
    if not spinning:
        lines.append(
            "  A barrier opens when every thread that has not exited arrives; a .sync instruction waits for every live thread "
            "of its member mask (PTX ISA 9.7.13). Move the barrier out of the branch, or give the right mask"
        )
    return DeadlockError("\n".join(lines))


def _waiting(slot: CtaSlot) -> list[str]:
    """A line for each group of threads of a CTA that still runs, and one for those that have exited."""
    arrays = slot.arrays
    lines = []
    for w in range(len(arrays.live)):
        for g in range(32):
            mask = int(arrays.mask[w, g])
            if mask:
                lines.append(f"  warp {w} lanes {lanes_text(mask)}: {_waits(slot, w, g, mask)}")
    exited = [
        f"warp {w} lanes {lanes_text(gone)}"
        for w in range(len(arrays.live))
        if (gone := _all_lanes(slot, w) & ~int(arrays.live[w]))
    ]
    if exited:
        lines.append(f"  exited: {'; '.join(exited)}")
    return lines


def _awaited(slot: CtaSlot, w: int, pc: int, mask: int) -> str:
    """What the lowest of some lanes waits for at a waiting instruction."""
    program = slot.loaded.program
    if not program.opcodes[pc].startswith("mbarrier"):
        missing = [
            f"warp {v} lanes {lanes_text(lanes)}"
            for v in range(len(slot.arrays.live))
            if (lanes := int(slot.arrays.live[v]) & ~int(slot.arrived[v]))
        ]
        return f" for the threads of the cluster; of this CTA have not arrived: {'; '.join(missing[:6]) or 'none'}"
    lane = (mask & -mask).bit_length() - 1
    row = int(program.code[pc, OPERANDS]) // 4  # the predicate, then the address: a plane and an offset
    plane, offset = int(program.pool[row + 1]), int(program.pool[row + 2])
    address = (int(slot.arrays.blocks[w, plane // 4 + lane]) + offset) & ((1 << machine.WINDOW_BITS) - 1)
    if address % 8 or address + 8 > len(slot.shared):
        return ""
    word = int(slot.shared[address : address + 8].view(np.uint64)[0])
    arrivals, phase = int(mbarrier.pending(np.uint64(word))), word >> 63
    left = (word >> 21 & 0x1FFFFF) ^ 0x100000
    return (
        f" for the mbarrier at shared address {address:#x}, whose phase under way (parity {phase}) waits for {arrivals} "
        f"arrivals and {0x100000 - left} bytes"
    )


def _all_lanes(slot: CtaSlot, w: int) -> int:
    return (1 << min(32, slot.geometry.threads - 32 * w)) - 1


def _waits(slot: CtaSlot, w: int, g: int, mask: int) -> str:
    arrays, program = slot.arrays, slot.loaded.program
    pc, state = int(arrays.pc[w, g]), int(arrays.state[w, g])
    where = f"{program.opcodes[pc]}  {program.where(pc)}"
    if state == GroupState.BARRIER:
        number = int(arrays.awaits[w, g])
        missing = [
            f"warp {v} lanes {lanes_text(gone)}"
            for v in range(len(arrays.live))
            if (gone := int(arrays.live[v]) & ~int(arrays.arrived[number, v]))
        ]
        return f"wait at barrier {number} ({where}) for {'; '.join(missing[:6]) or 'more threads than the CTA has'}"
    if state in (GroupState.MEMBERS, GroupState.CONVERGING):
        missing_lanes = int(arrays.awaits[w, g]) & int(arrays.live[w]) & ~mask
        return f"wait at {where} for lanes {lanes_text(missing_lanes)}"
    if state == GroupState.PARKED:
        return f"wait to meet the other side of a branch at {program.where(pc)}"
    if program.code[pc, KIND] == Kind.WAIT:
        return f"wait at {where}{_awaited(slot, w, pc, mask)}"
    return f"at {where}{polled(slot, w, pc, mask)}" if program.code[pc, KIND] != Kind.EXIT else "about to exit"
