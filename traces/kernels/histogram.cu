// A histogram of bytes: every block counts in shared memory with atomics, then adds its 256 counts to the global ones.
// Several lanes of a warp often hit one counter; the hardware serialises them.

extern "C" __global__ void histogram_u8(const unsigned char* __restrict__ x, unsigned* counts, int n) {
    __shared__ unsigned local[256];
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x) local[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < 256; bin += blockDim.x)
        if (local[bin] != 0) atomicAdd(&counts[bin], local[bin]);
}
