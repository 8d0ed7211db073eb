// Atomics, barriers, pipelines and other synchronisation of libcu++.
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/pipeline>
#include <cuda/semaphore>
#include <cooperative_groups.h>

extern "C" __global__ void float_maxima(const float *in, float *most, unsigned *count, unsigned long long *bits, short *small) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i];
    cuda::atomic_ref<float, cuda::thread_scope_device> m(most[i % 5]);
    float seen = m.load(cuda::memory_order_relaxed);
    while (v > seen && !m.compare_exchange_weak(seen, v, cuda::memory_order_acq_rel)) {}
    cuda::atomic_ref<unsigned, cuda::thread_scope_block>(count[blockIdx.x]).fetch_add(1, cuda::memory_order_release);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system>(bits[i % 3]).fetch_xor(__float_as_uint(v) * 0x9E3779B97F4A7C15ull);
    cuda::atomic_ref<short, cuda::thread_scope_device>(small[i % 4]).fetch_add((short)(v * 10));
    cuda::atomic_ref<unsigned, cuda::thread_scope_device>(count[64 + i % 2]).fetch_max(__float_as_uint(fabsf(v)));
}

extern "C" __global__ void staged(const float4 *in, float4 *out, int batches) {
    constexpr int stages = 3;
    extern __shared__ float4 buffer[];
    auto block = cooperative_groups::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto pipe = cuda::make_pipeline(block, &state);
    int n = blockDim.x, fetched = 0;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int batch = 0; batch < batches; batch++) {
        for (; fetched < batches && fetched < batch + stages; fetched++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, buffer + fetched % stages * n, in + (blockIdx.x * batches + fetched) * n,
                               cuda::aligned_size_t<16>(sizeof(float4) * n), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        float4 v = buffer[batch % stages * n + (threadIdx.x * 5 + batch) % n];
        sum = make_float4(sum.x + v.x, sum.y * 0.5f + v.y, fmaxf(sum.z, v.z), sum.w - v.w);
        pipe.consumer_release();
    }
    out[blockIdx.x * n + threadIdx.x] = sum;
}

extern "C" __global__ void divided(const int *in, int *out, int batches) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ int buffer[2][64];
    __shared__ barrier ready[2], filled[2];
    int t = threadIdx.x;
    if (t < 4) init(t < 2 ? ready + t : filled + (t - 2), blockDim.x);
    __syncthreads();
    if (t < 64) {
        for (int i = 0; i < batches; i++) {
            ready[i % 2].arrive_and_wait();
            buffer[i % 2][t] = in[i * 64 + t] * (i + 1);
            auto token = filled[i % 2].arrive();
        }
    } else {
        int total = 0;
        auto a = ready[0].arrive(), b = ready[1].arrive();
        for (int i = 0; i < batches; i++) {
            filled[i % 2].arrive_and_wait();
            total = total * 31 + buffer[i % 2][(t * 3 + i) % 64];
            auto token = ready[i % 2].arrive();
        }
        out[blockIdx.x * 64 + t - 64] = total;
    }
}

extern "C" __global__ void semaphores(int *out) {
    __shared__ cuda::counting_semaphore<cuda::thread_scope_block, 3> *slots;
    __shared__ alignas(16) char room[64];
    __shared__ int inside, most, total;
    if (threadIdx.x == 0) {
        slots = new (room) cuda::counting_semaphore<cuda::thread_scope_block, 3>(3);
        inside = most = total = 0;
    }
    __syncthreads();
    slots->acquire();
    int now = atomicAdd(&inside, 1) + 1;
    atomicMax(&most, now);
    atomicAdd(&total, threadIdx.x);
    atomicSub(&inside, 1);
    slots->release();
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = (most <= 3) * 100000 + total + inside;
}

__device__ cuda::latch<cuda::thread_scope_device> *gate;

extern "C" __global__ void latched(int *out, char *room) {
    auto &l = *reinterpret_cast<cuda::latch<cuda::thread_scope_block> *>(room + blockIdx.x * 64);
    if (threadIdx.x == 0) new (&l) cuda::latch<cuda::thread_scope_block>(blockDim.x);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x * 3;
    l.arrive_and_wait();
    int other = out[blockIdx.x * blockDim.x + (threadIdx.x + 40) % blockDim.x];
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = other + 1;
}

struct Node {
    int value, next;
};

extern "C" __global__ void stack_push_pop(Node *nodes, unsigned long long *head, int *popped) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    nodes[i].value = i * i % 1009;
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> top(*head);
    unsigned long long old = top.load(), made;
    do {
        nodes[i].next = (int)(old & 0xffffffff) - 1;
        made = ((old >> 32) + 1) << 32 | (i + 1);
    } while (!top.compare_exchange_weak(old, made));
    if (i % 2) {
        old = top.load();
        int at;
        do {
            at = (int)(old & 0xffffffff) - 1;
            made = ((old >> 32) + 1) << 32 | (unsigned)(nodes[at].next + 1);
        } while (!top.compare_exchange_strong(old, made));
        atomicAdd(popped, 1);
    }
}

extern "C" __global__ void spinning(int *lock, int *counter, int *order) {
    for (int turn = 0; turn < 3; turn++) {
        while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
        __threadfence();
        int c = *(volatile int *)counter;
        *(volatile int *)counter = c + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(order, 1);
}

extern "C" __global__ void tickets(unsigned *next, unsigned *serving, int *sum) {
    unsigned mine = atomicAdd(next, 1);
    bool done = false;
    while (!done) {
        if (*(volatile unsigned *)serving == mine) {
            *(volatile int *)sum = *(volatile int *)sum * 3 + 1;
            __threadfence();
            *(volatile unsigned *)serving = mine + 1;
            done = true;
        }
    }
}
