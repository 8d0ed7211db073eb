"""The support matrix: nothing registered is unlisted, what is listed as refused is refused, and every badge has a source."""

from __future__ import annotations

import pytest

import isa.instructions  # noqa: F401  (fills the registry)
from isa.spec import find
from isa.spec.support import STATES, entries, missing, public_instructions, state_of_form, state_of_instruction
from tcsim.cli.app import main


def test_every_registered_instruction_is_in_the_list() -> None:
    listed = {instruction for entry in entries() for instruction in entry.instructions}
    assert [entry.pattern.spell() for entry in public_instructions() if entry not in listed] == []


def test_names_are_unique_and_in_order() -> None:
    names = [(entry.section, entry.name) for entry in entries()]
    assert len(set(names)) == len(names) > 280
    sections = [tuple(map(int, section.split("."))) for section, _ in names]
    assert sections == sorted(sections)


def test_what_is_missing_is_refused() -> None:
    refused = {entry.name for entry in missing()}
    assert {"tex", "tcgen05.mma", "sured"} <= refused
    for name in refused:
        assert find(name)[0] == [], name


def test_every_instruction_has_a_state_with_a_source() -> None:
    states = {entry.pattern.spell(): state_of_instruction(entry) for entry in public_instructions()}
    assert {state.name for state in states.values()} <= set(STATES) - {"refused"}
    assert all(state.source for state in states.values())
    assert sum(state.name == "hardware" for state in states.values()) > 200


@pytest.mark.parametrize(
    "opcode, name",
    [("fma.rn.ftz.f16x2", "hardware"), ("add.rn.f32x2", "specification"), ("cvt.rs.f16x2.f32", "hypothesis"),
     ("cvt.rn.satfinite.e2m1x2.f32", "specification"), ("shfl.sync.bfly.b32", "hardware"), ("prefetchu.L1", "specification")],
)  # fmt: skip
def test_states_of_forms(opcode: str, name: str) -> None:
    assert state_of_form(find(opcode)[0][0]).name == name


def test_the_command_line_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "list", "cvt.rn"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "HW hardware, PUB published, ISA specification, HYP hypothesis"
    assert any("sm_100a  ISA  cvt.rn" in line for line in shown)
    assert main(["isa", "list", "--missing", "tcgen05"]) == 0
    assert "9.7.16.10    tcgen05.mma\n" in capsys.readouterr().out
    assert main(["isa", "list", "--missing", "add"]) == 2
    assert "no instruction form contains 'add'" in capsys.readouterr().err
    assert main(["isa", "list", "--markdown"]) == 0
    page = capsys.readouterr().out
    assert "| `mma` m16n8k16 | f16 → f32 | - | - | V | V | V | V | V | P |" in page
    assert "| 9.7.10 | `tex` |" in page
