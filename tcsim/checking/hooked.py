"""The hooked program of a kernel, made once: a launch of a millisecond should not wait for its kernel to be lowered again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from isa.lower.ir import Kernel
from tcsim.checking.instrument import Hook, Hooks, instrument
from tcsim.checking.lanes import register_read, register_written
from tcsim.checking.plan import Plan, make_plan
from tcsim.checking.registers import Tracked, find_unset
from tcsim.checking.written import Written, find_written
from tcsim.execute.loader import LoadedProgram

__all__ = ["HookedProgram", "hooked_program"]


@dataclass(frozen=True)
class HookedProgram:
    """``loaded``: the program with its hooks; ``origin``: for each of its instructions the one it stands for; ``plan``: what
    is hooked and why; ``tracked``: registers that may be read before they are written; ``written``: what the kernel can write,
    or None if that is not known."""

    loaded: LoadedProgram
    origin: list[int]
    plan: Plan
    tracked: Tracked
    written: Written | None


_made: WeakKeyDictionary[LoadedProgram, dict[bool, HookedProgram]] = WeakKeyDictionary()


def hooked_program(loaded: LoadedProgram, lowered: Callable[[], Kernel] | None, *, numerics: bool) -> HookedProgram:
    """The hooked form of a program. ``lowered`` makes the kernel with its virtual registers; ``numerics``: watch the
    accumulators of matrix instructions, too."""
    made = _made.setdefault(loaded, {})
    if numerics not in made:
        plan = make_plan(loaded.program, numerics=numerics)
        kernel = lowered() if lowered is not None else None
        tracked = find_unset(kernel) if kernel is not None else Tracked()
        _track(plan, tracked)
        hooked, origin = instrument(loaded, plan.hooks)
        made[numerics] = HookedProgram(hooked, origin, plan, tracked, find_written(kernel) if kernel is not None else None)
    return made[numerics]


def _track(plan: Plan, tracked: Tracked) -> None:
    """Hooks for registers that may be read before they are written."""
    count = len(tracked.names)
    for pc, numbers in tracked.read.items():
        hooks = plan.hooks.setdefault(pc, Hooks())
        hooks.before += [Hook(register_read, (number, count), guarded=False) for number in dict.fromkeys(numbers)]
    for pc, numbers in tracked.written.items():
        hooks = plan.hooks.setdefault(pc, Hooks())
        hooks.after += [Hook(register_written, (number, count)) for number in dict.fromkeys(numbers)]
