// C = A * B in f32 on the FMA pipes: 64x64 tiles, 4x4 outputs a thread, 16-byte loads (float4) from global and shared memory.
// A is stored into shared memory transposed, so that the inner loop reads both operands along rows.

constexpr int TILE = 64, TILE_K = 16, PER_THREAD = 4;
constexpr int THREADS = 256;

// M, N are multiples of 64 (the grid is N/64 x M/64), K of 16.
extern "C" __global__ void __launch_bounds__(THREADS) sgemm(const float* __restrict__ a, const float* __restrict__ b, float* c,
                                                            int n, int k) {
    __shared__ float a_tile[TILE_K][TILE + 4];
    __shared__ float b_tile[TILE_K][TILE];
    int thread_x = threadIdx.x % 16, thread_y = threadIdx.x / 16;
    a += (size_t)blockIdx.y * TILE * k;
    b += blockIdx.x * TILE;

    float sum[PER_THREAD][PER_THREAD] = {};
    for (int step = 0; step < k; step += TILE_K) {
        int row = threadIdx.x / 4, column = threadIdx.x % 4 * 4;
        float4 from_a = *(const float4*)(a + (size_t)row * k + step + column);
        a_tile[column][row] = from_a.x;
        a_tile[column + 1][row] = from_a.y;
        a_tile[column + 2][row] = from_a.z;
        a_tile[column + 3][row] = from_a.w;
        row = threadIdx.x / 16, column = threadIdx.x % 16 * 4;
        *(float4*)&b_tile[row][column] = *(const float4*)(b + (size_t)(step + row) * n + column);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE_K; ++i) {
            float4 left = *(const float4*)&a_tile[i][thread_y * 4], right = *(const float4*)&b_tile[i][thread_x * 4];
            float l[4] = {left.x, left.y, left.z, left.w}, r[4] = {right.x, right.y, right.z, right.w};
            for (int y = 0; y < PER_THREAD; ++y)
                for (int x = 0; x < PER_THREAD; ++x) sum[y][x] += l[y] * r[x];
        }
        __syncthreads();
    }
    c += ((size_t)blockIdx.y * TILE + thread_y * 4) * n + blockIdx.x * TILE + thread_x * 4;
    for (int y = 0; y < PER_THREAD; ++y)
        *(float4*)(c + (size_t)y * n) = make_float4(sum[y][0], sum[y][1], sum[y][2], sum[y][3]);
}
