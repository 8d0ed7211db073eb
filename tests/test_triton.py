"""Triton kernels in tcsim: the kernels of Triton's tutorials in our own words, arguments of every kind, autotuning, errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tcsim
import tcsim.triton
from tcsim.errors import DeviceError, KernelFault, LaunchError, TcsimError, UnsupportedError
from tcsim.triton.image import Image

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
kernels = pytest.importorskip("tests.triton_tutorials")

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A compilation cache that no earlier run has written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


@pytest.fixture(autouse=True)
def _active() -> Iterator[None]:
    tcsim.triton.activate("a100")
    yield
    tcsim.triton.deactivate()


def normal(*shape: int, dtype: Any = np.float32, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# Tutorial kernels against NumPy


def test_vector_add() -> None:
    x, y, out = normal(1000), normal(1000, seed=2), np.zeros(1000, np.float32)
    kernels.vector_add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, BLOCK=256)
    assert np.array_equal(out, x + y)


def test_softmax() -> None:
    x, out = normal(3, 300), np.zeros((3, 250), np.float32)
    kernels.softmax_rows[(3,)](out, x[:, :250], x.strides[0] // x.itemsize, 250, BLOCK=256)
    powers = np.exp(x[:, :250].astype(np.float64))
    assert np.abs(out - powers / powers.sum(1, keepdims=True)).max() < 1e-8


def test_matmul_autotuned_by_cycles() -> None:
    a, b, c = normal(72, 80, dtype=np.float16), normal(80, 40, dtype=np.float16, seed=2), np.zeros((72, 40), np.float16)
    with tcsim.Profiler() as profiler:
        launcher = kernels.matmul[lambda meta: (triton.cdiv(72, meta["BLOCK_M"]), triton.cdiv(40, meta["BLOCK_N"]))]
        launcher(a, b, c, 72, 40, 80, 80, 40)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c - exact).max() <= np.abs(exact).max() * 2**-11
    # The trials are timed apart, and the best of them is what runs in the end.
    (launch,) = profiler.launches
    timings = {config.num_warps: times[0] for config, times in kernels.matmul.configs_timings.items()}
    assert set(timings) == {1, 4} and timings[1] != timings[4]
    assert kernels.matmul.best_config.num_warps == min(timings, key=timings.__getitem__)
    assert 1e3 * launch.seconds == min(timings.values())


def test_layer_norm() -> None:
    x, weight, bias = 3 + 2 * normal(4, 200), normal(200, seed=2), normal(200, seed=3)
    out, mean, rstd = np.zeros_like(x), np.zeros(4, np.float32), np.zeros(4, np.float32)
    kernels.layer_norm[(4,)](x, weight, bias, out, mean, rstd, 200, 1e-5, BLOCK=256)
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt(wide.var(1) + 1e-5)
    assert np.abs(mean - wide.mean(1)).max() < 1e-6 and np.abs(rstd / scale - 1).max() < 1e-6
    assert np.abs(out - ((wide - wide.mean(1, keepdims=True)) * scale[:, None] * weight + bias)).max() < 1e-5


def test_dropout_draws_philox_numbers() -> None:
    x, out = normal(600), np.full(600, np.nan, np.float32)
    kernels.dropout[(3,)](x, out, 600, 0.4, 1234, BLOCK=256)
    bits = _philox(1234, np.arange(600, dtype=np.uint64)).astype(np.int64)
    signed = np.where(bits >> 31, bits - (1 << 32), bits)
    uniform = np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)
    assert 0 < (out == 0).mean() < 0.6
    assert np.array_equal(out, np.where(uniform > np.float32(0.4), x * 2, np.float32(0)))


def _philox(seed: int, counter: np.ndarray) -> np.ndarray:
    """First word of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = counter.copy(), *(np.zeros_like(counter) for _ in range(3))
    k0, k1 = np.uint64(seed), np.uint64(0)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    return c0


