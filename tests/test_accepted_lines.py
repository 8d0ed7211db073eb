"""What ptxas accepts, tcsim takes: 219,672 generated one-line instructions, of which ptxas 13.0 accepts 14,580."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

import isa.instructions  # noqa: F401  (fills the registry)
from isa.lower.bind import bind_kernel
from isa.lower.supported import _wrong_target
from isa.ptx import parse
from isa.spec import find
from tests.reference import arithmetic_lines, asynchronous_lines, lines
from tests.reference.lines import HEADER
from tests.reference.ptxas import PTXAS, refused

RECORD = Path(__file__).parent / "data" / "ptxas" / "accepted.txt.xz"
RECORDED = [line.split("\t") for line in lzma.decompress(RECORD.read_bytes()).decode().splitlines()[1:]]
START = HEADER.format(version="9.0", target="sm_90a")
GENERATED = {
    name: list(dict.fromkeys(family()))
    for module in (lines, arithmetic_lines, asynchronous_lines)
    for name, family in module.FAMILIES.items()
}


def without_meaning(line: str) -> bool:
    """What ptxas accepts and makes no sense of: a test that tests nothing, and stores that it leaves out."""
    opcode = line.split(" ")[0]
    return opcode in ("testp.f32", "testp.f64") or (opcode.startswith("st.async") and "complete_tx" not in opcode)


@pytest.mark.parametrize("family", GENERATED)
def test_all_that_ptxas_accepts(family: str) -> None:
    wanted = [line for _, name, line in RECORDED if name == family and not without_meaning(line)]
    kernel = bind_kernel(parse(START + "\n".join(wanted) + "\n}\n"), "k")  # an error names the first line that is not taken
    assert len(wanted) > 30
    assert len({instr.line for instr in kernel.instructions}) >= len(wanted)


def test_first_targets_are_not_later_than_for_ptxas() -> None:
    later: set[str] = set()
    for target, _, line in RECORDED:
        opcode = line.removeprefix("@p0 ").removeprefix("@!p0 ").split(" ")[0].rstrip(";")
        number = int(target.removeprefix("sm_").rstrip("a"))
        if not without_meaning(line) and (
            not any(form.instruction.sm <= number for form in find(opcode)[0]) or _wrong_target(opcode, target)
        ):
            later.add(f"{opcode} ({target})")
    assert not sorted(later)


def test_what_has_no_meaning_is_refused() -> None:
    opcodes = {line.split(" ")[0] for _, _, line in RECORDED if without_meaning(line)}
    assert len(opcodes) > 40
    assert all(find(opcode)[0] == [] for opcode in opcodes)


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")
@pytest.mark.parametrize("family", GENERATED)
def test_the_record_is_what_ptxas_says(family: str, tmp_path: Path) -> None:
    candidates = GENERATED[family]
    bad = refused(candidates, "sm_90a", tmp_path, HEADER)
    accepted = [line for index, line in enumerate(candidates) if index not in bad]
    assert accepted == [line for _, name, line in RECORDED if name == family]
