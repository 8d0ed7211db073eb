"""What issues: free instructions, folding, expansion, the order within a block, and costs by timing class."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import kernel
from timing_support import H200, Timed, apart

import tcsim
from isa import instructions  # noqa: F401  (fills the registry)
from isa.program import Program
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from isa.spec.registry import Instruction, all_instructions
from isa.tensor.forms import MMA_FORMS, WMMA_FORMS
from tcsim.arch import find_arch, find_timing
from tcsim.arch.timing_spec import Chip
from tcsim.errors import DeviceError
from tcsim.timing.folding import folded
from tcsim.timing.issue import IssueTable, Unit
from tcsim.timing.operations import Costs
from tcsim.timing.schedule import arrange, name_results, segments

GH100, GA100 = H200.chip, find_timing(find_arch("a100")).chip


def program(body: str, declarations: str = "") -> Program:
    return tcsim.RawModule(code=kernel(body, declarations=declarations)).get_function("k").program


def opcodes(of: Program, pcs: set[int]) -> list[str]:
    return [of.opcodes[pc] for pc in sorted(pcs)]


# ------------------------------------------------------------------------------------------------------ what is free


def free_opcodes(body: str) -> list[str]:
    """Opcodes between two fences that cost nothing."""
    made = program(apart(body))
    table = IssueTable(made, H200)
    fences = [pc for pc, opcode in enumerate(made.opcodes) if opcode.startswith("bar.warp")]
    return [made.opcodes[pc] for pc in range(fences[0] + 1, fences[1]) if table.entries[pc].free]


def test_copies_and_renamings_are_free() -> None:
    assert free_opcodes("mov.u32 %r1, lane; mov.b64 %rd1, {%r1, %r1}; cvta.global.u64 %rd2, %rd1;") == [
        "mov.u32",
        "mov.b64",
        "cvta.global.u64",
    ]
    assert free_opcodes("cvt.u64.u32 %rd1, lane; cvt.u32.u64 %r1, %rd1;") == ["cvt.u64.u32", "cvt.u32.u64"]
    assert free_opcodes("ld.param.u64 %rd1, [in]; mov.u32 %r1, %ntid.x;") == ["ld.param.u64", "mov.u32"]


def test_real_work_is_not_free() -> None:
    assert free_opcodes("cvt.s64.s32 %rd1, lane; mov.u32 %r1, %tid.y; cvt.rn.f32.s32 %f1, lane;") == []
    assert free_opcodes("setp.eq.u32 %p1, lane, 0; @%p1 mov.u32 %r1, lane;") == []
    assert free_opcodes("cvt.u16.u32 %h1, lane; mov.b32 %r1, {%h1, %h1};") == ["cvt.u16.u32"]


def test_a_free_result_is_ready_when_its_operand_is() -> None:
    timed = Timed(apart("ex2.approx.ftz.f32 %f1, %f0; mov.f32 %f2, %f1; mov.b32 %r1, %f2; min.u32 result, %r1, 7;"))
    assert timed.cycles("min")[0] - timed.cycles("ex2")[0] == GH100_LATENCY["mufu"]


GH100_LATENCY = {name: operation.latency for operation in GH100.operations for name in operation.classes}


# --------------------------------------------------------------------------------------------------------- folding


@pytest.mark.parametrize(
    ("body", "gone"),
    [
        ("mul.lo.u32 %r1, lane, 12; add.u32 result, %r1, tid;", ["mul.lo.u32"]),
        ("shl.b32 %r1, lane, 2; add.u32 result, %r1, tid;", ["shl.b32"]),
        ("mul.wide.u32 %rd2, lane, 4; add.s64 %rd3, pin, %rd2; ld.global.u32 result, [%rd3];", ["mul.wide.u32"]),
        ("and.b32 %r1, lane, 7; xor.b32 result, %r1, tid;", ["and.b32"]),
        ("add.u32 %r1, lane, tid; add.u32 result, %r1, 5;", ["add.u32"]),
        ("add.s64 %rd2, pin, 16; ld.global.u32 result, [%rd2];", ["add.s64"]),
        ("add.s64 %rd2, pin, 16; ld.global.u32 %r1, [%rd2]; ld.global.u32 result, [%rd2+4];", ["add.s64"]),
        (
            "mul.wide.u32 %rd2, lane, 4; add.s64 %rd3, pin, %rd2; add.s64 %rd4, pout, %rd2;"
            "ld.global.u32 %r1, [%rd3]; st.global.u32 [%rd4], %r1;",
            ["mul.wide.u32"],
        ),
    ],
)
def test_what_ptxas_folds_is_free(body: str, gone: list[str]) -> None:
    made = program(apart(body))
    inside = {pc for pc in folded(made)[0] if made.opcodes[pc] in body and pc >= fence(made)}
    assert opcodes(made, inside) == gone


@pytest.mark.parametrize(
    "body",
    [
        "shl.b32 %r1, lane, 2; add.u32 %r2, %r1, tid; xor.b32 result, %r2, %r1;",  # another reader
        "setp.eq.u32 %p1, lane, 0; mul.lo.u32 %r1, lane, 12; @%p1 add.u32 result, %r1, tid;",  # a guard
        "shl.b32 %r1, lane, tid; add.u32 result, %r1, tid;",  # not a constant shift
        "add.s64 %rd2, pin, 16; st.global.u64 [pout], %rd2;",  # data, not an address
        # another block
        "mul.lo.u32 %r1, lane, 12; setp.eq.u32 %p1, lane, 0; @%p1 bra NEXT; NEXT: add.u32 result, %r1, tid;",
    ],
)
def test_what_ptxas_does_not_fold_is_not(body: str) -> None:
    made = program(apart(body))
    assert opcodes(made, {pc for pc in folded(made)[0] if pc >= fence(made) and made.opcodes[pc] in body}) == []


def fence(of: Program) -> int:
    return next(pc for pc, opcode in enumerate(of.opcodes) if opcode.startswith("bar.warp"))


def test_each_sum_takes_up_one_instruction_only() -> None:
    made = program(apart("shl.b32 %r1, lane, 2; mul.lo.u32 %r2, tid, 12; add.u32 result, %r1, %r2;"))
    assert len([pc for pc in folded(made)[0] if pc > fence(made)]) == 1


# ------------------------------------------------------------------------------------------------ order in a block


def test_loads_move_up_and_uses_wait_together() -> None:
    """Four loads with a use behind each: all load first, so the whole takes one latency, not four."""
    data = ", ".join(f"%r{i}" for i in range(4))
    body = "\n".join(f"ld.global.u32 %r{i}, [pin+{4 * i}]; max.u32 result, result, %r{i};" for i in range(4))
    timed = Timed(apart(body))
    assert max(timed.cycles("ld.global")) < min(timed.cycles("max"))
    assert data and timed.profile.stalls["long_scoreboard"] < 1.2 * (timed.cycles("max")[0] - timed.cycles("ld.global")[0])


def test_a_load_stays_behind_a_store_that_may_be_to_the_same_place() -> None:
    timed = Timed(apart("fma.rn.f32 %f1, %f0, %f0, %f0; st.global.f32 [pin], %f1; ld.global.u32 result, [pout];"))
    assert timed.cycles("st.global")[0] < timed.cycles("ld.global")[0]
    timed = Timed(apart("fma.rn.f32 %f1, %f0, %f0, %f0; st.global.f32 [pin], %f1; ld.global.nc.u32 result, [pout];"))
    assert timed.cycles("st.global")[0] > timed.cycles("ld.global")[0]


def test_renaming_keeps_values_apart() -> None:
    made = program(apart("add.u32 %r1, lane, 1; min.u32 result, %r1, 9; add.u32 %r1, tid, 2; max.u32 result, result, %r1;"))
    start = fence(made) + 1
    names = name_results(made, range(start, start + 4))
    first, second = names[start].writes, names[start + 2].writes
    assert first != second and first[0] < 0
    assert first[0] in names[start + 1].reads and second[0] in names[start + 3].reads


def test_fixed_instructions_end_segments() -> None:
    made = program("ld.global.u32 %r1, [pin]; bar.sync 0; mov.u32 %r2, %clock; membar.gl; add.u32 result, %r1, %r2;")
    for run in segments(made):
        for pc in run:
            assert not made.opcodes[pc].startswith(("bar", "read_clock", "membar", "ret"))


@given(st.data())
def test_pieces_are_put_in_order_however_they_are_cut(data: st.DataObject) -> None:
    """A stream of loops cut into pieces anywhere issues the same instructions, each segment in its order."""
    body = "\n".join(f"ld.global.u32 %r{i}, [pin+{4 * i}]; max.u32 result, result, %r{i};" for i in range(4))
    table = IssueTable(program("LOOP: " + body + " setp.lt.u32 %p1, result, 0; @%p1 bra LOOP;"), H200)
    count = len(table.entries)
    stream = [*range(count - 1), *range(5, count - 1)]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=4)))
    whole, held = [], []
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        piece = held + stream[start:end]
        payload = list(range(len(piece)))
        done = arrange(piece, payload, table.starts, cut=end < len(stream))
        assert sorted(payload[:done]) == list(range(done))
        whole += piece[:done]
        held = piece[done:]
    assert held == []
    at_once = list(stream)
    arrange(at_once, list(range(len(stream))), table.starts, cut=False)
    assert whole == at_once
    assert sorted(whole) == sorted(stream)


# ----------------------------------------------------------------------------------------------- costs of each class


def timing_classes(instruction: Instruction) -> Iterator[str]:
    """The timing classes of all forms of an instruction (of matrix instructions those of the form tables)."""
    if isinstance(instruction.timing, str):
        yield instruction.timing
        return
    if (instruction.pattern.base in ("mma", "wmma") and "t1" in instruction.pattern.slots) or instruction.pattern.base == "mma":
        return
    choices = []
    for kind, name in instruction.pattern.parts:
        if kind != "word":
            slot = instruction.pattern.slots[name]
            words: tuple[str | bool, ...] = (True, False) if slot.is_flag else slot.words
            choices.append([(name, word) for word in (words if kind == "slot" or slot.is_flag else (*words, ""))])
    # Several slots of types make more combinations than matter: vary two at a time around the plainest of each.
    first = dict(min(choice, key=lambda pair: bool(pair[1])) for choice in choices)
    for one, two in itertools.combinations_with_replacement(choices, 2):
        for pair in itertools.product(one, two):
            params = first | dict(pair)
            if instruction.valid is None or not instruction.valid(params):
                yield instruction.timing(params)


def classes_of(chip: Chip) -> set[str]:
    sm = {"gh100": 90, "ga100": 80}[chip.name]
    found = {name for entry in all_instructions() if entry.sm <= sm for name in timing_classes(entry)}
    found |= {f"{form.instruction}.{form.shape}.{form.a}" for form in (*MMA_FORMS, *WMMA_FORMS) if form.sm <= sm}
    return found - {"nothing"}


@pytest.mark.parametrize("chip", [GH100, GA100], ids=lambda chip: chip.name)
def test_every_instruction_has_a_price(chip: Chip) -> None:
    costs = Costs(chip)
    assert len(classes_of(chip)) > 100
    assert sorted(name for name in classes_of(chip) if not costs.has(name)) == []


@pytest.mark.parametrize("chip", [GH100, GA100], ids=lambda chip: chip.name)
def test_every_price_is_asked_for(chip: Chip) -> None:
    """No entry of the tables is dead: each prices some class, or what :mod:`tcsim.timing.lowering` makes of one."""
    refined = {"special_register", "convert.pack", "convert.unpack", "convert.i2f"}
    listed = {name for operation in chip.operations for name in operation.classes}
    asked = classes_of(chip) | refined
    unused = {name for name in listed if not any(cls == name or cls.startswith(name + ".") for cls in asked)}
    assert unused == set()


def test_prefixes_stand_in_and_unknown_classes_are_told() -> None:
    costs = Costs(GH100)
    assert costs.of("ldmatrix.x4") == costs.of("ldmatrix")
    with pytest.raises(DeviceError, match=r"gh100 has no timing for instructions of class .warp\.drive."):
        costs.of("warp.drive")


def test_composed_operations_add_up() -> None:
    costs = Costs(GH100)
    hmma, wmma, fp8 = (costs.of(x) for x in ("mma.m16n8k16.f16", "wmma.m16n16k16.f16", "mma.m16n8k32.e4m3"))
    assert (wmma.slots, wmma.repeats, wmma.busy, wmma.latency) == (2, 2, 2 * hmma.busy, hmma.latency + hmma.busy)
    assert (fp8.slots, fp8.repeats, fp8.busy) == (14, 2, 2 * hmma.busy)


def test_tables_that_do_not_fit_together_are_refused() -> None:
    twice = msgspec.structs.replace(GH100, operations=(*GH100.operations, GH100.operations[0]))
    with pytest.raises(DeviceError, match="listed twice"):
        Costs(twice)
    lost = msgspec.structs.replace(GH100, pipes={})
    with pytest.raises(DeviceError, match="runs on pipe"):
        Costs(lost)


def test_units_follow_from_what_instructions_do() -> None:
    made = program(
        "ld.global.u32 %r1, [pin]; st.shared.u32 [box], %r1; bar.sync 0; atom.global.add.u32 %r2, [pin], 1;"
        "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; cp.async.commit_group; mov.u32 %r4, %clock;",
        declarations=".shared .align 4 .b8 box[64];",
    )
    table = IssueTable(made, H200)
    units = {made.opcodes[entry.pc].split(".")[0]: entry.unit for entry in table.entries if not entry.free}
    assert units["atom"] == Unit.ATOMIC and units["bar"] == Unit.BARRIER and units["shfl"] == Unit.PORT
    assert units["cp"] == Unit.COMMIT and units["read_clock"] == Unit.CLOCK and units["ret"] == Unit.EXIT
    assert {entry.leaves_sm for entry in table.entries if made.opcodes[entry.pc] == "st.shared.u32"} == {False}
    assert {entry.leaves_sm for entry in table.entries if made.opcodes[entry.pc] == "ld.global.u32"} == {True}


@pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="needs ptxas and nvdisasm")
def test_a_wide_product_is_dispatched_for_three_cycles() -> None:
    """A turn of a loop of eight IMAD.HI of one warp, as clocks on an H200 say; its stall counts add up to 40."""
    body = " ".join(f"mul.hi.u32 a{n}, a{n}, k;" for n in range(8))
    last = " ".join(f"xor.b32 n, n, a{n};" for n in range(8))
    first = " ".join(f"add.u32 a{n}, t, {n};" for n in range(8))
    module = tcsim.RawModule(
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 out, .param .u32 turns, .param .u32 by) {\n"
        ".reg .b32 a<8>; .reg .b32 t, n, k, last; .reg .b64 at, by8; .reg .pred p;\n"
        f"mov.u32 t, %tid.x; ld.param.u32 last, [turns]; ld.param.u32 k, [by]; mov.u32 n, 0; {first}\n"
        f'L: .pragma "nounroll"; {body} add.u32 n, n, 1; setp.lt.u32 p, n, last; @p bra L;\n'
        f"{last} ld.param.u64 at, [out]; mul.wide.u32 by8, t, 4; add.u64 at, at, by8; st.global.u32 [at], n; ret; }}"
    )
    took = []
    for turns in (8, 72):
        with tcsim.Device("h200"), tcsim.Profiler() as profiler:
            module.get_function("k")((1,), (32,), (tcsim.zeros(32, np.uint32), np.uint32(turns), np.uint32(9)))
        took.append(profiler.launches[-1].metrics["sm__cycles_active.max"])
    assert (took[1] - took[0]) / 64 == 56
