"""Tensor maps: back and forth, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsim
from isa.tma.tensor_map import decode, encode
from tcsim.tensor_map import TensorMapError, read_tensor_map, tensor_map_im2col, tensor_map_tiled


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=128, max_size=128))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read = read_tensor_map(data)
    except TensorMapError:
        return
    assert decode(encode(read)) == read


def test_an_array_gives_its_own_shape_and_type() -> None:
    array = tcsim.zeros((6, 32, 64), np.float16)
    read = read_tensor_map(tensor_map_tiled(array, (64, 8, 1), swizzle="128B", oob_fill="nan"))
    assert (read.element, read.address, read.dims, read.strides) == ("f16", array.data.ptr, (64, 32, 6), (128, 4096))
    assert (read.box, read.swizzle, read.oob_fill, read.element_strides) == ((64, 8, 1), "128B", "nan", (1, 1, 1))
    image = tcsim.zeros((2, 9, 7, 32), np.float32)
    read = read_tensor_map(tensor_map_im2col(image, (-1, -2), (0, 1), 8, 64, dtype="tf32"))
    assert (read.element, read.dims, read.strides) == ("tf32", (32, 7, 9, 2), (128, 896, 8064))
    assert (read.lower, read.upper, read.channels, read.pixels) == ((-1, -2), (0, 1), 8, 64)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"box": (3, 1)}, "multiple of 16 bytes"),
        ({"box": (128, 1), "swizzle": "64B"}, "allows 64 at most"),
        ({"box": (8,)}, "1 box extents for 2 dimensions"),
        ({"box": ()}, "none is given"),
        ({"box": (8, 257)}, "1 to 256"),
        ({"strides": (24,)}, "a stride is a multiple of 16"),
        ({"dims": (0, 4)}, "an extent is 1 to 2"),
        ({"element_strides": (1, 9)}, "an element stride is 1 to 8"),
        ({"interleave": "16B"}, "has 3 to 5"),
        ({"swizzle": "256B"}, "one of none, 32B, 64B, 128B"),
        ({"dtype": "e4m3"}, "one of u8, u16"),
        ({"dtype": "u16", "oob_fill": "nan"}, "needs a floating-point type"),
        ({"tensor": 0x1008, "dims": (8, 8), "dtype": "f16"}, "multiple of 16 below"),
        ({"tensor": 0x1000, "dtype": "f16"}, "must come with an address"),
        ({"tensor": 0x1000, "dims": (8, 8)}, "no dtype"),
        ({"box": (256, 256), "dtype": "f32", "dims": (512, 512)}, "bytes of shared memory"),
    ],
)
def test_a_bad_map_is_refused_with_a_reason(changed, message: str) -> None:
    arguments = {"tensor": tcsim.zeros((16, 128), np.float16), "box": (8, 4)} | changed
    with pytest.raises(TensorMapError, match=message):
        tensor_map_tiled(arguments.pop("tensor"), arguments.pop("box"), **arguments)


def test_im2col_corners_must_leave_a_box() -> None:
    image = tcsim.zeros((2, 4, 4, 32), np.float16)
    cases = (((0, 0), (-4, 0), "empty"), ((200, 0), (0, 0), "outside -128 to 127"), ((0,), (0,), "2 spatial"))
    for lower, upper, message in cases:
        with pytest.raises(TensorMapError, match=message):
            tensor_map_im2col(image, lower, upper, 8, 8)
