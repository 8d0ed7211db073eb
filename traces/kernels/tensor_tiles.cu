// Tiles of matrices through the tensor memory accelerator: pipelines through mbarriers, stores, sums, multicast in a cluster.
#include "tma.cuh"

constexpr int TILE = 32, STAGES = 3;
using Tile = float[TILE][TILE];

// out = transposed(x), a row of tiles for each CTA, read three tiles ahead. Both maps have boxes of 32 x 32 floats.
extern "C" __global__ void __launch_bounds__(128)
    transpose_tiles(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap out, int tiles) {
    __shared__ alignas(128) Tile in[STAGES], turned;
    __shared__ alignas(8) uint64_t full[STAGES];
    const int y = blockIdx.x * TILE;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) barrier_init(&full[s], 1);
        barriers_ready();
        for (int s = 0; s < STAGES && s < tiles; ++s) {
            barrier_expect(&full[s], sizeof(Tile));
            load_2d(in[s], &x, s * TILE, y, &full[s]);
        }
    }
    __syncthreads();
    for (int i = 0; i < tiles; ++i) {
        const int s = i % STAGES;
        barrier_wait(&full[s], i / STAGES & 1);
        for (int e = threadIdx.x; e < TILE * TILE; e += blockDim.x) turned[e / TILE][e % TILE] = in[s][e % TILE][e / TILE];
        async_fence();
        __syncthreads();
        if (threadIdx.x == 0) {
            store_2d(&out, y, i * TILE, turned);
            stores_done();
            if (i + STAGES < tiles) {
                barrier_expect(&full[s], sizeof(Tile));
                load_2d(in[s], &x, (i + STAGES) * TILE, y, &full[s]);
            }
        }
        __syncthreads();
    }
}

// sums += x: every CTA adds its tile to the one at the top (whole numbers, so that the order does not matter).
extern "C" __global__ void sum_tiles(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap sums) {
    __shared__ alignas(128) Tile in;
    __shared__ alignas(8) uint64_t full;
    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        barriers_ready();
        barrier_expect(&full, sizeof(Tile));
        load_2d(in, &x, blockIdx.x * TILE, blockIdx.y * TILE, &full);
        barrier_wait(&full, 0);
        add_2d(&sums, blockIdx.x * TILE, 0, in);
        stores_done();
    }
}

// Each of the four CTAs of a cluster loads a quarter of a tile for all of them; every one scales the tile by its own factor.
extern "C" __global__ void __cluster_dims__(4, 1, 1)
    scale_shared(const __grid_constant__ TensorMap quarters, const __grid_constant__ TensorMap out, const float* factors) {
    __shared__ alignas(128) Tile tile;
    __shared__ alignas(8) uint64_t full;
    const int rank = cluster_rank(), group = blockIdx.x / 4;
    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        barriers_ready();
        barrier_expect(&full, sizeof(Tile));
    }
    cluster_sync();
    if (threadIdx.x == 0) {
        multicast_2d(tile[rank * TILE / 4], &quarters, 0, group * TILE + rank * TILE / 4, &full, 15);
    }
    barrier_wait(&full, 0);
    for (int e = threadIdx.x; e < TILE * TILE; e += blockDim.x) tile[e / TILE][e % TILE] *= factors[blockIdx.x];
    async_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        store_2d(&out, 0, blockIdx.x * TILE, tile);
        stores_done();
    }
    cluster_sync();
}
