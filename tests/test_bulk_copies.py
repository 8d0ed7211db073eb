"""Kernels that copy in bulk: pipelines through an mbarrier, maps made by the kernel, clusters, and what misuse is told."""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.errors import PtxError, UnsupportedError
from tcsim.errors import KernelFault
from tcsim.tensor_map import tensor_map_im2col, tensor_map_tiled

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
WAIT = """
    LOOP: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra LOOP;
"""


def kernel(body: str, parameters: str = ".param .align 64 .b8 tensor[128], .param .u64 out", shared: int = 4096) -> str:
    """A kernel of one warp, whose lane 0 executes ``body`` after making the mbarrier ``bar`` of one arrival."""
    return f"""{HEAD}
.visible .entry k({parameters}) {{
    .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg .b16 %h<4>;
    .shared .align 1024 .b8 memory[{shared}];
    .shared .align 8 .b64 bar;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, memory;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra DONE;
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.proxy.async;
{body}
DONE:
    ret;
}}
"""


LOAD = (
    """
    mov.b64 %rd0, tensor;
    cvta.param.u64 %rd1, %rd0;
    mov.b32 %r2, {x};
    mov.b32 %r3, {y};
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {bytes};
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1{at}], [%rd1, {{%r2, %r3}}], [bar];
"""
    + WAIT.replace("{", "{{").replace("}", "}}")
    + """
    ld.param.u64 %rd2, [out];
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1{at}], {bytes};
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
"""
)


def run(text: str, *arguments, grid: int = 1) -> None:
    tcsim.RawModule(code=text).get_function("k")((grid,), (32,), arguments)


@pytest.fixture(autouse=True)
def _device():
    with tcsim.Device("h200"):
        yield


@pytest.fixture
def matrix():
    return tcsim.asarray(np.arange(32 * 64, dtype=np.uint16).reshape(32, 64))


def test_a_box_across_the_edge_is_filled_with_zeros(matrix) -> None:
    out = tcsim.zeros((4, 16), np.uint16)
    run(kernel(LOAD.format(x=56, y=30, bytes=128, at="")), tensor_map_tiled(matrix, (16, 4)), out)
    expected = np.zeros((4, 16), np.uint16)
    expected[:2, :8] = matrix.get()[30:, 56:]
    np.testing.assert_array_equal(out.get(), expected)


def test_a_swizzled_box_exchanges_chunks_of_16_bytes(matrix) -> None:
    out = tcsim.zeros((8, 8, 8), np.uint16)  # rows, chunks, elements
    run(kernel(LOAD.format(x=0, y=0, bytes=1024, at="")), tensor_map_tiled(matrix, (64, 8), swizzle="128B"), out)
    rows = matrix.get()[:8].reshape(8, 8, 8)
    for row in range(8):
        for chunk in range(8):
            np.testing.assert_array_equal(out.get()[row, chunk ^ row], rows[row, chunk])


