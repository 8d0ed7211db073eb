// Matrix products, convolution and attention on tensor cores by mma.sync and wmma.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "../kernels/ptx.cuh"

typedef uint32_t u32;

#define KERNEL extern "C" __global__ void

// wmma on tf32, 32 x 32 of C to a warp, operands straight from memory.
KERNEL __launch_bounds__(128) wmma_tf32(const float* a, const float* b, float* c, int n, int k) {
    using namespace nvcuda::wmma;
    const int warp = threadIdx.x / 32, row = blockIdx.y * 64 + warp / 2 * 32, column = blockIdx.x * 64 + warp % 2 * 32;
    fragment<accumulator, 16, 16, 8, float> sums[2][2];
    for (int i = 0; i < 4; i++) fill_fragment(sums[i / 2][i % 2], 0.0f);
    for (int first = 0; first < k; first += 8) {
        fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> x[2];
        fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> y[2];
        for (int i = 0; i < 2; i++) {
            load_matrix_sync(x[i], a + size_t(row + 16 * i) * k + first, k);
            load_matrix_sync(y[i], b + size_t(first) * n + column + 16 * i, n);
            for (int e = 0; e < x[i].num_elements; e++) x[i].x[e] = __float_to_tf32(x[i].x[e]);
            for (int e = 0; e < y[i].num_elements; e++) y[i].x[e] = __float_to_tf32(y[i].x[e]);
        }
        for (int i = 0; i < 4; i++) mma_sync(sums[i / 2][i % 2], x[i / 2], y[i % 2], sums[i / 2][i % 2]);
    }
    for (int i = 0; i < 4; i++)
        store_matrix_sync(c + size_t(row + i / 2 * 16) * n + column + i % 2 * 16, sums[i / 2][i % 2], n, mem_row_major);
}

