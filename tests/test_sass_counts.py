"""What machine code executes, opcode by opcode, against an H200's counters (``traces/opcodes.json``, recorded with ncu): warps,
threads, branches and how many diverge, requests to global memory and sectors.

In loops that lanes leave one by one, groups that stand at the same BSYNC execute it together, as the order says in which they
run (:func:`tcsim.execute.groups.follow`): in collatz 101,109 times for 101,129 groups that come to it, as on an H200 (with a
recorder 12 times more).
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
from tcsim.execute.recorder import Recorder, new_counts, new_recorder
from tcsim.launch.arguments import pack_arguments
from tcsim.launch.banks import complete_banks

TRACES = Path(__file__).parents[1] / "traces"
RECORDED = json.loads((TRACES / "opcodes.json").read_text())["launches"]

NAMES = [
    *("saxpy", "half2_math_bits", "block_scan", "layernorm", "warp_votes", "gemm_f16_small", "cosine_f64", "polynomial"),
    *("bytecode", "collatz", "hash_rounds", "histogram_u8", "insertion_sort"),
]

MET = {"insertion_sort": 56, "collatz": 8}
TURNS = {"collatz": 8}  # of 1,257,086, for the turns of 1,024 instructions that groups have in runs that are recorded

# Which counter of requests and sectors an opcode adds to, and where in a record's payload the sectors stand: behind the
# wavefronts of the shared memory that a copy goes to.
OPERATIONS = {"LDG": ("ld", 0), "LDGSTS": ("ld", 2), "STG": ("st", 0), "ATOMG": ("atom", 0), "RED": ("red", 0)}
TARGETS = ("BRA", "BRX", "CALL", "RET")


class Traffic:
    """Requests to global memory and sectors by operation, from what a launch recorded."""

    def __init__(self, program: Program) -> None:
        bases = [opcode.partition(".")[0] for opcode in program.opcodes]
        self.operation = {pc: OPERATIONS[base] for pc, base in enumerate(bases) if base in OPERATIONS}
        self.counts = Counter[str]()

    def add(self, recorder: Recorder) -> None:
        """Count what is in the buffers, and empty them."""
        for warp in range(len(recorder.used)):
            count = recorder.used[warp, 0]
            pcs = recorder.pcs[warp, :count]
            executing, payload = recorder.executing[warp, :count], recorder.payload[warp, :count]
            for pc in set(pcs.tolist()) & self.operation.keys():
                name, at = self.operation[pc]
                places = payload[(pcs == pc) & (executing != 0)]
                self.counts[f"requests {name}"] += len(places)
                self.counts[f"sectors {name}"] += int(recorder.words[warp, places + at].sum())
        recorder.used[:] = 0


def counts(name: str) -> tuple[Program, np.ndarray, Counter[str]]:
    """What a launch counted by instruction (:func:`.new_counts`), and its traffic."""
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
        counted = new_counts(program)
        recorder = new_recorder(program, geometry.warps, 4096, int(loaded.pool.ctypes.data), counted)
        traffic = Traffic(program)
        slot = CtaSlot(loaded, geometry, device.memory, parameters, sm_count=device.arch.limits.sms, recorder=recorder)
        for number in range(geometry.ctas):
            slot.start(number)
            while slot.run(1 << 20) != Outcome.DONE:
                traffic.add(recorder)
            traffic.add(recorder)
    return program, counted, traffic.counts


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_executed_as_often_as_on_an_h200(name: str) -> None:
    program, counted, traffic = counts(name)
    warps, threads = Counter[str](), Counter[str]()
    for opcode, (executed, _, on, _, again, on_again) in zip(program.opcodes, counted.tolist(), strict=True):
        if executed:  # what is issued again is in the sums of all instructions, not in the counts by opcode
            warps[opcode] += executed - again
            threads[opcode] += on - on_again
    total = int(counted[:, 0].sum())
    opcodes, counters = RECORDED[name]["opcodes"], RECORDED[name]["counters"]
    # The counts by opcode come from code that Nsight Compute has rewritten, in which lanes meet a little earlier.
    warps["BSYNC"] -= MET.get(name, 0)
    assert +warps == {opcode: value for opcode, (value, _) in opcodes.items() if value}
    for opcode, (_, value) in opcodes.items():
        assert threads[opcode] == value or (opcode == "BSYNC" and name in MET), opcode
    targets = sum(count for opcode, count in warps.items() if opcode.partition(".")[0] in TARGETS)
    assert targets == counters["smsp__sass_branch_targets.sum"]
    jumps = [pc for pc, opcode in enumerate(program.opcodes) if opcode.partition(".")[0] in TARGETS]
    assert counted[jumps, 3].sum() == counters["smsp__sass_branch_targets_threads_divergent.sum"]
    for operation in ("ld", "st", "atom", "red"):
        for what in ("requests", "sectors"):
            key = f"l1tex__t_{what}_pipe_lsu_mem_global_op_{operation}.sum"
            assert traffic[f"{what} {operation}"] == counters.get(key, 0), key
    assert total == counters["smsp__inst_executed.sum"] + TURNS.get(name, 0)
    if name not in TURNS:
        assert int(counted[:, 1].sum()) == counters["smsp__thread_inst_executed.sum"]
