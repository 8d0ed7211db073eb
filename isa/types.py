"""PTX scalar types: widths, and how a lane's value of each type appears to an instruction's body.

A register is one or more 32-bit *planes* (32 lanes x 4 bytes); 64-bit types take two planes, low half first, as the hardware's
register pairs do. Types narrower than 32 bits live in the low bits of one plane and their upper bits are ignored when read.
Types that NumPy lacks (halves, fp8, packed pairs) appear to a body as their bits.

Source: PTX ISA 5.2 (types), 5.2.3 (alternate floating-point formats), 5.2.5 (packed types).
"""

from __future__ import annotations

from msgspec import Struct

__all__ = ["SCALAR_TYPES", "ScalarType", "scalar_type"]


class ScalarType(Struct, frozen=True):
    """One fundamental or packed type.

    ``bits``: width in bits (1 for pred). ``kind``: "u", "s", "b", "f" (a float that numba computes with), "x" (float bits in
    an unsigned integer), "p" (predicate). ``lane``: the NumPy scalar type a body receives.
    """

    name: str
    bits: int
    kind: str
    lane: str

    @property
    def planes(self) -> int:
        """32-bit register planes that a value takes (0 for a predicate, which is one mask word per warp)."""
        return 0 if self.kind == "p" else max(1, self.bits // 32)

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return self.bits // 8


def _table() -> dict[str, ScalarType]:
    types: list[ScalarType] = []
    for bits in (8, 16, 32, 64):
        types += [ScalarType(f"u{bits}", bits, "u", f"uint{bits}"), ScalarType(f"s{bits}", bits, "s", f"int{bits}")]
        types += [ScalarType(f"b{bits}", bits, "b", f"uint{bits}")]
    types += [ScalarType("b128", 128, "b", "uint64")]
    types += [ScalarType("f32", 32, "f", "float32"), ScalarType("f64", 64, "f", "float64")]
    halves = ("f16", "bf16", "e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e2m1x4")
    types += [ScalarType(name, 16, "x", "uint16") for name in halves]
    # Elements of 6 and 4 bits are in containers of 8; so is a pair of 4 bits (PTX ISA 5.2.3).
    bytes_ = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "ue8m0", "ue4m3", "e2m1x2")
    types += [ScalarType(name, 8, "x", "uint8") for name in bytes_]
    words = ("f16x2", "bf16x2", "tf32", "e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4")
    types += [ScalarType(name, 32, "x", "uint32") for name in words]
    types += [ScalarType("f32x2", 64, "x", "uint64"), ScalarType("u16x2", 32, "b", "uint32")]
    types += [ScalarType("s16x2", 32, "b", "uint32"), ScalarType("pred", 1, "p", "bool_")]
    return {t.name: t for t in types}


SCALAR_TYPES: dict[str, ScalarType] = _table()


def scalar_type(name: str) -> ScalarType:
    """The type called ``name`` (without the dot). Raises KeyError for a name that PTX does not define."""
    return SCALAR_TYPES[name]
