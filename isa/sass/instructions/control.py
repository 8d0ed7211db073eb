"""Control flow and synchronisation. The executor does branches, exits and barriers; here is what their operands are.

Convergence is explicit: ``BSSY`` puts the set of lanes that run together into a barrier register, of which every lane holds its
own copy; ``BSYNC`` waits until all of them that still take part have come to it and lets them go on together; ``BREAK`` takes
lanes out.
"""

from __future__ import annotations

import numpy as np

from isa.instructions.control import first_lane
from isa.kernels.planes import load_u64
from isa.machine import GLOBAL_TIMER, TRAP, clock, fault
from isa.sass.registry import machine
from isa.spec import flag

# --------------------------------------------------------------------------------------------------------- branches


@machine("BRA{u} target:b32", control="branch", pipe="cbu", u=flag("U"))
@machine("CALL.REL.NOINC target:b32", control="branch", pipe="cbu")
@machine("CALL.ABS.NOINC target:b32", control="branch", pipe="cbu")
def bra() -> None:
    """Go to a label. A call is no more: the caller puts the return address into a register."""


@machine("BRA{u} a:pred, target:b32", control="branch_both", pipe="cbu", u=flag("U"))
def bra_both() -> None:
    """Go to a label where both the guard and ``a`` hold."""


@machine("BRA.U.ANY target:b32", control="branch_any", pipe="cbu")
def bra_any() -> None:
    """All go to a label if the guard holds in any of them."""


@machine("BRA.DIV members:b32, target:b32", control="branch_diverged", pipe="cbu")
def bra_div() -> None:
    """Go to a label unless the lanes of ``members`` are all here."""


@machine("BRA.CONV members:b32, target:b32", control="branch_converged", pipe="cbu")
def bra_conv() -> None:
    """Go to a label if the lanes of ``members`` are all here."""


@machine("CALL.REL.NOINC a:b32, base:b32", control="jump", pipe="cbu")
@machine("CALL.ABS.NOINC a:b32", control="jump", pipe="cbu")
@machine("RET.REL.NODEC a:b32, base:b32", control="jump", pipe="cbu")
@machine("RET.ABS.NODEC a:b32, base:b32", control="jump", pipe="cbu")
@machine("BRX a:b32, base:b32", control="jump", pipe="cbu")
@machine("BRXU a:b32, base:b32", control="jump", pipe="cbu")
def ret() -> None:
    """Go to the address in a register, plus a base."""


@machine("RET.REL.NODEC e:pred, a:b32, base:b32", control="jump", pipe="cbu")
@machine("RET.ABS.NODEC e:pred, a:b32, base:b32", control="jump", pipe="cbu")
def ret_both() -> None:
    """The same where both the guard and ``e`` hold."""


@machine("LEPC d:u64, target:u64?", pipe="cbu")
def lepc(target):
    """The address of a place in the code: of this instruction itself, where none is named."""
    return target


@machine("EXIT", control="exit", pipe="cbu")
def exit_() -> None:
    """End the thread."""


@machine("BPT.TRAP a:b32", body="warp", pipe="cbu")
def trap(mask, ctx):
    """Abort the grid."""
    return fault(ctx, TRAP, first_lane(mask), 0, 0, 0)


# ------------------------------------------------------------------------------------------------------ convergence


@machine("BSSY barrier:u32, target:u32", control="barrier_register", pipe="cbu")
def bssy() -> None:
    """Note the lanes that run together in a barrier register, of which a warp has one for all its lanes."""


@machine("BSYNC members:b32", control="converge", pipe="cbu")
@machine("WARPSYNC members:b32", control="converge", pipe="cbu")
@machine("WARPSYNC.ALL", control="converge", pipe="cbu")
@machine("WARPSYNC.EXCLUSIVE members:b32", control="converge", pipe="cbu")
@machine("WARPSYNC.COLLECTIVE members:b32, target:b32", control="converge", pipe="cbu")
@machine("WARPSYNC.COLLECTIVE.ALL target:b32", control="converge", pipe="cbu")
def bsync() -> None:
    """Wait for lanes and go on together."""


@machine("BREAK a:pred?, members:b32", control="break", pipe="cbu")
def break_() -> None:
    """Take the executing lanes out of a barrier: nobody waits for them there."""


@machine("BMOV.32{clear} d:u32, barrier:u32", control="barrier_register", pipe="cbu", clear=flag("CLEAR"))
@machine("BMOV.32 barrier:u32, a:u32", control="barrier_register", pipe="cbu")
def bmov() -> None:
    """Save a barrier register, or give it what has been saved of it."""


