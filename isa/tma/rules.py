"""What the driver refuses to encode as a tensor map (CUDA driver API, ``cuTensorMapEncodeTiled`` and ``-Im2col``).

The documentation names most of these rules; the recorded calls (:mod:`isa.tma.tensor_map`) show which of them the driver
checks. What it does not check is left to the copy, as there: a stride smaller than what it steps over, for one, is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator

from isa.errors import TcsimError
from isa.tma.tensor_map import CORNER_BITS, ELEMENT_TYPES, TensorMap

__all__ = ["TensorMapError", "check"]

MOST_BYTES = 228 * 1024
"""Of a copy: the shared memory of an SM."""
ADDRESS_BITS = 57
SPAN_OF_ROW = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


class TensorMapError(TcsimError):
    """Parameters that no tensor map can have; the driver answers CUDA_ERROR_INVALID_VALUE."""


def check(tensor: TensorMap, what: str) -> None:
    """Raise TensorMapError with everything that the driver would refuse. what: the call, for the message."""
    problems = list(_problems(tensor))
    if not problems and tensor.count() > MOST_BYTES:
        problems = [f"a copy moves {tensor.count()} bytes; an SM has {MOST_BYTES} bytes of shared memory"]
    if problems:
        raise TensorMapError(f"{what}: " + "\n  ".join(problems))


def _problems(tensor: TensorMap) -> Iterator[str]:
    rank, size = tensor.rank, ELEMENT_TYPES[tensor.element].bytes
    lowest = 3 if tensor.is_im2col or tensor.interleave != "none" else 1
    if not lowest <= rank <= 5:
        why = "im2col" if tensor.is_im2col else f"interleave={tensor.interleave!r}" if lowest == 3 else "a tensor"
        yield f"{rank} dimensions; {why} has {lowest} to 5"
        return
    unit = 32 if tensor.interleave == "32B" else 16
    if tensor.address % unit or not 0 <= tensor.address < 1 << ADDRESS_BITS:
        yield f"the address {tensor.address:#x} is not a multiple of {unit} below 2^{ADDRESS_BITS}"
    for index, extent in enumerate(tensor.dims):
        if not 1 <= extent <= 1 << 32:
            yield f"dims[{index}] is {extent}; an extent is 1 to 2^32"
    if len(tensor.strides) != rank - 1:
        yield f"{len(tensor.strides)} strides for {rank} dimensions; the innermost has none, so {rank - 1}"
    for index, stride in enumerate(tensor.strides):
        if stride % unit or not 0 <= stride < 1 << 40:
            yield f"strides[{index}] is {stride} bytes; a stride is a multiple of {unit} below 2^40"
    if len(tensor.element_strides) != rank:
        yield f"{len(tensor.element_strides)} element strides for {rank} dimensions"
    for index, step in enumerate(tensor.element_strides):
        if not 1 <= step <= 8:
            yield f"element_strides[{index}] is {step}; an element stride is 1 to 8"
    if tensor.oob_fill == "nan" and tensor.element[0] in "us":
        yield f"oob_fill='nan' needs a floating-point type, not {tensor.element}"
    row = tensor.channels if tensor.is_im2col else tensor.box[0]
    name = "channels" if tensor.is_im2col else "box[0]"
    if row * size % 16:
        yield f"{name} is {row} elements of {size} bytes; the innermost extent is a multiple of 16 bytes"
    span = SPAN_OF_ROW[tensor.swizzle]
    if tensor.interleave == "none" and span and row * size > span:
        yield f"{name} is {row * size} bytes; swizzle={tensor.swizzle!r} allows {span} at most"
    yield from _im2col_problems(tensor) if tensor.is_im2col else _box_problems(tensor)


def _box_problems(tensor: TensorMap) -> Iterator[str]:
    if len(tensor.box) != tensor.rank:
        yield f"{len(tensor.box)} box extents for {tensor.rank} dimensions"
    for index, extent in enumerate(tensor.box):
        if not 1 <= extent <= 256:
            yield f"box[{index}] is {extent}; a box extent is 1 to 256"


def _im2col_problems(tensor: TensorMap) -> Iterator[str]:
    spatial = tensor.rank - 2
    bits = CORNER_BITS[tensor.rank]
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    for name, corner in (("lower", tensor.lower), ("upper", tensor.upper)):
        if len(corner) != spatial:
            yield f"{name} has {len(corner)} offsets; {tensor.rank} dimensions have {spatial} spatial ones"
        for value in corner:
            if not low <= value <= high:
                yield f"{name} offset {value} is outside {low} to {high}, what {tensor.rank} dimensions allow"
    if not 1 <= tensor.channels <= 256:
        yield f"channels is {tensor.channels}; 1 to 256 are allowed"
    if not 1 <= tensor.pixels <= 1024:
        yield f"pixels is {tensor.pixels}; 1 to 1024 are allowed"
    first = 1 if tensor.interleave == "none" else 0  # interleaved tensors begin with a spatial dimension
    for index, (lower, upper) in enumerate(zip(tensor.lower, tensor.upper, strict=False), first):
        extent = tensor.dims[index]
        if extent >= 1 << 31:
            yield f"dims[{index}] is {extent}; a spatial extent is below 2^31"
        elif extent + upper - lower <= 0:
            yield f"the box of pixels is empty: dims[{index}] is {extent}, its corners are {lower} and {upper}"
