"""Check tcsim's special-function arithmetic against a recording: samples, dense sweeps, and hashes of all 2^32 results.

    python -m gpu_ref.mufu.verify FOLDER [--blocks N] [--only WORD]

``--blocks`` says how many of the 256 blocks of each hashed sweep to recompute (default 2, spread out; 256 checks
everything, about a minute for each sweep). ``--only`` takes the sweeps whose name contains a word. FOLDER holds what
``gpu_ref.mufu.record`` wrote; of the files only those that are there are checked. Exit code 1 on any difference.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from gpu_ref.mufu import codec
from gpu_ref.mufu.forms import FILES, FORMS, SWEEPS, Sweep, dense_inputs, sample_inputs
from isa.arith import approx
from isa.arith.primitives import bits_f32, bits_f64, f32_bits, f64_bits

__all__ = ["block_hash", "function_of", "main", "model"]

_KINDS = {form.opcode: form.kind for form in FORMS}
_ROLES = {"x": 0, "over": 1, "under": 2, "scrambled": 3}


def function_of(opcode: str) -> Callable[..., Any]:
    """The lane function of ``isa.arith.approx`` for a PTX opcode."""
    function: Callable[..., Any] = getattr(approx, opcode.replace(".", "_"))
    return function


def _jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = numba.njit(function)
    return compiled


def model(opcode: str) -> Callable[..., Any]:
    """The instruction on 64-bit operand words: jitted ``(a, b) -> result``, all uint64, as in the recording kernels."""
    function = function_of(opcode)
    by_kind: dict[str, Callable[..., Any]] = {
        "f32": lambda a, b: np.uint64(f32_bits(function(bits_f32(np.uint32(a))))),
        "div": lambda a, b: np.uint64(f32_bits(function(bits_f32(np.uint32(a)), bits_f32(np.uint32(b))))),
        "f64": lambda a, b: f64_bits(function(bits_f64(a))),
        "half": lambda a, b: np.uint64(function(np.uint16(a))),
        "x2": lambda a, b: np.uint64(function(np.uint32(a))),
    }
    return _jitted(by_kind[_KINDS[opcode]])


def _mapped(operation: Callable[..., Any]) -> Callable[..., Any]:
    @_jitted
    def over_arrays(a: Any, b: Any, out: Any) -> None:
        for i in range(len(a)):
            out[i] = operation(a[i], b[i])

    return over_arrays


@numba.njit
def _mix(z: Any) -> Any:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def block_hash(opcode: str) -> Callable[..., Any]:
    """Jitted ``(block, role, fixed) -> (sum, exclusive-or)`` of one block of 2^24 inputs, as ``record`` defines it."""
    operation, wide = model(opcode), _KINDS[opcode] == "f64"
    golden = np.uint64(codec.GOLDEN)

    @_jitted
    def hashed(block: Any, role: Any, fixed: Any) -> Any:
        total, parity = np.uint64(0), np.uint64(0)
        for i in range(1 << 24):
            x = np.uint64(block) << np.uint64(24) | np.uint64(i)
            a, b = x, np.uint64(fixed)
            if wide:
                a = x << np.uint64(32) | (_mix(x) & np.uint64(0xFFFFFFFF))
            if role == 2:
                a, b = b, x
            if role == 3:
                b = _mix(x * golden) & np.uint64(0xFFFFFFFF)
            word = _mix(x * golden + operation(a, b))
            total += word
            parity ^= word
        return total, parity

    return hashed


def _compare(name: str, got: npt.NDArray[Any], want: npt.NDArray[Any], a: npt.NDArray[Any], b: npt.NDArray[Any]) -> int:
    bad = np.flatnonzero(got != want)
    first = (
        f"; first {int(a[bad[0]]):x} {int(b[bad[0]]):x} -> {int(want[bad[0]]):x}, ours {int(got[bad[0]]):x}"
        if len(bad)
        else ""
    )
    print(f"{name}: {len(bad)} of {len(want)} differ{first}", flush=True)
    return len(bad)


def _values(opcode: str, a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    out = np.zeros_like(a)
    _mapped(model(opcode))(a, b, out)
    return out


def _check_samples(folder: Path, only: str) -> int:
    bad = 0
    with np.load(folder / "samples.npz") as stored:
        for form in FORMS:
            if only in form.opcode:
                a, b = sample_inputs(form)
                bad += _compare(f"samples {form.opcode}", _values(form.opcode, a, b), stored[form.opcode], a, b)
    return bad


def _check_dense(path: Path, only: str) -> int:
    bad = 0
    with np.load(path) as stored:
        for dense in FILES[path.stem]:
            if only in dense.opcode:
                want = codec.unpack(
                    **{key: stored[f"{dense.name}/{key}"] for key in ("anchors", "residual", "far_index", "far_value")}
                )
                words = dense_inputs(dense).astype(np.uint64)
                high = np.uint64(32 if dense.opcode.endswith(".f64") else 0)
                got = (_values(dense.opcode, words << high, np.zeros_like(words)) >> high).astype(np.uint32)
                bad += _compare(f"dense {dense.name}", got, want, words, words)
    return bad


def _check_hashes(folder: Path, sweeps: list[Sweep], blocks: int) -> int:
    bad = 0
    compiled: dict[str, Callable[..., Any]] = {}
    chosen = [(k * 256) // blocks + (97 * k + 13) % max(256 // blocks, 1) for k in range(blocks)]
    with np.load(folder / "hashes.npz") as stored:
        for sweep in sweeps:
            begin = time.perf_counter()
            hashed = compiled.setdefault(sweep.opcode, block_hash(sweep.opcode))
            want = stored[sweep.name]
            wrong = []
            for block in chosen:
                total, parity = hashed(np.uint32(block), np.int32(_ROLES[sweep.role]), np.uint32(sweep.fixed))
                if (int(total), int(parity)) != (int(want[block, 0]), int(want[block, 1])):
                    wrong.append(block)
            seconds = time.perf_counter() - begin
            print(f"hashes {sweep.name}: {len(chosen) - len(wrong)} of {len(chosen)} blocks agree ({seconds:.1f} s)"
                  + (f"; first wrong {wrong[0]:#04x}" if wrong else ""), flush=True)  # fmt: skip
            bad += len(wrong)
    return bad


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text."""
    parser = argparse.ArgumentParser(description="Check the special-function arithmetic against a recording.")
    parser.add_argument("folder", type=Path, help="what gpu_ref.mufu.record wrote")
    parser.add_argument("--blocks", type=int, default=2, help="hashed blocks to recompute for each sweep, 0 to 256")
    parser.add_argument("--only", default="", help="check only names that contain this")
    options = parser.parse_args(arguments)
    bad = 0
    if (options.folder / "samples.npz").exists():
        bad += _check_samples(options.folder, options.only)
    for name in FILES:
        if (options.folder / f"{name}.npz").exists():
            bad += _check_dense(options.folder / f"{name}.npz", options.only)
    if options.blocks and (options.folder / "hashes.npz").exists():
        bad += _check_hashes(options.folder, [s for s in SWEEPS if options.only in s.name], options.blocks)
    print("everything agrees" if bad == 0 else f"{bad} differences")
    return int(bad != 0)


if __name__ == "__main__":
    sys.exit(main())
