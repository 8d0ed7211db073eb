"""Kernel arguments: from Python values to the bytes of the parameter block, checked against the kernel's ``.param`` list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.lower.ir import Parameter
from tcsim.array import ndarray
from tcsim.bundle.tensor_maps import MapOf
from tcsim.device import Device
from tcsim.errors import LaunchError

__all__ = ["pack_arguments"]


def pack_arguments(
    kernel: str, parameters: Sequence[Parameter], size: int, args: Sequence[Any], device: Device
) -> NDArray[np.uint8]:
    """The parameter block (uint8 [size]) for a launch.

    As in CuPy: device arrays pass their address, NumPy scalars their bytes, Python ints and floats as int64 and float64. Bytes
    are passed as they are; the tensor maps of a bundle are encoded now that their arrays have an address. Raises
    LaunchError where count, width or device is wrong, before anything runs.
    """
    described = {value.position for value in args if isinstance(value, MapOf)}
    passed = len(args)
    while passed > len(parameters) and passed - 1 in described:
        passed -= 1  # an array that only tensor maps lead to
    if passed != len(parameters):
        expected = ", ".join(_describe(p) for p in parameters)
        raise LaunchError(f"kernel {kernel} takes {len(parameters)} arguments ({expected}); {passed} given")
    block = np.zeros(max(size, 1), np.uint8)
    for index, (parameter, value) in enumerate(zip(parameters, args[:passed], strict=True)):
        if isinstance(value, MapOf):
            value = value.encode(args[value.position].data.ptr)
        data = _bytes(kernel, index, parameter, value, device)
        if len(data) != parameter.size:
            raise LaunchError(_wrong_width(kernel, index, parameter, value, len(data)))
        block[parameter.offset : parameter.offset + parameter.size] = np.frombuffer(data, np.uint8)
    return block


def _describe(parameter: Parameter) -> str:
    return f"{parameter.name}: {parameter.size} bytes" if parameter.is_array else f"{parameter.name}: .{parameter.type}"


def _bytes(kernel: str, index: int, parameter: Parameter, value: Any, device: Device) -> bytes:
    if isinstance(value, ndarray):
        if value.device.memory is not device.memory:
            raise LaunchError(
                f"kernel {kernel}, argument {index} ({parameter.name}): the array is on {value.device.name!r}, the kernel runs "
                f"on {device.name!r}. Try tcsim.asarray(x) inside 'with tcsim.Device({device.name!r})'"
            )
        return value.data.ptr.to_bytes(8, "little")
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, bool):
        return np.bool_(value).tobytes()
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise LaunchError(f"kernel {kernel}, argument {index} ({parameter.name}): {value} does not fit 64 bits")
        return (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, np.ndarray) and parameter.is_array:
        return np.ascontiguousarray(value).tobytes()
    if value is None:
        return bytes(8)
    what = "a NumPy array (on the host)" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    raise LaunchError(
        f"kernel {kernel}, argument {index} ({parameter.name}): {what} cannot be an argument. Try tcsim.asarray(x) for an "
        "array, np.int32(x) or np.float32(x) for a number"
    )


_NUMPY = {1: "np.int8", 2: "np.int16", 4: "np.int32", 8: "np.int64"}


def _wrong_width(kernel: str, index: int, parameter: Parameter, value: Any, width: int) -> str:
    if isinstance(value, ndarray):
        given, hint = "a device array (8-byte address)", "a scalar of the parameter's width"
    else:
        given = f"{type(value).__name__} ({width} bytes)"
        if parameter.type == "f32" or parameter.type == "f64":
            hint = f"np.float{parameter.size * 8}(x)"
        else:
            hint = f"{_NUMPY.get(parameter.size, 'bytes')}(x)"
            if parameter.size == 4:
                hint += " or np.float32(x)"
    if parameter.is_array:
        hint = f"{parameter.size} bytes (bytes, or a NumPy array or structured scalar of that size)"
    return (
        f"kernel {kernel}, argument {index} ({_describe(parameter)}): expected {parameter.size} bytes, got {given}. Try {hint}"
    )
