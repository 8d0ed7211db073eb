"""Control flow and synchronisation of threads (PTX ISA 9.7.12 and 9.7.13). The executor does these; here is only their form."""

from __future__ import annotations

from isa.arith.lane import lane
from isa.kernels.planes import load_u64
from isa.machine import GLOBAL_TIMER, TRAP, clock, fault
from isa.spec import flag, instruction, optional


@instruction("bra{uni} target:b32", control="branch", timing="branch", section="9.7.12.3", uni=flag("uni"))
def bra() -> None:
    """Branch. Threads of a warp that do not agree separate and meet again where the two ways join."""


@instruction("ret{uni}", control="exit", timing="exit", section="9.7.12.6", uni=flag("uni"))
@instruction("exit", control="exit", timing="exit", section="9.7.12.7")
def exit_() -> None:
    """End the thread. ``ret`` does so in an entry function; in others it is a branch to the function's end."""


# ---------------------------------------------------------------------------------------------------------------- calls
# :mod:`isa.lower` gives their operands a meaning that the notation has no words for: lists of registers of any type.

_INTERNAL = "Internal: part of how functions are called; not PTX."

HOST_FUNCTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "vprintf": ((4,), (8, 8)),
    "__assertfail": ((), (8, 8, 4, 8, 8)),
    "malloc": ((8,), (8,)),
    "free": ((), (8,)),
}
"""Functions that the machine provides: bytes of the return values and of the parameters (CUDA programming guide, "Formatted
Output", "Assertion", "Dynamic Global Memory Allocation")."""


@instruction("call{uni} d:b64, a:b64", control="call", timing="branch", section="9.7.12.5", uni=flag("uni"))
def call() -> None:
    """Call a function: ``call (returns), function, (arguments)``."""


@instruction("call.by_address d:b64, t:b64, a:b64", control="call_indirect", timing="branch", section="9.7.12.5")
def call_by_address() -> None:
    """Call the function whose address is in a register. In PTX a ``call`` with a ``.callprototype`` or ``.calltargets``."""


@instruction(
    "call.host.{which} d:b64, a:b64",
    control="host_call",
    timing="branch",
    section="9.7.12.5",
    which=tuple(HOST_FUNCTIONS),
)
def call_host() -> None:
    """Call a function that the machine provides, such as ``vprintf``. In PTX a ``call`` of its name."""


@instruction("function_list", control="roots", timing="nothing", section="9.7.12.5", note=_INTERNAL)
def function_list() -> None:
    """The start of a kernel with calls: to the kernel's first instruction."""


@instruction("function_entry d:b64", control="enter", timing="nothing", section="9.7.12.5", note=_INTERNAL)
def function_entry() -> None:
    """The start of a function; ``d`` are the registers its parameters are in."""


@instruction("function_return a:b64, b:b32", control="return", timing="branch", section="9.7.12.6", note=_INTERNAL)
def function_return() -> None:
    """The end of a function; ``a`` are the registers its return values are in, ``b`` holds where to return to."""


@instruction("brx.idx{uni} a:u32, n:u32", control="branch_indexed", timing="branch", section="9.7.12.4", uni=flag("uni"))
def brx() -> None:
    """Branch to entry ``a`` of a ``.branchtargets`` list. In programs the ``n`` branches of the list follow it."""


@instruction("trap", body="warp", timing="exit", section="9.7.19.4")
def trap(mask, ctx):
    """Abort the grid."""
    return fault(ctx, TRAP, first_lane(mask), 0, 0, 0)


@instruction("pmevent a:u32", control="nothing", timing="nothing", section="9.7.19.3", ptx="1.4")
@instruction("pmevent.mask a:u32", control="nothing", timing="nothing", section="9.7.19.3", ptx="3.0")
def pmevent() -> None:
    """Trigger performance monitor events. Nothing counts them here."""


@instruction("brkpt", control="nothing", timing="nothing", section="9.7.19.1")
def brkpt() -> None:
    """A breakpoint: nothing without a debugger."""


