"""Put hooks around instructions of a program, without moving any.

An instruction with hooks is replaced by a branch to a few instructions behind the end of the program: hooks, the instruction
itself, hooks, and a branch back. So every index into the program stays what it was, and the executor runs it like any other:
nothing is paid where nothing is hooked.

Hooks before an instruction with a kernel of its own are one with it: no other thread may run between the look at what an atomic
load will find and the load. The same goes for hooks behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from isa.compiled import compiled_for_address
from isa.program import COLUMNS, FUNCTION, GUARD, KIND, OPERANDS, TARGET, Kind, Program
from tcsim.checking.fused import fused
from tcsim.execute.interpreter import NativeProgram
from tcsim.execute.loader import LoadedProgram

__all__ = ["Hook", "Hooks", "hook_address", "instrument"]


@dataclass(frozen=True)
class Hook:
    """A compiled function ``status = f(registers, lanes, place, ctx)``. ``place`` is the address of int32 [instruction, *row].
    ``guarded``: for the lanes only for which the instruction's guard holds."""

    function: Callable[..., Any]
    row: tuple[int, ...] = ()
    guarded: bool = True


@dataclass
class Hooks:
    """What surrounds one instruction."""

    before: list[Hook] = field(default_factory=list)
    after: list[Hook] = field(default_factory=list)


@cache
def hook_address(function: Callable[..., Any]) -> int:
    """The address of a hook, compiled or fetched from disk on first use."""
    compiled: Any = compiled_for_address("int32(int64, uint32, int64, int64)", function)
    _kept.append(compiled)
    return int(compiled.address)


_kept: list[Any] = []


def instrument(loaded: LoadedProgram, hooks: Mapping[int, Hooks]) -> tuple[LoadedProgram, list[int]]:
    """A program with hooks around some of its instructions, and for each of its instructions the one it stands for."""
    program, native = loaded.program, loaded.native
    origin = list(range(len(native.code)))
    code = native.code.copy()
    added: list[np.ndarray[Any, Any]] = []
    pool: list[int] = [int(word) for word in loaded.pool]
    for pc, around in sorted(hooks.items()):
        start = len(origin)
        guard = code[pc, GUARD]
        rows = [_hook_row(hook, pc, guard, pool) for hook in around.before if not hook.guarded]
        before = [hook for hook in around.before if hook.guarded]
        if code[pc, KIND] == Kind.KERNEL:
            rows.append(_fused_row(code[pc], pc, before, around.after, pool))
        else:
            rows += [_hook_row(hook, pc, guard, pool) for hook in before]
            rows.append(code[pc].copy())
            rows += [_hook_row(hook, pc, guard, pool) for hook in around.after]
        rows.append(_branch(pc + 1))
        added += rows
        origin += [pc] * len(rows)
        code[pc] = _branch(start)
    whole = np.ascontiguousarray(np.vstack([code, *added]) if added else code)
    operands = np.array(pool, np.int32)
    stage_at = np.array([native.stage_at[pc] for pc in origin], np.int32)
    changed = NativeProgram(whole, int(operands.ctypes.data), native.stages, stage_at, native.control)
    return replace(loaded, program=_extended(program, origin), native=changed, pool=operands), origin


def _hook_row(hook: Hook, pc: int, guard: Any, pool: list[int]) -> np.ndarray[Any, Any]:
    row = np.full(COLUMNS, -1, np.int64)
    row[FUNCTION], row[KIND], row[OPERANDS] = hook_address(hook.function), Kind.KERNEL, 4 * len(pool)
    row[GUARD] = guard if hook.guarded else -1
    pool += [pc, *hook.row]
    return row


def _fused_row(
    own: np.ndarray[Any, Any], pc: int, before: Sequence[Hook], after: Sequence[Hook], pool: list[int]
) -> np.ndarray[Any, Any]:
    """The row of an instruction and its hooks in one."""
    rows = {}
    for hook in (*before, *after):
        rows[id(hook)] = len(pool)
        pool += [pc, *hook.row]
    row = own.copy()
    row[FUNCTION], row[OPERANDS] = hook_address(fused), 4 * len(pool)
    here = len(pool)
    calls = [(hook_address(hook.function), rows[id(hook)]) for hook in before]
    calls.append((int(own[FUNCTION]), int(own[OPERANDS]) // 4))
    calls += [(hook_address(hook.function), rows[id(hook)]) for hook in after]
    pool.append(len(calls))
    for address, place in calls:
        pool += [*np.array([address], np.int64).view(np.int32).tolist(), 4 * (place - here)]
    return row


def _branch(target: int) -> np.ndarray[Any, Any]:
    row = np.full(COLUMNS, -1, np.int64)
    row[KIND], row[TARGET] = Kind.BRANCH, target
    return row


def _extended(program: Program, origin: list[int]) -> Program:
    """The program's tables by instruction, for messages and for the executor."""
    code = program.code[origin] if len(program.code) == len(program.opcodes) else program.code
    return replace(
        program,
        code=code,
        opcodes=[program.opcodes[pc] for pc in origin],
        lines=program.lines[origin],
        locs=[program.locs[pc] for pc in origin],
    )
