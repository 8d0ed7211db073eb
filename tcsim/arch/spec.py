"""What a GPU is, as data: frozen records read from ``tcsim/arch/*.toml``. Unknown keys are refused; each table names
its source.
"""

from __future__ import annotations

from msgspec import Struct

from tcsim.arch.timing_spec import BoardTiming, Chip

__all__ = ["Arch", "Limits", "Memory"]


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """Resources per SM and per launch. Bytes, registers of 32 bits, threads. ``barriers_per_sm``: named barriers; 0: not known,
    and taken to limit nothing.

    ``gpcs``: the numbers of the SMs of each GPC, which share a way to the L2; ``halves``: which partition of the L2 each is
    next to. ``units``: SMs that the work distributor gives CTAs as one, in the order of the CTAs' numbers in a first wave (the
    two of a TPC side by side); ``clusters``: SMs that a cluster finds its place among. None given: they are not known (see
    ``L2.sms_in_turn``), and all SMs are one unit.
    """

    sms: int
    max_warps_per_sm: int
    max_ctas_per_sm: int
    max_threads_per_cta: int
    registers_per_sm: int
    register_allocation_unit: int
    max_registers_per_thread: int
    shared_per_sm: int
    shared_per_cta: int
    shared_per_cta_opt_in: int
    shared_reserved_per_cta: int
    shared_allocation_unit: int
    source: str
    gpcs: tuple[tuple[int, ...], ...] = ()
    halves: tuple[int, ...] = ()
    units: tuple[tuple[int, ...], ...] = ()
    clusters: tuple[tuple[int, ...], ...] = ()
    barriers_per_sm: int = 0


class Memory(Struct, frozen=True, forbid_unknown_fields=True):
    """Device memory: bytes of DRAM."""

    bytes: int
    source: str


class Arch(Struct, frozen=True, forbid_unknown_fields=True):
    """One GPU. ``sm`` is the compute capability times ten (90 for 9.0). ``timing``: how fast it is, where that is
    known; ``chip``: the die's tables, where the description brings its own (:func:`tcsim.arch.find_arch` of a file).
    """

    name: str
    full_name: str
    aliases: tuple[str, ...]
    sm: int
    limits: Limits
    memory: Memory
    timing: BoardTiming | None = None
    chip: Chip | None = None
