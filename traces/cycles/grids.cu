// Grids, images and convolutions.
#include <cuda_fp16.h>

typedef unsigned u32;

#define KERNEL extern "C" __global__ void

// A Jacobi step of Poisson's equation: a thread walks along z and keeps three planes of its column in registers.
KERNEL jacobi3d(const float* u, const float* f, float* out, int nx, int ny, int nz) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, plane = nx * ny;
    if (x == 0 || y == 0 || x >= nx - 1 || y >= ny - 1) return;
    int at = y * nx + x;
    float below = u[at], here = u[at + plane];
    for (int z = 1; z < nz - 1; z++) {
        at += plane;
        const float above = u[at + plane];
        out[at] = (u[at - 1] + u[at + 1] + u[at - nx] + u[at + nx] + below + above - f[at]) * (1.0f / 6);
        below = here, here = above;
    }
}

// Depthwise 3 x 3 convolution of halves, two pixels a thread, zero outside.
KERNEL depthwise3x3(const __half2* x, const __half* w, __half2* y, int width2, int height) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, channel = blockIdx.z;
    if (i >= width2 || j >= height) return;
    const __half2 *image = x + size_t(channel) * width2 * height, zero = __float2half2_rn(0);
    const __half* k = w + channel * 9;
    __half2 sum = zero;
#pragma unroll
    for (int dy = -1; dy <= 1; dy++) {
        if (j + dy < 0 || j + dy >= height) continue;
        const __half2* row = image + (j + dy) * width2;
        const __half2 middle = row[i], left = i ? row[i - 1] : zero, right = i < width2 - 1 ? row[i + 1] : zero;
        sum = __hfma2(__halves2half2(__high2half(left), __low2half(middle)), __half2half2(k[dy * 3 + 3]), sum);
        sum = __hfma2(middle, __half2half2(k[dy * 3 + 4]), sum);
        sum = __hfma2(__halves2half2(__high2half(middle), __low2half(right)), __half2half2(k[dy * 3 + 5]), sum);
    }
    y[size_t(channel) * width2 * height + j * width2 + i] = sum;
}

// Bilinear resampling of planes.
KERNEL resize(const float* x, float* y, int width, int height, int out_width, int out_height) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= out_width || j >= out_height) return;
    const float u = fmaxf((i + 0.5f) * width / out_width - 0.5f, 0), v = fmaxf((j + 0.5f) * height / out_height - 0.5f, 0);
    const int i0 = int(u), j0 = int(v), i1 = min(i0 + 1, width - 1), j1 = min(j0 + 1, height - 1);
    const float a = u - i0, b = v - j0, *plane = x + size_t(blockIdx.z) * width * height;
    const float top = plane[j0 * width + i0] * (1 - a) + plane[j0 * width + i1] * a;
    const float bottom = plane[j1 * width + i0] * (1 - a) + plane[j1 * width + i1] * a;
    y[(size_t(blockIdx.z) * out_height + j) * out_width + i] = top * (1 - b) + bottom * b;
}

// The columns of a 3 x 3 convolution, for a matrix product to follow.
KERNEL im2col(const float* x, float* columns, int channels, int width, int height) {
    const int n = width * height, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= channels * n) return;
    const int channel = i / n, at = i % n, py = at / width, px = at % width;
#pragma unroll
    for (int k = 0; k < 9; k++) {
        const int yy = py + k / 3 - 1, xx = px + k % 3 - 1;
        const bool inside = yy >= 0 && yy < height && xx >= 0 && xx < width;
        columns[size_t(channel * 9 + k) * n + at] = inside ? x[channel * n + yy * width + xx] : 0.0f;
    }
}

__constant__ float taps[33] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
                               16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1};

// A filter of 33 taps along rows, from shared memory, taps in constant memory.
KERNEL filter33(const float* x, float* y, int n) {
    __shared__ float s[256 + 32];
    const int base = blockIdx.x * 256;
    for (int i = threadIdx.x; i < 288; i += 256) s[i] = x[min(max(base + i - 16, 0), n - 1)];
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 33; k++) sum += taps[k] * s[threadIdx.x + k];
    y[base + threadIdx.x] = sum * (1.0f / 289);
}

