"""What machine code executes, opcode by opcode, against an H200's counters (``traces/opcodes.json``, recorded with ncu).

Left out are launches whose warps separate and meet again: how often a group comes to a place of convergence depends on time
there, by up to 1 %, and so does the recording, whose instrumentation takes time.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import tcsim
from isa.program import Program
from tcsim.bundle import load_bundle
from tcsim.execute.cta import CtaSlot, Geometry
from tcsim.execute.interpreter import Outcome
from tcsim.execute.recorder import new_recorder
from tcsim.launch.arguments import pack_arguments
from tcsim.launch.banks import complete_banks

TRACES = Path(__file__).parents[1] / "traces"
RECORDED = json.loads((TRACES / "opcodes.json").read_text())["launches"]

NAMES = ["saxpy", "half2_math_bits", "block_scan", "layernorm", "warp_votes", "gemm_f16_small", "cosine_f64", "polynomial"]


def counts(name: str) -> tuple[Program, np.ndarray]:
    """Per instruction of a launch: warps, active threads, and threads whose guard held; int64 [n, 3]."""
    bundle = load_bundle(TRACES / name)
    with tcsim.Device(bundle.device, execute="machine") as device:
        module = tcsim.RawModule(path=bundle.ptx_path, fmad=bundle.fmad)
        for listing in bundle.listing_paths:
            module.attach_listing(listing)
        function = module.get_function(bundle.entry)
        values = [tcsim.asarray(v) if isinstance(v, np.ndarray) else v for v in bundle.values()]
        program = function.program
        loaded = function._load(device, program)
        parameters = pack_arguments(program.name, program.parameters, program.param_size, tuple(values), device)
        geometry = Geometry(bundle.grid, bundle.block, bundle.shared_mem)
        assert program.image is not None
        complete_banks(program.image, parameters, geometry, loaded.symbols, device.memory, device.arch.limits.sms)
        counted = np.zeros((len(program), 3), np.int64)
        recorder = new_recorder(program, geometry.warps, 4096, int(loaded.pool.ctypes.data), counted)
        slot = CtaSlot(loaded, geometry, device.memory, parameters, sm_count=device.arch.limits.sms, recorder=recorder)
        for number in range(geometry.ctas):
            slot.start(number)
            while slot.run(1 << 20) != Outcome.DONE:
                recorder.used[:] = 0
            recorder.used[:] = 0
    return program, counted


@pytest.mark.parametrize("name", NAMES)
def test_every_opcode_is_executed_as_often_as_on_an_h200(name: str) -> None:
    program, counted = counts(name)
    warps, threads = Counter[str](), Counter[str]()
    for opcode, (executed, _, on) in zip(program.opcodes, counted.tolist(), strict=True):
        if executed:
            warps[opcode] += executed
            threads[opcode] += on
    recorded = RECORDED[name]["opcodes"]
    again = 32 if name == "warp_votes" else 0  # WARPSYNC issued twice is counted once by opcode
    if again:
        warps["WARPSYNC"] -= again
        threads["WARPSYNC"] -= 32 * again
    assert dict(warps) == {opcode: value for opcode, (value, _) in recorded.items() if value}
    on_threads = {opcode: value for opcode, (_, value) in recorded.items() if value}
    assert {opcode: value for opcode, value in threads.items() if value} == on_threads
    assert int(counted[:, 0].sum()) == RECORDED[name]["counters"]["smsp__inst_executed.sum"]
    assert int(counted[:, 1].sum()) == RECORDED[name]["counters"]["smsp__thread_inst_executed.sum"]
