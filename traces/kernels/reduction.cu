// Sums of an array: a tree in shared memory inside each block, then atomics between blocks.

constexpr int THREADS = 256;

// Every block adds its sum to `total` with one atomic. Integer addition is associative, so the order does not matter.
extern "C" __global__ void reduce_sum_s32(const int* __restrict__ x, int* total, int n) {
    __shared__ int partial[THREADS];
    int sum = 0;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) sum += x[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, partial[0]);
}

// Floating-point addition is not associative, so atomics would give different bits from run to run. Here every block
// stores its sum, and the block that arrives last (a counter tells) adds the sums up in index order.
// `counter` must be 0 before the launch and is 0 again afterwards.
extern "C" __global__ void reduce_sum_f32(const float* __restrict__ x, float* block_sums, unsigned* counter, float* total,
                                          int n) {
    __shared__ float partial[THREADS];
    __shared__ bool is_last;
    float sum = 0.0f;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) sum += x[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        block_sums[blockIdx.x] = partial[0];
        __threadfence();  // the sum is visible to every block before the counter says so
        is_last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        __threadfence();
        float all = 0.0f;
        for (int block = 0; block < gridDim.x; ++block) all += ((volatile float*)block_sums)[block];
        *total = all;
    }
}
