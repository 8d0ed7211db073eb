"""Rules of bulk copies that a kernel can break: fault codes beside those of :mod:`isa.machine`, and what to tell.

An H200 answers them with an illegal instruction or a misaligned address, and says no more. A text may name ``address`` and
``size``, the words that the fault recorded.
"""

from __future__ import annotations

__all__ = ["COPY_FAULTS"]

NO_MAP, WRONG_RANK, WRONG_MODE, INNER_COORDINATE, SHARED_ALIGNMENT, SIZE, NOT_REDUCIBLE, NO_CLUSTER, NO_RANK = range(40, 49)
NEGATIVE, OUTSIDE_CORNERS, CORNERS_OUTSIDE = 49, 50, 51

COPY_FAULTS = {
    NO_MAP: (
        "BAD TENSOR MAP",
        "the 128 bytes at {address:#x} are no tensor map. Is the parameter declared __grid_constant__, and was it made by "
        "tcsim.tensor_map_tiled, tensor_map_im2col or the driver?",
    ),
    WRONG_RANK: (
        "BAD TENSOR MAP",
        "the instruction is for a tensor of {size} dimensions, the map describes one of {address} (PTX ISA 9.7.9.25.5.2)",
    ),
    WRONG_MODE: (
        "BAD TENSOR MAP",
        "the instruction and the map differ: one is for boxes (.tile), the other for the pixels of a convolution (.im2col)",
    ),
    INNER_COORDINATE: (
        "BAD COORDINATE",
        "the first coordinate is {address}, in elements of {size} bytes, which is no multiple of 16 bytes, as a copy needs",
    ),
    SHARED_ALIGNMENT: (
        "MISALIGNED",
        "a tensor copy has the shared address {address:#x}; it needs a multiple of 128 (PTX ISA 9.7.9.25.5.2)",
    ),
    SIZE: (
        "BAD OPERAND",
        "a bulk copy of {address} bytes; the size is a multiple of 16 (PTX ISA 9.7.9.25.4.1)",
    ),
    NOT_REDUCIBLE: (
        "BAD TENSOR MAP",
        "the tensor's element type does not have this reduction (PTX ISA 9.7.9.25.5.3)",
    ),
    NO_CLUSTER: (
        "BAD OPERAND",
        "a copy from shared memory to that of a cluster needs a kernel launched with clusters (.reqnctapercluster, "
        "__cluster_dims__); without, an H200 stops with an illegal instruction",
    ),
    NEGATIVE: (
        "BAD COORDINATE",
        "coordinate {size} of a store or reduction is {address}; only loads may begin before the tensor",
    ),
    OUTSIDE_CORNERS: (
        "BAD COORDINATE",
        "coordinate {size} of an im2col copy is {address}, outside the box of pixels between the map's corners, where the copy "
        "must begin (PTX ISA 5.5.4.1)",
    ),
    CORNERS_OUTSIDE: (
        "BAD TENSOR MAP",
        "corner {address} of spatial dimension {size}: the box of pixels of an im2col map reaches out of the tensor. Only "
        "loads may use such a map; stores and reductions need lower corners from 0 on and upper corners up to 0, or an H200 "
        "stops with an illegal instruction",
    ),
    NO_RANK: (
        "BAD OPERAND",
        "the mask {address:#06x} of a multicast copy names CTAs that are not among the {size} of the cluster, or none",
    ),
}
