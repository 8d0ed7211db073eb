"""Turn a bound kernel into a :class:`~isa.program.Program`: registers to planes, operands to byte offsets, control to kinds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isa.errors import PtxError
from isa.instructions.control import HOST_FUNCTIONS
from isa.kernels.planes import PLANE_BYTES
from isa.kernels.wrap import KernelSpec, operand_slots
from isa.lower.allocate import Allocation, allocate
from isa.lower.cfg import build_blocks, reconvergence_points
from isa.lower.copies import BYTES, CLEAR, CopyAccess
from isa.lower.ir import Arg, Const, Instr, Kernel, MemoryArg, Special, SymbolRef, VReg
from isa.lower.link import link
from isa.lower.specials import special_planes
from isa.machine import SPACES
from isa.program import (
    COLUMNS,
    EXTRA,
    FUNCTION,
    GUARD,
    KIND,
    MEMBERS,
    OPERANDS,
    RECONVERGE,
    TARGET,
    Kind,
    MemoryAccess,
    Program,
    TilePattern,
)
from isa.spec.registry import ResolvedOperand

__all__ = ["emit", "register_places"]

STAGE_WORDS = 4


def emit(kernel: Kernel, target_sm: int, files: dict[int, str]) -> Program:
    """The executable program of a kernel for a target (SM number such as 90), which decides tensor-core rules."""
    link(kernel)
    blocks = build_blocks(kernel.instructions)
    allocation = allocate(kernel, blocks)
    writer = _Writer(kernel, allocation, target_sm)
    meets = reconvergence_points(kernel.instructions, blocks)
    code = np.full((len(kernel.instructions) + 1, COLUMNS), -1, np.int64)
    for index, instr in enumerate(kernel.instructions):
        writer.instruction(index, instr, code[index])
        called = instr.form.instruction.control in ("call", "call_indirect")
        code[index, RECONVERGE] = index + 1 if called else meets.get(index, -1)
    code[code[:, KIND] == Kind.CALL_INDIRECT, EXTRA] = len(kernel.branch_tables) - 1  # the last table is that of functions
    code[-1, KIND] = Kind.EXIT  # running off the end returns (PTX ISA 9.7.12: ret is implied)
    return writer.program(code, files)


def register_places(kernel: Kernel) -> dict[int, int]:
    """Where the program of a kernel (linked) keeps each register that it uses: byte offset of its first plane or predicate
    word, by the register's index. Several registers may have one place, one after another."""
    writer = _Writer(kernel, allocate(kernel, build_blocks(kernel.instructions)), 0)
    used = {r.index: r for i in kernel.instructions for r in (*i.sources(), *i.destinations())}
    return {index: writer._place(register) for index, register in used.items()}


