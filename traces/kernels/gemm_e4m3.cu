// C = A * B on 8-bit floats (4 exponent and 3 fraction bits), added in f32: A row-major, B column-major, C row-major.
// mma.sync takes e4m3 from sm_89 on.

#include "gemm_bytes.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) gemm_e4m3(const uint8_t* a, const uint8_t* b, float* c, int n, int k) {
    gemm_bytes<float, float2, mma_m16n8k32_e4m3>(a, b, c, n, k);
}
