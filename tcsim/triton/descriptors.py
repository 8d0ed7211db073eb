"""Tensor descriptors that the host makes: the tensor maps that Triton's own launcher would have the driver encode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isa.tma.rules import TensorMapError
from isa.tma.tensor_map import SWIZZLES
from tcsim.errors import LaunchError
from tcsim.tensor_map import tensor_map_im2col, tensor_map_tiled

__all__ = ["Descriptor"]

# Triton numbers element types as tensormap.replace does (PTX ISA 9.7.9.26).
_ELEMENTS = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32_ftz", "f64", "bf16", "tf32", "tf32_ftz")


@dataclass(frozen=True)
class Descriptor:
    """An argument that is a ``TensorDescriptor``, and what the compiler says of it (an entry of ``tensordesc_meta``)."""

    value: Any
    meta: Mapping[str, Any]

    def encode(self, address: int, name: str) -> bytes:
        """The map of the tensor at a device address. ``name``: of the argument. Raises LaunchError where there can be none."""
        value, meta = self.value, self.meta
        dims = [int(extent) for extent in reversed(value.shape)]
        if meta.get("fp4_padded"):
            raise LaunchError(f"argument {name}: descriptors of padded 4-bit floats are for sm_100 and later")
        element = "tf32" if getattr(value, "round_f32_to_tf32", False) else _ELEMENTS[meta["elem_type"]]
        common: dict[str, Any] = {
            "dtype": element,
            "dims": dims,
            "strides": [meta["elem_size"] * int(stride) for stride in reversed(value.strides[:-1])],
            "swizzle": SWIZZLES[meta["swizzle"]],
            "l2_promotion": "128B",
            "oob_fill": "nan" if getattr(value, "padding", "zero") == "nan" else "zeros",
        }
        block = [int(extent) for extent in reversed(meta["block_size"])]
        try:
            if not meta.get("is_im2col"):
                return tensor_map_tiled(address, block, **common)
            lower, upper = value.pixel_box_lower_corner[::-1], value.pixel_box_upper_corner[::-1]
            steps = value.element_strides
            steps = None if steps is None else list(reversed(steps))
            return tensor_map_im2col(address, lower, upper, *block, element_strides=steps, **common)
        except TensorMapError as problem:
            raise LaunchError(f"argument {name}: {problem}") from None
