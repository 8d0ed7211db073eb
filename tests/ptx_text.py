"""Small ways of writing PTX in tests and of walking what was parsed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isa.ptx import Block, Instruction, Module, Statement, parse

DATA = Path(__file__).parent / "data" / "ptx"
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def in_body(text: str) -> str:
    """A module with a kernel whose body is this text, which starts at line 6."""
    return f"{HEADER}.entry k()\n{{\n{text}\n}}\n"


def statements(text: str) -> tuple[Statement, ...]:
    """The statements of a body with this text."""
    block = parse(in_body(text)).functions[0].body
    assert block is not None
    return block.statements


def instruction(text: str) -> Instruction:
    """The only statement of a body with this text."""
    (only,) = statements(text)
    assert isinstance(only, Instruction)
    return only


def walk(block: Block) -> Iterator[Statement]:
    """Every statement of a block and of the blocks in it, in text order."""
    for statement in block.statements:
        yield statement
        if isinstance(statement, Block):
            yield from walk(statement)


def instructions(module: Module) -> list[Instruction]:
    """Every instruction of a module, in text order."""
    found = (s for f in module.functions if f.body for s in walk(f.body))
    return [s for s in found if isinstance(s, Instruction)]
