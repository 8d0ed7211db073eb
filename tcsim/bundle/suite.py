"""Suite files: which launches to record, one TOML table each.

::

    [softmax_rows]
    description = "row softmax: shuffles and ex2.approx"
    ptx = "kernels/softmax.ptx"      # relative to the suite file
    entry = "softmax_rows"           # the table's name if left out
    grid = [64]                      # one to three numbers
    block = [128]
    shared_mem = 0                   # bytes of dynamic shared memory
    fmad = true
    [softmax_rows.arguments]         # in the kernel's order; see tcsim.bundle.arguments
    x = "f32[256,1024]:normal(0,4)"
    y = "out f32[256,1024]"
    rows = "i32:256"

A suite says nothing about results: each launch becomes a :class:`~.schema.Bundle` without outputs.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from .arguments import parse_argument
from .errors import ArgumentError, BundleError
from .schema import Bundle, Dim3, check_names

__all__ = ["load_suite"]

KEYS: dict[str, type | tuple[type, ...]] = {
    "description": str,
    "ptx": str,
    "entry": str,
    "grid": (int, list),
    "block": (int, list),
    "shared_mem": int,
    "cluster": (int, list),
    "fmad": bool,
    "arguments": dict,
}


def load_suite(path: str | Path) -> list[Bundle]:
    """The launches of the suite file ``path``, in its order. Raises :class:`BundleError`."""
    path = Path(path)
    if not path.is_file():
        raise BundleError(f"there is no suite file {path}")
    try:
        tables = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise BundleError(f"{path}: not TOML: {error}") from None
    return [_launch(name, table, path) for name, table in tables.items()]


def _launch(name: str, table: Any, path: Path) -> Bundle:
    where = f"{path}: [{name}]"
    if not isinstance(table, dict):
        raise BundleError(f"{where} must be a table")
    for key, value in table.items():
        if key not in KEYS:
            raise BundleError(f"{where}: unknown key {key!r}; the keys are {', '.join(sorted(KEYS))}")
        if not isinstance(value, KEYS[key]):
            raise BundleError(f"{where}: {key!r} cannot be {value!r}")
    for key in ("ptx", "grid", "block", "arguments"):
        if key not in table:
            raise BundleError(f"{where}: the key {key!r} is missing")
    arguments = []
    for position, (argument, spec) in enumerate(table["arguments"].items()):
        try:
            arguments.append(parse_argument(str(spec), position, name=argument))
        except ArgumentError as error:
            raise BundleError(f"{where} {argument}: {error}") from None
    check_names(arguments, where)
    return Bundle(
        name=name,
        ptx=table["ptx"],
        entry=table.get("entry", name),
        grid=_dim3(table["grid"], f"{where}: grid"),
        block=_dim3(table["block"], f"{where}: block"),
        arguments=tuple(arguments),
        folder=path.parent,
        shared_mem=table.get("shared_mem", 0),
        cluster=_dim3(table["cluster"], f"{where}: cluster") if "cluster" in table else None,
        fmad=table.get("fmad", True),
        description=table.get("description", ""),
    )


def _dim3(value: Any, where: str) -> Dim3:
    numbers = value if isinstance(value, list) else [value]
    if not 1 <= len(numbers) <= 3 or not all(type(n) is int and n > 0 for n in numbers):
        raise BundleError(f"{where} must be one to three whole numbers above 0, found {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z
