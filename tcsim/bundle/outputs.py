"""What the hardware wrote, stored small, and its comparison with what somebody else computed.

An array of at most 64 KiB is stored whole. Of a larger one a bundle keeps its SHA-256 (is everything equal?), the CRC-32 of
each block of 256 bytes (where is it not?), and a sample of elements (what should be there?): the first 64 and 448 scattered
over the rest. That is 1/64 of the array.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .dtypes import DType, find_dtype
from .errors import BundleError
from .floats import decode
from .generators import random_words

__all__ = ["Comparison", "RecordedOutput", "compare", "record_output"]

RAW_LIMIT = 64 * 1024
"""Bytes up to which an output is stored whole."""

BLOCK = 256
"""Bytes that one CRC-32 covers."""

LEADING, SCATTERED = 64, 448


@dataclass(frozen=True)
class RecordedOutput:
    """One output array as the hardware left it.

    Either ``raw`` (its bytes) is given, or ``crc32`` (u32 per 256-byte block, the last may be short) with ``sample_index``
    (u32 element numbers, ascending) and ``sample_bytes`` (u8, one row per sampled element).
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    sha256: str
    raw: bytes | None = None
    crc32: NDArray[np.uint32] | None = None
    sample_index: NDArray[np.uint32] | None = None
    sample_bytes: NDArray[np.uint8] | None = None

    @property
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.bytes

    def describe(self) -> dict[str, Any]:
        """The part that goes into ``bundle.json``."""
        stored = "raw" if self.raw is not None else "hashed"
        return {"dtype": self.dtype.name, "shape": list(self.shape), "sha256": self.sha256, "stored": stored}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The part that goes into ``outputs.npz``, by key."""
        if self.raw is not None:
            return {f"{self.name}.raw": np.frombuffer(self.raw, dtype=np.uint8)}
        assert self.crc32 is not None and self.sample_index is not None and self.sample_bytes is not None
        return {
            f"{self.name}.crc32": self.crc32,
            f"{self.name}.sample_index": self.sample_index,
            f"{self.name}.sample_bytes": self.sample_bytes,
        }

    @staticmethod
    def restore(name: str, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> RecordedOutput:
        """The inverse of :meth:`describe` and :meth:`arrays`. Raises :class:`BundleError` if the two do not belong together."""
        try:
            dtype = find_dtype(described["dtype"])
            if dtype is None:
                raise BundleError(f"output {name!r}: unknown type {described['dtype']!r}")
            shape, sha256 = tuple(described["shape"]), described["sha256"]
            if described["stored"] == "raw":
                output = RecordedOutput(name, dtype, shape, sha256, arrays[f"{name}.raw"].tobytes())
            else:
                kept = [arrays[f"{name}.{key}"] for key in ("crc32", "sample_index", "sample_bytes")]
                output = RecordedOutput(name, dtype, shape, sha256, None, *kept)
        except KeyError as missing:
            raise BundleError(f"output {name!r}: {missing.args[0]} is missing from the bundle") from None
        whole = output.raw is None or (len(output.raw) == output.bytes and _sha256(output.raw) == sha256)
        blocks = output.crc32 is None or len(output.crc32) == -(-output.bytes // BLOCK)
        if not (whole and blocks):
            raise BundleError(f"output {name!r}: outputs.npz does not hold what bundle.json says was recorded")
        return output


def record_output(name: str, dtype: DType, array: NDArray[Any]) -> RecordedOutput:
    """Store ``array`` (in ``dtype``'s storage type) as described in this module."""
    data = np.ascontiguousarray(array).tobytes()
    sha256 = _sha256(data)
    if len(data) <= RAW_LIMIT:
        return RecordedOutput(name, dtype, array.shape, sha256, raw=data)
    # The sample is spread by a generator keyed with the size, so it does not move from recording to recording.
    scattered = LEADING + random_words(array.size, SCATTERED) % np.uint64(array.size - LEADING)
    index = np.unique(np.concatenate([np.arange(LEADING, dtype=np.uint64), scattered])).astype(np.uint32)
    elements = np.frombuffer(data, dtype=np.uint8).reshape(-1, dtype.bytes)
    return RecordedOutput(name, dtype, array.shape, sha256, None, _block_crcs(data), index, elements[index])


@dataclass(frozen=True)
class Comparison:
    """How an array compares with the recording.

    ``differing_elements`` and ``differing_bytes`` are exact if the output was stored whole, and None if only hashes are known;
    ``differing_blocks`` (of 256 bytes) is known in both cases. ``first_element`` is the smallest element number known to
    differ, with both values as bits (hexadecimal) and numbers; None if the sample missed every difference, in which case
    ``first_block`` still bounds it. ``str()`` is a sentence.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    equal: bool
    blocks: int
    differing_blocks: int = 0
    differing_bytes: int | None = 0
    differing_elements: int | None = 0
    first_block: int | None = None
    first_element: int | None = None
    expected: str = ""
    actual: str = ""
    problem: str = ""

    def __str__(self) -> str:
        label = f"{self.name} ({self.dtype.name}[{','.join(map(str, self.shape))}])"
        if self.equal:
            return f"{label}: every byte equals the hardware's"
        if self.problem:
            return f"{label}: {self.problem}"
        size = int(np.prod(self.shape, dtype=np.int64))
        if self.differing_elements is not None:
            many = f"{self.differing_elements} of {size} elements differ ({self.differing_bytes} bytes)"
        else:
            many = f"{self.differing_blocks} of {self.blocks} blocks of {BLOCK} bytes differ"
        if self.first_element is not None:
            known = "first" if self.differing_elements is not None else "first known"
            where = f"{known} at {_place(self.first_element, self.shape)}: hardware {self.expected}, here {self.actual}"
        else:
            assert self.first_block is not None
            per_block = BLOCK // self.dtype.bytes
            first = self.first_block * per_block
            last = min(first + per_block, size) - 1
            where = f"first between {_place(first, self.shape)} and {_place(last, self.shape)}, which the sample does not hold"
        return f"{label}: {many}; {where}"


def compare(expected: RecordedOutput, actual: NDArray[Any] | bytes) -> Comparison:
    """Compare every byte of ``actual`` with the recording."""
    data = actual if isinstance(actual, bytes) else np.ascontiguousarray(actual).tobytes()
    blocks = -(-expected.bytes // BLOCK)
    base: dict[str, Any] = {"name": expected.name, "dtype": expected.dtype, "shape": expected.shape, "blocks": blocks}
    if len(data) != expected.bytes:
        problem = f"it has {len(data)} bytes, but the hardware's has {expected.bytes}"
        unknown: dict[str, Any] = {"differing_bytes": None, "differing_elements": None}
        return Comparison(**base, equal=False, differing_blocks=blocks, **unknown, problem=problem)
    if _sha256(data) == expected.sha256:
        return Comparison(**base, equal=True)
    width = expected.dtype.bytes
    here = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    if expected.raw is not None:
        there = np.frombuffer(expected.raw, dtype=np.uint8).reshape(-1, width)
        different = here != there
        elements = np.flatnonzero(different.any(axis=1))
        bad_blocks = np.unique(elements * width // BLOCK)
        counts: dict[str, Any] = {"differing_bytes": int(different.sum()), "differing_elements": len(elements)}
        first, first_bytes = int(elements[0]), there[elements[0]]
    else:
        assert expected.crc32 is not None and expected.sample_index is not None and expected.sample_bytes is not None
        bad_blocks = np.flatnonzero(_block_crcs(data) != expected.crc32)
        counts = {"differing_bytes": None, "differing_elements": None}
        wrong = np.flatnonzero((here[expected.sample_index] != expected.sample_bytes).any(axis=1))
        first, first_bytes = (
            (int(expected.sample_index[wrong[0]]), expected.sample_bytes[wrong[0]]) if len(wrong) else (-1, None)
        )
    shown: dict[str, Any] = {}
    if first >= 0:
        shown = {
            "first_element": first,
            "expected": _show(first_bytes, expected.dtype),
            "actual": _show(here[first], expected.dtype),
        }
    return Comparison(
        **base, equal=False, differing_blocks=len(bad_blocks), first_block=int(bad_blocks[0]), **counts, **shown
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _block_crcs(data: bytes) -> NDArray[np.uint32]:
    view = memoryview(data)
    return np.array([zlib.crc32(view[at : at + BLOCK]) for at in range(0, len(data), BLOCK)], dtype=np.uint32)


def _show(element: NDArray[np.uint8], dtype: DType) -> str:
    """One element's bits and value, such as ``0x3f800000 (1.0)``."""
    bits = int.from_bytes(element.tobytes(), "little")
    digits = f"0x{bits:0{dtype.bits // 4}x}"
    if dtype.kind == "bits":
        return digits
    stored = np.frombuffer(element.tobytes(), dtype=dtype.storage)
    return f"{digits} ({stored[0] if dtype.is_native else decode(stored, dtype)[0]})"


def _place(element: int, shape: tuple[int, ...]) -> str:
    return "[" + ",".join(str(int(i)) for i in np.unravel_index(element, shape)) + "]"
