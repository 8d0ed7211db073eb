// Memory on the stack of a thread, of a size known only when it is taken, also in a function that calls itself.
extern "C" __global__ void dynamic_array(int *out, int n) {
    int t = threadIdx.x, length = n + t;
    int *p = (int *)__builtin_alloca(4 * length);
    for (int i = 0; i < length; i++) p[i] = i * t;
    int sum = 0;
    for (int i = 0; i < length; i++) sum += p[(i * 7) % length];
    out[blockIdx.x * blockDim.x + t] = sum;
}

__device__ __noinline__ int descend(int n, int t) {
    int *p = (int *)__builtin_alloca(4 * n);
    for (int i = 0; i < n; i++) p[i] = i + t;
    int sum = 0;
    for (int i = n - 1; i >= 0; i--) sum = sum * 3 + p[i];
    if (n > 1) sum += descend(n - 1, t) * 5;
    for (int i = 0; i < n; i++) sum += p[i];
    return sum;
}

extern "C" __global__ void recursion(int *out, int n) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = descend(n + threadIdx.x % 5, threadIdx.x);
}
