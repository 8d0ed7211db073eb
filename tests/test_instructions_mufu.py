"""The approximate instructions against the functions that they approximate: the right function, range, flushing and specials.

That they are right to the last bit is checked on hardware recordings of the arithmetic (:mod:`isa.arith.approx`).
"""

from __future__ import annotations

import ctypes
import math
import random
import struct
from collections.abc import Callable

import numpy as np
import pytest

from isa.kernels.cache import kernel_address
from isa.kernels.wrap import KernelSpec
from isa.spec import Form
from isa.spec.enumerate import forms_of, scalar_instructions
from tests.reference import words
from tests.reference.formats import BF16, F16, F32, F64, Format

FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
FORMS = [f for e in scalar_instructions() if e.function and e.function.__module__.endswith(".mufu") for f in forms_of(e)]
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int64)


def number(f: Format, bits: int) -> float:
    if f.is_nan(bits):
        return math.nan
    if f.is_infinite(bits):
        return -math.inf if f.negative(bits) else math.inf
    return math.copysign(float(f.value(bits)), -1.0 if f.negative(bits) else 1.0)


def divided(a: float, b: float) -> float:
    if b == 0.0:
        return math.nan if a == 0.0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def exponential(x: float) -> float:
    return math.inf if x > 1020 else 0.0 if x < -1070 else 2.0**x


def logarithm(x: float) -> float:
    return -math.inf if x == 0.0 else math.nan if x < 0.0 or math.isnan(x) else math.log2(x)


def root(x: float) -> float:
    return x if x == 0.0 else math.nan if x < 0.0 or math.isnan(x) else math.sqrt(x)


FUNCTIONS: dict[str, Callable[..., float]] = {
    "rcp": lambda x: divided(1.0, x),
    "sqrt": root,
    "rsqrt": lambda x: divided(1.0, root(x)),
    "sin": lambda x: math.nan if math.isinf(x) else math.sin(x),
    "cos": lambda x: math.nan if math.isinf(x) else math.cos(x),
    "lg2": logarithm,
    "ex2": exponential,
    "tanh": math.tanh,
    "div": divided,
}
# Greatest errors stated in PTX ISA 9.7.3, or a little above, as powers of two: (relative, absolute).
ERRORS = {"sin": (-20, -20), "cos": (-20, -20), "lg2": (-21, -21), "tanh": (-10, -30), "div": (-21, -149), "rsqrt": (-21, -149)}


def run(form: Form, rows: list[tuple[int, ...]]) -> list[int]:
    """Results of 32 rows."""
    planes = [o.type.planes for o in form.operands]
    start = np.cumsum([0, *planes])
    block = np.zeros(32 * int(start[-1]), np.uint32)
    for operand, first in enumerate(start[1:-1]):
        for lane, row in enumerate(rows):
            for half in range(planes[operand + 1]):
                block[32 * (first + half) + lane] = row[operand] >> 32 * half & 0xFFFFFFFF
    offsets = (128 * start[:-1]).astype(np.int32)
    kernel = _KERNEL(kernel_address(KernelSpec(form, tuple(planes), {})))
    assert kernel(block.ctypes.data, 0xFFFFFFFF, offsets.ctypes.data, 0) == 0
    return [sum(int(block[32 * half + lane]) << 32 * half for half in range(planes[0])) for lane in range(32)]


def close(form: Form, f: Format, operands: list[int], got: int) -> bool:
    """Whether a result is as near to the exact one as the instruction promises."""
    base, flushes = form.instruction.pattern.base, "ftz" in form.name.split(".")
    values = [number(f, f.flush(w) if flushes else w) for w in operands]
    ideal, result = FUNCTIONS[base](*values), number(f, got)
    if base in ("sin", "cos") and abs(values[0]) > math.pi:
        return math.isnan(ideal) == math.isnan(result) and not abs(result) > 1.0
    if base == "div" and abs(values[1]) > 2.0**126 and "approx" in form.name:
        return True  # the reciprocal is subnormal: flushed (PTX ISA 9.7.3.8)
    if math.isnan(ideal) or math.isnan(result):
        return (math.isnan(ideal) and got == (0x7FFF if f.width == 16 else 0x7FFFFFFF)) or (f is F64 and math.isnan(result))
    relative, absolute = ERRORS.get(base, (-21, -149))
    tolerance = 2.0 ** max(relative, -f.mbits if f.width == 16 else -60) if f is not F64 or "ftz" not in form.name else 2.0**-18
    least = 2.0**f.least_exponent
    if flushes and abs(ideal) < least * (1 + tolerance) and result == 0.0:
        return math.copysign(1.0, result) == math.copysign(1.0, ideal)
    if abs(ideal) > float(f.value(f.infinity - 1)) * (1 - tolerance):
        return result == math.copysign(math.inf, ideal) or math.isclose(result, ideal, rel_tol=2 * tolerance)
    step = float(f.value(1)) if not flushes or f.width == 16 else 0.0
    return math.isclose(result, ideal, rel_tol=tolerance, abs_tol=max(step, 2.0**absolute if f.width == 32 else 0.0))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_approximates(form: Form) -> None:
    kind = form.operands[0].type.name
    f, pair = FLOATS[kind.removesuffix("x2")], kind.endswith("x2")
    rng = random.Random(form.name)
    ordinary = [struct.unpack("<I", struct.pack("<f", rng.uniform(-9.0, 9.0)))[0] for _ in range(64)]
    sources = len(form.sources)
    rows = words.tuples(f, sources, 64, seed=5)[-64 - 28 :]
    rows += [tuple(rng.choice(ordinary) if f is F32 else words.word(f, rng) for _ in range(sources)) for _ in range(68)]
    if f is F64 and "ftz" in form.name:  # only the upper words of operand and result count
        rows = [(row[0] >> 32 << 32,) for row in rows]
    for at in range(0, 160, 32):
        lower, upper = rows[at : at + 32], rows[(at + 7) % 64 : (at + 7) % 64 + 32]
        packed = [tuple(a | b << 16 for a, b in zip(*both, strict=True)) for both in zip(lower, upper, strict=True)]
        results = run(form, packed if pair else lower)
        for lane, got in enumerate(results):
            halves = [(lower[lane], got & 0xFFFF), (upper[lane], got >> 16)] if pair else [(lower[lane], got)]
            for operands, word in halves:
                assert close(form, f, list(operands), word), (form.name, [hex(w) for w in operands], hex(word))
