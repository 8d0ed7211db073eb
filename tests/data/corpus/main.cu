// One half of a program in two translation units (nvcc -rdc=true); library.cu is the other.
extern __device__ int counter;
extern __constant__ int table[8];
static __device__ int offset = 3;
__device__ int helper(int x);
static __device__ __noinline__ int twist(int x) { return x * 7 + offset; }
template <class T> __device__ __noinline__ T shared_template(T x) { return x + T(100); }

extern "C" __global__ void caller(int *out) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&counter, t);
    out[t] = helper(t) + twist(t) + table[t % 8] + shared_template(t);
}
