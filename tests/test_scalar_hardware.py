"""Scalar instructions through PTX against an H200's recording: 1102 forms on adversarial operands, every word.

The default run takes every eighth form (they compile a kernel each); ``TCSIM_ALL_FORMS=1`` takes all.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import tcsim
from gpu_ref.scalar.forms import Probe, probes
from gpu_ref.scalar.inputs import operands
from gpu_ref.scalar.record import register_bits

RECORDED = Path(__file__).parents[1] / "traces" / "scalar" / "scalar.npz"
STEP = 1 if os.environ.get("TCSIM_ALL_FORMS") else 8
CHOSEN = [probe for number, probe in enumerate(probes()) if number % STEP == 3 % STEP]

_KERNEL = """
.version 8.6
.target sm_90
.address_size 64
.visible .entry probe(.param .u64 in, .param .u64 out, .param .u32 n)
{{
    .reg .pred p; .reg .b32 u, w32; .reg .b64 w64;
    .reg .b32 i, n; .reg .b64 address, step, target;
    {registers}
    ld.param.u64 address, [in];
    ld.param.u64 target, [out];
    ld.param.u32 n, [n];
    mov.u32 i, %ctaid.x;
    mov.u32 u, %ntid.x;
    mov.u32 w32, %tid.x;
    mad.lo.u32 i, i, u, w32;
    setp.ge.u32 p, i, n;
    @p ret;
    mul.wide.u32 step, i, 8;
    add.u64 address, address, step;
    add.u64 target, target, step;
    mul.wide.u32 step, n, 8;
    {loads}
    {ptx}
    {store}
    ret;
}}
"""


def _kernel(probe: Probe) -> str:
    registers, loads = [f".reg .b{register_bits(probe.result)} d;"], []
    for name, kind in zip("abc", probe.sources, strict=False):
        bits = register_bits(kind)
        registers.append(f".reg .b{bits} {name};")
        loads.append(f"ld.global.b{bits} {name}, [address];\n    add.u64 address, address, step;")
    text = _KERNEL.replace("ld.param.u32 n, [n]", "ld.param.u32 n, [count]").replace(".param .u32 n)", ".param .u32 count)")
    return text.format(
        registers=" ".join(registers),
        loads="\n    ".join(loads),
        ptx=probe.ptx,
        store=f"st.global.b{register_bits(probe.result)} [target], d;",
    )


@pytest.fixture(scope="module")
def recorded() -> dict[str, np.ndarray]:
    with np.load(RECORDED) as stored:
        return {name: stored[name] for name in stored.files if name != "provenance"}


def test_every_probe_was_recorded(recorded: dict[str, np.ndarray]) -> None:
    names = {probe.name for probe in probes()}
    assert names == set(recorded)
    assert len(names) >= 1100


@pytest.mark.parametrize("probe", CHOSEN, ids=lambda probe: probe.name)
def test_results_equal_the_hardware(probe: Probe, recorded: dict[str, np.ndarray]) -> None:
    columns = operands(probe)
    rows = len(columns[0])
    out = tcsim.zeros(rows, np.uint64)
    given = tcsim.asarray(np.concatenate(columns).astype(np.uint64))
    tcsim.RawKernel(_kernel(probe), "probe")((rows + 127) // 128, 128, (given, out, np.int32(rows)))
    want = recorded[probe.name]
    np.testing.assert_array_equal(out.get().astype(want.dtype), want)
