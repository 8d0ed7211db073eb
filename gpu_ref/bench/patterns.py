"""Which lane of a warp accesses which byte: patterns of 32 offsets, by name."""

from __future__ import annotations

__all__ = ["GLOBAL", "GLOBAL_8", "GLOBAL_16", "SHARED", "SHARED_8", "SHARED_16", "Pattern", "touched"]

Pattern = tuple[int, ...]

_LANES = range(32)


def _strides(name: str, *strides: int) -> dict[str, Pattern]:
    """Lane times stride, in bytes."""
    return {f"{name}_{n}": tuple(n * lane for lane in _LANES) for n in strides}


SHARED: dict[str, Pattern] = {
    "broadcast": (0,) * 32,
    "linear": tuple(4 * lane for lane in _LANES),
    # n lanes on different words of each bank that is used
    **{f"conflict_{n}": tuple(lane % n * 128 + lane // n * 4 for lane in _LANES) for n in (2, 3, 4, 8, 16, 32)},
    # n different words, in n banks
    **{f"words_{n}": tuple(lane % n * 4 for lane in _LANES) for n in (2, 4, 16)},
    # n different words, in one bank
    **{f"same_bank_words_{n}": tuple(lane % n * 128 for lane in _LANES) for n in (2, 4, 8)},
    **{f"stride_{n}": tuple(lane * n * 4 for lane in _LANES) for n in (2, 3, 5, 8, 9, 17, 33)},
}
"""Accesses of 4 bytes to shared memory."""

SHARED_16: dict[str, Pattern] = {
    **_strides("linear", 16),
    **_strides("row", 32, 64, 80, 128, 144, 256),
    "halves_swapped": tuple((lane ^ 16) * 16 for lane in _LANES),
    "pairs_equal": tuple(lane // 2 * 16 for lane in _LANES),
    "quarters_equal": tuple(lane // 8 * 16 for lane in _LANES),
    "broadcast": (0,) * 32,
    "swizzle": tuple(lane * 128 + lane % 8 * 16 for lane in _LANES),
}
"""Accesses of 16 bytes to shared memory, and rows of matrix loads."""

SHARED_8: dict[str, Pattern] = {
    **_strides("linear", 8, 16),
    **{name: SHARED_16[name] for name in ("row_32", "row_128", "broadcast")},
}
"""Accesses of 8 bytes to shared memory."""

GLOBAL: dict[str, Pattern] = {
    "same": (0,) * 32,
    **_strides("linear", 4),
    "shifted_4": tuple(4 * lane + 4 for lane in _LANES),
    **_strides("stride", 8, 16, 32, 64, 128, 256),
    **{f"lines_{n}": tuple(lane % n * 128 for lane in _LANES) for n in (2, 4, 8, 16)},
    # n lines with no two lanes on one bank
    **{f"spread_{n}": tuple(lane % n * 128 + 4 * lane for lane in _LANES) for n in (2, 4, 8, 16, 32)},
    **{f"sectors_{n}": tuple(lane % n * 32 for lane in _LANES) for n in (2, 3, 4)},
    **{f"blocks_{n}": tuple(lane // n * 256 + lane % n * 4 for lane in _LANES) for n in (4, 8, 16)},
    "reversed": tuple(124 - 4 * lane for lane in _LANES),
    "shuffled": tuple(lane * 5 % 32 * 4 for lane in _LANES),
}
"""Accesses of 4 bytes to global memory."""

GLOBAL_16: dict[str, Pattern] = {**_strides("linear", 16), **_strides("stride", 32, 128), "same": (0,) * 32}
"""Accesses of 16 bytes to global memory."""

GLOBAL_8: dict[str, Pattern] = {**_strides("linear", 8), **GLOBAL_16}
"""Accesses of 8 bytes to global memory."""


def touched(pattern: Pattern, width: int) -> tuple[int, int]:
    """Sectors of 32 bytes and lines of 128 bytes that accesses of ``width`` bytes touch."""
    addresses = [at + byte for at in pattern for byte in range(0, width, 4)]
    return len({a // 32 for a in addresses}), len({a // 128 for a in addresses})
