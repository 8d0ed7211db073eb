"""Checks of a launch against the kernel and the device, before anything runs."""

from __future__ import annotations

from typing import Any

from isa.machine import MOST_CTAS
from isa.program import Program
from tcsim.arch import Arch
from tcsim.errors import LaunchError

__all__ = ["check_launch", "cluster_extents", "dim3"]

Dim3 = tuple[int, int, int]
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_BLOCK = (1024, 1024, 64)


def dim3(value: Any, what: str) -> Dim3:
    """A 1-, 2- or 3-tuple (or an int) as three extents. Raises LaunchError for anything else or an extent below 1."""
    items = (value,) if isinstance(value, int) or hasattr(value, "__index__") else tuple(value)
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"{what} {value!r}: one to three extents, such as (128,) or (16, 16, 1)")
    try:
        numbers = [int(item.__index__()) for item in items]
    except AttributeError:
        raise LaunchError(f"{what} {value!r}: extents must be integers") from None
    if min(numbers) < 1:
        raise LaunchError(f"{what} {tuple(numbers)}: every extent must be at least 1")
    numbers += [1] * (3 - len(numbers))
    return numbers[0], numbers[1], numbers[2]

WARPGROUP = 128
"""Threads of a warpgroup."""

_WARPGROUP_OPCODES = ("wgmma.mma_async", "HGMMA", "QGMMA", "IGMMA", "BGMMA")


def check_launch(program: Program, arch: Arch, grid: Dim3, block: Dim3, dynamic_shared: int, opted_in: int) -> None:
    """Raise LaunchError if the device cannot run this shape. ``opted_in`` is the kernel's max_dynamic_shared_size_bytes."""
    name = program.name
    for axis, extent, most in zip("xyz", grid, MAX_GRID, strict=True):
        if extent > most:
            raise LaunchError(f"kernel {name}: grid {axis} is {extent}, at most {most:,}")
    for axis, extent, most in zip("xyz", block, MAX_BLOCK, strict=True):
        if extent > most:
            raise LaunchError(f"kernel {name}: block {axis} is {extent}, at most {most}")
    threads = block[0] * block[1] * block[2]
    if threads > arch.limits.max_threads_per_cta:
        raise LaunchError(f"kernel {name}: {threads} threads per CTA, {arch.name} allows {arch.limits.max_threads_per_cta}")
    if threads < WARPGROUP and any(opcode.startswith(_WARPGROUP_OPCODES) for opcode in program.opcodes):
        raise LaunchError(
            f"kernel {name} multiplies with wgmma, which four whole warps execute together (PTX ISA 9.7.15.1); a block of "
            f"{threads} threads has no warpgroup. Try a block of {WARPGROUP}"
        )
    _check_declared(program, block, threads)
    _check_shared(program, arch, dynamic_shared, opted_in)


def cluster_extents(program: Program, arch: Arch, grid: Dim3, asked: Dim3 | None) -> Dim3 | None:
    """The extents of a cluster in a launch: those that the kernel declares (.reqnctapercluster, ``__cluster_dims__``), or those
    asked for; None without clusters. Raises LaunchError where the two differ or the device cannot do it."""
    name = program.name
    required = program.directives.get("reqnctapercluster")
    cluster = asked
    if required:
        declared: Dim3 = (*required, 1, 1)[:3]  # type: ignore[assignment]
        if asked is not None and asked != declared:
            raise LaunchError(f"kernel {name} was compiled for clusters of {declared} (.reqnctapercluster); got {asked}")
        cluster = declared
    if cluster is None:
        if "explicitcluster" in program.directives:
            raise LaunchError(f"kernel {name} is launched with clusters only (.explicitcluster): give cluster=(2, 1, 1)")
        return None
    if arch.sm < 90:
        raise LaunchError(f"kernel {name}: clusters need sm_90; {arch.name} is sm_{arch.sm}")
    size = cluster[0] * cluster[1] * cluster[2]
    most = (program.directives.get("maxclusterrank") or (MOST_CTAS,))[0]
    if size > most:
        raise LaunchError(f"kernel {name}: clusters of {size} CTAs; at most {most} here (8 on every device with clusters)")
    if any(extent % part for extent, part in zip(grid, cluster, strict=True)):
        raise LaunchError(f"kernel {name}: the grid {grid} is not a whole number of clusters of {cluster}")
    return cluster


def _check_declared(program: Program, block: Dim3, threads: int) -> None:
    required = program.directives.get("reqntid")
    if required:
        wanted = (*required, 1, 1)[:3]
        if tuple(block) != wanted:
            raise LaunchError(f"kernel {program.name} was compiled for CTAs of exactly {wanted} (.reqntid); got {block}")
    most = program.directives.get("maxntid")
    if most:
        allowed = 1
        for extent in most:
            allowed *= extent
        if threads > allowed:
            raise LaunchError(
                f"kernel {program.name} was compiled for at most {allowed} threads per CTA (.maxntid, __launch_bounds__); got "
                f"{threads}"
            )


def _check_shared(program: Program, arch: Arch, dynamic: int, opted_in: int) -> None:
    if dynamic < 0:
        raise LaunchError(f"kernel {program.name}: shared_mem={dynamic} is negative")
    limits = arch.limits
    total = program.static_shared + dynamic
    if total > limits.shared_per_cta_opt_in:
        raise LaunchError(
            f"kernel {program.name}: {total:,} bytes of shared memory per CTA ({program.static_shared:,} static, {dynamic:,} "
            f"dynamic); {arch.name} has {limits.shared_per_cta_opt_in:,} at most"
        )
    if total > limits.shared_per_cta and dynamic > opted_in:
        raise LaunchError(
            f"kernel {program.name}: {total:,} bytes of shared memory per CTA, above the {limits.shared_per_cta:,} given "
            f"without asking. Set f.max_dynamic_shared_size_bytes = {dynamic} first"
        )
