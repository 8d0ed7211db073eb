"""All 2^32 operands of an instruction, by hash: recorded on a GPU, and computed again by the executed kernels.

``python -m gpu_ref sweep`` checks the recordings that come with the checkout, on any machine: for each block of 2^24 operands
the kernel that tcsim executes for the instruction is run on every one of them, and a hash of its results is compared with that
of the hardware's (:mod:`gpu_ref.mufu.codec`). ``--record`` makes such a recording on a machine with a GPU.

The approximate instructions are those of :mod:`gpu_ref.mufu.forms`. :data:`MORE` adds instructions of one operand whose results
IEEE 754 or the PTX ISA define: there a sweep proves that the definition is what the hardware does, for every operand. It also
has the approximate ones of one half, whose 2^16 operands occur 2^16 times each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from ctypes import CFUNCTYPE, c_int32, c_int64, c_uint32
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

import isa.instructions  # noqa: F401  (fills the registry)
from gpu_ref.mufu import codec
from gpu_ref.mufu.forms import FORMS as UNIT_FORMS
from gpu_ref.mufu.forms import SWEEPS as UNIT_SWEEPS
from gpu_ref.mufu.forms import Sweep
from isa.errors import TcsimError
from isa.kernels.cache import kernel_address
from isa.kernels.wrap import KernelSpec
from isa.spec import Form, find

__all__ = ["FOLDERS", "MORE", "SWEEPS", "add_arguments", "block_hash", "run", "source"]

BLOCKS = 256
"""Blocks of a sweep, of 2^24 operands each."""

_TRACES = Path(__file__).parents[2] / "traces"
FOLDERS = (_TRACES / "mufu", _TRACES / "scalar")
"""Where the recordings of the checkout are, each in a ``hashes.npz``."""


def _more() -> Iterator[Sweep]:
    roundings = ("rn", "rz", "rm", "rp")
    for op, rnd, ftz in itertools.product(("rcp", "sqrt"), roundings, ("", ".ftz")):
        yield Sweep(f"{op}.{rnd}{ftz}.f32", "x", 0)
    for rnd, kind in itertools.product(roundings, ("f16", "bf16")):
        yield Sweep(f"cvt.{rnd}.{kind}.f32", "x", 0)
    yield from (Sweep(f"cvt.{mode}.tf32.f32", "x", 0) for mode in ("rna", "rna.satfinite", "rn", "rz"))
    yield from (Sweep(f"cvt.rn.satfinite.{kind}.f16x2", "x", 0) for kind in ("e4m3x2", "e5m2x2"))
    for rnd, kind in itertools.product(("rni", "rzi", "rmi", "rpi"), ("s32", "u32")):
        yield Sweep(f"cvt.{rnd}.{kind}.f32", "x", 0)
    yield from (Sweep(f"cvt.{rnd}.f32.{kind}", "x", 0) for rnd in roundings for kind in ("s32", "u32"))
    yield from (Sweep(form.opcode, "x", 0) for form in UNIT_FORMS if form.kind == "half")


MORE: tuple[Sweep, ...] = tuple(_more())
"""Sweeps besides those of :mod:`gpu_ref.mufu.forms`."""

SWEEPS: tuple[Sweep, ...] = (*UNIT_SWEEPS, *MORE)

_ROLES = {"x": 0, "over": 1, "under": 2, "scrambled": 3}


# ------------------------------------------------------------------------------------------------------------- the model


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
def _hash_block(kernel: Any, words: Any, address: Any, row: Any, block: Any, shape: Any, role: Any, fixed: Any) -> Any:
    """``words`` are the registers of a warp: two planes for the result, two for each operand, at ``address``. ``shape``
    says which are used: planes and bits of the result, planes of an operand, number of operands."""
    planes, bits, operand_planes, operands = shape
    golden, low = np.uint64(codec.GOLDEN), np.uint64(0xFFFFFFFF)
    kept = ~np.uint64(0) >> np.uint64(64 - bits)
    total, parity = np.uint64(0), np.uint64(0)
    for i in range(1 << 19):
        base = np.uint64(block) << np.uint64(24) | np.uint64(32 * i)
        for lane in range(32):
            x = base + np.uint64(lane)
            a, b = x, np.uint64(fixed)
            if operand_planes == 2:
                a = x << np.uint64(32) | (_mix(x) & low)
            if role == 2:
                a, b = b, x
            if role == 3:
                b = _mix(x * golden) & low
            words[64 + lane] = np.uint32(a & low)
            words[96 + lane] = np.uint32(a >> np.uint64(32))
            if operands == 2:
                words[128 + lane] = np.uint32(b & low)
        kernel(address, np.uint32(0xFFFFFFFF), row, 0)
        for lane in range(32):
            result = np.uint64(words[lane])
            if planes == 2:
                result |= np.uint64(words[32 + lane]) << np.uint64(32)
            word = _mix((base + np.uint64(lane)) * golden + (result & kept))
            total += word
            parity ^= word
    return total, parity


_KERNEL = CFUNCTYPE(c_int32, c_int64, c_uint32, c_int64, c_int64)


def _form(opcode: str) -> Form:
    forms, reason = find(opcode)
    if len(forms) != 1:
        raise TcsimError(f"{opcode}: {reason or 'more than one form'}")
    return forms[0]


@cache
def _loaded(opcode: str) -> Any:
    form = _form(opcode)
    return _KERNEL(kernel_address(KernelSpec(form, tuple(o.type.planes for o in form.operands), {})))


def block_hash(sweep: Sweep, block: int) -> tuple[int, int]:
    """(sum, exclusive-or) of one block of a sweep, as the recording defines it, from the kernel that tcsim executes."""
    form = _form(sweep.opcode)
    result, first = form.destinations[0].type, form.sources[0].type
    words = np.zeros(192, np.uint32)
    row = np.array([0, 256, 512][: len(form.operands)], np.int32)
    shape = (result.planes, result.bits, first.planes, len(form.sources))
    total, parity = _hash_block(
        _loaded(sweep.opcode), words, words.ctypes.data, row.ctypes.data, np.uint32(block), shape, _ROLES[sweep.role],
        np.uint32(sweep.fixed),
    )  # fmt: skip
    return int(total), int(parity)


# -------------------------------------------------------------------------------------------------------- the GPU's side

_COMMON = """
typedef unsigned long long u64;

