// Matrix products on tensor cores: mma.sync, mma.sp and wmma in forms that the other suites lack.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "../kernels/ptx.cuh"

typedef uint32_t u32;

#define KERNEL extern "C" __global__ void

DEVICE void ldmatrix_x2_trans(u32 (&d)[2], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(d[0]), "=r"(d[1]) : "r"(address));
}

DEVICE void mma_f16_f16(u32 (&d)[2], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A tile of 64 rows of A and of 64 columns of B, 32 deep, by 128 threads and cp.async; rows padded to avoid conflicts.
struct Tiles {
    __half a[64][40], b[32][72];
};

DEVICE void fetch(Tiles& tiles, const __half* a, const __half* b, int row, int column, int first, int n, int k) {
    for (int i = threadIdx.x; i < 256; i += 128) {
        cp_async_16(shared_address(&tiles.a[i / 4][i % 4 * 8]), a + size_t(row + i / 4) * k + first + i % 4 * 8);
        cp_async_16(shared_address(&tiles.b[i / 8][i % 8 * 8]), b + size_t(first + i / 8) * n + column + i % 8 * 8);
    }
    cp_async_commit();
}

// f16 in, f16 sums, three stages.
KERNEL __launch_bounds__(128) gemm_half_sums(const __half* a, const __half* b, __half* c, int n, int k) {
    __shared__ __align__(16) Tiles tiles[3];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    u32 d[8][2] = {};
    fetch(tiles[0], a, b, row, column, 0, n, k);
    fetch(tiles[1], a, b, row, column, 32, n, k);
    for (int first = 0, stage = 0; first < k; first += 32, stage = stage == 2 ? 0 : stage + 1) {
        cp_async_wait<1>();
        __syncthreads();
        if (first + 64 < k) fetch(tiles[stage == 0 ? 2 : stage - 1], a, b, row, column, first + 64, n, k);
        else cp_async_commit();
        Tiles& now = tiles[stage];
#pragma unroll
        for (int step = 0; step < 32; step += 16) {
            u32 x[4];
            ldmatrix_x4(x, shared_address(&now.a[warp * 16 + lane % 16][step + lane / 16 * 8]));
#pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 y[4];
                ldmatrix_x4_trans(y, shared_address(&now.b[step + lane % 16][j * 16 + lane / 16 * 8]));
                mma_f16_f16(d[2 * j], x, y[0], y[1]);
                mma_f16_f16(d[2 * j + 1], x, y[2], y[3]);
            }
        }
    }
#pragma unroll
    for (int j = 0; j < 8; j++) {
        __half* out = c + size_t(row + warp * 16 + lane / 4) * n + column + j * 8 + lane % 4 * 2;
        *reinterpret_cast<u32*>(out) = d[j][0];
        *reinterpret_cast<u32*>(out + 8 * n) = d[j][1];
    }
}

