"""Instructions of PTX ISA 9.0 that tcsim does not execute, and why: what a module that uses them is told."""

from __future__ import annotations

__all__ = ["REFUSED", "REFUSED_WORDS"]

_TEXTURES = "textures and surfaces are not supported; read the data through a pointer"
_TENSOR_MEMORY = "the tensor memory of sm_100 is not supported; compile for sm_90a or earlier"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq", "istypep"), _TEXTURES),
    "tcgen05": _TENSOR_MEMORY,
    "clusterlaunchcontrol": "work stealing of sm_100 is not supported; compile for sm_90a or earlier",
    "multimem": "memory of several GPUs at one address is not supported",
}
"""By base opcode."""

_PAIRS = "pairs of CTAs (.cta_group) of sm_100 are not supported; compile for sm_90a or earlier"

REFUSED_WORDS: dict[str, str] = {"cta_group::1": _PAIRS, "cta_group::2": _PAIRS}
"""By modifier."""
