"""Whole kernels as machine code: outputs equal to an H200's, instruction counts equal to its counter.

The listings are kept with the tests, so neither ptxas nor a GPU is needed.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tcsim
from isa.errors import UnsupportedError
from isa.machine import SHARED, WORDS
from isa.program import MemoryAccess
from isa.sass.assemble import Listing
from tcsim.bundle import Bundle, load_bundle
from tcsim.errors import DeviceError, UnsupportedWarning
from tcsim.execute.accesses import MAX_WORDS, access_table, describe
from tcsim.machine_code import ModuleCode
from tcsim.module import Function, RawModule
from tests.test_sass_listing import listing

TRACES = Path(__file__).parents[1] / "traces"

# Bundle, listing, and whether the H200 executed exactly as many warp instructions (None: the code is for another architecture).
KERNELS: list[tuple[str, str, bool | None]] = [
    ("saxpy", "vector_add.sm_90", True),
    ("saxpy", "vector_add.sm_80", None),
    ("collatz", "collatz.sm_90", True),
    ("collatz", "collatz.sm_80", None),
    ("warp_votes", "warp_votes.sm_90", True),
    ("warp_votes", "warp_votes.sm_80", None),
    ("bytecode", "bytecode.sm_90", True),
    ("bytecode", "bytecode.sm_80", None),
    ("polynomial", "bytecode.sm_90", True),
    ("histogram_u8", "histogram.sm_80", None),
    ("gemm_s8", "gemm_s8.sm_90", True),
    ("reduce_sum_f32", "reduction.sm_80", None),
    ("cosine_f64", "dot_f64.sm_90", True),
    ("layernorm", "layernorm.sm_90", True),
    ("transpose_padded", "transpose.sm_80", None),
    ("block_scan", "scan.sm_90", True),
    ("half2_math_bits", "half2_math.sm_80", None),
    ("locks", "locks.sm_90", False),
]

# By how much the others differ: how often threads try to get a lock depends on time.
DEVIATIONS = {"locks": -1.0}


def function(bundle: Bundle, kept: Listing) -> Function:
    """The kernel of a bundle, with a kept listing as the machine code of the device that it runs on."""
    module = RawModule(path=bundle.ptx_path, fmad=bundle.fmad)
    sm = tcsim.Device(bundle.device).arch.sm
    module._machine[sm] = ModuleCode(module.tree, kept, int(kept.target.removeprefix("sm_")))
    return module.get_function(bundle.entry or module.kernels[0])


def run(bundle: Bundle, kept: Listing) -> tuple[dict[str, Any], int]:
    """Outputs, and the warp instructions executed."""
    with tcsim.Device(bundle.device, execute="machine"):
        kernel = function(bundle, kept)
        values = [tcsim.asarray(v) if isinstance(v, np.ndarray) else v for v in bundle.values()]
        kernel(bundle.grid, bundle.block, tuple(values), shared_mem=bundle.shared_mem)
    pairs = zip(bundle.arguments, values, strict=True)
    return {a.name: v.get() for a, v in pairs if a.is_output}, kernel.instructions


@pytest.mark.parametrize(("name", "code", "counted"), KERNELS, ids=[f"{name}-{code}" for name, code, _ in KERNELS])
def test_outputs_and_counts_are_the_hardwares(name: str, code: str, counted: bool | None) -> None:
    bundle = load_bundle(TRACES / name)
    outputs, executed = run(bundle, listing(code))
    for comparison in bundle.compare(outputs):
        assert comparison.equal, str(comparison)
    if counted is None:
        return
    hardware = int(bundle.metrics["smsp__inst_executed.sum"].value)
    if counted:
        assert executed == hardware
    else:
        deviation = executed / hardware - 1
        assert deviation != 0, "equal now: mark it so"
        assert abs(deviation) <= abs(DEVIATIONS[name]) + 1e-12


def test_constant_variables_are_read_at_the_launch() -> None:
    """``polynomial`` takes its coefficients from constant bank 3."""
    bundle = load_bundle(TRACES / "polynomial")
    results = []
    for execute in ("ptx", "machine"):
        with tcsim.Device(bundle.device, execute=execute):
            kernel = function(bundle, listing("bytecode.sm_90"))
            kernel.module.get_global("coefficients").set(np.arange(1, 5, dtype=np.float32))
            values = [tcsim.asarray(v) if isinstance(v, np.ndarray) else v for v in bundle.values()]
            kernel(bundle.grid, bundle.block, tuple(values))
            results.append([v.get() for v in values if hasattr(v, "get")])
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))
    outputs = {a.name: v for a, v in zip((a for a in bundle.arguments if a.dtype), results[0], strict=False) if a.is_output}
    assert not all(comparison.equal for comparison in bundle.compare(outputs))


def test_an_unsupported_instruction_is_named_and_the_kernel_runs_as_ptx() -> None:
    bundle = load_bundle(TRACES / "saxpy")
    kept = listing("vector_add.sm_90")
    changed = Listing.from_text(kept.text.replace("FFMA R7, R2, UR6, R7", "FQUX R7, R2, UR6, R7"))
    with pytest.warns(
        UnsupportedWarning, match=r"line 102: FQUX R7, R2, UR6, R7 \(machine code, address 0x100 of saxpy\)"
    ) as told:
        outputs, executed = run(bundle, changed)
    assert "saxpy runs as PTX instead" in str(told[0].message)
    assert all(comparison.equal for comparison in bundle.compare(outputs))
    assert executed != int(bundle.metrics["smsp__inst_executed.sum"].value)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("S2R R0, SR_TID.X", "S2R R0, SR_MYSTERY", "the special register SR_MYSTERY is not known"),
        ("c[0x0][0x208]", "c[0x0][0x100]", r"what the driver puts at c\[0x0\]\[0x100\] is not known"),
        ("STG.E desc[UR4][R4.64], R7", "STG.E.QUX desc[UR4][R4.64], R7", "STG is known, but not with these modifiers"),
        ("FFMA R7, R2, UR6, R7", "FFMA R7, R2, UR6", "these operands are not known"),
        ("FFMA R7, R2, UR6, R7", "CALL.ABS.NOINC `(vscanf)", "vscanf is not in the machine code"),
    ],
)
def test_what_is_not_known_is_told(old: str, new: str, why: str) -> None:
    bundle = load_bundle(TRACES / "saxpy")
    kept = listing("vector_add.sm_90")
    assert old in kept.text
    module = RawModule(path=bundle.ptx_path)
    code = ModuleCode(module.tree, Listing.from_text(kept.text.replace(old, new)), 90)
    with pytest.raises(UnsupportedError, match=why):
        code.program("saxpy")


def test_the_program_says_what_profilers_need() -> None:
    bundle = load_bundle(TRACES / "saxpy")
    module = RawModule(path=bundle.ptx_path)
    program = ModuleCode(module.tree, listing("vector_add.sm_90"), 90).program("saxpy")
    at = program.opcodes.index("FFMA")
    assert program.where(at) == "vector_add.cu:12  ptx:102"
    assert (len(program.reads[at]), len(program.writes[at])) == (3, 1)
    assert program.timing[at] == "fma"
    assert program.registers_per_thread == 10
    load = program.memory[program.opcodes.index("LDG.E")]
    assert load is not None
    assert (load.kind, load.size) == ("load", 4)
    assert len(program.control) == len(program)
    fma = program.control[at]
    assert fma is not None
    assert (fma.stall, fma.yields, fma.wait) == (5, True, 1 << 2)


def test_scaled_and_uniform_addresses_reach_the_recorder() -> None:
    """A wavefront count needs the address of ``[R8.X4+UR4+0x80]``; the recorder computes it in 32 bits."""
    lanes = np.arange(32, dtype=np.uint32)
    access = MemoryAccess("load", SHARED, 4, 0, 1, scale=4, uniform=True)
    blocks = np.stack([lanes, np.full(32, 0xFFFF_FF80, np.uint32)])  # planes 0 and 1
    program = SimpleNamespace(code=np.zeros((1, 8), np.int64), memory=[access], opcodes=["LDS"], image=None)
    row = access_table(program)[0]  # type: ignore[arg-type]
    words = np.zeros(MAX_WORDS, np.int64)
    pool = np.array([0, 0x80, 128], np.int32)
    everyone = np.uint32(0xFFFF_FFFF)
    ctx = np.zeros(WORDS, np.int64)
    data = [array.ctypes.data for array in (words, row, pool, blocks, ctx)]
    arguments = (data[0], 0, data[1], 0, data[2], data[3], everyone, data[4])
    assert describe(*arguments) == 2
    assert words[0] == 1  # a word per bank
    blocks[0] *= 2
    describe(*arguments)
    assert words[0] == 2


def test_devices_that_run_machine_code_share_memory_with_their_twins() -> None:
    ptx, machine = tcsim.Device("h200"), tcsim.Device("h200", execute="machine")
    assert ptx is not machine
    assert ptx.memory is machine.memory
    assert "machine code" in repr(machine)
    with pytest.raises(DeviceError, match="'ptx' or 'machine'"):
        tcsim.Device("h200", execute="sass")  # type: ignore[arg-type]


def test_a_timed_launch_runs_ptx() -> None:
    bundle = load_bundle(TRACES / "vector_add_bits")
    with tcsim.Device(bundle.device, execute="machine"), tcsim.Profiler() as profiler:
        kernel = function(bundle, listing("vector_add.sm_90"))
        values = [tcsim.asarray(v) if isinstance(v, np.ndarray) else v for v in bundle.values()]
        kernel(bundle.grid, bundle.block, tuple(values))
    assert len(profiler.launches) == 1
