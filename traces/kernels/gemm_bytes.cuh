// The frame of a GEMM on 8-bit operands, shared by gemm_s8.cu and gemm_e4m3.cu.
//
// A is row-major (M x K), B column-major (stored N x K), so both are read along K. A CTA of 4 warps computes a 64x64 tile in
// steps of K = 64 bytes with three stages of cp.async. To ldmatrix a row of sixteen bytes is a row of eight 16-bit elements:
// the m16n8k32 fragments of bytes have the very layout that the m16n8k16 fragments of 16-bit elements have.
#pragma once

#include "ptx.cuh"

constexpr int TILE = 64, TILE_K = 64;
constexpr int STAGES = 3;
constexpr int THREADS = 128;
constexpr int TILE_BYTES = TILE * TILE_K;

// Rows of 64 bytes, four 16-byte chunks a row, swizzled as in gemm_pipelined.cu.
DEVICE uint32_t tile_offset(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) * 16); }

DEVICE void copy_tile(uint32_t tile, const uint8_t* source, int k) {
    for (int i = 0; i < 2; ++i) {
        int index = threadIdx.x + i * THREADS;
        int row = index / 4, chunk = index % 4;
        cp_async_16(tile + tile_offset(row, chunk), source + (size_t)row * k + chunk * 16);
    }
}

// `T` is the accumulator (int or float), `PAIR` two of them. M, N are multiples of 64 (the grid is N/64 x M/64), K of 64.
template <typename T, typename PAIR, void (*MMA)(T (&)[4], const uint32_t (&)[4], uint32_t, uint32_t)>
DEVICE void gemm_bytes(const uint8_t* a, const uint8_t* b, T* c, int n, int k) {
    __shared__ __align__(128) unsigned char ring[STAGES * 2 * TILE_BYTES];
    uint32_t shared = shared_address(ring);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;

    a += (size_t)blockIdx.y * TILE * k;
    b += (size_t)blockIdx.x * TILE * k;
    int steps = k / TILE_K;
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < steps) {
            copy_tile(shared + stage * 2 * TILE_BYTES, a + stage * TILE_K, k);
            copy_tile(shared + (stage * 2 + 1) * TILE_BYTES, b + stage * TILE_K, k);
        }
        cp_async_commit();
    }

    T accumulator[2][4][4] = {};
    for (int step = 0; step < steps; ++step) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        int ahead = step + STAGES - 1;
        if (ahead < steps) {
            copy_tile(shared + ahead % STAGES * 2 * TILE_BYTES, a + ahead * TILE_K, k);
            copy_tile(shared + (ahead % STAGES * 2 + 1) * TILE_BYTES, b + ahead * TILE_K, k);
        }
        cp_async_commit();

        uint32_t a_tile = shared + step % STAGES * 2 * TILE_BYTES, b_tile = a_tile + TILE_BYTES;
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // two k32 slices of the K step
            uint32_t a_fragment[2][4], b_fragment[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int row = warp_row + i * 16 + lane % 16;
                ldmatrix_x4(a_fragment[i], a_tile + tile_offset(row, half * 2 + lane / 16));
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {  // matrices: columns 0-7 low K, columns 0-7 high K, columns 8-15 low K, high K
                int row = warp_column + j * 16 + lane / 16 * 8 + lane % 8;
                ldmatrix_x4(b_fragment[j], b_tile + tile_offset(row, half * 2 + lane / 8 % 2));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    MMA(accumulator[i][j], a_fragment[i], b_fragment[j / 2][j % 2 * 2], b_fragment[j / 2][j % 2 * 2 + 1]);
        }
    }

    int row = blockIdx.y * TILE + warp_row + lane / 4;
    int column = blockIdx.x * TILE + warp_column + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            T* out = c + (size_t)(row + i * 16) * n + column + j * 8;
            *(PAIR*)out = PAIR{accumulator[i][j][0], accumulator[i][j][1]};
            *(PAIR*)(out + 8 * (size_t)n) = PAIR{accumulator[i][j][2], accumulator[i][j][3]};
        }
}
