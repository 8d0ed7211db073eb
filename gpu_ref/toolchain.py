"""ptxas, NVIDIA's assembler, where there is one. It needs no GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from isa.errors import TcsimError

__all__ = ["AssemblerError", "assemble", "find_ptxas", "ptxas_version"]


class AssemblerError(TcsimError):
    """ptxas is missing, or refused the PTX; the message holds what it said."""


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("ptxas")
    if on_path:
        yield Path(on_path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / "ptxas"
    yield Path("/usr/local/cuda/bin/ptxas")
    # The pip package nvidia-cuda-nvcc.
    yield from sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/bin/ptxas"))


def find_ptxas() -> Path | None:
    """The first ptxas found on the PATH, in a CUDA installation or in the pip package, or None."""
    return next((path for path in _candidates() if path.is_file()), None)


def ptxas_version(ptxas: Path) -> str:
    """Such as ``13.0.88``. Raises :class:`AssemblerError` if it does not answer."""
    answer = subprocess.run([str(ptxas), "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\bV(\d+\.\d+\.\d+)", answer)
    if match is None:
        raise AssemblerError(f"{ptxas} --version does not look like ptxas: {answer.strip()[:200]!r}")
    return match.group(1)


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
    command = [str(ptxas), f"-arch={target}", f"--fmad={'true' if fmad else 'false'}", str(ptx), "-o", str(cubin)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise AssemblerError(
            f"ptxas refuses {ptx.name} for {target}:\n{(answer.stderr or answer.stdout).strip()[:2000]}"
        )
    return ptxas_version(ptxas)
