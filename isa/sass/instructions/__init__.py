"""Every machine instruction, by kind. Importing this package fills the registry (:mod:`isa.sass.registry`)."""

from isa.sass.instructions import (
    asynchronous,
    bulk,
    control,
    convert,
    double,
    floating,
    half,
    integer,
    logic,
    memory,
    shared_atomics,
    tensor,
    warp,
    warpgroup,
)

__all__ = [
    "asynchronous",
    "bulk",
    "control",
    "convert",
    "double",
    "floating",
    "half",
    "integer",
    "logic",
    "memory",
    "shared_atomics",
    "tensor",
    "warp",
    "warpgroup",
]
