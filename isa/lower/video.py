"""The suffixes of video instructions' operands as operands of their own (PTX ISA 9.7.17, 9.7.18).

``vadd.u32.u32.u32 r0.h1, r1.b0, r2, r3`` says which part of each register is meant; :mod:`isa.instructions.video` takes that as
numbers behind the registers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from isa.errors import PtxError
from isa.ptx import ast

__all__ = ["is_video", "plain_operands"]

_SCALAR = frozenset({"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset"})
_SIMD = re.compile(r"(?:vadd|vsub|vavrg|vabsdiff|vmin|vmax|vset)([24])$")
_PARTS = {"": 0, "b0": 1, "b1": 2, "b2": 3, "b3": 4, "h0": 5, "h1": 6}
_SUFFIX = re.compile(r"(.*)\.([bh]\d{1,4})$")

Error = Callable[[str, ast.Instruction], PtxError]


def is_video(opcode: str) -> bool:
    """Whether an opcode is one of a video instruction."""
    base = opcode.partition(".")[0]
    return base in _SCALAR or _SIMD.match(base) is not None


def plain_operands(node: ast.Instruction, error: Error) -> ast.Instruction:
    """The instruction with plain registers, and numbers for what the suffixes (and signs, of ``vmad``) said."""
    base = node.opcode.partition(".")[0]
    simd = _SIMD.match(base)
    signs: list[bool] = []
    plain: list[ast.Operand] = []
    suffixes: list[str] = []
    for operand in node.operands:
        sign = isinstance(operand, ast.Signed) and base == "vmad" and operand.op == "-"
        if sign:
            operand = ast.Name(operand.name)  # type: ignore[union-attr]
        match = _SUFFIX.match(operand.name) if isinstance(operand, ast.Name) else None
        plain.append(ast.Name(match[1]) if match else operand)
        suffixes.append(match[2] if match else "")
        signs.append(sign)
    if len(plain) == 3 and not simd and base != "vmad":
        plain.append(ast.Immediate(0, "int"))
        suffixes.append("")
    if len(plain) != 4 or suffixes[3]:
        raise error(f"takes d, a, b, c, of which c has no selector; {len(node.operands)} operands given", node)
    if simd:
        numbers = _simd_selectors(32 // int(simd[1]), suffixes, node, error)
    else:
        strange = next((s for s in suffixes if s not in _PARTS), None)
        if strange is not None or (base == "vmad" and suffixes[0]):
            raise error(f".{strange or suffixes[0]} is no selector for this operand: .b0 to .b3, .h0, .h1", node)
        if base == "vmad" and ".po" in node.opcode and any(signs):
            raise error(".po excludes negated operands", node)
        first = (signs[1] != signs[2]) + 2 * signs[3] if base == "vmad" else _PARTS[suffixes[0]]
        if base == "vmad" and first == 3:
            raise error("either the product or c is negated, not both", node)
        numbers = (first, _PARTS[suffixes[1]], _PARTS[suffixes[2]])
    extra = tuple(ast.Immediate(number, "int") for number in numbers)
    return msgspec.structs.replace(node, operands=(*plain, *extra))


def _simd_selectors(bits: int, suffixes: list[str], node: ast.Instruction, error: Error) -> tuple[int, int, int]:
    count, letter = 32 // bits, "h" if bits == 16 else "b"
    mask = (1 << count) - 1
    if suffixes[0]:
        digits = [int(digit) for digit in suffixes[0][1:]]
        if suffixes[0][0] != letter or sorted(set(digits), reverse=True) != digits or max(digits) >= count:
            raise error(f".{suffixes[0]} is no mask of {count} elements, such as .{letter}1 or .{letter}10", node)
        mask = sum(1 << digit for digit in digits)
    found = [mask]
    for suffix, first in ((suffixes[1], 0), (suffixes[2], count)):
        digits = [int(digit) for digit in reversed(suffix[1:])] if suffix else list(range(first, first + count))
        if (suffix and suffix[0] != letter) or len(digits) != count or max(digits) >= 2 * count:
            raise error(f".{suffix} is no selector: .{letter} and {count} digits of 0 to {2 * count - 1}", node)
        found.append(sum(digit << 4 * number for number, digit in enumerate(digits)))
    return found[0], found[1], found[2]
