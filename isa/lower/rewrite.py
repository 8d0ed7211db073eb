"""Operands in the long hand: what hand-written PTX abbreviates, put as compilers write it, before anything is bound.

Vector registers and 128-bit registers become vectors of scalar ones (PTX ISA 5.4.2, 5.2.2), ``table[3]`` an address (6.4.2),
and ``mov.v4`` one ``mov`` for each element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from isa.lower.ir import VReg
from isa.lower.scopes import Scope, Symbol, VectorRegister, Wide
from isa.lower.video import is_video, plain_operands
from isa.ptx import ast
from isa.types import SCALAR_TYPES, scalar_type

if TYPE_CHECKING:
    from isa.lower.bind import Binder

__all__ = ["long_hand", "needs_rewriting"]

_MOV_VECTOR = re.compile(r"mov\.v[24]\.(\w+)$")
_AXES = "xyzw"


def needs_rewriting(node: ast.Instruction) -> bool:
    """Whether :func:`long_hand` has something to do (where no vector registers are declared)."""
    opcode = node.opcode
    if ".b128" in opcode or opcode[0] == "v" or opcode.startswith("mov.v"):
        return True
    return ast.Element in map(type, node.operands)


def long_hand(binder: Binder, node: ast.Instruction, scope: Scope) -> Iterator[ast.Instruction]:
    """The instruction, or those that stand for it."""
    if ".b128" in node.opcode:
        node = _with(node, [_halved(operand, node, scope) for operand in node.operands])
    elif node.opcode[0] == "v" and is_video(node.opcode):
        node = plain_operands(node, binder.error)
    if any(isinstance(operand, ast.Element) for operand in node.operands):
        before: list[ast.Instruction] = []
        node = _with(node, [_element(binder, operand, node, scope, before) for operand in node.operands])
        yield from before
    match = _MOV_VECTOR.match(node.opcode)
    if match is not None:
        yield from _moves(binder, node, match[1], scope)
    elif binder.kernel.vector_registers:
        yield _with(node, [_spread(operand, scope) for operand in node.operands])
    else:
        yield node


def _with(node: ast.Instruction, operands: list[ast.Operand]) -> ast.Instruction:
    return msgspec.structs.replace(node, operands=tuple(operands))


def _halved(operand: ast.Operand, node: ast.Instruction, scope: Scope) -> ast.Operand:
    """An operand of 128 bits as a vector of its halves; any other as it is."""
    if isinstance(operand, ast.Immediate) and node.opcode == "mov.b128":
        value = operand.value
        return ast.Vector((ast.Immediate(value, "int"), ast.Immediate(-1 if value < 0 else 0, "int")))
    meaning = scope.find(operand.name) if isinstance(operand, ast.Name) else None
    if isinstance(meaning, Wide):
        return ast.Vector((ast.Name(meaning.low.name), ast.Name(meaning.high.name)))
    if isinstance(operand, ast.Name) and operand.name == "_":
        return ast.Vector((operand, operand))
    return operand


def _spread(operand: ast.Operand, scope: Scope) -> ast.Operand:
    """A vector register as the vector of its elements."""
    meaning = scope.find(operand.name) if isinstance(operand, ast.Name) else None
    return ast.Vector(tuple(map(ast.Name, meaning.elements))) if isinstance(meaning, VectorRegister) else operand


def _moves(binder: Binder, node: ast.Instruction, kind: str, scope: Scope) -> Iterator[ast.Instruction]:
    """``mov.v4.u32 d, a`` as four instructions. Raises PtxError for operands that are no vectors of one length."""
    pieces: list[tuple[ast.Operand, ...]] = []
    for operand in node.operands:
        spread = _spread(operand, scope)
        if isinstance(spread, ast.Vector):
            pieces.append(spread.elements)
        elif isinstance(spread, ast.Name) and spread.name.startswith("%"):  # %tid, %ctaid, ...
            pieces.append(tuple(ast.Name(f"{spread.name}.{axis}") for axis in _AXES))
    count = int(node.opcode[5])
    if len(pieces) != 2 or any(len(piece) != count for piece in pieces):
        raise binder.error(f"takes two vectors of {count} elements", node)
    for target, source in zip(*pieces, strict=True):
        if target != ast.Name("_"):
            yield msgspec.structs.replace(node, opcode=f"mov.{kind}", operands=(target, source))


def _element(
    binder: Binder, operand: ast.Operand, node: ast.Instruction, scope: Scope, before: list[ast.Instruction]
) -> ast.Operand:
    """``x[i]`` as an address. With a register for ``i``, instructions that compute it are appended to ``before``."""
    if not isinstance(operand, ast.Element):
        return operand
    meaning = scope.find(operand.name)
    width = meaning.element if isinstance(meaning, Symbol) else 0
    if isinstance(meaning, ast.Variable) and meaning.type in SCALAR_TYPES:
        width = SCALAR_TYPES[meaning.type].bytes * meaning.vector
    if width == 0:
        raise binder.error(f"{operand.name}[]: {operand.name} is not a variable of a known type", node)
    offset = operand.offset * width
    if operand.index is None:
        return ast.Address(ast.Name(operand.name), offset)
    index = scope.find(operand.index.name)
    if not isinstance(index, VReg) or index.type.bits not in (32, 64):
        raise binder.error(f"index {operand.index.name} is not a register of 32 or 64 bits", node)
    address = binder.kernel.new_register(scalar_type("b64"), f"{operand.name}[{operand.index.name}]")
    scope.names[address.name] = address
    place, step = ast.Name(address.name), ast.Immediate(width, "int")
    scale = "mad.wide.u32" if index.type.bits == 32 else "mad.lo.u64"
    for opcode, operands in (
        ("mov.u64", (place, ast.Name(operand.name))),
        (scale, (place, ast.Name(operand.index.name), step, place)),
    ):
        before.append(msgspec.structs.replace(node, opcode=opcode, operands=operands))
    return ast.Address(place, offset)
