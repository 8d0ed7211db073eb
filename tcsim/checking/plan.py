"""Which instructions of a program the checker hooks, and what it tells the hooks about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.kernels.wrap import operand_slots
from isa.machine import GENERIC, GLOBAL, SHARED
from isa.program import EXTRA, FUNCTION, KIND, MEMBERS, OPERANDS, Kind, Program
from isa.spec.registry import Form
from tcsim.checking.accesses import access, copy_access, tile_access
from tcsim.checking.bulk import BULK_ROW, async_store, bulk_load, bulk_move, bulk_store, tensor_load, tensor_store
from tcsim.checking.descriptors import descriptor_reads
from tcsim.checking.instrument import Hook, Hooks
from tcsim.checking.lanes import SHUFFLE_MODES, shuffle_after, whole_warp_before
from tcsim.checking.layout import (
    ACQUIRE,
    CTA_SCOPE,
    M_ACTION,
    M_DATA,
    M_DATA_BYTES,
    M_DATA_COUNT,
    M_GIVEN,
    M_GIVEN_KIND,
    M_MEMBERS,
    M_NUMBER,
    M_ROW,
    M_STRONG,
    META_WORDS,
    READ,
    RELEASE,
    STRONG,
    SWAP,
    WRITE,
)
from tcsim.checking.mbarriers import mbarrier_arrive, mbarrier_wait
from tcsim.checking.numerics import INTEGERS, KEPT, matrix_after, matrix_before
from tcsim.checking.synchronisation import (
    barrier_after,
    barrier_before,
    cluster_arrive,
    cluster_wait,
    commit_bulk,
    commit_copies,
    commit_products,
    fence,
    proxy_fence,
    wait_bulk,
    wait_copies,
    wait_products,
    warp_sync_after,
)
from tcsim.checking.warpgroups import sums_after, sums_before
from tcsim.execute.accesses import MAX_STEPS, OPERAND, PLANES, SECOND, T_BITS, T_STEPS, TILE, access_table, tile_table

__all__ = ["Plan", "make_plan"]

_ACTIONS = {
    "load": READ, "store": WRITE, "atomic": READ | WRITE, "copy": READ | WRITE, "matrix_load": READ, "matrix_store": WRITE,
    "tile_load": READ, "tile_store": WRITE,
}  # fmt: skip
_NOT_FINITE = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F80_0000, "f32": 0x7F80_0000, "e4m3": 0x7F, "e5m2": 0x7C}
"""Bits that are all ones in infinities and NaN."""


@dataclass
class Plan:
    """``hooks`` by instruction. ``meta``: int32 [instruction, META_WORDS]; ``tiles``: patterns of wmma tiles.
    ``shared_bits``, ``global_bits``: log2 of the granules. ``writes_global``: whether the kernel writes device memory."""

    hooks: dict[int, Hooks]
    meta: NDArray[np.int32]
    tiles: NDArray[np.int64]
    shared_bits: int
    global_bits: int
    writes_global: bool


def make_plan(program: Program, *, numerics: bool) -> Plan:
    """The plan for a program; ``numerics``: watch the accumulators of matrix instructions, too."""
    table = access_table(program)
    meta = np.full((len(table), META_WORDS), -1, np.int32)
    meta[:, : table.shape[1]] = table
    meta[:, M_ROW] = program.code[:, OPERANDS]
    tiles = tile_table(program)
    hooks: dict[int, Hooks] = {}
    for pc in range(len(program)):
        around = _Instruction(program, pc, meta[pc], numerics).hooks()
        if around.before or around.after:
            hooks[pc] = around
    shared, device = _granules(program, tiles, meta)
    writes = any(
        a is not None and a.space in (GLOBAL, GENERIC) and _ACTIONS.get(a.kind, READ) & WRITE and a.kind != "copy"
        for a in program.memory
    )
    writes = writes or any("async.bulk." in opcode and ".global.shared::cta" in opcode for opcode in program.opcodes)
    tiles = tiles if len(tiles) else np.zeros((1, T_STEPS + 2 * MAX_STEPS), np.int64)
    return Plan(hooks, meta, tiles, shared, device, writes)


def _granules(program: Program, tiles: NDArray[np.int64], meta: NDArray[np.int32]) -> tuple[int, int]:
    """log2 of the smallest access to shared and to global memory."""
    sizes: dict[int, list[int]] = {SHARED: [], GLOBAL: []}
    for pc, each in enumerate(program.memory):
        if each is None:
            continue
        size = each.size
        if each.tile is not None:
            size = max(1, int(tiles[meta[pc, TILE], T_BITS]) // 8)
        if each.kind == "copy":
            smallest = 4 if meta[pc, M_NUMBER] == 1 else size
            sizes[SHARED].append(smallest)
            sizes[GLOBAL].append(smallest)
            continue
        for space in (SHARED, GLOBAL):
            if each.space in (space, GENERIC):
                sizes[space].append(size)
    shared, device = (min(sizes[space], default=16).bit_length() - 1 for space in (SHARED, GLOBAL))
    return shared, device


class _Instruction:
    """One instruction of the program, and its row of the meta table to fill in."""

    def __init__(self, program: Program, pc: int, meta: NDArray[np.int32], numerics: bool) -> None:
        self.program, self.pc, self.meta, self.numerics = program, pc, meta, numerics
        self.row = program.code[pc]
        self.opcode = program.opcodes[pc]
        self.words = self.opcode.split(".")

    def hooks(self) -> Hooks:
        """What surrounds this instruction."""
        kind = int(self.row[KIND])
        if self.words[0] in ("st", "red") and self.words[1] == "async":
            return Hooks(before=[self._bulk(async_store)])
        if "async.bulk." in self.opcode and self.row[FUNCTION] >= 0:
            return self._bulk_copy()
        if "mbarrier" in self.opcode and self.row[FUNCTION] >= 0:
            return self._mbarrier()
        if self.opcode.startswith("barrier.cluster."):
            if "wait" in self.words:
                return Hooks(after=[Hook(cluster_wait)])
            return Hooks() if "relaxed" in self.words else Hooks(before=[Hook(cluster_arrive)])
        if self.program.memory[self.pc] is not None:
            return self._access()
        if kind in (Kind.BARRIER_SYNC, Kind.BARRIER_ARRIVE, Kind.BARRIER_REDUCE):
            return self._barrier(kind)
        if kind == Kind.WARP_SYNC:
            self.meta[M_MEMBERS] = self.row[MEMBERS]
            return Hooks(after=[Hook(warp_sync_after)])
        if kind == Kind.NOTHING:
            return self._ordering()
        if kind == Kind.COLLECTIVE:
            return self._collective()
        return Hooks()

    @property
    def form(self) -> Form:
        form: Form = self.program.kernels[int(self.row[FUNCTION])].form
        return form

    def _slots(self) -> dict[str, int]:
        at, slots = 0, {}
        for operand in self.form.operands:
            slots[operand.name] = at
            at += operand_slots(operand)
        return slots

    def _access(self) -> Hooks:
        each = self.program.memory[self.pc]
        assert each is not None
        meta = self.meta
        meta[M_ACTION] = _ACTIONS.get(each.kind, READ)
        meta[M_STRONG] = self._strength(each.kind)
        slots = self._slots()
        if each.kind == "store" and "b" in slots:
            data = next(o for o in self.form.operands if o.name == "b")
            meta[M_DATA], meta[M_DATA_COUNT], meta[M_DATA_BYTES] = slots["b"], data.count, data.type.bytes
        if each.kind == "copy":
            meta[M_GIVEN_KIND] = 0
            for number, name in ((1, "given"), (2, "ignored")):
                if name in slots:
                    meta[M_GIVEN], meta[M_GIVEN_KIND] = slots[name], number
        look = copy_access if meta[SECOND] >= 0 else tile_access if meta[TILE] >= 0 else access
        around = Hooks(before=[Hook(look)])
        if self.row[KIND] == Kind.COLLECTIVE and self.form.instruction.collective == "warp":
            around.before.insert(0, Hook(whole_warp_before))
        return around

    def _strength(self, kind: str) -> int:
        strong = STRONG if kind == "atomic" else 0
        if "cas" in self.words:
            strong |= SWAP
        if "volatile" in self.words:
            strong |= STRONG
        if "relaxed" in self.words:
            strong |= STRONG
        if "acquire" in self.words or "acq_rel" in self.words:
            strong |= STRONG | ACQUIRE
        if "release" in self.words or "acq_rel" in self.words:
            strong |= STRONG | RELEASE
        if strong and "cta" in self.words:
            strong |= CTA_SCOPE
        return strong

    @property
    def _planes(self) -> dict[str, int]:
        """Planes of each operand; of an address, of its base."""
        planes = self.program.kernels[int(self.row[FUNCTION])].planes
        return dict(zip((operand.name for operand in self.form.operands), planes, strict=True))

    def _mbarrier(self) -> Hooks:
        """Operations of an mbarrier."""
        slots = self._slots()
        if "a" not in slots or "relaxed" in self.words:
            return Hooks()
        place = (slots["a"], self._planes["a"])
        if "test_wait" in self.words or "try_wait" in self.words:
            return Hooks(after=[Hook(mbarrier_wait, (*place, slots["p"]))])
        if {"arrive", "arrive_drop"} & set(self.words):
            copies = int(self.opcode.startswith("cp.async.mbarrier"))
            return Hooks(before=[Hook(mbarrier_arrive, (*place, copies))])
        return Hooks()

    def _bulk_copy(self) -> Hooks:
        """Bulk copies, tensor copies among them."""
        if "tensor" in self.words:
            return Hooks(before=[self._bulk(tensor_store if "src" in self._slots() else tensor_load)])
        if "global" not in self.words:
            return Hooks(before=[self._bulk(bulk_move)])
        stores = self.words.index("global") < next(at for at, word in enumerate(self.words) if word.startswith("shared::"))
        return Hooks(before=[self._bulk(bulk_store if stores else bulk_load)])

    def _bulk(self, function: Callable[..., Any]) -> Hook:
        """The hook of an asynchronous copy or store, and where its operands are (:mod:`tcsim.checking.bulk`)."""
        slots, planes = self._slots(), self._planes
        here = "a" if function is async_store else "src" if function in (bulk_store, tensor_store) else "dst"
        there = "tensor" if "tensor" in slots else "dst" if function is bulk_store else "src"
        barrier = "c" if function is async_store else "bar"
        each = self.program.memory[self.pc]
        size = each.size if function is async_store and each is not None else slots.get("size", -1)
        dimensions = next((int(word[0]) for word in self.words if word in ("1d", "2d", "3d", "4d", "5d")), 0)
        row = (
            slots[here],
            planes[here],
            slots.get(there, -1),
            planes.get(there, 0),
            size,
            slots.get(barrier, -1),
            planes.get(barrier, 0),
            slots.get("ranks", -1),
            slots.get("c", -1),
            dimensions,
            int("reduce" in self.words or self.words[0] == "red"),
        )
        assert len(row) == BULK_ROW
        return Hook(function, row)

    def _barrier(self, kind: int) -> Hooks:
        at = 1 if kind == Kind.BARRIER_REDUCE else 0
        self.meta[OPERAND] = at
        self.meta[SECOND] = -1 if int(self.row[EXTRA]) & 1 else at + 1
        self.meta[M_STRONG] = int(self.words[0] == "bar" or "aligned" in self.words)
        around = Hooks(before=[Hook(barrier_before)])
        if kind != Kind.BARRIER_ARRIVE:
            around.after.append(Hook(barrier_after))
        return around

    def _ordering(self) -> Hooks:
        if self.opcode.startswith("fence.proxy."):
            return Hooks(before=[Hook(proxy_fence)]) if "async" in self.words and "global" not in self.words else Hooks()
        if self.words[0] in ("membar", "fence"):
            return Hooks(before=[Hook(fence, (int("cta" in self.words),))])
        if self.opcode.startswith("wgmma.commit_group"):
            return Hooks(before=[Hook(commit_products)])
        if self.opcode.startswith("wgmma.wait_group"):
            return Hooks(after=[Hook(wait_products, (int(self.row[EXTRA]),))])
        if self.opcode.startswith("cp.async.bulk.commit_group"):
            return Hooks(before=[Hook(commit_bulk)])
        if self.opcode.startswith("cp.async.bulk.wait_group"):
            return Hooks(before=[Hook(wait_bulk, (int(self.row[EXTRA]), int("read" in self.words)))])
        if self.opcode.startswith("cp.async.commit_group"):
            return Hooks(before=[Hook(commit_copies)])
        if self.opcode.startswith(("cp.async.wait_group", "cp.async.wait_all")):
            self.meta[M_NUMBER] = int(self.row[EXTRA]) if "wait_group" in self.opcode else -1
            return Hooks(before=[Hook(wait_copies)])
        return Hooks()

    def _collective(self) -> Hooks:
        form, around = self.form, Hooks()
        slots = self._slots()
        if self.words[0] == "shfl" and "membermask" in slots:
            self.meta[M_MEMBERS] = self.row[MEMBERS]
            self.meta[M_DATA], self.meta[M_GIVEN] = slots["b"], slots["c"]
            self.meta[M_NUMBER] = SHUFFLE_MODES.index(str(form.params["mode"]))
            row = self.program.pool[int(self.row[OPERANDS]) // 4 :]
            if row[slots["d"]] not in (row[slots["b"]], row[slots["c"]], self.row[MEMBERS]):
                around.after.append(Hook(shuffle_after))
        elif form.instruction.collective == "warp":
            around.before.append(Hook(whole_warp_before))
            if self.words[0] == "wgmma":
                self.meta[M_DATA] = slots["d"]
                around.before.append(Hook(descriptor_reads))
            if self.numerics and {"d", "a", "b", "c"} <= slots.keys():
                self._matrix(form, slots, around)
        return around

    def _matrix(self, form: Form, slots: dict[str, int], around: Hooks) -> None:
        """Watch the accumulators, if C and D have one type of 16 or 32 bits; integers, if they are not clamped."""
        types = _element_types(form)
        operands = {operand.name: operand for operand in form.operands}
        if types is None or operands["d"].count != operands["c"].count or operands["d"].count > KEPT - 1:
            return
        a, b, accumulator = types
        meta = self.meta
        meta[M_DATA], meta[M_GIVEN], meta[M_DATA_COUNT] = slots["d"], slots["c"], operands["d"].count
        meta[M_DATA_BYTES] = 2 if accumulator == "f16" else 4
        meta[OPERAND], meta[PLANES] = slots["a"], operands["a"].count
        meta[M_GIVEN_KIND], meta[M_MEMBERS] = slots["b"], operands["b"].count
        meta[M_NUMBER] = INTEGERS if accumulator == "s32" else min(_NOT_FINITE.get(a, 0), _NOT_FINITE.get(b, 0))
        warpgroup = self.words[0] == "wgmma"
        around.before.append(Hook(sums_before if warpgroup else matrix_before))
        around.after.append(Hook(sums_after if warpgroup else matrix_after))


def _element_types(form: Form) -> tuple[str, str, str] | None:
    """The types of A, B and the accumulators, if those are f16, f32, or s32 that wrap."""
    params = form.params
    if "dt" in params:
        a, d = str(params["at"]), str(params["dt"])
        c = str(params.get("ct", d))
        b = str(params.get("bt", a))
    elif "t1" in params:
        types = [str(params[name]) for name in ("t1", "t2", "t3", "t4") if params.get(name)]
        a, d, c = ("f16", types[0], types[-1]) if len(types) == 2 else (types[1], types[0], types[-1])
        b = types[2] if len(types) == 4 else a
    else:
        return None
    if d != c or d not in ("f16", "f32", "s32") or (d == "s32" and params.get("satfinite")):
        return None
    return a, b, d
