"""What issues when machine code runs: an :class:`~tcsim.timing.issue.Entry` for each instruction.

The control bits are the dependence model. Stall counts keep instructions of fixed latency apart; six scoreboards of each warp
say when results of variable latency are there (and when operands have been read), and the wait mask which of them an
instruction needs. Results of one queue come in order, so that the last one's scoreboard stands for those before it.
"""

from __future__ import annotations

from isa.machine import SHARED
from isa.program import EXTRA, KIND, OPERANDS, Kind, Program
from isa.sass.control import ControlBits
from tcsim.arch.timing_spec import MachineOperation, Timing
from tcsim.execute.accesses import constant_address
from tcsim.timing.constant_cache import BLOCK_BYTES
from tcsim.timing.issue import Entry, Unit, fewest_wavefronts, float_lane_ticks, picker, store_stage, unit_of
from tcsim.timing.machine_operations import MachineOperations
from tcsim.timing.operations import Cost
from tcsim.timing.register_ports import port_reads
from tcsim.timing.schedule import Segment
from tcsim.timing.scoreboard import CONSTANT_BANK, REASON, REASONS, SHIFT

__all__ = ["MachineTable"]

FIRST_SCOREBOARD = CONSTANT_BANK + 1
"""The entry of SB0; those of SB1 to SB5 follow, then those of the queues."""
_QUEUES = {"mio": FIRST_SCOREBOARD + 6, "xu": FIRST_SCOREBOARD + 7, "adu": FIRST_SCOREBOARD + 8, "tensor": FIRST_SCOREBOARD + 9}
ENTRIES = FIRST_SCOREBOARD + 10

_SLEEP = 100
"""Cycles of a NANOSLEEP, assumed: the time asked for is not in the record."""

_UNCACHED = frozenset(("MMIO", "GPU", "SYS", "BYPASS"))
"""Scopes wider than an SM, and copies past the L1: it may not answer."""

