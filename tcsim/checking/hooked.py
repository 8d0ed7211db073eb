"""The hooked program of a kernel, made once: a launch of a millisecond should not wait for its kernel to be lowered again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from isa.lower.ir import Kernel
from tcsim.checking.flags import deciding_loads
from tcsim.checking.instrument import Hook, Hooks, instrument
from tcsim.checking.lanes import (
    product_after,
    product_before,
    product_fence,
    product_moved,
    product_set,
    product_touched,
    register_moved,
    register_read,
    register_written,
)
from tcsim.checking.layout import DATA, M_ACTION, M_STRONG, READ
from tcsim.checking.plan import Plan, make_plan
from tcsim.checking.products import ProductRegisters, find_product_registers
from tcsim.checking.registers import Tracked, find_unset
from tcsim.checking.written import Written, find_written
from tcsim.execute.loader import LoadedProgram

__all__ = ["HookedProgram", "hooked_program"]


@dataclass(frozen=True)
class HookedProgram:
    """``loaded``: the program with its hooks; ``origin``: for each of its instructions the one it stands for; ``plan``: what
    is hooked and why; ``tracked``: registers that may be read before they are written; ``products``: registers of wgmma
    that may be touched at the wrong time; ``written``: what the kernel can write, or None if that is not known; ``kernel``:
    with its virtual registers."""

    loaded: LoadedProgram
    origin: list[int]
    plan: Plan
    tracked: Tracked
    products: ProductRegisters
    written: Written | None
    kernel: Kernel | None


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
        if kernel is not None:
            _mark_data(plan, kernel)
        products = find_product_registers(kernel) if kernel is not None else ProductRegisters()
        _watch(plan, products)
        hooked, origin = instrument(loaded, plan.hooks)
        made[numerics] = HookedProgram(
            hooked, origin, plan, tracked, products, find_written(kernel) if kernel is not None else None, kernel
        )
    return made[numerics]


def _mark_data(plan: Plan, kernel: Kernel) -> None:
    """Mark the strong loads whose value decides nothing."""
    loads = np.flatnonzero((plan.meta[:, M_STRONG] > 0) & (plan.meta[:, M_ACTION] == READ))
    flags = deciding_loads(kernel) if len(loads) else set()
    for pc in loads:
        if pc not in flags:
            plan.meta[pc, M_STRONG] |= DATA


def _track(plan: Plan, tracked: Tracked) -> None:
    """Hooks for registers that may be read before they are written."""
    count = len(tracked.names)
    for pc, numbers in tracked.read.items():
        hooks = plan.hooks.setdefault(pc, Hooks())
        hooks.before += [Hook(register_read, (number, count)) for number in dict.fromkeys(numbers)]
    for pc, number in tracked.guards.items():
        plan.hooks.setdefault(pc, Hooks()).before.append(Hook(register_read, (number, count), guarded=False))
    for pc, (into, source) in tracked.moved.items():
        plan.hooks.setdefault(pc, Hooks()).after.append(Hook(register_moved, (into, count, source)))
    for pc, numbers in tracked.written.items():
        hooks = plan.hooks.setdefault(pc, Hooks())
        hooks.after += [Hook(register_written, (number, count)) for number in dict.fromkeys(numbers)]


def _watch(plan: Plan, products: ProductRegisters) -> None:
    """Hooks for registers of wgmma that may be touched at the wrong time."""
    count = len(products.names)
    if not count:
        return

    def add(where: Mapping[int, Sequence[int]], function: Callable[..., Any], before: bool) -> None:
        for pc, numbers in where.items():
            around = plan.hooks.setdefault(pc, Hooks())
            (around.before if before else around.after).extend(Hook(function, (count, number)) for number in numbers)

    add(products.used, product_before, True)
    add(products.touched, product_touched, True)
    add(products.multiplied, product_after, False)
    add(products.set, product_set, False)
    for pc, pair in products.moved.items():
        plan.hooks.setdefault(pc, Hooks()).after.append(Hook(product_moved, (count, *pair)))
    for pc in products.fences:
        plan.hooks.setdefault(pc, Hooks()).after.append(Hook(product_fence, (count,)))
