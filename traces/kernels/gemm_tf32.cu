// C = A * B on tf32 tensor cores: f32 in and out, operands rounded to 10 fraction bits on the way into the multiplier.
//
// A CTA of 4 warps computes a 64x64 tile in steps of K = 16, double-buffered with cp.async. tf32 fragments hold one 32-bit
// element per register, so ldmatrix is not needed: plain shared loads fetch them, and padding (20 and 72 floats a row)
// keeps the 32 lanes on 32 banks.

#include "ptx.cuh"

constexpr int TILE = 64, TILE_K = 16;
constexpr int A_PITCH = TILE_K + 4, B_PITCH = TILE + 8;
constexpr int THREADS = 128;

struct Stage {
    float a[TILE][A_PITCH];
    float b[TILE_K][B_PITCH];
};

// 64x16 floats of A and 16x64 of B: 256 chunks of 16 bytes each, two a thread.
DEVICE void copy_stage(Stage& stage, const float* a, const float* b, int n, int k) {
    for (int i = 0; i < 2; ++i) {
        int index = threadIdx.x + i * THREADS;
        cp_async_16(shared_address(&stage.a[index / 4][index % 4 * 4]), a + (size_t)(index / 4) * k + index % 4 * 4);
        cp_async_16(shared_address(&stage.b[index / 16][index % 16 * 4]), b + (size_t)(index / 16) * n + index % 16 * 4);
    }
    cp_async_commit();
}

// M, N are multiples of 64 (the grid is N/64 x M/64), K of 16.
extern "C" __global__ void __launch_bounds__(THREADS) gemm_tf32(const float* a, const float* b, float* c, int n, int k) {
    __shared__ __align__(16) Stage stages[2];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int group = lane / 4, in_group = lane % 4;  // the coordinates in which PTX describes fragments
    int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;

    a += (size_t)blockIdx.y * TILE * k;
    b += blockIdx.x * TILE;
    copy_stage(stages[0], a, b, n, k);

    float accumulator[2][4][4] = {};
    int steps = k / TILE_K;
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) {
            copy_stage(stages[(step + 1) % 2], a + (step + 1) * TILE_K, b + (size_t)(step + 1) * TILE_K * n, n, k);
            cp_async_wait<1>();
        } else {
            cp_async_wait<0>();
        }
        __syncthreads();
        const Stage& now = stages[step % 2];
#pragma unroll
        for (int k8 = 0; k8 < TILE_K; k8 += 8) {
            uint32_t a_fragment[2][4], b_fragment[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int row = warp_row + i * 16 + group;
                a_fragment[i][0] = to_tf32(now.a[row][k8 + in_group]);
                a_fragment[i][1] = to_tf32(now.a[row + 8][k8 + in_group]);
                a_fragment[i][2] = to_tf32(now.a[row][k8 + in_group + 4]);
                a_fragment[i][3] = to_tf32(now.a[row + 8][k8 + in_group + 4]);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int column = warp_column + j * 8 + group;
                b_fragment[j][0] = to_tf32(now.b[k8 + in_group][column]);
                b_fragment[j][1] = to_tf32(now.b[k8 + in_group + 4][column]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    mma_m16n8k8_tf32(accumulator[i][j], a_fragment[i], b_fragment[j][0], b_fragment[j][1]);
        }
        __syncthreads();  // nobody overwrites a stage that somebody still reads
    }

    int row = blockIdx.y * TILE + warp_row + group;
    int column = blockIdx.x * TILE + warp_column + in_group * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float* out = c + (size_t)(row + i * 16) * n + column + j * 8;
            *(float2*)out = make_float2(accumulator[i][j][0], accumulator[i][j][1]);
            *(float2*)(out + 8 * (size_t)n) = make_float2(accumulator[i][j][2], accumulator[i][j][3]);
        }
}
