"""Bulk and tensor copies as machine code: the kernels of :mod:`tests.test_bulk_copies` again.

A kernel that cannot be executed so would warn, which is an error here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tcsim
from isa.sass.registry import find_opcode
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tests import test_bulk_copies as copies
from tests.test_bulk_copies import matrix  # noqa: F401  (a fixture)


@pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")
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


def test_copies_with_offsets_of_pixels_are_refused_by_name() -> None:
    assert find_opcode("UTMALDG.2D")[1] == ""
    assert find_opcode("UTMALDG.4D.IM2COL") == ([], "UTMALDG is known, but not with these modifiers")