def test_attention_forward() -> None:
    q, k, v = (normal(2, 64, 32, dtype=np.float16, seed=seed) for seed in (1, 2, 3))
    out = np.zeros_like(q)
    kernels.attention[(2, 2)](q, k, v, out, 32**-0.5, 64, BLOCK_Q=32, BLOCK_K=32, WIDTH=32)
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 32**-0.5
    weights = np.exp(np.where(np.tril(np.ones((64, 64))) > 0, scores, -np.inf))
    assert np.abs(out - weights / weights.sum(2, keepdims=True) @ v.astype(np.float64)).max() < 2e-3


# Arguments


def test_views_share_their_buffer() -> None:
    """Offsets, strides and two views of one buffer; nothing outside them changes."""
    data = normal(3, 1000)
    before = data.copy()
    kernels.vector_add[(4,)](data[0][3:], data[1, 1:-2], data[2, 3:], 997, BLOCK=256)
    assert np.array_equal(data[2, 3:], before[0, 3:] + before[1, 1:-2])
    assert np.array_equal(data[:2], before[:2]) and np.array_equal(data[2, :3], before[2, :3])


def test_alignment_chooses_the_same_variants_as_on_a_gpu() -> None:
    data = np.zeros(2000, np.float32)
    data = data[-data.ctypes.data % 16 // 4 :]
    aligned = kernels.vector_add[(1,)](data[:256], data[256:512], data[512:], 256, BLOCK=256)
    shifted = kernels.vector_add[(1,)](data[1:257], data[256:512], data[512:], 256, BLOCK=256)
    again = kernels.vector_add[(1,)](data[1024:1280], data[256:512], data[512:], 256, BLOCK=256)
    assert "ld.global.v" in aligned.asm["ptx"] and aligned is again and shifted is not aligned


def test_tcsim_arrays_stay_on_the_device() -> None:
    x, y = normal(500), normal(500, seed=2)
    device = [tcsim.asarray(values) for values in (x, y, np.zeros_like(x))]
    kernels.vector_add[(2,)](*device, np.int64(500), BLOCK=256)
    assert np.array_equal(device[2].get(), x + y)


def test_tensors_of_another_library() -> None:
    """Anything with an address, a type and a size will do."""
    host = [normal(300), normal(300, seed=2), np.zeros(300, np.float32)]
    tensors = [
        SimpleNamespace(data_ptr=lambda a=array: a.ctypes.data, dtype="float32", nbytes=array.nbytes, is_cuda=False)
        for array in host
    ]
    kernels.vector_add[(2,)](*tensors, 300, BLOCK=256)
    assert np.array_equal(host[2], host[0] + host[1])


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    assert triton.runtime.driver.active.get_active_torch_device() == torch.device("cpu")
    x, y = torch.randn(500, dtype=torch.bfloat16), torch.randn(500, dtype=torch.bfloat16)
    out = torch.zeros(510, dtype=torch.bfloat16)
    kernels.vector_add[(2,)](x, y, out[5:505], 500, BLOCK=256)
    assert torch.equal(out[5:505], x + y) and not out[:5].any() and not out[505:].any()


def test_a_table_of_device_addresses() -> None:
    buffers = [tcsim.asarray(normal(size, seed=size)) for size in (20, 64, 33)]
    before = [buffer.get() for buffer in buffers]
    table, sizes = np.array([b.data.ptr for b in buffers], np.int64), np.array([20, 64, 33], np.int32)
    kernels.grouped_scale[(3,)](table, sizes, 3.0, BLOCK=64)
    assert all(np.array_equal(b.get(), old * np.float32(3)) for b, old in zip(buffers, before, strict=True))


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize("pair", [(-5, np.int32(7)), Pair(-5, 7)])
def test_scalars_and_tuples(pair: Any) -> None:
    ints, floats, missing = np.zeros(4, np.int64), np.zeros(3), np.zeros(1, np.int32)
    kernels.store_scalars[(1,)](ints, floats, pair, True, None, 1 << 40, 0.1, 0.1, np.float64(0.1))
    kernels.store_scalars[(1,)](ints, floats, pair, np.bool_(True), missing, 1 << 40, 0.1, 0.1, 0.1)
    assert ints.tolist() == [-5, 7, 1, 1 << 40] and missing[0] == 1
    # Triton's launcher truncates to bf16: 0.1 is 0x3dcccccd in f32.
    assert floats.tolist() == [float(np.float16(0.1)), float(np.array(0x3DCC0000, np.uint32).view(np.float32)), 0.1]


def test_tensor_descriptors_become_pointers_below_sm_90() -> None:
    descriptor = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor
    x, out = normal(32, 64), np.zeros((32, 64), np.float32)
    tensors = [tcsim.triton.astensor(array) for array in (x, out)]
    copy_tile[(1,)](*(descriptor(t, list(t.shape), list(t.stride()), [16, 32]) for t in tensors))
    assert np.array_equal(out[16:, 32:], x[16:, 32:]) and not out[:16].any() and not out[:, :32].any()


@triton.jit
def copy_tile(source, target):
    target.store([16, 32], source.load([16, 32]))


def test_small_floats() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, y = normal(256, dtype=ml_dtypes.bfloat16), normal(256, dtype=ml_dtypes.bfloat16, seed=2)
    out = np.zeros_like(x)
    kernels.vector_add[(1,)](x, y, out, 256, BLOCK=256)
    assert np.array_equal(out.view(np.uint16), (x + y).view(np.uint16))


# What surrounds a launch


def test_profile_has_python_lines() -> None:
    x = np.zeros(256, np.float32)
    with tcsim.Profiler() as profiler:
        kernels.vector_add[(1,)](x, x, x, 256, BLOCK=256)
    first = kernels.vector_add.fn.__code__.co_firstlineno
    rows = [row for row in profiler.launches[0].instructions if row.opcode.startswith(("ld.global", "LDG"))]
    assert rows and all(row.file.endswith("triton_tutorials.py") and first < row.line <= first + 5 for row in rows)


def test_the_same_launch_takes_the_same_cycles() -> None:
    x, y, out = normal(4000), normal(4000), np.zeros(4000, np.float32)
    times = [tcsim.triton.do_bench(lambda: kernels.vector_add[(16,)](x, y, out, 4000, BLOCK=256)) for _ in range(2)]
    assert times[0] == times[1] == triton.testing.do_bench(lambda: kernels.vector_add[(16,)](x, y, out, 4000, BLOCK=256))


def test_do_bench_modes() -> None:
    x = np.zeros(256, np.float32)

    def launch() -> None:
        kernels.write_ones[(1,)](x, BLOCK=256)

    time = triton.testing.do_bench(launch)
    assert triton.testing.do_bench(launch, quantiles=[0.5, 0.2]) == [time, time]
    assert triton.testing.do_bench(launch, quantiles=[0.5]) == time
    assert triton.testing.do_bench(launch, return_mode="all") == [time]
    with pytest.raises(TcsimError, match="launched no kernel"):
        triton.testing.do_bench(lambda: None)
    with pytest.raises(TcsimError, match="no CUDA graphs"):
        triton.testing.do_bench_cudagraph(launch)


def test_heuristics_and_autotuner_hooks_see_tensors() -> None:
    """``reset_to_zero`` and heuristics use a tensor's methods; NumPy arrays get them."""
    kernel = triton.autotune([triton.Config({}, num_warps=w) for w in (1, 2)], key=["n"], reset_to_zero=["out"])(
        triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["x"].numel())})(count_up)
    )
    x, out = np.arange(100, dtype=np.int32), np.full(100, 7, np.int32)
    kernel[(1,)](x, out, 100)
    assert np.array_equal(out, x)


