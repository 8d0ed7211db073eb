"""Machine code as text: operands, control bits, sections, and what is said where a listing cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.sass.assemble import Listing, read_kept
from isa.sass.control import ControlBits, control_bits
from isa.sass.listing import ListingError, MachineCode, read_listing
from isa.sass.operands import (
    CodeAddress,
    Constant,
    Immediate,
    Label,
    Memory,
    Register,
    Special,
    Strange,
    parse_operands,
)
from isa.sass.placed import bind, place
from isa.sass.sections import trim
from isa.sass.source import source_of

DATA = Path(__file__).parent / "data" / "sass"
RECORDED = Path(__file__).parents[1] / "traces" / "kernels"
LISTINGS = sorted((*DATA.glob("*.sass.xz"), *RECORDED.glob("*.sass.xz")))


def listing(name: str) -> Listing:
    """A listing that is kept with the recordings or the tests, such as ``collatz.sm_90``."""
    file = f"{name}.sass.xz"
    return read_kept(RECORDED / file if (RECORDED / file).exists() else DATA / file)


def code(name: str) -> MachineCode:
    return read_listing(listing(name).text)


# -------------------------------------------------------------------------------------------------------------- operands

R2, R3 = Register("R", 2), Register("R", 3)

OPERANDS = {
    "R2": R2,
    "-R2": Register("R", 2, negated=True),
    "~R3": Register("R", 3, inverted=True),
    "|R2|": Register("R", 2, absolute=True),
    "-|R2|": Register("R", 2, negated=True, absolute=True),
    "R2.reuse": Register("R", 2, reuse=True),
    "|R2|.reuse.H0_H0": Register("R", 2, absolute=True, parts=("H0_H0",), reuse=True),
    "RZ.H0_H0": Register("R", -1, parts=("H0_H0",)),
    "RZ": Register("R", -1),
    "URZ": Register("UR", -1),
    "UR14": Register("UR", 14),
    "PT": Register("P", -1),
    "!PT": Register("P", -1, negated=True),
    "!P3": Register("P", 3, negated=True),
    "UP0": Register("UP", 0),
    "B2": Register("B", 2),
    "SB0": Register("SB", 0),
    "0x10": Immediate("0x10", 16),
    "-0x4": Immediate("-0x4", -4),
    "1.5": Immediate("1.5", None),
    "-2.5e-05": Immediate("-2.5e-05", None),
    "+INF": Immediate("+INF", None),
    "-QNAN": Immediate("-QNAN", None),
    "c[0x0][0x210]": Constant(0, 0x210),
    "-c[0x2][0x8]": Constant(2, 8, negated=True),
    "|c[0x0][0x174]|": Constant(0, 0x174, absolute=True),
    "c[0x3][R2+0x90]": Constant(3, 0x90, R2),
    "c[0x0][RZ]": Constant(0, 0, Register("R", -1)),
    "[R2]": Memory(R2, None, 0),
    "[R2.64+-0x4]": Memory(Register("R", 2, parts=("64",)), None, -4, wide=True),
    "desc[UR4][R2.64+0x10]": Memory(Register("R", 2, parts=("64",)), None, 0x10, wide=True, descriptor=Register("UR", 4)),
    "[R2.X4+UR6+0x80]": Memory(Register("R", 2, parts=("X4",)), Register("UR", 6), 0x80, scale=4),
    "[UR4+0x8]": Memory(None, Register("UR", 4), 8),
    "[0x100]": Memory(None, None, 0x100),
    "`(.L_x_1)": Label(".L_x_1"),
    "32@lo((f + .L_x_0@srel))": CodeAddress("lo", ".L_x_0"),
    "32@hi(fun(f))": CodeAddress("hi", "f"),
    "SR_TID.X": Special("SR_TID.X"),
    "PR": Special("PR"),
}


@pytest.mark.parametrize("text", OPERANDS)
def test_an_operand_is_read(text: str) -> None:
    assert parse_operands(text) == (OPERANDS[text],)


def test_operands_are_separated_by_commas_and_spaces() -> None:
    assert parse_operands("P0, PT, R2, c[0x0][0x160], !P1") == (
        Register("P", 0),
        Register("P", -1),
        R2,
        Constant(0, 0x160),
        Register("P", 1, negated=True),
    )
    assert parse_operands("R2 `(f)") == (R2, Label("f"))
    assert parse_operands('R2 -0x360   (*"BRANCH_TARGETS .L_x_1,.L_x_2"*)') == (R2, Immediate("-0x360", -0x360))


@pytest.mark.parametrize("text", ["R2?", "[R2", "[R2+R3]", "c[0x0][R2+UR4]", "|R2", "[R2.X3]", "r2"])
def test_an_unknown_operand_is_kept_for_the_report(text: str) -> None:
    assert parse_operands(text) == (Strange(text),)


# ---------------------------------------------------------------------------------------------------------- control bits


@given(
    stall=st.integers(0, 15),
    yields=st.booleans(),
    write=st.sampled_from([None, *range(6)]),
    read=st.sampled_from([None, *range(6)]),
    wait=st.integers(0, 63),
    reuse=st.integers(0, 15),
    rest=st.integers(0, (1 << 41) - 1),
)
def test_control_bits_are_where_hardware_has_them(
    stall: int, yields: bool, write: int | None, read: int | None, wait: int, reuse: int, rest: int
) -> None:
    bits = stall | (not yields) << 4 | (7 if write is None else write) << 5 | (7 if read is None else read) << 8
    bits |= wait << 11 | reuse << 17
    assert control_bits(bits << 41 | rest) == ControlBits(stall, yields, write, read, wait, reuse)


def test_control_bits_of_a_listing_agree_with_its_text() -> None:
    """``.reuse`` is printed from the bits that are decoded here; LDG sets a scoreboard that its consumer waits for."""
    seen = 0
    for path in LISTINGS:
        for section in code(path.name.removesuffix(".sass.xz")).code.values():
            for instruction in section.instructions:
                printed = sum(isinstance(o, Register) and o.reuse for o in instruction.operands)
                assert bin(instruction.control.reuse).count("1") == printed, instruction.text
                seen += printed
                if instruction.base == "LDG":
                    assert instruction.control.write is not None
    assert seen > 100


def test_control_bits_are_spelled_out() -> None:
    assert str(ControlBits(4, True, 0, 1, 0b101, 0b10)) == "stall 4  yield  wr 0  rd 1  wait 0,2  reuse 1"
    assert str(ControlBits(1, False, None, None, 0, 0)) == "stall 1"


# -------------------------------------------------------------------------------------------------------------- listings


def test_a_listing_says_what_it_is_of() -> None:
    kept = listing("vector_add.sm_90")
    assert (kept.target, kept.assembler) == ("sm_90", "13.0.88")
    saxpy = read_listing(kept.text).code["saxpy"]
    assert saxpy.is_kernel
    assert (saxpy.registers, saxpy.parameter_base, saxpy.parameter_size) == (10, 0x210, 28)
    ffma = next(i for i in saxpy.instructions if i.base == "FFMA")
    assert (ffma.address, ffma.text, ffma.ptx_line) == (0x100, "FFMA R7, R2, UR6, R7", 102)
    assert ffma.control == ControlBits(5, True, None, None, 0b100, 0)


def test_sections_give_registers_shared_memory_and_banks() -> None:
    old, new = code("reduction.sm_80").code["reduce_sum_s32"], code("scan.sm_90").code["block_scan"]
    assert old.registers > 0
    assert old.parameter_base == 0x160
    assert old.static_shared == 1024  # on sm_90 the system's first kilobyte would be counted too
    assert new.static_shared > 1024
    bytecode = code("bytecode.sm_90")
    assert len(bytecode.data[".nv.constant2.bytecode"].content()) == 40  # the table of a switch
    assert set(bytecode.data[".nv.constant3"].symbols()) >= {"program", "coefficients"}
    brx = next(i for i in bytecode.code["bytecode"].instructions if i.base == "BRX")
    assert len(brx.targets) == 3


@pytest.mark.parametrize("path", LISTINGS, ids=lambda path: path.name.removesuffix(".sass.xz"))
def test_every_instruction_is_known(path: Path) -> None:
    machine = code(path.name.removesuffix(".sass.xz"))
    for kernel in machine.kernels:
        placed, _ = place(machine, kernel)
        assert bind(placed, kernel.name) == []
        assert [i.address for i in kernel.instructions] == list(range(0, 16 * len(kernel.instructions), 16))


def test_trimming_keeps_what_is_read() -> None:
    text = listing("collatz.sm_90").text
    debug = text.replace("\t.target\tsm_90\n", "\t.target\tsm_90\n\t.section\t.debug_line\n.debug_line:\n  .byte 0x1\n")
    assert trim(debug) == text.partition("\n")[2]


# ---------------------------------------------------------------------------------------------------------------- errors


def _edited(old: str, new: str) -> str:
    text = listing("vector_add.sm_90").text
    assert old in text
    return text.replace(old, new)


def test_a_kernel_may_be_called_align() -> None:
    """Only lines that are alignment are left out, not those that name such a kernel's constant bank."""
    lines = ["\t.align\t\t4", "        /*0064*/ \t.word\tindex@(.nv.constant0.align)", "        /*0068*/ \t.short\t0x0210"]
    kept = trim("\n".join(["\t.target\tsm_90", "\t.section\t.nv.info.align", *lines])).splitlines()
    assert kept[2:] == lines[1:]


