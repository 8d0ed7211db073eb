// Row softmax: y = exp(x - max) / sum(exp(x - max)), one warp per row of 1024 columns.
//
// Every lane keeps 32 columns in registers (column = lane + 32 * i, so that a warp reads 128 consecutive bytes at a time).
// Maximum and sum are butterfly reductions: five shfl.bfly exchange values between lanes 16, 8, 4, 2 and 1 apart, and all
// lanes end with the result. exp(t) is computed as 2^(t * log2 e), for which the hardware has an instruction, ex2.approx.

#include "ptx.cuh"

constexpr int COLUMNS = 1024;
constexpr int PER_LANE = COLUMNS / 32;
constexpr unsigned ALL_LANES = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;

DEVICE float warp_max(float value) {
    for (int distance = 16; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, distance));
    return value;
}

DEVICE float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(ALL_LANES, value, distance);
    return value;
}

extern "C" __global__ void softmax_rows(const float* __restrict__ x, float* y, int rows) {
    int lane = threadIdx.x % 32;
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;  // the whole warp leaves together
    x += (size_t)row * COLUMNS;
    y += (size_t)row * COLUMNS;

    float value[PER_LANE];
    float largest = -INFINITY;
    for (int i = 0; i < PER_LANE; ++i) {
        value[i] = x[lane + 32 * i];
        largest = fmaxf(largest, value[i]);
    }
    largest = warp_max(largest);

    float total = 0.0f;
    for (int i = 0; i < PER_LANE; ++i) {
        value[i] = ex2_approx((value[i] - largest) * LOG2_E);
        total += value[i];
    }
    float scale = 1.0f / warp_sum(total);

    for (int i = 0; i < PER_LANE; ++i) y[lane + 32 * i] = value[i] * scale;
}

// The same with the library's expf and one division per element. Built twice: plainly (expf is a range reduction around
// ex2.approx, the division is correctly rounded) and with -use_fast_math (.ftz everywhere, approximate division).
extern "C" __global__ void softmax_rows_expf(const float* __restrict__ x, float* y, int rows) {
    int lane = threadIdx.x % 32;
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    x += (size_t)row * COLUMNS;
    y += (size_t)row * COLUMNS;

    float largest = -INFINITY;
    for (int i = 0; i < PER_LANE; ++i) largest = fmaxf(largest, x[lane + 32 * i]);
    largest = warp_max(largest);

    float total = 0.0f;
    for (int i = 0; i < PER_LANE; ++i) total += expf(x[lane + 32 * i] - largest);
    total = warp_sum(total);

    for (int i = 0; i < PER_LANE; ++i) y[lane + 32 * i] = expf(x[lane + 32 * i] - largest) / total;
}
