// Arrays that are indexed by values known only at run time cannot live in registers: they go to local memory, which every
// thread has for itself. Each thread sorts 16 numbers by insertion and then follows the permutation.

constexpr int COUNT = 16;

extern "C" __global__ void insertion_sort(const int* __restrict__ x, int* sorted, int* cycle_length) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int value[COUNT];
    unsigned char origin[COUNT];
#pragma unroll 1
    for (int i = 0; i < COUNT; ++i) {
        int now = x[thread * COUNT + i], at = i;
        for (; at > 0 && value[at - 1] > now; --at) {
            value[at] = value[at - 1];
            origin[at] = origin[at - 1];
        }
        value[at] = now;
        origin[at] = i;
    }
#pragma unroll 1
    for (int i = 0; i < COUNT; ++i) sorted[thread * COUNT + i] = value[i];
    int length = 0, at = 0;
    do {
        at = origin[at];
        ++length;
    } while (at != 0);
    cycle_length[thread] = length;
}
