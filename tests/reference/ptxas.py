"""What the real assembler says: which of many one-line instructions it accepts for a target."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

PTXAS = shutil.which("ptxas")

REGISTERS = {1: "p", 8: "h", 16: "h", 32: "r", 64: "l"}
"""First letter of the registers that a line may use, by width in bits: ``h0`` to ``h7`` and so on;
``c0`` to ``c7`` are the registers of 8 bits that few instructions take."""

_HEADER = """.version {version}
.target {target}
.address_size 64
.visible .entry k()
{{
.reg .pred p<8>;
.reg .b8 c<8>;
.reg .b16 h<8>;
.reg .b32 r<8>;
.reg .b64 l<8>;
"""
_MESSAGE = re.compile(r"line (\d+);\s*(?:error|fatal)\s*:\s*(.*)")


def refused(lines: Sequence[str], target: str, folder: Path, start: str = _HEADER) -> dict[int, str]:
    """The lines that ptxas does not accept for a target, by index, with its message. ``start``: the text before them."""
    assert PTXAS is not None
    found: dict[int, str] = {}
    header = start.format(target=target, version="9.0")
    source, cubin = folder / "k.ptx", folder / "k.cubin"
    while True:  # some errors are only looked for once there are no others
        alive = [index for index in range(len(lines)) if index not in found]
        source.write_text(header + "\n".join(lines[index] for index in alive) + "\nret;\n}\n")
        command = [PTXAS, "-O0", "-arch", target, "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return found
        new = {alive[int(m[1]) - header.count("\n") - 1]: m[2] for m in _MESSAGE.finditer(done.stderr + done.stdout)}
        assert new, done.stderr[:2000]
        found |= new