@triton.jit
def count_up(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(out + at, tl.load(x + at, at < n), at < n)


def test_inline_assembly_and_barriers() -> None:
    x, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    kernels.complement[(1,)](x, out, BLOCK=128)
    assert np.array_equal(out, ~x)


@triton.jit
def print_and_check(x, CHECKED: tl.constexpr):
    values = tl.load(x + tl.arange(0, 32))
    tl.device_print("value", values)
    if CHECKED:
        tl.device_assert(values < 30, "too large")
    tl.store(x + tl.arange(0, 32), -values)


def test_device_print(capfd: pytest.CaptureFixture[str]) -> None:
    x = np.arange(32, dtype=np.int32)
    print_and_check[(1,)](x, CHECKED=False, num_warps=1)
    sys.stdout.flush()
    lines = capfd.readouterr().out.splitlines()
    assert lines[7] == "pid (0, 0, 0) idx ( 7) value: 7" and len(lines) == 32
    assert np.array_equal(x, -np.arange(32))


def test_device_assert() -> None:
    x = np.arange(32, dtype=np.int32)
    with pytest.raises(KernelFault, match=r"test_triton.py:\d+[^$]*too large") as caught:
        print_and_check[(1,)](x, CHECKED=True, debug=True, num_warps=1)
    assert caught.value.lanes[0] == 30


def test_the_example_of_the_page(tmp_path: Path) -> None:
    """docs/triton.md, run as a script."""
    page = (Path(__file__).parents[1] / "docs" / "triton.md").read_text()
    (tmp_path / "matmul.py").write_text(page.split("```python\n")[1].split("```")[0])
    command = [sys.executable, str(tmp_path / "matmul.py")]
    shown = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True).stdout
    assert float(shown.splitlines()[0].removeprefix("largest error:")) < 1e-4
    assert all(f"BLOCK {block}, {warps} warps:" in shown for block, warps in ((32, 1), (32, 4), (64, 4)))
    assert "Section: Source Counters" in shown and "matmul.py:17" in shown


