"""Tensor maps as arguments of bundles and command lines: what they say, whose array they describe, and a launch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcsim
from tcsim.bundle import ArgumentError, Bundle, BundleError, load_suite, parse_argument
from tcsim.bundle.tensor_maps import MapOf
from tcsim.errors import LaunchError
from tcsim.tensor_map import TensorMapError, read_tensor_map, tensor_map_im2col, tensor_map_tiled

SUITE = Path(__file__).parents[1] / "traces" / "suite.toml"


def bundle(*specs: str) -> Bundle:
    arguments = tuple(parse_argument(spec, position, name=f"x{position}") for position, spec in enumerate(specs))
    return Bundle("b", "k.ptx", "k", (1, 1, 1), (32, 1, 1), arguments)


def test_a_map_is_that_of_the_host_functions() -> None:
    tiled, im2col, *_ = bundle(
        "tensor_map(x2,box=16x4,swizzle=32B,oob_fill=nan,l2_promotion=128B)",
        "tensor_map(x3,lower=-1x0,upper=0x-1,channels=8,pixels=20,dtype=tf32,element_strides=1x2x1x1,offset=256)",
        "f16[8,64]:normal",
        "f32[2,5,6,16]:normal",
    ).values()
    assert isinstance(tiled, MapOf) and isinstance(im2col, MapOf)
    made = tensor_map_tiled(0x4000, (16, 4), dtype="f16", dims=(64, 8), swizzle="32B", oob_fill="nan", l2_promotion="128B")
    assert (tiled.position, tiled.encode(0x4000)) == (2, made)
    steps = {"dims": (16, 6, 5, 2), "element_strides": (1, 2, 1, 1)}
    assert im2col.encode(0x4000) == tensor_map_im2col(0x4100, (-1, 0), (0, -1), 8, 20, dtype="tf32", **steps)


def test_a_specification_is_written_as_it_was_read() -> None:
    for text in ("tensor_map(a,box=64x32,swizzle=128B)", "tensor_map(a,lower=-1,upper=1,channels=8,pixels=4,strides=64x128)"):
        assert parse_argument(text, name="m").spec == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensor_map(a,box=64x32", r"ends with '\)'"),
        ("tensor_map(3,box=8)", "first comes the name of an argument"),
        ("tensor_map(a,bax=8)", "unknown key 'bax'"),
        ("tensor_map(a,box=8xy)", "numbers such as 64x32"),
        ("tensor_map(a,box=8,swizzle=256B)", "swizzle is one of none, 32B, 64B, 128B"),
        ("tensor_map(a)", "has a box, or else"),
    ],
)
def test_a_bad_specification_shows_where(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        parse_argument(text)


def test_a_map_needs_an_array_that_fits() -> None:
    with pytest.raises(BundleError, match="is the map of no array; there are x1"):
        bundle("tensor_map(y,box=8)", "f16[64]:zeros").values()
    with pytest.raises(TensorMapError, match="1 box extents for 2 dimensions"):
        bundle("tensor_map(x1,box=8)", "f16[8,64]:zeros").values()


def test_arrays_that_only_maps_lead_to_come_last() -> None:
    one = next(b for b in load_suite(SUITE) if b.name == "tensor_transpose")
    with tcsim.Device("h200"):
        function = tcsim.RawModule(path=one.ptx_path).get_function(one.entry)
        values = [tcsim.asarray(v) if isinstance(v, np.ndarray) else v for v in one.values()]
        function(one.grid, one.block, values)
        source, target = (value.get() for value in values[-2:])
        expected = np.zeros_like(target)
        expected[:, :90] = source.T
        np.testing.assert_array_equal(target, expected)
        data = read_tensor_map(values[0].encode(values[3].data.ptr))
        assert (data.dims, data.address) == ((212, 90), values[3].data.ptr)
        with pytest.raises(LaunchError, match="takes 3 arguments"):
            function(one.grid, one.block, [*values, np.int32(1)])
