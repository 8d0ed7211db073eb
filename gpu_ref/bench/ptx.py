"""The frame of a timed kernel, as PTX text.

All timed kernels take the same parameters, so that one launcher serves them::

    out        u64*   two words per warp: %clock64 before and after the loop, in its last pass
    data       u64    address of operands, and of one word per thread that keeps results alive
    iterations u32    turns of the timed loop
    pa pb pc   u32    operands that the assembler must not know
    skip       u32    warps w with (w & skip) != 0 leave at once

The loop runs twice, and the second pass is the one that is timed: its instructions and constants are in the caches by then.
Registers that every body may use: ``%thread %lane %warp %data %pa %pb %pc %iterations``, all set up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["module", "plain_kernel", "timed_kernel"]

_PARAMETERS = (
    ".param .u64 out, .param .u64 data, .param .u32 iterations, "
    ".param .u32 pa, .param .u32 pb, .param .u32 pc, .param .u32 skip"
)

_PROLOGUE = """\
    .reg .b32 %thread, %lane, %warp, %n, %pass, %iterations, %pa, %pb, %pc, %skip, %slot;
    .reg .b64 %out, %data, %begin, %end, %where, %own;
    .reg .pred %more, %again, %leave, %first;
    mov.u32 %thread, %tid.x;
    and.b32 %lane, %thread, 31;
    shr.u32 %warp, %thread, 5;
    ld.param.u64 %out, [out];
    ld.param.u64 %data, [data];
    cvta.to.global.u64 %out, %out;
    cvta.to.global.u64 %data, %data;
    ld.param.u32 %iterations, [iterations];
    ld.param.u32 %pa, [pa];
    ld.param.u32 %pb, [pb];
    ld.param.u32 %pc, [pc];
    ld.param.u32 %skip, [skip];
    and.b32 %n, %warp, %skip;
    setp.ne.u32 %leave, %n, 0;
    @%leave ret;
    mov.u32 %slot, %ctaid.x;
    mov.u32 %n, %ntid.x;
    mad.lo.u32 %n, %slot, %n, %thread;
    mul.wide.u32 %own, %n, 4;
    add.u64 %own, %own, %data;
    shr.u32 %slot, %n, 5;
"""

_EPILOGUE = """\
    setp.ne.u32 %first, %lane, 0;
    @%first ret;
    mul.wide.u32 %where, %slot, 16;
    add.u64 %where, %where, %out;
    st.global.v2.u64 [%where], {%begin, %end};
    ret;
}
"""


def module(kernels: Iterable[str], target: str = "sm_90", declarations: str = "", version: str = "8.0") -> str:
    """A PTX module for ``target`` (``sm_75`` or later); ``declarations`` are module variables."""
    return f".version {version}\n.target {target}\n.address_size 64\n{declarations}\n" + "\n".join(kernels)


def timed_kernel(
    entry: str,
    body: Sequence[str],
    *,
    declarations: str = "",
    setup: Sequence[str] = (),
    finish: Sequence[str] = (),
    every_pass: Sequence[str] = (),
    barrier: bool = True,
    after: Sequence[str] = (),
) -> str:
    """One kernel that times ``iterations`` turns of ``body``.

    ``setup`` runs once; ``every_pass`` before each pass; ``finish`` after all; ``after`` is out-of-line code behind the
    return. ``barrier``: all warps that stay begin each pass together.
    """
    lines = [
        f".visible .entry {entry}({_PARAMETERS})\n{{",
        _PROLOGUE,
        declarations,
        *setup,
        "    mov.u32 %pass, 2;",
        "PASS:",
        *every_pass,
        "    bar.sync 0;" if barrier else "",
        "    mov.u32 %n, %iterations;",
        "    mov.u64 %begin, %clock64;",
        "LOOP:",
        '    .pragma "nounroll";',
        *body,
        "    sub.u32 %n, %n, 1;",
        "    setp.ne.u32 %more, %n, 0;",
        "    @%more bra LOOP;",
        "    mov.u64 %end, %clock64;",
        "    sub.u32 %pass, %pass, 1;",
        "    setp.ne.u32 %again, %pass, 0;",
        "    @%again bra PASS;",
        *finish,
        _EPILOGUE.replace("    ret;\n}", "\n".join(["    ret;", *after, "}"])),
    ]
    return "\n".join(line for line in lines if line)


def plain_kernel(entry: str, parameters: str, body: str) -> str:
    """A kernel with its own parameters (``.param`` list without parentheses) and its whole body."""
    return f".visible .entry {entry}({parameters})\n{{\n{body}\n}}\n"