__device__ void order(float& a, float& b) {
    const float low = fminf(a, b);
    b = fmaxf(a, b);
    a = low;
}

// Median of 3 x 3 by exchanges.
KERNEL median3x3(const float* x, float* y, int width, int height) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1) return;
    float v[9];
#pragma unroll
    for (int k = 0; k < 9; k++) v[k] = x[(j + k / 3 - 1) * width + i + k % 3 - 1];
#pragma unroll
    for (int pass = 0; pass < 5; pass++)
#pragma unroll
        for (int k = 0; k < 8 - pass; k++) order(v[k], v[k + 1]);
    y[j * width + i] = v[4];
}

// A collision and streaming step of the D2Q9 lattice Boltzmann method, periodic.
KERNEL lattice(const float* f, float* out, int width, int height) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
    constexpr int cx[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, cy[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    constexpr float w[9] = {4 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 9.f, 1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};
    const int n = width * height;
    float v[9], rho = 0, ux = 0, uy = 0;
#pragma unroll
    for (int k = 0; k < 9; k++) {
        v[k] = f[k * n + j * width + i] + w[k];
        rho += v[k], ux += cx[k] * v[k], uy += cy[k] * v[k];
    }
    ux /= rho, uy /= rho;
#pragma unroll
    for (int k = 0; k < 9; k++) {
        const float cu = 3 * (cx[k] * ux + cy[k] * uy);
        const float equal = w[k] * rho * (1 + cu + 0.5f * cu * cu - 1.5f * (ux * ux + uy * uy));
        const int x = (i + cx[k] + width) % width, y = (j + cy[k] + height) % height;
        out[k * n + y * width + x] = v[k] + 1.2f * (equal - v[k]) - w[k];
    }
}

// The third phase of a blocked Floyd-Warshall step: tiles outside the pivot's row and column, 32 x 32, four rows a thread.
KERNEL floyd_tiles(float* d, int n, int pivot) {
    __shared__ float left[32][32], top[32][32];
    const int bx = blockIdx.x + (int(blockIdx.x) >= pivot), by = blockIdx.y + (int(blockIdx.y) >= pivot);
    for (int r = threadIdx.y; r < 32; r += 8) {
        left[r][threadIdx.x] = d[(by * 32 + r) * n + pivot * 32 + threadIdx.x];
        top[r][threadIdx.x] = d[(pivot * 32 + r) * n + bx * 32 + threadIdx.x];
    }
    __syncthreads();
    float best[4];
#pragma unroll
    for (int r = 0; r < 4; r++) best[r] = d[(by * 32 + threadIdx.y + 8 * r) * n + bx * 32 + threadIdx.x];
    for (int k = 0; k < 32; k++) {
        const float t = top[k][threadIdx.x];
#pragma unroll
        for (int r = 0; r < 4; r++) best[r] = fminf(best[r], left[threadIdx.y + 8 * r][k] + t);
    }
#pragma unroll
    for (int r = 0; r < 4; r++) d[(by * 32 + threadIdx.y + 8 * r) * n + bx * 32 + threadIdx.x] = best[r];
}

// Transposition of bytes by tiles of 64 x 64 in shared memory, four bytes a load; columns of the tile conflict.
KERNEL transpose_bytes(const u32* x, u32* y, int n) {
    __shared__ unsigned char s[64][68];
    const int bx = blockIdx.x * 64, by = blockIdx.y * 64;
    for (int i = threadIdx.x; i < 1024; i += 256)
        *reinterpret_cast<u32*>(&s[i / 16][i % 16 * 4]) = x[((by + i / 16) * n + bx) / 4 + i % 16];
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 256) {
        const int r = i / 16, c = i % 16 * 4;
        y[((bx + r) * n + by) / 4 + i % 16] = s[c][r] | s[c + 1][r] << 8 | s[c + 2][r] << 16 | u32(s[c + 3][r]) << 24;
    }
}
