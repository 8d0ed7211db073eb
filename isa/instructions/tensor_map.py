"""Tensor maps that a kernel makes: tensormap.replace and cp_fenceproxy, prefetch.tensormap (PTX ISA 9.7.9.26 to 9.7.9.28).

Where the fields stand is in :mod:`isa.tma.tensor_map`. That ``replace`` changes the bits of its field and no others, whatever
the value, was compared with an H200 (``traces/tma``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.lane import lane
from isa.kernels.planes import load_u64, store_u64
from isa.machine import GLOBAL, SHARED, SPACES, locate
from isa.spec import instruction, optional
from isa.tma.tensor_map import ELEMENT_TYPES, FIELDS, INTERLEAVES, OOB_FILLS, SWIZZLES

_ONE = np.uint32(1)
_MAP_BYTES = 128

# Fields with one value, with one for each dimension, and with constants for values: field of the map, operand's type.
_VALUES = {"rank": "rank"}
_INDEXED = {"box_dim": "box", "global_dim": "dim", "element_stride": "element_stride"}
_CONSTANTS = {
    "interleave_layout": ("interleave", len(INTERLEAVES)),
    "swizzle_mode": ("swizzle", len(SWIZZLES)),
    "fill_mode": ("oob_fill", len(OOB_FILLS)),
}
_BIT = {name: FIELDS[field].bit for name, field in (_VALUES | _INDEXED).items()}
_BIT |= {name: FIELDS[field].bit for name, (field, _) in _CONSTANTS.items()}
_BITS = {name: FIELDS[field].bits for name, field in (_VALUES | _INDEXED).items()}
_BITS |= {name: FIELDS[field].bits for name, (field, _) in _CONSTANTS.items()}
_STEP = {name: FIELDS[field].step for name, field in _INDEXED.items()}
_MINUS = {"box_dim": FIELDS["box"].minus, "global_dim": FIELDS["dim"].minus, "element_stride": FIELDS["element_stride"].minus}

_REPLACE: dict[str, Any] = {
    "body": "warp",
    "timing": "tensormap_replace",
    "section": "9.7.9.26",
    "sm": 90,
    "ptx": "8.3",
    "targets": ("sm_90a",),
    "space": optional("global", "shared::cta"),
}
_MOST_DIMENSIONS = 5
_FORMAT_AT, _TF32_AT = FIELDS["format"].bit, FIELDS["tf32"].bit
_LOW_AT, _HIGH_AT = FIELDS["stride"].bit, FIELDS["stride_high"].bit
_LOW_STEP, _HIGH_STEP = FIELDS["stride"].step, FIELDS["stride_high"].step
# Numbers of element types in this instruction (PTX ISA 9.7.9.26, table of .elemtype); the last two are tf32 and tf32_ftz.
_PLAIN_TYPES = 11
_TF32_FORMAT = ELEMENT_TYPES["tf32"].format


@lane
def _put(host, bit, count, value):
    """Write the low ``count`` (at most 32) bits of ``value`` at a bit of the map at a host address."""
    word = host + np.int64(bit) // 64 * 8
    shift = np.uint64(np.int64(bit) % 64)
    field = np.uint64((np.int64(1) << np.int64(count)) - 1)
    store_u64(word, (load_u64(word) & ~(field << shift)) | ((np.uint64(value) & field) << shift))


@lane
def _find(ctx, space, address, number):
    """Host address of a map, or 0 after recording a fault: 64-byte aligned, all of it in memory."""
    host = locate(ctx, space, address, _MAP_BYTES // 2, number)
    if host != 0 and locate(ctx, space, address + np.uint64(_MAP_BYTES // 2), _MAP_BYTES // 2, number) == 0:
        return np.int64(0)
    return host


@instruction("tensormap.replace.tile.global_address{space}.b1024.b64 [map:b8], a:b64", **_REPLACE)
def replace_address(map, a, mask, ctx, *, space):
    """Let the map describe a tensor at another address."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _find(ctx, SPACES[space], map[number], number)
            if host == 0:
                return 1
            store_u64(host, a[number])
    return 0


