# mypy: allow-untyped-defs, allow-untyped-calls
"""Vectors of eight lanes for compiled kernels.

LLVM vectorises long loops well, but a tensor-core tile has rows of eight columns, and a loop of eight is unrolled into
scalar code before the vectoriser sees it (measured: nine times slower on the inner loop of a tensor-core step). So the
tensor kernels say what they mean: a value of type :class:`Vector` is eight lanes of one scalar type, in one vector
register or, where the machine's are narrower, in several: LLVM splits them.

Arithmetic is the ordinary operators, lane by lane. A scalar on one side is converted to the lanes' type and repeated.
``>>`` is arithmetic on signed lanes and logical on unsigned ones; a shift count must be less than the lane's width.
Integer arithmetic wraps. A comparison gives a mask, for :func:`select` and :func:`any_lane`. Arrays are C-contiguous,
of any number of dimensions, and indexed flat; nothing checks the index.

Outside compiled code the same functions work on NumPy arrays of eight elements, so that kernels run, slowly, with
``NUMBA_DISABLE_JIT=1``.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import models, register_model

from isa.arith.primitives import fma_f32, fma_f64

__all__ = [
    "LANES", "Vector", "any_lane", "bitcast", "convert", "from_f16_bits", "fused_multiply_add", "is_nan", "load4x2",
    "load8", "load_repeated", "maximum", "minimum", "population_count", "select", "splat", "store4x2", "store8",
    "to_f16_bits",
]  # fmt: skip

LANES = 8

_LLVM = {
    types.int32: ir.IntType(32),
    types.uint32: ir.IntType(32),
    types.int64: ir.IntType(64),
    types.uint64: ir.IntType(64),
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.boolean: ir.IntType(1),
}


class Vector(types.Type):
    """The numba type of eight lanes of ``dtype``, a numba scalar type (``boolean`` for the result of a comparison)."""

    def __init__(self, dtype: types.Type) -> None:
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype} x {LANES})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _llvm(fe_type.dtype))


def _llvm(dtype, lanes=LANES):
    return ir.VectorType(_LLVM[dtype], lanes)


def _shuffle(builder, first, second, lanes):
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes)))


def _repeat(builder, value):
    nothing = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    return _shuffle(builder, first, nothing, [0] * LANES)


def _define(function, typer, lower, *argument_types):
    """Give ``function`` a compiled meaning for arguments of these numba types: ``typer`` maps the types of a call to
    the type of its result, or to None where it does not apply; ``lower(context, builder, sig, args)`` emits the
    code."""

    class Template(AbstractTemplate):
        key = function

        def generic(self, args, kws):
            if kws or len(args) != len(argument_types):
                return None
            if not all(isinstance(found, expected) for found, expected in zip(args, argument_types, strict=True)):
                return None
            result = typer(*args)
            return None if result is None else signature(result, *args)

    infer_global(function)(Template)
    lower_builtin(function, *argument_types)(lower)


# --------------------------------------------------------------------------------------------------------- operators


def _operands(context, builder, sig, args):
    """Both operands as vectors, and the lanes' type."""
    dtype = next(t.dtype for t in sig.args if isinstance(t, Vector))
    vectors = [
        value if isinstance(t, Vector) else _repeat(builder, context.cast(builder, value, t, dtype))
        for t, value in zip(sig.args, args, strict=True)
    ]
    return *vectors, dtype


def _common(first, second):
    """The vector type that two operands share; None for vectors of different types."""
    vectors = {t for t in (first, second) if isinstance(t, Vector)}
    return vectors.pop() if len(vectors) == 1 else None


def _define_operator(function, emit, compares=False):
    def typer(first, second):
        vector = _common(first, second)
        return Vector(types.boolean) if compares and vector is not None else vector

    def lower(context, builder, sig, args):
        return emit(builder, *_operands(context, builder, sig, args))

    for pair in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
        _define(function, typer, lower, *pair)


