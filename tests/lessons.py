"""Lessons as programs: the blocks of a Markdown file, run in order, with what they print compared to the text that follows."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcsim.cli import main

__all__ = ["FOLDER", "Block", "blocks", "pictures", "run_lesson"]

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "learn"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"<!-- picture: (tcsim .*?) -->\n!\[[^\]]*\]\(([^)]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line it begins at."""

    language: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a lesson."""
    text = path.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(text)]


def pictures(path: Path) -> list[tuple[str, Path]]:
    """(command, file) of the pictures of a lesson."""
    text = path.read_text(encoding="utf-8")
    return [(m[1], (path.parent / m[2]).resolve()) for m in _PICTURE.finditer(text)]


@contextlib.contextmanager
def _at_root() -> Iterator[None]:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        yield
    finally:
        os.chdir(before)


def _run(block: Block, path: Path, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if block.language == "python":
            exec(compile("\n" * block.line + block.text, str(path), "exec"), names)
        else:
            for line in block.text.splitlines():
                words = shlex.split(line)
                assert words[0] == "tcsim", f"{path.name}:{block.line}: {line}"
                assert main(words[1:]) == 0, f"{path.name}:{block.line}: {line}"
    return printed.getvalue()


def run_lesson(path: Path) -> list[tuple[Block, str]]:
    """Run the Python and shell blocks of a lesson; returns (block, what it printed). Raises AssertionError where the text
    block behind one says otherwise: ``...`` there stands for anything."""
    checker, options = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    names: dict[str, Any] = {"__name__": "__lesson__"}
    results = []
    todo = blocks(path)
    with _at_root(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, block in enumerate(todo):
            if block.language not in ("python", "sh"):
                continue
            printed = _run(block, path, names)
            results.append((block, printed))
            follows = todo[number + 1] if number + 1 < len(todo) else None
            if follows is not None and follows.language == "text":
                said = f"{path.name}:{follows.line}: expected\n{follows.text}\nbut got\n{printed}"
                assert checker.check_output(follows.text, printed, options), said
            sys.stdout.flush()
    return results
