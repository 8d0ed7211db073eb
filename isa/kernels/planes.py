"""Access to register planes and raw memory from compiled kernels.

A compiled instruction sees its warp's registers as one block of 32-bit words: a *plane* is 32 consecutive words, one per lane,
and a predicate is one word, one bit per lane. Operands arrive as byte offsets into the block. These functions turn such an
address into a typed pointer, read and write host memory, and call another compiled kernel. Each
is one or two LLVM instructions.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = [
    "PLANE_BYTES",
    "as_f32",
    "as_i32",
    "as_u32",
    "as_u64",
    "call_kernel",
    "load_u8",
    "load_u16",
    "load_u32",
    "load_u64",
    "store_u8",
    "store_u16",
    "store_u32",
    "store_u64",
]

PLANE_BYTES = 128
"""Bytes of one register plane: 32 lanes x 4 bytes."""


def _pointer_to(element):
    @intrinsic
    def pointer(typingctx, address):
        signature = types.CPointer(element)(types.int64)

        def codegen(context, builder, sig, args):
            return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

        return signature, codegen

    return pointer


as_u32 = _pointer_to(types.uint32)
as_i32 = _pointer_to(types.int32)
as_f32 = _pointer_to(types.float32)
as_u64 = _pointer_to(types.uint64)
as_i64 = _pointer_to(types.int64)


def _load(element, bits):
    @intrinsic
    def load(typingctx, address):
        def codegen(context, builder, sig, args):
            value = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()))
            value.align = 1
            return value

        return element(types.int64), codegen

    return load


def _store(element, bits):
    @intrinsic
    def store(typingctx, address, value):
        def codegen(context, builder, sig, args):
            # PTX memory is byte addressed; hosts may hand out buffers at any address.
            instruction = builder.store(args[1], builder.inttoptr(args[0], ir.IntType(bits).as_pointer()))
            instruction.align = 1
            return context.get_dummy_value()

        return types.void(types.int64, element), codegen

    return store


load_u8 = _load(types.uint8, 8)
load_u16 = _load(types.uint16, 16)
load_u32 = _load(types.uint32, 32)
load_u64 = _load(types.uint64, 64)
load_i64 = _load(types.int64, 64)
store_u8 = _store(types.uint8, 8)
store_u16 = _store(types.uint16, 16)
store_u32 = _store(types.uint32, 32)
store_u64 = _store(types.uint64, 64)
store_i64 = _store(types.int64, 64)


@intrinsic
def call_kernel(typingctx, function, registers, mask, operands, ctx):
    """Call a compiled instruction kernel by address: ``status = kernel(registers, mask, operands, ctx)``."""
    signature = types.int32(types.int64, types.int64, types.uint32, types.int64, types.int64)

    def codegen(context, builder, sig, args):
        i32, i64 = ir.IntType(32), ir.IntType(64)
        kernel = builder.inttoptr(args[0], ir.FunctionType(i32, [i64, i32, i64, i64]).as_pointer())
        return builder.call(kernel, args[1:])

    return signature, codegen
