// Layer normalisation of rows: y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, one block of 128 threads per row.
// The mean multiplies by rcp.approx(columns) and the deviation uses rsqrt.approx: two instructions of the MUFU unit.

#include "ptx.cuh"

constexpr int THREADS = 128;
constexpr int PER_THREAD = 8;  // at most 1024 columns

// The sum of `value` over the block, in every thread. Warps reduce by shuffles; the four warp sums meet in shared memory.
DEVICE float block_sum(float value, float* scratch) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(0xffffffffu, value, distance);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = scratch[0] + scratch[1] + scratch[2] + scratch[3];
    __syncthreads();
    return sum;
}

extern "C" __global__ void layernorm(const float* __restrict__ x, const float* __restrict__ gamma,
                                     const float* __restrict__ beta, float* y, int columns, float epsilon) {
    __shared__ float scratch[THREADS / 32];
    x += (size_t)blockIdx.x * columns;
    y += (size_t)blockIdx.x * columns;
    float per_column = rcp_approx((float)columns);

    float value[PER_THREAD], sum = 0.0f;
    for (int i = 0; i < PER_THREAD; ++i) {
        int column = threadIdx.x + i * THREADS;
        value[i] = column < columns ? x[column] : 0.0f;
        sum += value[i];
    }
    float mean = block_sum(sum, scratch) * per_column;

    float squares = 0.0f;
    for (int i = 0; i < PER_THREAD; ++i)
        if (threadIdx.x + i * THREADS < columns) {
            float centred = value[i] - mean;
            squares += centred * centred;
        }
    float scale = rsqrt_approx(block_sum(squares, scratch) * per_column + epsilon);

    for (int i = 0; i < PER_THREAD; ++i) {
        int column = threadIdx.x + i * THREADS;
        if (column < columns) y[column] = (value[i] - mean) * scale * gamma[column] + beta[column];
    }
}