// bf16, a share of k to each blockIdx.z, sums joined by atomics.
KERNEL __launch_bounds__(128) gemm_split(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k, int share) {
    __shared__ __align__(16) Tiles tiles[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    const __half *ha = reinterpret_cast<const __half*>(a), *hb = reinterpret_cast<const __half*>(b);
    const int begin = blockIdx.z * share;
    float d[8][4] = {};
    fetch(tiles[0], ha, hb, row, column, begin, n, k);
    for (int first = 0, stage = 0; first < share; first += 32, stage ^= 1) {
        if (first + 32 < share) fetch(tiles[stage ^ 1], ha, hb, row, column, begin + first + 32, n, k);
        else cp_async_commit();
        cp_async_wait<1>();
        __syncthreads();
        Tiles& now = tiles[stage];
#pragma unroll
        for (int step = 0; step < 32; step += 16) {
            u32 x[4];
            ldmatrix_x4(x, shared_address(&now.a[warp * 16 + lane % 16][step + lane / 16 * 8]));
#pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 y[4];
                ldmatrix_x4_trans(y, shared_address(&now.b[step + lane % 16][j * 16 + lane / 16 * 8]));
                mma_m16n8k16_bf16(d[2 * j], x, y[0], y[1]);
                mma_m16n8k16_bf16(d[2 * j + 1], x, y[2], y[3]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            atomicAdd(&c[size_t(row + warp * 16 + lane / 4 + i / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + i % 2], d[j][i]);
}

// Weights of four bits in groups of 64 with a scale each, widened in registers: C[m][n] = A[m][k] * W[n][k], no shared memory.
KERNEL __launch_bounds__(128) gemm_int4(const u32* a, const u32* w, const __half* scales, float* c, int n, int k) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.y * 16, column = (blockIdx.x * 4 + warp) * 8;
    float total[4] = {};
    for (int group = 0; group < k; group += 64) {
        float d[4] = {};
        const uint2 packed = *reinterpret_cast<const uint2*>(w + (size_t(column + lane / 4) * k + group) / 8 + lane % 4 * 2);
#pragma unroll
        for (int step = 0; step < 4; step++) {
            const u32* x = a + (size_t(row + lane / 4) * k + group + step * 16) / 2 + lane % 4;
            const u32 f[4] = {x[0], x[4 * k], x[4], x[4 * k + 4]};
            const u32 bits = (step < 2 ? packed.x : packed.y) >> step % 2 * 4;
            u32 low = (bits & 0x000F000F) | 0x64006400, high = (bits >> 8 & 0x000F000F) | 0x64006400;
            __half2 p = __hsub2(reinterpret_cast<__half2&>(low), __float2half2_rn(1032)), q =
                __hsub2(reinterpret_cast<__half2&>(high), __float2half2_rn(1032));
            mma_m16n8k16_f16(d, f, reinterpret_cast<u32&>(p), reinterpret_cast<u32&>(q));
        }
        const float s0 = __half2float(scales[size_t(group / 64) * n + column + lane % 4 * 2]);
        const float s1 = __half2float(scales[size_t(group / 64) * n + column + lane % 4 * 2 + 1]);
        total[0] += d[0] * s0, total[1] += d[1] * s1, total[2] += d[2] * s0, total[3] += d[3] * s1;
    }
    float* out = c + size_t(row + lane / 4) * n + column + lane % 4 * 2;
    out[0] = total[0], out[1] = total[1], out[8 * n] = total[2], out[8 * n + 1] = total[3];
}

// Sparse A: two of four kept. Values [m][k / 2], metadata a word for each row pair and 32 of k, B [n][k]; fragments from global memory.
KERNEL __launch_bounds__(128) gemm_sparse(const u32* a, const u32* metadata, const u32* b, float* c, int n, int k) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = (blockIdx.y * 4 + warp) * 16, column = blockIdx.x * 32;
    float d[4][4] = {};
    for (int first = 0; first < k; first += 32) {
        const u32* x = a + (size_t(row + lane / 4) * k / 2 + first / 2) / 2 + lane % 4;
        const u32 f[4] = {x[0], x[2 * k], x[4], x[2 * k + 4]}, e = metadata[(size_t(row / 16) * k + first) / 4 + lane / 4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const u32* y = b + (size_t(column + j * 8 + lane / 4) * k + first) / 2 + lane % 4;
            asm volatile("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
                         : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
                         : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]), "r"(y[0]), "r"(y[4]), "r"(y[8]), "r"(y[12]), "r"(e));
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            c[size_t(row + lane / 4 + i / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + i % 2] = d[j][i];
}

// Attention of a head: 64 queries a CTA, 16 a warp, keys 32 at a time, heads of 64; weights stay in registers.
KERNEL __launch_bounds__(128) attention(const __half* q, const __half* k, const __half* v, __half* out, int keys, float scale) {
    __shared__ __align__(16) __half sk[32][72], sv[32][72];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first_query = blockIdx.x * 64 + warp * 16;
    const size_t head = size_t(blockIdx.y) * keys * 64;
    u32 fq[4][4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const u32* from = reinterpret_cast<const u32*>(q + head + size_t(first_query + lane / 4) * 64 + j * 16) + lane % 4;
        fq[j][0] = from[0], fq[j][1] = from[256], fq[j][2] = from[4], fq[j][3] = from[260];
    }
    float o[8][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {};
    for (int first = 0; first < keys; first += 32) {
        __syncthreads();
        for (int i = threadIdx.x; i < 256; i += 128) {
            cp_async_16(shared_address(&sk[i / 8][i % 8 * 8]), k + head + size_t(first + i / 8) * 64 + i % 8 * 8);
            cp_async_16(shared_address(&sv[i / 8][i % 8 * 8]), v + head + size_t(first + i / 8) * 64 + i % 8 * 8);
        }
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        float s[4][4] = {};
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int half = 0; half < 4; half += 2) {
                u32 f[4];
                ldmatrix_x4(f, shared_address(&sk[j * 8 + lane % 8][half * 16 + lane / 8 * 8]));
                mma_m16n8k16_f16(s[j], fq[half], f[0], f[1]);
                mma_m16n8k16_f16(s[j], fq[half + 1], f[2], f[3]);
            }
        float shrink[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float most = top[r];
#pragma unroll
            for (int j = 0; j < 4; j++) most = fmaxf(most, fmaxf(s[j][2 * r], s[j][2 * r + 1]) * scale);
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            shrink[r] = ex2_approx(top[r] - most);
            top[r] = most;
            sum[r] *= shrink[r];
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) s[j][i] = ex2_approx(s[j][i] * scale - most), sum[r] += s[j][i];
        }
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) o[j][i] *= shrink[i / 2];
#pragma unroll
        for (int part = 0; part < 2; part++) {
            u32 p[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const __half2 pair = __floats2half2_rn(s[2 * part + i / 2][i % 2 * 2], s[2 * part + i / 2][i % 2 * 2 + 1]);
                p[i] = reinterpret_cast<const u32&>(pair);
            }
#pragma unroll
            for (int j = 0; j < 8; j++) {
                u32 f[2];
                ldmatrix_x2_trans(f, shared_address(&sv[part * 16 + lane % 16][j * 8]));
                mma_m16n8k16_f16(o[j], p, f[0], f[1]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
        sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
#pragma unroll
        for (int j = 0; j < 8; j++)
            *reinterpret_cast<__half2*>(out + head + size_t(first_query + lane / 4 + 8 * r) * 64 + j * 8 + lane % 4 * 2) =
                __floats2half2_rn(o[j][2 * r] / sum[r], o[j][2 * r + 1] / sum[r]);
    }
}

// Bytes through nvcuda::wmma, 16 x 16 x 16, a warp to 32 x 32 of C, straight from global memory.
KERNEL __launch_bounds__(128) wmma_bytes(const signed char* a, const signed char* b, int* c, int n, int k) {
    using namespace nvcuda::wmma;
    const int warp = threadIdx.x / 32, row = blockIdx.y * 64 + warp / 2 * 32, column = blockIdx.x * 64 + warp % 2 * 32;
    fragment<accumulator, 16, 16, 16, int> sum[2][2];
    for (auto& line : sum)
        for (auto& each : line) fill_fragment(each, 0);
    for (int first = 0; first < k; first += 16) {
        fragment<matrix_a, 16, 16, 16, signed char, row_major> x[2];
        fragment<matrix_b, 16, 16, 16, signed char, col_major> y[2];
        for (int i = 0; i < 2; i++) {
            load_matrix_sync(x[i], a + size_t(row + 16 * i) * k + first, k);
            load_matrix_sync(y[i], b + size_t(column + 16 * i) * k + first, k);
        }
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) mma_sync(sum[i][j], x[i], y[j], sum[i][j]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) store_matrix_sync(c + size_t(row + 16 * i) * n + column + 16 * j, sum[i][j], n, mem_row_major);
}