def test_a_kernel_makes_its_own_map(matrix) -> None:
    out, room = tcsim.zeros((4, 16), np.uint16), tcsim.zeros(128, np.uint8)
    fields = [
        "global_address.shared::cta.b1024.b64 [%r1], %rd3",
        "rank.shared::cta.b1024.b32 [%r1], 1",
        *(f"{name}.shared::cta.b1024.b32 [%r1], {axis}, {value}" for name, values in (
            ("box_dim", (16, 4)), ("global_dim", (64, 32)), ("element_stride", (1, 1))) for axis, value in enumerate(values)),
        "global_stride.shared::cta.b1024.b64 [%r1], 0, 128",
        *(f"{name}.shared::cta.b1024.b32 [%r1], {value}" for name, value in (
            ("elemtype", 1), ("interleave_layout", 0), ("swizzle_mode", 0), ("fill_mode", 0))),
    ]  # fmt: skip
    made = "\n".join(f"    tensormap.replace.tile.{field};" for field in fields)
    text = f"""{HEAD}
.visible .entry k(.param .u64 matrix, .param .u64 room, .param .u64 out) {{
    .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<4>;
    .shared .align 1024 .b8 memory[4096];
    .shared .align 8 .b64 bar;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, memory;
    ld.param.u64 %rd3, [matrix];
    ld.param.u64 %rd1, [room];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra COPY;
    mbarrier.init.shared::cta.b64 [bar], 1;
{made}
COPY:
    bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
    @%p0 bra DONE;
{LOAD.format(x=48, y=28, bytes=128, at="").partition("%rd0;")[2].replace("cvta.param.u64 %rd1, %rd0;", "")}
DONE:
    ret;
}}
"""
    run(text, matrix, room, out)
    np.testing.assert_array_equal(out.get(), matrix.get()[28:, 48:])
    expected = bytearray(tensor_map_tiled(matrix, (16, 4)))
    expected[64:] = bytes(64)  # what only the driver fills in: the size of a copy and of the swizzle's pattern
    assert room.get().tobytes() == bytes(expected)


def test_a_reduction_adds_to_the_tensor(matrix) -> None:
    numbers = tcsim.asarray(np.arange(4 * 8, dtype=np.float32).reshape(4, 8))
    body = """
    mov.b64 %rd0, tensor;
    cvta.param.u64 %rd1, %rd0;
    mov.b32 %r2, 0f3F000000;
    st.shared.v4.b32 [%r1], {%r2, %r2, %r2, %r2};
    mov.b32 %r3, 4;
    fence.proxy.async;
    cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group.L2::cache_hint [%rd1, {%r3, 2}], [%r1], %rd1;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
"""
    before = numbers.get()
    run(kernel(body, ".param .align 64 .b8 tensor[128]"), tensor_map_tiled(numbers, (4, 1)))
    before[2, 4:] += 0.5
    np.testing.assert_array_equal(numbers.get(), before)


def test_multicast_reaches_the_ctas_of_the_mask(matrix) -> None:
    text = f"""{HEAD}
.visible .entry k(.param .align 64 .b8 tensor[128], .param .u64 out) .reqnctapercluster 4 {{
    .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg .b16 %h<4>;
    .shared .align 1024 .b8 memory[1024];
    .shared .align 8 .b64 bar;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, memory;
    mov.u32 %r4, %cluster_ctarank;
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared::cta.b64 [bar], 1;
    @!%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    setp.ne.u32 %p2, %r4, 1;
    or.pred %p2, %p2, %p0;
    mov.b64 %rd0, tensor;
    cvta.param.u64 %rd1, %rd0;
    mov.b16 %h0, 11;
    @!%p2 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r1], [%rd1, {{0, 8}}], [bar], %h0;
    setp.eq.u32 %p3, %r4, 2;
    @%p3 bra COPIED;
    {WAIT}
COPIED:
    ld.shared.b32 %r5, [%r1];
    ld.param.u64 %rd2, [out];
    mad.wide.u32 %rd3, %r4, 4, %rd2;
    @!%p0 st.global.b32 [%rd3], %r5;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    ret;
}}
"""
    out = tcsim.zeros(4, np.uint32)
    run(text, tensor_map_tiled(matrix, (16, 4)), out, grid=4)
    first = int(matrix.get()[8, :2].view(np.uint32)[0])
    np.testing.assert_array_equal(out.get(), [first, first, 0, first])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"x": 3}, "no multiple of 16 bytes"),
        ({"at": "+64"}, "needs a multiple of 128"),
        ({"at": "+3968"}, "OUT OF BOUNDS"),
    ],
)
def test_misuse_of_a_load_is_told(matrix, values, message: str) -> None:
    out = tcsim.zeros(512, np.uint8)
    text = kernel(LOAD.format(**({"x": 0, "y": 0, "bytes": 256, "at": ""} | values)))
    with pytest.raises(KernelFault, match=message):
        run(text, tensor_map_tiled(matrix, (16, 8)), out)


