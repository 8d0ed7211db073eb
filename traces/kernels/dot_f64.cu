// The cosine of the angle between two vectors, in double precision: three dot products, then a division and a square root.
// Each block handles one pair of rows; the order of additions is fixed, so the bits are the same in every run.

constexpr int THREADS = 128;

__device__ __forceinline__ double block_sum(double value, double* scratch) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = (scratch[0] + scratch[1]) + (scratch[2] + scratch[3]);
    __syncthreads();
    return sum;
}

extern "C" __global__ void cosine_f64(const double* __restrict__ a, const double* __restrict__ b, double* dot,
                                      double* cosine, int n) {
    __shared__ double scratch[THREADS / 32];
    a += (size_t)blockIdx.x * n;
    b += (size_t)blockIdx.x * n;
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        double x = a[i], y = b[i];
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    ab = block_sum(ab, scratch);
    aa = block_sum(aa, scratch);
    bb = block_sum(bb, scratch);
    if (threadIdx.x == 0) {
        dot[blockIdx.x] = ab;
        cosine[blockIdx.x] = ab / sqrt(aa * bb);
    }
}