// wmma on bf16 in the 32 x 8 x 16 shape, operands in shared memory.
KERNEL __launch_bounds__(128) wmma_tall(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) {
    using namespace nvcuda::wmma;
    __shared__ __align__(32) __nv_bfloat16 sa[64][48], sb[32][80];
    const int warp = threadIdx.x / 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    fragment<accumulator, 32, 8, 16, float> sums[4];
    for (auto& each : sums) fill_fragment(each, 0.0f);
    for (int first = 0; first < k; first += 32) {
        for (int i = threadIdx.x; i < 256; i += 128) {
            *reinterpret_cast<uint4*>(&sa[i / 4][i % 4 * 8]) =
                *reinterpret_cast<const uint4*>(a + size_t(row + i / 4) * k + first + i % 4 * 8);
            *reinterpret_cast<uint4*>(&sb[i / 8][i % 8 * 8]) =
                *reinterpret_cast<const uint4*>(b + size_t(first + i / 8) * n + column + i % 8 * 8);
        }
        __syncthreads();
        for (int step = 0; step < 32; step += 16) {
            fragment<matrix_a, 32, 8, 16, __nv_bfloat16, row_major> x;
            load_matrix_sync(x, &sa[warp / 2 * 32][step], 48);
            for (int j = 0; j < 4; j++) {
                fragment<matrix_b, 32, 8, 16, __nv_bfloat16, row_major> y;
                load_matrix_sync(y, &sb[step][warp % 2 * 32 + j * 8], 80);
                mma_sync(sums[j], x, y, sums[j]);
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; j++)
        store_matrix_sync(c + size_t(row + warp / 2 * 32) * n + column + warp % 2 * 32 + j * 8, sums[j], n, mem_row_major);
}

// Where 16-byte chunk `chunk` of row `row` lies in a tile with rows of 64 bytes: two rows to a line of 128, chunks exchanged.
DEVICE int exchanged(int row, int chunk) { return row * 64 + ((chunk ^ row / 2 % 4) << 4); }

// f16, C = A B^T, tiles of 128 x 128 x 32 by eight warps of 64 x 32, three stages of cp.async in exchanged rows.
KERNEL __launch_bounds__(256) hgemm_128(const __half* a, const __half* b, __half* c, int n, int k) {
    extern __shared__ __align__(128) char tiles[];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 128, column = blockIdx.x * 128;
    const int wr = warp / 4 * 64, wc = warp % 4 * 32;
    const auto fetch = [&](int first, int stage) {
        char* at = tiles + stage * 16384;
        if (first < k)
            for (int i = t; i < 512; i += 256) {
                const int r = i / 4, chunk = i % 4;
                cp_async_16(shared_address(at + exchanged(r, chunk)), a + size_t(row + r) * k + first + chunk * 8);
                cp_async_16(shared_address(at + 8192 + exchanged(r, chunk)), b + size_t(column + r) * k + first + chunk * 8);
            }
        cp_async_commit();
    };
    float d[4][4][4] = {};
    fetch(0, 0);
    fetch(32, 1);
    for (int first = 0, stage = 0; first < k; first += 32) {
        cp_async_wait<1>();
        __syncthreads();
        fetch(first + 64, stage == 0 ? 2 : stage - 1);
        const char* now = tiles + stage * 16384;
#pragma unroll
        for (int step = 0; step < 2; step++) {
            u32 x[4][4], y[2][4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                ldmatrix_x4(x[i], shared_address(now + exchanged(wr + i * 16 + lane % 16, step * 2 + lane / 16)));
#pragma unroll
            for (int j = 0; j < 2; j++)
                ldmatrix_x4(y[j], shared_address(now + 8192 + exchanged(wc + j * 16 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2)));
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) mma_m16n8k16_f16(d[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
        }
        stage = stage == 2 ? 0 : stage + 1;
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int h = 0; h < 2; h++)
                *reinterpret_cast<__half2*>(c + size_t(row + wr + i * 16 + lane / 4 + h * 8) * n + column + wc + j * 8 + lane % 4 * 2) =
                    __floats2half2_rn(d[i][j][2 * h], d[i][j][2 * h + 1]);
}

// bf16, no shared memory: a warp reads the fragments of 32 x 32 of C = A B^T from global memory.
KERNEL __launch_bounds__(64) gemm_bf16_direct(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.y * 64 + warp * 32, column = blockIdx.x * 32;
    const __nv_bfloat16 *x = a + size_t(row + lane / 4) * k + lane % 4 * 2, *y = b + size_t(column + lane / 4) * k + lane % 4 * 2;
    const auto word = [](const __nv_bfloat16* at) { return *reinterpret_cast<const u32*>(at); };
    float d[2][4][4] = {};
    for (int first = 0; first < k; first += 16) {
        u32 p[2][4], q[4][2];
        for (int i = 0; i < 2; i++)
            for (int h = 0; h < 4; h++) p[i][h] = word(x + size_t(i * 16 + h % 2 * 8) * k + first + h / 2 * 8);
        for (int j = 0; j < 4; j++)
            for (int h = 0; h < 2; h++) q[j][h] = word(y + size_t(j * 8) * k + first + h * 8);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 4; j++) mma_m16n8k16_bf16(d[i][j], p[i], q[j][0], q[j][1]);
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int h = 0; h < 4; h++)
                c[size_t(row + i * 16 + lane / 4 + h / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + h % 2] = d[i][j][h];
}

// tf32 in tiles of 64 x 64 x 16 with padded rows, loaded through registers one tile ahead.
KERNEL __launch_bounds__(128) gemm_tf32_padded(const float* a, const float* b, float* c, int n, int k) {
    __shared__ float sa[64][20], sb[16][72];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float4 u[2], v[2];
    const auto fetch = [&](int first) {
        for (int i = 0; i < 2; i++) {
            const int at = t + i * 128;
            u[i] = *reinterpret_cast<const float4*>(a + size_t(row + at / 4) * k + first + at % 4 * 4);
            v[i] = *reinterpret_cast<const float4*>(b + size_t(first + at / 16) * n + column + at % 16 * 4);
        }
    };
    float d[8][4] = {};
    fetch(0);
    for (int first = 0; first < k; first += 16) {
        __syncthreads();
        for (int i = 0; i < 2; i++) {
            const int at = t + i * 128;
            *reinterpret_cast<float4*>(&sa[at / 4][at % 4 * 4]) = u[i];
            *reinterpret_cast<float4*>(&sb[at / 16][at % 16 * 4]) = v[i];
        }
        __syncthreads();
        if (first + 16 < k) fetch(first + 16);
#pragma unroll
        for (int step = 0; step < 16; step += 8) {
            u32 x[4];
            for (int h = 0; h < 4; h++) x[h] = to_tf32(sa[warp * 16 + lane / 4 + h % 2 * 8][step + lane % 4 + h / 2 * 4]);
#pragma unroll
            for (int j = 0; j < 8; j++)
                mma_m16n8k8_tf32(d[j], x, to_tf32(sb[step + lane % 4][j * 8 + lane / 4]), to_tf32(sb[step + lane % 4 + 4][j * 8 + lane / 4]));
        }
    }
    for (int j = 0; j < 8; j++)
        for (int h = 0; h < 2; h++)
            *reinterpret_cast<float2*>(c + size_t(row + warp * 16 + lane / 4 + h * 8) * n + column + j * 8 + lane % 4 * 2) =
                make_float2(d[j][2 * h], d[j][2 * h + 1]);
}

DEVICE void mma_m16n8k32_e5m2(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Bytes, C = A B^T in tiles of 128 x 64 x 64 by four warps of 32 x 64; two stages of cp.async in exchanged rows.
template <class Sum, class Multiply>
DEVICE void gemm_of_bytes(const char* a, const char* b, Sum* c, int n, int k, Multiply multiply) {
    __shared__ __align__(128) char tiles[2][12288];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 128, column = blockIdx.x * 64;
    const auto fetch = [&](int first, int stage) {
        if (first < k)
            for (int i = t; i < 768; i += 128) {
                const int r = i / 4, chunk = i % 4;
                const char* from = r < 128 ? a + size_t(row + r) * k : b + size_t(column + r - 128) * k;
                cp_async_16(shared_address(&tiles[stage][exchanged(r, chunk)]), from + first + chunk * 16);
            }
        cp_async_commit();
    };
    Sum d[2][8][4] = {};
    fetch(0, 0);
    for (int first = 0, stage = 0; first < k; first += 64, stage ^= 1) {
        fetch(first + 64, stage ^ 1);
        cp_async_wait<1>();
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 2; step++) {
            u32 x[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++)
                ldmatrix_x4(x[i], shared_address(&tiles[stage][exchanged(warp * 32 + i * 16 + lane % 16, step * 2 + lane / 16)]));
#pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 y[4];
                ldmatrix_x4(y, shared_address(&tiles[stage][exchanged(128 + j * 16 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2)]));
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    multiply(d[i][2 * j], x[i], y[0], y[1]);
                    multiply(d[i][2 * j + 1], x[i], y[2], y[3]);
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 8; j++)
            for (int h = 0; h < 4; h++)
                c[size_t(row + warp * 32 + i * 16 + lane / 4 + h / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + h % 2] = d[i][j][h];
}

KERNEL __launch_bounds__(128) gemm_s8_wide(const char* a, const char* b, int* c, int n, int k) {
    gemm_of_bytes(a, b, c, n, k, [](int (&d)[4], const u32 (&x)[4], u32 y0, u32 y1) { mma_m16n8k32_s8(d, x, y0, y1); });
}

KERNEL __launch_bounds__(128) gemm_e5m2(const char* a, const char* b, float* c, int n, int k) {
    gemm_of_bytes(a, b, c, n, k, [](float (&d)[4], const u32 (&x)[4], u32 y0, u32 y1) { mma_m16n8k32_e5m2(d, x, y0, y1); });
}

// Doubles by m8n8k4, 32 x 32 of C to a CTA of four warps, a warp to 16 x 16.
KERNEL __launch_bounds__(128) gemm_f64_small(const double* a, const double* b, double* c, int n, int k) {
    __shared__ double sa[32][17], sb[16][34];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 32, column = blockIdx.x * 32;
    const int wr = warp / 2 * 16, wc = warp % 2 * 16;
    double d[2][2][2] = {};
    for (int first = 0; first < k; first += 16) {
        for (int i = t; i < 512; i += 128) {
            sa[i / 16][i % 16] = a[size_t(row + i / 16) * k + first + i % 16];
            sb[i / 32][i % 32] = b[size_t(first + i / 32) * n + column + i % 32];
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 16; step += 4)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 2; j++)
                    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                                 : "+d"(d[i][j][0]), "+d"(d[i][j][1])
                                 : "d"(sa[wr + i * 8 + lane / 4][step + lane % 4]), "d"(sb[step + lane % 4][wc + j * 8 + lane / 4]));
        __syncthreads();
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int h = 0; h < 2; h++) c[size_t(row + wr + i * 8 + lane / 4) * n + column + wc + j * 8 + lane % 4 * 2 + h] = d[i][j][h];
}

// Thousands of products of 16 x 16 halves, a warp to each.
KERNEL small_products(const __half* a, const __half* b, float* c, int count) {
    const int which = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (which >= count) return;
    const u32 *x = reinterpret_cast<const u32*>(a) + which * 128, *y = reinterpret_cast<const u32*>(b) + which * 128;
    const int at = lane / 4 * 8 + lane % 4;
    const u32 p[4] = {x[at], x[at + 64], x[at + 4], x[at + 68]};
    for (int j = 0; j < 2; j++) {
        float d[4] = {};
        mma_m16n8k16_f16(d, p, y[at + j * 64], y[at + j * 64 + 4]);
        for (int h = 0; h < 2; h++)
            *reinterpret_cast<float2*>(c + which * 256 + (lane / 4 + h * 8) * 16 + j * 8 + lane % 4 * 2) = make_float2(d[2 * h], d[2 * h + 1]);
    }
}

// 3 x 3 convolution of pixels of 64 halves to 64 as a product: a CTA to 64 pixels of a row, a tap at a time.
KERNEL __launch_bounds__(128) conv_as_product(const __half* x, const __half* weights, __half* y, int width, int height) {
    __shared__ __align__(16) __half sx[64][72], sw[64][72];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y, column = blockIdx.x * 64;
    float d[8][4] = {};
    for (int tap = 0; tap < 9; tap++) {
        const int r = row + tap / 3 - 1;
        for (int i = t; i < 512; i += 128) {
            const int p = i / 8, chunk = i % 8, s = column + p + tap % 3 - 1;
            const bool inside = r >= 0 && r < height && s >= 0 && s < width;
            *reinterpret_cast<uint4*>(&sx[p][chunk * 8]) =
                inside ? *reinterpret_cast<const uint4*>(x + (size_t(r) * width + s) * 64 + chunk * 8) : uint4{};
            *reinterpret_cast<uint4*>(&sw[p][chunk * 8]) = *reinterpret_cast<const uint4*>(weights + tap * 4096 + p * 64 + chunk * 8);
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < 64; step += 16) {
            u32 p[4];
            ldmatrix_x4(p, shared_address(&sx[warp * 16 + lane % 16][step + lane / 16 * 8]));
#pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 q[4];
                ldmatrix_x4_trans(q, shared_address(&sw[step + lane % 16][j * 16 + lane / 16 * 8]));
                mma_m16n8k16_f16(d[2 * j], p, q[0], q[1]);
                mma_m16n8k16_f16(d[2 * j + 1], p, q[2], q[3]);
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; j++)
        for (int h = 0; h < 2; h++)
            *reinterpret_cast<__half2*>(y + (size_t(row) * width + column + warp * 16 + lane / 4 + h * 8) * 64 + j * 8 + lane % 4 * 2) =
                __floats2half2_rn(d[j][2 * h], d[j][2 * h + 1]);
}

DEVICE u32 pair(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const u32&>(both);
}

// Attention in bf16 with heads of 128: 64 queries to a CTA of four warps, keys and values by 32 through cp.async.
KERNEL __launch_bounds__(128) attention_bf16(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* out,
                                             int length, float scale) {
    __shared__ __align__(16) __nv_bfloat16 sk[32][136], sv[32][136];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.x * 64 + warp * 16;
    const size_t head = size_t(blockIdx.y) * length * 128;
    u32 query[8][4];
    for (int i = 0; i < 8; i++)
        for (int h = 0; h < 4; h++)
            query[i][h] = *reinterpret_cast<const u32*>(q + head + size_t(row + lane / 4 + h % 2 * 8) * 128 + i * 16 + lane % 4 * 2 + h / 2 * 8);
    float d[16][4] = {}, largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
    for (int first = 0; first < length; first += 32) {
        __syncthreads();
        for (int i = t; i < 512; i += 128) {
            cp_async_16(shared_address(&sk[i / 16][i % 16 * 8]), k + head + size_t(first + i / 16) * 128 + i % 16 * 8);
            cp_async_16(shared_address(&sv[i / 16][i % 16 * 8]), v + head + size_t(first + i / 16) * 128 + i % 16 * 8);
        }
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        float s[4][4] = {};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                u32 y[4];
                ldmatrix_x4(y, shared_address(&sk[j * 16 + lane / 16 * 8 + lane % 8][i * 16 + lane / 8 % 2 * 8]));
                mma_m16n8k16_bf16(s[2 * j], query[i], y[0], y[1]);
                mma_m16n8k16_bf16(s[2 * j + 1], query[i], y[2], y[3]);
            }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float now = largest[h];
            for (int j = 0; j < 4; j++) now = fmaxf(now, fmaxf(s[j][2 * h], s[j][2 * h + 1]) * scale);
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
            const float shrink = ex2_approx(largest[h] - now);
            largest[h] = now, total[h] *= shrink;
            for (int j = 0; j < 16; j++) d[j][2 * h] *= shrink, d[j][2 * h + 1] *= shrink;
            for (int j = 0; j < 4; j++)
                for (int e = 0; e < 2; e++) total[h] += s[j][2 * h + e] = ex2_approx(s[j][2 * h + e] * scale - now);
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const u32 p[4] = {pair(s[2 * i][0], s[2 * i][1]), pair(s[2 * i][2], s[2 * i][3]), pair(s[2 * i + 1][0], s[2 * i + 1][1]),
                              pair(s[2 * i + 1][2], s[2 * i + 1][3])};
#pragma unroll
            for (int j = 0; j < 8; j++) {
                u32 y[4];
                ldmatrix_x4_trans(y, shared_address(&sv[i * 16 + lane % 16][j * 16 + lane / 16 * 8]));
                mma_m16n8k16_bf16(d[2 * j], p, y[0], y[1]);
                mma_m16n8k16_bf16(d[2 * j + 1], p, y[2], y[3]);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        total[h] += __shfl_xor_sync(~0u, total[h], 1);
        total[h] += __shfl_xor_sync(~0u, total[h], 2);
        for (int j = 0; j < 16; j++)
            *reinterpret_cast<u32*>(out + head + size_t(row + lane / 4 + h * 8) * 128 + j * 8 + lane % 4 * 2) =
                pair(d[j][2 * h] / total[h], d[j][2 * h + 1] / total[h]);
    }
}
