"""Special registers of the machine, by the names that listings use."""

from __future__ import annotations

from isa.machine import SHARED_WINDOW

__all__ = ["SPECIALS"]

_SAME = {
    **{f"SR_{name.upper()}.{axis.upper()}": f"{name}.{axis}" for name in ("tid", "ctaid") for axis in "xyz"},
    **{f"SR_{relation.upper()}MASK": f"lanemask_{relation}" for relation in ("eq", "lt", "le", "gt", "ge")},
    "SR_LANEID": "laneid",
    "SR_SMEMSZ": "smemsz",
    "SR_VIRTUALSMID": "smid",
    "SR_VIRTID": "virtid",
    "SR_VIRTCFG": "virtcfg",
    "SR_CgaCtaId": "cluster_ctarank",
}

SPECIALS: dict[str, tuple[str, str | int]] = {name: ("special", plane) for name, plane in _SAME.items()} | {
    "SRZ": ("constant", 0),
    "PR": ("constant", 0),
    "UPR": ("constant", 0),
    **{f"SR_{name}": ("constant", 0) for name in ("CLOCKLO", "CLOCKHI", "GLOBALTIMERLO", "GLOBALTIMERHI")},
    "SR_SWINHI": ("constant", SHARED_WINDOW >> 32),
    "SR_LMEMHIOFF": ("constant", 0),
}
"""Name to ("special", the PTX special register that holds the same) or ("constant", value).

Time is read by instructions of its own (:mod:`isa.sass.placed`); ``PR`` and ``UPR``, all predicates, are reached
otherwise too.
``SR_VIRTID`` holds ``%warpid`` in bits 8 to 14, ``SR_VIRTCFG`` ``%nwarpid`` in bits 8 to 15. ``SR_SWINHI`` is the upper word of
generic shared addresses. ``SR_LMEMHIOFF`` is the lowest legal stack pointer.
"""
