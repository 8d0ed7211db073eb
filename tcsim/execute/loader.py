"""Make a program ready to run on a device: compiled kernels by address, symbols by address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isa.kernels.cache import compile_kernels
from isa.lower.ir import SHARED_SYMBOL, SymbolRef
from isa.machine import WINDOW_BITS, WORDS
from isa.program import COLUMNS, EXTRA, FUNCTION, KIND, Kind, Program
from tcsim.execute.interpreter import NativeProgram
from tcsim.execute.start import slot_table, start_and_run
from tcsim.execute.state import CtaArrays, new_cta_arrays
from tcsim.execute.transfer import flatten

__all__ = ["LoadedProgram", "load_program"]


_interpreter_ready = False


def _ready_interpreter(progress: Callable[[int, int, str], None] | None) -> None:
    """Compile the interpreter (or fetch it from disk) by running a program that only exits."""
    global _interpreter_ready
    if _interpreter_ready:
        return
    if progress is not None:
        progress(0, 1, "the interpreter")
    code = np.full((1, COLUMNS), -1, np.int64)
    code[0, KIND] = Kind.EXIT
    empty = np.zeros(1, np.int32)
    arrays = new_cta_arrays(1, 32)
    ctx = np.zeros(WORDS, np.int64)
    native = NativeProgram(code, int(empty.ctypes.data), empty, empty, 0)
    no_places = np.zeros((0, 3), np.int64)
    memories = (np.zeros(1, np.uint8), np.zeros(1, np.uint8), np.zeros(1, np.uint32), np.zeros(32, np.int32))
    table = slot_table(arrays, native, ctx, 0, memories, 32, (1, 1, 1), no_places)
    start_and_run(int(table.ctypes.data), 0, 1)
    _interpreter_ready = True


@dataclass(frozen=True, eq=False)
class LoadedProgram:
    """A program with its native form. ``constants``: (byte offset, 32-bit value) planes to fill in every register block.
    ``shared``: those of them that are addresses in the CTA's own shared memory, and so differ within a cluster. ``symbols``:
    device addresses of module variables. ``variables``: int64 [n, 2], where each ``.const`` variable begins and ends."""

    program: Program
    native: NativeProgram
    pool: NDArray[np.int32]
    constants: tuple[tuple[int, int], ...]
    shared: tuple[int, ...]
    symbols: Mapping[str, int] = field(default_factory=dict)
    variables: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    def fill_constants(self, arrays: CtaArrays, rank: int) -> None:
        """Write the constant planes into the register blocks of a slot for CTAs of a rank; they keep their values."""
        for offset, value in self.constants:
            arrays.blocks[:, offset // 4 : offset // 4 + 32] = value
        for offset in self.shared:
            arrays.blocks[:, offset // 4 : offset // 4 + 32] += np.uint32(rank << WINDOW_BITS)


def load_program(
    program: Program,
    symbols: Mapping[str, int],
    progress: Callable[[int, int, str], None] | None = None,
    variables: NDArray[np.int64] | None = None,
) -> LoadedProgram:
    """Compile (or fetch) the program's kernels and resolve its symbols to device addresses.

    ``variables``: where ``.const`` variables are (:class:`LoadedProgram`). ``progress``: told (done, total, name) as compiling
    goes on. The first program of a process also readies the interpreter.
    """
    _ready_interpreter(progress)
    addresses = compile_kernels(program.kernels, progress)
    by_index = np.array([addresses[spec.key] for spec in program.kernels] or [0], np.int64)
    code = program.code.copy()
    called = code[:, FUNCTION] >= 0
    code[called, FUNCTION] = by_index[code[called, FUNCTION]]
    constants, shared = [], []
    for offset, value, half in program.constants:
        if isinstance(value, SymbolRef) and value.symbol == SHARED_SYMBOL:
            value = value.addend >> (32 * half) & 0xFFFF_FFFF
            shared += [offset] if half == 0 else []
        elif isinstance(value, SymbolRef):
            value = ((symbols[value.symbol] + value.addend) >> (32 * half)) & 0xFFFF_FFFF
        constants.append((offset, value))
    tables, starts = flatten(program.branch_tables)
    pool = np.array([*program.pool, *tables], np.int32) if tables else np.ascontiguousarray(program.pool)
    for pc in np.flatnonzero((code[:, KIND] == Kind.BRANCH_INDEXED) | (code[:, KIND] == Kind.CALL_INDIRECT)):
        code[pc, EXTRA] = 4 * (len(program.pool) + starts[code[pc, EXTRA]])
    control = 0
    if program.image is not None:
        from tcsim.execute.convergence import control_address  # compiled only where machine code runs

        control = control_address()
    native = NativeProgram(code, int(pool.ctypes.data), program.stages, program.stage_at, control)
    table = np.zeros((0, 2), np.int64) if variables is None else variables
    return LoadedProgram(program, native, pool, tuple(constants), tuple(shared), symbols, table)
