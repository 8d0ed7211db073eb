"""Calls of functions: parameters, divergence, recursion, function pointers, what the machine provides; bits as on an H200."""

from __future__ import annotations

import hashlib
import struct
import tomllib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import tcsim
from isa.errors import PtxError, UnsupportedError
from isa.lower import lower
from isa.ptx import parse
from tcsim.bundle import Bundle, load_suite
from tcsim.errors import KernelFault
from tcsim.execute.formatting import format_text
from tests.kernels import kernel, run

LANES = np.arange(32)
DATA = Path(__file__).parent / "data" / "calls"
RECORDED = tomllib.loads((DATA / "recorded.toml").read_text())
LAUNCHES = {bundle.name: bundle for bundle in load_suite(DATA / "suite.toml")}

TRIPLE = """
.func (.param .b32 r) triple (.param .b32 a)
{ .reg .b32 %t<3>; ld.param.u32 %t1, [a]; mul.lo.u32 %t2, %t1, 3; st.param.b32 [r], %t2; ret; }
"""


def call(function: str, argument: str, result: str, guard: str = "") -> str:
    """PTX that calls a function of one 32-bit number."""
    return f"""
    {{ .param .b32 p; .param .b32 q; st.param.b32 [p], {argument};
    {guard} call.uni (q), {function}, (p);
    ld.param.b32 {result}, [q]; }}
    """


def launch(bundle: Bundle, execute: Literal["ptx", "machine"] = "ptx") -> dict[str, bytes]:
    """The bytes of every output of a launch."""
    with tcsim.Device("h200", execute=execute):
        function = tcsim.RawModule(path=bundle.ptx_path).get_function(bundle.entry)
        values: list[Any] = [tcsim.asarray(v) if isinstance(v, np.ndarray) else v for v in bundle.values()]
        function(bundle.grid, bundle.block, tuple(values))
        return {a.name: tcsim.asnumpy(v).tobytes() for a, v in zip(bundle.arguments, values, strict=True) if a.is_output}


# -------------------------------------------------------------------------------------------------------- hardware


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_outputs_are_those_of_an_h200(name: str) -> None:
    outputs = launch(LAUNCHES[name])
    assert {output: hashlib.sha256(data).hexdigest() for output, data in outputs.items()} == RECORDED[name]


@pytest.mark.parametrize("name", ["h_forms", "r_fib", "i_table"])
def test_timing_runs_calls_and_changes_no_value(name: str) -> None:
    with tcsim.Profiler() as profiler:
        outputs = launch(LAUNCHES[name])
    assert {output: hashlib.sha256(data).hexdigest() for output, data in outputs.items()} == RECORDED[name]
    assert profiler.launches[0].cycles > 0


# ------------------------------------------------------------------------------------------------------ direct calls


def test_a_call_passes_values_and_comes_back() -> None:
    got = run(call("triple", "lane", "%r1") + call("triple", "%r1", "%r2") + "add.u32 result, %r1, %r2;", declarations=TRIPLE)
    np.testing.assert_array_equal(got, LANES * 12)


def test_a_function_called_in_many_places_is_there_once() -> None:
    body = "".join(call("triple", "lane", f"%r{number}") for number in range(1, 40))
    program = lower(parse(kernel(body, declarations=TRIPLE)), "k", sm=90)
    assert program.opcodes.count("mul.lo.u32") == 1
    assert program.opcodes.count("call.uni") == 39


def test_lanes_that_a_guard_keeps_out_do_not_call() -> None:
    body = "mov.u32 %r2, 7; setp.lt.u32 %p1, lane, 4; { .param .b32 p; .param .b32 q; st.param.b32 [p], lane; "
    body += "@%p1 call.uni (q), triple, (p); @%p1 ld.param.b32 %r2, [q]; } mov.u32 result, %r2;"
    np.testing.assert_array_equal(run(body, declarations=TRIPLE), np.where(LANES < 4, LANES * 3, 7))


EARLY = """
.func (.param .b32 r) early (.param .b32 a)
{ .reg .b32 %t<4>; .reg .pred %q<2>; ld.param.u32 %t1, [a]; mov.u32 %t2, 0;
LOOP: st.param.b32 [r], %t2; setp.ge.u32 %q1, %t2, %t1; @%q1 ret; add.u32 %t2, %t2, 2; bra.uni LOOP; }
"""


