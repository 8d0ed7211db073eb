"""The Python interface, as a user of CuPy would write it, and what it says when something is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from tcsim.errors import (
    DeviceError,
    KernelFault,
    LaunchError,
    PtxError,
    PtxSyntaxError,
    TcsimError,
    UnsupportedError,
    UnsupportedWarning,
)

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"

SCALE = (
    HEAD
    + """
.visible .entry scale(.param .u64 x, .param .f32 factor, .param .u32 n)
{
    .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [x];
    ld.param.f32 %f1, [factor];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 ret;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r2, 4;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.f32 %f2, [%rd2];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%rd2], %f3;
    ret;
}
"""
)


def test_a_script_as_for_cupy() -> None:
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    d = tcsim.asarray(x)
    kernel = tcsim.RawModule(code=SCALE).get_function("scale")
    kernel((4,), (256,), (d, np.float32(3), np.int32(1000)))
    np.testing.assert_array_equal(tcsim.asnumpy(d), x * np.float32(3))


def test_raw_kernel_and_shapes_as_numbers() -> None:
    d = tcsim.ones(64, np.float32)
    tcsim.RawKernel(SCALE, "scale")(1, 64, (d, np.float32(0.5), np.uint32(64)))
    assert (d.get() == 0.5).all()


def test_arrays() -> None:
    a = tcsim.asarray([[1, 2, 3], [4, 5, 6]], dtype=np.int16)
    assert (a.shape, a.dtype, a.nbytes, a.ndim, len(a)) == ((2, 3), np.int16, 12, 2, 2)
    assert a.data.ptr % 256 == 0
    a.set(np.full((2, 3), 7))
    assert (a.get() == 7).all()
    assert (tcsim.zeros_like(a).get() == 0).all()
    assert tcsim.empty((), np.float64).shape == ()
    assert tcsim.zeros((0, 4), np.float32).nbytes == 0
    assert (tcsim.full(3, 2.5).get() == [2.5] * 3).all()
    assert tcsim.asarray(a) is a
    fortran = np.asfortranarray(np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(tcsim.asarray(fortran).get(), fortran)
    with pytest.raises(TypeError, match="asnumpy"):
        np.asarray(a)
    with pytest.raises(TcsimError, match="shape"):
        a.set(np.zeros(5))


def test_addresses_repeat_from_run_to_run_and_never_touch() -> None:
    memory = tcsim.Device("t4").memory
    one, two = memory.allocate(1000), memory.allocate(1)
    assert two.start - one.end >= 512
    memory.free(one)
    assert memory.allocate(8).start > two.end


def test_devices() -> None:
    assert tcsim.current_device().name == "h200"
    with tcsim.Device("a100") as device:
        assert tcsim.current_device() is device is tcsim.Device("sm_80") is tcsim.Device("Ampere")
        with tcsim.Device("v100"):
            assert tcsim.zeros(4).device.name == "v100"
        assert tcsim.zeros(4).device.name == "a100"
    assert tcsim.current_device().name == "h200"
    for name in ("v100", "t4", "a100", "rtx3090", "l40s", "rtx4090", "h100", "h200", "b200"):
        assert tcsim.Device(name).name == name
    with pytest.raises(DeviceError, match="unknown device 'h2000'; known: v100"):
        tcsim.Device("h2000")


def test_device_memory_is_finite() -> None:
    with tcsim.Device("t4"), pytest.raises(DeviceError, match="out of device memory"):
        tcsim.empty(1 << 40, np.uint8)


# ---------------------------------------------------------------------------------------------------- launch errors


@pytest.fixture
def scale() -> tcsim.Function:
    return tcsim.RawModule(code=SCALE).get_function("scale")


def test_wrong_number_of_arguments(scale: tcsim.Function) -> None:
    with pytest.raises(LaunchError, match=r"takes 3 arguments \(x: \.u64, factor: \.f32, n: \.u32\); 2 given"):
        scale((1,), (32,), (tcsim.zeros(32, np.float32), np.float32(1)))


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (np.float64(1), r"argument 1 \(factor: \.f32\): expected 4 bytes, got float64 \(8 bytes\). Try np.float32\(x\)"),
        (1.0, r"expected 4 bytes, got float \(8 bytes\). Try np.float32\(x\)"),
        (np.float16(1), r"expected 4 bytes, got float16 \(2 bytes\)"),
        (np.zeros(3), r"a NumPy array \(on the host\) cannot be an argument. Try tcsim.asarray"),
        ("x", "a str cannot be an argument"),
    ],
)
def test_scalars_of_the_wrong_kind(scale: tcsim.Function, factor: object, message: str) -> None:
    data = tcsim.ones(32, np.float32)
    with pytest.raises(LaunchError, match=message):
        scale((1,), (32,), (data, factor, np.int32(32)))
    assert (data.get() == 1).all()


def test_array_for_a_number_and_number_for_an_array(scale: tcsim.Function) -> None:
    data = tcsim.ones(32, np.float32)
    with pytest.raises(LaunchError, match="a device array"):
        scale((1,), (32,), (data, data, np.int32(32)))
    with pytest.raises(LaunchError, match=r"argument 0 \(x: \.u64\): expected 8 bytes, got int32"):
        scale((1,), (32,), (np.int32(5), np.float32(1), np.int32(32)))


def test_buffer_on_another_device(scale: tcsim.Function) -> None:
    with tcsim.Device("a100"):
        data = tcsim.ones(32, np.float32)
    with pytest.raises(LaunchError, match="the array is on 'a100', the kernel runs on 'h200'"):
        scale((1,), (32,), (data, np.float32(1), np.int32(32)))


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((1,), (2048,), "block x is 2048, at most 1024"),
        ((1,), (64, 64), "4096 threads per CTA, h200 allows 1024"),
        ((1, 70000), (32,), "grid y is 70000, at most 65,535"),
        ((0,), (32,), "every extent must be at least 1"),
        ((1, 1, 1, 1), (32,), "one to three extents"),
        (("a",), (32,), "extents must be integers"),
    ],
)
def test_bad_shapes(scale: tcsim.Function, grid: object, block: object, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        scale(grid, block, (tcsim.ones(32, np.float32), np.float32(1), np.int32(32)))


def test_shared_memory_limits(scale: tcsim.Function) -> None:
    args = (tcsim.ones(32, np.float32), np.float32(1), np.int32(32))
    with pytest.raises(LaunchError, match=r"Set f.max_dynamic_shared_size_bytes = 60000 first"):
        scale((1,), (32,), args, shared_mem=60000)
    scale.max_dynamic_shared_size_bytes = 60000
    scale((1,), (32,), args, shared_mem=60000)
    with pytest.raises(LaunchError, match="h200 has 232,448 at most"):
        scale((1,), (32,), args, shared_mem=1 << 20)
    with pytest.raises(LaunchError, match="negative"):
        scale((1,), (32,), args, shared_mem=-1)


def test_target_that_the_device_cannot_run() -> None:
    ampere = tcsim.RawModule(code=SCALE).get_function("scale")
    hopper_only = tcsim.RawModule(code=SCALE.replace("sm_80", "sm_90a")).get_function("scale")
    args = (1, 32)
    with tcsim.Device("v100"), pytest.raises(LaunchError, match="compiled for sm_80, which v100"):
        ampere(*args, (tcsim.ones(32, np.float32), np.float32(1), np.int32(32)))
    with tcsim.Device("b200"), pytest.raises(LaunchError, match="compiled for sm_90a, which b200"):
        hopper_only(*args, (tcsim.ones(32, np.float32), np.float32(1), np.int32(32)))
    hopper_only(*args, (tcsim.ones(32, np.float32), np.float32(1), np.int32(32)))


def test_declared_thread_limits() -> None:
    for directive, message in ((".maxntid 64, 1, 1", "at most 64 threads"), (".reqntid 64", r"exactly \(64, 1, 1\)")):
        code = SCALE.replace(".param .u32 n)\n", f".param .u32 n)\n{directive}\n")
        function = tcsim.RawModule(code=code).get_function("scale")
        with pytest.raises(LaunchError, match=message):
            function((1,), (128,), (tcsim.ones(32, np.float32), np.float32(1), np.int32(32)))


# ---------------------------------------------------------------------------------------------------- module errors


def test_no_such_kernel() -> None:
    with pytest.raises(TcsimError, match="did you mean 'scale'"):
        tcsim.RawModule(code=SCALE).get_function("sca")
    with pytest.raises(TcsimError, match="either code= or path="):
        tcsim.RawModule()
    with pytest.raises(TcsimError, match="cannot read"):
        tcsim.RawModule(path="/does/not/exist.ptx")


def test_syntax_error_has_a_position() -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        tcsim.RawModule(code=SCALE.replace("ret;\n}", "ret\n}"))
    assert caught.value.line == SCALE[: SCALE.rindex("ret;")].count("\n") + 2


def test_everything_unsupported_is_told_at_once() -> None:
    bad = "frob.b32 %r1, %r2;\n tcgen05.wait.sync;\n mul.f32.rn.bad %f1, %f2, %f3;\n"
    code = SCALE.replace("    ret;\n}", f"{bad} ret;\n}}")
    with pytest.raises(UnsupportedError) as caught:
        tcsim.RawModule(code=code)
    assert [item.what for item in caught.value.items] == ["frob.b32", "tcgen05.wait.sync", "mul.f32.rn.bad"]
    assert "unknown instruction 'frob'" in str(caught.value)


def test_one_unsupported_kernel_does_not_take_the_others() -> None:
    other = SCALE[len(HEAD) :].replace("scale", "other").replace("mul.f32", "frob.f32")
    with pytest.warns(UnsupportedWarning, match="frob"):
        module = tcsim.RawModule(code=SCALE + other)
    module.get_function("scale")
    with pytest.raises(UnsupportedError, match="kernel other: 1 unsupported"):
        module.get_function("other")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mul.f32 %f3, %f2, %f1;", "mul.f32 %f3, %f2, %f9;", "%f9 is not declared"),
        ("mul.f32 %f3, %f2, %f1;", "mul.f32 %f3, %f2, %rd1;", "register %rd1 is 64 bits wide"),
        ("mul.f32 %f3, %f2, %f1;", "mul.f32 %f3, %f2;", "2 operands given, 3 needed"),
        ("@%p1 ret;", "@%r1 ret;", "guard @%r1 is not a predicate"),
        ("@%p1 ret;", "@%p1 bra NOWHERE;", "NOWHERE is not a label"),
        ("ld.global.f32 %f2, [%rd2];", "ld.global.f32 %f2, %rd2;", "must be an address"),
        ("mul.f32 %f3, %f2, %f1;", "mul.f32 5, %f2, %f1;", "a constant cannot be a destination"),
    ],
)
def test_bad_operands(old: str, new: str, message: str) -> None:
    assert old in SCALE
    with pytest.raises(PtxError, match=message):
        tcsim.RawModule(code=SCALE.replace(old, new)).get_function("scale")


# ------------------------------------------------------------------------------------------------------ memory errors


def test_out_of_bounds_names_the_buffer(scale: tcsim.Function) -> None:
    data = tcsim.ones(40, np.float32)
    with pytest.raises(KernelFault) as caught:
        scale((2,), (32,), (data, np.float32(2), np.int32(64)))
    fault = caught.value
    assert (fault.kind, fault.cta, fault.warp, fault.lanes) == ("OUT OF BOUNDS", (1, 0, 0), 0, (8,))
    assert fault.address == data.data.ptr + 160
    assert "160-byte buffer" in str(fault)
    assert SCALE.splitlines()[fault.ptx_line - 1].strip().startswith("ld.global.f32")


def test_misaligned_access(scale: tcsim.Function) -> None:
    data = tcsim.ones(40, np.float32)
    with pytest.raises(KernelFault, match=r"MISALIGNED  ld\.global\.f32 .*\n.* is 2 mod 4; a 4-byte access"):
        scale((1,), (32,), (np.uint64(data.data.ptr + 2), np.float32(2), np.int32(3)))


def test_null_pointer(scale: tcsim.Function) -> None:
    with pytest.raises(KernelFault, match="null pointer"):
        scale((1,), (32,), (np.uint64(0), np.float32(2), np.int32(3)))


def test_freed_buffers_are_out_of_bounds(scale: tcsim.Function) -> None:
    data = tcsim.ones(32, np.float32)
    address = np.uint64(data.data.ptr)
    del data
    with pytest.raises(KernelFault, match="OUT OF BOUNDS"):
        scale((1,), (32,), (address, np.float32(2), np.int32(32)))


def test_module_variables() -> None:
    variables = ".visible .const .align 4 .f32 table[3] = {1.5, 0f40000000, -3.0};\n.visible .global .u64 where = table;\n"
    code = HEAD + variables + SCALE[len(HEAD) :]
    module = tcsim.RawModule(code=code)
    table = module.get_global("table")
    memory = tcsim.current_device().memory
    assert memory.read(table.ptr, table.nbytes) == np.array([1.5, 2, -3], np.float32).tobytes()
    where = module.get_global("where")
    assert int.from_bytes(memory.read(where.ptr, 8), "little") == table.ptr
    np.testing.assert_array_equal(table.get(np.float32), [1.5, 2, -3])
    table.set(np.array([7, 8], np.float32))
    np.testing.assert_array_equal(table.get(np.float32), [7, 8, -3])
    with pytest.raises(TcsimError, match="table has 12 bytes; 16 given"):
        table.set(np.zeros(4, np.float32))
    with pytest.raises(TcsimError, match="no variable 'nothing'"):
        module.get_global("nothing")


def test_addresses_at_the_end_of_the_address_space(scale: tcsim.Function) -> None:
    """An address so large that adding the access's size overflows is out of bounds, not somewhere else."""
    for address in (2**64 - 4, 2**63 - 4, 2**63):
        with pytest.raises(KernelFault, match="OUT OF BOUNDS"):
            scale((1,), (1,), (np.uint64(address), np.float32(2), np.int32(1)))
