// A 3x3 box filter; outside the image counts as zero. The 34x10 input tile comes by cp.async with a source size: a copy of
// which 0 bytes are read fills shared memory with zeros and never touches the address, so the edges need no second path.

#include "ptx.cuh"

constexpr int TILE_X = 32, TILE_Y = 8;
constexpr int PITCH = TILE_X + 2;

extern "C" __global__ void box_blur(const float* __restrict__ in, float* out, int width, int height) {
    __shared__ float tile[TILE_Y + 2][PITCH];
    int thread = threadIdx.y * TILE_X + threadIdx.x;
    for (int index = thread; index < (TILE_Y + 2) * PITCH; index += TILE_X * TILE_Y) {
        int x = blockIdx.x * TILE_X + index % PITCH - 1, y = blockIdx.y * TILE_Y + index / PITCH - 1;
        bool inside = x >= 0 && x < width && y >= 0 && y < height;
        const float* source = inside ? in + y * width + x : in;
        cp_async_4_zero_fill(shared_address(&tile[0][0] + index), source, inside ? 4 : 0);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();

    int x = blockIdx.x * TILE_X + threadIdx.x, y = blockIdx.y * TILE_Y + threadIdx.y;
    if (x >= width || y >= height) return;
    float sum = 0.0f;
    for (int dy = 0; dy < 3; ++dy)
        for (int dx = 0; dx < 3; ++dx) sum += tile[threadIdx.y + dy][threadIdx.x + dx];
    out[y * width + x] = sum * (1.0f / 9.0f);
}
