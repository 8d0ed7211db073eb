// Other ways to hand data on, right and with one bug each. spellings.ptx is made of this by nvcc 13.0, in this folder:
//   nvcc -std=c++17 -ptx -arch=sm_90 -lineinfo spellings.cu -o spellings.ptx
// and early_exit_debug.ptx, whose __syncthreads is in a function that is called:
//   nvcc -std=c++17 -ptx -arch=sm_90 -lineinfo -Xcicc -O0 -DONLY_EARLY_EXIT spellings.cu -o early_exit_debug.ptx
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>

namespace cg = cooperative_groups;
using namespace cuda::std;

#define BOTH(NAME) \
    extern "C" __global__ void NAME##_right(const int* x, int* y) { NAME<0>(x, y); } \
    extern "C" __global__ void NAME##_wrong(const int* x, int* y) { NAME<1>(x, y); }
template <typename T>
using device_atomic = cuda::atomic_ref<T, cuda::thread_scope_device>;

// Threads that return before a barrier do not take part in it. BUG: some of those that stay leave it out.
template <int BUG>
__device__ void early_exit(const int* x, int* y) {
    __shared__ int s[128];
    if (threadIdx.x >= 100) return;
    s[threadIdx.x] = x[threadIdx.x];
    if (!BUG || threadIdx.x < 64) __syncthreads();
    y[threadIdx.x] = s[99 - threadIdx.x];
}
BOTH(early_exit)

#ifndef ONLY_EARLY_EXIT
// A queue of eight places between two CTAs. BUG: its head is not released.
__device__ int ring[8];
__device__ unsigned head, tail;
template <int BUG>
__device__ void queue(const int* x, int* y) {
    device_atomic<unsigned> h(head), t(tail);
    if (threadIdx.x) return;
    if (blockIdx.x == 0) {
        for (unsigned i = 0; i < 32; i++) {
            while (i - t.load(memory_order_acquire) >= 8) __nanosleep(20);
            ring[i % 8] = x[i];
            h.store(i + 1, BUG ? memory_order_relaxed : memory_order_release);
        }
    } else {
        for (unsigned i = 0; i < 32; i++) {
            while (h.load(memory_order_acquire) <= i) __nanosleep(20);
            y[i] = ring[i % 8];
            t.store(i + 1, memory_order_release);
        }
    }
}
BOTH(queue)

// A scan that looks back at the CTA before: lane 0 waits while the others of its warp go on to the barrier. BUG: no barrier.
__device__ volatile int state[64], total[64];
template <int BUG>
__device__ void look_back(const int* x, int* y) {
    __shared__ int before;
    const int sum = __reduce_add_sync(~0u, x[32 * blockIdx.x + threadIdx.x % 32]);
    if (threadIdx.x == 0) {
        int p = 0;
        if (blockIdx.x) {
            while (state[blockIdx.x - 1] == 0) __nanosleep(20);
            __threadfence();
            p = total[blockIdx.x - 1];
        }
        total[blockIdx.x] = p + sum;
        __threadfence();
        state[blockIdx.x] = 1;
        before = p;
    }
    if (!BUG) __syncthreads();
    y[64 * blockIdx.x + threadIdx.x] = before;
}
BOTH(look_back)

// A lock that serves in order. BUG: what it guards is not released with it.
__device__ unsigned next_number, now_served;
__device__ int guarded;
template <int BUG>
__device__ void ticket(const int* x, int* y) {
    if (threadIdx.x) return;
    device_atomic<unsigned> served(now_served);
    const unsigned mine = atomicAdd(&next_number, 1);
    while (served.load(memory_order_acquire) != mine) __nanosleep(20);
    guarded += x[blockIdx.x];
    served.fetch_add(1, BUG ? memory_order_relaxed : memory_order_release);
}
BOTH(ticket)

// Words handed over by a flag in shared memory. BUG: the flag is not released.
template <int BUG>
__device__ void flag(const int* x, int* y) {
    __shared__ int data[32];
    __shared__ cuda::atomic<int, cuda::thread_scope_block> set;
    if (threadIdx.x == 0) set.store(0, memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x < 32) {
        data[threadIdx.x] = x[threadIdx.x];
        __syncwarp();
        if (threadIdx.x == 0) set.store(1, BUG ? memory_order_relaxed : memory_order_release);
    } else {
        while (set.load(memory_order_acquire) == 0) __nanosleep(20);
        y[threadIdx.x - 32] = data[63 - threadIdx.x];
    }
}
BOTH(flag)

// Sums of half warps, put into shared memory. BUG: only the half warp meets before they are read.
template <int BUG>
__device__ void half_warps(const int* x, int* y) {
    __shared__ int s[8];
    auto half = cg::tiled_partition<16>(cg::this_thread_block());
    const int sum = cg::reduce(half, x[threadIdx.x], cg::plus<int>());
    if (half.thread_rank() == 0) s[threadIdx.x / 16] = sum;
    if (BUG) half.sync();
    else cg::this_thread_block().sync();
    y[threadIdx.x] = s[threadIdx.x / 16 ^ 1];
}
BOTH(half_warps)

// A producer and a consumer with two places and two named barriers for each. BUG: the producer goes on before it may.
template <int BUG>
__device__ void named(const int* x, int* y) {
    __shared__ int s[2][32];
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        const int full = 1 + i % 2, empty = 3 + i % 2;
        if (threadIdx.x < 32) {
            if (i >= 2 && !BUG) asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
            s[i % 2][lane] = x[32 * i + lane];
            if (i >= 2 && BUG) asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
            asm volatile("bar.arrive %0, 64;" ::"r"(full) : "memory");
        } else {
            asm volatile("bar.sync %0, 64;" ::"r"(full) : "memory");
            y[32 * i + lane] = s[i % 2][31 - lane];
            if (i < 2) asm volatile("bar.arrive %0, 64;" ::"r"(empty) : "memory");
        }
    }
}
BOTH(named)

// A sum over 16 lanes, whose last steps read past them and drop it. BUG: a step that reads only past them.
template <int BUG>
__device__ void part_of_a_warp(const int* x, int* y) {
    int v = x[threadIdx.x];
    if (threadIdx.x < 16) {
        for (int d = 8; d; d /= 2) v += __shfl_down_sync(0xffffu, v, d);
        if (BUG) v += __shfl_xor_sync(0xffffu, v, 16);
    }
    y[threadIdx.x] = v;
}
BOTH(part_of_a_warp)
#endif
