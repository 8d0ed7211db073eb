// Matrix products that need a GPU of compute capability 9.0: mma.sync of 16 x 8 x 8 doubles, and wgmma.
#include <cuda_bf16.h>

#include "../kernels/ptx.cuh"
#include "../kernels/wgmma.cuh"

#define KERNEL extern "C" __global__ void

// Doubles by mma.m16n8k8, tiles of 64 x 32 of C through shared memory.
KERNEL __launch_bounds__(128) gemm_f64(const double* a, const double* b, double* c, int n, int k) {
    __shared__ double sa[64][18], sb[16][36];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.y * 64, column = blockIdx.x * 32;
    double d[4][4] = {};
    for (int first = 0; first < k; first += 16) {
        for (int i = threadIdx.x; i < 1024; i += 128) sa[i / 16][i % 16] = a[size_t(row + i / 16) * k + first + i % 16];
        for (int i = threadIdx.x; i < 512; i += 128) sb[i / 32][i % 32] = b[size_t(first + i / 32) * n + column + i % 32];
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 16; step += 8) {
            double x[4];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = sa[warp * 16 + lane / 4 + i % 2 * 8][step + lane % 4 + i / 2 * 4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const double y0 = sb[step + lane % 4][j * 8 + lane / 4], y1 = sb[step + lane % 4 + 4][j * 8 + lane / 4];
                asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                             "{%0, %1, %2, %3};"
                             : "+d"(d[j][0]), "+d"(d[j][1]), "+d"(d[j][2]), "+d"(d[j][3])
                             : "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(y0), "d"(y1));
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            c[size_t(row + warp * 16 + lane / 4 + i / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + i % 2] = d[j][i];
}

// wgmma on bf16, 64 x 128 tiles, k 64 at a time in two buffers filled by cp.async, so that copies and products overlap.
KERNEL __launch_bounds__(128) wgmma_two_buffers(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) {
    using namespace wgmma;
    extern __shared__ __align__(1024) char tiles[];
    float d[64];
    const int row = blockIdx.y * 64, column = blockIdx.x * 128;
    const auto fill = [&](int first, char* at) {
        for (int i = threadIdx.x; i < 1536; i += 128) {
            const int r = i / 8, chunk = i % 8;
            const __nv_bfloat16* from = r < 64 ? a + size_t(row + r) * k : b + size_t(column + r - 64) * k;
            cp_async_16(shared_address(at + swizzled<128>(r * 128 + chunk * 16)), from + first + chunk * 8);
        }
        cp_async_commit();
    };
    fill(0, tiles);
    for (int first = 0, stage = 0; first < k; first += 64, stage ^= 1) {
        char* now = tiles + stage * 24576;
        cp_async_wait<0>();
        written();
        begin();
#pragma unroll
        for (int step = 0; step < 4; step++)
            WGMMA_64("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "+f", d, matrix(now + 32 * step, 16, 1024, k128),
                     matrix(now + 8192 + 32 * step, 16, 1024, k128), first + step > 0, ", 1, 1, 0, 0");
        commit();
        if (first + 64 < k) fill(first + 64, tiles + (stage ^ 1) * 24576);
        wait<0>();
    }
    for (int i = 0; i < 64; i++) c[size_t(row + row_of(i)) * n + column + column_of(i)] = d[i];
}
