// Attention over one head, a CTA of one warpgroup for 64 queries: scores from shared memory, probabilities from registers.
// Keys come in blocks of 64; the running maximum and sum are kept as in FlashAttention.
#include <cuda_fp16.h>

#include "wgmma.cuh"

using namespace wgmma;

constexpr int kWidth = 64;  // elements of a query, key or value

__device__ void copy_rows(char* tile, const __half* source) {  // 64 rows of 128 bytes, swizzled
    for (int i = threadIdx.x; i < 64 * 8; i += 128) {
        *reinterpret_cast<uint4*>(tile + swizzled<128>(16 * i)) = reinterpret_cast<const uint4*>(source)[i];
    }
}

__device__ uint32_t pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

// The extreme of a row is among the four lanes that hold it.
__device__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 2));
}

__device__ float row_sum(float x) {
    x += __shfl_xor_sync(0xFFFFFFFF, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFF, x, 2);
}

extern "C" __global__ void __launch_bounds__(128) wgmma_attention(
    const __half* q, const __half* k, const __half* v, __half* out, int keys, float scale) {
    __shared__ __align__(1024) char q_tile[64 * 128], k_tile[64 * 128], v_tile[64 * 128];
    float sums[32] = {}, scores[32], maximum[2] = {-INFINITY, -INFINITY}, total[2] = {};
    const int row = blockIdx.x * 64;
    copy_rows(q_tile, q + size_t(row) * kWidth);
    for (int first = 0; first < keys; first += 64) {
        copy_rows(k_tile, k + size_t(first) * kWidth);
        copy_rows(v_tile, v + size_t(first) * kWidth);
        written();
        begin();
        for (int step = 0; step < 4; step++) {
            const uint64_t x = matrix(q_tile + 32 * step, 16, 1024, k128), y = matrix(k_tile + 32 * step, 16, 1024, k128);
            WGMMA_32("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", "+f", scores, x, y, step > 0, ", 1, 1, 0, 0");
        }
        commit();
        wait<0>();
        for (int h = 0; h < 2; h++) {  // rows g and g + 8
            float most = maximum[h];
            for (int i = 0; i < 32; i++) {
                if (i / 2 % 2 == h) most = fmaxf(most, scores[i]);
            }
            most = row_max(most);
            const float shrink = exp2f((maximum[h] - most) * scale);
            float sum = 0;
            for (int i = 0; i < 32; i++) {
                if (i / 2 % 2 == h) {
                    scores[i] = exp2f((scores[i] - most) * scale);
                    sum += scores[i];
                    sums[i] *= shrink;
                }
            }
            total[h] = total[h] * shrink + row_sum(sum);
            maximum[h] = most;
        }
        uint32_t p[4][4];  // the accumulator's elements are those of the operand A
        for (int step = 0; step < 4; step++) {
            for (int j = 0; j < 4; j++) p[step][j] = pack(scores[8 * step + 2 * j], scores[8 * step + 2 * j + 1]);
        }
        begin();
        for (int step = 0; step < 4; step++) {
            const uint64_t y = matrix(v_tile + 2048 * step, 8192, 1024, k128);  // values side by side: transposed
            WGMMA_32_REGISTERS("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", "+f", sums, p[step], y, 1, ", 1, 1, 1");
        }
        commit();
        wait<0>();
        __syncthreads();
    }
    for (int i = 0; i < 32; i += 2) {
        const float divisor = total[i / 2 % 2];
        __half* at = out + size_t(row + row_of(i)) * kWidth + column_of(i);
        *reinterpret_cast<uint32_t*>(at) = pack(sums[i] / divisor, sums[i + 1] / divisor);
    }
}
