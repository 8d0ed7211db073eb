// Dense linear algebra without tensor cores.
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

// A product of a matrix of halves and a vector for each of a batch, a warp to each row, 16 bytes a load.
KERNEL batched_gemv(const uint4* a, const uint4* x, float* y, int rows, int columns8) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint4 *own = a + (size_t(blockIdx.y) * rows + row) * columns8, *vector = x + size_t(blockIdx.y) * columns8;
    float sum = 0;
    for (int i = lane; i < columns8; i += 32) {
        const uint4 p = own[i], q = vector[i];
        const __half2 *u = reinterpret_cast<const __half2*>(&p), *v = reinterpret_cast<const __half2*>(&q);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float2 f = __half22float2(u[k]), g = __half22float2(v[k]);
            sum += f.x * g.x + f.y * g.y;
        }
    }
    for (int m = 16; m; m >>= 1) sum += __shfl_xor_sync(~0u, sum, m);
    if (lane == 0) y[blockIdx.y * rows + row] = sum;
}

// C = A B in floats: tiles of 64 x 64 by 256 threads with 4 x 4 results each, two buffers in shared memory.
KERNEL sgemm_registers(const float* a, const float* b, float* c, int n, int k) {
    __shared__ __align__(16) float sa[2][16][68], sb[2][16][64];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * 64, column = blockIdx.x * 64;
    const float *from_a = a + size_t(row + t / 4) * k + t % 4 * 4, *from_b = b + size_t(t / 16) * n + column + tx * 4;
    float sum[4][4] = {};
    float4 u = *reinterpret_cast<const float4*>(from_a), v = *reinterpret_cast<const float4*>(from_b);
    const auto keep = [&](int stage) {
        const int q = t % 4 * 4, r = t / 4;
        sa[stage][q][r] = u.x, sa[stage][q + 1][r] = u.y, sa[stage][q + 2][r] = u.z, sa[stage][q + 3][r] = u.w;
        *reinterpret_cast<float4*>(&sb[stage][t / 16][tx * 4]) = v;
    };
    keep(0);
    __syncthreads();
    for (int first = 0, stage = 0; first < k; first += 16, stage ^= 1) {
        const bool more = first + 16 < k;
        if (more) {
            u = *reinterpret_cast<const float4*>(from_a + first + 16);
            v = *reinterpret_cast<const float4*>(from_b + size_t(first + 16) * n);
        }
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const float4 p = *reinterpret_cast<const float4*>(&sa[stage][i][ty * 4]);
            const float4 q = *reinterpret_cast<const float4*>(&sb[stage][i][tx * 4]);
            const float x[4] = {p.x, p.y, p.z, p.w}, y[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int s = 0; s < 4; s++) sum[r][s] += x[r] * y[s];
        }
        if (more) keep(stage ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
        *reinterpret_cast<float4*>(&c[size_t(row + ty * 4 + r) * n + column + tx * 4]) =
            make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
}

// LU factors without pivoting of 32 x 32 matrices, a CTA of 32 x 8 threads to each.
KERNEL lu_panel(float* matrices) {
    __shared__ float s[32][33];
    float* own = matrices + size_t(blockIdx.x) * 1024;
    for (int r = threadIdx.y; r < 32; r += 8) s[r][threadIdx.x] = own[r * 32 + threadIdx.x] + (r == threadIdx.x ? 64.0f : 0.0f);
    __syncthreads();
    for (int k = 0; k < 31; k++) {
        if (threadIdx.y == 0 && threadIdx.x > k) s[threadIdx.x][k] /= s[k][k];
        __syncthreads();
        for (int r = k + 1 + threadIdx.y; r < 32; r += 8)
            if (threadIdx.x > k) s[r][threadIdx.x] -= s[r][k] * s[k][threadIdx.x];
        __syncthreads();
    }
    for (int r = threadIdx.y; r < 32; r += 8) own[r * 32 + threadIdx.x] = s[r][threadIdx.x];
}

// Solve L x = b for many right-hand sides, a thread to each, L of 64 x 64 in shared memory, x in registers.
KERNEL triangular_solve(const float* l, float* b, int sides) {
    __shared__ float s[64][64];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) (&s[0][0])[i] = l[i];
    __syncthreads();
    const int side = blockIdx.x * blockDim.x + threadIdx.x;
    float x[64];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        float v = b[size_t(i) * sides + side];
#pragma unroll
        for (int j = 0; j < i; j++) v -= s[i][j] * x[j];
        x[i] = v / (s[i][i] + 8);
    }
#pragma unroll
    for (int i = 0; i < 64; i++) b[size_t(i) * sides + side] = x[i];
}

// Squared distances of all pairs of points with 16 coordinates, and the nearest centre of each (k-means).
KERNEL nearest_centre(const float4* points, const float4* centres, int* nearest, int count, int n) {
    __shared__ float4 s[64][4];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 p[4];
#pragma unroll
    for (int k = 0; k < 4; k++) p[k] = points[k * n + i];
    float best = 1e30f;
    int at = 0;
    for (int first = 0; first < count; first += 64) {
        __syncthreads();
        for (int k = threadIdx.x; k < 256; k += blockDim.x) (&s[0][0])[k] = centres[first * 4 + k];
        __syncthreads();
        for (int c = 0; c < 64; c++) {
            float d = 0;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const float4 q = s[c][k];
                const float x = q.x - p[k].x, y = q.y - p[k].y, z = q.z - p[k].z, w = q.w - p[k].w;
                d += x * x + y * y + z * z + w * w;
            }
            if (d < best) best = d, at = first + c;
        }
    }
    nearest[i] = at;
}

// C = A B in doubles, tiles of 32 x 32, four results a thread.
KERNEL dgemm_tiles(const double* a, const double* b, double* c, int n) {
    __shared__ double sa[32][33], sb[32][32];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32, column = blockIdx.x * 32 + x;
    double sum[4] = {};
    for (int first = 0; first < n; first += 32) {
#pragma unroll
        for (int r = 0; r < 4; r++) {
            sa[y + 8 * r][x] = a[size_t(row + y + 8 * r) * n + first + x];
            sb[y + 8 * r][x] = b[size_t(first + y + 8 * r) * n + column];
        }
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 32; k++)
#pragma unroll
            for (int r = 0; r < 4; r++) sum[r] += sa[y + 8 * r][k] * sb[k][x];
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++) c[size_t(row + y + 8 * r) * n + column] = sum[r];
}
