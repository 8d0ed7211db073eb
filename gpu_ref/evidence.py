"""What the recordings of a checkout cover, to ``isa/spec/evidence.toml``, which the support matrix is made from.

Needs no GPU; run from the root of the checkout after recording anything::

    python -m gpu_ref.evidence
"""

from __future__ import annotations

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import isa.spec
from gpu_ref.scalar.digests import read
from gpu_ref.scalar.every import SM
from gpu_ref.tensor.record import PROBES
from isa.errors import TcsimError
from isa.lower.callgraph import walk
from isa.ptx import ast, parse

__all__ = ["main", "opcodes_in"]

_ROOT = Path(__file__).parents[1]
_TRACES = _ROOT / "traces"
_WITHOUT_OUTPUTS = ("fresh.tar.xz", "held_out.tar.xz", "probes.tar.xz", "scoreboard.tar.xz")
"""Archives of launches that were recorded for their cycles; nobody compared what they wrote."""


def opcodes_in(text: str) -> set[str]:
    """Every opcode in a PTX module."""
    return {
        statement.opcode
        for function in parse(text).functions
        if function.body is not None
        for statement in walk(function.body)
        if isinstance(statement, ast.Instruction)
    }


def _modules() -> Iterator[str]:
    """The PTX whose launches were recorded and are compared byte for byte by the tests."""
    for path in sorted(_TRACES.rglob("*.ptx")):
        yield path.read_text()
    for path in sorted(set(_TRACES.glob("*.tar.xz")) - {_TRACES / name for name in _WITHOUT_OUTPUTS}):
        with tarfile.open(path) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name.endswith(".ptx") else None
                if file is not None:
                    yield io.TextIOWrapper(file).read()
    yield from (probe.ptx for probe in PROBES)


def main() -> int:
    """Write the file. Returns 2 where a module cannot be parsed."""
    found: set[str] = set()
    try:
        for text in _modules():
            found |= opcodes_in(text)
    except TcsimError as problem:
        print(problem, file=sys.stderr)
        return 2
    count = len(read(_TRACES / "scalar" / "every.npz"))
    lines = [
        "# What recordings cover; written by python -m gpu_ref.evidence.",
        "[scalar]",
        f"sm = {SM}",
        f'source = "traces/scalar: each of {count:,} forms of sm_{SM} on 3,072 operand rows of an H200, driver 580.159.04"',
        "",
        "[kernels]",
        'source = "kernels whose every output byte an H200 gave (traces)"',
        "opcodes = [",
        *(f'    "{opcode}",' for opcode in sorted(found)),
        "]",
    ]
    path = Path(isa.spec.__file__).parent / "evidence.toml"
    path.write_text("\n".join(lines) + "\n")
    print(f"{path.relative_to(_ROOT)}: {len(found)} opcodes in kernels, {count} scalar forms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
