// A matrix product as Hopper does it: one warp group brings tiles through the tensor memory accelerator, two others multiply them.
#include "tma.cuh"

#include <cuda_fp16.h>

constexpr int M = 128, N = 128, K = 64, STAGES = 3, CONSUMERS = 2;
constexpr int BYTES = (M + N) * K * sizeof(half);

struct Stage {
    half a[M][K], b[N][K];  // rows of 128 bytes, swizzled as a whole
};

// The matrix descriptor of rows of 128 bytes, swizzled by 128 (PTX ISA 9.7.15.5.1).
__device__ __forceinline__ uint64_t descriptor(const void* tile) {
    return (uint64_t)(shared_address(tile) >> 4 & 0x3FFF) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// d += a * b for 64 rows of A, 128 rows of B and 16 columns of both.
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, 1, 1, 1, 0, 0;"
        :
          "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "l"(a), "l"(b));
}

// C = A * B^T, all rows contiguous. A has boxes of 64 x 128 halves (columns, rows), B the same; both swizzled by 128 bytes.
extern "C" __global__ void __launch_bounds__(128 * (1 + CONSUMERS))
    gemm_specialised(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int n, int k) {
    extern __shared__ uint8_t raw[];
    Stage* stages = (Stage*)(raw + (-shared_address(raw) & 1023));
    __shared__ alignas(8) uint64_t full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], CONSUMERS);
        }
        barriers_ready();
    }
    __syncthreads();
    const int group = threadIdx.x / 128, lane = threadIdx.x % 128, steps = k / K;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (lane == 0) {
            for (int i = 0; i < steps; ++i) {
                const int s = i % STAGES;
                if (i >= STAGES) barrier_wait(&empty[s], (i / STAGES - 1) & 1);
                barrier_expect(&full[s], BYTES);
                load_2d(stages[s].a, &a, i * K, blockIdx.y * M, &full[s]);
                load_2d(stages[s].b, &b, i * K, blockIdx.x * N, &full[s]);
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const int row = (group - 1) * 64;
    float d[64] = {};
    for (int i = 0; i < steps; ++i) {
        const int s = i % STAGES;
        barrier_wait(&full[s], i / STAGES & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int j = 0; j < K / 16; ++j) multiply(d, descriptor(stages[s].a[row]) + 2 * j, descriptor(stages[s].b) + 2 * j);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (lane == 0) barrier_arrive(&empty[s]);
    }
    float* out = c + (blockIdx.y * M + row + lane / 32 * 16 + lane % 32 / 4) * n + blockIdx.x * N + lane % 4 * 2;
    for (int j = 0; j < N / 8; ++j) {
        *(float2*)(out + 8 * j) = make_float2(d[4 * j], d[4 * j + 1]);
        *(float2*)(out + 8 * n + 8 * j) = make_float2(d[4 * j + 2], d[4 * j + 3]);
    }
}