def _by_kind(integer, floating):
    """An LLVM builder method for integer lanes and another for floating-point lanes."""

    def emit(builder, first, second, dtype):
        return getattr(builder, floating if isinstance(dtype, types.Float) else integer)(first, second)

    return emit


def _shift_right(builder, first, second, dtype):
    return builder.ashr(first, second) if dtype.signed else builder.lshr(first, second)


def _comparison(sign):
    def emit(builder, first, second, dtype):
        if isinstance(dtype, types.Float):
            # != is true of a NaN, the others are false
            return (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, first, second)
        return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(sign, first, second)

    return emit


_define_operator(operator.add, _by_kind("add", "fadd"))
_define_operator(operator.sub, _by_kind("sub", "fsub"))
_define_operator(operator.mul, _by_kind("mul", "fmul"))
_define_operator(operator.and_, lambda builder, first, second, dtype: builder.and_(first, second))
_define_operator(operator.or_, lambda builder, first, second, dtype: builder.or_(first, second))
_define_operator(operator.xor, lambda builder, first, second, dtype: builder.xor(first, second))
_define_operator(operator.lshift, lambda builder, first, second, dtype: builder.shl(first, second))
_define_operator(operator.rshift, _shift_right)
for _operator, _sign in {
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}.items():  # fmt: skip
    _define_operator(_operator, _comparison(_sign), compares=True)


# ---------------------------------------------------------------------------------------------------- loads and stores


def load8(array: Any, index: int) -> Any:
    """Elements ``index`` to ``index + 7`` of an array."""
    return array.reshape(-1)[index : index + LANES].copy()


def load_repeated(array: Any, index: int) -> Any:
    """Element ``index`` of an array in all lanes. Cheaper than ``array[index]``, which would allow for negative
    indices."""
    return np.full(LANES, array.reshape(-1)[index])


def load4x2(array: Any, first: int, second: int) -> Any:
    """Four elements from ``first`` on, then four from ``second`` on."""
    flat = array.reshape(-1)
    return np.concatenate([flat[first : first + 4], flat[second : second + 4]])


def store8(array: Any, index: int, vector: Any) -> None:
    """Write the lanes to elements ``index`` to ``index + 7``."""
    array.reshape(-1)[index : index + LANES] = vector


def store4x2(array: Any, first: int, second: int, vector: Any) -> None:
    """Write lanes 0 to 3 from ``first`` on and lanes 4 to 7 from ``second`` on."""
    array.reshape(-1)[first : first + 4], array.reshape(-1)[second : second + 4] = vector[:4], vector[4:]


def _pointer(context, builder, array_type, array, index, lanes):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _llvm(array_type.dtype, lanes).as_pointer())


def _element_bytes(dtype):
    return dtype.bitwidth // 8


def _lower_load8(context, builder, sig, args):
    index = context.cast(builder, args[1], sig.args[1], types.intp)
    pointer = _pointer(context, builder, sig.args[0], args[0], index, LANES)
    return builder.load(pointer, align=_element_bytes(sig.args[0].dtype))


def _lower_load_repeated(context, builder, sig, args):
    index = context.cast(builder, args[1], sig.args[1], types.intp)
    data = context.make_array(sig.args[0])(context, builder, args[0]).data
    return _repeat(builder, builder.load(builder.gep(data, [index])))


def _lower_load4x2(context, builder, sig, args):
    halves = []
    for t, value in zip(sig.args[1:], args[1:], strict=True):
        pointer = _pointer(context, builder, sig.args[0], args[0], context.cast(builder, value, t, types.intp), 4)
        halves.append(builder.load(pointer, align=_element_bytes(sig.args[0].dtype)))
    return _shuffle(builder, halves[0], halves[1], range(LANES))


def _lower_store8(context, builder, sig, args):
    index = context.cast(builder, args[1], sig.args[1], types.intp)
    pointer = _pointer(context, builder, sig.args[0], args[0], index, LANES)
    builder.store(args[2], pointer, align=_element_bytes(sig.args[0].dtype))
    return context.get_dummy_value()


