// The other half: variables, a function, and names of its own that main.cu has, too.
__device__ int counter;
__constant__ int table[8] = {5, 6, 7, 8, 9, 10, 11, 12};
static __device__ int offset = 9;
static __device__ __noinline__ int twist(int x) { return x * 2 + offset; }
template <class T> __device__ __noinline__ T shared_template(T x) { return x + T(100); }
__device__ int (*chosen)(int) = twist;
__device__ __noinline__ int helper(int x) { return twist(x) - 1 + shared_template(0) + chosen(x); }

extern "C" __global__ void reader(int *out) { out[threadIdx.x] = counter + helper(threadIdx.x); }
