"""Carry out the cases of :mod:`.copy_cases`, on a GPU or on a simulated one, and digest what they leave behind."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tma.copy_cases import Cases, MapCall, data, regions, source

__all__ = ["KERNELS", "Machine", "carry_out", "digests", "replace_fields"]

KERNELS = Path(__file__).parents[2] / "traces" / "tma" / "bulk_copies.ptx"
THREADS, SHARED, CLUSTER = 64, 16 << 10, 4
PATTERN = 0xC0DE0000
DIGEST_BYTES = 8

Encode = Callable[[MapCall, int], bytes]


class Machine(Protocol):
    """Where the kernels run. Arrays are the machine's own."""

    def put(self, values: NDArray[Any]) -> Any: ...
    def get(self, array: Any) -> NDArray[Any]: ...
    def address(self, array: Any) -> int: ...
    def run(self, kernel: str, grid: int, block: int, arguments: Sequence[Any], shared: int) -> None: ...


def carry_out(name: str, cases: Cases, machine: Machine, encode: Encode) -> dict[str, NDArray[Any]]:
    """Run the kernel of a family of cases (:func:`.copy_cases.draw`). ``encode``: a map of a call, and the device address that
    its own counts from.

    Gives ``memory``, the bytes of shared memory that each case leaves (one after the other, ``out`` says where), ``completed``
    (1: the mbarrier saw exactly the bytes that the case says), and ``regions``, what stores leave in device memory.
    """
    rows = machine.put(cases.rows.view(np.uint8))
    out = machine.put(np.zeros(max(cases.out_bytes, 4) // 4, np.uint32))
    completed = machine.put(np.zeros(CLUSTER * len(cases.rows), np.int32))
    if name == "stores":
        held = machine.put(regions(cases))
        arguments = [rows, _maps(cases, machine, encode, held), machine.put(source())]
        machine.run(name, len(cases.rows), THREADS, arguments, SHARED)
        return {"regions": machine.get(held)}
    if name == "blocks":
        held = machine.put(regions(cases))
        machine.run(name, len(cases.rows), THREADS, [rows, held, out, completed, machine.put(source())], SHARED)
        answer = {"regions": machine.get(held), "completed": machine.get(completed)[: len(cases.rows)]}
    elif name == "loads":
        maps = _maps(cases, machine, encode, machine.put(data()))
        machine.run(name, len(cases.rows), THREADS, [rows, maps, out, completed, np.uint32(PATTERN)], SHARED)
        answer = {"completed": machine.get(completed)[: len(cases.rows)]}
    else:
        held = machine.put(data())
        maps = _maps(cases, machine, encode, held)
        machine.run(name, CLUSTER * len(cases.rows), THREADS, [rows, maps, held, out, completed], SHARED)
        answer = {"completed": machine.get(completed).reshape(-1, CLUSTER)}
    return answer | {"memory": machine.get(out).view(np.uint8)}


def _maps(cases: Cases, machine: Machine, encode: Encode, buffer: Any) -> Any:
    base = machine.address(buffer)
    encoded = np.frombuffer(b"".join(encode(call, base) for call in cases.maps), np.uint8)
    maps = machine.put(encoded)
    _KEPT.append(buffer)  # the maps hold its address only
    return maps


_KEPT: list[Any] = []


def digests(name: str, cases: Cases, answer: Mapping[str, NDArray[Any]]) -> NDArray[np.uint64]:
    """Eight bytes of BLAKE2 for each case: of what it leaves in shared and in device memory."""
    windows = CLUSTER if name == "clusters" else 1
    made = np.zeros(len(cases.rows), np.uint64)
    for index, row in enumerate(cases.rows):
        digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        if "memory" in answer:
            digest.update(answer["memory"][row["out"] : row["out"] + windows * row["window"]].tobytes())
        if "regions" in answer:
            digest.update(answer["regions"][index].tobytes())
        made[index] = int.from_bytes(digest.digest(), "little")
    return made


def replace_fields(
    maps: NDArray[np.uint8], values: NDArray[np.uint64], which: NDArray[np.int32], machine: Machine
) -> NDArray[np.uint8]:
    """Replace field ``which[i]`` (a number of the kernel) of each map, uint8 [n, 128], by ``values[i]``; the maps after it."""
    out = machine.put(np.zeros_like(maps))
    machine.run("replacements", len(maps), 32, [machine.put(maps), machine.put(values), out, machine.put(which)], 0)
    return machine.get(out).reshape(maps.shape)


