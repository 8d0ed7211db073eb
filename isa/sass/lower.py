"""Lower a kernel's machine code to a :class:`~isa.program.Program` for the executor that PTX runs on.

Registers of the machine are planes of the register block (:mod:`isa.sass.planes`). RZ, PT, immediates and fixed places of the
constant banks become constant planes (:mod:`isa.sass.pool`). A code address is 16 times an instruction's number, device
functions following the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from isa.errors import Unsupported, UnsupportedError
from isa.instructions.control import HOST_FUNCTIONS
from isa.kernels.planes import PLANE_BYTES
from isa.lower.ir import Parameter
from isa.lower.stack import STACK_BYTES
from isa.program import COLUMNS, EXTRA, FUNCTION, GUARD, KIND, OPERANDS, Kind, MemoryAccess, Program
from isa.ptx import ast
from isa.reserved import RESERVED_SHARED
from isa.sass import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.sass.access import memory_access
from isa.sass.bank import BankLayout, add_functions, lay_out_banks, reads_reserved
from isa.sass.code_addresses import CodeAddresses, fill_in_code_addresses
from isa.sass.effects import effects
from isa.sass.flow import write_control
from isa.sass.host import RETURN_REGISTER, STUB, argument_registers
from isa.sass.kernels import MachineKernelSpec
from isa.sass.listing import CodeSection, MachineCode
from isa.sass.operands import Constant, Register
from isa.sass.placed import Placed, bind, is_indirect_call, place
from isa.sass.planes import Planes
from isa.sass.pool import Operands
from isa.sass.warpgroup import does_nothing, warpgroup_row

__all__ = ["lower_machine", "unsupported_instructions"]

STACK_ALIGN = 16

CALL_REGISTERS = 32
"""What a thread has at least if its kernel calls by address (``launch__registers_per_thread`` of three kernels on an H200, for
which ptxas says 24, 26 and 28)."""


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
) -> Program:
    """The program of a kernel.

    sm: the target. parameters: the PTX entry's, offsets counted from the first. directives: the entry's. locs: CUDA position
    by PTX line; files: their names. functions: the addresses that PTX gives device functions. Raises KeyError for an unknown
    kernel, UnsupportedError with everything unsupported.
    """
    code = machine.code[kernel]
    placed, starts = place(machine, code)
    missing = bind(placed, kernel)
    if missing:
        raise UnsupportedError(missing, f"machine code of kernel {kernel}")
    writer = _Writer(machine, code, sm, placed, starts, functions or {})
    add_functions(writer.banks, code, functions or {})
    return writer.program(parameters, directives, locs, files)


class _Writer:
    def __init__(
        self,
        machine: MachineCode,
        code: CodeSection,
        sm: int,
        placed: list[Placed],
        starts: dict[str, int],
        functions: Mapping[str, int],
    ) -> None:
        self.code, self.sm, self.placed = code, sm, placed
        # The stack grows down from the end of local memory, and frames are aligned relative to it.
        frames = [machine.code[name] for name in starts]
        more = STACK_BYTES if any(frame.recurses for frame in frames) else _more_stack(placed)
        self.stack = -(-(sum(frame.stack for frame in frames) + more) // STACK_ALIGN) * STACK_ALIGN
        self.banks: BankLayout = lay_out_banks(machine, code, self.stack)
        self.addresses = CodeAddresses(machine, placed, starts, functions)
        fill_in_code_addresses(self.banks, self.addresses)
        self.planes = Planes(placed, self.banks)
        self.operands = Operands(code.name, self.planes, self.addresses, machine.variables)
        self.kernels: list[MachineKernelSpec] = []
        self.kernel_index: dict[str, int] = {}

    def _instruction(self, item: Placed, row: Any) -> MemoryAccess | None:
        instruction, form = item.instruction, item.form
        assert form is not None
        entry = form.instruction
        row[OPERANDS] = 4 * len(self.operands.pool)
        row[GUARD] = self.planes.guard(instruction.guard)
        if entry.control:
            write_control(self.operands, item, entry.control, row)
            return None
        if entry.body == "planes":
            self._warpgroup(item, row)
            return None
        readings, planes = self.operands.row(item)
        rule = entry.arch_rule(form.params, self.sm) if entry.arch_rule else {}
        spec = MachineKernelSpec(form, tuple(readings), tuple(planes), rule)
        row[KIND] = Kind.WAIT if entry.waits else Kind.KERNEL
        row[FUNCTION] = self._kernel(spec)
        row[EXTRA] = int("_CLOCK" in entry.pattern.base)
        return memory_access(item, readings, planes)

    def _warpgroup(self, item: Placed, row: Any) -> None:
        """A matrix instruction of a warpgroup."""
        if does_nothing(item):
            row[KIND] = Kind.NOTHING
            return
        assert item.form is not None
        planes = self.planes
        self.operands.pool += warpgroup_row(
            item, self.sm, lambda register, step: planes.register(register, step, 1, False), lambda n: planes.constant(n, 1)
        )
        rule = item.form.instruction.arch_rule
        constants = rule(item.form.params, self.sm) if rule else {}
        count = len(item.form.operands)
        spec = MachineKernelSpec(item.form, ((),) * count, (0,) * count, constants)
        row[KIND], row[FUNCTION] = Kind.KERNEL, self._kernel(spec)

    def _kernel(self, spec: MachineKernelSpec) -> int:
        index = self.kernel_index.get(spec.key)
        if index is None:
            index = self.kernel_index[spec.key] = len(self.kernels)
            self.kernels.append(spec)
        return index

    def _host_function(self, name: str, rows: Any) -> None:
        """The call of the host, then the return to where the caller said."""
        returned, passed = HOST_FUNCTIONS[name]
        pool = self.operands.pool
        rows[0, KIND], rows[0, EXTRA], rows[0, OPERANDS] = Kind.HOST_CALL, list(HOST_FUNCTIONS).index(name), 4 * len(pool)
        for register in (*argument_registers(returned), *argument_registers(passed)):
            pool.append(self.planes.register(Register("R", register), 0, 1, False))
        rows[1, KIND], rows[1, OPERANDS] = Kind.JUMP, 4 * len(pool)
        pool += [self.planes.register(Register("R", RETURN_REGISTER), 0, 1, False), 0, -1]

    def _calls_by_address(self) -> bool:
        return any(is_indirect_call(item.instruction) for item in self.placed)

    def _planes_of(self, names: set[tuple[str, int]]) -> tuple[int, ...]:
        """Byte offsets of registers' planes and of predicates' words."""
        return tuple(self.planes.register(Register(file, index), 0, 1, False) for file, index in sorted(names) if file != "SB")

    def program(
        self,
        parameters: list[Parameter],
        directives: dict[str, tuple[int, ...]],
        locs: dict[int, ast.Location],
        files: dict[int, str],
    ) -> Program:
        """The program, once every instruction is written."""
        code = np.full((len(self.placed) + STUB * len(self.addresses.host) + 1, COLUMNS), -1, np.int64)
        memory = [self._instruction(item, code[item.number]) for item in self.placed]
        read = (o for item in self.placed for o in item.instruction.operands if isinstance(o, Constant))
        if self.sm < 90 and any(map(reads_reserved, read)):
            self.planes.special("reserved_smem_offset_1")
        for number, name in enumerate(self.addresses.host):
            self._host_function(name, code[len(self.placed) + STUB * number :])
        code[-1, KIND] = Kind.EXIT
        behind = [*(text for name in self.addresses.host for text in (f"call.host.{name}", "RET.ABS.NODEC")), "EXIT"]
        base = self.code.parameter_base
        placed = [Parameter(p.name, base + p.offset, p.size, p.align, p.type, p.is_array) for p in parameters]
        reserved = RESERVED_SHARED if self.sm >= 90 else 0
        lines = [item.instruction.ptx_line for item in self.placed]
        sides = [effects(item) for item in self.placed]
        return Program(
            name=self.code.name,
            target_sm=self.sm,
            code=code,
            pool=np.array(self.operands.pool or [0], np.int32),
            kernels=self.kernels,  # type: ignore[arg-type]
            block_words=self.planes.next_plane * PLANE_BYTES // 4,
            constants=[*self.planes.constants],
            specials=self.planes.specials,
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
            registers_per_thread=max(self.code.registers, CALL_REGISTERS * self._calls_by_address()),
            origins=[""] * len(code),
            reserved_shared=reserved,
            image=self.banks.image,
            control=[*(item.instruction.control for item in self.placed), *[None] * len(behind)],
        )


def _more_stack(placed: list[Placed]) -> int:
    """Bytes for frames of functions, where ptxas does not say how many there will be: R1 moves more than in the beginning."""
    moves = sum(item.instruction.operands[:1] == (_STACK_POINTER,) and item.instruction.base != "LDL" for item in placed)
    return STACK_BYTES if moves > 2 else 0


_STACK_POINTER = Register("R", 1)