def test_a_map_that_does_not_fit_the_instruction_is_told(matrix) -> None:
    text = kernel(LOAD.format(x=0, y=0, bytes=256, at=""))
    out = tcsim.zeros(512, np.uint8)
    cube = tcsim.zeros((4, 8, 8), np.float16)
    for tensor, message in (
        (tensor_map_tiled(cube, (8, 8, 1)), "is for a tensor of 2 dimensions, the map describes one of 3"),
        (b"\xff" * 128, "are no tensor map"),
        (tensor_map_tiled(0x7F00_0000_0000, (16, 8), dims=(64, 32), dtype="u16"), "OUT OF BOUNDS"),
    ):
        with pytest.raises(KernelFault, match=message):
            run(text, tensor, out)


def test_misuse_of_stores_is_told(matrix) -> None:
    store = """
    mov.b64 %rd0, tensor;
    cvta.param.u64 %rd1, %rd0;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {{0, {y}}}], [%r1];
"""
    with pytest.raises(KernelFault, match=r"coordinate 1 of a store or reduction is -1"):
        run(kernel(store.format(y=-1)), tensor_map_tiled(matrix, (16, 4)), np.int64(0))
    add = store.replace("cp.async.bulk.tensor.2d.global.shared::cta", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add")
    with pytest.raises(KernelFault, match="does not have this reduction"):
        run(kernel(add.format(y=0)), tensor_map_tiled(matrix, (16, 4)), np.int64(0))
    block = "    ld.param.u64 %rd2, [out];\n    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 24;\n"
    with pytest.raises(KernelFault, match="a bulk copy of 24 bytes"):
        run(kernel(block), tensor_map_tiled(matrix, (16, 4)), matrix)
    move = "    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1+64], [%r1], 16, [bar];\n"
    with pytest.raises(KernelFault, match="needs a kernel launched with clusters"):
        run(kernel(move), tensor_map_tiled(matrix, (16, 4)), matrix)


def test_im2col_copies_begin_inside_the_box_of_pixels() -> None:
    image = tcsim.asarray(np.arange(2 * 4 * 4 * 8, dtype=np.float16).reshape(2, 4, 4, 8))
    body = """
    mov.b64 %rd0, tensor;
    cvta.param.u64 %rd1, %rd0;
    mov.b32 %r2, 0;
    mov.b32 %r3, {w};
    mov.b16 %h0, 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 96;
    cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes
        [%r1], [%rd1, {{%r2, %r3, %r2, %r2}}], [bar], {{%h0, 0}};
""" + WAIT + """
    ld.param.u64 %rd2, [out];
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 96;
"""
    tensor = tensor_map_im2col(image, (-1, 0), (-1, 0), 8, 6)
    out = tcsim.zeros((6, 8), np.float16)
    run(kernel(body.format(w=1)), tensor, out)
    host = np.zeros((4, 6, 8), np.float16)
    host[:, 1:5] = image.get()[0]  # columns -1 to 4
    columns = [(0, 1), (0, 2), (1, -1), (1, 0), (1, 1), (1, 2)]  # the box has columns -1 to 2; the offset moves them by 1
    np.testing.assert_array_equal(out.get(), [host[row, column + 2] for row, column in columns])
    with pytest.raises(KernelFault, match="coordinate 1 of an im2col copy is 3"):
        run(kernel(body.format(w=3)), tensor, out)


def test_coordinates_belong_into_the_brackets() -> None:
    text = kernel("    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1], {0, 0}, [%r1];")
    with pytest.raises(PtxError, match="an address with 2 coordinate"):
        tcsim.RawModule(code=text).get_function("k")
    text = kernel("    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd1, {0, 0}], [%r1];")
    with pytest.raises(UnsupportedError, match="scatter4"):
        tcsim.RawModule(code=text).get_function("k")
