// Wrappers for the PTX instructions that CUDA C has no operator for, one function each, so that the kernels read as prose.
// Headings are chapters of the PTX ISA.
#pragma once

#include <cstdint>

#define DEVICE __device__ __forceinline__

// The 32-bit address inside the CTA's shared window that ldmatrix and cp.async want.
DEVICE uint32_t shared_address(const void* pointer) { return (uint32_t)__cvta_generic_to_shared(pointer); }

// ------------------------------------------------------------------------------------ asynchronous copies

// 16 bytes from global to shared memory, past the L1 cache. The thread goes on at once.
DEVICE void cp_async_16(uint32_t shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// 4 bytes, of which only `source_bytes` (0 or 4) are read and the rest are zero: a copy with its own bounds check.
DEVICE void cp_async_4_zero_fill(uint32_t shared, const void* global, uint32_t source_bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(source_bytes) : "memory");
}

// Closes the group of this thread's copies issued since the last commit. A group may be empty.
DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `PENDING` of this thread's groups are still on their way.
template <int PENDING>
DEVICE void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ------------------------------------------------------------------------------------------- matrix loads

// Four 8x8 matrices of 16-bit elements. Lane i names row i%8 of matrix i/8; every lane gets one 32-bit register of each.
DEVICE void ldmatrix_x4(uint32_t (&fragment)[4], uint32_t row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(row_address));
}

// The same, each matrix transposed on its way into the registers.
DEVICE void ldmatrix_x4_trans(uint32_t (&fragment)[4], uint32_t row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(row_address));
}

// ---------------------------------------------------------------------------------- matrix multiply-accumulate
// d += a * b for one warp. Four 32-bit registers of A, two of B and four accumulators in every lane.

#define MMA_FLOAT(NAME, FORM)                                                                                             \
    DEVICE void NAME(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {                                   \
        asm volatile(FORM " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                              \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                     \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                     \
    }

MMA_FLOAT(mma_m16n8k16_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA_FLOAT(mma_m16n8k16_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_FLOAT(mma_m16n8k8_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_FLOAT(mma_m16n8k32_e4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")

DEVICE void mma_m16n8k32_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The nearest tf32 (10 fraction bits), ties away from zero, in the bits of an f32.
DEVICE uint32_t to_tf32(float value) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
    return bits;
}

// ------------------------------------------------------------------------- approximations of the MUFU unit

DEVICE float ex2_approx(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEVICE float rcp_approx(float x) {
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEVICE float rsqrt_approx(float x) {
    float y;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ------------------------------------------------------------------------------------------- named barriers

// Arrives at barrier `id` and waits until `threads` threads in all have arrived.
DEVICE void named_barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives without waiting: "my half of the work is done".
DEVICE void named_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
