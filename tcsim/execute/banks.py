"""Wavefronts of shared memory: passes over its 32 banks of 4 bytes that an access takes.

Words of 4 bytes, in the order of their addresses, lie in one bank after another. Accesses wider than 4 bytes are served in
parts of a warp; lanes that read the same word share it. A part takes as many wavefronts as the most distinct words that fall on
one bank. (CUDA programming guide, "Shared Memory"; measured on an H200: LDS.32 with n lanes per bank takes n, LDS.64 2 and
LDS.128 4 without conflict.)
"""

from __future__ import annotations

import numpy as np

from isa.arith.stack import stack_array
from isa.compiled import compiled
from isa.kernels.planes import as_i64

__all__ = ["BANKS", "are_in_a_row", "busiest_bank", "load_wavefronts_of", "wavefronts", "wavefronts_of"]

BANKS = 32
_MOST_WORDS = 32 * 32


@compiled
def wavefronts(addresses, lanes, size):
    """Wavefronts of an access of ``lanes`` (uint32) to ``size`` bytes each at ``addresses`` (int64 [32])."""
    return wavefronts_of(as_i64(addresses.ctypes.data), lanes, size)


@compiled
def wavefronts_of(addresses, lanes, size):
    """The same; ``addresses`` is a pointer, as in all that follow. Halves of a warp (8 bytes) or quarters (16 bytes) are served
    together."""
    words = max(1, size // 4)
    return _served(addresses, lanes, words, 32 // words if words <= 4 else 8)


@compiled
def load_wavefronts_of(addresses, lanes, size):
    """The same for a load of registers, whose halves (8 bytes) or pairs of quarters (16 bytes) are served together where that
    takes less: measured on an H200, LDS.64 of one word takes 1, LDS.128 of one or of eight words in each half takes 2."""
    words = max(1, size // 4)
    return _served(addresses, lanes, words, 32 if words <= 2 else 16)


@compiled
def are_in_a_row(addresses, lanes, size):
    """Whether all 32 lanes access neighbouring places, each behind the last lane's. If so, a wavefront serves 128 bytes."""
    if lanes != np.uint32(0xFFFFFFFF) or (size >= 4 and addresses[0] & 3):
        return False
    apart = 0
    for lane in range(1, 32):
        apart |= addresses[lane] ^ (addresses[0] + lane * size)
    return apart == 0


@compiled
def busiest_bank(addresses, lanes):
    """The most lanes on one bank: an atomic serves every lane by itself."""
    counts = stack_array(BANKS, np.int64)
    counts[:] = 0
    most = np.int64(1)
    for lane in range(32):
        if (lanes >> np.uint32(lane)) & np.uint32(1):
            bank = (addresses[lane] >> 2) & (BANKS - 1)
            counts[bank] += 1
            most = max(most, counts[bank])
    return most


@compiled
def _served(addresses, lanes, words, per_part):
    """Wavefronts if ``per_part`` lanes are served together: of each part the most distinct words on one bank.

    What lanes access at multiples of its size are *blocks*: two of them share all their banks or none, so that it is enough to
    count the blocks on the same banks. Else each word is a block of its own.
    """
    shift, each, columns = _blocks(addresses, lanes, words)
    total = np.int64(0)
    for first in range(0, 32, per_part):
        used, again = np.int64(0), False
        for lane in range(first, first + per_part):
            if (lanes >> np.uint32(lane)) & np.uint32(1):
                for block in range(addresses[lane] >> shift, (addresses[lane] >> shift) + each):
                    bit = np.int64(1) << (block & (columns - 1))
                    again = again or used & bit != 0
                    used |= bit
        if again:
            total += _most_blocks(addresses, lanes, first, per_part, shift, each, columns)
        else:  # as is usual
            total += used != 0
    return total


@compiled
def _most_blocks(addresses, lanes, first, per_part, shift, each, columns):
    """The most distinct blocks of a part on the same banks."""
    seen = stack_array(_MOST_WORDS, np.int64)
    counts = stack_array(BANKS, np.int64)
    most, distinct = np.int64(0), 0
    counts[:] = 0
    for lane in range(first, first + per_part):
        if not (lanes >> np.uint32(lane)) & np.uint32(1):
            continue
        for block in range(addresses[lane] >> shift, (addresses[lane] >> shift) + each):
            column = block & (columns - 1)
            if counts[column] and _is_among(seen, distinct, block):
                continue
            seen[distinct] = block
            distinct += 1
            counts[column] += 1
            most = max(most, counts[column])
    return most


@compiled
def _blocks(addresses, lanes, words):
    """The binary logarithm of a block's bytes, blocks that a lane accesses, and how many lie beside each other in the banks."""
    misplaced = words & (words - 1)
    if words > 1:
        for lane in range(32):
            if (lanes >> np.uint32(lane)) & np.uint32(1):
                misplaced |= addresses[lane] & (4 * words - 1)
    if misplaced:
        return 2, words, BANKS
    shift = 2
    while 4 * words >> shift > 1:
        shift += 1
    return shift, 1, BANKS // words


@compiled
def _is_among(seen, count, block):
    index = count - 1  # neighbours share words: look back from the latest
    while index >= 0 and seen[index] != block:
        index -= 1
    return index >= 0
