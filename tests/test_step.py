"""Stepping a warp: what is recorded, going back, stopping, matrices, the viewer."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcsim
from tcsim.cli import main
from tcsim.cli.launches import LaunchOptions, prepare
from tcsim.errors import TcsimError
from tcsim.step.cursor import Cursor, step_text
from tcsim.step.fragments import tile_text
from tcsim.step.recording import Recorder, Recording
from tcsim.step.registers import Names, lane_text, machine_names, register_names
from tests.kernels import kernel

ROOT = Path(__file__).parents[1]


def record(body: str, *, block: int = 32, warp: int = 0, declarations: str = "", **options: Any) -> Recording:
    """Record a warp of the kernel that :func:`tests.kernels.kernel` makes; the second buffer holds 0, 1, 2, ..."""
    module = tcsim.RawModule(code=kernel(body, declarations=declarations))
    function = module.get_function("k")
    arguments = (tcsim.zeros(block, np.uint32), tcsim.asarray(np.arange(256, dtype=np.uint32)))
    with Recorder(lambda: register_names(module.tree, "k", fmad=True), warp=warp, **options) as recorder:
        function((1,), (block,), arguments)
    assert recorder.recording is not None
    return recorder.recording


def value(cursor: Cursor, name: str) -> list[int]:
    return [int(v) for v in cursor.registers()[name].read(cursor.block)]


LOOP = """
    mov.u32 %r1, 0; mov.u32 %r2, 3;
L:  add.u32 %r1, %r1, lane;
    sub.u32 %r2, %r2, 1;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 bra L;
    mov.u32 result, %r1;