def _lower_store4x2(context, builder, sig, args):
    for position in (0, 1):
        index = context.cast(builder, args[1 + position], sig.args[1 + position], types.intp)
        half = _shuffle(builder, args[3], args[3], range(4 * position, 4 * position + 4))
        pointer = _pointer(context, builder, sig.args[0], args[0], index, 4)
        builder.store(half, pointer, align=_element_bytes(sig.args[0].dtype))
    return context.get_dummy_value()


def _loaded(array, *indices):
    return Vector(array.dtype) if array.layout == "C" and array.dtype in _LLVM else None


def _stored(array, *rest):
    return types.none if _loaded(array) == rest[-1] else None


_define(load8, _loaded, _lower_load8, types.Array, types.Integer)
_define(load_repeated, _loaded, _lower_load_repeated, types.Array, types.Integer)
_define(load4x2, _loaded, _lower_load4x2, types.Array, types.Integer, types.Integer)
_define(store8, _stored, _lower_store8, types.Array, types.Integer, Vector)
_define(store4x2, _stored, _lower_store4x2, types.Array, types.Integer, types.Integer, Vector)


# --------------------------------------------------------------------------------------------------------- conversions


def splat(value: Any, dtype: Any) -> Any:
    """Eight lanes of ``dtype`` (a NumPy scalar type), all of the value of a scalar."""
    return np.full(LANES, value, dtype)


def convert(vector: Any, dtype: Any) -> Any:
    """The lanes converted by value to a NumPy scalar type. Float to integer truncates toward zero and must be in range;
    integer to float and float to narrower float round to nearest even; a narrower integer keeps the low bits."""
    return vector.astype(dtype)


def bitcast(vector: Any, dtype: Any) -> Any:
    """The lanes' bits read as another type of the same width."""
    return vector.view(dtype)


def to_f16_bits(vector: Any) -> Any:
    """float32 lanes rounded to nearest even to IEEE half, as 16 bits in uint32 lanes."""
    with np.errstate(over="ignore"):
        return vector.astype(np.float16).view(np.uint16).astype(np.uint32)


def from_f16_bits(vector: Any) -> Any:
    """The values of IEEE halves given by the low 16 bits of uint32 lanes, as float32 lanes."""
    return vector.astype(np.uint16).view(np.float16).astype(np.float32)


def _lower_splat(context, builder, sig, args):
    return _repeat(builder, context.cast(builder, args[0], sig.args[0], sig.return_type.dtype))


def _lower_convert(context, builder, sig, args):
    source, target, result = sig.args[0].dtype, sig.return_type.dtype, _llvm(sig.return_type.dtype)
    floats = isinstance(source, types.Float), isinstance(target, types.Float)
    if floats == (True, True):
        widens = target.bitwidth > source.bitwidth
    else:
        widens = not any(floats) and target.bitwidth > source.bitwidth
    if source == target:
        return args[0]
    method = {
        (True, True): "fpext" if widens else "fptrunc",
        (True, False): "fptosi" if getattr(target, "signed", True) else "fptoui",
        (False, True): "sitofp" if getattr(source, "signed", True) else "uitofp",
        (False, False): ("sext" if getattr(source, "signed", True) else "zext") if widens else "trunc",
    }[floats]
    return getattr(builder, method)(args[0], result)


def _lower_bitcast(context, builder, sig, args):
    return builder.bitcast(args[0], _llvm(sig.return_type.dtype))


def _lower_to_f16_bits(context, builder, sig, args):
    halves = builder.fptrunc(args[0], ir.VectorType(ir.HalfType(), LANES))
    return builder.zext(builder.bitcast(halves, ir.VectorType(ir.IntType(16), LANES)), _llvm(types.uint32))


def _lower_from_f16_bits(context, builder, sig, args):
    bits = builder.trunc(args[0], ir.VectorType(ir.IntType(16), LANES))
    return builder.fpext(builder.bitcast(bits, ir.VectorType(ir.HalfType(), LANES)), _llvm(types.float32))


