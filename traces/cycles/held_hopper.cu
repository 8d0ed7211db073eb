// What a GPU of compute capability 9.0 adds: wgmma fed by the tensor memory accelerator, bulk copies, clusters.
#include <cooperative_groups.h>
#include <cuda_fp16.h>

#include "../kernels/tma.cuh"
#include "../kernels/wgmma.cuh"

#define KERNEL extern "C" __global__ void

// The first multiple of 1,024 bytes in dynamic shared memory.
__device__ __forceinline__ char* aligned_tiles() {
    extern __shared__ char dynamic[];
    return dynamic + (-shared_address(dynamic) & 1023);
}

__device__ __forceinline__ void prepare(uint64_t* full, int stages) {
    if (threadIdx.x == 0) {
        for (int s = 0; s < stages; s++) barrier_init(&full[s], 1);
        barriers_ready();
    }
    __syncthreads();
}

// f16, C = A B^T, 128 x 128 of C to two warp groups; four stages of 64 columns, refilled by one thread.
KERNEL __launch_bounds__(256) wgmma_ring(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, __half* c, int n, int k) {
    __shared__ alignas(8) uint64_t full[4];
    char* tiles = aligned_tiles();
    const int row = blockIdx.y * 128, column = blockIdx.x * 128, steps = k / 64, group = threadIdx.x / 128;
    prepare(full, 4);
    const auto fetch = [&](int step) {
        if (threadIdx.x || step >= steps) return;
        char* to = tiles + step % 4 * 32768;
        barrier_expect(&full[step % 4], 32768);
        load_2d(to, &a, step * 64, row, &full[step % 4]);
        load_2d(to + 16384, &b, step * 64, column, &full[step % 4]);
    };
    for (int i = 0; i < 3; i++) fetch(i);
    float d[64];
    for (int step = 0; step < steps; step++) {
        barrier_wait(&full[step % 4], step / 4 & 1);
        const char* now = tiles + step % 4 * 32768;
        wgmma::begin();
#pragma unroll
        for (int i = 0; i < 4; i++)
            WGMMA_64("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", "+f", d, wgmma::matrix(now + group * 8192 + 32 * i, 16, 1024, wgmma::k128),
                     wgmma::matrix(now + 16384 + 32 * i, 16, 1024, wgmma::k128), step + i > 0, ", 1, 1, 0, 0");
        wgmma::commit();
        wgmma::wait<1>();
        __syncthreads();
        fetch(step + 3);
    }
    wgmma::wait<0>();
    for (int i = 0; i < 64; i += 2)
        *reinterpret_cast<__half2*>(c + size_t(row + group * 64 + wgmma::row_of(i)) * n + column + wgmma::column_of(i)) =
            __floats2half2_rn(d[i], d[i + 1]);
}

// e4m3, C = A B^T, 64 x 128 of C to a warp group, two stages of 128 columns.
KERNEL __launch_bounds__(128) wgmma_e4m3_ring(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int n, int k) {
    __shared__ alignas(8) uint64_t full[2];
    char* tiles = aligned_tiles();
    const int row = blockIdx.y * 64, column = blockIdx.x * 128, steps = k / 128;
    prepare(full, 2);
    const auto fetch = [&](int step) {
        if (threadIdx.x || step >= steps) return;
        char* to = tiles + step % 2 * 24576;
        barrier_expect(&full[step % 2], 24576);
        load_2d(to, &a, step * 128, row, &full[step % 2]);
        load_2d(to + 8192, &b, step * 128, column, &full[step % 2]);
    };
    fetch(0);
    fetch(1);
    float d[64];
    for (int step = 0; step < steps; step++) {
        barrier_wait(&full[step % 2], step / 2 & 1);
        const char* now = tiles + step % 2 * 24576;
        wgmma::begin();
#pragma unroll
        for (int i = 0; i < 4; i++)
            WGMMA_64("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3", "+f", d, wgmma::matrix(now + 32 * i, 16, 1024, wgmma::k128),
                     wgmma::matrix(now + 8192 + 32 * i, 16, 1024, wgmma::k128), step + i > 0, ", 1, 1");
        wgmma::commit();
        wgmma::wait<0>();
        __syncthreads();
        fetch(step + 2);
    }
    for (int i = 0; i < 64; i += 2)
        *reinterpret_cast<float2*>(c + size_t(row + wgmma::row_of(i)) * n + column + wgmma::column_of(i)) = make_float2(d[i], d[i + 1]);
}

