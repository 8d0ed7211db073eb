"""Errors of a launch: what a user's kernel or call did wrong, told in full."""

from __future__ import annotations

from isa.errors import PtxError, PtxSyntaxError, TcsimError, Unsupported, UnsupportedError

__all__ = [
    "DeadlockError",
    "DeviceError",
    "KernelFault",
    "LaunchError",
    "PtxError",
    "PtxSyntaxError",
    "TcsimError",
    "UndefinedOperandWarning",
    "Unsupported",
    "UnsupportedError",
    "UnsupportedWarning",
]


class LaunchError(TcsimError):
    """A launch that cannot start: wrong arguments, shape or resources. Nothing has run."""


class DeviceError(TcsimError):
    """An unknown device, or something the device does not have."""


class KernelFault(TcsimError):
    """A kernel did something that stops it on hardware too (an illegal address, a trap), or that PTX leaves undefined.

    Attributes: ``kind`` (such as "OUT OF BOUNDS"), ``pc`` (index of the instruction), ``ptx_line``, ``cta`` (x, y, z),
    ``warp``, ``lanes`` (tuple), ``address`` (or None).
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        pc: int,
        ptx_line: int,
        cta: tuple[int, int, int],
        warp: int,
        lanes: tuple[int, ...],
        address: int | None = None,
    ) -> None:
        self.kind, self.pc, self.ptx_line = kind, pc, ptx_line
        self.cta, self.warp, self.lanes, self.address = cta, warp, lanes, address
        super().__init__(message)


class DeadlockError(TcsimError):
    """No thread of a CTA can go on. The message lists who waits where for whom."""


class UndefinedOperandWarning(UserWarning):
    """An operand is one that PTX leaves undefined. The result is what the hardware was measured to do."""


class UnsupportedWarning(UserWarning):
    """Some kernels of a module use what tcsim does not support; the others can run."""
