"""What tells the caches how data will be used: prefetch, discard, priorities and policies (PTX ISA 9.7.9.12 to 9.7.9.18).

None of it changes a value, but a cache policy is a 64-bit number that a program can look at. ``createpolicy`` computes it as
the machine code does that ptxas 13.0 makes of it for sm_90a.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.arith.approx import lg2_approx_ftz_f32
from isa.arith.convert import float_to_int
from isa.arith.float32 import mul_f32_rn
from isa.arith.lane import lane
from isa.spec import instruction, optional

_HINT: dict[str, Any] = {"control": "nothing", "timing": "nothing"}


@instruction(
    "prefetch{space}.{level} [a:b8]",
    **_HINT,
    section="9.7.9.15",
    ptx="2.0",
    space=optional("global", "local"),
    level=("L1", "L2", "L2::evict_last", "L2::evict_normal"),
    valid=lambda p: f".{p['level']} is for .global" if "::" in str(p["level"]) and p["space"] == "local" else None,
)
@instruction("prefetchu.L1 [a:b8]", **_HINT, section="9.7.9.15", ptx="2.0")
def prefetch() -> None:
    """Bring a line nearer. No value changes."""


@instruction(
    "applypriority{space}.L2::evict_normal [a:b8], size:b32",
    **_HINT,
    section="9.7.9.16",
    ptx="7.4",
    sm=80,
    space=optional("global"),
)
def applypriority() -> None:
    """Give the 128 bytes at an address the normal eviction priority. No value changes."""


@instruction("discard{space}.L2 [a:b8], size:b32", **_HINT, section="9.7.9.17", ptx="7.4", sm=80, space=optional("global"))
def discard() -> None:
    """Allow the cache to forget the 128 bytes at an address, whose value is then undefined. Here they stay as they are."""


# ----------------------------------------------------------------------------------------------------- cache policies
# The upper 32 bits: 0x100 (0x180 for a range) plus these, and a fraction or a granularity, from bit 20 on.

_PRIMARY = {"L2::evict_unchanged": 0x00, "L2::evict_first": 0x20, "L2::evict_last": 0x40, "L2::evict_normal": 0x60}
_SECONDARY = {"": 0x00, "L2::evict_unchanged": 0x00, "L2::evict_first": 0x10}
_POLICY: dict[str, Any] = {
    "timing": "alu",
    "section": "9.7.9.18",
    "ptx": "7.4",
    "sm": 80,
    "primary": tuple(_PRIMARY),
    "secondary": optional("L2::evict_first", "L2::evict_unchanged"),
}


@lane
def fraction_field(fraction):
    """The four bits for a fraction of 0 to 1; outside, what is left of the product."""
    return np.uint64(float_to_int(np.trunc(np.float64(mul_f32_rn(fraction, np.float32(15.99)))), 0, 0xFFFFFFFF, 0) & 15)


@instruction("createpolicy.fractional.{primary}{secondary}.b64 d, a:f32", **_POLICY)
def createpolicy_fractional(a, *, primary, secondary):
    """The policy of giving the fraction ``a`` of accesses the primary priority, the others the secondary one."""
    return (np.uint64(0x100 + _PRIMARY[primary] + _SECONDARY[secondary]) | fraction_field(a)) << np.uint64(52)


@instruction("createpolicy.fractional.{primary}{secondary}.b64 d", **_POLICY)
def createpolicy_always(*, primary, secondary):
    """The policy of giving every access the primary priority."""
    return np.uint64(0x10F + _PRIMARY[primary] + _SECONDARY[secondary]) << np.uint64(52)


@lane
def range_fields(start, primary_size, total_size):
    """(log2 of the granularity less 12, first granule, number of granules) that describe an address range."""
    if total_size == np.uint32(0):
        return np.uint64(0), np.uint64(0), np.uint64(0)
    exponent = np.int64(np.ceil(np.float64(lg2_approx_ftz_f32(np.float32(total_size)))))
    shift = np.uint64(max(exponent - 7, 12))
    first = start >> shift
    last = (start + np.uint64(np.uint32(primary_size - np.uint32(1) + np.uint32(np.uint64(1) << shift)))) >> shift
    return (shift - np.uint64(12)) & np.uint64(15), first & np.uint64(127), min(last - first, np.uint64(127))


@instruction("createpolicy.range{space}.{primary}{secondary}.b64 d, [a:b8], b:b32, c:b32", **_POLICY, body="warp",
             space=optional("global"))  # fmt: skip
def createpolicy_range(d, a, b, c, *, primary, secondary):
    """The policy of giving ``b`` bytes at an address the primary priority, the rest of the ``c`` bytes there the other."""
    for number in range(32):
        granularity, first, count = range_fields(a[number], b[number], c[number])
        kind = np.uint64(0x180) if c[number] == np.uint32(0) else np.uint64(0x180 + _PRIMARY[primary] + _SECONDARY[secondary])
        d[number] = ((kind | granularity) << np.uint64(52)) | (first << np.uint64(44)) | (count << np.uint64(37))
    return 0


@instruction("createpolicy.cvt.L2.b64 d, a", timing="mov", section="9.7.9.18", ptx="7.4", sm=80)
def createpolicy_cvt(a):
    """The policy that CUDA's access property is, which has the same bits."""
    return a
