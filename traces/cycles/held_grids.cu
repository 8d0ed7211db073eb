// Stencils, convolutions, sparse and dense matrix-vector products.
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

// Five points in two dimensions, tiles of 32 x 8 with a halo in shared memory.
KERNEL heat2d(const float* x, float* y, int width, int height, float rate) {
    __shared__ float tile[10][34];
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    const int i = threadIdx.x + 1, j = threadIdx.y + 1;
    const auto at = [&](int r, int c) {
        return x[size_t(min(max(r, 0), height - 1)) * width + min(max(c, 0), width - 1)];
    };
    tile[j][i] = at(row, column);
    if (threadIdx.x == 0) tile[j][0] = at(row, column - 1);
    if (threadIdx.x == 31) tile[j][33] = at(row, column + 1);
    if (threadIdx.y == 0) tile[0][i] = at(row - 1, column);
    if (threadIdx.y == 7) tile[9][i] = at(row + 1, column);
    __syncthreads();
    const float middle = tile[j][i];
    y[size_t(row) * width + column] = middle + rate * (tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i] - 4 * middle);
}

// Seven points in three dimensions in doubles, marching along z with the column in registers.
KERNEL laplace3d_f64(const double* x, double* y, int width, int height, int depth) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1) return;
    const size_t plane = size_t(width) * height;
    const double* at = x + size_t(j) * width + i;
    double below = at[0], middle = at[plane];
    for (int k = 1; k < depth - 1; k++) {
        const double* here = at + k * plane;
        const double above = here[plane];
        y[k * plane + size_t(j) * width + i] = below + above + here[-1] + here[1] + here[-width] + here[width] - 6.0 * middle;
        below = middle, middle = above;
    }
}

__constant__ float taps[9] = {-0.0018f, 0.0254f, -0.2f, 1.6f, -2.8472f, 1.6f, -0.2f, 0.0254f, -0.0018f};

// A step of the wave equation, eighth order in space, nothing shared: the caches have to do.
KERNEL wave2d(const float* now, const float* before, float* next, int width, int height, float rate) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x + 4, j = blockIdx.y * blockDim.y + threadIdx.y + 4;
    if (i >= width - 4 || j >= height - 4) return;
    const float* here = now + size_t(j) * width + i;
    float sum = 0.0f;
    for (int k = -4; k <= 4; k++) sum += taps[k + 4] * (here[k] + here[k * width]);
    next[size_t(j) * width + i] = 2.0f * here[0] - before[size_t(j) * width + i] + rate * sum;
}

__constant__ float kernel5[25] = {1, 4, 6, 4, 1, 4, 16, 24, 16, 4, 6, 24, 36, 24, 6, 4, 16, 24, 16, 4, 1, 4, 6, 4, 1};

// 5 x 5 filter of bytes, tiles of 32 x 16 with a halo.
KERNEL gauss5x5(const unsigned char* x, unsigned char* y, int width, int height) {
    __shared__ unsigned char tile[20][36];
    const int column = blockIdx.x * 32, row = blockIdx.y * 16, thread = threadIdx.y * 32 + threadIdx.x;
    for (int i = thread; i < 720; i += 512) {
        const int r = min(max(row + i / 36 - 2, 0), height - 1), c = min(max(column + i % 36 - 2, 0), width - 1);
        tile[i / 36][i % 36] = x[size_t(r) * width + c];
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 5; j++)
#pragma unroll
        for (int i = 0; i < 5; i++) sum += kernel5[j * 5 + i] * tile[threadIdx.y + j][threadIdx.x + i];
    y[size_t(row + threadIdx.y) * width + column + threadIdx.x] = __float2int_rn(sum / 256.0f);
}

// 3 x 3 convolution of 16 channels to 16, a thread to a pixel, weights in shared memory.
KERNEL conv_channels(const float* x, const float* weights, float* y, int width, int height) {
    __shared__ float w[16 * 16 * 9];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int i = thread; i < 2304; i += blockDim.x * blockDim.y) w[i] = weights[i];
    __syncthreads();
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const size_t plane = size_t(width) * height;
    x += blockIdx.z * 16 * plane, y += blockIdx.z * 16 * plane;
    float sums[16] = {};
    for (int c = 0; c < 16; c++)
        for (int j = -1; j <= 1; j++)
            for (int i = -1; i <= 1; i++) {
                const int r = row + j, s = column + i;
                const float v = r >= 0 && r < height && s >= 0 && s < width ? x[c * plane + size_t(r) * width + s] : 0.0f;
#pragma unroll
                for (int k = 0; k < 16; k++) sums[k] += v * w[(k * 16 + c) * 9 + (j + 1) * 3 + i + 1];
            }
    for (int k = 0; k < 16; k++) y[k * plane + size_t(row) * width + column] = sums[k];
}

