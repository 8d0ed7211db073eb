// out[x][y] = in[y][x] through a 32x32 tile in shared memory, so that both global reads and writes are coalesced.
// Blocks are 32x8 threads; every thread moves four elements.
//
// Shared memory has 32 banks of 4 bytes. Reading a column of a 32-wide tile touches one bank 32 times: the access takes 32
// wavefronts instead of one. One column of padding moves each row to another bank and removes the conflict.

constexpr int TILE = 32;
constexpr int ROWS_PER_PASS = 8;

template <int PITCH>
__device__ __forceinline__ void transpose_tile(const float* __restrict__ in, float* out, int width, int height) {
    __shared__ float tile[TILE][PITCH];
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS_PER_PASS)
        if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;  // the tile's place in the transposed matrix
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += ROWS_PER_PASS)
        if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_conflicts(const float* in, float* out, int width, int height) {
    transpose_tile<TILE>(in, out, width, height);
}

extern "C" __global__ void transpose_padded(const float* in, float* out, int width, int height) {
    transpose_tile<TILE + 1>(in, out, width, height);
}