__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
"""

# Grid (64, 256), 256 threads: row blockIdx.y is one block of 2^24 operands, each thread takes 1024 of them.
_SWEEP = """
extern "C" __global__ void sweep_@K@(u64 *out) {
    u64 sum = 0, parity = 0;
    unsigned base = blockIdx.y << 24 | (blockIdx.x << 8) | threadIdx.x;
    for (unsigned i = 0; i < 1024; i++) {
        u64 x = base + (i << 14), d;
        asm volatile("{ .reg .b@A@ a; .reg .b@D@ d; cvt.u@A@.u64 a, %1; @OP@ d, a; cvt.u64.u@D@ %0, d; }"
                     : "=l"(d) : "l"(x));
        u64 word = mix(x * 0x9E3779B97F4A7C15ull + d);
        sum += word;
        parity ^= word;
    }
    atomicAdd(out + 2 * blockIdx.y, sum);
    atomicXor(out + 2 * blockIdx.y + 1, parity);
}
"""


def source() -> str:
    """CUDA C of the kernels ``sweep_K`` for the K-th entry of :data:`MORE`."""
    parts = [_COMMON]
    for k, sweep in enumerate(MORE):
        form = _form(sweep.opcode)
        text = _SWEEP
        for mark, value in (
            ("K", k), ("A", form.sources[0].type.bits), ("D", form.destinations[0].type.bits), ("OP", sweep.opcode)
        ):  # fmt: skip
            text = text.replace(f"@{mark}@", str(value))
        parts.append(text)
    return "".join(parts)


def _record(folder: Path, chosen: Sequence[Sweep]) -> None:
    """Write ``hashes.npz`` with the chosen sweeps, and the provenance."""
    from gpu_ref.device import require_cupy
    from gpu_ref.mufu.record import Recorder, provenance

    cupy = require_cupy()
    folder.mkdir(parents=True, exist_ok=True)
    exact = cupy.RawModule(code=source(), options=("-std=c++17",))
    unit = Recorder(cupy)
    hashes: dict[str, npt.NDArray[Any]] = {"provenance": np.array(provenance(cupy))}
    for sweep in chosen:
        if sweep in UNIT_SWEEPS:
            hashes[sweep.name] = unit.hashes(sweep)
        else:
            out = cupy.zeros((BLOCKS, 2), dtype=np.uint64)
            exact.get_function(f"sweep_{MORE.index(sweep)}")((64, BLOCKS), (256,), (out,))
            hashes[sweep.name] = np.asarray(cupy.asnumpy(out))
    np.savez_compressed(folder / "hashes.npz", **hashes)  # type: ignore[arg-type]
    print(f"{folder / 'hashes.npz'}: {len(chosen)} sweeps of 2^32 operands", flush=True)


# ------------------------------------------------------------------------------------------------------------- checking


def _blocks(count: int) -> list[int]:
    """``count`` of the 256 blocks, spread out."""
    return [(k * BLOCKS) // count + (97 * k + 13) % max(BLOCKS // count, 1) for k in range(count)]


def _wrong(number: int, blocks: list[int], want: list[tuple[int, int]]) -> tuple[int, list[int]]:
    """Of some blocks of a sweep, those whose hashes differ."""
    return number, [b for b, expected in zip(blocks, want, strict=True) if block_hash(SWEEPS[number], b) != expected]


def _stored(folders: Sequence[Path]) -> dict[str, npt.NDArray[np.uint64]]:
    found: dict[str, npt.NDArray[np.uint64]] = {}
    for folder in folders:
        path = folder / "hashes.npz"
        if path.is_file():
            with np.load(path) as arrays:
                found |= {name: arrays[name] for name in arrays.files if name != "provenance"}
    if not found:
        raise TcsimError(f"no hashes.npz in {' or '.join(map(str, folders))}; record one with --record FOLDER on a GPU")
    return found


def _check(
    chosen: Sequence[Sweep], stored: dict[str, npt.NDArray[np.uint64]], count: int, processes: int
) -> dict[str, tuple[int, list[int]]]:
    """For each sweep the number of blocks checked and those that differ. A line is printed as each is done."""
    for opcode in {sweep.opcode for sweep in chosen}:
        _loaded(opcode)  # compiled once, here
    done: dict[int, int] = defaultdict(int)
    bad: dict[int, list[int]] = defaultdict(list)
    begin = time.perf_counter()

    def note(number: int, wrong: list[int], size: int) -> None:
        done[number] += size
        bad[number] += wrong
        if done[number] == count:
            text = f"{SWEEPS[number].name}: {count - len(bad[number])} of {count} blocks agree"
            worst = f"; first wrong {min(bad[number]):#04x}" if bad[number] else ""
            print(f"{time.perf_counter() - begin:7.1f} s  {text}{worst}", flush=True)

    part = min(16, count)
    tasks = []
    for sweep in chosen:
        blocks = _blocks(count)
        hashes = [(int(stored[sweep.name][b, 0]), int(stored[sweep.name][b, 1])) for b in blocks]
        number = SWEEPS.index(sweep)
        tasks += [(number, blocks[at : at + part], hashes[at : at + part]) for at in range(0, count, part)]
    if processes == 1:
        for task in tasks:
            note(*_wrong(*task), len(task[1]))
    else:
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
            sizes: dict[Future[tuple[int, list[int]]], int] = {pool.submit(_wrong, *t): len(t[1]) for t in tasks}
            for future in as_completed(sizes):
                note(*future.result(), sizes[future])
    return {sweep.name: (count, sorted(bad[SWEEPS.index(sweep)])) for sweep in chosen}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``python -m gpu_ref sweep``."""
    parser.add_argument("--only", action="append", default=[], metavar="WORD",
                        help="sweeps whose name contains this; may be given again (default: all recorded ones)")  # fmt: skip
    parser.add_argument("--blocks", type=int, default=2,
                        help="blocks of 2^24 operands of each sweep, 1 to 256 (default: 2; 256 take 12 s a sweep)")  # fmt: skip
    parser.add_argument("--processes", type=int, default=1, help="to share the work (default: 1)")
    parser.add_argument("--hashes", action="append", type=Path, metavar="FOLDER",
                        help="folder with a recording, hashes.npz (default: those of the checkout)")  # fmt: skip
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="record on this machine's GPU, then check against that")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write blocks checked and blocks wrong to this JSON file")


def run(options: argparse.Namespace) -> int:
    """Record if asked to, then check. Returns 1 if a hash differs. Raises TcsimError."""
    count = min(max(options.blocks, 1), BLOCKS)
    while BLOCKS % count:
        count += 1
    chosen = [s for s in SWEEPS if not options.only or any(word in s.name for word in options.only)]
    if not chosen:
        raise TcsimError(f"no sweep's name contains {' or '.join(options.only)}; they are called like {SWEEPS[0].name}")
    folders = options.hashes or FOLDERS
    if options.record is not None:
        _record(options.record, chosen)
        folders = [options.record]
    stored = _stored(folders)
    results = _check([s for s in chosen if s.name in stored], stored, count, options.processes)
    if options.report is not None:
        rows = {name: {"blocks": blocks, "wrong": wrong} for name, (blocks, wrong) in results.items()}
        options.report.write_text(json.dumps(rows, indent=1) + "\n")
    bad = sum(len(wrong) for _, wrong in results.values())
    operands = sum(blocks for blocks, _ in results.values()) << 24
    print(f"{len(results)} sweeps, {operands:,} operands: {'no block differs' if not bad else f'{bad} blocks differ'}")
    return int(bad > 0)
