// Matrix products on warpgroups, one CTA a tile of C: C = A B^T with A [m][k] and B [n][k], k contiguous in both, unless a
// kernel says otherwise. Tiles are copied to shared memory by ordinary loads and stores, in the layouts that wgmma reads.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "wgmma.cuh"

using namespace wgmma;

#define C_F32 "+f"
#define C_S32 "+r"

// Copy `rows` rows of `bytes` bytes (a multiple of 16) from rows `pitch` bytes apart to a tile whose rows are `bytes` long,
// swizzled over `width` bytes.
template <int width, int threads>
__device__ void copy_tile(char* tile, const char* source, int rows, int bytes, int pitch) {
    const int chunks = bytes / 16;
    for (int i = threadIdx.x; i < rows * chunks; i += threads) {
        const int row = i / chunks, chunk = i % chunks;
        *reinterpret_cast<uint4*>(tile + swizzled<width>(row * bytes + 16 * chunk)) =
            *reinterpret_cast<const uint4*>(source + size_t(row) * pitch + 16 * chunk);
    }
}

// f16, 64 x 128 tiles, swizzled over 128 bytes; along k the start moves inside the atom.
extern "C" __global__ void __launch_bounds__(128) wgmma_f16(const __half* a, const __half* b, float* c, int n, int k) {
    __shared__ __align__(1024) char a_tile[64 * 128], b_tile[128 * 128];
    float d[64];
    const int row = blockIdx.y * 64, column = blockIdx.x * 128;
    for (int first = 0; first < k; first += 64) {
        copy_tile<128, 128>(a_tile, reinterpret_cast<const char*>(a + size_t(row) * k + first), 64, 128, 2 * k);
        copy_tile<128, 128>(b_tile, reinterpret_cast<const char*>(b + size_t(column) * k + first), 128, 128, 2 * k);
        written();
        begin();
        for (int step = 0; step < 4; step++) {
            const uint64_t x = matrix(a_tile + 32 * step, 16, 1024, k128), y = matrix(b_tile + 32 * step, 16, 1024, k128);
            WGMMA_64("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", C_F32, d, x, y, first + step > 0, ", 1, 1, 0, 0");
        }
        commit();
        wait<0>();
        __syncthreads();
    }
    for (int i = 0; i < 64; i++) c[size_t(row + row_of(i)) * n + column + column_of(i)] = d[i];
}

// bf16, two warpgroups of 64 rows each, 64 x 96 tiles, swizzled over 64 bytes; A is subtracted instead of added at the end.
extern "C" __global__ void __launch_bounds__(256) wgmma_bf16(
    const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) {
    __shared__ __align__(1024) char a_tile[128 * 64], b_tile[96 * 64];
    float d[48];
    const int group = threadIdx.x / 128, row = blockIdx.y * 128, column = blockIdx.x * 96;
    for (int first = 0; first < k; first += 32) {
        copy_tile<64, 256>(a_tile, reinterpret_cast<const char*>(a + size_t(row) * k + first), 128, 64, 2 * k);
        copy_tile<64, 256>(b_tile, reinterpret_cast<const char*>(b + size_t(column) * k + first), 96, 64, 2 * k);
        written();
        begin();
        const char* own = a_tile + group * 64 * 64;
        const uint64_t y = matrix(b_tile, 16, 512, k64);
        WGMMA_48("wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16", C_F32, d, matrix(own, 16, 512, k64), y, first > 0,
                 ", 1, 1, 0, 0");
        WGMMA_48("wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16", C_F32, d, matrix(own + 32, 16, 512, k64), y + 2, 1,
                 ", -1, 1, 0, 0");
        commit();
        wait<0>();
        __syncthreads();
    }
    for (int i = 0; i < 48; i++) c[size_t(row + group * 64 + row_of(i)) * n + column + column_of(i)] = d[i];
}

// e4m3 and e5m2, promoted: sums of 128 products are added to float32 accumulators by the ordinary adders.
extern "C" __global__ void __launch_bounds__(128) wgmma_fp8(
    const __nv_fp8_e4m3* a, const __nv_fp8_e5m2* b, float* c, int n, int k) {
    __shared__ __align__(1024) char a_tile[64 * 128], b_tile[64 * 128];
    float part[32], total[32] = {};
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    for (int first = 0; first < k; first += 128) {
        copy_tile<128, 128>(a_tile, reinterpret_cast<const char*>(a + size_t(row) * k + first), 64, 128, k);
        copy_tile<128, 128>(b_tile, reinterpret_cast<const char*>(b + size_t(column) * k + first), 64, 128, k);
        written();
        begin();
        for (int step = 0; step < 4; step++) {
            const uint64_t x = matrix(a_tile + 32 * step, 16, 1024, k128), y = matrix(b_tile + 32 * step, 16, 1024, k128);
            WGMMA_32("wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e5m2", C_F32, part, x, y, step > 0, ", 1, 1");
        }
        commit();
        wait<0>();
        for (int i = 0; i < 32; i++) total[i] += part[i];
        __syncthreads();
    }
    for (int i = 0; i < 32; i++) c[size_t(row + row_of(i)) * n + column + column_of(i)] = total[i];
}