# --------------------------------------------------------------------------------------------------------- barriers


@machine("BAR.SYNC{defer} a:u32, b:u32?", control="barrier_sync", pipe="cbu", defer=flag("DEFER_BLOCKING"))
def bar_sync() -> None:
    """Wait at a barrier of the CTA."""


@machine("BAR.ARV a:u32, b:u32", control="barrier_arrive", pipe="cbu")
def bar_arv() -> None:
    """Arrive at a barrier without waiting."""


@machine(
    "BAR.RED.{op}{defer} a:u32, b:u32?, c:pred",
    control="barrier_reduce",
    pipe="cbu",
    op=("AND", "OR", "POPC"),
    defer=flag("DEFER_BLOCKING"),
)
def bar_red() -> None:
    """Wait at a barrier and combine the threads' predicates; ``B2R`` fetches the result."""


@machine("B2R.RESULT d:u32, p?, counted:u32?, holds:pred?", pipe="cbu")
def b2r(counted, holds):
    """The result of the last reducing barrier, which the executor keeps aside: its count, and its truth."""
    return counted, holds


# -------------------------------------------------------------------------------------- ordering, which is always kept


@machine("NOP", control="nothing", pipe="none")
@machine("ENDCOLLECTIVE", control="nothing", pipe="cbu")
@machine("DEPBAR{le} s:b32, n:b32?, m:b32?", control="nothing", pipe="none", le=flag("LE"))
@machine("LDGDEPBAR", control="nothing", pipe="lsu")
@machine("MEMBAR.{kind}.{scope}", control="nothing", pipe="lsu", kind=("SC", "ALL"), scope=("CTA", "GPU", "SYS", "VC"))
@machine("FENCE.VIEW.ASYNC.{what}", control="nothing", pipe="lsu", what=("S", "G", "T"))
@machine("FENCE.VIEW.ASYNC", control="nothing", pipe="lsu")
@machine("ERRBAR", control="nothing", pipe="none")
@machine("CGAERRBAR", control="nothing", pipe="none")
@machine("CCTL{e}.IVALL", control="nothing", pipe="lsu", e=flag("E"))
@machine("CCTL{e}.{what} [a]", control="nothing", pipe="lsu", e=flag("E"), what=("PF1", "PF2", "PML2"))
@machine("CCTLL.{what} [a]", control="nothing", pipe="lsu", what=("PF1", "PF2"))
def nothing() -> None:
    """Order, hints and waiting for results, all of which an executor that does one instruction after the other keeps."""


@machine("NANOSLEEP a:b32", control="sleep", pipe="none")
def nanosleep() -> None:
    """Let other threads run, those of the warp that wait for this one to converge, too."""


@machine("YIELD", control="yield", pipe="none")
def yield_() -> None:
    """Let those go on that wait for this thread to converge; ptxas puts it into loops that wait for something."""


# ------------------------------------------------------------------------------------------------------------ clocks
# Reads of special registers that depend on time; the lowering spells them so.


def _clock_slots():
    return {"which": ("CLOCKLO", "CLOCKHI", "GLOBALTIMERLO", "GLOBALTIMERHI")}


@machine("S2R_CLOCK.{which} d:u32, a:u32", body="warp", pipe="adu", **_clock_slots())
@machine("S2UR_CLOCK.{which} d:u32, a:u32", body="warp", pipe="adu", **_clock_slots())
@machine("CS2R_CLOCK.{which}.32 d:u32, a:u32", body="warp", pipe="alu", **_clock_slots())
def read_clock(d, mask, ctx, *, which):
    """A word of the clock or of the timer."""
    now = clock(ctx) if which in ("CLOCKLO", "CLOCKHI") else load_u64(ctx + 8 * GLOBAL_TIMER)
    for number in range(32):
        d[number] = np.uint32(now >> np.uint64(32)) if which in ("CLOCKHI", "GLOBALTIMERHI") else np.uint32(now)
    return 0


@machine("CS2R_CLOCK.{which} d:u64, a:u64", body="warp", pipe="alu", **_clock_slots())
def read_clock_pair(d, mask, ctx, *, which):
    """The clock or the timer."""
    now = clock(ctx) if which == "CLOCKLO" else load_u64(ctx + 8 * GLOBAL_TIMER)
    for number in range(32):
        d[number] = now
    return 0