def test_compiled_kernel_can_be_launched() -> None:
    """As the fused-softmax tutorial does: compile first, ask for resources, then launch what was compiled."""
    x, y, out = normal(256), normal(256, seed=2), np.zeros(256, np.float32)
    kernel = kernels.vector_add.warmup(x, y, out, 256, BLOCK=256, grid=(1,))
    kernel._init_handles()
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    assert 0 < kernel.n_regs <= properties["max_num_regs"] and properties["multiprocessor_count"] == 108
    kernel[(1, 1, 1)](x, y, out, 256, 256)
    assert np.array_equal(out, x + y)


def test_an_empty_grid_does_nothing() -> None:
    x = np.zeros(256, np.float32)
    kernels.write_ones[(0,)](x, BLOCK=256)
    assert not x.any()


# Switching


def test_sm_80_code_on_an_h200() -> None:
    a, b, c = normal(64, 64, dtype=np.float16), normal(64, 64, dtype=np.float16), np.zeros((64, 64), np.float16)
    tcsim.triton.activate("h200", target="sm_80")
    kernel = kernels.matmul.fn[(1, 2)](a, b, c, 64, 64, 64, 64, 64, **kernels.CONFIGS[1].kwargs)
    assert ".target sm_80" in kernel.asm["ptx"] and tcsim.current_device().name == "h200"
    assert np.abs(c - a.astype(np.float32) @ b.astype(np.float32)).max() < 0.02


def test_deactivate_restores_triton() -> None:
    from triton.backends import backends

    patched = (triton.runtime.JITFunction.run, triton.testing.do_bench, backends["nvidia"])
    tcsim.triton.activate("h200")
    tcsim.triton.deactivate()
    restored = (triton.runtime.JITFunction.run, triton.testing.do_bench, backends["nvidia"])
    assert all(old is not new for old, new in zip(patched, restored, strict=True))
    assert not hasattr(restored[0], "__wrapped__") and restored[1].__module__ == "triton.testing"
    tcsim.triton.deactivate()  # again: nothing to do
    tcsim.triton.activate("a100")
    x = np.zeros(256, np.float32)
    kernels.write_ones[(1,)](x, BLOCK=256)
    assert x.all()


