"""Bulk and tensor copies as machine code: the kernels of :mod:`tests.test_bulk_copies` again.

A kernel that cannot be executed so would warn, which is an error here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tests import test_bulk_copies as copies
from tests.test_bulk_copies import matrix  # noqa: F401  (a fixture)

pytestmark = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")


@pytest.mark.parametrize(
    "check",
    [
        copies.test_a_box_across_the_edge_is_filled_with_zeros,
        copies.test_a_swizzled_box_exchanges_chunks_of_16_bytes,
        copies.test_a_reduction_adds_to_the_tensor,
        copies.test_multicast_reaches_the_ctas_of_the_mask,
    ],
)
def test_machine_code_copies_what_ptx_copies(check: Callable[[Any], None], matrix: Any) -> None:  # noqa: F811
    with tcsim.Device("h200", execute="machine"):
        check(matrix)


def test_pixels_are_loaded_with_offsets() -> None:
    with tcsim.Device("h200", execute="machine"):
        copies.test_im2col_copies_begin_inside_the_box_of_pixels()


def test_blocks_are_combined_with_device_memory() -> None:
    body = """
    ld.param.u64 %rd2, [out];
    st.shared.f64 [%r1], 0d3FF8000000000000; st.shared.f64 [%r1+8], 0d4000000000000000;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64 [%rd2], [%r1], 16;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%rd2+16], [%r1], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""
    with tcsim.Device("h200", execute="machine"):
        out = tcsim.asarray(np.array([1.0, 2.0, -3.0, 0.5]))
        copies.run(copies.kernel(body, ".param .u64 out"), out)
        assert out.get()[:2].tolist() == [2.5, 4.0]
        words = np.maximum(np.array([-3.0, 0.5]).view(np.int32), np.array([1.5, 2.0]).view(np.int32))
        np.testing.assert_array_equal(out.get()[2:].view(np.int32), words)
