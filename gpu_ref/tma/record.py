"""Record what a GPU of compute capability 9.0 does with tensor maps and bulk copies.

Run on a machine with a GPU, NumPy and CuPy, from the root of the checkout::

    python -m gpu_ref.tma.record FOLDER

It takes some ten seconds and writes under FOLDER, less than 1 MB together:

=====================  =============================================================================================
``maps.npz``           of the calls of :func:`.map_cases.map_cases`: ``result`` (CUresult), ``maps`` (uint8 [n, 128]),
                       and the SHA-256 of the calls
``replacements.npz``   tensormap.replace: maps before and after, values and fields
``copies.npz``         for each family of :func:`.copy_cases.draw`: a digest of what each case leaves in memory, and
                       whether its mbarrier saw the bytes that it should
``provenance.json``    GPU, driver, CUDA, date, seeds
=====================  =============================================================================================
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_ref.device import describe_gpu, require_cupy
from gpu_ref.tma import copy_cases, map_cases
from gpu_ref.tma.copies import KERNELS, carry_out, digests, replace_fields
from gpu_ref.tma.driver import Encoder
from isa.errors import TcsimError

__all__ = ["FIELDS", "main"]

FIELDS = 44
"""Fields of maps as the kernel ``replacements`` numbers them."""
REPLACEMENTS = 12 * FIELDS


class _Gpu:
    """The real machine (:class:`.copies.Machine`)."""

    def __init__(self) -> None:
        self._cupy = require_cupy()
        self._module = self._cupy.RawModule(path=str(KERNELS))
        self.put(np.zeros(1, np.uint8))  # makes the context

    def put(self, values: NDArray[Any]) -> Any:
        array = self._cupy.empty(values.shape, dtype=values.dtype)
        array.set(np.ascontiguousarray(values))
        return array

    def get(self, array: Any) -> NDArray[Any]:
        held: NDArray[Any] = array.get()
        return held

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def run(self, kernel: str, grid: int, block: int, arguments: Sequence[Any], shared: int) -> None:
        self._module.get_function(kernel)((grid,), (block,), tuple(arguments), shared_mem=shared)
        self._cupy.cuda.runtime.deviceSynchronize()


def _encode(encoder: Encoder, call: copy_cases.MapCall, base: int) -> bytes:
    modes = [call.interleave, call.swizzle, 0, call.fill]
    start = (call.dtype, call.rank, base + call.address, call.dims, call.strides)
    if call.box:
        result, made = encoder.tiled(*start, call.box, call.element_strides, modes)
    else:
        corners = (call.lower, call.upper)
        result, made = encoder.im2col(*start, corners, call.channels, call.pixels, call.element_strides, modes)
    if result:
        raise TcsimError(f"the driver refuses {call}: CUresult {result}")
    return made


def _replacements(maps: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.int32]]:
    """(maps, values, fields): every field with small numbers, powers of two and any bits at all."""
    rng = random.Random(map_cases.SEED)
    chosen = maps[[rng.randrange(len(maps)) for _ in range(REPLACEMENTS)]]
    values = [rng.choice([rng.randrange(300), 1 << rng.randrange(64), rng.getrandbits(64)]) for _ in range(REPLACEMENTS)]
    # Even cases go through shared memory and odd ones through device memory: both for every field.
    fields = [number // 2 % FIELDS for number in range(REPLACEMENTS)]
    return chosen, np.array(values, np.uint64), np.array(fields, np.int32)


def main(arguments: list[str] | None = None) -> int:
    """Record everything; see the module."""
    parser = argparse.ArgumentParser(description="Record tensor maps and bulk copies.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _record(folder)
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _family(name: str) -> dict[str, NDArray[Any]]:
    """Carry out one family of copies; its part of ``copies.npz``."""
    encoder = Encoder()
    cases = copy_cases.draw()[name]
    answer = carry_out(name, cases, _Gpu(), lambda call, base: _encode(encoder, call, base))
    made: dict[str, NDArray[Any]] = {name: digests(name, cases, answer)}
    if "completed" in answer:
        made[f"{name}.completed"] = answer["completed"].astype(np.int8)
    return made


def _record(folder: Path) -> None:
    gpu, encoder = _Gpu(), Encoder()
    described = describe_gpu(require_cupy())
    calls = map_cases.map_cases()
    results, maps = map_cases.encode_all(encoder, calls)
    sha256 = hashlib.sha256(calls.tobytes()).hexdigest()
    np.savez_compressed(folder / "maps.npz", result=results, maps=maps[results == 0], calls=np.array(sha256))
    tiled = maps[(results == 0) & (calls[:, 0] == 0)]
    before, values, fields = _replacements(tiled)
    after = replace_fields(before, values, fields, gpu)
    np.savez_compressed(folder / "replacements.npz", before=before, values=values, fields=fields, after=after)
    recorded: dict[str, NDArray[Any]] = {}
    for name in copy_cases.draw():
        # A copy that the GPU refuses takes the process's context with it, but not the other families.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            try:
                recorded |= pool.submit(_family, name).result()
                print(f"{name}: recorded", flush=True)
            except (RuntimeError, TcsimError) as error:  # CUDA errors are RuntimeErrors
                print(f"{name}: {error}", flush=True)
    np.savez_compressed(folder / "copies.npz", **recorded)  # type: ignore[arg-type]  # NumPy's stub takes the keys for flags
    provenance = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **described,
        "kernels": hashlib.sha256(KERNELS.read_bytes()).hexdigest(),
        "seeds": {"maps": map_cases.SEED, "copies": copy_cases.SEED},
    }
    (folder / "provenance.json").write_text(json.dumps(provenance, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
