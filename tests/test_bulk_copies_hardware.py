"""Bulk copies against an H200: every case that was recorded, carried out by the functions behind the instructions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from gpu_ref.tma import copies, copy_cases, pixel_stores
from gpu_ref.tma.copy_cases import BLOCK_REDUCTIONS, MOVES, Cases, MapCall
from isa import machine
from isa.instructions import tensor_map as replacing
from isa.kernels.planes import store_u64
from isa.mbarrier import arrive, expect_tx, initial, is_complete
from isa.tma import issue
from isa.tma import tensor_map as layout
from isa.tma.faults import CORNERS_OUTSIDE, OUTSIDE_CORNERS
from isa.tma.reduce import OPERATIONS
from isa.tma.tensor_map import ELEMENT_TYPES, TensorMap

VECTORS = Path(__file__).parents[1] / "traces" / "tma"
NAMES = list(ELEMENT_TYPES)
FAMILIES = copy_cases.draw()
DEVICE = 0x7F00_0000_0000
RANKS = copies.CLUSTER
BARRIER_AT = copies.SHARED  # behind what the cases use
FORMATS = {name: (t.format, t.bytes) for name, t in ELEMENT_TYPES.items()}
FORMATS |= {"b32": FORMATS["u32"], "b64": FORMATS["u64"]}


class Bench:
    """Device memory, a map's place and the shared memory of four CTAs, as the copies find them through ``ctx``."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self.memory, self.map = memory, np.zeros(256, np.uint8)
        self.map_at = DEVICE + (1 << 30)
        self.map = self.map[-self.map.ctypes.data % 64 :][:128]
        self.shared = np.zeros((RANKS, copies.SHARED + 64), np.uint8)
        rows = [(DEVICE, DEVICE + len(memory), memory.ctypes.data), (self.map_at, self.map_at + 128, self.map.ctypes.data)]
        self.allocations = np.array(rows, np.int64)
        self.cluster = np.zeros(machine.CLUSTER_WORDS, np.int64)
        self.cluster[machine.CLUSTER_SIZE] = RANKS
        for rank in range(RANKS):
            at = machine.CLUSTER_ROWS + machine.CLUSTER_ROW * rank
            self.cluster[at + machine.ROW_SHARED] = self.shared[rank].ctypes.data
            self.cluster[at + machine.ROW_SHARED_SIZE] = self.shared.shape[1]
        self.ctx = np.zeros(machine.WORDS, np.int64)
        self.ctx[machine.ALLOCATIONS], self.ctx[machine.ALLOCATION_COUNT] = self.allocations.ctypes.data, 2
        self.ctx[machine.CLUSTER] = self.cluster.ctypes.data
        self.stand_in(0)

    def stand_in(self, rank: int) -> None:
        """Let the CTA of a rank issue the next copies."""
        self.ctx[machine.RANK] = rank
        self.ctx[machine.SHARED_HOST] = self.shared[rank].ctypes.data
        self.ctx[machine.SHARED_SIZE] = self.shared.shape[1]

    def begin(self, call: MapCall | None, base: int = DEVICE) -> None:
        """Put a map in its place, and fresh mbarriers of one arrival."""
        if call is not None:
            self.map[:] = np.frombuffer(encoded(call, base), np.uint8)
        for shared in self.shared:
            shared[BARRIER_AT : BARRIER_AT + 8].view(np.uint64)[0] = initial(np.uint32(1))

    def completed(self, rank: int, size: int) -> bool:
        """Whether an mbarrier has seen exactly ``size`` bytes."""
        host = int(self.shared[rank].ctypes.data) + BARRIER_AT
        assert expect_tx(self.ctx.ctypes.data, host, size, 0) == 0
        assert arrive(self.ctx.ctypes.data, host, 1, 0) == 0
        return bool(is_complete(host, np.uint32(0)))


def encoded(call: MapCall, base: int) -> bytes:
    return layout.encode(
        TensorMap(
            element=NAMES[call.dtype],
            address=base + call.address,
            dims=tuple(call.dims),
            strides=tuple(call.strides),
            element_strides=tuple(call.element_strides),
            box=tuple(call.box),
            lower=tuple(call.lower),
            upper=tuple(call.upper),
            channels=call.channels,
            pixels=call.pixels,
            interleave=layout.INTERLEAVES[call.interleave],
            swizzle=layout.SWIZZLES[call.swizzle],
            oob_fill=layout.OOB_FILLS[call.fill],
        )
    )


