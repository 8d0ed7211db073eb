"""CUDA C through NVRTC: compiled and run where ``tcsim[cuda]`` is installed, refused with advice elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tcsim
from tcsim import compile as compiler
from tcsim.compile import CompileError, looks_like_ptx

needs_nvrtc = pytest.mark.skipif(not compiler.nvrtc_available(), reason="NVRTC is not installed")

HALF = r"""
#include <cuda_fp16.h>
#include "factor.h"
template <typename T, int N> __global__ void scale(T* x, T f) {
    for (int k = 0; k < N; k++) x[threadIdx.x] = x[threadIdx.x] * f;
}
extern "C" __global__ void square_plus(const half* a, half* b) {
    b[threadIdx.x] = __hfma(a[threadIdx.x], a[threadIdx.x], __float2half(FACTOR));
}
"""


def test_what_is_ptx() -> None:
    assert looks_like_ptx("// made by hand\n\n/* .. */ .version 8.0\n.target sm_80")
    assert not looks_like_ptx('#include <x>\nextern "C" __global__ void k() {}')
    assert not looks_like_ptx("// .version 8.0\n__global__ void k() {}")


@pytest.mark.parametrize("text", ["", " \n", "// nothing yet\n", "\0"])
def test_an_empty_module_is_told(text: str) -> None:
    with pytest.raises(tcsim.TcsimError, match="the module is empty"):
        tcsim.RawModule(code=text)


def test_a_file_may_start_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text("\ufeff.version 8.0\n.target sm_80\n.visible .entry k() { ret; }\n", encoding="utf-8")
    assert tcsim.RawModule(path=tmp_path / "k.ptx").kernels == ("k",)


def test_without_nvrtc_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_nvrtc", lambda: None)
    with pytest.raises(tcsim.TcsimError, match=r"pip install 'tcsim\[cuda\]'.*nvcc -ptx"):
        tcsim.RawModule(code='extern "C" __global__ void k() {}')


@needs_nvrtc
def test_headers_templates_and_source_lines(tmp_path: Path) -> None:
    (tmp_path / "factor.h").write_text("#define FACTOR 1.0f\n")
    source = tmp_path / "half.cu"
    source.write_text(HALF)
    module = tcsim.RawModule(path=source, options=("-std=c++17",), name_expressions=["scale<float, 2>"])
    x = tcsim.asarray(np.arange(32, dtype=np.float32))
    module.get_function("scale<float, 2>")((1,), (32,), (x, np.float32(3)))
    np.testing.assert_array_equal(x.get(), 9 * np.arange(32))
    a, b = tcsim.asarray(np.arange(32, dtype=np.float16)), tcsim.zeros(32, np.float16)
    with tcsim.Profiler() as profiler:
        module.get_function("square_plus")((1,), (32,), (a, b))
    np.testing.assert_array_equal(b.get(), np.arange(32) ** 2 + 1)
    assert "half.cu:" in profiler.launches[-1].report()


@needs_nvrtc
def test_a_mistake_in_the_source_is_told_by_its_line() -> None:
    with pytest.raises(CompileError, match=r'kernel\.cu\(2\): error: identifier "q" is undefined'):
        tcsim.RawModule(code='// one\nextern "C" __global__ void k(int* p) { p[0] = q; }')
