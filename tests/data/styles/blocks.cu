// Collective algorithms of CUB: what a library's device code looks like to a simulator.
#include <cub/block/block_adjacent_difference.cuh>
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_exchange.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_rank.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_run_length_decode.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_shuffle.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_exchange.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/functional>

struct Wider {
    __device__ float2 operator()(const float2 &a, const float2 &b) const { return make_float2(fminf(a.x, b.x), fmaxf(a.y, b.y)); }
};

extern "C" __global__ void block_extent(const float *in, float2 *out) {
    using Reduce = cub::BlockReduce<float2, 128, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
    __shared__ typename Reduce::TempStorage temp;
    float v = in[blockIdx.x * 128 + threadIdx.x];
    float2 r = Reduce(temp).Reduce(make_float2(v, v), Wider());
    if (threadIdx.x == 0) out[blockIdx.x] = r;
}

extern "C" __global__ void raking_sum(const double *in, double *out) {
    using Reduce = cub::BlockReduce<double, 192, cub::BLOCK_REDUCE_RAKING>;
    __shared__ typename Reduce::TempStorage temp;
    double r = Reduce(temp).Sum(in[blockIdx.x * 192 + threadIdx.x], 150);
    if (threadIdx.x == 0) out[blockIdx.x] = r;
}

struct Running {
    long long total;
    __device__ long long operator()(long long add) {
        long long old = total;
        total += add;
        return old;
    }
};

extern "C" __global__ void tiled_scan(const int *in, long long *out, int n) {
    using Load = cub::BlockLoad<long long, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Store = cub::BlockStore<long long, 128, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<long long, 128, cub::BLOCK_SCAN_RAKING_MEMOIZE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
    } temp;
    Running running{0};
    for (int at = 0; at < n; at += 512) {
        long long v[4];
        for (int i = 0; i < 4; i++) v[i] = at + threadIdx.x * 4 + i < n ? in[at + threadIdx.x * 4 + i] : 0;
        Scan(temp.scan).ExclusiveSum(v, v, running);
        __syncthreads();
        Store(temp.store).Store(out + at, v, n - at);
        __syncthreads();
    }
}

extern "C" __global__ void radix_pairs(const unsigned *keys, const unsigned short *values, unsigned *sorted, unsigned short *moved) {
    using Sort = cub::BlockRadixSort<unsigned, 128, 5, unsigned short>;
    __shared__ typename Sort::TempStorage temp;
    unsigned k[5];
    unsigned short v[5];
    int at = blockIdx.x * 640 + threadIdx.x * 5;
    for (int i = 0; i < 5; i++) k[i] = keys[at + i], v[i] = values[at + i];
    Sort(temp).SortDescendingBlockedToStriped(k, v, 3, 29);
    for (int i = 0; i < 5; i++) sorted[blockIdx.x * 640 + i * 128 + threadIdx.x] = k[i], moved[blockIdx.x * 640 + i * 128 + threadIdx.x] = v[i];
}

extern "C" __global__ void radix_floats(const double *in, double *out) {
    using Sort = cub::BlockRadixSort<double, 64, 3>;
    __shared__ typename Sort::TempStorage temp;
    double k[3];
    int at = blockIdx.x * 192 + threadIdx.x * 3;
    for (int i = 0; i < 3; i++) k[i] = in[at + i];
    Sort(temp).Sort(k);
    for (int i = 0; i < 3; i++) out[at + i] = k[i];
}

struct ByLowByte {
    __device__ bool operator()(const int &a, const int &b) const { return (a & 255) < (b & 255); }
};

extern "C" __global__ void merge_stable(const int *in, int *out) {
    using Sort = cub::BlockMergeSort<int, 64, 6>;
    __shared__ typename Sort::TempStorage temp;
    int k[6], at = blockIdx.x * 384 + threadIdx.x * 6;
    for (int i = 0; i < 6; i++) k[i] = in[at + i];
    Sort(temp).StableSort(k, ByLowByte(), 333, 0x7fffffff);
    for (int i = 0; i < 6; i++) out[at + i] = k[i];
}

struct Lesser {
    __device__ bool operator()(const short &a, const short &b) const { return a < b; }
};

extern "C" __global__ void warp_sorts(const short *in, short *out) {
    using Sort = cub::WarpMergeSort<short, 3, 16>;
    __shared__ typename Sort::TempStorage temp[8];
    short k[3];
    int at = (blockIdx.x * 128 + threadIdx.x) * 3;
    for (int i = 0; i < 3; i++) k[i] = in[at + i];
    Sort(temp[threadIdx.x / 16]).Sort(k, Lesser());
    for (int i = 0; i < 3; i++) out[at + i] = k[i];
}

