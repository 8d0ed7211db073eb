// C = A * B on signed bytes with exact 32-bit sums: A row-major, B column-major, C row-major s32.

#include "gemm_bytes.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) gemm_s8(const uint8_t* a, const uint8_t* b, int* c, int n, int k) {
    gemm_bytes<int, int2, mma_m16n8k32_s8>(a, b, c, n, k);
}
