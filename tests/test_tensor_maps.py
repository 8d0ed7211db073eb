"""Tensor maps: against the driver's bytes, back and forth, and what is refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tcsim
from gpu_ref.tma.map_cases import map_cases, named
from isa.tma import tensor_map as layout
from isa.tma.rules import check
from isa.tma.tensor_map import ELEMENT_TYPES, TensorMap, decode, encode
from tcsim.tensor_map import TensorMapError, read_tensor_map, tensor_map_im2col, tensor_map_tiled

VECTORS = Path(__file__).parents[1] / "traces" / "tma" / "maps.npz"
NAMES = list(ELEMENT_TYPES)


def described(row) -> TensorMap | None:
    """The map that a recorded call asks for, or None if it has an enumerator or a rank that there is not."""
    p = named(row)
    rank = p["rank"]
    enumerators = (("interleave", layout.INTERLEAVES), ("swizzle", layout.SWIZZLES), ("l2_promotion", layout.L2_PROMOTIONS))
    modes = {name: names[p[name]] for name, names in enumerators if p[name] < len(names)}
    if len(modes) < 3 or p["dtype"] >= len(NAMES) or p["oob_fill"] > 1 or not 1 <= rank <= 5:
        return None
    made = TensorMap(
        element=NAMES[p["dtype"]],
        address=p["address"],
        dims=tuple(p["dims"][:rank]),
        strides=tuple(p["strides"][: rank - 1]),
        element_strides=tuple(p["element_strides"][:rank]),
        oob_fill=layout.OOB_FILLS[p["oob_fill"]],
        **modes,
    )
    if not p["im2col"]:
        return replace(made, box=tuple(p["box"][:rank]))
    corners = {name: tuple(p[name][: max(0, rank - 2)]) for name in ("lower", "upper")}
    return replace(made, channels=p["channels"], pixels=p["pixels"], **corners)


def accepted(tensor: TensorMap | None) -> bool:
    try:
        if tensor is not None:
            check(tensor, "map")
    except TensorMapError:
        return False
    return tensor is not None


def test_the_driver_accepts_the_same_calls_and_makes_the_same_bytes() -> None:
    calls = map_cases()
    with np.load(VECTORS) as vectors:
        assert str(vectors["calls"]) == hashlib.sha256(calls.tobytes()).hexdigest()
        results, maps = vectors["result"], iter(vectors["maps"])
    for row, result in zip(calls, results, strict=True):
        tensor = described(row)
        assert accepted(tensor) == (result == 0), named(row)
        if result == 0:
            assert tensor is not None
            recorded = next(maps).tobytes()
            assert encode(tensor) == recorded, named(row)
            assert decode(recorded) == tensor


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