def test_import_without_triton() -> None:
    code = (
        "import sys; sys.modules['triton'] = None\nimport tcsim.triton\n"
        "try:\n    tcsim.triton.activate()\nexcept tcsim.TcsimError as problem:\n    print(problem)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True).stdout
    assert "pip install 'tcsim[triton]'" in shown


# Errors


def test_unknown_devices_and_targets() -> None:
    with pytest.raises(DeviceError, match="unknown device"):
        tcsim.triton.activate("geforce2")
    with pytest.raises(DeviceError, match="cannot run code"):
        tcsim.triton.activate("a100", target="sm_90")
    with pytest.raises(DeviceError, match="give a PTX target"):
        tcsim.triton.activate("a100", target="ampere")


def test_instructions_of_later_tensor_cores_are_refused_with_advice() -> None:
    ptx = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k() {\n tcgen05.wait::ld.sync.aligned;\n ret;\n}"
    with pytest.raises(UnsupportedError, match=r"k, compiled for sm_100a, uses tcgen05[^$]*line 5: tcgen05") as caught:
        Image("k", ptx, tcsim.Device("b200")).function()
    assert "activate('b200', target='sm_80'), or activate('h200')" in str(caught.value)


def test_out_of_bounds_names_the_argument() -> None:
    with pytest.raises(KernelFault, match=r"past the end of the 400-byte buffer[^$]*holds argument x"):
        kernels.write_ones[(1,)](np.zeros(100, np.float32), BLOCK=256)


def test_host_memory_is_as_before_after_a_fault() -> None:
    x = np.zeros(100, np.float32)
    with pytest.raises(KernelFault):
        kernels.write_ones[(1,)](x, BLOCK=256)
    assert not x.any()


def test_read_only_arrays() -> None:
    x, out = normal(256), np.zeros(256, np.float32)
    x.flags.writeable = False
    kernels.vector_add[(1,)](x, x, out, 256, BLOCK=256)
    assert np.array_equal(out, x + x)
    with pytest.raises(LaunchError, match=r"wrote to argument x, a read-only array"):
        kernels.write_ones[(1,)](x, BLOCK=256)


def test_arguments_that_cannot_be_passed() -> None:
    with pytest.raises(LaunchError, match="argument x has elements of type complex64"):
        kernels.write_ones[(1,)](np.zeros(256, np.complex64), BLOCK=256)
    on_gpu = SimpleNamespace(data_ptr=lambda: 4096, dtype="float32", is_cuda=True, device="cuda:0")
    with pytest.raises(LaunchError, match=r"argument x is on a real GPU \(cuda:0\)"):
        kernels.write_ones[(1,)](on_gpu, BLOCK=256)
    with tcsim.Device("l40s"):
        elsewhere = tcsim.zeros(256, np.float32)
    with pytest.raises(LaunchError, match="array on 'l40s', the kernel runs on 'a100'"):
        kernels.write_ones[(1,)](elsewhere, BLOCK=256)
    sizeless = SimpleNamespace(data_ptr=lambda: 4096, dtype="float32")
    with pytest.raises(LaunchError, match="has an address but no size"):
        kernels.write_ones[(1,)](sizeless, BLOCK=256)


def test_too_much_shared_memory_is_tritons_own_error() -> None:
    with pytest.raises(triton.runtime.errors.OutOfResources, match="shared memory"):
        kernels.matmul.fn[(1, 1)](*[np.zeros(64, np.float16)] * 3, 64, 64, 512, 512, 64, 64, 64, 64, num_stages=12)
