// C = A * B with the WMMA interface: one warp per 16x16 tile of C, operands straight from global memory, f16 products
// added in f32. Nothing is reused between warps, so this is slow; it is the shortest tensor-core program there is.
// A, B and C are row-major; M and N are multiples of 16 times the block's tiles, K of 16.

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void wmma_gemm(const half* a, const half* b, float* c, int m, int n, int k) {
    int tile_row = blockIdx.y * blockDim.y + threadIdx.y;
    int tile_column = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (tile_row * 16 >= m || tile_column * 16 >= n) return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_tile;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_tile;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_tile;
    wmma::fill_fragment(c_tile, 0.0f);
    for (int step = 0; step < k; step += 16) {
        wmma::load_matrix_sync(a_tile, a + tile_row * 16 * k + step, k);
        wmma::load_matrix_sync(b_tile, b + step * n + tile_column * 16, n);
        wmma::mma_sync(c_tile, a_tile, b_tile, c_tile);
    }
    wmma::store_matrix_sync(c + tile_row * 16 * n + tile_column * 16, c_tile, n, wmma::mem_row_major);
}