@lane
def first_lane(mask):
    """Number of the lowest lane in a mask (0 for an empty one)."""
    for number in range(32):
        if (mask >> number) & 1:
            return number
    return 0


# ------------------------------------------------------------------------------------------------------- barriers


@instruction("bar.sync a:u32, b:u32?", control="barrier_sync", timing="barrier", section="9.7.13.1")
@instruction("bar.cta.sync a:u32, b:u32?", control="barrier_sync", timing="barrier", section="9.7.13.1", ptx="7.8")
@instruction(
    "barrier{cta}.sync{aligned} a:u32, b:u32?",
    control="barrier_sync",
    timing="barrier",
    section="9.7.13.1",
    ptx="6.0",
    sm=30,
    cta=flag("cta"),
    aligned=flag("aligned"),
)
def barrier_sync() -> None:
    """Wait at barrier ``a`` until all threads of the CTA (or ``b`` threads) have arrived."""


@instruction("bar.arrive a:u32, b:u32", control="barrier_arrive", timing="barrier", section="9.7.13.1", ptx="2.0")
@instruction("bar.cta.arrive a:u32, b:u32", control="barrier_arrive", timing="barrier", section="9.7.13.1", ptx="7.8")
@instruction(
    "barrier{cta}.arrive{aligned} a:u32, b:u32",
    control="barrier_arrive",
    timing="barrier",
    section="9.7.13.1",
    ptx="6.0",
    sm=30,
    cta=flag("cta"),
    aligned=flag("aligned"),
)
def barrier_arrive() -> None:
    """Arrive at barrier ``a`` without waiting."""


def _reduction(template):
    """Register a reducing barrier with and without a thread count, in the old spelling and the new."""

    def register(function):
        for spelling, options in (
            ("bar{cta}.red", {"cta": flag("cta")}),
            ("barrier{cta}.red{aligned}", {"sm": 30, "cta": flag("cta"), "aligned": flag("aligned")}),
        ):
            opcode, operands = template.split(" ", 1)
            opcode = spelling + opcode
            for threads in ("", "b:u32, "):
                text = f"{opcode} {operands.replace('c:pred', threads + 'c:pred')}"
                slots = {"op": ("and", "or")} if "{op}" in template else {}
                instruction(
                    text,
                    control="barrier_reduce",
                    timing="barrier",
                    section="9.7.13.1",
                    ptx="6.0" if "aligned" in options else "2.0",
                    **options,
                    **slots,
                )(function)
        return function

    return register


@_reduction(".{op}.pred p, a:u32, c:pred")
@_reduction(".popc.u32 d:u32, a:u32, c:pred")
def barrier_reduce() -> None:
    """Wait at barrier ``a`` for all threads (or ``b`` threads) and combine their predicates ``c``: count, and, or."""


@instruction(
    "bar.warp.sync membermask:u32",
    control="warp_sync",
    collective="membermask",
    timing="nothing",
    section="9.7.13.2",
    ptx="6.0",
    sm=30,
)
def bar_warp_sync() -> None:
    """Wait until all threads in ``membermask`` have arrived."""


# ---------------------------------------------------------------------------------- ordering, which is always kept

_SCOPES = ("cta", "cluster", "gpu", "sys")


