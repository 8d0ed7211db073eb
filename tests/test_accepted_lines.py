"""What ptxas accepts, tcsim takes: 96,456 generated one-line instructions, of which ptxas 13.0 accepts 6,588."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

import isa.instructions  # noqa: F401  (fills the registry)
from isa.lower.bind import bind_kernel
from isa.ptx import parse
from isa.spec import find
from tests.reference.lines import FAMILIES, HEADER, lines
from tests.reference.ptxas import PTXAS, refused

RECORD = Path(__file__).parent / "data" / "ptxas" / "accepted.txt.xz"
RECORDED = [line.split("\t") for line in lzma.decompress(RECORD.read_bytes()).decode().splitlines()[1:]]
START = HEADER.format(version="9.0", target="sm_90a")


@pytest.mark.parametrize("family", FAMILIES)
def test_all_that_ptxas_accepts(family: str) -> None:
    wanted = [line for _, name, line in RECORDED if name == family]
    kernel = bind_kernel(parse(START + "\n".join(wanted) + "\n}\n"), "k")  # an error names the first line that is not taken
    assert len(wanted) > 100
    assert len({instr.line for instr in kernel.instructions}) >= len(wanted)


def test_first_targets_are_not_later_than_for_ptxas() -> None:
    later: set[str] = set()
    for target, _, line in RECORDED:
        opcode = line.removeprefix("@p0 ").removeprefix("@!p0 ").split(" ")[0].rstrip(";")
        number = int(target.removeprefix("sm_").rstrip("a"))
        if not any(form.instruction.sm <= number for form in find(opcode)[0]):
            later.add(f"{opcode} ({target})")
    assert not sorted(later)


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_record_is_what_ptxas_says(family: str, tmp_path: Path) -> None:
    candidates = lines(family)
    bad = refused(candidates, "sm_90a", tmp_path, HEADER)
    accepted = [line for index, line in enumerate(candidates) if index not in bad]
    assert accepted == [line for _, name, line in RECORDED if name == family]
