// C = A * B as a tuned sm_80 kernel does it: A and B row-major f16 or bf16, C row-major f32.
//
// A CTA of 8 warps computes a 128x128 tile of C in steps of K = 32. Four stages of shared memory form a ring: while the
// tensor cores work on one stage, cp.async fills the ones ahead. The ring needs 64 KiB of dynamic shared memory.
//
// A warp owns 64x32 of the tile: 4x4 fragments of m16n8, 64 accumulators a lane.
//
// Swizzle. ldmatrix reads eight rows of 16 bytes at once and is free of bank conflicts if the eight land in eight different
// 16-byte columns of a 128-byte line. In a plain layout they all share one column, so the 16-byte chunk index of a
// row is XORed with some bits of the row number. Copies in and loads out apply the same function.

#include "ptx.cuh"

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 32;
constexpr int STAGES = 4;
constexpr int THREADS = 256;
constexpr int CHUNK = 8;  // elements in 16 bytes
constexpr int A_BYTES = TILE_M * TILE_K * 2, B_BYTES = TILE_K * TILE_N * 2;
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// A tile: rows of 64 bytes, two rows per 128-byte line. Four chunks a row.
DEVICE uint32_t a_offset(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) * 16); }

// B tile: rows of 256 bytes, sixteen chunks a row.
DEVICE uint32_t b_offset(int row, int chunk) { return row * 256 + ((chunk ^ (row & 7)) * 16); }

// Starts the copies of one K step of A and B into a stage: 512 chunks each, two a thread.
DEVICE void copy_stage(uint32_t stage, const uint16_t* a, const uint16_t* b, int n, int k) {
    for (int i = 0; i < 2; ++i) {
        int index = threadIdx.x + i * THREADS;
        int row = index / 4, chunk = index % 4;
        cp_async_16(stage + a_offset(row, chunk), a + (size_t)row * k + chunk * CHUNK);
    }
    for (int i = 0; i < 2; ++i) {
        int index = threadIdx.x + i * THREADS;
        int row = index / 16, chunk = index % 16;
        cp_async_16(stage + A_BYTES + b_offset(row, chunk), b + (size_t)row * n + chunk * CHUNK);
    }
}

template <void (*MMA)(float (&)[4], const uint32_t (&)[4], uint32_t, uint32_t)>
DEVICE void gemm(const uint16_t* a, const uint16_t* b, float* c, int n, int k) {
    extern __shared__ __align__(128) unsigned char ring[];
    uint32_t shared = shared_address(ring);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int warp_row = (warp / 4) * 64, warp_column = (warp % 4) * 32;

    a += (size_t)blockIdx.y * TILE_M * k;
    b += (size_t)blockIdx.x * TILE_N;
    int steps = k / TILE_K;

    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < steps)
            copy_stage(shared + stage * STAGE_BYTES, a + stage * TILE_K, b + (size_t)stage * TILE_K * n, n, k);
        cp_async_commit();
    }

    float accumulator[4][4][4] = {};
    for (int step = 0; step < steps; ++step) {
        cp_async_wait<STAGES - 2>();  // this thread's part of the stage has arrived ...
        __syncthreads();              // ... and everybody's; the oldest stage is free again
        int ahead = step + STAGES - 1;
        if (ahead < steps)
            copy_stage(shared + (ahead % STAGES) * STAGE_BYTES, a + ahead * TILE_K, b + (size_t)ahead * TILE_K * n, n, k);
        cp_async_commit();  // also when empty, so that the count of groups stays one per step

        uint32_t a_tile = shared + (step % STAGES) * STAGE_BYTES, b_tile = a_tile + A_BYTES;
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // two k16 slices of the K step
            uint32_t a_fragment[4][4], b_fragment[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                int row = warp_row + i * 16 + lane % 16;
                ldmatrix_x4(a_fragment[i], a_tile + a_offset(row, half * 2 + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {  // one ldmatrix.x4.trans brings two n8 fragments
                int row = half * 16 + lane % 16;
                int chunk = (warp_column + j * 16) / CHUNK + lane / 16;
                ldmatrix_x4_trans(b_fragment[j], b_tile + b_offset(row, chunk));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    MMA(accumulator[i][j], a_fragment[i], b_fragment[j / 2][j % 2 * 2], b_fragment[j / 2][j % 2 * 2 + 1]);
        }
    }

    // An accumulator fragment: registers 0 and 1 in row lane/4, 2 and 3 eight rows below; columns 2*(lane%4) and the next.
    int row = blockIdx.y * TILE_M + warp_row + lane / 4;
    int column = blockIdx.x * TILE_N + warp_column + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            float* out = c + (size_t)(row + i * 16) * n + column + j * 8;
            *(float2*)out = make_float2(accumulator[i][j][0], accumulator[i][j][1]);
            *(float2*)(out + 8 * (size_t)n) = make_float2(accumulator[i][j][2], accumulator[i][j][3]);
        }
}

// M, N are multiples of 128 (the grid is N/128 x M/128), K of 32.
extern "C" __global__ void __launch_bounds__(THREADS) gemm_f16(const uint16_t* a, const uint16_t* b, float* c, int n, int k) {
    gemm<mma_m16n8k16_f16>(a, b, c, n, k);
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm_bf16(const uint16_t* a, const uint16_t* b, float* c, int n, int k) {
    gemm<mma_m16n8k16_bf16>(a, b, c, n, k);
}