_define(splat, lambda value, dtype: Vector(dtype.dtype), _lower_splat, types.Number, types.NumberClass)
_define(convert, lambda vector, dtype: Vector(dtype.dtype), _lower_convert, Vector, types.NumberClass)
_define(bitcast, lambda vector, dtype: Vector(dtype.dtype), _lower_bitcast, Vector, types.NumberClass)
_define(from_f16_bits, lambda vector: Vector(types.float32), _lower_from_f16_bits, Vector)
_define(to_f16_bits, lambda vector: Vector(types.uint32), _lower_to_f16_bits, Vector)


# ------------------------------------------------------------------------------------------------------ lane functions


def select(mask: Any, chosen: Any, other: Any) -> Any:
    """``chosen`` where the mask is true, ``other`` elsewhere. Either may be a scalar."""
    vector = chosen if isinstance(chosen, np.ndarray) else other
    return np.where(mask, chosen, other).astype(vector.dtype)


def maximum(first: Any, second: Any) -> Any:
    """The larger of each pair of integer lanes. Either side may be a scalar."""
    return np.maximum(first, second)


def minimum(first: Any, second: Any) -> Any:
    """The smaller of each pair of integer lanes. Either side may be a scalar."""
    return np.minimum(first, second)


def fused_multiply_add(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` with one rounding to nearest even, on float lanes."""
    fma = fma_f32 if c.dtype == np.float32 else fma_f64
    return np.array([fma(x, y, z) for x, y, z in zip(a, b, c, strict=True)], c.dtype)


def population_count(vector: Any) -> Any:
    """How many bits of each integer lane are set."""
    bits = vector.view(f"u{vector.itemsize}")  # NumPy would count those of a negative number's magnitude
    return np.bitwise_count(bits).astype(vector.dtype)


def is_nan(vector: Any) -> Any:
    """The mask of the float lanes that are NaN."""
    return np.isnan(vector)


def any_lane(mask: Any) -> bool:
    """Whether a mask is true in any lane."""
    return bool(np.any(mask))


def _lower_select(context, builder, sig, args):
    chosen, other, _ = _operands(context, builder, signature(sig.return_type, *sig.args[1:]), args[1:])
    return builder.select(args[0], chosen, other)


def _extreme(sign):
    def emit(builder, first, second, dtype):
        compare = builder.icmp_signed if dtype.signed else builder.icmp_unsigned
        return builder.select(compare(sign, first, second), first, second)

    return emit


def _intrinsic(name):
    """A lowering that calls the LLVM intrinsic ``name`` on vectors of one type, which is also that of the result."""

    def lower(context, builder, sig, args):
        vector = args[0].type
        kind = {ir.FloatType(): "f32", ir.DoubleType(): "f64"}.get(vector.element) or f"i{vector.element.width}"
        function_type = ir.FunctionType(vector, [vector] * len(args))
        function = cgutils.get_or_insert_function(builder.module, function_type, f"{name}.v{LANES}{kind}")
        return builder.call(function, args)

    return lower


def _lower_is_nan(context, builder, sig, args):
    return builder.fcmp_unordered("uno", args[0], args[0])


def _lower_any_lane(context, builder, sig, args):
    bits = builder.bitcast(args[0], ir.IntType(LANES))
    return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(LANES), 0))


for _pair in ((Vector, Vector), (Vector, types.Number), (types.Number, Vector)):
    _define(select, lambda mask, chosen, other: _common(chosen, other), _lower_select, Vector, *_pair)
_define_operator(maximum, _extreme(">"))
_define_operator(minimum, _extreme("<"))
_define(fused_multiply_add, lambda a, b, c: a if a == b == c else None, _intrinsic("llvm.fma"), Vector, Vector, Vector)
_define(population_count, lambda vector: vector, _intrinsic("llvm.ctpop"), Vector)
_define(is_nan, lambda vector: Vector(types.boolean), _lower_is_nan, Vector)
_define(any_lane, lambda mask: types.boolean if mask.dtype == types.boolean else None, _lower_any_lane, Vector)
