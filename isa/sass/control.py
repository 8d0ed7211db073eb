"""Control bits: what ptxas tells the scheduler with every instruction.

They stand in bits 105 to 125 of the 128-bit word on sm_70 and later (found by comparing listings with the latencies that they
encode; layout as in CuAssembler and in Huerta et al., "Analyzing Modern NVIDIA GPU cores", section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ControlBits", "control_bits"]

NO_BARRIER = 7


@dataclass(frozen=True, slots=True)
class ControlBits:
    """``stall``: cycles until the warp may issue again. ``yields``: prefer another warp. ``write``, ``read``: scoreboards 0-5
    set until the result is written, or the sources are read; None for none. ``wait``: a bit for each scoreboard that must be
    clear before issue. ``reuse``: a bit for each operand slot kept in the operand cache."""

    stall: int
    yields: bool
    write: int | None
    read: int | None
    wait: int
    reuse: int

    def __str__(self) -> str:
        """``stall 4  yield  wr 0  rd 1  wait 0,2  reuse 0``, absent parts left out."""
        parts = [f"stall {self.stall}"]
        if self.yields:
            parts.append("yield")
        if self.write is not None:
            parts.append(f"wr {self.write}")
        if self.read is not None:
            parts.append(f"rd {self.read}")
        for name, bits in (("wait", self.wait), ("reuse", self.reuse)):
            if bits:
                parts.append(f"{name} {','.join(str(i) for i in range(6) if bits >> i & 1)}")
        return "  ".join(parts)


def control_bits(high: int) -> ControlBits:
    """The control bits of an instruction. ``high``: the second 64-bit word of its encoding."""
    bits = high >> 41
    write, read = bits >> 5 & 7, bits >> 8 & 7
    return ControlBits(
        stall=bits & 15,
        yields=not bits >> 4 & 1,
        write=None if write == NO_BARRIER else write,
        read=None if read == NO_BARRIER else read,
        wait=bits >> 11 & 63,
        reuse=bits >> 17 & 15,
    )
