"""Tensor maps for kernels that copy with the tensor memory accelerator: ``cuTensorMapEncodeTiled`` and ``-Im2col`` here.

A kernel takes one as a ``const __grid_constant__ CUtensorMap`` parameter; pass the bytes that these functions return. They are
the bytes that the driver makes, so that a map made by either works with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isa.tma import tensor_map as layout
from isa.tma.rules import TensorMapError, check
from isa.tma.tensor_map import ELEMENT_TYPES, TensorMap
from tcsim.array import ndarray

__all__ = ["TensorMap", "TensorMapError", "read_tensor_map", "tensor_map_im2col", "tensor_map_tiled"]

Tensor = ndarray | int
_OF_NUMPY = {
    "bool": "u8",
    "uint8": "u8",
    "int8": "u8",
    "uint16": "u16",
    "int16": "u16",
    "uint32": "u32",
    "int32": "s32",
    "uint64": "u64",
    "int64": "s64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float8_e4m3fn": "u8",
    "float8_e5m2": "u8",
}


def tensor_map_tiled(
    tensor: Tensor,
    box: Sequence[int],
    *,
    dtype: str | None = None,
    dims: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    element_strides: Sequence[int] | None = None,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "none",
    oob_fill: str = "zeros",
) -> bytes:
    """The map of a tensor whose copies take boxes of it (PTX ISA 5.5.3): 128 bytes, as ``cuTensorMapEncodeTiled`` makes them.

    As in the driver's function everything counts from the **innermost** dimension, so a C-contiguous array of shape (rows,
    columns) has dims (columns, rows) and a box (columns, rows).

    tensor: a device array, or a device address. box: extent of each dimension in elements, 1 to 256; the innermost in multiples
    of 16 bytes. dtype: ``u8 u16 u32 s32 u64 s64 f16 bf16 f32 f64 tf32 f32_ftz tf32_ftz`` (default: the array's; bytes for 8-bit
    floats). dims: extents of the tensor (default: the array's). strides: bytes from one element to the next in every dimension
    but the innermost, multiples of 16 (default: contiguous). element_strides: take every n-th element, 1 to 8. interleave:
    ``none``, ``16B``, ``32B``. swizzle: ``none``, ``32B``, ``64B``, ``128B``. l2_promotion: ``none``, ``64B``, ``128B``,
    ``256B``. oob_fill: what a load gives outside the tensor, ``zeros`` or ``nan``. Raises TensorMapError for what the driver
    refuses.
    """
    what = "tensor_map_tiled"
    address, element, extents, steps = _tensor(what, tensor, dtype, dims, strides)
    made = TensorMap(
        element=element,
        address=address,
        dims=extents,
        strides=steps,
        element_strides=_element_strides(element_strides, extents),
        box=tuple(int(extent) for extent in box),
        **_modes(what, interleave, swizzle, l2_promotion, oob_fill),
    )
    if not made.box:
        raise TensorMapError(f"{what}: a box has an extent for each of the {len(extents)} dimensions, and none is given")
    check(made, what)
    return layout.encode(made)


def tensor_map_im2col(
    tensor: Tensor,
    lower: Sequence[int],
    upper: Sequence[int],
    channels: int,
    pixels: int,
    *,
    dtype: str | None = None,
    dims: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    element_strides: Sequence[int] | None = None,
    interleave: str = "none",
    swizzle: str = "none",
    l2_promotion: str = "none",
    oob_fill: str = "zeros",
) -> bytes:
    """The map of a tensor whose copies gather the pixels of a convolution (PTX ISA 5.5.4), as ``cuTensorMapEncodeIm2col`` does.

    The tensor has 3 to 5 dimensions: channels, one to three spatial ones, and batch, innermost first (an array of NHWC has dims
    (C, W, H, N)). lower, upper: corners of the box of pixels, an offset for each spatial dimension in that order, relative to
    the tensor's first and last pixel. channels, pixels: what one copy moves. The others are as in :func:`tensor_map_tiled`.
    """
    what = "tensor_map_im2col"
    address, element, extents, steps = _tensor(what, tensor, dtype, dims, strides)
    made = TensorMap(
        element=element,
        address=address,
        dims=extents,
        strides=steps,
        element_strides=_element_strides(element_strides, extents),
        lower=tuple(int(offset) for offset in lower),
        upper=tuple(int(offset) for offset in upper),
        channels=int(channels),
        pixels=int(pixels),
        **_modes(what, interleave, swizzle, l2_promotion, oob_fill),
    )
    check(made, what)
    return layout.encode(made)


def read_tensor_map(data: bytes) -> TensorMap:
    """What the 128 bytes of a tensor map say, whoever encoded it. Raises TensorMapError for bytes that are no map."""
    try:
        return layout.decode(bytes(data))
    except ValueError as problem:
        raise TensorMapError(str(problem)) from None


def _tensor(
    what: str, tensor: Tensor, dtype: str | None, dims: Sequence[int] | None, strides: Sequence[int] | None
) -> tuple[int, str, tuple[int, ...], tuple[int, ...]]:
    """(address, element type, dims, strides), with what is not given taken from the array."""
    if isinstance(tensor, ndarray):
        address = tensor.data.ptr
        dtype = dtype or _OF_NUMPY.get(tensor.dtype.name)
        dims = tensor.shape[::-1] if dims is None else dims
    else:
        address = int(tensor)
    if dtype not in ELEMENT_TYPES:
        given = f"dtype={dtype!r}" if dtype else "no dtype (an address has none, and neither have some arrays)"
        raise TensorMapError(f"{what}: {given}; one of {', '.join(ELEMENT_TYPES)}")
    if dims is None:
        raise TensorMapError(f"{what}: dims=, the extents of the tensor from the innermost on, must come with an address")
    extents = tuple(int(extent) for extent in dims)
    if strides is not None:
        return address, dtype, extents, tuple(int(stride) for stride in strides)
    steps = np.cumprod([ELEMENT_TYPES[dtype].bytes, *extents], dtype=object)
    return address, dtype, extents, tuple(int(stride) for stride in steps[1:-1])


def _element_strides(given: Sequence[int] | None, dims: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * len(dims) if given is None else tuple(int(step) for step in given)


def _modes(what: str, interleave: str, swizzle: str, l2_promotion: str, oob_fill: str) -> dict[str, Any]:
    given = {"interleave": interleave, "swizzle": swizzle, "l2_promotion": l2_promotion, "oob_fill": oob_fill}
    known = (layout.INTERLEAVES, layout.SWIZZLES, layout.L2_PROMOTIONS, layout.OOB_FILLS)
    for (name, value), names in zip(given.items(), known, strict=True):
        if value not in names:
            raise TensorMapError(f"{what}: {name}={value!r}; one of {', '.join(names)}")
    return given
