"""``cuTensorMapEncodeTiled`` and ``cuTensorMapEncodeIm2col`` of the CUDA driver, called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gpu_ref.device import GpuUnavailable
from isa.errors import TcsimError
from isa.tma.tensor_map import ELEMENT_TYPES, INTERLEAVES, L2_PROMOTIONS, OOB_FILLS, SWIZZLES, TensorMap

__all__ = ["Encoder", "encode_map"]

MAP_BYTES = 128
SUCCESS = 0


class Encoder:
    """The driver's encoder. It works once the process has a CUDA context (CuPy makes one for its first array). Raises
    GpuUnavailable where there is no driver."""

    def __init__(self) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise GpuUnavailable("libcuda.so.1 cannot be loaded: no NVIDIA driver here") from None
        if self._cuda.cuInit(0) != SUCCESS:
            raise GpuUnavailable("cuInit fails: no GPU here")
        self._room = (ctypes.c_uint8 * (2 * MAP_BYTES))()
        self._map = -(-ctypes.addressof(self._room) // 64) * 64  # 64-byte aligned, as the functions require

    def tiled(
        self,
        dtype: int,
        rank: int,
        address: int,
        dims: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int],
        modes: Sequence[int],
    ) -> tuple[int, bytes]:
        """(CUresult, the map). ``modes``: interleave, swizzle, L2 promotion and out-of-bounds fill, all as enumerators."""
        result = self._cuda.cuTensorMapEncodeTiled(
            *self._start(dtype, rank, address, dims, strides), _u32(box), _u32(element_strides), *map(ctypes.c_int, modes)
        )
        return int(result), ctypes.string_at(self._map, MAP_BYTES)

    def im2col(
        self,
        dtype: int,
        rank: int,
        address: int,
        dims: Sequence[int],
        strides: Sequence[int],
        corners: tuple[Sequence[int], Sequence[int]],
        channels: int,
        pixels: int,
        element_strides: Sequence[int],
        modes: Sequence[int],
    ) -> tuple[int, bytes]:
        """The same for an im2col map; ``corners``: lower and upper."""
        lower, upper = ((ctypes.c_int * 8)(*corner) for corner in corners)
        result = self._cuda.cuTensorMapEncodeIm2col(
            *self._start(dtype, rank, address, dims, strides),
            lower,
            upper,
            ctypes.c_uint32(channels),
            ctypes.c_uint32(pixels),
            _u32(element_strides),
            *map(ctypes.c_int, modes),
        )
        return int(result), ctypes.string_at(self._map, MAP_BYTES)

    def _start(
        self, dtype: int, rank: int, address: int, dims: Sequence[int], strides: Sequence[int]
    ) -> tuple[object, ...]:
        ctypes.memset(self._map, 0, MAP_BYTES)
        where = (ctypes.c_void_p(self._map), ctypes.c_int(dtype), ctypes.c_uint32(rank), ctypes.c_void_p(address))
        return *where, _u64(dims), _u64(strides)


@cache
def _encoder() -> Encoder:
    return Encoder()


def encode_map(tensor: TensorMap) -> NDArray[np.void]:
    """The driver's map of a tensor, as a kernel argument for CuPy, which passes an array of one element by value. Raises
    TcsimError if the driver refuses it."""
    modes = [
        INTERLEAVES.index(tensor.interleave),
        SWIZZLES.index(tensor.swizzle),
        L2_PROMOTIONS.index(tensor.l2_promotion),
        OOB_FILLS.index(tensor.oob_fill),
    ]
    number = ELEMENT_TYPES[tensor.element].number
    start = (number, tensor.rank, tensor.address, tensor.dims, tensor.strides)
    if tensor.is_im2col:
        corners = (tensor.lower, tensor.upper)
        result, data = _encoder().im2col(*start, corners, tensor.channels, tensor.pixels, tensor.element_strides, modes)
    else:
        result, data = _encoder().tiled(*start, tensor.box, tensor.element_strides, modes)
    if result != SUCCESS:
        raise TcsimError(f"the driver cannot encode {tensor}: CUresult {result}")
    return np.frombuffer(data, np.dtype((np.void, MAP_BYTES))).copy()


def _u64(values: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * 8)(*(int(value) & (2**64 - 1) for value in values))


def _u32(values: Sequence[int]) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 8)(*(int(value) & (2**32 - 1) for value in values))