@instruction("tensormap.replace.tile.{field}{space}.b1024.b32 [map:b8], a:b32", field=tuple(_VALUES), **_REPLACE)
@instruction(
    "tensormap.replace.tile.{field}{space}.b1024.b32 [map:b8], a:b32",
    field=tuple(_CONSTANTS),
    immediates=lambda p: {"a": tuple(range(_CONSTANTS[str(p["field"])][1]))},
    **_REPLACE,
)
def replace_value(map, a, mask, ctx, *, space, field):
    """Replace the rank (given as one less), or a mode by its number."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _find(ctx, SPACES[space], map[number], number)
            if host == 0:
                return 1
            _put(host, _BIT[field], _BITS[field], a[number])
    return 0


@instruction(
    "tensormap.replace.tile.{field}{space}.b1024.b32 [map:b8], i:b32, a:b32",
    field=tuple(_INDEXED),
    immediates=lambda p: {"i": tuple(range(_MOST_DIMENSIONS))},
    **_REPLACE,
)
def replace_extent(map, i, a, mask, ctx, *, space, field):
    """Replace an extent of the box or the tensor, or an element stride, of dimension ``i``."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _find(ctx, SPACES[space], map[number], number)
            if host == 0:
                return 1
            bit = np.int64(_BIT[field]) + np.int64(i[number]) * np.int64(_STEP[field])
            _put(host, bit, _BITS[field], np.int64(a[number]) - np.int64(_MINUS[field]))
    return 0


@instruction(
    "tensormap.replace.tile.global_stride{space}.b1024.b64 [map:b8], i:b32, a:b64",
    immediates=lambda p: {"i": tuple(range(_MOST_DIMENSIONS))},
    **_REPLACE,
)
def replace_stride(map, i, a, mask, ctx, *, space):
    """Replace the stride, in bytes, of the dimension after dimension ``i``. (There are four; a fifth lands in their upper bits,
    as on an H200.)"""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _find(ctx, SPACES[space], map[number], number)
            if host == 0:
                return 1
            index = np.int64(i[number])
            _put(host, _LOW_AT + index * _LOW_STEP, 32, a[number] >> np.uint64(4))
            _put(host, _HIGH_AT + index * _HIGH_STEP, 4, a[number] >> np.uint64(36))
    return 0


@instruction(
    "tensormap.replace.tile.elemtype{space}.b1024.b32 [map:b8], a:b32",
    immediates=lambda p: {"a": tuple(range(len(ELEMENT_TYPES)))},
    **_REPLACE,
)
def replace_type(map, a, mask, ctx, *, space):
    """Replace the element type by its number."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            host = _find(ctx, SPACES[space], map[number], number)
            if host == 0:
                return 1
            given = np.int64(a[number])
            _put(host, _FORMAT_AT, 4, given if given < _PLAIN_TYPES else given - _PLAIN_TYPES + _TF32_FORMAT)
            if given >= _PLAIN_TYPES:
                _put(host, _TF32_AT, 1, 1)
    return 0


@instruction(
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{scope}.sync.aligned [dst:b8], [src:b8], size:b32",
    body="warp",
    timing="tensormap_copy",
    section="9.7.9.27",
    sm=90,
    ptx="8.3",
    collective="warp",
    scope=("cta", "cluster", "gpu", "sys"),
    immediates=lambda p: {"size": (_MAP_BYTES,)},
)
def cp_fenceproxy(dst, src, mask, ctx):
    """Copy a map from shared to device memory, for copies there to use (once a fence has acquired it)."""
    for number in range(32):
        if (mask >> np.uint32(number)) & _ONE:
            source = _find(ctx, SHARED, src[number], number)
            if source == 0:
                return 1
            target = _find(ctx, GLOBAL, dst[number], number)
            if target == 0:
                return 1
            for at in range(0, _MAP_BYTES, 8):
                store_u64(target + at, load_u64(source + at))
    return 0


@instruction(
    "prefetch{space}.tensormap [map:b8]",
    control="nothing",
    timing="nothing",
    section="9.7.9.15",
    sm=90,
    ptx="8.0",
    space=optional("param", "const"),
)
def prefetch_tensormap() -> None:
    """Bring a tensor map nearer. No value changes."""