"""


def opcodes(recording: Recording) -> list[str]:
    return [recording.program.opcodes[step.pc] for step in recording.steps]


def test_every_instruction_is_kept_and_can_be_undone() -> None:
    recording = record(LOOP)
    assert opcodes(recording).count("add.u32") == 3 and recording.ended == "the warp has ended"
    cursor = Cursor(recording)
    seen = [cursor.block.copy()]
    while cursor.step is not None:
        cursor.move(1)
        seen.append(cursor.block.copy())
    assert value(cursor, "%r1") == [3 * lane for lane in range(32)]
    for at in range(len(seen) - 1, -1, -1):
        cursor.at = at
        assert (cursor.block == seen[at]).all()
    assert "%r1" not in cursor.registers()


def test_breakpoints_and_watches_in_both_directions() -> None:
    cursor = Cursor(record(LOOP))
    line = next(int(cursor.recording.program.lines[s.pc]) for s, o in
                zip(cursor.recording.steps, opcodes(cursor.recording), strict=True) if o == "add.u32")  # fmt: skip
    cursor.breakpoints = {line}
    sums = []
    while cursor.run().startswith("breakpoint"):
        sums.append(value(cursor, "%r1")[1])
    assert sums == [0, 1, 2] and cursor.step is None
    assert cursor.run(-1) == f"breakpoint at ptx:{line}" and value(cursor, "%r1")[1] == 2
    cursor.breakpoints = set()
    cursor.at = 0
    cursor.watch("r2")
    assert [cursor.run() for _ in range(4)][:2] == ["%r2 changed"] * 2
    with pytest.raises(TcsimError, match="no register %x9"):
        cursor.watch("%x9")


def test_lanes_predicates_and_memory() -> None:
    body = """
        setp.lt.u32 %p1, lane, 4;
        mul.wide.u32 %rd1, lane, 8;
        add.s64 %rd1, %rd1, pin;
        @%p1 ld.global.u32 %r1, [%rd1+4];
    """
    recording = record(body)
    load = next(step for step, opcode in zip(recording.steps, opcodes(recording), strict=True) if opcode == "ld.global.u32")
    assert load.active == 0xFFFF_FFFF and load.executing == 0xF
    first = load.touched[0]
    assert [touch.address - first.address for touch in load.touched] == [0, 8, 16, 24]
    cursor = Cursor(recording, at=recording.steps.index(load))
    text = step_text(cursor, [])
    assert "lanes 0-3; 4-31 predicated off" in text and "(4 B, +8 a lane)  lanes 0-3" in text
    assert "%r1 = 1 3 5 7" in text


def test_divergence_and_other_warps() -> None:
    body = """
        .shared .align 4 .b8 s[256];
        mov.u32 %r3, s; shl.b32 %r4, tid, 2; add.u32 %r3, %r3, %r4;
        st.shared.u32 [%r3], tid;
        bar.sync 0;
        setp.lt.u32 %p1, lane, 16;
        @%p1 bra A;
        xor.b32 %r5, %r3, 128;
        ld.shared.u32 result, [%r5];
        bra B;
    A:  mov.u32 result, 7;
    B:
    """
    recording = record(body.replace(".shared .align 4 .b8 s[256];", ""), block=64, warp=1,
                       declarations=".shared .align 4 .b8 s[256];\n")  # fmt: skip
    masks = {step.active for step in recording.steps}
    assert masks == {0xFFFF_FFFF, 0xFFFF_0000, 0xFFFF}
    cursor = Cursor(recording)
    cursor.move(len(recording.steps))
    assert value(cursor, "result") == [7] * 16 + list(range(16, 32))  # what warp 0 wrote


def test_a_deadlock_and_a_fault_end_the_recording() -> None:
    assert "DEADLOCK" in record("bar.sync 1, 64;", block=32 * 3, warp=2).ended
    assert "OUT OF BOUNDS" in record("mov.u64 %rd1, 8; ld.global.u32 result, [%rd1];").ended
    assert "first 5 steps" in record(LOOP, most=5).ended
    with pytest.raises(TcsimError, match="there is no warp 1"):
        record(LOOP, warp=1)
    with pytest.raises(TcsimError, match="there is no CTA 1"):
        record(LOOP, cta=1)


def test_matrices_are_drawn_as_tiles() -> None:
    body = """
        mov.b32 %r1, 0x40003c00; mov.f32 %f1, 0f3F000000;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2, %f3, %f4, %f5}, {%r1, %r1, %r1, %r1}, {%r1, %r1},
            {%f1, %f1, %f1, %f1};
        mov.b32 result, %f2;
    """
    recording = record(body)
    cursor = Cursor(recording, at=next(at for at, o in enumerate(opcodes(recording)) if o.startswith("mma")))
    tiles = {tile.operand: tile.values for tile in cursor.tiles()}
    assert tiles["A"].shape == (16, 16) and tiles["B"].shape == (16, 8)
    assert (tiles["A"][:, ::2] == 1).all() and (tiles["A"][:, 1::2] == 2).all()
    assert (tiles["D"] == tiles["A"] @ tiles["B"] + tiles["C"]).all() and (tiles["C"] == 0.5).all()
    assert "D  16 x 8 f32" in step_text(cursor, [], matrices=True)


@pytest.mark.parametrize(
    ("number", "kind", "style", "text"),
    [
        (0x3F80_0000, "f32", "", "1"), (0xFFFF_FFFF, "s32", "", "-1"), (7, "u32", "", "7"),
        (1 << 40, "b64", "", "0x10000000000"),
        (0x4000_3C00, "b32", "f16x2", "2|1"), (1, "pred", "hex", "1"), (0xFFFF_FFFE, "b32", "dec", "-2"),
    ],
)  # fmt: skip
def test_values_in_words(number: int, kind: str, style: str, text: str) -> None:
    assert lane_text(number, kind, style) == text


def test_float64_matrices_are_drawn() -> None:
    body = """
        .reg .f64 a0, b0, c<3>, d<3>;
        cvt.rn.f64.u32 a0, lane; mov.f64 b0, 0d4000000000000000; mov.f64 c1, 0d3FE0000000000000; mov.f64 c2, c1;
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {d1, d2}, {a0}, {b0}, {c1, c2};
        cvt.rzi.u32.f64 result, d1;
    """
    recording = record(body)
    cursor = Cursor(recording, at=next(at for at, o in enumerate(opcodes(recording)) if o.startswith("mma")))
    tiles = {tile.operand: tile.values for tile in cursor.tiles()}
    assert (tiles["A"] == np.arange(32).reshape(8, 4)).all() and (tiles["B"] == 2).all()
    assert (tiles["D"] == tiles["A"] @ tiles["B"] + 0.5).all() and tiles["D"].shape == (8, 8)


def machine_cursor(name: str, warp: int = 0) -> Cursor:
    """The machine code that a bundle holds, recorded."""
    launch = prepare(str(ROOT / "traces" / name), LaunchOptions(machine=True))
    with launch.device:
        program = launch.function.program
    code = launch.function.module.machine_code(90)
    assert code is not None
    with Recorder(lambda: machine_names(code.source(program.name), program), warp=warp) as recorder:
        launch.run()
    assert recorder.recording is not None
    return Cursor(recorder.recording, by_instruction=True)


def test_machine_code_multiplies_the_matrices_it_shows() -> None:
    cursor = machine_cursor("gemm_f16_small", warp=1)
    cursor.stop_at("ptx.cuh:59")
    products = 0
    while cursor.run().startswith("breakpoint"):
        assert cursor.step is not None
        tiles = {tile.operand: tile.values for tile in cursor.tiles()}
        if not tiles:
            continue  # of the line, but no product
        products += 1
        exact = tiles["A"] @ tiles["B"] + tiles["C"]
        assert np.abs(tiles["D"] - exact).max() < 1e-4 and tiles["A"].shape == (16, 16)
        assert {register.type for register, _ in cursor.results()} == {"f32"}
    assert products == 96  # 3 steps along k of 32 products

    cursor.at = 0
    copy = next(step for step in cursor.recording.steps if cursor.recording.program.opcodes[step.pc].startswith("LDGSTS"))
    spaces = {(touch.space, touch.what, touch.size) for touch in copy.touched}
    assert spaces == {("global", "read", 16), ("shared", "write", 16)}
    assert min(touch.address for touch in copy.touched if touch.space == "shared") >= 1024  # behind what the system reserves


def test_machine_code_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    bundle = str(ROOT / "traces" / "vector_add")
    assert main(["step", bundle, "--machine", "--print", "30", "--lanes", "2", "--warp", "1"]) == 0
    out = capsys.readouterr().out
    assert "S2R R0, SR_TID.X\n        R0 = 32 33 ..." in out and "UR4 = 100003 100003 ..." in out and "P0 = 0 0 ..." in out
    assert re.search(r"LDG.*\n +read global 0x7f\w+ \(4 B, \+4 a lane\)  lanes 0-31\n +R3 = ", out)
    assert re.search(r"FADD R9.*\n +R9 = -?\d+\.\d+ ", out) and "@P0 EXIT\n        lanes none; 0-31 predicated off" in out
    assert main(["step", bundle, "--machine", "--print", "1", "--break", "vector_add.cu:7"]) == 0
    assert "breakpoint at instruction 20" in capsys.readouterr().out
    assert main(["step", bundle, "--machine", "--print", "1", "--watch", "UR4"]) == 0
    assert "UR4 changed" in capsys.readouterr().out
    assert main(["step", bundle, "--print", "1", "--break", "vector_add.cu:99"]) == 2
    assert "no instruction there" in capsys.readouterr().err


def test_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", str(ROOT / "traces" / "vector_add"), "--print", "500", "--lanes", "4", "--warp", "2"]) == 0
    out = capsys.readouterr().out
    assert "vector_add  CTA (0, 0, 0) warp 2: 22 steps" in out
    assert "%r5 = 64 65 66 67 ..." in out and out.rstrip().endswith("end: the warp has ended")
    assert main(["step", str(ROOT / "traces" / "vector_add"), "--print", "1", "--watch", "%p1"]) == 0
    assert "the warp has ended" in capsys.readouterr().out  # it is written once, and never changes


def test_the_viewer() -> None:
    pytest.importorskip("textual")
    from textual.widgets import DataTable, Static

    from tcsim.step.app import StepApp

    recording = record(LOOP)
    cursor = Cursor(recording)
    app = StepApp(cursor, kernel(LOOP).splitlines())

    async def drive() -> None:
        async with app.run_test(size=(140, 40)) as pilot:
            await pilot.press("right", "right", "left")
            assert cursor.at == 1
            await pilot.press("w", *"%r1", "enter")
            assert cursor.watched == ["%r1"]
            await pilot.press("c")
            assert app.said == "%r1 changed"
            names = [str(app.query_one("#registers", DataTable).get_row_at(0)[0])]
            assert names
            await pilot.press("b")
            assert cursor.breakpoints == {cursor.line}
            await pilot.press("f", "l", "ctrl+down", "ctrl+right", "pageup", "r")
            assert cursor.at == 0 and "lanes 0-31" in str(app.query_one("#state", Static).render())

    asyncio.run(drive())


def test_matrices_in_shared_memory_are_drawn(traces: Path) -> None:
    """Of ``wgmma``: where its descriptors say, swizzled or transposed, and what a warp keeps in registers."""
    for name, warp in (("wgmma_s8", 2), ("wgmma_fp8", 1)):
        launch = prepare(str(traces / name), LaunchOptions())
        with Recorder(Names, warp=warp, most=1400) as recorder:
            launch.run()
        assert recorder.recording is not None
        at = [n for n, opcode in enumerate(opcodes(recorder.recording)) if opcode.startswith("wgmma.mma_async")]
        cursor = Cursor(recorder.recording, at=at[1])
        found = {tile.operand: tile for tile in cursor.tiles()}
        tiles = {name: tile.values for name, tile in found.items()}
        difference = tiles["D"] - tiles["A"] @ tiles["B"] - tiles["C"]
        assert np.abs(difference).max() <= (0.02 if name == "wgmma_fp8" else 0) and np.abs(tiles["D"]).max() > 1
        assert f"rows {16 * warp}-{16 * warp + 15} in shared memory" in tile_text(found["A"])


@pytest.mark.parametrize(
    ("opcode", "bits", "value"),
    [
        ("m16n8k64.row.col.s32.s4.u4.s32", 0x2F2F_2F2F, (-1, 15)),
        ("m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32", 0x0C0C_0C0C, (1.5, 1.0)),
    ],
)
def test_small_elements_are_drawn(opcode: str, bits: int, value: tuple[float, float]) -> None:
    """Packed, and in containers of 8 bits: e2m1 in bits 2 to 5, e3m2 in the low 6."""
    body = f"""
        mov.b32 %r1, {bits}; mov.b32 %r2, 0;
        mma.sync.aligned.{opcode} {{%r3, %r4, %r5, %r6}}, {{%r1, %r1, %r1, %r1}}, {{%r1, %r1}}, {{%r2, %r2, %r2, %r2}};
        mov.b32 result, %r3;
    """
    with tcsim.Device("sm_120"), Recorder(Names) as recorder:
        function = tcsim.RawModule(code=kernel(body, target="sm_120a")).get_function("k")
        function((1,), (32,), (tcsim.zeros(32, np.uint32), tcsim.zeros(32, np.uint32)))
    assert recorder.recording is not None
    cursor = Cursor(recorder.recording, at=next(n for n, o in enumerate(opcodes(recorder.recording)) if o.startswith("mma")))
    tiles = {tile.operand: tile.values for tile in cursor.tiles()}
    assert (tiles["A"][0, 0], tiles["B"][0, 0]) == value
    assert (tiles["D"] == tiles["A"] @ tiles["B"]).all() and tiles["D"].any()
