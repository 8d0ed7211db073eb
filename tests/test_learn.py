"""The course runs: every lesson's code does what the lesson says, in both languages, and its pictures are those of the tool."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tcsim.cli import main
from tests.lessons import FOLDER, blocks, pictures, run_lesson

LESSONS = sorted(FOLDER.glob("[0-9]*.md"))


def test_there_are_twelve_in_two_languages() -> None:
    assert len(LESSONS) == 12
    assert [p.name for p in sorted((FOLDER / "zh").glob("[0-9]*.md"))] == [p.name for p in LESSONS]
    for page in (FOLDER / "README.md", FOLDER / "zh" / "README.md"):
        links = re.findall(r"\((\d\d_\w+\.md)\)", page.read_text(encoding="utf-8"))
        assert links == [p.name for p in LESSONS]


@pytest.mark.parametrize("path", LESSONS, ids=[p.stem for p in LESSONS])
def test_a_lesson_runs(path: Path) -> None:
    if path.stem.startswith("09"):
        pytest.importorskip("ml_dtypes")
    assert run_lesson(path)


@pytest.mark.parametrize("path", LESSONS, ids=[p.stem for p in LESSONS])
def test_the_translation_has_the_same_code(path: Path) -> None:
    def code(file: Path) -> list[tuple[str, str]]:
        return [(block.language, block.text) for block in blocks(file)]

    other = FOLDER / "zh" / path.name
    assert code(other) == code(path)
    assert pictures(other) == pictures(path)


def test_what_lessons_quote_is_in_the_kernels() -> None:
    source = " ".join(word for file in ("kernels.cu", "hopper.cu") for word in (FOLDER / file).read_text().split())
    for path in LESSONS:
        for block in blocks(path):
            if block.language == "cuda":
                assert " ".join(block.text.split()) in source, f"{path.name}:{block.line}"


@pytest.mark.parametrize("path", LESSONS, ids=[p.stem for p in LESSONS])
def test_pictures_are_what_the_tool_draws(path: Path, tmp_path: Path) -> None:
    for command, file in pictures(path):
        drawn = tmp_path / file.name
        assert main([*shlex.split(command)[1:], "--to", str(drawn)]) == 0
        assert drawn.read_text() == file.read_text(), f"{file.name}: draw it again with {command} --to {file}"
