// A 7-point stencil on an n^3 grid: out = c0 * centre + c1 * (the six neighbours); the boundary is copied.
// Blocks of 32x8 threads march through z: the plane in work lies in shared memory with a rim of one cell, the cells above and
// below in registers. Sums of products like these are where ptxas contracts a multiplication and an addition into one fma.

constexpr int TILE_X = 32, TILE_Y = 8;

extern "C" __global__ void stencil3d(const float* __restrict__ in, float* out, int n, float c0, float c1) {
    __shared__ float plane[TILE_Y + 2][TILE_X + 2];
    int x = blockIdx.x * TILE_X + threadIdx.x, y = blockIdx.y * TILE_Y + threadIdx.y;
    int sx = threadIdx.x + 1, sy = threadIdx.y + 1;
    bool rim = x == 0 || y == 0 || x == n - 1 || y == n - 1;
    int here = y * n + x, layer = n * n;

    float below = 0.0f, centre = in[here], above = in[here + layer];
    out[here] = centre;
    for (int z = 1; z < n - 1; ++z) {
        here += layer;
        below = centre, centre = above, above = in[here + layer];
        __syncthreads();
        plane[sy][sx] = centre;
        if (threadIdx.x == 0 && x > 0) plane[sy][0] = in[here - 1];
        if (threadIdx.x == TILE_X - 1 && x < n - 1) plane[sy][TILE_X + 1] = in[here + 1];
        if (threadIdx.y == 0 && y > 0) plane[0][sx] = in[here - n];
        if (threadIdx.y == TILE_Y - 1 && y < n - 1) plane[TILE_Y + 1][sx] = in[here + n];
        __syncthreads();
        float result = centre;
        if (!rim) {
            float around = plane[sy][sx - 1] + plane[sy][sx + 1] + plane[sy - 1][sx] + plane[sy + 1][sx] + below + above;
            result = c0 * centre + c1 * around;
        }
        out[here] = result;
    }
    out[here + layer] = above;
}
