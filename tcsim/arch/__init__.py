"""The GPUs that tcsim knows, by name."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from tcsim.arch.spec import Arch, Limits, Memory
from tcsim.arch.timing_spec import Chip, Timing
from tcsim.errors import DeviceError

__all__ = [
    "Arch",
    "Chip",
    "Limits",
    "Memory",
    "Timing",
    "arch_names",
    "find_arch",
    "find_timing",
    "load_arch",
    "load_chip",
]

_FOLDER = Path(__file__).parent
_T = TypeVar("_T")


def _load(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), kind)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as problem:
        raise DeviceError(f"{path}: {problem}") from None


def load_arch(path: Path) -> Arch:
    """Read one description. Raises DeviceError naming the key for anything missing, unknown or of the wrong type."""
    return _load(path, Arch)


def load_chip(path: Path) -> Chip:
    """Read the timing tables of one die. Raises DeviceError as :func:`load_arch` does."""
    return _load(path, Chip)


@cache
def _known() -> dict[str, Arch]:
    return {arch.name: arch for arch in map(load_arch, sorted(_FOLDER.glob("*.toml")))}


@cache
def _chips() -> dict[str, Chip]:
    return {chip.name: chip for chip in map(load_chip, sorted((_FOLDER / "chips").glob("*.toml")))}


@cache
def _aliases() -> dict[str, str]:
    return {alias: arch.name for arch in _known().values() for alias in arch.aliases}


def arch_names() -> tuple[str, ...]:
    """Canonical names, oldest compute capability first."""
    return tuple(sorted(_known(), key=lambda name: (_known()[name].sm, name)))


def find_arch(name: str) -> Arch:
    """The GPU called ``name``: a product (``h200``), an architecture (``hopper``) or a target (``sm_90``); or the one that a
    file describes (``mine.toml``, as ``python -m gpu_ref bench --device-file`` writes it).

    Raises DeviceError with what is known if there is none.
    """
    if name.endswith(".toml"):
        return _described(Path(name).resolve())
    key = name.lower().strip()
    arch = _known().get(_aliases().get(key, key))
    if arch is None:
        names = ", ".join(arch_names())
        raise DeviceError(f"unknown device {name!r}; known: {names}; also {', '.join(sorted(_aliases()))}")
    return arch


@cache
def _described(path: Path) -> Arch:
    try:
        arch = load_arch(path)
    except OSError as problem:
        raise DeviceError(f"cannot read the device file {path}: {problem.strerror}") from None
    if arch.name in _known() or arch.name in _aliases():
        raise DeviceError(f"{path}: name = {arch.name!r} is that of a GPU that tcsim brings; give it another")
    return arch


def find_timing(arch: Arch) -> Timing:
    """The timing tables of a GPU. Raises DeviceError if it has none: its kernels run, but cannot be profiled."""
    board = arch.timing
    if board is None:
        timed = ", ".join(name for name in arch_names() if _known()[name].timing is not None)
        raise DeviceError(
            f"{arch.name} has no timing tables: kernels run on it, but without cycles. Devices with timing: {timed}. "
            f"Try with tcsim.Device({timed.split(', ')[0]!r}), or launch outside the profiler"
        )
    chip = arch.chip if arch.chip is not None and arch.chip.name == board.chip else _chips().get(board.chip)
    if chip is None:
        raise DeviceError(f"{arch.name}: unknown chip {board.chip!r}; known: {', '.join(_chips())}")
    return Timing(chip, board.clocks, board.l2, board.dram)