def test_a_bad_operand_is_named_with_its_address() -> None:
    machine = read_listing(_edited("FFMA R7, R2, UR6, R7", "FFMA R7, R2, UR6?, R7"))
    (missing,) = bind(place(machine, machine.code["saxpy"])[0], "saxpy")
    assert missing.what == "FFMA R7, R2, UR6?, R7 (machine code, address 0x100 of saxpy)"
    assert missing.why == "its operand UR6? is not known"


def test_a_line_that_is_not_understood_is_named() -> None:
    with pytest.raises(ListingError, match=r"cannot read '\.mystery 3' behind address 0x70"):
        read_listing(_edited("/*0070*/", "/*0070*/").replace(".L_x_2:\n", "\t.mystery 3\n"))


def test_a_missing_encoding_is_named() -> None:
    text = listing("vector_add.sm_90").text
    lines = text.split("\n")
    at = next(n for n, line in enumerate(lines) if "FFMA" in line)
    del lines[at + 1]
    with pytest.raises(ListingError, match="no second encoding word behind address 0100"):
        read_listing("\n".join(lines))


def test_a_listing_that_is_cut_is_named() -> None:
    lines = listing("vector_add.sm_90").text.split("\n")
    at = next(n for n, line in enumerate(lines) if "FFMA" in line)
    for kept in (lines[: at + 1], lines[: at + 2]):
        with pytest.raises(ListingError, match=r"saxpy: the listing ends in the middle, behind address 0x1[01]0"):
            read_listing("\n".join(kept))
    with pytest.raises(ListingError, match="saxpy: the instruction at 0x100 is missing; at 0110 is"):
        read_listing("\n".join(lines[:at] + lines[at + 2 :]))


def test_other_text_is_no_listing() -> None:
    with pytest.raises(ListingError, match="ptxas's version"):
        Listing.from_text("hello")


LIFE_RANGES = json.loads((DATA / "life_ranges.json").read_text())["kernels"]


@pytest.mark.parametrize("kernel", LIFE_RANGES)
def test_live_registers_are_those_that_nvdisasm_counts(kernel: str) -> None:
    """Recorded from ``nvdisasm --print-life-ranges``; kernels without calls, around which the two differ."""
    recorded = LIFE_RANGES[kernel]
    machine = code(recorded["listing"].removesuffix(".sass.xz"))
    placed, _ = place(machine, machine.code[kernel])
    assert not bind(placed, kernel)
    source = source_of(machine, placed)
    assert source.live[: len(recorded["registers"])] == recorded["registers"]
    assert source.text[0] == "LDC R1, c[0x0][0x28]" and any(text.startswith("@!P") for text in source.text)
