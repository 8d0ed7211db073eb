"""``wgmma`` in kernels: whose shared memory is read, what stops a launch, and the order of accesses."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import tcsim
from isa.tensor.matrix_descriptor import Descriptor, DescriptorError
from tcsim.errors import KernelFault, LaunchError

# 64 x 8 outputs of f16 ones in A by what the CTA has put into B: its own number plus one, 16 times over.
KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 pb) {directives}
{{
    .reg .f32 %d<4>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>, %db;
    .reg .b16 %h;
    .shared .align 1024 .b8 tile[1024];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    add.u32 %r2, %r1, 1;
    cvt.rn.f16.u32 %h, %r2;
    mov.u32 %r3, tile;
    mad.lo.u32 %r4, %r0, 2, %r3;
    st.shared.b16 [%r4], %h;
    fence.proxy.async;
    bar.sync 0;
    {between}
    ld.param.u64 %rd0, [pb];
    cvt.u64.u32 %rd1, %r3;
    and.b64 %rd1, %rd1, 0x3ffff;
    shr.u64 %rd1, %rd1, 4;
    add.u64 %db, %rd0, %rd1;
    mov.b32 %r5, 0x3c003c00;
    mov.f32 %d0, 0f41200000;
    mov.f32 %d1, %d0;
    mov.f32 %d2, %d0;
    mov.f32 %d3, %d0;
    wgmma.fence.sync.aligned;
    {guard}wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
        {{%d0, %d1, %d2, %d3}}, {{%r5, %r5, %r5, %r5}}, %db, {scale}, {negate}, 1, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    ld.param.u64 %rd2, [out];
    mad.lo.u32 %r6, %r1, 128, %r0;
    mad.wide.u32 %rd2, %r6, 16, %rd2;
    st.global.v4.f32 [%rd2], {{%d0, %d1, %d2, %d3}};
    ret;
}}
"""


def run(
    descriptor: int = Descriptor(0, 128, 256).encode(), ctas: int = 1, directives: str = "", between: str = "", guard: str = "",
    scale: str = "0", negate: int = 1, threads: int = 128,
) -> NDArray[np.float32]:  # fmt: skip
    """D ``[CTA, thread, register]``."""
    out = tcsim.zeros((ctas, threads, 4), np.float32)
    text = KERNEL.format(directives=directives, between=between, guard=guard, scale=scale, negate=negate)
    tcsim.RawModule(code=text).get_function("k")((ctas,), (threads,), (out, np.uint64(descriptor)))
    return np.asarray(tcsim.asnumpy(out))


def test_each_cta_reads_its_own_shared_memory() -> None:
    assert (run(ctas=3) == 16 * np.arange(1, 4)[:, None, None]).all()


def test_each_cta_of_a_cluster_reads_its_own_shared_memory() -> None:
    """Addresses in shared memory name a CTA of the cluster; descriptors have no room for that."""
    together = "barrier.cluster.arrive; barrier.cluster.wait;"
    found = run(ctas=4, directives=".explicitcluster .reqnctapercluster 2, 1, 1", between=together)
    assert (found == 16 * np.arange(1, 5)[:, None, None]).all()


def test_accumulators_scales_and_guards() -> None:
    assert (run(scale="1") == 26).all()
    assert (run(scale="1", negate=-1) == -6).all()
    assert (run(scale="0", negate=-1) == -16).all()
    never = ".reg .pred %never; setp.ne.u32 %never, %r0, %r0;"
    assert (run(between=never, guard="@%never ") == 10).all()


def test_warps_beyond_the_first_four_are_a_second_warpgroup() -> None:
    """B is 256 stores now, of which 128 are read; rows do not depend on the warp's number in the CTA."""
    assert (run(threads=256) == 16).all()


@pytest.mark.parametrize(
    ("descriptor", "address"),
    [
        (Descriptor(1024, 128, 256), 0x400),
        (Descriptor(0, 0x3000, 256), 0x3000),
        (Descriptor(0x3FC00, 0x3FF00, 0x3FF00), 0x3FC00),
    ],
)
def test_what_is_outside_the_shared_memory_is_a_fault(descriptor: Descriptor, address: int) -> None:
    """Addresses do not wrap around."""
    with pytest.raises(KernelFault, match="a matrix descriptor leads to 16 bytes at shared address") as found:
        run(descriptor.encode())
    assert found.value.kind == "OUT OF BOUNDS" and found.value.address == address
    assert "1024 bytes of shared memory" in str(found.value) and "tcsim layout" in str(found.value)


def test_reserved_bits_of_a_descriptor_do_nothing() -> None:
    """As on an H200 (``wgmma_addresses.npz`` in ``traces/vectors``)."""
    reserved = 3 << 14 | 3 << 30 | 7 << 46 | 1023 << 52
    assert (run(Descriptor(0, 128, 256).encode() | reserved) == 16).all()


def test_a_block_without_a_warpgroup_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"a block of 64 threads has no warpgroup\. Try a block of 128"):
        run(threads=64)


def test_descriptors_are_taken_apart_and_made() -> None:
    made = Descriptor(0x3FFF0, 0x1230, 0x10, 64, 5)
    assert Descriptor.decode(made.encode()) == made
    assert made.encode() == 0x3FFF | 0x123 << 16 | 1 << 32 | 5 << 49 | 2 << 62
    for bad in (Descriptor(8, 0, 0), Descriptor(1 << 18, 0, 0), Descriptor(0, 0, 0, 16), Descriptor(0, 0, 0, 32, 8)):
        with pytest.raises(DescriptorError, match=r"PTX ISA 9\.7\.15"):
            bad.encode()
