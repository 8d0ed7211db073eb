"""The stack of a thread in local memory (PTX ISA 9.7.16). :mod:`isa.lower.stack` makes arithmetic of these."""

from __future__ import annotations

from isa.spec import instruction

_T = ("u32", "u64")


@instruction("stacksave.{t} d", control="stack", timing="mov", section="9.7.16.1", sm=52, ptx="7.3", t=_T)
def stacksave() -> None:
    """The stack pointer, to be given to ``stackrestore``."""


@instruction("stackrestore.{t} a", control="stack", timing="mov", section="9.7.16.2", sm=52, ptx="7.3", t=_T)
def stackrestore() -> None:
    """Free what was allocated since a ``stacksave``."""


@instruction("alloca.{t} d, a, b:b32?", control="stack", timing="alu", section="9.7.16.3", sm=52, ptx="7.3", t=_T)
def alloca() -> None:
    """Allocate ``a`` bytes of local memory at a multiple of ``b`` (8 if left out) until the function returns."""