extern "C" __global__ void histograms(const unsigned char *in, unsigned *out) {
    using Atomic = cub::BlockHistogram<unsigned char, 128, 8, 64, cub::BLOCK_HISTO_ATOMIC>;
    using Sorted = cub::BlockHistogram<unsigned char, 128, 8, 64, cub::BLOCK_HISTO_SORT>;
    __shared__ union {
        typename Atomic::TempStorage a;
        typename Sorted::TempStorage s;
    } temp;
    __shared__ unsigned first[64], second[64];
    unsigned char v[8];
    for (int i = 0; i < 8; i++) v[i] = in[blockIdx.x * 1024 + threadIdx.x * 8 + i] & 63;
    Atomic(temp.a).Histogram(v, first);
    __syncthreads();
    Sorted(temp.s).Histogram(v, second);
    __syncthreads();
    if (threadIdx.x < 64) out[blockIdx.x * 128 + threadIdx.x] = first[threadIdx.x], out[blockIdx.x * 128 + 64 + threadIdx.x] = second[threadIdx.x];
}

extern "C" __global__ void heads_and_tails(const int *in, int *out) {
    using Discontinuity = cub::BlockDiscontinuity<int, 128>;
    using Difference = cub::BlockAdjacentDifference<int, 128>;
    __shared__ union {
        typename Discontinuity::TempStorage d;
        typename Difference::TempStorage a;
    } temp;
    int v[2], head[2], tail[2], less[2], at = (blockIdx.x * 128 + threadIdx.x) * 2;
    for (int i = 0; i < 2; i++) v[i] = in[at + i];
    Discontinuity(temp.d).FlagHeadsAndTails(head, tail, v, ::cuda::std::not_equal_to<>());
    __syncthreads();
    Difference(temp.a).SubtractLeft(v, less, ::cuda::std::minus<>());
    for (int i = 0; i < 2; i++) out[at + i] = head[i] | tail[i] << 1 | less[i] << 2;
}

extern "C" __global__ void exchanges(const float *in, float *out) {
    using Exchange = cub::BlockExchange<float, 64, 6, true>;
    using Warp = cub::WarpExchange<float, 4, 32>;
    __shared__ union {
        typename Exchange::TempStorage e;
        typename Warp::TempStorage w[2];
    } temp;
    float v[6], w[4];
    for (int i = 0; i < 6; i++) v[i] = in[blockIdx.x * 384 + i * 64 + threadIdx.x];
    Exchange(temp.e).StripedToBlocked(v, v);
    __syncthreads();
    for (int i = 0; i < 4; i++) w[i] = v[i] + v[i + 2];
    Warp(temp.w[threadIdx.x / 32]).BlockedToStriped(w, w);
    for (int i = 0; i < 4; i++) out[blockIdx.x * 256 + i * 64 + threadIdx.x] = w[i];
}

extern "C" __global__ void run_lengths(const unsigned char *values, const unsigned char *lengths, unsigned char *out) {
    using Decode = cub::BlockRunLengthDecode<unsigned char, 32, 2, 4>;
    __shared__ typename Decode::TempStorage temp;
    unsigned char v[2];
    unsigned n[2], total = 0;
    for (int i = 0; i < 2; i++) v[i] = values[blockIdx.x * 64 + threadIdx.x * 2 + i], n[i] = lengths[blockIdx.x * 64 + threadIdx.x * 2 + i] % 13 + 1;
    Decode decode(temp, v, n, total);
    for (unsigned at = 0; at < total; at += 128) {
        unsigned char got[4];
        decode.RunLengthDecode(got, at);
        for (int i = 0; i < 4; i++)
            if (at + threadIdx.x * 4 + i < total) out[blockIdx.x * 1024 + at + threadIdx.x * 4 + i] = got[i];
        __syncthreads();
    }
}

extern "C" __global__ void warp_scans(const int *in, int *out) {
    using Scan = cub::WarpScan<int>;
    using Segmented = cub::WarpReduce<int>;
    using Small = cub::WarpReduce<float, 8>;
    __shared__ typename Scan::TempStorage s[4];
    __shared__ typename Segmented::TempStorage r[4];
    __shared__ typename Small::TempStorage q[16];
    int i = blockIdx.x * 128 + threadIdx.x, w = threadIdx.x / 32, v = in[i], before, total;
    Scan(s[w]).ExclusiveScan(v, before, -1000, ::cuda::maximum<>(), total);
    int head = Segmented(r[w]).HeadSegmentedSum(v, v % 5 == 0);
    int tail = Segmented(r[w]).TailSegmentedReduce(v, v % 7 == 0, ::cuda::minimum<>());
    float f = Small(q[threadIdx.x / 8]).Sum(v * 0.37f);
    out[i * 4] = before, out[i * 4 + 1] = head, out[i * 4 + 2] = tail ^ total, out[i * 4 + 3] = threadIdx.x % 8 == 0 ? __float_as_int(f) : 0;
}
