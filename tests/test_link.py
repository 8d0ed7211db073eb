"""Several modules linked into one, initialisers that hold addresses, and the linking directives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import tcsim
from isa.errors import PtxError, TcsimError
from isa.ptx import LinkError, link, parse
from tests.reference.ptxas import PTXAS

HEAD = ".version 8.0\n.target {target}\n.address_size 64\n"

KERNEL = """
.extern .func (.param .b32 r) scaled(.param .b32 x);
.extern .global .align 4 .u32 table[4];
.global .align 4 .u32 secret = 1000;
.weak .global .align 4 .u32 both = 7;
.common .global .align 4 .u32 room[2];
.weak .func (.param .b32 r) shared_code(.param .b32 x)
{ .reg .b32 a; ld.param.b32 a, [x]; add.u32 a, a, 1; st.param.b32 [r], a; ret; }
.func (.param .b32 r) own(.param .b32 x)
{ .reg .b32 a; ld.param.b32 a, [x]; ld.global.u32 a, [secret]; st.param.b32 [r], a; ret; }
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<10>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    mov.u64 %rd3, table;
    add.u64 %rd3, %rd3, %rd2;
    ld.global.u32 %r2, [%rd3];
    { .param .b32 x; .param .b32 r; st.param.b32 [x], %r1; call (r), scaled, (x); ld.param.b32 %r3, [r]; }
    { .param .b32 x; .param .b32 r; st.param.b32 [x], %r1; call (r), own, (x); ld.param.b32 %r4, [r]; }
    { .param .b32 x; .param .b32 r; st.param.b32 [x], %r1; call (r), shared_code, (x); ld.param.b32 %r5, [r]; }
    ld.global.u32 %r6, [both];
    add.u32 %r2, %r2, %r3;
    add.u32 %r2, %r2, %r4;
    add.u32 %r2, %r2, %r5;
    add.u32 %r2, %r2, %r6;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
LIBRARY = """
.visible .global .align 4 .u32 table[4] = {10, 20, 30, 40};
.global .align 4 .u32 secret = 5;
.weak .global .align 4 .u32 both = 7;
.common .global .align 4 .u32 room[64];
.weak .func (.param .b32 r) shared_code(.param .b32 x)
{ .reg .b32 a; ld.param.b32 a, [x]; add.u32 a, a, 1; st.param.b32 [r], a; ret; }
.func (.param .b32 r) own(.param .b32 x)
{ .reg .b32 a, b; ld.param.b32 a, [x]; ld.global.u32 b, [secret]; mul.lo.u32 a, a, b; st.param.b32 [r], a; ret; }
.visible .func (.param .b32 r) scaled(.param .b32 x)
{
    .reg .b32 a, b;
    ld.param.b32 a, [x];
    { .param .b32 y; .param .b32 s; st.param.b32 [y], a; call (s), own, (y); ld.param.b32 b, [s]; }
    { .param .b32 y; .param .b32 s; st.param.b32 [y], b; call (s), shared_code, (y); ld.param.b32 b, [s]; }
    st.param.b32 [r], b;
    ret;
}
"""

LIBRARY_TWO = """
.extern .func (.param .b32 r) other(.param .b32 x);
.extern .global .align 4 .u32 table[4];
.visible .func (.param .b32 r) scaled(.param .b32 x)
{
    .reg .b32 a, b;
    ld.param.b32 a, [x];
    { .param .b32 y; .param .b32 s; st.param.b32 [y], a; call (s), other, (y); ld.param.b32 b, [s]; }
    ld.global.u32 a, [table];
    add.u32 b, a, b;
    st.param.b32 [r], b;
    ret;
}
"""


def text(body: str, target: str = "sm_80") -> str:
    return HEAD.format(target=target) + body


def run(module: tcsim.RawModule, threads: int = 4) -> list[int]:
    out = tcsim.zeros(threads, np.uint32)
    module.get_function("k")((1,), (threads,), (out,))
    return [int(x) for x in tcsim.asnumpy(out)]


@pytest.mark.parametrize("order", [(KERNEL, LIBRARY), (LIBRARY, KERNEL)])
def test_a_kernel_and_its_library(order: tuple[str, str]) -> None:
    module = tcsim.RawModule(code=[text(part) for part in order])
    # table + scaled (5 x + 1) + own (1000) + shared_code (x + 1) + both
    assert run(module) == [10 * (x + 1) + 5 * x + 1 + 1000 + x + 1 + 7 for x in range(4)]
    assert module.get_global("room").nbytes == 256  # the larger one
    assert module.get_global("both").nbytes == 4