// s8 by u8, saturating, swizzled over 32 bytes.
extern "C" __global__ void __launch_bounds__(128) wgmma_s8(const int8_t* a, const uint8_t* b, int* c, int n, int k) {
    __shared__ __align__(1024) char a_tile[64 * 32], b_tile[64 * 32];
    int d[32];
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    for (int i = 0; i < 32; i++) d[i] = c[size_t(row + row_of(i)) * n + column + column_of(i)];
    for (int first = 0; first < k; first += 32) {
        copy_tile<32, 128>(a_tile, reinterpret_cast<const char*>(a + size_t(row) * k + first), 64, 32, k);
        copy_tile<32, 128>(b_tile, reinterpret_cast<const char*>(b + size_t(column) * k + first), 64, 32, k);
        written();
        begin();
        WGMMA_32("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.u8.satfinite", C_S32, d, matrix(a_tile, 16, 256, k32),
                 matrix(b_tile, 16, 256, k32), 1, "");
        commit();
        wait<0>();
        __syncthreads();
    }
    for (int i = 0; i < 32; i++) c[size_t(row + row_of(i)) * n + column + column_of(i)] = d[i];
}

// tf32, no swizzle: core matrices of 8 rows of 16 bytes, one after another along k.
extern "C" __global__ void __launch_bounds__(128) wgmma_tf32(const float* a, const float* b, float* c, int n, int k) {
    __shared__ __align__(1024) char a_tile[64 * 32], b_tile[64 * 32];
    float d[32];
    const int row = blockIdx.y * 64, column = blockIdx.x * 64, i = threadIdx.x;
    for (int first = 0; first < k; first += 8) {
        const int at = i / 2 / 8 * 256 + i % 2 * 128 + i / 2 % 8 * 16;  // row i / 2, chunk i % 2
        const float *x = a + size_t(row + i / 2) * k + first + i % 2 * 4, *y = b + size_t(column + i / 2) * k + first + i % 2 * 4;
        *reinterpret_cast<float4*>(a_tile + at) = *reinterpret_cast<const float4*>(x);
        *reinterpret_cast<float4*>(b_tile + at) = *reinterpret_cast<const float4*>(y);
        written();
        begin();
        WGMMA_32("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32", C_F32, d, matrix(a_tile, 128, 256, kNone),
                 matrix(b_tile, 128, 256, kNone), first > 0, ", 1, 1");
        commit();
        wait<0>();
        __syncthreads();
    }
    for (int j = 0; j < 32; j++) c[size_t(row + row_of(j)) * n + column + column_of(j)] = d[j];
}

// f16 with A [k][m] and B [k][n]: both transposed, rows of A and columns of B side by side, swizzled over 128 bytes. Results
// and accumulators in f16.
extern "C" __global__ void __launch_bounds__(128) wgmma_f16_transposed(
    const __half* a, const __half* b, __half* c, int m, int n, int k) {
    __shared__ __align__(1024) char a_tile[32 * 128], b_tile[32 * 128];
    uint32_t d[16];
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    for (int first = 0; first < k; first += 32) {
        copy_tile<128, 128>(a_tile, reinterpret_cast<const char*>(a + size_t(first) * m + row), 32, 128, 2 * m);
        copy_tile<128, 128>(b_tile, reinterpret_cast<const char*>(b + size_t(first) * n + column), 32, 128, 2 * n);
        written();
        begin();
        for (int step = 0; step < 2; step++) {
            const uint64_t x = matrix(a_tile + 2048 * step, 4096, 1024, k128);
            const uint64_t y = matrix(b_tile + 2048 * step, 4096, 1024, k128);
            WGMMA_16("wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16", C_S32, d, x, y, first + step > 0, ", 1, 1, 1, 1");
        }
        commit();
        wait<0>();
        __syncthreads();
    }
    for (int i = 0; i < 16; i++) {
        const int r = row + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * (i % 2);
        *reinterpret_cast<uint32_t*>(c + size_t(r) * n + column + i / 2 * 8 + threadIdx.x % 4 * 2) = d[i];
    }
}

// Two pairs of indices, ascending, from any byte.
__device__ uint32_t pairs(uint8_t x) { return 0xED9C84 >> 4 * (x % 16 % 6) & 15 | (0xED9C84 >> 4 * (x / 16 % 6) & 15) << 4; }

// f16 with a 2:4 sparse A: `a` holds the elements that are stored, [m][k / 2], and `places`, [m][k / 8], which they are: a byte
// for two chunks of four.
extern "C" __global__ void __launch_bounds__(128) wgmma_f16_sparse(
    const __half* a, const uint8_t* places, const __half* b, float* c, int n, int k) {
    __shared__ __align__(1024) char a_tile[64 * 32], b_tile[64 * 64];
    float d[32];
    const int row = blockIdx.y * 64, column = blockIdx.x * 64, lane = threadIdx.x % 32;
    for (int first = 0; first < k; first += 32) {
        copy_tile<32, 128>(a_tile, reinterpret_cast<const char*>(a + size_t(row) * (k / 2) + first / 2), 64, 32, k);
        copy_tile<64, 128>(b_tile, reinterpret_cast<const char*>(b + size_t(column) * k + first), 64, 64, 2 * k);
        // Selector 1: lanes 2 and 3 of each four; the first has stored elements 0 to 7 of rows g and g + 8, the other 8 to 15.
        const int own = row + threadIdx.x / 32 * 16 + lane / 4, half = lane % 2;
        const uint8_t* at = places + size_t(own) * (k / 8) + first / 8 + 2 * half;
        const uint32_t low = pairs(at[0]) | pairs(at[1]) << 8, high = pairs(at[k]) | pairs(at[k + 1]) << 8;
        written();
        begin();
        WGMMA_32_SPARSE("wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16", C_F32, d, matrix(a_tile, 16, 256, k32),
                        matrix(b_tile, 16, 512, k64), low | high << 16, 1, first > 0, ", 1, 1, 0, 0");
        commit();
        wait<0>();
        __syncthreads();
    }
    for (int i = 0; i < 32; i++) c[size_t(row + row_of(i)) * n + column + column_of(i)] = d[i];
}
