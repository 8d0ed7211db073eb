"""How much an instruction does, read from its opcode: bytes that a lane moves, operations that a warp performs. PTX and
machine code."""

from __future__ import annotations

import re

__all__ = ["access_bytes", "ideal_wavefronts", "operations", "space_of"]

_SASS_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_SASS_SPACES = {
    "LDG": "global", "STG": "global", "LDS": "shared", "STS": "shared", "LDSM": "shared", "STSM": "shared", "LDL": "local",
    "STL": "local", "LDGSTS": "global", "LD": "generic", "ST": "generic",
}  # fmt: skip
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_SASS_SHAPES = {"16816": (16, 8, 16), "1688": (16, 8, 8), "16832": (16, 8, 32), "16864": (16, 8, 64), "884": (8, 8, 4)}
_FUSED = {"fma", "mad", "fused_multiply_add", "FFMA", "DFMA", "HFMA2"}
_PLAIN = {"add", "sub", "mul", "FADD", "FMUL", "DADD", "DMUL", "HADD2", "HMUL2"}


def space_of(opcode: str) -> str:
    """The state space that a load or store names: global, shared, local, generic; empty for anything else."""
    words = opcode.split(".")
    if words[0] in _SASS_SPACES:
        return _SASS_SPACES[words[0]]
    if words[0] in ("ldmatrix", "stmatrix"):
        return "shared"
    if words[0] not in ("ld", "st"):
        return ""
    return next((w.partition("::")[0] for w in words if w.partition("::")[0] in ("global", "shared", "local")), "generic")


def access_bytes(opcode: str) -> int:
    """Bytes that a lane of a load or store moves; 0 for anything else, and for matrices."""
    words = opcode.split(".")
    if words[0] in ("ld", "st"):
        vector = next((int(w[1:]) for w in words if w in ("v2", "v4", "v8")), 1)
        bits = words[-1][1:]
        return vector * int(bits) // 8 if bits.isdigit() else 0
    if words[0] in _SASS_SPACES and words[0] not in ("LDSM", "STSM"):
        return next((_SASS_WIDTHS[w] for w in words[1:] if w in _SASS_WIDTHS), 4)
    return 0


def ideal_wavefronts(opcode: str, executed: int, threads: int) -> int:
    """The wavefronts that an access to shared memory would take without bank conflicts; 0 for anything else. ``executed``
    times by a warp, by ``threads`` lanes in all."""
    words = opcode.split(".")
    if words[0] in ("ldmatrix", "stmatrix"):  # an 8 x 8 tile of 16 bits is 128 bytes
        return executed * next((int(w[1]) for w in words if w in ("x1", "x2", "x4")), 1)
    if words[0] in ("LDSM", "STSM"):
        return executed * (int(words[-1]) if words[-1] in ("2", "4") else 1)
    if space_of(opcode) != "shared" or not executed:
        return 0
    return executed * max(1, -(-threads * access_bytes(opcode) // (128 * executed)))


def operations(opcode: str, executed: int, threads: int) -> tuple[str, int]:
    """(pipe, floating or integer operations) of an instruction: ``tensor`` for products of matrices, ``fp32``, ``fp64`` or
    ``fp16`` for others; a fused multiply-add is two. ("", 0) for what does no such arithmetic."""
    words = opcode.split(".")
    if words[0] in ("mma", "wmma", "wgmma") and (shape := _SHAPE.search(opcode)):
        if words[0] == "wmma" and words[1] != "mma":
            return "", 0
        m, n, k = (int(number) for number in shape.groups())
        return "tensor", executed * 2 * m * n * k // (4 if words[0] == "wgmma" else 1)
    if words[0] in ("HMMA", "IMMA", "DMMA", "QMMA"):
        found = next((_SASS_SHAPES[w] for w in words if w in _SASS_SHAPES), None)
        return ("tensor", executed * 2 * found[0] * found[1] * found[2]) if found else ("", 0)
    if words[0] not in _FUSED and words[0] not in _PLAIN:
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
