"""ptxas as a recording uses it: to give the GPU machine code of a known assembler."""

from __future__ import annotations

import re
from pathlib import Path

from isa.sass.toolchain import AssemblerError, find_ptxas, ptxas_version, run_ptxas

__all__ = ["AssemblerError", "assemble", "find_ptxas", "ptxas_version"]


def assemble(ptx: Path, cubin: Path, architecture: str, fmad: bool = True) -> str:
    """Assemble file ``ptx`` into file ``cubin`` for ``architecture`` (``sm_90``) and return ptxas's version.

    PTX whose ``.target`` is architecture-specific (``sm_90a``) is assembled for that target. ``fmad`` False keeps
    multiplications and additions apart. Raises :class:`AssemblerError`.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        raise AssemblerError("ptxas is not installed; pip install nvidia-cuda-nvcc brings it")
    specific = re.search(r"^\s*\.target\s+(sm_\d+[af])\b", ptx.read_text(), re.MULTILINE)
    target = specific.group(1) if specific else architecture
    run_ptxas(ptxas, ptx, cubin, target, f"--fmad={'true' if fmad else 'false'}")
    return ptxas_version(ptxas)
