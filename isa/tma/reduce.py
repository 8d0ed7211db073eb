# mypy: allow-untyped-defs, allow-untyped-calls
"""The operations of reducing bulk copies, an element at a time (PTX ISA 9.7.9.25.5.1, compiled).

Which types an operation takes, and what the floating-point sums do with subnormal numbers and NaN, was read from an H200.
"""

from __future__ import annotations

import numpy as np

from isa.arith.bfloat16 import add_bf16, max_bf16, min_bf16
from isa.arith.float16 import add_f16, max_f16, min_f16
from isa.arith.float32 import add_f32_rn, canon_f32, ftz_f32
from isa.arith.float64 import add_f64_rn
from isa.arith.primitives import bits_f32, bits_f64, f32_bits, f64_bits
from isa.compiled import compiled
from isa.kernels.planes import load_u16, load_u32, load_u64, store_u16, store_u32, store_u64
from isa.tma.tensor_map import ELEMENT_TYPES

__all__ = ["OPERATIONS", "can_reduce", "reduce_element"]

OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
ADD, MIN, MAX, INC, DEC, AND, OR, XOR = range(8)
_FORMAT = {t.name: t.format for t in ELEMENT_TYPES.values()}
U32, S32, U64, S64 = _FORMAT["u32"], _FORMAT["s32"], _FORMAT["u64"], _FORMAT["s64"]
F16, F32, F64, BF16, F32_FTZ = _FORMAT["f16"], _FORMAT["f32"], _FORMAT["f64"], _FORMAT["bf16"], _FORMAT["f32_ftz"]
# Formats that each operation takes, as bits.
_TAKES = np.array(
    [
        sum(1 << t for t in formats)
        for formats in (
            (U32, S32, U64, F16, F32, F64, BF16, F32_FTZ),
            (U32, S32, U64, S64, F16, BF16),
            (U32, S32, U64, S64, F16, BF16),
            (U32,),
            (U32,),
            (U32, S32, U64),
            (U32, S32, U64),
            (U32, S32, U64),
        )
    ]
)


@compiled
def can_reduce(operation, number):
    """Whether tensors of a format (:data:`isa.tma.tensor_map.ELEMENT_TYPES`) can be reduced by an operation."""
    return (_TAKES[operation] >> number) & 1 != 0


@compiled
def _integer(operation, old, value, less):
    if operation == ADD:
        return old + value
    if operation == MIN:
        return value if less else old
    if operation == MAX:
        return old if less or value == old else value
    if operation == INC:
        return np.uint64(0) if old >= value else old + np.uint64(1)
    if operation == DEC:
        return value if old == np.uint64(0) or old > value else old - np.uint64(1)
    if operation == AND:
        return old & value
    return old | value if operation == OR else old ^ value


@compiled
def _half(operation, number, old, value):
    if number == F16:
        if operation == ADD:
            return add_f16(old, value)
        return min_f16(old, value) if operation == MIN else max_f16(old, value)
    if operation == ADD:
        return add_bf16(old, value)
    return min_bf16(old, value) if operation == MIN else max_bf16(old, value)


@compiled
def _add_f32(old, value, flush):
    x, y = bits_f32(old), bits_f32(value)
    if flush:
        return f32_bits(canon_f32(ftz_f32(add_f32_rn(ftz_f32(x), ftz_f32(y)))))
    return f32_bits(canon_f32(add_f32_rn(x, y)))


@compiled
def _add_f64(old, value):
    x, y = bits_f64(old), bits_f64(value)
    if y != y:
        return value
    return old if x != x else f64_bits(add_f64_rn(x, y))


@compiled
def reduce_element(operation, number, target, source):
    """Combine the element of a format at host address ``target`` with that at ``source``."""
    if number in (F16, BF16):
        store_u16(target, _half(operation, number, load_u16(target), load_u16(source)))
    elif number in (F32, F32_FTZ):
        store_u32(target, _add_f32(load_u32(target), load_u32(source), number == F32_FTZ))
    elif number == F64:
        store_u64(target, _add_f64(load_u64(target), load_u64(source)))
    elif number in (U32, S32):
        old, value = load_u32(target), load_u32(source)
        less = np.int32(value) < np.int32(old) if number == S32 else value < old
        store_u32(target, np.uint32(_integer(operation, np.uint64(old), np.uint64(value), less)))
    else:
        wide, more = load_u64(target), load_u64(source)
        less = np.int64(more) < np.int64(wide) if number == S64 else more < wide
        store_u64(target, _integer(operation, wide, more, less))
