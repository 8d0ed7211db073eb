"""The matrix instructions against the real assembler: of a wide neighbourhood, the registry has what ptxas accepts and nothing
else, from the same target on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pytest

import isa.instructions  # noqa: F401  (fills the registry)
from isa.instructions.matrix import _form
from isa.instructions.wmma import _mma_form
from isa.spec import find
from isa.tensor import MmaForm, metadata_layout
from isa.tensor.forms import SPARSE_FORMS
from tests.reference.ptxas import PTXAS, refused

pytestmark = pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")

TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90a")  # ptxas 13.0 knows no older ones

REGISTERS = ".reg .b32 q<64>; .reg .f32 x<64>; .reg .f64 y<64>;"

BITS = {"f64": 64, "f32": 32, "tf32": 32, "s32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8,
        "s4": 4, "u4": 4, "b1": 1}  # fmt: skip
OPERAND_TYPES = ("f16", "bf16", "tf32", "f64", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1")
ACCUMULATORS = ("f16", "f32", "s32", "f64")
SHAPES = tuple((m, 8, k) for m in (8, 16) for k in (4, 8, 16, 32, 64, 128, 256))
LAYOUTS = ("row.col", "row.row", "col.row", "col.col")


def pairs_of_types() -> Iterator[tuple[str, str]]:
    """Types of A and B of one width."""
    yield from ((a, b) for a, b in product(OPERAND_TYPES, repeat=2) if BITS[a] == BITS[b])


def registers(ptx_type: str, count: int, first: int) -> str:
    letter = {"f32": "x", "f64": "y"}.get(ptx_type, "q")
    return "{" + ", ".join(f"{letter}{(first + i) % 64}" for i in range(count)) + "}"


def count_of(ptx_type: str, elements: int) -> int:
    """Registers that hold so many elements among a warp."""
    return max(1, elements * BITS[ptx_type] // (32 * max(32, BITS[ptx_type])))


def suffixes(a: str) -> tuple[str, ...]:
    """Modifiers to try with operands of a type, none among them; ``b1`` has ``.popc`` and an operation always."""
    if a == "b1":
        return ".xor.popc", ".and.popc", ".or.popc"
    return "", ".satfinite", ".rn", ".rz", ".rm", ".rp"


def one_at_a_time(a: str) -> list[tuple[str, str]]:
    """Layouts and modifiers, all but one the usual."""
    return [("row.col", x) for x in suffixes(a)] + [(x, suffixes(a)[0]) for x in LAYOUTS[1:]]


@cache
def mma_lines(name: str) -> dict[str, str]:
    """Opcodes near those of ``mma.sync`` or ``mma.sp``, with operands to try them with."""
    sparse, lines = name != "mma", {}
    for (m, n, k), (a, b), c, d in product(SHAPES, pairs_of_types(), ACCUMULATORS, ACCUMULATORS):
        products = 4 if (m, k, a) == (8, 4, "f16") else 1
        operands = (
            registers(d, count_of(d, products * m * n), 0), registers(a, count_of(a, products * m * k // (1 + sparse)), 8),
            registers(b, count_of(b, products * n * k), 24), registers(c, count_of(c, products * m * n), 40),
        )  # fmt: skip
        for layout, modifier in one_at_a_time(a):
            opcode = f"{name}.sync.aligned.m{m}n{n}k{k}.{layout}.{d}.{a}.{b}.{c}{modifier}"
            lines[opcode] = f"{opcode} {', '.join(operands)}{', q60, 0' if sparse else ''};"
    return lines


WMMA_SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16), (16, 16, 8), (8, 8, 4), (8, 8, 32), (8, 8, 128))


def beyond(m: int, n: int, k: int, a: str) -> bool:
    """What ptxas 13.0 lets pass although the PTX ISA does not have it, and then makes no code for on some targets: f64 and
    4-bit operands in other shapes than theirs."""
    return (a == "f64" and (m, n, k) != (8, 8, 4)) or (BITS[a] == 4 and (m, n, k) != (8, 8, 32))


@cache
def wmma_lines(with_those_beyond: bool = False) -> dict[str, str]:
    lines = {}
    for (m, n, k), (a, b), c, d in product(WMMA_SHAPES, pairs_of_types(), ACCUMULATORS, ACCUMULATORS):
        if beyond(m, n, k, a) and not with_those_beyond:
            continue
        operands = (
            registers(d, count_of(d, m * n), 0), registers(a, 8 if a == "f16" else count_of(a, m * k), 16),
            registers(b, 8 if b == "f16" else count_of(b, n * k), 24), registers(c, count_of(c, m * n), 40),
        )  # fmt: skip
        types = {f"{d}.{a}.{b}.{c}"} | ({f"{d}.{c}"} if (a, b) == ("f16", "f16") else set())
        for (layout, modifier), written in product(one_at_a_time(a), types):
            before, after = (modifier, "") if a == "b1" else ("", modifier)
            opcode = f"wmma.mma{before}.sync.aligned.{layout}.m{m}n{n}k{k}.{written}{after}"
            lines[opcode] = f"{opcode} {', '.join(operands)};"
    return lines


def known(opcode: str, sm: int) -> bool:
    """Whether the registry has it, for this target."""
    forms, _ = find(opcode)
    if not forms:
        return False
    assert len(forms) == 1
    if forms[0].instruction.targets:  # of sm_120a; see test_tensor_scaled
        return False
    form: MmaForm = (_mma_form if opcode.startswith("wmma") else _form)(forms[0].params)
    return form.sm <= sm


def differences(lines: dict[str, str], target: str, folder: Path) -> dict[str, str]:
    """Opcodes that only one of ptxas and the registry accepts."""
    bad = refused([REGISTERS, *lines.values()], target, folder)
    assert 0 not in bad
    sm = int(target[3:5])
    accepted = {opcode for index, opcode in enumerate(lines, 1) if index not in bad}
    found = {opcode: "ptxas only" if opcode in accepted else "registry only"
             for opcode in lines if (opcode in accepted) != known(opcode, sm)}  # fmt: skip
    assert accepted
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_mma(target: str, tmp_path: Path) -> None:
    assert differences(mma_lines("mma"), target, tmp_path) == {}


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("name", ["mma.sp", "mma.sp::ordered_metadata"])
def test_sparse_mma(name: str, target: str, tmp_path: Path) -> None:
    """On sm_75, which has none, ptxas does not know the modifier."""
    assert differences(mma_lines(name), target, tmp_path) == {}


@pytest.mark.parametrize("target", TARGETS)
def test_wmma(target: str, tmp_path: Path) -> None:
    assert differences(wmma_lines(), target, tmp_path) == {}


def test_reasons_still_hold(tmp_path: Path) -> None:
    """Once ptxas refuses what is listed as beyond the PTX ISA, the list is to be shortened."""
    every = wmma_lines(with_those_beyond=True)
    types = {"m16n16k8.f64.f64.f64.f64", "m16n16k16.f64.f64.f64.f64", "m16n16k16.s32.s4.s4.s32", "m8n8k4.s32.u4.u4.s32"}
    opcodes = [f"wmma.mma.sync.aligned.row.col.{x}" for x in sorted(types)]
    assert not refused([REGISTERS, *(every[opcode] for opcode in opcodes)], "sm_80", tmp_path)
    assert not any(known(opcode, 80) for opcode in opcodes)


def test_selectors(tmp_path: Path) -> None:
    """Those that ptxas takes are those of the layout, but for one form, of which it takes two more than the PTX ISA."""
    lines = [(form, selector) for form in SPARSE_FORMS for selector in range(5)]
    near = mma_lines("mma.sp")
    text = [near[_opcode(form)].replace("q60, 0;", f"q60, {selector};") for form, selector in lines]
    bad = refused([REGISTERS, *text], "sm_90a", tmp_path)
    for index, (form, selector) in enumerate(lines, 1):
        more = 2 if (form.a, form.d, form.k) == ("f16", "f32", 32) else 0
        assert (index not in bad) == (selector < metadata_layout(form).selectors + more), (str(form), selector)


def _opcode(form: MmaForm) -> str:
    saturate = ".satfinite" if form.satfinite else ""
    return f"mma.sp.sync.aligned.{form.shape}.row.col.{form.d}.{form.a}.{form.b}.{form.c}{saturate}"
