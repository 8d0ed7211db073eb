"""The key under which compiled code is kept: it changes with every source that the code depends on, and with no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from isa import cachefolder


def hash_after_change(monkeypatch: pytest.MonkeyPatch, module: str, changed: str) -> tuple[str, str]:
    """The key of a module's compiled code before and after a change of one file."""
    before = cachefolder.sources_hash([module])
    content = cachefolder._content

    def edited(path: Path) -> bytes:
        return b"edited" if path.as_posix().endswith(changed) else content(path)

    monkeypatch.setattr(cachefolder, "_content", edited)
    cachefolder._hash.cache_clear()
    after = cachefolder.sources_hash([module])
    monkeypatch.undo()
    cachefolder._hash.cache_clear()
    return before, after


@pytest.mark.parametrize(
    ("module", "changed"),
    [
        ("isa.instructions.memory", "isa/instructions/memory.py"),
        ("isa.instructions.memory", "isa/kernels/planes.py"),  # by way of isa.machine
        ("tcsim.execute.interpreter", "tcsim/execute/state.py"),
        ("gpu_ref.tensor.replay", "isa/tensor/simd.py"),
        ("isa.instructions.mufu", "isa/arith/mufu_tables.toml"),  # data read by a module beside it
    ],
)
def test_a_change_of_what_is_used_compiles_anew(monkeypatch: pytest.MonkeyPatch, module: str, changed: str) -> None:
    before, after = hash_after_change(monkeypatch, module, changed)
    assert before != after


@pytest.mark.parametrize("changed", ["isa/instructions/video.py", "isa/tensor/simd.py", "tcsim/cli/app.py"])
def test_a_change_of_anything_else_keeps_the_code(monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    before, after = hash_after_change(monkeypatch, "isa.instructions.memory", changed)
    assert before == after
