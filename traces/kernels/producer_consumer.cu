// Two warps fill buffers and two warps empty them, in step through named barriers: bar.arrive says "done" without waiting,
// bar.sync waits. Each barrier counts 128 arrivals: 64 of the side that waits, 64 of the side that only reports.
// Barrier 0 is __syncthreads, so the pairs are 1 and 2 (buffer full), 3 and 4 (buffer empty).

#include "ptx.cuh"

constexpr int HALF = 64, THREADS = 128, BUFFERS = 2;

extern "C" __global__ void producer_consumer(const int* __restrict__ x, int* y, int rounds) {
    __shared__ int buffer[BUFFERS][HALF];
    int thread = threadIdx.x % HALF;
    x += blockIdx.x * rounds * HALF;
    y += blockIdx.x * rounds * HALF;
    if (threadIdx.x < HALF) {
        for (int round = 0; round < rounds; ++round) {
            int which = round % BUFFERS;
            if (round >= BUFFERS) named_barrier_sync(3 + which, THREADS);  // until the consumers are done with it
            buffer[which][thread] = x[round * HALF + thread] * 3 + round;
            named_barrier_arrive(1 + which, THREADS);
        }
    } else {
        int carry = 0;
        for (int round = 0; round < rounds; ++round) {
            int which = round % BUFFERS;
            named_barrier_sync(1 + which, THREADS);
            carry = carry * 5 + buffer[which][HALF - 1 - thread];
            if (round + BUFFERS < rounds) named_barrier_arrive(3 + which, THREADS);
            y[round * HALF + thread] = carry;
        }
    }
}
