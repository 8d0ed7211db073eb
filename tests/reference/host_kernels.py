"""What each kernel of ``traces/kernels`` computes, in NumPy: independent of PTX and of the simulator.

Integer kernels are exact. Float kernels are computed in double precision and compared with a tolerance, which shows that a
kernel does what it says; whether its *bits* are right is for the hardware recordings to tell.

:func:`expected` maps a bundle to its outputs. ``traces/suite.toml`` names the arguments that the functions here take.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcsim.bundle import Bundle, decode

from . import tensor_kernels, warpgroup_kernels

Array = NDArray[Any]
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Reference:
    """``compute`` maps argument values (floats as f64 arrays, integers in their own type) to the outputs' values, by name.

    A float may differ by ``relative`` times the largest magnitude in its output, and of integers that share ``relative`` may
    differ at all; 0 means equal.
    """

    compute: Callable[[Values], dict[str, Array]]
    relative: float = 0.0


def expected(bundle: Bundle) -> tuple[dict[str, Array], float]:
    """The outputs of ``bundle`` by name, as values, and the relative tolerance."""
    reference = REFERENCES[bundle.entry]
    values: dict[str, Any] = {}
    for argument, value in zip(bundle.arguments, bundle.values(), strict=True):
        array = np.asarray(value)
        values[argument.name] = decode(array, argument.dtype) if argument.dtype.kind == "float" else array
    with np.errstate(all="ignore"):
        return reference.compute(values), reference.relative


# -------------------------------------------------------------------------------------------------- float kernels


def _vector_add(v: Values) -> dict[str, Array]:
    return {"c": v["a"] + v["b"]}


def _saxpy(v: Values) -> dict[str, Array]:
    return {"y": v["alpha"] * v["x"] + v["y"]}


def _polynomial(v: Values) -> dict[str, Array]:
    coefficients = [1.0, -1 / 2, 1 / 3, -1 / 4, 1 / 5, -1 / 6]
    scale = np.resize(coefficients, len(v["x"]))
    return {"y": np.polynomial.polynomial.polyval(v["x"], coefficients) * scale}


def _contraction(v: Values) -> dict[str, Array]:
    x, y, z, p = v["xs"], v["ys"], v["zs"], v["parameter"]
    taken = z > 0.25
    zero = np.zeros_like(x)
    rows = [
        x * y + z, z - x * y, x * z + y, x * y + z, np.clip(y * z + x, 0, 1), x * y + y * z,
        x * z, x * z + y, y * y + x, y * y - z, x * x + z, np.maximum(x * x, y),
        x * z - y * p, np.where(taken, x * y + z, zero), np.where(taken, x * p + z, zero),
        np.where(taken, 3 * y + z, zero), x * y / 2 + z, y * z,
    ]  # fmt: skip
    return {"out": np.stack(rows)}


def _half2_math(v: Values) -> dict[str, Array]:
    a, b = v["x"], v["y"]
    wide = (a * b)[::2], np.sqrt(np.abs(a))[::2] - a[1::2]
    polynomial = (a / 4 + b) * a - 1.5
    both = a * b + polynomial
    clamped = np.clip(both, -2, 2)
    relu = np.maximum(np.where(a > b, both, 0) - np.abs(clamped), 0)
    last = np.stack([(a[::2] * a[1::2]), wide[1]], axis=1).reshape(-1)
    return {"out": np.stack([clamped, relu, np.exp2(clamped), last])}


def _bfloat2_math(v: Values) -> dict[str, Array]:
    a, b = v["x"], v["y"]
    low, high = b[::2], b[1::2]
    last = np.stack([low / 3, high * low + 0.1], axis=1).reshape(-1)
    return {"out": np.stack([(a * b + np.maximum(a, b)) * a, last])}


def _softmax(v: Values) -> dict[str, Array]:
    exponential = np.exp(v["x"] - v["x"].max(axis=1, keepdims=True))
    return {"y": exponential / exponential.sum(axis=1, keepdims=True)}


def _triton_softmax(v: Values) -> dict[str, Array]:
    columns = int(v["columns"])
    y = v["y"].copy()
    y[:, :columns] = _softmax({"x": v["x"][:, :columns]})["y"]
    return {"y": y}


def _layernorm(v: Values) -> dict[str, Array]:
    x = v["x"]
    scale = 1 / np.sqrt(x.var(axis=1, keepdims=True) + v["epsilon"])
    return {"y": (x - x.mean(axis=1, keepdims=True)) * scale * v["gamma"] + v["beta"]}


def _cosine(v: Values) -> dict[str, Array]:
    a, b = v["a"], v["b"]
    dot = (a * b).sum(axis=1)
    return {"dot": dot, "cosine": dot / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))}


def _transpose(v: Values) -> dict[str, Array]:
    return {"out": v["source"].T}


def _stencil3d(v: Values) -> dict[str, Array]:
    x = v["source"]
    out = x.copy()
    inner = (slice(1, -1),) * 3
    around = sum(np.roll(x, shift, axis)[inner] for axis in range(3) for shift in (1, -1))
    out[inner] = v["c0"] * x[inner] + v["c1"] * around
    return {"out": out}


def _box_blur(v: Values) -> dict[str, Array]:
    padded = np.pad(v["source"], 1)
    height, width = v["source"].shape
    shifted = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return {"out": np.mean(shifted, axis=0)}


def _reduce_sum_f32(v: Values) -> dict[str, Array]:
    blocks, threads = len(v["block_sums"]), 256
    owner = np.arange(len(v["x"])) // threads % blocks
    sums = np.bincount(owner, weights=v["x"], minlength=blocks)
    return {"block_sums": sums, "counter": v["counter"], "total": sums.sum(keepdims=True)}


def _segment_max_scan(v: Values) -> dict[str, Array]:
    return {"y": np.maximum.accumulate(v["x"].reshape(-1, int(v["width"])), axis=1).reshape(-1)}


def _gemm(v: Values) -> dict[str, Array]:
    return {"c": v["a"] @ v["b"]}


def _gemm_column_major(v: Values) -> dict[str, Array]:
    wide = np.float64 if v["a"].dtype.kind == "f" else np.int64
    return {"c": v["a"].astype(wide) @ v["b"].astype(wide).T}


# ------------------------------------------------------------------------------------------------ integer kernels


def _gather(v: Values) -> dict[str, Array]:
    return {"y": v["x"][v["index"]]}


def _pointer_chase(v: Values) -> dict[str, Array]:
    at = total = 0
    for _ in range(int(v["steps"])):
        at = int(v["next"][at]) & (int(v["size"]) - 1)
        total = (total * 3 + at) & 0xFFFFFFFF
    return {"visited": np.array([at, total], np.uint32)}


def _stream_sum(v: Values) -> dict[str, Array]:
    x, threads = v["x"], len(v["y"])
    four = (x[:, 0] + x[:, 1]) + (x[:, 2] ^ x[:, 3])
    sums = np.zeros(threads, np.int32)
    for _ in range(int(v["passes"])):
        for start in range(0, len(four), threads):
            part = four[start : start + threads]
            sums[: len(part)] = sums[: len(part)] * np.int32(3) + part  # wraps in 32 bits
    return {"y": sums}


def _mandelbrot(v: Values) -> dict[str, Array]:
    height, width = v["steps"].shape
    c = (v["left"] + v["pixel"] * np.arange(width)) + 1j * (v["top"] - v["pixel"] * np.arange(height))[:, None]
    z, steps = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(int(v["limit"])):
        inside = np.abs(z) <= 2
        steps += inside
        z = np.where(inside, z * z + c, z)
    return {"steps": steps}


def _reduce_sum_s32(v: Values) -> dict[str, Array]:
    return {"total": v["x"].sum(dtype=np.int64, keepdims=True).astype(np.int32)}


def _block_scan(v: Values) -> dict[str, Array]:
    return {"y": np.cumsum(v["x"].reshape(-1, 1024), axis=1, dtype=np.int32).reshape(-1)}


def _histogram(v: Values) -> dict[str, Array]:
    return {"counts": np.bincount(v["x"], minlength=256).astype(np.uint32)}


def _collatz(v: Values) -> dict[str, Array]:
    steps, peaks = [], []
    for start in range(int(v["start"]), int(v["start"]) + int(v["count"])):
        number = peak = start
        length = 0
        while number != 1:
            number = number // 2 if number % 2 == 0 else 3 * number + 1
            peak = max(peak, number)
            length += 1
        steps.append(length)
        peaks.append(peak)
    return {"steps": np.array(steps, np.int32), "peak": np.array(peaks, np.uint64)}


def _bytecode(v: Values) -> dict[str, Array]:
    mask = 0xFFFFFFFF
    sums = []
    for x in v["x"].tolist():
        number, checksum = x, 0
        for _ in range(4):
            number = (3 * number + 1) & mask if number % 2 else number >> 1
            checksum = (checksum * 31 + number) & mask
        rotated = ((number << 7) | (number >> 25)) & mask
        sums.append((checksum * 31 + rotated - (number ^ 0x5BD1E995)) & mask)
    return {"checksum": np.array(sums, np.uint32)}


def _insertion_sort(v: Values) -> dict[str, Array]:
    order = np.argsort(v["x"], axis=1, kind="stable")
    lengths = []
    for permutation in order.tolist():
        at, length = permutation[0], 1
        while at != 0:
            at, length = permutation[at], length + 1
        lengths.append(length)
    return {"sorted": np.sort(v["x"], axis=1), "cycle_length": np.array(lengths, np.int32)}


def _producer_consumer(v: Values) -> dict[str, Array]:
    produced = v["x"] * 3 + np.arange(v["x"].shape[1], dtype=np.int32)[None, :, None]
    y, carry = np.empty_like(v["x"]), np.zeros_like(v["x"][:, 0])
    for step in range(v["x"].shape[1]):
        carry = carry * np.int32(5) + produced[:, step, ::-1]  # wraps in 32 bits
        y[:, step] = carry
    return {"y": y}


def _locks(v: Values) -> dict[str, Array]:
    blocks = len(v["x"]) // 64
    checksum = np.bitwise_xor.reduce(v["x"].astype(np.uint32) * np.uint32(0x9E3779B1))
    balance = v["x"].sum(dtype=np.int64) & 0xFFFFFFFF
    return {"account": np.array([blocks, blocks, 0, blocks * (blocks + 1) // 2, balance, checksum], np.uint32)}


def _ballot(said: Sequence[bool]) -> int:
    return sum(1 << lane for lane, yes in enumerate(said) if yes)


def _warp_votes(v: Values) -> dict[str, Array]:
    warps = v["x"].reshape(-1, 32)
    out = np.empty((14, *warps.shape), np.uint32)
    for w, values in enumerate(warps.tolist()):
        unsigned = [value & 0xFFFFFFFF for value in values]
        same = [_ballot([other == value for other in values]) for value in values]
        everywhere = [
            0xFFFFFFFF + 1 if len(set(values)) == 1 else 0,
            _ballot([value > 0 for value in values]),
            2 * all(value < 7 for value in values) + any(value < -7 for value in values),
            sum(values),
            min(values),
            max(unsigned),
            functools.reduce(operator.and_, [value | 0xFF00 for value in unsigned]),
            functools.reduce(operator.or_, [1 << (value & 31) for value in values]),
            functools.reduce(operator.xor, [value * 2654435761 for value in unsigned]),
        ]
        odd = _ballot([lane % 2 == 1 and value % 2 != 0 for lane, value in enumerate(values)])
        even = sum(value % 3 == 0 for value in values[::2])
        for lane in range(32):
            halves = [odd, sum(range(1, 32, 2))] if lane % 2 else [even, same[lane] & 0x55555555]
            leader = (same[lane] & -same[lane]).bit_length() - 1
            column = [same[lane], same[lane], *everywhere, *halves, w * 32 + leader]
            out[:, w, lane] = [word & 0xFFFFFFFF for word in column]
    return {"out": out.reshape(14, -1)}


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _hash_rounds(v: Values) -> dict[str, Array]:
    m32, m64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF

    def mix32(h: int) -> int:
        h ^= h >> 16
        h = h * 0x85EBCA6B & m32
        h ^= h >> 13
        h = h * 0xC2B2AE35 & m32
        return h ^ h >> 16

    outs, outs64 = [], []
    for i, x in enumerate(v["x"].tolist()):
        h = x
        state = (h << 32 | mix32(h)) | 1
        for _ in range(int(v["rounds"])):
            state ^= state << 13 & m64
            state ^= state >> 7
            state ^= state << 17 & m64
            state = state * 0x2545F4914F6CDD1D & m64
            low, high = state & m32, state >> 32
            both, shift = high << 32 | h, low & 31
            h = ((both << shift >> 32) + mix32(low)) & m32
            pair = (high << 32 | low).to_bytes(8, "little")
            permuted = int.from_bytes(bytes(pair[int(digit, 16)] for digit in "2716"), "little")
            h ^= ((h * high >> 32) + permuted) & m32
            reversed_bits = int(f"{h:032b}"[::-1], 2)
            h = (h + low.bit_count() * (32 - (high | 1).bit_length()) - reversed_bits // 7) & m32
            scale = h % 1000
            products = (_signed(h >> at, 8) * _signed(low >> at, 8) for at in (0, 8, 16, 24))
            h = (scale + sum(products)) & m32
            state = (state + (state * (h | 0xFFFF00000000) >> 64)) & m64
            if h & 0x100:
                distance = abs(_signed(low) - _signed(high)) + 5
                h = (max(_signed(h), _signed(low)) - distance) & m32
        outs.append(h)
        outs64.append((state // (h % 97 + 1) + state % (i % 8 + 3)) & m64)
    return {"out": np.array(outs, np.uint32), "out64": np.array(outs64, np.uint64)}


REFERENCES: dict[str, Reference] = {
    "vector_add": Reference(_vector_add, 1e-6),
    "saxpy": Reference(_saxpy, 1e-6),
    "polynomial": Reference(_polynomial, 1e-5),
    "contraction": Reference(_contraction, 1e-5),
    "half2_math": Reference(_half2_math, 4e-3),
    "bfloat2_math": Reference(_bfloat2_math, 2e-2),
    "softmax_rows": Reference(_softmax, 1e-5),
    "softmax_rows_expf": Reference(_softmax, 1e-5),
    "triton_softmax": Reference(_triton_softmax, 1e-5),
    "layernorm": Reference(_layernorm, 1e-5),
    "cosine_f64": Reference(_cosine, 1e-12),
    "transpose_conflicts": Reference(_transpose),
    "transpose_padded": Reference(_transpose),
    "stencil3d": Reference(_stencil3d, 1e-6),
    "box_blur": Reference(_box_blur, 1e-6),
    "reduce_sum_f32": Reference(_reduce_sum_f32, 1e-5),
    "segment_max_scan": Reference(_segment_max_scan),
    "sgemm": Reference(_gemm, 1e-5),
    "wmma_gemm": Reference(_gemm, 1e-5),
    "gemm_f16": Reference(_gemm, 1e-5),
    "gemm_bf16": Reference(_gemm, 1e-5),
    "gemm_tf32": Reference(_gemm, 2e-3),
    "gemm_e4m3": Reference(_gemm_column_major, 1e-5),
    "triton_matmul": Reference(_gemm, 1e-5),
    "gemm_s8": Reference(_gemm_column_major),
    "wgmma_f16": Reference(_gemm_column_major, 1e-5),
    "wgmma_bf16": Reference(warpgroup_kernels.half_negated, 1e-5),
    "wgmma_fp8": Reference(_gemm_column_major, 1e-3),
    "wgmma_s8": Reference(warpgroup_kernels.saturated),
    "wgmma_tf32": Reference(_gemm_column_major, 2e-3),
    "wgmma_f16_transposed": Reference(warpgroup_kernels.transposed, 2e-3),
    "wgmma_f16_sparse": Reference(warpgroup_kernels.sparse, 1e-5),
    "transpose_tiles": Reference(tensor_kernels.transpose_tiles),
    "sum_tiles": Reference(tensor_kernels.sum_tiles),
    "scale_shared": Reference(tensor_kernels.scale_shared, 1e-7),
    "square_blocks": Reference(tensor_kernels.square_blocks),
    "gemm_specialised": Reference(tensor_kernels.gemm_transposed, 1e-5),
    "wgmma_attention": Reference(warpgroup_kernels.attention, 2e-3),
    "gather": Reference(_gather),
    "pointer_chase": Reference(_pointer_chase),
    "stream_sum": Reference(_stream_sum),
    "mandelbrot": Reference(_mandelbrot, 0.02),
    "reduce_sum_s32": Reference(_reduce_sum_s32),
    "block_scan": Reference(_block_scan),
    "histogram_u8": Reference(_histogram),
    "collatz": Reference(_collatz),
    "bytecode": Reference(_bytecode),
    "insertion_sort": Reference(_insertion_sort),
    "producer_consumer": Reference(_producer_consumer),
    "locks": Reference(_locks),
    "warp_votes": Reference(_warp_votes),
    "hash_rounds": Reference(_hash_rounds),
}
"""By kernel entry name."""
