"""What a launch computes: floating and integer operations by kind, and what the GPU could do of each. PTX and machine code."""

from __future__ import annotations

import re
from collections import Counter

from tcsim.profile import InstructionProfile, LaunchProfile

__all__ = ["has_matrices", "operations", "peak", "work"]

_LANES, _SUB_PARTITIONS = 32, 4
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_NUMBERS = {
    "f16": "f16", "bf16": "bf16", "tf32": "tf32", "e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8", "s4": "int4",
    "u4": "int4", "b1": "b1", "f64": "f64", "e2m1": "fp4", "e2m3": "fp6", "e3m2": "fp6",
}  # fmt: skip
_ACCUMULATORS = ("f16", "f32", "s32", "f64")
_FUSED = {"fma", "mad", "fused_multiply_add", "FFMA", "DFMA", "HFMA2"}
_PLAIN = {"add", "sub", "mul", "FADD", "FMUL", "DADD", "DMUL", "HADD2", "HMUL2"}

_MOVES = ("HADD2.F32",)  # a conversion


def operations(opcode: str, executed: int, threads: int) -> tuple[str, int]:
    """(kind, operations) of an instruction that warps executed so often, with so many lanes in all. Kinds: ``tensor f16``,
    ``tensor fp8``, ``tensor sparse int8`` and so on for products of matrices (of sparse ones, as if they were dense); ``fp32``,
    ``fp64``, ``fp16`` for others. A fused multiply-add is two. ("", 0) for what does no such arithmetic."""
    words = opcode.split(".")
    found = _of_ptx_matrices(words) or _of_machine_matrices(words)
    if found is not None:
        kind, (m, n, k) = found
        warps = 4 if words[0] in ("wgmma", "HGMMA", "QGMMA", "IGMMA", "BGMMA") else 1  # that share one product
        return f"tensor {kind}", executed * 2 * m * n * k // warps
    if (words[0] not in _FUSED and words[0] not in _PLAIN) or opcode.startswith(_MOVES):
        return "", 0
    each = 2 if words[0] in _FUSED else 1
    if words[0][0].isupper():
        kind = {"F": "fp32", "D": "fp64", "H": "fp16"}[words[0][0]]
    else:
        kind = {"f32": "fp32", "f64": "fp64"}.get(words[-1], "fp16" if words[-1].startswith(("f16", "bf16")) else "")
    if not kind:
        return "", 0
    lanes = 2 if kind == "fp16" and (words[-1].endswith("x2") or words[0].endswith("2")) else 1
    return kind, threads * each * lanes


def _of_ptx_matrices(words: list[str]) -> tuple[str, tuple[int, int, int]] | None:
    if words[0] not in ("mma", "wmma", "wgmma") or (words[0] == "wmma" and words[1] != "mma"):
        return None
    shape = next((match for word in words if (match := _SHAPE.fullmatch(word))), None)
    if shape is None:
        return None
    types = [word for word in words if word in _NUMBERS or word in _ACCUMULATORS]
    number = "f16" if words[0] == "wmma" and len(types) == 2 else types[1] if len(types) > 1 else ""  # D, then A
    sparse = "sparse " * any(word.startswith("sp") and word[2:3] in ("", ":") for word in words)
    m, n, k = (int(size) for size in shape.groups())
    return f"{sparse}{_NUMBERS.get(number, number)}", (m, n, k)


def _of_machine_matrices(words: list[str]) -> tuple[str, tuple[int, int, int]] | None:
    base = words[0]
    if not base.endswith("MMA") or base[0] not in "HQIBD" or len(words) < 2:
        return None
    sparse = "SP" in words
    shape = _machine_shape(words[1 + sparse])
    if shape is None:
        return None
    number = {"H": "f16", "Q": "fp8", "I": "int4" if {"S4", "U4"} & set(words) else "int8", "B": "b1", "D": "f64"}[base[0]]
    number = next((word.lower() for word in words if word in ("BF16", "TF32")), number)
    return "sparse " * sparse + number, shape


def _machine_shape(word: str) -> tuple[int, int, int] | None:
    """``64x128x16``, or ``16816`` for 16 x 8 x 16: then m is 16 or 8, and n is 8."""
    if re.fullmatch(r"\d+x\d+x\d+", word):
        m, n, k = (int(size) for size in word.split("x"))
        return m, n, k
    for start, rows in (("168", 16), ("88", 8)):
        if word.isdigit() and word.startswith(start) and len(word) > len(start):
            return rows, 8, int(word[len(start) :])
    return None


def work(profile: LaunchProfile) -> Counter[str]:
    """Operations of a launch by kind."""
    done: Counter[str] = Counter()
    for i in profile.instructions:
        kind, count = operations(i.opcode, i.executed, i.threads)
        if count and "-RZ, RZ, " not in i.text:  # a constant, moved as 0 * 0 + x
            done[kind] += count
    return done


def has_matrices(profile: LaunchProfile) -> bool:
    """Whether a launch multiplies matrices on the tensor cores. (Nsight Compute counts HFMA2.MMA, which ptxas uses as a move,
    among tensor instructions, so its counters do not tell.)"""
    return any(kind.startswith("tensor") for kind in work(profile))


def peak(profile: LaunchProfile, kind: str) -> float | None:
    """Operations of a kind that the GPU could do in a second at the launch's clock, with the launch's fastest instruction for
    it in every sub-partition, or if it only adds or multiplies with one that does both; None if the profile does not tell how
    long those take."""
    rates = [_rate(i, kind) for i in profile.instructions]
    sms = float(profile.metrics.get("launch__sm_count", 0))
    return max(rates, default=0.0) * _SUB_PARTITIONS * sms * profile.sm_clock_hz or None


def _rate(i: InstructionProfile, kind: str) -> float:
    """Operations of an instruction of some kind, with all lanes, per cycle of its pipe."""
    found, count = operations(i.opcode, 1, _LANES)
    if i.opcode.split(".")[0] in _PLAIN:
        count *= 2
    return count / i.interval if found == kind and i.executed and i.interval else 0.0