@instruction("membar.{level}", control="nothing", timing="membar", section="9.7.13.4", level=("cta", "gl", "sys"))
@instruction(
    "fence{order}.{scope}",
    control="nothing",
    timing="membar",
    section="9.7.13.4",
    ptx="6.0",
    sm=70,
    order=optional("sc", "acq_rel", "acquire", "release"),
    scope=_SCOPES,
)
@instruction(
    "fence.{order}.{which}.cluster",
    control="nothing",
    timing="membar",
    section="9.7.13.4",
    ptx="8.6",
    sm=90,
    order=("acquire", "release"),
    which=("sync_restrict::shared::cta", "sync_restrict::shared::cluster"),
)
@instruction(
    "fence.mbarrier_init.release.cluster", control="nothing", timing="membar", section="9.7.13.4", ptx="8.0", sm=90
)
@instruction("membar.proxy.alias", control="nothing", timing="membar", section="9.7.13.4", ptx="7.5", sm=70)
@instruction("fence.proxy.alias", control="nothing", timing="membar", section="9.7.13.4", ptx="7.5", sm=70)
@instruction(
    "fence.proxy.async{space}",
    control="nothing",
    timing="fence_async",
    section="9.7.13.4",
    ptx="8.0",
    sm=90,
    space=optional("global", "shared::cta", "shared::cluster"),
)
@instruction(
    "fence.proxy.async::generic.{order}.{which}.cluster",
    control="nothing",
    timing="fence_async",
    section="9.7.13.4",
    ptx="8.6",
    sm=90,
    order=("acquire", "release"),
    which=("sync_restrict::shared::cta", "sync_restrict::shared::cluster"),
)
@instruction(
    "fence.proxy.tensormap::generic.release.{scope}",
    control="nothing",
    timing="membar",
    section="9.7.13.4",
    ptx="8.3",
    sm=90,
    scope=_SCOPES,
)
@instruction(
    "fence.proxy.tensormap::generic.acquire.{scope} [a], size:b32",
    control="nothing",
    timing="membar",
    section="9.7.13.4",
    ptx="8.3",
    sm=90,
    scope=_SCOPES,
)
def membar() -> None:
    """Order memory accesses. The executor performs every access in program order, so there is nothing left to do."""


@instruction("griddepcontrol.launch_dependents", control="nothing", timing="nothing", section="9.7.13.13", ptx="7.8", sm=90)
@instruction("griddepcontrol.wait", control="nothing", timing="nothing", section="9.7.13.13", ptx="7.8", sm=90)
def griddepcontrol() -> None:
    """Let dependent grids start, or wait for those that this one depends on. Grids run one after another, so all have ended."""


@instruction(
    "setmaxnreg.{action}.sync.aligned.u32 count:u32",
    control="nothing",
    timing="setmaxnreg",
    section="9.7.19.5",
    ptx="8.0",
    sm=90,
    action=("inc", "dec"),
    immediates=lambda p: {"count": range(24, 257, 8)},
)
def setmaxnreg() -> None:
    """Give registers of the warpgroup back to the CTA, or take some of them. (Values do not depend on how many there are.)"""


@instruction("nanosleep.u32 a:u32", control="sleep", timing="sleep", section="9.7.19.2", ptx="6.3", sm=70)
def nanosleep() -> None:
    """Let other threads run."""


# ------------------------------------------------------------------------------------------------------- clocks


@instruction("read_clock.{which}.u32 d:u32", body="warp", timing="clock", section="10", which=("clock", "globaltimer"))
def read_clock_low(d, mask, ctx, *, which):
    """``mov.u32 d, %clock`` and ``%globaltimer_lo``."""
    now = clock(ctx) if which == "clock" else load_u64(ctx + 8 * GLOBAL_TIMER)
    for number in range(32):
        d[number] = now & 0xFFFFFFFF
    return 0


@instruction("read_clock.{which}.u32 d:u32", body="warp", timing="clock", section="10", which=("clock_hi", "globaltimer_hi"))
def read_clock_high(d, mask, ctx, *, which):
    """``mov.u32 d, %clock_hi`` and ``%globaltimer_hi``."""
    now = clock(ctx) if which == "clock_hi" else load_u64(ctx + 8 * GLOBAL_TIMER)
    for number in range(32):
        d[number] = now >> 32
    return 0


@instruction("read_clock.{which}.u64 d:u64", body="warp", timing="clock", section="10", which=("clock", "globaltimer"))
def read_clock(d, mask, ctx, *, which):
    """``mov.u64 d, %clock64`` and ``%globaltimer``."""
    now = clock(ctx) if which == "clock" else load_u64(ctx + 8 * GLOBAL_TIMER)
    for number in range(32):
        d[number] = now
    return 0