_UNITS = {
    "LDGDEPBAR": Unit.COMMIT,
    "UTMACMDFLUSH": Unit.COMMIT,
    "UCGABAR_ARV": Unit.CLUSTER_ARRIVE,
    "UCGABAR_WAIT": Unit.CLUSTER_WAIT,
    **dict.fromkeys(("UBLKCP", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG"), Unit.BULK),
}


class MachineTable:
    """All entries of a program of machine code, with the interface of :class:`~tcsim.timing.issue.IssueTable`.

    Raises DeviceError for an instruction that the chip's tables lack.
    """

    def __init__(self, program: Program, timing: Timing) -> None:
        self.program, self.chip, self._hz = program, timing.chip, timing.clocks.sm_hz
        self.pipes = tuple(self.chip.pipes)
        operations = MachineOperations(self.chip)
        self.operations = [operations.of(program.opcodes[pc], program.timing[pc]) for pc in range(len(program))]
        self.classes = list(program.opcodes)
        self.starts: list[Segment | None] = [None] * len(program)
        self.scoreboard = ENTRIES
        self._banks = {plane: at for at, plane in program.image.planes} if program.image is not None else {}
        self._commits_on = {
            control.read if opcode == "UTMACMDFLUSH" else control.write
            for opcode, control in zip(program.opcodes, program.control, strict=True)
            if control is not None and (opcode == "UTMACMDFLUSH" or opcode.startswith("LDGDEPBAR"))
        }
        self._port_reads = port_reads(program)
        self.entries = [self._entry(pc) for pc in range(len(program))]
        block = self.chip.instruction_cache.block
        for entry in self.entries:
            entry.block = entry.pc // block
        self.blocks = len(program) // block + 1

    def cost(self, pc: int) -> Cost:
        """What an instruction costs, for the metrics."""
        operation = self.operations[pc]
        active = operation.active or operation.interval
        return Cost(
            operation.pipe, 1, 1, operation.interval, active, operation.latency, operation.scoreboard, operation.port, 1, "wait"
        )

    def _entry(self, pc: int) -> Entry:
        program, operation = self.program, self.operations[pc]
        control = program.control[pc] or ControlBits(1, False, None, None, 0, 0)
        opcode, access = program.opcodes[pc], program.memory[pc]
        words = opcode.split(".")
        entry = Entry(pc, pc * REASONS, self._reads(pc, control), counts=True, slots=1)
        if control.write is not None:
            entry.writes = (FIRST_SCOREBOARD + control.write,)
        if control.read is not None:
            entry.source, entry.source_latency = FIRST_SCOREBOARD + control.read, operation.read_latency
        entry.unit = self._unit(pc, words, operation)
        entry.pipe = self.pipes.index(operation.pipe)
        entry.other = self.pipes.index(operation.other) if operation.other else entry.pipe
        entry.busy, entry.port = operation.interval, operation.port
        entry.even, entry.odd = self._port_reads[pc]
        entry.dispatch = operation.dispatch
        entry.constants = self._constants(pc)
        entry.jump, entry.jump_back = operation.jump, operation.jump_back
        entry.stage = operation.stage or self.chip.lsu.address_interval
        if entry.unit in (Unit.PIPE, Unit.PORT, Unit.SIGNAL, Unit.CONSTANT):
            entry.order = _QUEUES.get(operation.pipe, 0)
        elif access is not None and access.space == SHARED and entry.unit != Unit.AWAIT:
            entry.order = _QUEUES["mio"]
        entry.result = (operation.latency << SHIFT) + REASON[operation.scoreboard]
        stall, reason = max(1, control.stall, 2 * control.yields), "wait"
        if entry.dispatch:
            stall, reason = stall + entry.dispatch, "wait" if stall > 1 else "dispatch_stall"
        if words[0] == "MEMBAR":
            stall, reason = max(stall, operation.latency), "membar"
            entry.fence = words[-1] not in ("CTA", "SYS")  # that of the system takes so long that it waits for nothing more
        elif program.code[pc, KIND] == Kind.SLEEP:
            stall, reason = _SLEEP, "sleeping"
        entry.after = (stall << SHIFT) + REASON[reason]
        if access is not None:
            entry.cached = _UNCACHED.isdisjoint(words) or "CONSTANT" in words
            entry.fewest_wavefronts = fewest_wavefronts(access)
            if entry.unit in (Unit.STORE, Unit.ASYNC_STORE):
                entry.stage = store_stage(self.chip, access)
            entry.lane_ticks = float_lane_ticks(self.chip, self._hz, opcode)
        outside = access is not None and access.space != SHARED
        entry.leaves_sm = outside or entry.unit in (Unit.CLOCK, Unit.BULK)
        if words[0] == "DEPBAR":
            kept, number = divmod(max(0, int(program.code[pc, EXTRA])), 8)
            if number in self._commits_on:
                entry.keep_groups = kept
            else:  # of results in order: the last is soon behind the others
                entry.reads = (*entry.reads, FIRST_SCOREBOARD + number)
                entry.operands = picker(entry.reads)
        if words[:2] == ["WARPGROUP", "DEPBAR"] and program.code[pc, EXTRA] < 8:
            # Until the tensor core has done all it was given. With groups left under way it is the pipe that holds up.
            entry.reads = (*entry.reads, _QUEUES["tensor"])
            entry.operands = picker(entry.reads)
        entry.special = entry.fence or entry.keep_groups >= 0
        return entry

    def _reads(self, pc: int, control: ControlBits) -> tuple[int, ...]:
        waits = [FIRST_SCOREBOARD + number for number in range(6) if control.wait >> number & 1]
        return tuple(waits)

    def _operands(self, pc: int) -> list[int]:
        program = self.program
        first = int(program.code[pc, OPERANDS]) // 4
        following = int(program.code[pc + 1, OPERANDS]) // 4 if pc + 1 < len(program.code) else first
        operands: list[int] = program.pool[first : max(first, following)].tolist()
        return operands

    def _constants(self, pc: int) -> int:
        """The block of constants that an instruction takes an operand from, or loads, -1 for none. Of loads, those without a
        register: their address is their place in the image."""
        program = self.program
        if program.opcodes[pc].startswith(("LDC", "ULDC")):
            places = [] if program.reads[pc] else [constant_address(program, pc)[2]]
        else:
            places = [self._banks[plane] for plane in self._operands(pc) if plane in self._banks]
        return max((place // BLOCK_BYTES for place in places), default=-1)

    def _unit(self, pc: int, words: list[str], operation: MachineOperation) -> int:
        access = self.program.memory[pc]
        if access is not None and access.kind == "mbarrier":
            return Unit.AWAIT if words[1] == "PHASECHK" else Unit.SIGNAL
        if words[0] in _UNITS:
            return _UNITS[words[0]]
        if words[0] == "LDC":
            return Unit.CONSTANT
        if self.program.code[pc, KIND] == Kind.KERNEL and self.program.code[pc, EXTRA] == 1:
            return Unit.CLOCK
        return unit_of(self.program, pc, operation.port)
