"""``tcsim check`` of kernels with ``wgmma``: what is read through matrix descriptors is looked at, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcsim
from isa.tensor.matrix_descriptor import Descriptor
from tests.test_wgmma_execute import KERNEL

FINE = Descriptor(0, 128, 256)


def check(text: str, descriptor: Descriptor = FINE, **more: Any) -> tcsim.CheckReport:
    function = tcsim.RawModule(code=text).get_function("k")
    arguments = (tcsim.zeros((2, 256, 4), np.float32), np.uint64(descriptor.encode()))
    return tcsim.check(function, 1, 128, arguments, **more)


def kernel(between: str = "", barrier: bool = True, after: str = "") -> str:
    text = KERNEL.format(directives="", between=between, guard="", scale="0", negate=1)
    if not barrier:
        text = text.replace("    bar.sync 0;\n", "")
    return text.replace("    wgmma.wait_group.sync.aligned 0;\n", f"    wgmma.wait_group.sync.aligned 0;\n    {after}\n")


def test_a_kernel_that_is_right() -> None:
    assert check(kernel()).ok
    assert check(kernel(after="bar.sync 0; st.shared.b16 [%r4], %h;")).ok


def test_without_a_barrier_between_stores_and_wgmma() -> None:
    report = check(kernel(barrier=False))
    (hazard, *_) = [h for h in report.hazards if h.kind == "RACE"]
    assert {a.opcode.split(".")[0] for a in hazard.accesses} == {"st", "wgmma"}, report.text()


def test_overwritten_behind_a_wait_for_fewer_groups() -> None:
    text = kernel(after="bar.sync 0; st.shared.b16 [%r4], %h;")
    assert check(text).ok
    report = check(text.replace("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;"))
    assert set(report.kinds()) == {"IN FLIGHT", "PRODUCT REGISTER"}, report.text()


@pytest.mark.parametrize("descriptor", [Descriptor(256, 128, 256), Descriptor(0, 512, 256)], ids=["start", "leading offset"])
def test_a_descriptor_that_leads_to_what_nobody_wrote(descriptor: Descriptor) -> None:
    report = check(kernel(), descriptor)
    assert "UNINITIALISED" in report.kinds()
    assert "wgmma" in report.text(), report.text()


def test_outside_shared_memory() -> None:
    assert "OUT OF BOUNDS" in check(kernel(), Descriptor(0x3000, 128, 256)).kinds()