// 2 x 2 maxima of pixels of 64 halves, eight halves to a thread.
KERNEL max_pool(const uint4* x, uint4* y, int width, int height) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, chunk = i % 8, pixel = i / 8;
    if (pixel >= width * height / 4) return;
    const int row = pixel / (width / 2), column = pixel % (width / 2);
    const uint4* from = x + (size_t(2 * row) * width + 2 * column) * 8 + chunk;
    uint4 found = from[0];
    for (const uint4 other : {from[8], from[size_t(width) * 8], from[size_t(width) * 8 + 8]})
        for (int k = 0; k < 4; k++) {
            __half2& a = reinterpret_cast<__half2*>(&found)[k];
            a = __hmax2(a, reinterpret_cast<const __half2*>(&other)[k]);
        }
    y[i] = found;
}

// Compressed rows, a thread to a row.
KERNEL spmv_thread_rows(const int* starts, const int* columns, const float* values, const float* x, float* y, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = starts[row]; i < starts[row + 1]; i++) sum += values[i] * x[columns[i]];
    y[row] = sum;
}

// Blocks of 4 x 4 of a sparse matrix, eight threads to a row of blocks.
KERNEL spmv_blocks(const int* starts, const int* columns, const float4* values, const float4* x, float4* y, int rows) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x, row = thread / 8;
    if (row >= rows) return;
    float4 sum = {};
    for (int i = starts[row] + thread % 8; i < starts[row + 1]; i += 8) {
        const float4 v = x[columns[i]];
        const float4 *m = values + size_t(i) * 4, a = m[0], b = m[1], c = m[2], d = m[3];
        sum.x += a.x * v.x + a.y * v.y + a.z * v.z + a.w * v.w;
        sum.y += b.x * v.x + b.y * v.y + b.z * v.z + b.w * v.w;
        sum.z += c.x * v.x + c.y * v.y + c.z * v.z + c.w * v.w;
        sum.w += d.x * v.x + d.y * v.y + d.z * v.z + d.w * v.w;
    }
    for (int d = 4; d > 0; d /= 2) {
        sum.x += __shfl_down_sync(~0u, sum.x, d, 8), sum.y += __shfl_down_sync(~0u, sum.y, d, 8);
        sum.z += __shfl_down_sync(~0u, sum.z, d, 8), sum.w += __shfl_down_sync(~0u, sum.w, d, 8);
    }
    if (thread % 8 == 0) y[row] = sum;
}

// A matrix of halves times a vector, a warp to a row, 16 bytes at a time.
KERNEL gemv_half(const uint4* a, const uint4* x, float* y, int rows, int chunks) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = threadIdx.x % 32; i < chunks; i += 32) {
        const uint4 u = a[size_t(row) * chunks + i], v = x[i];
        for (int k = 0; k < 4; k++) {
            const float2 p = __half22float2(reinterpret_cast<const __half2*>(&u)[k]);
            const float2 q = __half22float2(reinterpret_cast<const __half2*>(&v)[k]);
            sum += p.x * q.x + p.y * q.y;
        }
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) y[row] = sum;
}

// A transposed matrix times a vector: a thread to a column, x by pieces in shared memory, a piece of the rows to each blockIdx.y.
KERNEL gemv_transposed(const float* a, const float* x, float* y, int rows, int columns) {
    __shared__ float piece[128];
    const int column = blockIdx.x * 128 + threadIdx.x, share = rows / gridDim.y, begin = blockIdx.y * share;
    float sum = 0.0f;
    for (int first = begin; first < begin + share; first += 128) {
        __syncthreads();
        piece[threadIdx.x] = x[first + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int r = 0; r < 128; r++) sum += a[size_t(first + r) * columns + column] * piece[r];
    }
    if (gridDim.y == 1) y[column] = sum;
    else atomicAdd(y + column, sum);
}