@pytest.mark.skipif(PTXAS is None, reason="ptxas is not on the PATH")
@pytest.mark.parametrize(
    "order", [(KERNEL, LIBRARY), (LIBRARY, KERNEL), (KERNEL, LIBRARY.replace("scaled", "other"), LIBRARY_TWO)]
)
def test_ptxas_takes_what_was_linked(order: tuple[str, ...], tmp_path: Path) -> None:
    """Machine code is made of the linked text: nothing is declared twice or otherwise than it is defined."""
    (tmp_path / "k.ptx").write_text(link([text(part) for part in order]))
    command = [str(PTXAS), "-arch", "sm_90", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_strong_definition_wins() -> None:
    strong = LIBRARY.replace(".weak .global .align 4 .u32 both = 7", ".visible .global .align 4 .u32 both = 70000")
    assert run(tcsim.RawModule(code=[text(KERNEL), text(strong)]))[0] == 10 + 1 + 1000 + 1 + 70000


def test_header_files_and_lines_of_linked_modules() -> None:
    first = text('.file 1 "a.cu"\n.visible .entry one() { .loc 1 5 0\n ret; }')
    second = text('.file 1 "b.cu"\n.visible .entry two() { .loc 1 9 0\n ret; }', "sm_90a").replace("8.0", "8.4")
    module = parse(link([first, second]))
    assert (module.version, module.target, module.address_size) == ((8, 4), "sm_90a", 64)
    assert sorted(module.files.values()) == ["a.cu", "b.cu"]
    places = []
    for function in module.functions:
        assert function.body is not None
        (statement,) = function.body.statements
        places.append((module.files[statement.loc.file], statement.loc.line))  # type: ignore[union-attr]
    assert places == [("a.cu", 5), ("b.cu", 9)]


def test_modules_that_do_not_go_together() -> None:
    with pytest.raises(LinkError, match=r"table is defined more than once: a:4 and b:4"):
        link([text(".visible .global .u32 table;")] * 2, ["a", "b"])
    with pytest.raises(LinkError, match="address sizes"):
        link([text(""), text("").replace("64", "32")])
    with pytest.raises(TcsimError, match="empty list"):
        tcsim.RawModule(code=[])


def test_what_no_module_defines_is_named() -> None:
    with pytest.raises(tcsim.UnsupportedError, match=r"call of scaled.*link it into"):
        tcsim.RawModule(code=text(KERNEL))
    module = text(".extern .global .u32 far; .visible .entry k(.param .u64 p) { .reg .b32 r; ld.global.u32 r, [far]; ret; }")
    with pytest.raises(PtxError, match=r"far is \.extern.*link the one that does"):
        tcsim.RawModule(code=module).get_function("k")


def test_addresses_in_initialisers() -> None:
    module = tcsim.RawModule(
        code=text(
            """
            .func (.param .b32 r) seven() { st.param.b32 [r], 7; ret; }
            .global .align 4 .u32 data[4] = {1, 2, 3, 4};
            .global .align 8 .u64 far[3] = {data+8, generic(data)+4, seven};
            .global .align 1 .u8 bytes[8] = {0xff(data), 0xff00(data), 0xff0000(data), 0xff000000(data),
                0xff00000000(data), 0xff0000000000(data), 0xff000000000000(data), 0xff00000000000000(data)};
            .visible .entry k(.param .u64 out)
            {
                .reg .b32 %r<4>; .reg .b64 %rd<5>;
                ld.param.u64 %rd1, [out];
                ld.global.u64 %rd2, [far];
                ld.u32 %r1, [%rd2];
                ld.global.u64 %rd2, [far+8];
                ld.u32 %r2, [%rd2];
                ld.global.u64 %rd2, [far+16];
                proto: .callprototype (.param .b32 _) _ ();
                { .param .b32 r; call (r), %rd2, (), proto; ld.param.b32 %r3, [r]; }
                st.global.v2.u32 [%rd1], {%r1, %r2};
                st.global.u32 [%rd1+8], %r3;
                ret;
            }
            """
        )
    )
    assert run(module)[:3] == [3, 2, 7]
    assert int(module.get_global("bytes").get(np.uint64)[0]) == module.get_global("data").ptr
