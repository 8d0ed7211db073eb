"""From the numbers that the hooks leave to hazards in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isa.machine import LOCAL, SHARED
from tcsim.checking.divergence import comes_to
from tcsim.checking.hooked import HookedProgram
from tcsim.checking.layout import (
    BULK_READS,
    BULK_WRITES,
    DIVERGENT_BARRIER,
    F_ADDRESS,
    F_AGENT,
    F_COUNT,
    F_EXTRA,
    F_KIND,
    F_LANES,
    F_OTHER_AGENT,
    F_OTHER_LANES,
    F_OTHER_PC,
    F_PC,
    F_ROLE,
    F_SIZE,
    F_SPACE,
    IN_FLIGHT,
    INACTIVE_SOURCE,
    MBARRIER,
    NOT_COMMITTED,
    OVERFLOW,
    PARTIAL_WARP,
    PRODUCTS,
    PROXY,
    RACE,
    READ_AFTER_WRITE,
    REGISTER,
    STRAY,
    UNINITIALISED,
    UNSET_REGISTER,
    WRITE_AFTER_READ,
)
from tcsim.checking.report import Access, Hazard
from tcsim.execute.cta import Geometry
from tcsim.execute.faults import lanes_text
from tcsim.memory import DeviceMemory

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Narrator"]

_MODEL = "PTX ISA 8, memory consistency model"

# Why an asynchronous access may still be under way, and what to try.
_UNDER_WAY = {
    MBARRIER: (
        "the copy tells an mbarrier when it has come; neither this thread nor one it comes behind has waited for that phase "
        "(PTX ISA 9.7.13.15.16)",
        "mbarrier.try_wait.parity on the copy's mbarrier, with the parity of the phase that counts its bytes, until it is true",
    ),
    BULK_WRITES: (
        "the copying thread has not waited until its bulk copies have written (PTX ISA 9.7.9.25.6.2)",
        "cp.async.bulk.commit_group, then cp.async.bulk.wait_group 0 by the copying thread, before the barrier",
    ),
    BULK_READS: (
        "the bulk copy may still read this: its thread has not waited for the group (PTX ISA 9.7.9.25.6.2)",
        "cp.async.bulk.commit_group, cp.async.bulk.wait_group.read 0 by the copying thread, then a barrier, before this write",
    ),
    PRODUCTS: (
        "wgmma may still read this: no warp of the warpgroup that this thread comes behind has waited for its group "
        "(PTX ISA 9.7.15.7.3)",
        "wgmma.commit_group and a wgmma.wait_group that covers it, then a barrier or an mbarrier, before this write",
    ),
}


class Narrator:
    """Tells findings of one launch. ``warps``: what number each row of the executor has (an adversarial order exchanges
    them)."""

    def __init__(self, hooked: HookedProgram, geometry: Geometry, memory: DeviceMemory, warps: Sequence[int]) -> None:
        self.program, self.geometry, self.memory = hooked.loaded.program, geometry, memory
        self.warps, self.registers, self.of_products = warps, hooked.tracked.names, hooked.products.names
        self.kernel = hooked.kernel

    def hazard(self, row: NDArray[int]) -> Hazard:  # type: ignore[type-var]
        """The hazard of one row of findings."""
        tell = {
            RACE: self._race,
            UNINITIALISED: self._uninitialised,
            IN_FLIGHT: self._in_flight,
            DIVERGENT_BARRIER: self._divergent,
            INACTIVE_SOURCE: self._inactive,
            PARTIAL_WARP: self._partial,
            UNSET_REGISTER: self._unset,
            OVERFLOW: self._overflow,
            STRAY: self._stray,
            PROXY: self._proxy,
            REGISTER: self._register,
        }[int(row[F_KIND])]
        return tell([int(value) for value in row])

    def access(self, role: str, pc: int, agent: int, lanes: int) -> Access:
        """What ``lanes`` (a mask) of an agent (:mod:`tcsim.checking.layout`) did at an instruction."""
        program, loc = self.program, self.program.locs[pc]
        cta, warp = divmod(agent, self.geometry.warps)
        return Access(
            role,
            program.opcodes[pc],
            pc,
            int(program.lines[pc]),
            program.files.get(loc.file, "") if loc is not None else "",
            loc.line if loc is not None else 0,
            self.geometry.cta_index(cta),
            self.warps[warp],
            tuple(lane for lane in range(32) if lanes >> lane & 1),
        )

    def _here(self, row: list[int], role: str) -> Access:
        return self.access(role, row[F_PC], row[F_AGENT], row[F_LANES])

    def _other(self, row: list[int], role: str) -> Access:
        return self.access(role, row[F_OTHER_PC], row[F_OTHER_AGENT], row[F_OTHER_LANES])

    def _make(self, kind: str, what: str, row: list[int], accesses: tuple[Access, ...], why: str, suggestion: str) -> Hazard:
        return Hazard(kind, what, accesses, why, suggestion, self.program.name, row[F_COUNT])

    def _memory(self, row: list[int]) -> str:
        space, address, size = row[F_SPACE], row[F_ADDRESS], row[F_SIZE]
        if space == SHARED:
            return f"shared+{address:#x} ({size} B)"
        if space == LOCAL:
            return f"local+{address:#x} ({size} B)"
        near = self.memory.nearest(address)
        inside = f", byte {address - near.start:,} of the {near.nbytes:,}-byte buffer at {near.start:#x}" if near else ""
        return f"global {address:#x} ({size} B{inside})"

    def _race(self, row: list[int]) -> Hazard:
        roles = {READ_AFTER_WRITE: ("write", "read"), WRITE_AFTER_READ: ("read", "write")}.get(row[F_ROLE], ("write", "write"))
        before, after = self._other(row, roles[0]), self._here(row, roles[1])
        counting = row[F_SPACE] != SHARED and before.line == after.line and before.file == after.file
        if row[F_EXTRA]:
            flag = self.access("", row[F_EXTRA] - 1, row[F_OTHER_AGENT], 1)
            why = (
                f"CTA {after.cta} has read the flag that CTA {before.cta} set behind this at {flag.where}, but no fence is "
                f"between the two writes, so the read may still find what was here before ({_MODEL})"
            )
            suggestion = f"__threadfence() before {flag.where} by the thread that sets the flag, or a release store there"
        elif before.cta != after.cta and "cta" in (*before.opcode.split("."), *after.opcode.split(".")):
            why = "of scope .cta, it is atomic among threads of one CTA only; nothing orders the two (PTX ISA 8.5, 8.7)"
            suggestion = "device scope: atomicAdd in place of atomicAdd_block, cuda::thread_scope_device, .gpu"
        elif before.cta != after.cta and row[F_SPACE] == SHARED:
            why = f"nothing orders CTA {before.cta} before CTA {after.cta} of the cluster ({_MODEL})"
            suggestion = "barrier.cluster.arrive and .wait (cluster.sync()), or an mbarrier, between them"
        elif before.cta != after.cta:
            why = f"nothing orders CTA {before.cta} before CTA {after.cta} ({_MODEL})"
            suggestion = (
                "an atomic, or a second launch; a flag between CTAs needs __threadfence() before it is set, and an atomic or "
                "acquire load where it is read"
            )
        elif before.warp == after.warp:
            why = f"no __syncwarp() orders these lanes of warp {after.warp} between them (PTX ISA 9.7.13.2)"
            suggestion = f"__syncwarp() before {self._second(before, after).where}"
        else:
            why = f"no barrier orders warp {before.warp} before warp {after.warp} between them ({_MODEL})"
            suggestion = f"__syncthreads() before {self._second(before, after).where}"
        if "async.bulk" in after.opcode:
            suggestion = "a wait, before it issues the copy, for an mbarrier that all arrive at who have used the memory"
        elif counting and not before.opcode.startswith("atom"):
            suggestion = "an atomic operation, such as atomicAdd"
        return self._make("RACE", self._memory(row), row, (before, after), why, suggestion)

    def _second(self, before: Access, after: Access) -> Access:
        """The access that comes second in the program, whichever was executed first: threads are not in step."""
        return after if self.kernel is None or comes_to(self.kernel, before.pc, after.pc) else before

    def _uninitialised(self, row: list[int]) -> Hazard:
        what = "shared" if row[F_SPACE] == SHARED else "local"
        return self._make(
            "UNINITIALISED",
            self._memory(row),
            row,
            (self._here(row, "read"),),
            f"no thread has written these bytes of {what} memory; they hold anything on hardware (PTX ISA 5.1)",
            "write them first, or check the index: is the tile filled to its edge?",
        )

    def _in_flight(self, row: list[int]) -> Hazard:
        role = "read" if row[F_ROLE] == READ_AFTER_WRITE else "write"
        first = "read" if row[F_ROLE] == WRITE_AFTER_READ else "copy"
        if row[F_EXTRA] in _UNDER_WAY:
            why, suggestion = _UNDER_WAY[row[F_EXTRA]]
        elif row[F_EXTRA] == NOT_COMMITTED:
            why = "the copy was not committed to a group when the thread waited, so no wait covers it (PTX ISA 9.7.9.25.3)"
            suggestion = "cp.async.commit_group before cp.async.wait_group, or cp.async.wait_all"
        else:
            why = (
                "no cp.async.wait_group of the copying thread has covered this group of copies: it leaves as many groups under "
                "way as it says, and knows only those committed before it (PTX ISA 9.7.9.25.3.3)"
            )
            suggestion = "wait_group with a smaller number, behind the commit and before the barrier that precedes this access"
        return self._make(
            "IN FLIGHT", self._memory(row), row, (self._other(row, first), self._here(row, role)), why, suggestion
        )

    def _divergent(self, row: list[int]) -> Hazard:
        return self._make(
            "DIVERGENT BARRIER",
            f"barrier {row[F_ADDRESS]}",
            row,
            (self._here(row, ""),),
            f"lanes {lanes_text(row[F_OTHER_LANES])} of the warp have not exited and do not execute it with them; all threads "
            "of a warp must (PTX ISA 9.7.13.1)",
            "move the barrier out of the branch",
        )

    def _inactive(self, row: list[int]) -> Hazard:
        if row[F_EXTRA]:
            return self._make(
                "INACTIVE SOURCE",
                f"lane {row[F_SIZE]}, member mask {row[F_ADDRESS] & 0xFFFF_FFFF:#010x}",
                row,
                (self._here(row, "read"),),
                "no lane reads from one that the mask names; what is read from others is undefined (PTX ISA 9.7.9.6)",
                "a mask that names the lanes read from, or another step or width",
            )
        return self._make(
            "INACTIVE SOURCE",
            f"lane {row[F_SIZE]}, member mask {row[F_ADDRESS] & 0xFFFF_FFFF:#010x}",
            row,
            (self._here(row, "read"),),
            f"the mask names lanes {lanes_text(row[F_OTHER_LANES] & 0xFFFF_FFFF)}, which have exited or never were; what is "
            "read from them is undefined (PTX ISA 9.7.9.6)",
            "a mask of the lanes that take part, and a source inside it",
        )

    def _partial(self, row: list[int]) -> Hazard:
        missing = row[F_OTHER_LANES] & 0xFFFF_FFFF
        exited = missing & ~row[F_EXTRA] & 0xFFFF_FFFF
        apart = missing & row[F_EXTRA] & 0xFFFF_FFFF
        said = [f"lanes {lanes_text(exited)} have exited or never were"] if exited else []
        said += [f"lanes {lanes_text(apart)} are elsewhere"] if apart else []
        return self._make(
            "PARTIAL WARP",
            self.program.opcodes[row[F_PC]].partition(".")[0],
            row,
            (self._here(row, ""),),
            f"all 32 lanes must execute it together (PTX ISA 9.7.14), but {' and '.join(said)}",
            "CTAs of a multiple of 32 threads, no early return, and the instruction outside divergent branches",
        )

    def _unset(self, row: list[int]) -> Hazard:
        name = self.registers[row[F_ADDRESS]]
        return self._make(
            "UNSET REGISTER",
            name,
            row,
            (self._here(row, "read"),),
            f"{name} has not been written on the way to this instruction; it holds anything on hardware",
            "give the variable a value on every path",
        )

    def _register(self, row: list[int]) -> Hazard:
        name = self.of_products[row[F_ADDRESS]]
        if row[F_EXTRA]:
            why = f"an ordinary instruction has set {name} since the last wgmma.fence (PTX ISA 9.7.15.7.1)"
            suggestion = "wgmma.fence.sync.aligned between that instruction and this one"
        else:
            why = f"the wgmma that {name} belongs to may still be under way: no wgmma.wait_group covers it (PTX ISA 9.7.15.7.3)"
            suggestion = "wgmma.commit_group and a wgmma.wait_group that covers it, before this"
        return self._make("PRODUCT REGISTER", name, row, (self._here(row, ""),), why, suggestion)

    def _proxy(self, row: list[int]) -> Hazard:
        return self._make(
            "PROXY FENCE",
            self._memory(row),
            row,
            (self._other(row, "write"), self._here(row, "read")),
            "the asynchronous proxy reads what an ordinary store has written, and no fence.proxy.async is between them "
            "(PTX ISA 8.2.2; 9.7.9.25.2)",
            "fence.proxy.async.shared::cta by the threads that have written, before the barrier",
        )

    def _stray(self, row: list[int]) -> Hazard:
        return self._make(
            "OUT OF BOUNDS",
            self._memory(row),
            row,
            (self._here(row, "write"),),
            "no store of the kernel has an address made of a pointer to this buffer: an index has led here from another one",
            "a guard such as if (i < n); compare the index with the length of its own buffer",
        )

    def _overflow(self, row: list[int]) -> Hazard:
        where, size = row[F_ADDRESS], row[F_SIZE]
        register, half = where >> 8 & 0xFF, where >> 5 & 1
        part = f" half {half}" if size == 2 else ""
        what = f"accumulator register {register}{part}"
        if row[F_EXTRA]:
            why = "the sum of C and A * B is outside of -2^31 to 2^31 - 1: it has wrapped around (PTX ISA 9.7.14.5.14)"
            suggestion = "sums over fewer k, added up in 64 bits; .satfinite clamps them"
            return self._make("OVERFLOW", what, row, (self._here(row, ""),), why, suggestion)
        limit = "65504" if size == 2 else "3.4e38"
        return self._make(
            "OVERFLOW",
            what,
            row,
            (self._here(row, ""),),
            f"finite A, B and C give an element that is infinite or NaN: it passed {limit}",
            "f32 accumulators, or scaled operands" if size == 2 else "scaled operands",
        )
