"""NVIDIA's assembler and disassembler, ptxas and nvdisasm, where they are installed. Neither needs a GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from isa.errors import TcsimError

__all__ = ["AssemblerError", "find_nvdisasm", "find_ptxas", "ptxas_version", "run_ptxas"]

_CRASH_RETRIES = 5
"""ptxas 13.0 with -lineinfo sometimes dies of a corrupted heap and works when tried again (about one run in a hundred)."""

_PACKAGES = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}


class AssemblerError(TcsimError):
    """ptxas or nvdisasm is missing, or refused its input; the message holds what it said."""


def _find(tool: str) -> Path | None:
    return next((path for path in _candidates(tool) if path.is_file()), None)


def _candidates(tool: str) -> Iterator[Path]:
    on_path = shutil.which(tool)
    if on_path:
        yield Path(on_path)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / tool
    yield Path("/usr/local/cuda/bin") / tool
    # The pip packages nvidia-cuda-nvcc and nvidia-cuda-nvdisasm.
    yield from sorted(Path(sysconfig.get_paths()["purelib"]).glob(f"nvidia/*/bin/{tool}"))


def find_ptxas() -> Path | None:
    """The first ptxas found on the PATH, in a CUDA installation or in the pip package, or None."""
    return _find("ptxas")


def find_nvdisasm() -> Path | None:
    """The first nvdisasm found on the PATH, in a CUDA installation or in the pip package, or None."""
    return _find("nvdisasm")


def required(tool: str) -> Path:
    """The path of ``ptxas`` or ``nvdisasm``. Raises AssemblerError saying what to install, and what works without."""
    path = _find(tool)
    if path is None:
        raise AssemblerError(
            f"{tool} is not installed, and machine code needs it: pip install {_PACKAGES[tool]} brings it; running PTX "
            "(without --machine) needs neither"
        )
    return path


@cache
def ptxas_version(ptxas: Path) -> str:
    """Such as ``13.0.88``. Raises AssemblerError if it does not answer."""
    answer = subprocess.run([str(ptxas), "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\bV(\d+\.\d+\.\d+)", answer)
    if match is None:
        raise AssemblerError(f"{ptxas} --version does not look like ptxas: {answer.strip()[:200]!r}")
    return match.group(1)


def run_ptxas(ptxas: Path, ptx: Path, cubin: Path, target: str, *options: str) -> None:
    """Assemble a file, trying again where ptxas itself crashes. Raises AssemblerError with ptxas's own words."""
    command = [str(ptxas), f"-arch={target}", *options, str(ptx), "-o", str(cubin)]
    for _ in range(_CRASH_RETRIES):
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode >= 0 and "glibc" not in answer.stderr:
            break
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip() or f"it died with signal {-answer.returncode}"
        raise AssemblerError(f"ptxas refuses {ptx.name} for {target}:\n{said[:2000]}")
