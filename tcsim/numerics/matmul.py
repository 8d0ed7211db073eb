"""A GEMM's bits: :func:`matmul` chains a tensor-core instruction over K."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.arith.float64 import add_f64_rn
from isa.tensor.fused import NAN_F32
from tcsim.device import Device
from tcsim.errors import TcsimError
from tcsim.numerics.fused_chain import chain_fused
from tcsim.numerics.instructions import TensorInstruction, find_instruction
from tcsim.numerics.operands import OperandError, check_defined, from_bits, to_bits
from tcsim.numerics.order import Chain, KOrder, Promote, SplitK, parse_k_order
from tcsim.numerics.scales import ONE, scale_codes
from tcsim.numerics.tile_chain import chain_tiles
from tcsim.numerics.warp_chain import chain_warps

__all__ = ["matmul"]

Bits = NDArray[Any]
_CANONICAL_NAN = np.uint32(NAN_F32).view(np.float32)
_MINUS_ZERO = {"f16": 1 << 15, "f32": 1 << 31, "f64": 1 << 63}


def matmul(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    device: str | Device | None = None,
    form: str = "mma.m16n8k16.f32.f16.f16.f32",
    k_order: KOrder | str = "chain",
    scale_a: Any = None,
    scale_b: Any = None,
) -> NDArray[Any]:
    """``a @ b + c`` with the bits that a GPU returns that chains one tensor-core instruction over K.

    a: ``[M, K]``, b: ``[K, N]``, in the instruction's operand types: float16; ``ml_dtypes`` bfloat16, float8_e4m3fn and
    float8_e5m2; float32 for tf32; int8, uint8; int4, uint4 (or int8, uint8 in their range); bool for b1; float64. Of
    floating-point types the bits will also do, as unsigned integers of the same width. Arrays of NumPy or tcsim; nothing is
    rounded on the way in. c: ``[M, N]`` in the accumulator's type, default zero.

    form: the instruction, short or as PTX spells it: ``mma``, ``wmma`` or ``wgmma``. Of ``mma.sp`` and ``wgmma.sp``, a has its
    zeros: of each four elements of a row at most two others (tf32: of two, one). Where fewer are not zero, the first zeros are
    stored too. scale_a, scale_b: of a form with ``.block_scale``, a scale for each block of K, ``[M, K / block]`` and
    ``[K / block, N]``, as ``ml_dtypes`` float8_e8m0fnu (``ue8m0``) or float8_e4m3fn (``ue4m3``), or their codes as uint8.

    device: as for :class:`tcsim.Device`, or an architecture such as ``sm_89``; without one, the current device (an H200 outside
    of ``with tcsim.Device(...)``). k_order: ``"chain"``, ``"split-k:4"``, ``"promote:4"``, or one of :class:`tcsim.Chain`,
    :class:`tcsim.SplitK`, :class:`tcsim.Promote`, which say what is added when.

    Returns D ``[M, N]`` in the accumulator's type: float32, float16, int32 or float64 (with ``promote`` float32 for f16 too).

    Where K is no multiple of the instruction's, A and B are filled up with zeros, as a kernel does. A product of zeros is
    left out of the alignment and adds nothing, and a sum of zeros is +0 anyway, so that changes no bit of a tensor core's
    result. f64 and (from sm_80 on) m8n8k4 are chains of IEEE operations, where adding +0 turns a -0 into +0: K is refused
    where that happens.

    Raises NoFormError for an instruction that the device does not have, naming the nearest; OperandError for a wrong type or
    shape; TcsimError otherwise. Warns (UndefinedOperandWarning) of tf32 operands whose low 13 bits are not zero.
    """
    instruction = find_instruction(form, device)
    if instruction.c != instruction.d:
        raise TcsimError(
            f"{instruction.name}: D is {instruction.d} and C {instruction.c}, so D of one instruction cannot be C of the next; "
            f"take the form with one type for both"
        )
    left = _operand(a, instruction.a, "a", instruction)
    right = _operand(b, instruction.b, "b", instruction)
    if left.shape[1] != right.shape[0]:
        raise OperandError(f"a is {_shape(left)} and b {_shape(right)}: K differs ({left.shape[1]} and {right.shape[0]})")
    order = parse_k_order(k_order, -(-left.shape[1] // instruction.whole))
    sum_type = "f32" if isinstance(order, Promote) and instruction.d == "f16" else instruction.d
    start = _start(c, sum_type, (left.shape[0], right.shape[1]), instruction)
    scales = _scales(scale_a, scale_b, left, right, instruction)
    left, right, neutral = _filled_up(left, right, instruction)
    if 0 in (*start.shape, left.shape[1]):
        return from_bits(start, sum_type)
    problem = _Problem(instruction, left, right, *scales)
    if isinstance(order, Chain):
        result = from_bits(problem.chain(start), sum_type)
    elif isinstance(order, SplitK):
        result = _split(problem, start, order)
    else:
        result = _promoted(problem, start, order)
    if neutral:
        _refuse_minus_zero(result, instruction)
    return result


# ----------------------------------------------------------------------------------------------------------- operands


def _shape(array: NDArray[Any]) -> str:
    return " x ".join(map(str, array.shape))


def _operand(array: Any, ptx_type: str, what: str, instruction: TensorInstruction) -> Bits:
    bits = to_bits(array, ptx_type, what, instruction.name)
    if bits.ndim != 2:
        raise OperandError(f"{what} has {bits.ndim} dimensions ({_shape(bits) or 'a scalar'}); matmul takes matrices")
    check_defined(bits, ptx_type, what)
    return bits


def _start(c: Any, ptx_type: str, shape: tuple[int, int], instruction: TensorInstruction) -> Bits:
    if c is None:
        return np.zeros(shape, np.uint64 if ptx_type == "f64" else np.uint32)
    bits = to_bits(c, ptx_type, "c", instruction.name)
    if bits.shape != shape:
        raise OperandError(f"c is {_shape(bits) or 'a scalar'}; a and b make it {shape[0]} x {shape[1]}")
    return bits


def _scales(
    scale_a: Any, scale_b: Any, a: Bits, b: Bits, instruction: TensorInstruction
) -> tuple[NDArray[np.uint8] | None, NDArray[np.uint8] | None]:
    """The codes of the scales, ``[row of A, block]`` and ``[column of B, block]``, for whole instructions."""
    if not instruction.block:
        if scale_a is not None or scale_b is not None:
            raise OperandError(
                f"{instruction.name} has no scales; those that have are called like "
                "mma.m16n8k32.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 (sm_120a)"
            )
        return None, None
    blocks = -(-a.shape[1] // instruction.block)
    of_a = scale_codes(scale_a, "scale_a", (len(a), blocks), instruction)
    of_b = scale_codes(scale_b, "scale_b", (blocks, b.shape[1]), instruction).T
    more, one = -blocks % instruction.own.scale_vec, ONE[instruction.own.scale_type]
    return tuple(np.pad(x, ((0, 0), (0, more)), constant_values=one) for x in (of_a, of_b))  # type: ignore[return-value]


def _filled_up(a: Bits, b: Bits, instruction: TensorInstruction) -> tuple[Bits, Bits, bool]:
    """A and B with K a whole number of instructions, and whether the products added are -0 rather than a kernel's +0.

    -0 added to anything leaves it as it is (rounding toward minus infinity, +0 does), so a result can tell whether +0 would
    have changed it: it is -0.
    """
    missing = -a.shape[1] % instruction.whole
    a, b = np.pad(a, ((0, 0), (0, missing))), np.pad(b, ((0, missing), (0, 0)))
    neutral = bool(missing) and instruction.rule.method in ("fma", "ffma") and instruction.rounding != "rm"
    if neutral:
        b[-missing:] = _MINUS_ZERO[instruction.b]
    return a, b, neutral


def _refuse_minus_zero(result: NDArray[Any], instruction: TensorInstruction) -> None:
    changed = (result == 0) & np.signbit(result)
    if changed.any():
        row, column = (int(i) for i in np.argwhere(changed)[0])
        raise OperandError(
            f"K is no multiple of {instruction.k}, and D[{row}, {column}] is -0 without the zeros that a kernel fills it up "
            f"with, +0 with them ({instruction.name} is a chain of IEEE operations). Fill A and B up yourself: with zeros for "
            "what a kernel returns, with +0 in A and -0 in B for the other"
        )


# ------------------------------------------------------------------------------------------------------------- adding


class _Problem(NamedTuple):
    """A and B as bits, K a whole number of instructions, and the codes of their scales."""

    instruction: TensorInstruction
    a: Bits
    b: Bits
    scale_a: NDArray[np.uint8] | None
    scale_b: NDArray[np.uint8] | None

    @property
    def instructions(self) -> int:
        """Instructions along K."""
        return int(self.a.shape[1]) // self.instruction.whole

    def part(self, first: int, last: int) -> _Problem:
        """Instructions ``first`` to ``last - 1``."""
        whole, vec = self.instruction.whole, self.instruction.own.scale_vec
        along, blocks = slice(first * whole, last * whole), slice(first * vec, last * vec)
        scales = (None if x is None else x[:, blocks] for x in (self.scale_a, self.scale_b))
        return _Problem(self.instruction, self.a[:, along], self.b[along], *scales)

    def chain(self, c: Bits) -> Bits:
        """The bits of a chain of all instructions."""
        i = self.instruction
        if i.own.is_sparse or i.block:
            return chain_warps(self.a, self.b, c, i.own, i.sm, self.scale_a, self.scale_b)
        if i.rule.method in ("fused", "fused_halves"):
            return chain_fused(self.a, self.b, c, i.rule, i.k, i.a, i.b)
        return chain_tiles(self.a, self.b, c, i.form, i.sm)

    def partial(self, first: int, last: int, c: Bits | None = None) -> NDArray[Any]:
        """The chain of instructions ``first`` to ``last - 1``, from ``c`` or zero, in the type that they are added in."""
        d = self.instruction.d
        start = c if c is not None else np.zeros((len(self.a), self.b.shape[1]), np.uint64 if d == "f64" else np.uint32)
        result = from_bits(self.part(first, last).chain(start), d)
        return result.astype(np.float32) if d == "f16" else result


def _add(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """``x + y`` as a GPU adds: f32 and f64 to nearest even with its NaNs, s32 modulo 2^32."""
    with np.errstate(all="ignore"):
        total = x + y
    if x.dtype.kind == "f":
        nan = np.isnan(total)
        if nan.any():
            total[nan] = _CANONICAL_NAN if x.dtype == np.float32 else _add_nans(x[nan], y[nan])
    return np.asarray(total)


def _add_nans(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Sums in f64 that are NaN: which of them, follows from the operands."""
    return np.array([add_f64_rn(*pair) for pair in zip(x, y, strict=True)], np.float64)


def _split(problem: _Problem, c: Bits, order: SplitK) -> NDArray[Any]:
    length = -(-problem.instructions // order.slices)
    ranges = [(first, min(first + length, problem.instructions)) for first in range(0, problem.instructions, length)]
    parts = [problem.partial(first, last, None if first else c) for first, last in ranges]
    while len(parts) > 1:
        if order.added == "ascending":
            parts[:2] = [_add(parts[0], parts[1])]
        else:
            pairs = [_add(x, y) for x, y in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[len(pairs) * 2 :]
    if problem.instruction.d != "f16":
        return parts[0]
    with np.errstate(over="ignore"):
        halves = parts[0].astype(np.float16)
    halves.view(np.uint16)[np.isnan(halves)] = 0x7FFF
    return halves


def _promoted(problem: _Problem, c: Bits, order: Promote) -> NDArray[Any]:
    d = problem.instruction.d
    total = from_bits(c, "f32" if d == "f16" else d)
    for first in range(0, problem.instructions, order.every):
        total = _add(total, problem.partial(first, min(first + order.every, problem.instructions)))
    return total
