// Cooperative groups below the grid: tiles, coalesced threads, partitions, reductions and scans, asynchronous copies.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int *in, int *out) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    auto pair = cg::tiled_partition<2>(tile);
    int v = in[blockIdx.x * blockDim.x + block.thread_rank()];
    int sum = cg::reduce(tile, v, cg::plus<int>());
    int most = cg::reduce(pair, v, cg::greater<int>());
    int before = cg::exclusive_scan(tile, v, cg::plus<int>());
    int bits = cg::inclusive_scan(tile, v, cg::bit_xor<int>());
    unsigned votes = tile.ballot(v & 1);
    int other = tile.shfl_xor(v, 5) + tile.shfl_down(v, 2) + tile.match_any(v & 3);
    int *o = out + (blockIdx.x * blockDim.x + block.thread_rank()) * 4;
    o[0] = sum ^ most, o[1] = before ^ bits, o[2] = other, o[3] = votes << 8 | tile.any(v > 900) << 4 | tile.meta_group_rank();
}

extern "C" __global__ void coalesced(const int *in, int *counter, int *out) {
    auto block = cg::this_thread_block();
    int v = in[blockIdx.x * blockDim.x + threadIdx.x];
    int got = -1;
    if (v % 3) {
        auto active = cg::coalesced_threads();
        int first = 0;
        if (active.thread_rank() == 0) first = atomicAdd(counter + blockIdx.x * 8 + threadIdx.x / 32, active.num_threads());
        got = active.shfl(first, 0) + active.thread_rank();
        auto labels = cg::labeled_partition(active, v & 7);
        got = got * 1000 + cg::reduce(labels, v & 255, cg::plus<int>()) % 1000;
        auto halves = cg::binary_partition(active, v > 0);
        got ^= halves.num_threads() << 20;
    }
    block.sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] = got;
}

extern "C" __global__ void copies(const float *in, float *out, int n) {
    extern __shared__ float stage[];
    auto block = cg::this_thread_block();
    float sum = 0;
    int size = blockDim.x * 4;
    for (int at = 0, turn = 0; at < n; at += size, turn ^= 1) {
        int count = min(size, n - at);
        if (at == 0) cg::memcpy_async(block, stage, in, sizeof(float) * count);
        int next = min(size, n - at - size);
        if (next > 0) {
            cg::memcpy_async(block, stage + (turn ^ 1) * size, in + at + size, sizeof(float) * next);
            cg::wait_prior<1>(block);
        } else cg::wait(block);
        for (int i = threadIdx.x; i < count; i += blockDim.x) sum += stage[turn * size + (i * 7 + 3) % count];
        block.sync();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void invoked(const int *in, int *out) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    __shared__ int kept[8];
    int total = 0;
    cg::invoke_one(warp, [&] { kept[warp.meta_group_rank()] = in[warp.meta_group_rank()] * 3; });
    warp.sync();
    total = kept[warp.meta_group_rank()] + cg::invoke_one_broadcast(warp, [&] { return in[blockIdx.x] - 5; });
    auto token = block.barrier_arrive();
    total += threadIdx.x;
    block.barrier_wait(std::move(token));
    out[blockIdx.x * blockDim.x + threadIdx.x] = total + kept[(warp.meta_group_rank() + 1) % warp.meta_group_size()];
}
