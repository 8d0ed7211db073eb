"""How much memory an instruction accesses, read from its opcode. PTX and machine code."""

from __future__ import annotations

__all__ = ["access_bytes", "ideal_sectors", "ideal_wavefronts", "space_of"]

_SASS_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_SASS_SPACES = {
    "LDG": "global", "STG": "global", "LDS": "shared", "STS": "shared", "LDSM": "shared", "STSM": "shared", "LDL": "local",
    "STL": "local", "LDGSTS": "global", "LD": "generic", "ST": "generic", "ATOMG": "global", "REDG": "global",
    "RED": "generic", "ATOM": "generic",
}  # fmt: skip


def space_of(opcode: str) -> str:
    """The state space that a load, store or atomic names: global, shared, local, generic; empty for anything else, atomics
    on shared memory among it, whose wavefronts depend on more than addresses."""
    words = opcode.split(".")
    if words[0] in _SASS_SPACES:
        return _SASS_SPACES[words[0]]
    if words[0] in ("ldmatrix", "stmatrix"):
        return "shared"
    if words[0] not in ("ld", "st", "atom", "red") or (words[0] in ("atom", "red") and "shared" in opcode):
        return ""
    return next((w.partition("::")[0] for w in words if w.partition("::")[0] in ("global", "shared", "local")), "generic")


def access_bytes(opcode: str) -> int:
    """Bytes that a lane of a load, store or atomic moves; 0 for anything else, and for matrices."""
    words = opcode.split(".")
    if words[0] in ("ld", "st", "atom", "red"):
        vector = next((int(w[1:]) for w in words if w in ("v2", "v4", "v8")), 1)
        bits = words[-1].removesuffix("x2").lstrip("bfsu")
        return vector * int(bits) * (1 + words[-1].endswith("x2")) // 8 if bits.isdigit() else 0
    if words[0] in _SASS_SPACES and words[0] not in ("LDSM", "STSM"):
        return next((_SASS_WIDTHS[w] for w in words[1:] if w in _SASS_WIDTHS), 4)
    return 0


def ideal_sectors(opcode: str, executed: int, threads: int) -> int:
    """The sectors of 32 bytes that an access takes if neighbouring lanes have neighbouring bytes: at least one each of the
    ``executed`` times that a warp runs it, as by a single lane. ``threads``: lanes in all. 0 for what accesses no memory."""
    width = access_bytes(opcode)
    return max(-(-threads * width // 32), min(executed, threads)) if width else 0


def ideal_wavefronts(opcode: str, executed: int, threads: int) -> int:
    """The wavefronts that an access to shared memory would take without bank conflicts; 0 for anything else. ``executed``
    times by a warp, by ``threads`` lanes in all."""
    words = opcode.split(".")
    if words[0] in ("ldmatrix", "stmatrix"):  # an 8 x 8 tile of 16 bits is 128 bytes
        return executed * next((int(w[1]) for w in words if w in ("x1", "x2", "x4")), 1)
    if words[0] in ("LDSM", "STSM"):
        return executed * (int(words[-1]) if words[-1] in ("2", "4") else 1)
    if (space_of(opcode) != "shared" and words[0] != "LDGSTS") or not executed:  # LDGSTS writes what it copies
        return 0
    return executed * max(1, -(-threads * access_bytes(opcode) // (128 * executed)))