// Bytes, C = A B^T, 64 x 64 of C, rows of 64 bytes, three stages.
KERNEL __launch_bounds__(128) wgmma_s8_ring(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, int* c, int n, int k) {
    __shared__ alignas(8) uint64_t full[3];
    char* tiles = aligned_tiles();
    const int row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 64;
    prepare(full, 3);
    const auto fetch = [&](int step) {
        if (threadIdx.x || step >= steps) return;
        char* to = tiles + step % 3 * 8192;
        barrier_expect(&full[step % 3], 8192);
        load_2d(to, &a, step * 64, row, &full[step % 3]);
        load_2d(to + 4096, &b, step * 64, column, &full[step % 3]);
    };
    for (int i = 0; i < 3; i++) fetch(i);
    int d[32];
    for (int step = 0; step < steps; step++) {
        barrier_wait(&full[step % 3], step / 3 & 1);
        const char* now = tiles + step % 3 * 8192;
        wgmma::begin();
#pragma unroll
        for (int i = 0; i < 2; i++)
            WGMMA_32("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8", "+r", d, wgmma::matrix(now + 32 * i, 16, 512, wgmma::k64),
                     wgmma::matrix(now + 4096 + 32 * i, 16, 512, wgmma::k64), step + i > 0, "");
        wgmma::commit();
        wgmma::wait<0>();
        __syncthreads();
        fetch(step + 3);
    }
    for (int i = 0; i < 32; i += 2)
        *reinterpret_cast<int2*>(c + size_t(row + wgmma::row_of(i)) * n + column + wgmma::column_of(i)) = make_int2(d[i], d[i + 1]);
}

// tf32 (floats with their low bits left), C = A B^T, tiles of 64 x 64; CTAs take tile after tile.
KERNEL __launch_bounds__(128) wgmma_tf32_persistent(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int n, int k,
                                                    int across, int count) {
    __shared__ alignas(8) uint64_t full[2];
    char* tiles = aligned_tiles();
    const int steps = k / 32, mine = (count - int(blockIdx.x) + int(gridDim.x) - 1) / int(gridDim.x);
    prepare(full, 2);
    const auto fetch = [&](int at) {
        if (threadIdx.x || at >= mine * steps) return;
        const int tile = blockIdx.x + at / steps * gridDim.x;
        char* to = tiles + at % 2 * 16384;
        barrier_expect(&full[at % 2], 16384);
        load_2d(to, &a, at % steps * 32, tile / across * 64, &full[at % 2]);
        load_2d(to + 8192, &b, at % steps * 32, tile % across * 64, &full[at % 2]);
    };
    fetch(0);
    fetch(1);
    for (int at = 0, which = 0; which < mine; which++) {
        float d[32];
        for (int step = 0; step < steps; step++, at++) {
            barrier_wait(&full[at % 2], at / 2 & 1);
            const char* now = tiles + at % 2 * 16384;
            wgmma::begin();
#pragma unroll
            for (int i = 0; i < 4; i++)
                WGMMA_32("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32", "+f", d, wgmma::matrix(now + 32 * i, 16, 1024, wgmma::k128),
                         wgmma::matrix(now + 8192 + 32 * i, 16, 1024, wgmma::k128), step + i > 0, ", 1, 1");
            wgmma::commit();
            wgmma::wait<0>();
            __syncthreads();
            fetch(at + 2);
        }
        const int tile = blockIdx.x + which * gridDim.x;
        for (int i = 0; i < 32; i += 2)
            *reinterpret_cast<float2*>(c + size_t(tile / across * 64 + wgmma::row_of(i)) * n + tile % across * 64 + wgmma::column_of(i)) =
                make_float2(d[i], d[i + 1]);
    }
}

// Tiles of 32 x 64 floats of two matrices brought, blended and taken back by the tensor memory accelerator.
KERNEL __launch_bounds__(256) tma_blend(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y, const __grid_constant__ TensorMap out,
                                        float part) {
    __shared__ alignas(128) float tiles[2][64][32];
    __shared__ alignas(8) uint64_t full;
    prepare(&full, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&full, sizeof(tiles));
        load_2d(tiles[0], &x, blockIdx.x * 32, blockIdx.y * 64, &full);
        load_2d(tiles[1], &y, blockIdx.x * 32, blockIdx.y * 64, &full);
    }
    barrier_wait(&full, 0);
    for (int i = threadIdx.x; i < 2048; i += 256) {
        float& each = tiles[0][i / 32][i % 32];
        each += part * (tiles[1][i / 32][i % 32] - each);
    }
    async_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_2d(&out, blockIdx.x * 32, blockIdx.y * 64, tiles[0]);
        stores_done();
    }
}

