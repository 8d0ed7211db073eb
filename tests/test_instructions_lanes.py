"""Compiled kernels of the scalar instructions on whole warps, against a reference in plain Python.

Each form runs on adversarial operands with random sets of executing lanes and with destinations that are also sources. The
whole register block is compared: lanes that do not execute, and all that is not a destination, must stay as it was.
"""

from __future__ import annotations

import ctypes
import random
from functools import cache

import numpy as np
import pytest

from isa.kernels.cache import kernel_address
from isa.kernels.wrap import KernelSpec
from isa.spec import Form, ResolvedOperand
from tests.reference import words
from tests.reference.formats import BF16, F16, F32, F64, Format
from tests.reference.integers import mask, signed
from tests.reference.scalar import evaluate
from tests.test_instructions_registry import BASES, chosen_forms

WARPS = 12
LANES = 32
ROWS = WARPS * LANES
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64, "f16x2": F16, "bf16x2": BF16, "f32x2": F32}
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int64)


def is_exact(form: Form) -> bool:
    """Whether the reference covers it: all but what goes through the special-function unit. Instructions with lists of operands
    have a test of their own."""
    function = form.instruction.function
    lists = any(operand.is_vector for operand in form.operands)
    return function is not None and function.__module__ != "isa.instructions.mufu" and not lists


# -------------------------------------------------------------------------------------------------------- operands


def to_integers(f: Format, rng: random.Random) -> int:
    """A float near where conversions to integers change: halves, and the limits of the types."""
    kept = rng.randint(0, f.mbits)
    exponent = min(f.bias + rng.randint(-2, 66), (1 << f.ebits) - 2)
    return rng.getrandbits(1) * f.sign | exponent << f.mbits | rng.getrandbits(f.mbits) >> kept << kept


@cache
def float_words(f: Format, operands: int, seed: int) -> list[tuple[int, ...]]:
    """``ROWS`` rows of operands of one format. Several operands are chosen together, so that they cancel and overflow."""
    rng = random.Random(seed)
    if operands > 1:
        return rng.sample(words.tuples(f, operands, ROWS, seed), ROWS)
    rest = [rng.choice([words.word(f, rng), to_integers(f, rng)]) for _ in range(ROWS)]
    return [(word,) for word in (words.specials(f) + rest)[:ROWS]]


@cache
def integer_words(bits: int, operands: int, seed: int) -> list[tuple[int, ...]]:
    return words.integers(bits, operands, ROWS, seed)


def operand_rows(form: Form, rng: random.Random) -> list[list[int]]:
    """``ROWS`` rows of words for the sources of a form."""
    columns: dict[str, list[int]] = {}
    for type_name in dict.fromkeys(o.type.name for o in form.sources):
        group = [o for o in form.sources if o.type.name == type_name]
        t, f = group[0].type, FLOATS.get(type_name)
        if t.kind == "p":
            rows = [tuple(rng.getrandbits(1) for _ in group) for _ in range(ROWS)]
        elif f is None:
            rows = integer_words(t.bits, len(group), rng.randrange(4))
        else:
            rows = float_words(f, len(group), rng.randrange(4))
            if t.bits > f.width:  # the other half
                upper = float_words(f, len(group), 4 + rng.randrange(4))
                rows = [tuple(a | b << f.width for a, b in zip(*pair, strict=True)) for pair in zip(rows, upper, strict=True)]
        for place, operand in enumerate(group):
            columns[operand.name] = [row[place] for row in rows]
    return [list(row) for row in zip(*(columns[o.name] for o in form.sources), strict=True)]


# -------------------------------------------------------------------------------------------------- register block


class Layout:
    """Where a warp's registers stand: each operand has planes of its own, or those of another one of the same width."""

    def __init__(self, form: Form, aliased: dict[str, str]) -> None:
        self.offset: dict[str, int] = {}
        predicate, plane = 0, 1  # plane 0 holds the predicate words
        for operand in form.operands:
            if operand.name in aliased:
                continue
            if operand.type.kind == "p":
                self.offset[operand.name] = 4 * predicate
                predicate += 1
            else:
                self.offset[operand.name] = 128 * plane
                plane += operand.type.planes
        for name, other in aliased.items():
            self.offset[name] = self.offset[other]
        self.words = 32 * (plane + 1)
        self.row = np.array([self.offset[o.name] for o in form.operands], np.int32)

    def write(self, block: list[int], operand: ResolvedOperand, lane: int, word: int) -> None:
        at = self.offset[operand.name] // 4
        if operand.type.kind == "p":
            block[at] = block[at] & ~(1 << lane) | word << lane
            return
        for half in range(operand.type.planes):
            block[at + 32 * half + lane] = word >> 32 * half & 0xFFFFFFFF


def alias(form: Form, rng: random.Random) -> dict[str, str]:
    """Destinations that share the register of a source, for some of the warps."""
    shared: dict[str, str] = {}
    for destination in form.destinations:
        same = [o.name for o in form.sources if (o.type.kind == "p", o.type.planes) ==
                (destination.type.kind == "p", destination.type.planes) and o.name not in shared.values()]  # fmt: skip
        if same and rng.random() < 0.5:
            shared[destination.name] = rng.choice(same)
    return shared


def extended(operand: ResolvedOperand, word: int) -> int:
    """A result as its register holds it: narrow types fill a plane, by sign or with zeros."""
    bits = operand.type.bits
    if operand.type.kind == "p" or bits >= 32:
        return word
    return signed(word, bits) & mask(32) if operand.type.kind == "s" else word


def run_and_compare(form: Form) -> None:
    rng = random.Random(form.name)
    rows = operand_rows(form, rng)
    kernel = _KERNEL(kernel_address(KernelSpec(form, tuple(o.type.planes for o in form.operands), {})))
    for warp in range(WARPS):
        layout = Layout(form, alias(form, rng))
        active = rng.choice([mask(32), 0, rng.getrandbits(32), rng.getrandbits(32), 1 << rng.randrange(32)])
        before = [rng.getrandbits(32) for _ in range(layout.words)]
        chosen = rows[LANES * warp : LANES * (warp + 1)]
        for lane, row in enumerate(chosen):
            for operand, word in zip(form.sources, row, strict=True):
                above = rng.getrandbits(32) << operand.type.bits if 1 < operand.type.bits < 32 else 0
                layout.write(before, operand, lane, word | above & mask(32))
        expected = list(before)
        for lane, row in enumerate(chosen):
            if active >> lane & 1:
                results = evaluate(form.name, row)
                for operand in form.destinations:
                    layout.write(expected, operand, lane, extended(operand, results[operand.name]))
        block = np.array(before, np.uint32)
        assert kernel(block.ctypes.data, active, layout.row.ctypes.data, 0) == 0
        after = block.tolist()
        if after != expected:
            wrong = [index for index, word in enumerate(expected) if word != after[index]]
            lane = wrong[0] % LANES
            raise AssertionError(
                f"{form.name}: {len(wrong)} words wrong, executing {active:#010x}, operands at {layout.offset}; word "
                f"{wrong[0]}, lane {lane}: {[hex(word) for word in chosen[lane]]} gives {after[wrong[0]]:#x}, not "
                f"{expected[wrong[0]]:#x}"
            )


@pytest.mark.parametrize("base", BASES)
def test_lanes(base: str) -> None:
    for form in chosen_forms(base):
        if is_exact(form):
            run_and_compare(form)
