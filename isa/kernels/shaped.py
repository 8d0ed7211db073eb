# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays of compiled code that need no reference count: of a place in memory, and another shape for a scratch array.

numba's ``reshape`` calls a function in C to find out whether a view will do, a fiftieth of the time of a tensor GEMM. Of an
array that is contiguous nothing need be found out.
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

__all__ = ["array_at", "shaped"]


def _contiguous(context, builder, result, data, shape, kinds):
    """The array value of type ``result`` at ``data``, of a tuple of lengths of these types."""
    element = context.get_data_type(result.dtype)
    size = context.get_constant(types.intp, context.get_abi_sizeof(element))
    lengths = [
        context.cast(builder, length, kind, types.intp)
        for length, kind in zip(cgutils.unpack_tuple(builder, shape), kinds, strict=True)
    ]
    strides = [size]
    for length in reversed(lengths[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    array = context.make_array(result)(context, builder)
    populate_array(array, data=data, shape=lengths, strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()


@intrinsic
def shaped(typingctx, flat, shape):
    """A contiguous one-dimensional array as one of ``shape``, a tuple of integers whose product is its length."""
    if not (isinstance(flat, types.Array) and flat.ndim == 1 and flat.layout == "C"):
        return None
    result = types.Array(flat.dtype, len(shape), "C")

    def codegen(context, builder, signature, arguments):
        data = context.make_array(flat)(context, builder, arguments[0]).data
        return _contiguous(context, builder, result, data, arguments[1], shape)

    return result(flat, shape), codegen


@intrinsic
def array_at(typingctx, address, shape, dtype):
    """The array of ``shape`` (a tuple of integers) and ``dtype`` that lies at a host address, and that someone else keeps."""
    if not isinstance(dtype, types.NumberClass):
        return None
    result = types.Array(dtype.dtype, len(shape), "C")

    def codegen(context, builder, signature, arguments):
        data = builder.inttoptr(arguments[0], context.get_data_type(dtype.dtype).as_pointer())
        return _contiguous(context, builder, result, data, arguments[1], shape)

    return result(types.int64, shape, dtype), codegen
