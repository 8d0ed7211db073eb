"""Atomics, matrix moves, shuffles, votes and barriers against an H200, each as real PTX through the whole of tcsim.

The recording is made by ``python -m gpu_ref.tensor.record``; the same PTX and inputs run here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tcsim
from gpu_ref.tensor import kernels, probes
from gpu_ref.tensor.inputs import FORMS, classes, fragments, operands
from gpu_ref.tensor.record import PROBES, SEED, recorded_warps
from isa.tensor import MmaForm, make_plan

FOLDER = Path(__file__).resolve().parents[1] / "traces" / "vectors"


@cache
def recording(name: str) -> dict[str, NDArray[np.unsignedinteger]]:
    with np.load(FOLDER / f"{name}.npz") as arrays:
        return dict(arrays)


def test_the_recording_is_of_these_probes() -> None:
    assert {*recording("executed")} == {probe.name for probe in PROBES}


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_probe(probe: probes.Probe) -> None:
    out = tcsim.zeros(probe.out_words, np.uint32)
    kernel = tcsim.RawModule(code=probe.ptx).get_function(probes.ENTRY)
    kernel((probe.grid,), (probe.block,), (tcsim.asarray(probe.data), out))
    np.testing.assert_array_equal(tcsim.asnumpy(out), recording("executed")[probe.name])


def one_of_each_kernel() -> list[MmaForm]:
    """A form of ``mma`` and one of ``wmma`` for every kind of arithmetic."""
    return list({(form.instruction, make_plan(form, 90).kernel.__name__): form for form in FORMS}.values())


@pytest.mark.parametrize("form", one_of_each_kernel(), ids=str)
def test_matrix_instruction_in_a_kernel(form: MmaForm) -> None:
    """What the kernels of :mod:`isa.tensor` are tested for holds for a whole program too: registers are wired up right."""
    case = classes(form)[0]
    inputs = operands(form, case, SEED, 0, recorded_warps(form))
    warps = kernels.WARPS_PER_CTA
    d = tcsim.zeros((warps, fragments(form)["d"].registers, 32), inputs.a.dtype)
    kernel = tcsim.RawModule(code=kernels.form_ptx(form)).get_function(kernels.ENTRY)
    kernel((1,), (32 * warps,), (*(tcsim.asarray(x[:warps]) for x in inputs), d))
    np.testing.assert_array_equal(tcsim.asnumpy(d), recording(form.instruction)[str(form)][0][:warps])
