"""Bundles: a kernel launch with its arguments, and the hardware's outputs and metrics to compare with.

:func:`load_bundle` and :func:`save_bundle` read and write them, :func:`load_suite` reads lists of launches to record,
:func:`parse_argument` reads one argument specification, and :meth:`Bundle.compare` says whether results are the hardware's.
"""

from __future__ import annotations

from .arguments import Argument, Role, parse_argument
from .dtypes import DTYPES, DType, find_dtype
from .errors import ArgumentError, BundleError
from .floats import decode, encode
from .generators import GENERATORS, generate
from .outputs import Comparison, RecordedOutput, compare, record_output
from .schema import SCHEMA_VERSION, Bundle, Metric, load_bundle, save_bundle
from .suite import load_suite

__all__ = [
    "DTYPES",
    "GENERATORS",
    "SCHEMA_VERSION",
    "Argument",
    "ArgumentError",
    "Bundle",
    "BundleError",
    "Comparison",
    "DType",
    "Metric",
    "RecordedOutput",
    "Role",
    "compare",
    "decode",
    "encode",
    "find_dtype",
    "generate",
    "load_bundle",
    "load_suite",
    "parse_argument",
    "record_output",
    "save_bundle",
]