def integers(values: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    made = np.zeros(count, np.int64)
    made[: len(values)] = values[:count]
    return made


def load_tensor(bench: Bench, row: Any, ranks: int) -> int:
    at, shift = integers(row["coordinate"], 5), integers(row["offset"], 3)
    own = int(bench.ctx[machine.RANK]) << machine.WINDOW_BITS
    return int(
        issue.tensor_load(
            bench.ctx.ctypes.data,
            own | int(row["at"]),
            bench.map_at,
            own | BARRIER_AT,
            int(row["dimensions"]),
            bool(row["kind"]),
            at,
            shift,
            ranks,
            0,
        )
    )


def loads(cases: Cases) -> dict[str, NDArray[Any]]:
    bench, out, completed = Bench(copy_cases.data()), np.zeros(cases.out_bytes, np.uint8), []
    for row in cases.rows:
        window = int(row["window"])
        bench.begin(cases.maps[row["map"]])
        bench.shared[0][:window] = (copies.PATTERN + np.arange(window // 4)).astype(np.uint32).view(np.uint8)
        assert load_tensor(bench, row, -1) == 0
        out[row["out"] : row["out"] + window] = bench.shared[0][:window]
        completed.append(bench.completed(0, int(row["bytes"])))
    return {"memory": out, "completed": np.array(completed, np.int8)}


def stores(cases: Cases) -> dict[str, NDArray[Any]]:
    held, source = copy_cases.regions(cases), copy_cases.source()
    bench = Bench(held.reshape(-1))
    for row in cases.rows:
        bench.begin(cases.maps[row["map"]])
        bench.shared[0][: row["window"]] = source[row["source"] : row["source"] + row["window"]]
        at = integers(row["coordinate"], 5)
        rank, operation = int(row["dimensions"]), int(row["operation"]) - 1
        where = (bench.map_at, int(row["at"]), rank, bool(row["kind"]), operation)
        assert issue.tensor_store(bench.ctx.ctypes.data, *where, at, 0) == 0
    return {"regions": held}


def blocks(cases: Cases) -> dict[str, NDArray[Any]]:
    held, source = copy_cases.regions(cases), copy_cases.source()
    bench, out, completed = Bench(held.reshape(-1)), np.zeros(cases.out_bytes, np.uint8), []
    for row in cases.rows:
        window, size = int(row["window"]), int(row["bytes"])
        bench.begin(None)
        bench.shared[0][:window] = source[row["source"] : row["source"] + window]
        there, here = DEVICE + int(row["target"]), int(row["at"])
        if row["kind"] == 0:
            assert issue.bulk_load(bench.ctx.ctypes.data, here, there, size, BARRIER_AT, -1, 0) == 0
        else:
            operation, element = (-1, (0, 1)) if row["kind"] == 1 else combined(BLOCK_REDUCTIONS[row["operation"]])
            assert issue.bulk_store(bench.ctx.ctypes.data, there, here, size, operation, *element, 0) == 0
        out[row["out"] : row["out"] + window] = bench.shared[0][:window]
        completed.append(row["kind"] or bench.completed(0, size))
    return {"memory": out, "regions": held, "completed": np.minimum(completed, 1).astype(np.int8)}


def combined(text: str) -> tuple[int, tuple[int, int]]:
    """Operation and element of a reduction such as ``add.noftz.f16``."""
    words = text.split(".")
    return OPERATIONS.index(words[0]), FORMATS[words[-1]]


def clusters(cases: Cases) -> dict[str, NDArray[Any]]:
    bench, out = Bench(copy_cases.data()), np.zeros(cases.out_bytes, np.uint8)
    completed = np.full((len(cases.rows), RANKS), -1, np.int8)
    for index, row in enumerate(cases.rows):
        window, size, kind, ranks = (int(row[name]) for name in ("window", "bytes", "kind", "ranks"))
        bench.begin(cases.maps[row["map"]] if kind == 0 else None)
        for rank in range(RANKS):
            words = (copies.PATTERN + (rank << 12) + np.arange(window // 4)).astype(np.uint32) * np.uint32(2654435761)
            bench.shared[rank][:window] = words.view(np.uint8)
        issuer = int(row["operation"])
        bench.stand_in(issuer)
        own, ctx = issuer << machine.WINDOW_BITS, bench.ctx.ctypes.data
        if kind == 0:
            assert load_tensor(bench, row, ranks) == 0
        elif kind == 1:
            there = DEVICE + int(row["target"])
            assert issue.bulk_load(ctx, own | int(row["at"]), there, size, own | BARRIER_AT, ranks, 0) == 0
        else:
            move = MOVES[row["coordinate"][1]]
            operation, element = combined(move) if move else (-1, (0, 1))
            far = ranks << machine.WINDOW_BITS
            to, of = far | int(row["coordinate"][0]), own | int(row["at"])
            assert issue.bulk_move(ctx, to, of, size, far | BARRIER_AT, operation, *element, 0) == 0
        for rank in range(RANKS):
            start = row["out"] + rank * window
            out[start : start + window] = bench.shared[rank][:window]
            if (ranks >> rank & 1) if kind < 2 else ranks == rank:
                completed[index, rank] = bench.completed(rank, size)
    return {"memory": out, "completed": completed}


CARRIED_OUT = {"loads": loads, "stores": stores, "blocks": blocks, "clusters": clusters}


@pytest.fixture(scope="module")
def recorded() -> dict[str, NDArray[Any]]:
    with np.load(VECTORS / "copies.npz") as vectors:
        return dict(vectors)


@pytest.mark.parametrize("family", CARRIED_OUT)
def test_copies_leave_what_an_h200_leaves(recorded, family: str) -> None:
    cases = FAMILIES[family]
    answer = CARRIED_OUT[family](cases)
    mine = copies.digests(family, cases, answer)
    wrong = np.nonzero(mine != recorded[family])[0]
    assert not len(wrong), (wrong[:5], cases.rows[wrong[0]])
    if "completed" in answer:
        np.testing.assert_array_equal(answer["completed"], recorded[f"{family}.completed"])


def test_pixels_are_stored_where_an_h200_stores_them() -> None:
    with np.load(VECTORS / "pixel_stores.npz") as vectors:
        recorded = vectors["digests"]
    drawn = pixel_stores.draw()
    assert len(drawn) == len(recorded) > (recorded != 0).sum() > 90
    for number, (cases, digest) in enumerate(zip(drawn, recorded, strict=True)):
        held = copy_cases.regions(cases)
        bench, row = Bench(held.reshape(-1)), cases.rows[0]
        bench.begin(cases.maps[0])
        bench.shared[0][: row["window"]] = copy_cases.source()[: row["window"]]
        where = (bench.map_at, int(row["at"]), int(row["dimensions"]), True, int(row["operation"]) - 1)
        status = issue.tensor_store(bench.ctx.ctypes.data, *where, integers(row["coordinate"], 5), 0)
        if digest == 0:
            assert status in (CORNERS_OUTSIDE, OUTSIDE_CORNERS), number
        else:
            assert status == 0, number
            assert copies.digests("stores", cases, {"regions": held})[0] == digest, number


# The fields as the kernel ``replacements`` numbers them: function, its ``field``, constant operand.
REPLACED = [
    (replacing.replace_address, None, None),
    (replacing.replace_value, "rank", None),
    *((replacing.replace_extent, name, axis) for name in ("box_dim", "global_dim", "element_stride") for axis in range(5)),
    *((replacing.replace_stride, None, axis) for axis in range(5)),
    *((replacing.replace_type, None, number) for number in range(13)),
    *((replacing.replace_value, name, number) for name, count in (
        ("interleave_layout", 3), ("swizzle_mode", 4), ("fill_mode", 2)) for number in range(count)),
]  # fmt: skip


@numba.njit
def compiled_store(address, value):
    store_u64(address, value)


def test_replaced_fields_are_those_of_an_h200(monkeypatch) -> None:
    monkeypatch.setattr(replacing, "store_u64", compiled_store)  # the bodies run as they are written
    with np.load(VECTORS / "replacements.npz") as vectors:
        recorded = dict(vectors)
    bench = Bench(np.zeros(64, np.uint8))
    rows = zip(*(recorded[name] for name in ("before", "values", "fields", "after")), strict=True)
    lanes = np.full(32, bench.map_at, np.uint64)
    for before, value, number, after in rows:
        bench.map[:] = before
        function, field, constant = REPLACED[number]
        operands = [lanes, np.uint32(1), bench.ctx.ctypes.data]
        wide = function in (replacing.replace_address, replacing.replace_stride)
        given = np.full(32, value if wide else value & np.uint64(0xFFFF_FFFF), np.uint64 if wide else np.uint32)
        axis = np.full(32, constant or 0, np.uint32)
        if function in (replacing.replace_extent, replacing.replace_stride):
            operands[1:1] = [axis, given]
        else:
            operands[1:1] = [given if constant is None else axis]
        options = {"space": "global"} if field is None else {"space": "global", "field": field}
        assert function(*operands, **options) == 0
        assert bench.map.tobytes() == after.tobytes(), (number, hex(value))


def test_the_recording_says_where_it_was_made() -> None:
    provenance = json.loads((VECTORS / "provenance.json").read_text())
    assert provenance["gpu"].startswith("NVIDIA H200") and provenance["seeds"]["copies"] == copy_cases.SEED
