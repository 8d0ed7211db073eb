"""Launching a kernel in clusters through the CUDA driver API, for which CuPy has no call.

``cuLaunchKernelEx`` with ``CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`` (CUDA driver API, "Execution Control", and its structures
``CUlaunchConfig`` and ``CUlaunchAttribute``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["launch_clustered"]

_CLUSTER_DIMENSION = 4
_NON_PORTABLE_SIZE = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_PORTABLE = 8


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("extents", ctypes.c_uint * 6),
        ("shared_mem", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def launch_clustered(
    function: int,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    args: Sequence[Any],
    shared_mem: int,
) -> None:
    """Launch a ``CUfunction`` in clusters of ``cluster`` CTAs. ``args``: CuPy arrays; NumPy scalars and arrays, by value.

    Raises RuntimeError."""
    driver = ctypes.CDLL("libcuda.so.1")
    if cluster[0] * cluster[1] * cluster[2] > _PORTABLE:
        _check(driver.cuFuncSetAttribute(ctypes.c_void_p(function), _NON_PORTABLE_SIZE, 1))
    held = [_bytes(value) for value in args]
    places = (ctypes.c_void_p * len(held))(*(ctypes.addressof(each) for each in held))
    attribute = _Attribute(_CLUSTER_DIMENSION, b"", (ctypes.c_uint * 16)(*cluster))
    config = _Config((ctypes.c_uint * 6)(*grid, *block), shared_mem, None, ctypes.pointer(attribute), 1)
    _check(driver.cuLaunchKernelEx(ctypes.byref(config), ctypes.c_void_p(function), places, None))


def _bytes(value: Any) -> Any:
    raw = value.tobytes() if isinstance(value, np.generic | np.ndarray) else np.uint64(value.data.ptr).tobytes()
    return ctypes.create_string_buffer(raw, len(raw))


def _check(result: int) -> None:
    if result:
        raise RuntimeError(f"the CUDA driver returned error {result}")
