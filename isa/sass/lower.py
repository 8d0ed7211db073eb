"""Lower a kernel's machine code to a :class:`~isa.program.Program` for the executor that PTX runs on.

Registers of the machine are planes of the register block as they are numbered: R0, R1, ..., then the uniform registers and the
convergence barriers. Predicates are words. RZ, PT, immediates and fixed places of the constant banks become constant planes.
A code address is 16 times an instruction's number, device functions following the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from isa.errors import Unsupported, UnsupportedError
from isa.instructions.control import HOST_FUNCTIONS
from isa.kernels.planes import PLANE_BYTES
from isa.lower.ir import Parameter, SymbolRef
from isa.lower.stack import STACK_BYTES
from isa.machine import SPACES
from isa.program import (
    COLUMNS,
    EXTRA,
    FUNCTION,
    GUARD,
    KIND,
    MEMBERS,
    OPERANDS,
    TARGET,
    Kind,
    MemoryAccess,
    Program,
)
from isa.ptx import ast
from isa.sass import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.sass.bank import RESERVED_SHARED, BankLayout, add_functions, lay_out_banks
from isa.sass.effects import effects
from isa.sass.host import RETURN_REGISTER, STUB, argument_registers, host_functions
from isa.sass.kernels import EVERYWHERE, MachineKernelSpec
from isa.sass.listing import CodeSection, ListingError, MachineCode, MachineInstruction
from isa.sass.operands import CodeAddress, Constant, Immediate, Label, Memory, Operand, Register, Special
from isa.sass.placed import Placed, bind, owners_of, place
from isa.sass.specials import SPECIALS
from isa.sass.warpgroup import does_nothing, warpgroup_row
from isa.spec.registry import ResolvedOperand

__all__ = ["first_planes", "lower_machine", "register_place", "unsupported_instructions"]

STACK_ALIGN = 16

WORDS = 32
"""Predicate words: P0-P6, UP0-UP6, the sink, the result of a barrier."""
UNIFORM_PREDICATES, SINK_WORD, RESULT_WORD = 7, 14, 15


def unsupported_instructions(machine: MachineCode, kernel: str) -> list[Unsupported]:
    """Every instruction of a kernel, and of the functions it calls, that cannot be executed here."""
    placed, _ = place(machine, machine.code[kernel])
    return bind(placed, kernel)


def lower_machine(
    machine: MachineCode,
    kernel: str,
    *,
    sm: int,
    parameters: list[Parameter],
    directives: dict[str, tuple[int, ...]],
    locs: dict[int, ast.Location],
    files: dict[int, str],
    functions: Mapping[str, int] | None = None,
    debug: bool = False,
) -> Program:
    """The program of a kernel.

    sm: the target. parameters: the PTX entry's, offsets counted from the first. directives: the entry's. locs: CUDA position
    by PTX line; files: their names. functions: the addresses that PTX gives device functions. debug: whether the code is built
    for debugging (``-G``). Raises KeyError for an unknown kernel, UnsupportedError with everything unsupported.
    """
    code = machine.code[kernel]
    placed, starts = place(machine, code)
    missing = bind(placed, kernel)
    if missing:
        raise UnsupportedError(missing, f"machine code of kernel {kernel}")
    writer = _Writer(machine, code, sm, placed, starts)
    if not add_functions(writer.banks, code, functions or {}) and debug:
        missing = [_unresolved(item, kernel) for item in placed if item.instruction.base == "CALL" and _is_indirect(item)]
        if missing:
            raise UnsupportedError(missing, f"machine code of kernel {kernel}")
    return writer.program(parameters, directives, locs, files)


def _is_indirect(item: Placed) -> bool:
    return isinstance(item.operands.get("a"), Register)


def _unresolved(item: Placed, kernel: str) -> Unsupported:
    what = f"{item.instruction.text} (machine code, address {item.instruction.address:#x} of {item.section.name})"
    why = "memory holds addresses that PTX gives functions, and code without a table of them (built with -G) calls by address"
    return Unsupported(what, why, item.instruction.ptx_line, kernel)


_KINDS = {
    "branch": Kind.BRANCH,
    "branch_both": Kind.BRANCH_BOTH,
    "branch_diverged": Kind.BRANCH_DIVERGED,
    "branch_converged": Kind.BRANCH_CONVERGED,
    "branch_any": Kind.BRANCH_CONVERGED,  # of no members, so the group goes wherever one of its lanes does
    "jump": Kind.JUMP,
    "exit": Kind.EXIT,
    "converge": Kind.CONVERGE,
    "break": Kind.BREAK,
    "yield": Kind.BREAK,  # out of no barrier
    "nothing": Kind.NOTHING,
    "sleep": Kind.SLEEP,
    "barrier_sync": Kind.BARRIER_SYNC,
    "barrier_arrive": Kind.BARRIER_ARRIVE,
    "barrier_reduce": Kind.BARRIER_REDUCE,
}


class _Writer:
    def __init__(self, machine: MachineCode, code: CodeSection, sm: int, placed: list[Placed], starts: dict[str, int]) -> None:
        self.machine, self.code, self.sm, self.placed, self.starts = machine, code, sm, placed, starts
        self.owners, self.variables = owners_of(machine), machine.variables
        # The stack grows down from the end of local memory, and frames are aligned relative to it.
        frames = [machine.code[name] for name in starts]
        more = STACK_BYTES if any(frame.recurses for frame in frames) else _more_stack(placed)
        self.stack = -(-(sum(frame.stack for frame in frames) + more) // STACK_ALIGN) * STACK_ALIGN
        self.banks: BankLayout = lay_out_banks(machine, code, self.stack)
        self.host = host_functions(placed, machine.data.get(".nv.constant4"))
        self._fill_in_code_addresses()
        self.bank_planes: dict[tuple[int, int], int] = {}
        self.first = first_planes(placed)
        self.sink_plane = self.first["behind"]
        self.result_plane = self.sink_plane + 4
        self.next_plane = self.result_plane + 1
        self.pool: list[int] = []
        self.kernels: list[MachineKernelSpec] = []
        self.kernel_index: dict[str, int] = {}
        self.constants: list[tuple[int, int | SymbolRef, int]] = []
        self.constant_at: dict[tuple[int, int], int] = {}
        self.specials: dict[str, int] = {}

    def _fill_in_code_addresses(self) -> None:
        """Addresses of functions in the banks are those of their instructions here. What banks hold that the kernel does not
        read is left alone."""
        image = self.banks.image
        content, symbols = bytearray(image.content), []
        read = {operand.bank for item in self.placed for operand in item.instruction.operands if isinstance(operand, Constant)}
        for at, width, symbol in image.symbols:
            if self.banks.bank_of(at) not in read:
                continue
            number = self._function(symbol.symbol)
            if number is None and symbol.symbol not in HOST_FUNCTIONS:  # those that nobody calls stay 0
                symbols.append((at, width, symbol))
            elif number is not None:
                content[at : at + width] = (16 * number).to_bytes(width, "little")
        self.banks.image = replace(image, content=bytes(content), symbols=symbols)

    # --------------------------------------------------------------------------------------------------- places

    def _new_planes(self, count: int) -> int:
        at = self.next_plane * PLANE_BYTES
        self.next_plane += count
        return at

    def _constant(self, value: int, planes: int) -> int:
        at = self.constant_at.get((value, planes))
        if at is None:
            at = self.constant_at[value, planes] = self._new_planes(planes)
            for half in range(planes):
                self.constants.append((at + half * PLANE_BYTES, (value >> (32 * half)) & 0xFFFF_FFFF, half))
        return at

    def _special(self, name: str) -> int:
        at = self.specials.get(name)
        if at is None:
            at = self.specials[name] = self._new_planes(2)
        return at

    def _bank(self, place: int, planes: int) -> int:
        """The plane(s) of one or two words of the constant banks."""
        at = self.bank_planes.get((place, planes))
        if at is None:
            at = self.bank_planes[place, planes] = self._new_planes(planes)
            self.banks.image.planes.extend((place + 4 * half, at + half * PLANE_BYTES) for half in range(planes))
        return at

    def _register(self, register: Register, step: int, planes: int, destination: bool) -> int:
        """Byte offset of a register's place; ``step`` registers further for an element of a vector."""
        if register.index >= 0:
            return register_place(self.first, register.file, register.index + (0 if register.is_predicate else step))
        if register.is_predicate:
            return 4 * SINK_WORD if destination else self._constant(0xFFFF_FFFF, 1)
        return self.sink_plane * PLANE_BYTES if destination else self._constant(0, planes)

    def _code_address(self, item: Placed, name: str) -> int:
        """Number of the instruction at a label. Raises ListingError for an unknown one."""
        if name in self.host:
            return len(self.placed) + STUB * self.host.index(name)
        section = item.section if name in item.section.labels else self.owners.get(name)
        if section is None:
            raise ListingError(f"{item.section.name}: {item.instruction.text}: unknown label {name}")
        return self.starts[section.name] + section.labels[name] // 16

    def _function(self, name: str) -> int | None:
        """Number of the first instruction of a function; None if it is none of this program."""
        if name in self.host:
            return len(self.placed) + STUB * self.host.index(name)
        section = self.owners.get(name)
        return self.starts[section.name] + section.labels[name] // 16 if section and section.name in self.starts else None

    # ------------------------------------------------------------------------------------------------- operands

    def _value(self, item: Placed, spec: ResolvedOperand, operand: Operand | None, step: int) -> int:
        """Byte offset of the place that holds one register's worth of an operand."""
        planes = max(1, spec.type.planes)
        if operand is None:
            if spec.is_destination:
                return 4 * SINK_WORD if spec.type.kind == "p" else self.sink_plane * PLANE_BYTES
            if item.instruction.base == "LDGSTS":  # without a predicate everything is copied
                return self._constant(0xFFFF_FFFF, 1)
            if spec.name == "old":
                return self._value(item, spec, item.operands["p"], step)
            if item.instruction.base == "LEPC":
                return self._constant(16 * item.number, planes)
            hidden = {"counted": self.result_plane * PLANE_BYTES, "holds": 4 * RESULT_WORD}
            return hidden.get(spec.name, self._constant(0, planes))
        if isinstance(operand, Register):
            if operand.parts == ("SIGN",):
                return self._register(operand, 0, 1, False)
            if operand.is_predicate and operand.index < 0 and operand.negated and not spec.is_destination:
                return self._constant(0, 1)
            return self._register(operand, step * planes, planes, spec.is_destination)
        if isinstance(operand, Immediate):
            return self._constant(_immediate_bits(item.instruction, operand, spec), planes)
        if isinstance(operand, Constant):
            return self._bank(self._bank_place(item, operand), planes)
        if isinstance(operand, CodeAddress) and operand.symbol in self.variables:
            at = self._new_planes(1)
            self.constants.append((at, SymbolRef(operand.symbol, 0), int(operand.half == "hi")))
            return at
        if isinstance(operand, CodeAddress):
            address = 16 * self._code_address(item, operand.symbol)
            return self._constant(address >> 32 if operand.half == "hi" else address & 0xFFFF_FFFF, planes)
        if isinstance(operand, Special):
            kind, value = SPECIALS[operand.name]
            return self._special(str(value)) if kind == "special" else self._constant(int(value), planes)
        if isinstance(operand, Label):
            return self._constant(16 * self._code_address(item, operand.name), planes)
        raise ListingError(f"{item.section.name}: {item.instruction.text}: {operand} is not a value")

    def _bank_place(self, item: Placed, constant: Constant) -> int:
        try:
            return self.banks.place(constant.bank, constant.offset)
        except KeyError:
            text = item.instruction.text
            raise ListingError(f"{self.code.name}: {text}: the kernel has no constant bank {constant.bank}") from None

    def _address(self, item: Placed, operand: Operand | None) -> tuple[tuple[str, ...], int]:
        """Append an address to the operand pool: base plane, offset, and a uniform register's plane if it is added. Returns
        how it is read, and the planes of its base."""
        if isinstance(operand, Constant):
            at = self._bank_place(item, operand)
            base = self._constant(0, 1) if operand.register is None else self._register(operand.register, 0, 1, False)
            self.pool += [base, at]
            return (), 1
        assert isinstance(operand, Memory)
        assert item.form is not None
        # Atomics on generic addresses leave ``.64`` out of the text; the shared address of a copy is one register.
        wide = operand.wide or (item.instruction.base != "LDGSTS" and ".E" in item.instruction.opcode)
        base_register, uniform = operand.register, operand.uniform
        reading: tuple[str, ...] = (f"scale{operand.scale}",) if operand.scale != 1 else ()
        if uniform is not None and (base_register is None or base_register.index < 0):  # [UR4], [RZ.U32+UR4]
            base_register, uniform = uniform, None
        if uniform is not None and uniform.index < 0:
            uniform = None
        planes = 2 if wide and item.form.instruction.state not in ("shared", "local") and base_register is not None else 1
        if base_register is None:
            base = self._constant(0, planes)
        else:
            base = self._register(base_register, 0, planes, False)
        self.pool += [base, operand.offset]
        if uniform is not None:
            if planes == 2:
                raise ListingError(f"{self.code.name}: {item.instruction.text}: a 64-bit address with a uniform register")
            self.pool.append(self._register(uniform, 0, 1, False))
            reading += ("uniform",)
        return reading, planes

    def _row(self, item: Placed) -> tuple[list[tuple[str, ...]], list[int]]:
        """Append an instruction's operands to the pool; returns how each is read and its planes."""
        assert item.form is not None
        readings: list[tuple[str, ...]] = []
        planes: list[int] = []
        for spec in item.form.operands:
            operand = item.operands[spec.name]
            if spec.is_address:
                reading, width = self._address(item, operand)
            else:
                reading, width = _reading(operand, spec), spec.type.planes
                if item.instruction.base == "R2UR" and item.instruction.guard is not None and spec.name == "d":
                    reading = (EVERYWHERE,)
                if "XORSIGN" in item.instruction.opcode:  # takes the magnitudes itself, and the signs too
                    reading = tuple(step for step in reading if step != "abs")
                for step in range(spec.count):
                    self.pool.append(self._value(item, spec, operand, step))
            readings.append(reading)
            planes.append(width)
        return readings, planes

    # --------------------------------------------------------------------------------------------- instructions

    def _instruction(self, item: Placed, row: Any) -> MemoryAccess | None:
        instruction, form = item.instruction, item.form
        assert form is not None
        entry = form.instruction
        row[OPERANDS] = 4 * len(self.pool)
        row[GUARD] = self._guard(instruction.guard)
        if entry.control:
            self._control(item, entry.control, row)
            return None
        if entry.body == "planes":
            self._warpgroup(item, row)
            return None
        readings, planes = self._row(item)
        rule = entry.arch_rule(form.params, self.sm) if entry.arch_rule else {}
        spec = MachineKernelSpec(form, tuple(readings), tuple(planes), rule)
        row[KIND] = Kind.WAIT if entry.waits else Kind.KERNEL
        row[FUNCTION] = self._kernel(spec)
        row[EXTRA] = int("_CLOCK" in entry.pattern.base)
        return self._access(item, readings, planes)

    def _warpgroup(self, item: Placed, row: Any) -> None:
        """A matrix instruction of a warpgroup."""
        if does_nothing(item):
            row[KIND] = Kind.NOTHING
            return
        assert item.form is not None
        self.pool += warpgroup_row(
            item, self.sm, lambda register, step: self._register(register, step, 1, False), lambda n: self._constant(n, 1)
        )
        rule = item.form.instruction.arch_rule
        constants = rule(item.form.params, self.sm) if rule else {}
        count = len(item.form.operands)
        spec = MachineKernelSpec(item.form, ((),) * count, (0,) * count, constants)
        row[KIND], row[FUNCTION] = Kind.KERNEL, self._kernel(spec)

    def _guard(self, guard: Register | None) -> int:
        if guard is None or (guard.index < 0 and not guard.negated):
            return -1
        if guard.index < 0:
            return 2 * (self._constant(0, 1) // 4)
        return 2 * (self._register(guard, 0, 1, False) // 4) + int(guard.negated)

    def _kernel(self, spec: MachineKernelSpec) -> int:
        index = self.kernel_index.get(spec.key)
        if index is None:
            index = self.kernel_index[spec.key] = len(self.kernels)
            self.kernels.append(spec)
        return index

    def _control(self, item: Placed, control: str, row: Any) -> None:
        """An instruction that the executor does itself."""
        operands = item.operands
        row[KIND] = _KINDS[control]
        label = operands.get("target")
        if isinstance(label, Label):
            row[TARGET] = self._code_address(item, label.name)
        if control in ("branch_both", "break") and operands["a"] is not None:
            condition = operands["a"]
            assert isinstance(condition, Register)
            row[EXTRA] = self._guard(condition)
        if control in ("branch_diverged", "branch_converged", "converge", "break"):
            row[MEMBERS] = self._members(operands.get("members"))
            if item.instruction.opcode.startswith(("WARPSYNC.COLLECTIVE", "WARPSYNC.EXCLUSIVE")):
                row[EXTRA] = 1
            elif item.instruction.base == "WARPSYNC" and row[MEMBERS] >= 0:
                row[EXTRA] = 2
        elif control == "branch_any":
            row[MEMBERS] = self._constant(0, 1)
        elif control == "jump":
            register, base = operands["a"], operands.get("base")
            assert isinstance(register, Register)
            add = self._code_address(item, base.name) if isinstance(base, Label) else 0
            if isinstance(base, Immediate) and base.value is not None:
                relative = item.number + 1 if item.instruction.base == "BRX" else 0
                add = relative + base.value // 16
            self.pool += [self._register(register, 0, 1, False), add]
            second = operands.get("e")
            if isinstance(second, Register):
                row[EXTRA] = self._guard(second)
        elif control.startswith("barrier"):
            self._barrier(item, control, row)
        elif item.instruction.base == "DEPBAR" or item.instruction.opcode.startswith("WARPGROUP.DEPBAR"):
            row[EXTRA] = _depbar(operands.get("s"), operands.get("n"))

    def _members(self, operand: Operand | None) -> int:
        """The plane of a member mask; -1 for all live lanes."""
        if operand is None:
            return -1
        if isinstance(operand, Immediate):
            return -1 if operand.value == 0xFFFF_FFFF else self._constant(operand.value or 0, 1)
        assert isinstance(operand, Register)
        return -1 if operand.index < 0 and operand.inverted else self._register(operand, 0, 1, False)

    def _barrier(self, item: Placed, control: str, row: Any) -> None:
        assert item.form is not None
        operands, specs = item.operands, {o.name: o for o in item.form.operands}
        counted = operands.get("b") is not None
        if control == "barrier_reduce":
            operation = str(item.form.params["op"])
            self.pool.append(self.result_plane * PLANE_BYTES if operation == "POPC" else 4 * RESULT_WORD)
            predicate = operands["c"]
            negated = isinstance(predicate, Register) and predicate.negated and predicate.index >= 0
            row[EXTRA] = int(not counted) + {"AND": 2, "OR": 4, "POPC": 8}[operation] + 16 * negated
        else:
            row[EXTRA] = int(not counted)
        for name in ("a", "b", "c"):
            if operands.get(name) is not None:
                self.pool.append(self._value(item, specs[name], operands[name], 0))

    def _access(self, item: Placed, readings: list[tuple[str, ...]], planes: list[int]) -> MemoryAccess | None:
        """What the timing model must know of an access."""
        assert item.form is not None
        entry = item.form.instruction
        if not entry.memory:
            return None
        size = entry.width(item.form.params) if entry.width is not None else 4
        places, position = [], 0
        for spec, width, reading in zip(item.form.operands, planes, readings, strict=True):
            if spec.is_address:
                places.append((position, width, reading))
                position += 2 + ("uniform" in reading)
            else:
                position += spec.count
        space = SPACES[entry.state]
        at, width, reading = places[0]
        if entry.memory == "copy":
            (target, target_planes, _), (at, width, reading) = places
            access = MemoryAccess("copy", space, size, at, width, target, target_planes)
            return replace(access, scale=_scale(reading), uniform="uniform" in reading)
        rows = 8 * size // 4 if entry.memory.startswith("matrix") else 32
        size = 16 if entry.memory.startswith("matrix") else size
        access = MemoryAccess(entry.memory, space, size, at, width, rows=rows)
        return replace(access, scale=_scale(reading), uniform="uniform" in reading)

    def _host_function(self, name: str, rows: Any) -> None:
        """The call of the host, then the return to where the caller said."""
        returned, passed = HOST_FUNCTIONS[name]
        rows[0, KIND], rows[0, EXTRA], rows[0, OPERANDS] = Kind.HOST_CALL, list(HOST_FUNCTIONS).index(name), 4 * len(self.pool)
        for register in (*argument_registers(returned), *argument_registers(passed)):
            self.pool.append(self._register(Register("R", register), 0, 1, False))
        rows[1, KIND], rows[1, OPERANDS] = Kind.JUMP, 4 * len(self.pool)
        self.pool += [self._register(Register("R", RETURN_REGISTER), 0, 1, False), 0]

    def _planes_of(self, names: set[tuple[str, int]]) -> tuple[int, ...]:
        """Byte offsets of registers' planes and of predicates' words."""
        return tuple(self._register(Register(file, index), 0, 1, False) for file, index in sorted(names) if file != "SB")

    def program(
        self,
        parameters: list[Parameter],
        directives: dict[str, tuple[int, ...]],
        locs: dict[int, ast.Location],
        files: dict[int, str],
    ) -> Program:
        """The program, once every instruction is written."""
        code = np.full((len(self.placed) + STUB * len(self.host) + 1, COLUMNS), -1, np.int64)
        memory = [self._instruction(item, code[item.number]) for item in self.placed]
        for number, name in enumerate(self.host):
            self._host_function(name, code[len(self.placed) + STUB * number :])
        code[-1, KIND] = Kind.EXIT
        behind = [*(text for name in self.host for text in (f"call.host.{name}", "RET.ABS.NODEC")), "EXIT"]
        base = self.code.parameter_base
        placed = [Parameter(p.name, base + p.offset, p.size, p.align, p.type, p.is_array) for p in parameters]
        reserved = RESERVED_SHARED if self.sm >= 90 else 0
        lines = [item.instruction.ptx_line for item in self.placed]
        sides = [effects(item) for item in self.placed]
        return Program(
            name=self.code.name,
            target_sm=self.sm,
            code=code,
            pool=np.array(self.pool or [0], np.int32),
            kernels=self.kernels,  # type: ignore[arg-type]
            block_words=self.next_plane * PLANE_BYTES // 4,
            constants=[*self.constants],
            specials=self.specials,
            parameters=placed,
            param_size=len(self.banks.image.content),
            static_shared=max(0, self.code.static_shared - reserved),
            local_size=self.stack,
            directives=directives,
            opcodes=[*(item.instruction.opcode for item in self.placed), *behind],
            lines=np.array([*lines, *[lines[-1] if lines else 0] * len(behind)], np.int32),
            locs=[*(locs.get(line) for line in lines), *[None] * len(behind)],
            files=files,
            reads=[*(self._planes_of(reads) for reads, _ in sides), *[()] * len(behind)],
            writes=[*(self._planes_of(writes) for _, writes in sides), *[()] * len(behind)],
            timing=[*(item.form.instruction.pipe for item in self.placed if item.form is not None), *["cbu"] * len(behind)],
            memory=[*memory, *[None] * len(behind)],
            stages=np.zeros(1, np.int32),
            stage_at=np.full(len(code), -1, np.int32),
            registers_per_thread=self.code.registers,
            origins=[""] * len(code),
            reserved_shared=reserved,
            image=self.banks.image,
            control=[*(item.instruction.control for item in self.placed), *[None] * len(behind)],
        )


def first_planes(placed: list[Placed]) -> dict[str, int]:
    """The plane of the first register of each file, and under ``behind`` the one after the last."""
    highest = _highest_registers(placed)
    first, plane = {}, 1
    for file in ("R", "UR", "B", "RPC"):
        first[file] = plane
        plane += highest[file]
    return first | {"behind": plane}


def register_place(first: Mapping[str, int], file: str, index: int) -> int:
    """Byte offset of a register's plane in the register block, or of a predicate's word. first: :func:`first_planes`."""
    if file in ("P", "UP"):
        return 4 * (index + (UNIFORM_PREDICATES if file == "UP" else 0))
    return (first[file] + index) * PLANE_BYTES


def _more_stack(placed: list[Placed]) -> int:
    """Bytes for frames of functions, where ptxas does not say how many there will be: R1 moves more than in the beginning."""
    moves = sum(item.instruction.operands[:1] == (_STACK_POINTER,) and item.instruction.base != "LDL" for item in placed)
    return STACK_BYTES if moves > 2 else 0


_STACK_POINTER = Register("R", 1)


def _depbar(scoreboard: Operand | None, count: Operand | None) -> int:
    """What a DEPBAR waits for, for the timing model: its scoreboard, plus 8 for each result that may still be outstanding."""
    number = scoreboard.index if isinstance(scoreboard, Register) else 0
    return number + 8 * (count.value or 0 if isinstance(count, Immediate) else 0)


def _scale(reading: tuple[str, ...]) -> int:
    """What an address's register is multiplied by."""
    return next((int(step[5:]) for step in reading if step.startswith("scale")), 1)


def _highest_registers(placed: list[Placed]) -> dict[str, int]:
    """How many registers of each file the code uses, vectors and pairs included."""
    highest = {"R": RETURN_REGISTER + 2, "UR": 1, "B": 1, "RPC": 2}
    for item in placed:
        assert item.form is not None
        wide = max((o.count * max(1, o.type.planes) for o in item.form.operands), default=1)
        for operand in item.instruction.operands:
            inner = getattr(operand, "register", None), getattr(operand, "uniform", None)
            for register in (operand, *inner):
                if isinstance(register, Register) and register.file in highest and register.index >= 0:
                    highest[register.file] = max(highest[register.file], register.index + max(2, wide))
    return highest


def _reading(operand: Operand | None, spec: ResolvedOperand) -> tuple[str, ...]:
    """What is done to an operand's value as it is read, in order: a part is taken, then the magnitude, then the sign."""
    if not isinstance(operand, Register | Constant) or spec.is_destination:
        return ()
    steps = list(operand.parts)
    if isinstance(operand, Register) and operand.is_predicate:
        return ("not",) if operand.negated and operand.index >= 0 else ()
    if operand.absolute:
        steps.append("abs")
    if operand.negated:
        steps.append("neg")
    if operand.inverted:
        steps.append("inv")
    return tuple(steps)


def _immediate_bits(instruction: MachineInstruction, operand: Immediate, spec: ResolvedOperand) -> int:
    """The bits of an immediate as an operand of a type. Floats are taken from the encoding, where they are exact: 32 bits, of
    float64 the upper ones."""
    if operand.value is None or spec.type.kind in ("f", "x"):
        return instruction.immediate << 32 if spec.type.bits == 64 else instruction.immediate
    bits = max(32, spec.type.bits)
    return operand.value & ((1 << bits) - 1)
