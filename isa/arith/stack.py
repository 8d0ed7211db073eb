# mypy: allow-untyped-defs, allow-untyped-calls
"""Scratch arrays on the native stack, for compiled kernels that run millions of times.

``np.empty`` inside a compiled function costs a heap allocation and a reference count, which is a large part of the time
of a kernel that lasts a microsecond. :func:`stack_array` costs nothing: the space is part of the calling function's
stack frame, 64-byte aligned, uninitialised, and gone when that function returns. So an array made by it may be passed
down into other functions, but never returned or stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.extending import type_callable
from numba.np.arrayobj import populate_array

__all__ = ["stack_array"]

_ALIGNMENT = 64  # bytes: one cache line, and the widest vector register


def stack_array(n: int, dtype: Any) -> np.ndarray:
    """An uninitialised one-dimensional array of ``n`` elements of ``dtype`` in the caller's stack frame.

    In compiled code ``n`` must be a literal (or a global or frozen integer) and ``dtype`` a NumPy scalar type such as
    ``np.int32``; anything else is a typing error. Outside compiled code it is ``np.empty``.
    """
    return np.empty(n, dtype)


@type_callable(stack_array)
def _type_stack_array(context):
    def typer(n, dtype):
        if isinstance(n, types.IntegerLiteral) and isinstance(dtype, types.NumberClass):
            return types.Array(dtype.dtype, 1, "C")
        return None

    return typer


@lower_builtin(stack_array, types.IntegerLiteral, types.NumberClass)
def _lower_stack_array(context, builder, sig, args):
    array_type = sig.return_type
    element = context.get_data_type(array_type.dtype)
    count = sig.args[0].literal_value
    # alloca_once puts the space in the entry block: a call inside a loop reuses it instead of growing the stack.
    space = cgutils.alloca_once(builder, ir.ArrayType(element, count))
    space.align = _ALIGNMENT
    size = context.get_constant(types.intp, context.get_abi_sizeof(element))
    array = context.make_array(array_type)(context, builder)
    populate_array(
        array,
        data=builder.bitcast(space, element.as_pointer()),
        shape=[context.get_constant(types.intp, count)],
        strides=[size],
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()