// 3 x 3 means; the halo of a tile of 32 x 16 comes with it (four columns to each side, for the copy's sake), zero outside the image.
KERNEL __launch_bounds__(512) tma_means(const __grid_constant__ TensorMap x, float* y, int width) {
    __shared__ alignas(128) float tile[18][40];
    __shared__ alignas(8) uint64_t full;
    prepare(&full, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&full, sizeof(tile));
        load_2d(tile, &x, int(blockIdx.x) * 32 - 4, int(blockIdx.y) * 16 - 1, &full);
    }
    barrier_wait(&full, 0);
    const int i = threadIdx.x % 32, j = threadIdx.x / 32;
    float sum = 0.0f;
    for (int v = 0; v < 3; v++)
        for (int u = 0; u < 3; u++) sum += tile[j + v][i + u + 3];
    y[size_t(blockIdx.y * 16 + j) * width + blockIdx.x * 32 + i] = sum / 9.0f;
}

// Softmax of rows of 16,384 floats over a cluster of four CTAs that read each other's shared memory.
KERNEL __cluster_dims__(4, 1, 1) __launch_bounds__(256) cluster_softmax(const float4* x, float4* y) {
    namespace groups = cooperative_groups;
    __shared__ float warps[8], mine[2];
    const groups::cluster_group cluster = groups::this_cluster();
    const size_t at = size_t(blockIdx.x) * 1024 + threadIdx.x;
    float4 v[4];
    for (int i = 0; i < 4; i++) v[i] = x[at + i * 256];
    const auto joined = [&](float value, bool maximum, int slot) {
        for (int d = 16; d > 0; d /= 2) {
            const float other = __shfl_xor_sync(~0u, value, d);
            value = maximum ? fmaxf(value, other) : value + other;
        }
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
        __syncthreads();
        value = warps[0];
        for (int w = 1; w < 8; w++) value = maximum ? fmaxf(value, warps[w]) : value + warps[w];
        if (threadIdx.x == 0) mine[slot] = value;
        cluster.sync();
        value = *cluster.map_shared_rank(&mine[slot], 0);
        for (int r = 1; r < 4; r++) {
            const float other = *cluster.map_shared_rank(&mine[slot], r);
            value = maximum ? fmaxf(value, other) : value + other;
        }
        return value;
    };
    float largest = v[0].x;
    for (int i = 0; i < 4; i++) largest = fmaxf(largest, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    largest = joined(largest, true, 0);
    float sum = 0.0f;
    for (int i = 0; i < 4; i++) {
        v[i] = make_float4(__expf(v[i].x - largest), __expf(v[i].y - largest), __expf(v[i].z - largest), __expf(v[i].w - largest));
        sum += v[i].x + v[i].y + v[i].z + v[i].w;
    }
    sum = 1.0f / joined(sum, false, 1);
    for (int i = 0; i < 4; i++) y[at + i * 256] = make_float4(v[i].x * sum, v[i].y * sum, v[i].z * sum, v[i].w * sum);
    cluster.sync();
}

__device__ __forceinline__ void bulk_load(void* to, const void* from, int bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// Sums of blocks of 8 KiB, which come by bulk copies, two ahead.
KERNEL __launch_bounds__(128) bulk_sums(const float4* x, float* sums, int blocks) {
    __shared__ alignas(128) float4 tiles[3][512];
    __shared__ alignas(8) uint64_t full[3];
    __shared__ float warps[4];
    prepare(full, 3);
    const auto fetch = [&](int block) {
        if (threadIdx.x || block >= blocks) return;
        barrier_expect(&full[block % 3], 8192);
        bulk_load(tiles[block % 3], x + (size_t(blockIdx.x) * blocks + block) * 512, 8192, &full[block % 3]);
    };
    fetch(0);
    fetch(1);
    float sum = 0.0f;
    for (int block = 0; block < blocks; block++) {
        fetch(block + 2);
        barrier_wait(&full[block % 3], block / 3 & 1);
        for (int i = threadIdx.x; i < 512; i += 128) {
            const float4 v = tiles[block % 3][i];
            sum += v.x + v.y + v.z + v.w;
        }
        __syncthreads();
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3];
}
