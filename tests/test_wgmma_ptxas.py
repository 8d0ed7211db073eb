"""``wgmma`` against the real assembler: of a wide neighbourhood, the registry has what ptxas accepts and nothing else."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import isa.instructions  # noqa: F401  (fills the registry)
from isa.errors import TcsimError
from isa.lower import lower, unsupported_in
from isa.ptx import parse
from isa.spec import find
from isa.tensor.forms import element_bits
from isa.tensor.wgmma_forms import WGMMA_FORMS, wgmma_columns
from tests.reference.ptxas import PTXAS, refused

pytestmark = pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")

REGISTERS = ".reg .b32 q<300>; .reg .b64 da, db; .reg .pred p;"
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1", "s4")
TARGETS = ("sm_80", "sm_90", "sm_90a", "sm_100a")


def vector(count: int, first: int = 0) -> str:
    return "{" + ", ".join(f"q{first + i}" for i in range(count)) + "}"


def opcode(n: int, k: int, d: str, a: str, b: str, sparse: str = "", modifier: str = "") -> str:
    return f"wgmma.mma_async{sparse}.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{modifier}"


def line(name: str, n: int, d: str, tail: str, a: str = "da") -> str:
    sparse = ", q299, 0" if ".sp." in name else ""
    return f"{name} {vector(max(1, n * element_bits(d) // 64))}, {a}, db{sparse}{tail};"


def accepted(lines: list[str], folder: Path, target: str = "sm_90a") -> list[bool]:
    bad = refused([REGISTERS, *lines], target, folder)
    return [index not in bad for index in range(1, len(lines) + 1)]


def binds(text: str, target: str = "sm_90a") -> bool:
    """Whether a line can be executed."""
    module = parse(f".version 9.0\n.target {target}\n.address_size 64\n.entry k()\n{{\n{REGISTERS}\n{text}\nret;\n}}\n")
    if unsupported_in(module.functions[0], module):
        return False
    try:
        lower(module, "k", sm=90)
    except TcsimError:
        return False
    return True


TAILS = {"integers": ", p", "floats": ", p, 1, 1", "halves": ", p, 1, 1, 0, 0"}


def test_types_and_shapes(tmp_path: Path) -> None:
    """Every pair of types with every K, result, modifier and list of operands."""
    lines = []
    for d, a, b, sparse, k in product(("f32", "f16", "s32"), TYPES, TYPES, ("", ".sp"), (8, 16, 32, 64, 128, 256)):
        modifiers = (".and.popc", ".xor.popc", ".and") if a == "b1" else ("", ".satfinite")
        for modifier, tail in product(modifiers, TAILS.values()):
            lines.append(line(opcode(16, k, d, a, b, sparse, modifier), 16, d, tail))
    found = accepted(lines, tmp_path)
    known = [bool(find(text.split()[0])[0]) and binds(text) for text in lines]
    assert [text for text, x, y in zip(lines, found, known, strict=True) if x != y] == []
    kinds = {(f.instruction, f.k, f.d, f.a, f.b, f.satfinite) for f in WGMMA_FORMS}
    assert sum(found) == len(kinds) == 41


@pytest.mark.parametrize(("d", "a", "k", "tail"), [("f32", "tf32", 8, "floats"), ("f16", "f16", 16, "halves"),
                                                    ("f16", "e4m3", 32, "floats"), ("s32", "u8", 32, "integers")])  # fmt: skip
@pytest.mark.parametrize("sparse", ["", ".sp"])
def test_columns(d: str, a: str, k: int, tail: str, sparse: str, tmp_path: Path) -> None:
    sizes = range(4, 268, 4)
    lines = [line(opcode(n, k * (1 + bool(sparse)), d, a, a, sparse), n, d, TAILS[tail]) for n in sizes]
    found = [n for n, fits in zip(sizes, accepted(lines, tmp_path), strict=True) if fits]
    assert tuple(found) == wgmma_columns(d)
    assert [n for n, text in zip(sizes, lines, strict=True) if find(text.split()[0])[0]] == found


def operand_lines() -> list[str]:
    """Operands as they should be and as they should not."""
    f16 = opcode(16, 16, "f32", "f16", "f16")
    constants = ("", "1", "1, 1", "1, 1, 0", "1, 1, 1", "1, 1, 0, 0", "-1, -1, 1, 1", "0, 1, 0, 0", "1, 2, 0, 0", "1, 1, 2, 0",
                 "1, 1, 0, -1", "q0, 1, 0, 0")  # fmt: skip
    tails = ["", *(", p" + ", " * bool(x) + x for x in constants), *(f", {x}, 1, 1, 0, 0" for x in ("0", "1", "2", "!p"))]
    lines = [line(f16, 16, "f32", tail, a) for tail in tails for a in ("da", vector(4, 100))]
    lines += [line(f16, 16, "f32", ", p, 1, 1, 0", a) for a in (vector(2, 100), vector(8, 100))]
    lines += [f"{f16} {vector(count)}, da, db, p, 1, 1, 0, 0;" for count in (4, 7, 16)]
    lines += [f"{f16} {vector(8)}, {a}, {b}, p, 1, 1, 0, 0;" for a, b in (("12", "13"), ("da", "q0"), ("q0", "db"))]
    for k, d, a, tail in ((32, "f32", "f16", "halves"), (16, "f32", "tf32", "floats"), (64, "f16", "e4m3", "floats"),
                          (64, "s32", "s8", "integers")):  # fmt: skip
        text = line(opcode(16, k, d, a, a, ".sp"), 16, d, TAILS[tail])
        lines += [text.replace("q299, 0", f"q299, {x}") for x in ("-1", "0", "1", "2", "3", "q298")]
    waits = (f"wait_group.sync.aligned{x}" for x in ("", " 0", " 8"))
    return [*lines, *(f"wgmma.{x};" for x in ("fence.sync.aligned", "fence", "commit_group.sync.aligned", *waits))]


def test_operands(tmp_path: Path) -> None:
    lines = operand_lines()
    found = accepted(lines, tmp_path)
    assert {True, False} == set(found)
    assert [(text, x) for text, x in zip(lines, found, strict=True) if binds(text) != x] == []


@pytest.mark.parametrize("target", TARGETS)
def test_targets(target: str, tmp_path: Path) -> None:
    lines = [line(opcode(16, 16, "f32", "f16", "f16"), 16, "f32", TAILS["halves"]), "wgmma.fence.sync.aligned;"]
    assert accepted(lines, tmp_path, target) == [binds(text, target) for text in lines] == [target == "sm_90a"] * 2
