"""Operands that PTX leaves undefined are told of after every kind of launch: plain, profiled, checked, of machine code."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from isa.tensor.matrix_descriptor import Descriptor, is_regular
from tcsim.cli.app import main
from tcsim.errors import UndefinedOperandWarning
from tests.test_wgmma_execute import KERNEL as WGMMA_KERNEL

needs_tools = pytest.mark.skipif(None in (find_ptxas(), find_nvdisasm()), reason="ptxas and nvdisasm are not installed")

TF32_KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 word)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [word];
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32
        {%f0, %f1, %f2, %f3}, {%r1, %r1}, {%r1}, {%f0, %f1, %f2, %f3};
    st.global.f32 [%rd1], %f0;
    ret;
}
"""
SPARSE_KERNEL = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 metadata)
{
    .reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [metadata];
    mov.f32 %f0, 0f00000000;
    mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {%f0, %f1, %f2, %f3}, {%r1, %r1}, {%r1, %r1}, {%f0, %f1, %f2, %f3}, %r1, 0;
    st.global.f32 [%rd1], %f0;
    ret;
}
"""
CLEAN, LIVE = 0x3F800000, 0x3F800001


def told(source: str, word: int, around: Callable[[], AbstractContextManager[object]], execute: str = "ptx") -> list[str]:
    """The warnings of a launch of a kernel with one word, which go on to whoever runs the launch."""
    with tcsim.Device("h200", execute=execute), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function = tcsim.RawModule(code=source).get_function("k")
        with around():
            function((1,), (32,), (tcsim.zeros(1, np.float32), np.uint32(word)))
    mine = [warning for warning in found if warning.category is UndefinedOperandWarning]
    assert all(warning.filename == __file__ for warning in mine)  # the line that launches
    return [str(warning.message) for warning in mine]


WAYS = [
    pytest.param(nullcontext, "ptx", id="plain"),
    pytest.param(lambda: tcsim.Profiler(code="ptx"), "ptx", id="profiled"),
    pytest.param(tcsim.Checker, "ptx", id="checked"),
    pytest.param(nullcontext, "machine", id="machine", marks=needs_tools),
    pytest.param(tcsim.Profiler, "ptx", id="profiled machine code", marks=needs_tools),
]


@pytest.mark.parametrize(("around", "execute"), WAYS)
def test_live_low_bits_of_tf32(around: Callable[[], AbstractContextManager[object]], execute: str) -> None:
    (message,) = told(TF32_KERNEL, LIVE, around, execute)
    assert message.startswith("kernel k: tf32 operands whose low 13 bits are not zero")
    assert told(TF32_KERNEL, CLEAN, around, execute) == []


@needs_tools
def test_rounding_of_machine_code_leaves_low_bits() -> None:
    """ptxas adds half a unit for cvt.rna and drops nothing, since the tensor cores do."""
    rounded = TF32_KERNEL.replace("    mma.sync", "    cvt.rna.tf32.f32 %r1, %r1;\n    mma.sync")
    assert rounded != TF32_KERNEL and told(rounded, LIVE, nullcontext, "machine") == told(rounded, LIVE, nullcontext) == []


@pytest.mark.parametrize(("around", "execute"), WAYS)
def test_sparsity_metadata(around: Callable[[], AbstractContextManager[object]], execute: str) -> None:
    for word in (0xAAAAAAAA, 0x44444440):
        (message,) = told(SPARSE_KERNEL, word, around, execute)
        assert message.startswith("kernel k: sparsity metadata")
    assert told(SPARSE_KERNEL, 0x44444444, around, execute) == []


def test_the_command_line_tells_of_them_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "traces/wgmma_tf32"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("tcsim: kernel wgmma_tf32: tf32 operands whose low 13 bits are not zero")
    assert captured.out == "wgmma_tf32: c (f32[128,128]): every byte equals the hardware's\n"


@pytest.mark.parametrize(
    ("descriptor", "regular"),
    [
        (Descriptor(0x1000, 128, 256), True),
        (Descriptor(0x1070, 128, 256), True),  # without a swizzle any multiple of 16
        (Descriptor(0x1800, 16, 1024, 128), True),
        (Descriptor(0x1820, 16, 1024, 128), True),  # the second step along k
        (Descriptor(0x1880, 16, 1024, 128), False),
        (Descriptor(0x1880, 16, 1024, 128, 1), True),
        (Descriptor(0x1800, 16, 1024, 128, 1), False),
        (Descriptor(0x1200, 16, 512, 64), True),
        (Descriptor(0x1280, 16, 512, 64), False),
        (Descriptor(0x1100, 16, 256, 32), True),
        (Descriptor(0x1080, 16, 256, 32), False),
    ],
)
def test_where_a_swizzled_matrix_begins(descriptor: Descriptor, regular: bool) -> None:
    assert is_regular(np.uint64(descriptor.encode())) == regular


@pytest.mark.parametrize("bit", [14, 15, 30, 31, 46, 48, 52, 61])
def test_reserved_bits_of_a_descriptor(bit: int) -> None:
    good = Descriptor(0x1000, 128, 256).encode()
    assert is_regular(np.uint64(good))
    assert not is_regular(np.uint64(good | 1 << bit))


def test_an_irregular_descriptor_is_told_of() -> None:
    text = WGMMA_KERNEL.format(directives="", between="", guard="", scale="0", negate=1)
    function = tcsim.RawModule(code=text).get_function("k")
    out = tcsim.zeros((1, 128, 4), np.float32)
    good = Descriptor(0, 128, 256).encode()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function((1,), (128,), (out, np.uint64(good)))
    with pytest.warns(UndefinedOperandWarning, match="kernel k: a matrix descriptor with reserved bits set"):
        function((1,), (128,), (out, np.uint64(good | 1 << 52)))
