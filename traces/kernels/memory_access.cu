// Ways to reach global memory: scattered, one dependent load after the other, and the same data again and again.

// y[i] = x[index[i]]: with a random permutation every lane of a warp touches a sector of its own.
extern "C" __global__ void gather(const float* __restrict__ x, const int* __restrict__ index, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[index[i]];
}

// One thread follows a chain through memory. Each address comes from the load before, so the time per step is the latency.
// `size` is a power of two.
extern "C" __global__ void pointer_chase(const unsigned* next, unsigned* visited, int steps, unsigned size) {
    unsigned at = 0, sum = 0;
    for (int step = 0; step < steps; ++step) {
        at = next[at] & (size - 1);
        sum = sum * 3 + at;
    }
    visited[0] = at;
    visited[1] = sum;
}

// Every pass reads the whole array, 16 bytes a load; from the second pass on it comes from the L2 cache, if it fits.
extern "C" __global__ void stream_sum(const int4* __restrict__ x, int* y, int n, int passes) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    int sum = 0;
    for (int pass = 0; pass < passes; ++pass)
        for (int i = thread; i < n; i += threads) {
            int4 four = x[i];
            sum = sum * 3 + (four.x + four.y) + (four.z ^ four.w);
        }
    y[thread] = sum;
}