@dataclass
class _Writer:
    kernel: Kernel
    allocation: Allocation
    sm: int
    pool: list[int] = field(default_factory=list)
    kernels: list[KernelSpec] = field(default_factory=list)
    kernel_index: dict[str, int] = field(default_factory=dict)
    kernel_of: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    constants: list[tuple[int, int | SymbolRef, int]] = field(default_factory=list)
    constant_at: dict[tuple[Any, int], int] = field(default_factory=dict)
    specials: dict[str, int] = field(default_factory=dict)
    extra_planes: int = 0
    reads: list[tuple[int, ...]] = field(default_factory=list)
    writes: list[tuple[int, ...]] = field(default_factory=list)
    memory: list[MemoryAccess | None] = field(default_factory=list)
    timing: list[str] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    stage_at: list[int] = field(default_factory=list)
    stage_planes: list[int] = field(default_factory=list)
    tables: int = 0

    def __post_init__(self) -> None:
        # One more predicate word and two more planes than the kernel needs: where discarded results go. A few more words where
        # the predicates of collectives that meet from different places are staged.
        self.sink_word = self.allocation.words
        self.word_planes = -(-(self.allocation.words + 1 + STAGE_WORDS) * 4 // PLANE_BYTES)
        self.first_extra = self.word_planes + self.allocation.planes + 2

    # -------------------------------------------------------------------------------------------------- places

    def _plane(self, number: int) -> int:
        return (self.word_planes + number) * PLANE_BYTES

    @property
    def sink(self) -> int:
        return self._plane(self.allocation.planes)

    def _place(self, register: VReg) -> int:
        if register.is_predicate:
            return 4 * self.allocation.word[register.index]
        return self._plane(self.allocation.plane[register.index])

    def _new_planes(self, count: int) -> int:
        start = (self.first_extra + self.extra_planes) * PLANE_BYTES
        self.extra_planes += count
        return start

    def _constant(self, value: int | SymbolRef, planes: int) -> int:
        """A plane (or pair) whose lanes all hold a constant."""
        key = (value, planes)
        at = self.constant_at.get(key)
        if at is None:
            at = self.constant_at[key] = self._new_planes(planes)
            for half in range(planes):
                if isinstance(value, SymbolRef):
                    self.constants.append((at + half * PLANE_BYTES, value, half))
                else:
                    self.constants.append((at + half * PLANE_BYTES, (value >> (32 * half)) & 0xFFFF_FFFF, half))
        return at

    def _special(self, name: str, planes: int) -> int:
        at = self.specials.get(name)
        if at is None:
            at = self.specials[name] = self._new_planes(max(planes, special_planes(name), 2))
        return at

    def _value(self, arg: Arg, operand: ResolvedOperand, instr: Instr) -> int:
        """Byte offset of the place that holds one register operand."""
        if isinstance(arg, VReg):
            return self._place(arg)
        if arg is None:
            return 4 * self.sink_word if operand.type.kind == "p" else self.sink
        planes = max(1, operand.type.planes)
        if isinstance(arg, Const):
            if operand.type.kind == "p":  # true in all lanes or in none: any word of a plane of such words
                return self._constant(0xFFFF_FFFF if arg.bits else 0, 1)
            return self._constant(arg.bits, planes)
        if isinstance(arg, SymbolRef):
            return self._constant(arg, planes)
        if isinstance(arg, Special):
            return self._special(arg.name, planes)
        raise PtxError(f"{instr.opcode}: operand {operand.name} is not a value", instr.line, self.kernel.name)

    # -------------------------------------------------------------------------------------------- instructions

    def instruction(self, index: int, instr: Instr, row: Any) -> None:
        entry = instr.form.instruction
        row[OPERANDS] = 4 * len(self.pool)
        widths: list[int] = []
        if entry.control in _TRANSFERS:
            self.pool += [self._value(arg, instr.form.operands[0], instr) for arg in _transfer_operands(instr)]
        elif entry.control not in ("branch", "exit", "nothing", "sleep", "roots", "enter"):
            widths = [self._operand(instr, operand) for operand in instr.form.operands]
        row[GUARD] = -1
        if instr.guard is not None:
            row[GUARD] = 2 * self.allocation.word[instr.guard.register.index] + int(instr.guard.negated)
        if entry.control:
            row[KIND] = Kind.NAMES[entry.control]
            row[EXTRA] = self._extra(instr)
        else:
            row[KIND] = Kind.WAIT if entry.waits else Kind.COLLECTIVE if entry.collective else Kind.KERNEL
            row[FUNCTION] = self._kernel(instr, tuple(widths))
            row[EXTRA] = int(entry.pattern.base == "read_clock")
        if entry.collective and entry.collective != "warp":
            row[MEMBERS] = self.pool[row[OPERANDS] // 4 + self._slot(instr, entry.collective)]
        if instr.target is not None:
            row[TARGET] = instr.target
        if entry.control == "branch_indexed":
            row[EXTRA] = self._table(index, instr)
        self._record(instr)
        members_vary = entry.collective not in (None, "warp") and not entry.control
        self.stage_at.append(self._stage(instr, int(row[OPERANDS]) // 4) if members_vary else -1)

    def _extra(self, instr: Instr) -> int:
        """See :data:`isa.program.EXTRA`."""
        control = instr.form.instruction.control
        if control == "host_call":
            return list(HOST_FUNCTIONS).index(str(instr.form.params["which"]))
        if control in ("nothing", "enter"):
            groups = instr.args.get("n")
            return groups.bits if isinstance(groups, Const) else 0
        counted = instr.args.get("b") is not None
        operation = {"and": 2, "or": 4}.get(str(instr.form.params.get("op")), 8)
        return int(not counted) + (operation if control == "barrier_reduce" else 0)

    def _table(self, index: int, instr: Instr) -> int:
        """The number of the table of an indexed branch: where the branches behind it go."""
        entries = instr.args["n"]
        assert isinstance(entries, Const)
        listed = self.kernel.instructions[index + 1 : index + 1 + entries.bits]
        self.kernel.branch_tables.insert(self.tables, tuple(int(branch.target or 0) for branch in listed))
        self.tables += 1
        return self.tables - 1

    def _slot(self, instr: Instr, name: str) -> int:
        position = 0
        for operand in instr.form.operands:
            if operand.name == name:
                return position
            position += operand_slots(operand)
        raise KeyError(name)

    def _stage(self, instr: Instr, start: int) -> int:
        """Where the operands of a collective go when its members come from different places of the program.

        Appends to ``stages``: [sources, destinations, operand row (bytes), then (place, staging place) pairs, sources first].
        Places are byte offsets of planes; those of predicate words are given as their complement (~). Returns the position.
        """
        row: list[int] = []
        pairs: list[list[int]] = [[], []]
        planes = words = 0
        position = start
        for operand in instr.form.operands:
            for _ in range(operand.count):
                place = self.pool[position]
                position += 1
                if operand.type.kind == "p":
                    row.append(4 * (self.sink_word + 1 + words))
                    pairs[operand.is_destination] += [~place, ~row[-1]]
                    words += 1
                    continue
                width = operand.type.planes
                while planes + width + 1 > len(self.stage_planes):
                    at = self._new_planes(2)
                    self.stage_planes += [at, at + PLANE_BYTES]
                planes += planes % width  # a pair starts at an even plane
                row.append(self.stage_planes[planes])
                for half in range(width):
                    step = half * PLANE_BYTES
                    pairs[operand.is_destination] += [place + step, row[-1] + step]
                planes += width
        at = len(self.stages)
        self.stages += [len(pairs[0]) // 2, len(pairs[1]) // 2, 4 * len(self.pool), *pairs[0], *pairs[1]]
        self.pool += row
        return at

    def _operand(self, instr: Instr, operand: ResolvedOperand) -> int:
        """Append an operand's row entries; returns the planes of its register."""
        arg = instr.args.get(operand.name)
        if operand.is_address:
            assert isinstance(arg, MemoryArg)
            return self._address(arg)
        items = arg if isinstance(arg, tuple) else (arg,)
        wide = operand.type.planes
        for item in items:
            if item is None and operand.is_optional and not operand.is_destination:
                self.pool.append(-1)
                continue
            self.pool.append(self._value(item, operand, instr))
            if isinstance(item, VReg) and operand.name in instr.form.instruction.relaxed:
                wide = max(wide, item.type.planes)
        return wide

    def _address(self, arg: MemoryArg) -> int:
        base = arg.base
        if isinstance(base, VReg):
            self.pool += [self._place(base), arg.offset]
            return base.type.planes
        if isinstance(base, Const):
            self.pool += [self._constant((base.bits + arg.offset) & 0xFFFF_FFFF_FFFF_FFFF, 2), 0]
        elif isinstance(base, SymbolRef):
            self.pool += [self._constant(SymbolRef(base.symbol, base.addend + arg.offset, base.generic), 2), 0]
        else:
            raise PtxError("a special register cannot be an address", self.kernel.line, self.kernel.name)
        return 2

    def _kernel(self, instr: Instr, widths: tuple[int, ...]) -> int:
        known = self.kernel_of.get((id(instr.form), widths))
        if known is not None:
            return known
        rule = instr.form.instruction.arch_rule
        spec = KernelSpec(instr.form, widths, rule(instr.form.params, self.sm) if rule else {})
        index = self.kernel_index.get(spec.key)
        if index is None:
            index = self.kernel_index[spec.key] = len(self.kernels)
            self.kernels.append(spec)
        self.kernel_of[id(instr.form), widths] = index
        return index

    def _record(self, instr: Instr) -> None:
        """What the timing model reads: registers used, timing class, memory access."""
        entry = instr.form.instruction
        self.reads.append(tuple(p for r in instr.sources() for p in self._parts(r)))
        self.writes.append(tuple(p for r in instr.destinations() for p in self._parts(r)))
        self.timing.append(entry.timing_class(instr.form.params))
        self.memory.append(self._access(instr))

    def _parts(self, register: VReg) -> tuple[int, ...]:
        found = self.parts.get(register.index)
        if found is None:
            at = self._place(register)
            found = tuple(at + PLANE_BYTES * half for half in range(max(1, register.type.planes)))
            self.parts[register.index] = found
        return found

    def _access(self, instr: Instr) -> MemoryAccess | None:
        entry = instr.form.instruction
        if entry.memory is None:
            return None
        addresses = [o for o in instr.form.operands if o.is_address]
        places = []
        for operand in addresses:
            arg = instr.args[operand.name]
            assert isinstance(arg, MemoryArg)
            base = arg.base
            places.append((self._slot(instr, operand.name), base.type.planes if isinstance(base, VReg) else 2))
        params = instr.form.params
        space = SPACES[str(params.get("space", ""))]
        size, rows = self._extent(instr)
        if entry.memory == "copy":
            names = {o.name for o in instr.form.operands}
            reads, how = ("given", BYTES) if "given" in names else ("ignored", CLEAR)
            reading = self._slot(instr, reads) if reads in names else -1
            (target, target_planes), (source, planes) = places
            return CopyAccess("copy", space, size, source, planes, target, target_planes, reading=reading, how=how)
        tile = self._tile(instr) if entry.memory in ("tile_load", "tile_store") else None
        return MemoryAccess(entry.memory, space, size, places[0][0], places[0][1], rows=rows, tile=tile)

    def _tile(self, instr: Instr) -> TilePattern:
        rule = instr.form.instruction.arch_rule
        assert rule is not None
        numbers = rule(instr.form.params, self.sm)
        strided = any(operand.name == "stride" for operand in instr.form.operands)
        return TilePattern(stride_operand=self._slot(instr, "stride") if strided else -1, **numbers)

    def _extent(self, instr: Instr) -> tuple[int, int]:
        """Bytes per lane (or per row of a matrix), and how many lanes give an address."""
        params = instr.form.params
        if instr.form.instruction.memory in ("matrix_load", "matrix_store"):
            return 16, 8 * int(str(params["num"]).lstrip("x"))
        if instr.form.instruction.memory == "copy":
            size = instr.args["size"]
            return (size.bits if isinstance(size, Const) else 16), 32
        if instr.form.instruction.memory in ("tile_load", "tile_store"):
            return 4, 32
        data = next(o for o in instr.form.operands if not o.is_address and o.type.kind != "p")
        return data.type.bytes * data.count, 32

    def program(self, code: Any, files: dict[int, str]) -> Program:
        kernel = self.kernel
        kernel_lines = [i.line for i in kernel.instructions]
        return Program(
            name=kernel.name,
            target_sm=self.sm,
            code=code,
            pool=np.array(self.pool or [0], np.int32),
            kernels=self.kernels,
            block_words=(self.first_extra + self.extra_planes) * PLANE_BYTES // 4,
            constants=self.constants,
            specials=self.specials,
            parameters=kernel.parameters,
            param_size=kernel.param_size,
            static_shared=kernel.shared_size - kernel.reserved_shared,
            reserved_shared=kernel.reserved_shared,
            local_size=kernel.local_size,
            directives=kernel.directives,
            opcodes=[*(i.opcode for i in kernel.instructions), "ret"],
            lines=np.array([*kernel_lines, kernel_lines[-1] if kernel_lines else kernel.line], np.int32),
            locs=[*(i.loc for i in kernel.instructions), None],
            files=files,
            reads=[*self.reads, ()],
            writes=[*self.writes, ()],
            timing=[*self.timing, "exit"],
            memory=[*self.memory, None],
            stages=np.array(self.stages or [0], np.int32),
            stage_at=np.array([*self.stage_at, -1], np.int32),
            registers_per_thread=self.allocation.pressure,
            origins=[*(i.origin for i in kernel.instructions), ""],
            branch_tables=kernel.branch_tables,
            frames=kernel.stack,
        )


_TRANSFERS = frozenset({"call", "call_indirect", "return", "branch_indexed", "host_call"})


def _transfer_operands(instr: Instr) -> list[Arg]:
    """The operands of a call, return or indexed branch in the order of :class:`isa.program.Kind`."""
    args = instr.args
    match instr.form.instruction.control:
        case "call":
            return []
        case "call_indirect":
            return [args["t"]]
        case "return":
            return [args["b"]]
        case "branch_indexed":
            return [args["a"]]
    passed: list[Arg] = []
    for name in ("d", "a"):
        items = args[name]
        assert isinstance(items, tuple)
        passed += items
    return passed