def test_lanes_that_return_early_wait_for_the_others() -> None:
    count = "activemask.b32 %r2; popc.b32 %r2, %r2; mad.lo.u32 result, %r2, 100, %r1;"
    got = run(call("early", "lane", "%r1") + count, declarations=EARLY)
    np.testing.assert_array_equal(got, 3200 + (LANES + 1) // 2 * 2)


def test_an_exit_in_a_function_ends_the_thread() -> None:
    leave = """.func leave (.param .b32 a)
    { .reg .b32 %t; .reg .pred %q; ld.param.u32 %t, [a]; setp.gt.u32 %q, %t, 9; @%q exit; ret; }"""
    got = run("{ .param .b32 p; st.param.b32 [p], lane; call leave, (p); } mov.u32 result, 5;", declarations=leave)
    np.testing.assert_array_equal(got, np.where(LANES > 9, 0, 5))


def test_nothing_is_fused_across_a_call() -> None:
    """The product is rounded before the function adds (machine code of ptxas 13.0: FMUL, CALL, FADD)."""
    add = """.func (.param .f32 r) plus (.param .f32 a, .param .f32 b)
    { .reg .f32 %x<4>; ld.param.f32 %x1, [a]; ld.param.f32 %x2, [b]; add.f32 %x3, %x1, %x2; st.param.f32 [r], %x3; ret; }"""
    body = """ld.global.f32 %f1, [pin]; ld.global.f32 %f2, [pin+4]; ld.global.f32 %f3, [pin+8]; mul.f32 %f4, %f1, %f2;
    { .param .f32 p; .param .f32 q; .param .f32 s; st.param.f32 [p], %f4; st.param.f32 [q], %f3;
    call.uni (s), plus, (p, q); ld.param.f32 %f5, [s]; } mov.b32 result, %f5;"""
    program = lower(parse(kernel(body, declarations=add)), "k", sm=90)
    assert "mul.f32" in program.opcodes and "add.f32" in program.opcodes


def test_parameters_of_the_wrong_number_or_size_are_refused() -> None:
    with pytest.raises(PtxError, match="arguments are not those that triple is declared with"):
        run("{ .param .b64 p; .param .b32 q; call (q), triple, (p); }", declarations=TRIPLE)
    with pytest.raises(PtxError, match="8 bytes at p"):
        run("{ .param .b32 p; .param .b32 q; st.param.b64 [p], pin; call (q), triple, (p); }", declarations=TRIPLE)


def test_a_function_without_a_body_is_named_when_the_module_loads() -> None:
    declared = ".extern .func (.param .b32 r) elsewhere (.param .b32 a);\n"
    with pytest.raises(UnsupportedError, match="call of elsewhere: the module has no body"):
        tcsim.RawModule(code=kernel(call("elsewhere", "lane", "%r1"), declarations=declared))


def test_what_a_called_function_lacks_is_reported_for_the_kernel() -> None:
    strange = ".func strange { frobnicate.b32 %r1; ret; }"
    with pytest.raises(UnsupportedError, match="unknown instruction 'frobnicate'"):
        tcsim.RawModule(code=kernel("call strange;", declarations=strange))


# ----------------------------------------------------------------------------------------------- recursion and pointers


def test_too_deep_a_recursion_is_a_fault() -> None:
    down = """.func (.param .b32 r) down (.param .b32 a)
    { .reg .b32 %t<4>; .reg .pred %q; ld.param.u32 %t1, [a]; add.u32 %t2, %t1, 1;
    { .param .b32 p; .param .b32 s; st.param.b32 [p], %t2; call.uni (s), down, (p); ld.param.b32 %t3, [s]; }
    add.u32 %t3, %t3, %t1; st.param.b32 [r], %t3; ret; }"""
    with pytest.raises(KernelFault, match="too deep a recursion"):
        run(call("down", "lane", "result"), declarations=down)


def test_a_null_function_pointer_is_a_fault() -> None:
    body = "mov.u64 %rd1, 0; proto: .callprototype _ (); call %rd1, proto;"
    with pytest.raises(KernelFault, match=r"BAD JUMP .*CTA \(0, 0, 0\)"):
        run(body)


@pytest.mark.parametrize("index", [4, 2**31])
def test_a_branch_index_outside_its_list_is_a_fault(index: int) -> None:
    with pytest.raises(KernelFault, match="BAD JUMP"):
        run(f"T: .branchtargets A, B, A, B; mov.u32 %r1, {index}; brx.idx %r1, T; A: mov.u32 result, 1; B: ")


# ------------------------------------------------------------------------------------------- what the machine provides

PRINTF = """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[15] = {37, 100, 32, 37, 46, 50, 102, 32, 37, 115, 33, 37, 37, 10, 0};
.global .align 1 .b8 word[4] = {121, 101, 115, 0};
"""


def test_printf_prints_what_each_thread_gives_it(capsys: pytest.CaptureFixture[str]) -> None:
    body = """
    .local .align 8 .b8 args[24];
    setp.gt.u32 %p1, lane, 1; @%p1 bra DONE;
    mov.u64 %rd1, args; cvta.local.u64 %rd2, %rd1;
    sub.u32 %r1, 0, lane; st.local.u32 [%rd1], %r1; cvt.rn.f64.u32 %fd1, lane; st.local.f64 [%rd1+8], %fd1;
    mov.u64 %rd3, word; cvta.global.u64 %rd3, %rd3; st.local.u64 [%rd1+16], %rd3;
    mov.u64 %rd4, text; cvta.global.u64 %rd4, %rd4;
    { .param .b64 p; .param .b64 q; .param .b32 s; st.param.b64 [p], %rd4; st.param.b64 [q], %rd2;
    call.uni (s), vprintf, (p, q); ld.param.b32 result, [s]; }
    DONE:
    """
    got = run(body, declarations=PRINTF)
    assert capsys.readouterr().out == "0 0.00 yes!%\n-1 1.00 yes!%\n"
    np.testing.assert_array_equal(got, np.where(LANES < 2, 3, 0))


@pytest.mark.parametrize(
    ("text", "layout", "values", "shown"),
    [
        ("[%5d|%-5d|%05d|%+d]", "<4i", (7, 7, 7, 7), "[    7|7    |00007|+7]"),
        ("%u %x %#X %o", "<4I", (4294967295, 255, 255, 8), "4294967295 ff 0XFF 10"),
        ("%lld %lu %hhd %hu", "<qQ2i", (-(2**40), 2**63, 300, 65537), "-1099511627776 9223372036854775808 44 1"),
        ("%.3e %g %f %8.2f", "<4d", (1234.5678, 1e-10, 0.5, 2.345), "1.235e+03 1e-10 0.500000     2.35"),
        ("%c%c %*d %.*f %p", "<5i4xdQ", (72, 105, 4, 9, 2, 2.5, 16), "Hi    9 2.50 0x10"),
    ],
)
def test_formats(text: str, layout: str, values: tuple[Any, ...], shown: str) -> None:
    """As C prints them; an 8-byte argument lies at a multiple of 8."""
    data = struct.pack(layout, *values)
    assert format_text(text, lambda at, size: data[at : at + size], str)[0] == shown


def test_a_failed_assertion_says_what_where_and_who() -> None:
    strings = {"message": "x < 5", "file": "a.cu", "function": "void k(int)"}
    declared = ".extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);\n"
    for name, text in strings.items():
        data = ", ".join(str(byte) for byte in (*text.encode(), 0))
        declared += f".global .align 1 .b8 {name}[{len(text) + 1}] = {{{data}}};\n"
    body = "setp.lt.u32 %p1, lane, 5; @%p1 bra FINE; mov.u64 %rd9, 1;"
    for number, name in enumerate(strings):
        body += f"mov.u64 %rd{number}, {name}; cvta.global.u64 %rd{number}, %rd{number};"
    body += """{ .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;
    st.param.b64 [m], %rd0; st.param.b64 [f], %rd1; st.param.b32 [l], 42; st.param.b64 [n], %rd2; st.param.b64 [c], %rd9;
    call.uni __assertfail, (m, f, l, n, c); } FINE:"""
    with pytest.raises(KernelFault, match=r"thread \(5, 0, 0\)\n +a\.cu:42: void k\(int\): assertion `x < 5` failed"):
        run(body, declarations=declared)


HEAP = """
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);
"""
MALLOC = """{ .param .b64 n; .param .b64 r; st.param.b64 [n], 24; call.uni (r), malloc, (n); ld.param.b64 %rd1, [r]; }"""
FREE = "{ .param .b64 p; st.param.b64 [p], %rd1; call.uni free, (p); }"


def test_every_thread_gets_memory_of_its_own() -> None:
    got = run(MALLOC + "st.u32 [%rd1+20], lane; bar.sync 0; ld.u32 result, [%rd1+20];" + FREE, declarations=HEAP)
    np.testing.assert_array_equal(got, LANES)


def test_freeing_what_is_no_block_is_a_fault() -> None:
    with pytest.raises(KernelFault, match="BAD FREE"):
        run(MALLOC + FREE + FREE, declarations=HEAP)
