// Inclusive prefix sums of blocks of 1024 integers. Each warp scans its 32 values in five steps: lane i adds the value of
// lane i-1, then i-2, i-4, i-8, i-16. Then the first warp scans the 32 warp totals in the same way.

constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ __forceinline__ int warp_scan(int value, int lane) {
    for (int distance = 1; distance < 32; distance *= 2) {
        int below = __shfl_up_sync(ALL_LANES, value, distance);
        if (lane >= distance) value += below;
    }
    return value;
}

extern "C" __global__ void block_scan(const int* __restrict__ x, int* y) {
    __shared__ int warp_total[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.x * 1024 + threadIdx.x;
    int value = warp_scan(x[i], lane);
    if (lane == 31) warp_total[warp] = value;
    __syncthreads();
    if (warp == 0) warp_total[lane] = warp_scan(warp_total[lane], lane);
    __syncthreads();
    if (warp > 0) value += warp_total[warp - 1];
    y[i] = value;
}

// Running maxima of floats in segments of 8, 16 or 32 lanes: shfl.up with a width, whose lower lanes keep their own value.
extern "C" __global__ void segment_max_scan(const float* __restrict__ x, float* y, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = x[i];
    for (int distance = 1; distance < width; distance *= 2)
        value = fmaxf(value, __shfl_up_sync(ALL_LANES, value, distance, width));
    y[i] = value;
}
