// Kernels for sm_90a with one bug each, and the same without it. hopper.ptx is made of this by nvcc 13.0, in this folder:
//   nvcc -ptx -arch=sm_90a -lineinfo hopper.cu -o hopper.ptx
#include "../../../traces/kernels/tma.cuh"
#include "../../../traces/kernels/wgmma.cuh"

#define BOTH(NAME, PARAMETERS, ARGUMENTS, ATTRIBUTES) \
    extern "C" __global__ void ATTRIBUTES NAME##_right PARAMETERS { NAME<0> ARGUMENTS; } \
    extern "C" __global__ void ATTRIBUTES NAME##_wrong PARAMETERS { NAME<1> ARGUMENTS; }

__device__ __forceinline__ void bulk_load(void* to, const void* from, int bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void bulk_read_done() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ __forceinline__ void ready(uint64_t* barrier, int count) {
    if (threadIdx.x == 0) {
        barrier_init(barrier, count);
        barriers_ready();
    }
    __syncthreads();
}

// Only the thread that issues the copy waits for it, and nothing orders the others behind that.
template <int BUG>
__device__ void load_early(const float* x, float* y) {
    __shared__ alignas(128) float tile[128];
    __shared__ alignas(8) uint64_t full;
    ready(&full, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&full, 512);
        bulk_load(tile, x, 512, &full);
    }
    if (!BUG || threadIdx.x == 0) barrier_wait(&full, 0);
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}
BOTH(load_early, (const float* x, float* y), (x, y), )

// Waiting for the parity of the phase before the first is no waiting.
template <int BUG>
__device__ void wrong_parity(const TensorMap* x, float* y) {
    __shared__ alignas(128) float tile[32][32];
    __shared__ alignas(8) uint64_t full;
    ready(&full, 1);
    if (threadIdx.x == 0) {
        barrier_expect(&full, sizeof(tile));
        load_2d(tile, x, 0, 0, &full);
    }
    barrier_wait(&full, BUG);
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) y[i] = tile[i / 32][i % 32];
}
BOTH(wrong_parity, (const __grid_constant__ TensorMap x, float* y), (&x, y), )

// BUG: the consumers give a stage back before they have read it.
template <int BUG>
__device__ void given_back_early(const float* x, float* y, int turns) {
    __shared__ alignas(128) float stage[2][64];
    __shared__ alignas(8) uint64_t full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; s++) barrier_init(&full[s], 1), barrier_init(&empty[s], 2);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            for (int i = 0; i < turns; i++) {
                barrier_wait(&empty[i % 2], (i / 2 & 1) ^ 1);
                barrier_expect(&full[i % 2], 256);
                bulk_load(stage[i % 2], x + 64 * i, 256, &full[i % 2]);
            }
    } else {
        float sum = 0;
        for (int i = 0; i < turns; i++) {
            barrier_wait(&full[i % 2], i / 2 & 1);
            if (BUG && threadIdx.x % 32 == 0) barrier_arrive(&empty[i % 2]);
            sum += stage[i % 2][(threadIdx.x - 32) ^ 1];
            __syncwarp();
            if (!BUG && threadIdx.x % 32 == 0) barrier_arrive(&empty[i % 2]);
        }
        y[threadIdx.x - 32] = sum;
    }
}
BOTH(given_back_early, (const float* x, float* y, int turns), (x, y, turns), )

// A copy reads through the asynchronous proxy what ordinary stores have written.
template <int BUG>
__device__ void store_unfenced(const float* x, float* y) {
    __shared__ alignas(128) float tile[128];
    tile[threadIdx.x] = 2 * x[threadIdx.x];
    if (!BUG) async_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        bulk_store(y, tile, 512);
        stores_done();
    }
}
BOTH(store_unfenced, (const float* x, float* y), (x, y), )

// The copy may still read the tile when the next numbers are written there.
template <int BUG>
__device__ void store_overwritten(const float* x, float* y, int turns) {
    __shared__ alignas(128) float tile[128];
    for (int i = 0; i < turns; i++) {
        tile[threadIdx.x] = 2 * x[128 * i + threadIdx.x];
        async_fence();
        __syncthreads();
        if (threadIdx.x == 0) {
            bulk_store(y + 128 * i, tile, 512);
            bulk_commit();
            if (!BUG) bulk_read_done();
        }
        __syncthreads();
    }
}
BOTH(store_overwritten, (const float* x, float* y, int turns), (x, y, turns), )

// Another thread reads the output in device memory before the copy is known to have written it.
template <int BUG>
__device__ void store_read_back(const float* x, float* y, float* z) {
    __shared__ alignas(128) float tile[128];
    tile[threadIdx.x] = x[threadIdx.x];
    async_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        bulk_store(y, tile, 512);
        bulk_commit();
        if (BUG) bulk_read_done();
        else asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    z[threadIdx.x] = y[threadIdx.x ^ 1];
}
BOTH(store_read_back, (const float* x, float* y, float* z), (x, y, z), )

// One CTA of the cluster reads the shared memory of the other. BUG: before that has written.
template <int BUG>
__device__ void far_read(const float* x, float* y) {
    __shared__ float mine[64];
    const int i = threadIdx.x, rank = cluster_rank();
    mine[i] = x[blockIdx.x * 64 + i];
    if (BUG) __syncthreads();
    else cluster_sync();
    uint32_t far;
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(shared_address(mine + (i ^ 1))), "r"(rank ^ 1));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(far) : "memory");
    y[blockIdx.x * 64 + i] = value;
    cluster_sync();
}
BOTH(far_read, (const float* x, float* y), (x, y), __cluster_dims__(2, 1, 1))

// A tile for both CTAs. BUG: one of them does not wait for it.
template <int BUG>
__device__ void multicast_early(const TensorMap* x, float* y) {
    __shared__ alignas(128) float tile[32][32];
    __shared__ alignas(8) uint64_t full;
    if (threadIdx.x == 0) {
        barrier_init(&full, 1);
        barriers_ready();
        barrier_expect(&full, sizeof(tile));
    }
    cluster_sync();
    if (cluster_rank() == 0 && threadIdx.x == 0) multicast_2d(tile, x, 0, 0, &full, 3);
    if (!BUG || cluster_rank() == 0) barrier_wait(&full, 0);
    if (BUG) cluster_sync();
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) y[1024 * blockIdx.x + i] = tile[i / 32][i % 32];
    cluster_sync();
}
BOTH(multicast_early, (const __grid_constant__ TensorMap x, float* y), (&x, y), __cluster_dims__(2, 1, 1))

// A store to the other CTA that tells an mbarrier there. BUG: nobody waits.
template <int BUG>
__device__ void store_far(const int* x, int* y) {
    __shared__ alignas(8) uint64_t full;
    __shared__ int box[32];
    const int i = threadIdx.x;
    if (i == 0) {
        barrier_init(&full, 1);
        barriers_ready();
        barrier_expect(&full, sizeof(box));
    }
    cluster_sync();
    uint32_t far, told;
    const int other = cluster_rank() ^ 1;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(shared_address(box + i)), "r"(other));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(told) : "r"(shared_address(&full)), "r"(other));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(far),
                 "r"(x[blockIdx.x * 32 + i]), "r"(told) : "memory");
    if (BUG) cluster_sync();
    else barrier_wait(&full, 0);
    y[blockIdx.x * 32 + i] = box[31 - i];
    cluster_sync();
}
BOTH(store_far, (const int* x, int* y), (x, y), __cluster_dims__(2, 1, 1))

// Words handed over through an mbarrier. BUG: written after the arrival.
template <int BUG>
__device__ void arrives_early(const float* x, float* y) {
    __shared__ float box[32];
    __shared__ alignas(8) uint64_t full;
    ready(&full, 32);
    if (threadIdx.x < 32) {
        if (BUG) barrier_arrive(&full);
        box[threadIdx.x] = x[threadIdx.x];
        if (!BUG) barrier_arrive(&full);
    } else {
        barrier_wait(&full, 0);
        y[threadIdx.x - 32] = box[63 - threadIdx.x];
    }
}
BOTH(arrives_early, (const float* x, float* y), (x, y), )

// One mbarrier waited for, another one's data read.
template <int BUG>
__device__ void wrong_barrier(const float* x, float* y) {
    __shared__ float box[2][32];
    __shared__ alignas(8) uint64_t full[2];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; s++) barrier_init(&full[s], 32);
        barriers_ready();
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 64) {
        const int s = threadIdx.x / 32;
        box[s][lane] = x[threadIdx.x];
        barrier_arrive(&full[s]);
    } else {
        barrier_wait(&full[BUG ? 0 : 1], 0);
        y[lane] = box[1][31 - lane];
    }
}
BOTH(wrong_barrier, (const float* x, float* y), (x, y), )

using namespace wgmma;

template <int threads>
__device__ __forceinline__ void fill(char* tile, const char* from, int bytes) {
    for (int i = threadIdx.x; i < bytes / 16; i += threads)
        *reinterpret_cast<uint4*>(tile + swizzled<128>(16 * i)) = *reinterpret_cast<const uint4*>(from + 16 * i);
}

// 64 x 16 products. BUG 1: no proxy fence between the stores and the product. 2: the tile is overwritten before the product is
// known to have read it. 3: the accumulators are changed while it runs. 4: they are set behind wgmma.fence.
template <int BUG>
__device__ void product(const char* x, float* y, int turns) {
    __shared__ __align__(1024) char a[64 * 128], b[16 * 128];
    float d[8] = {};
    for (int turn = 0; turn < turns; turn++) {
        fill<128>(a, x, sizeof(a));
        fill<128>(b, x + sizeof(a), sizeof(b));
        if (BUG != 1) async_fence();
        __syncthreads();
        begin();
        if (BUG == 4)
            for (int i = 0; i < 8; i++) asm volatile("add.f32 %0, %0, 0f3f800000;" : "+f"(d[i]));
        asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                     : "l"(matrix(a, 16, 1024, k128)), "l"(matrix(b, 16, 1024, k128)));
        commit();
        if (BUG == 3)
            for (int i = 0; i < 8; i++) asm volatile("add.f32 %0, %0, 0f3f800000;" : "+f"(d[i]));
        if (BUG != 2) wait<0>();
        __syncthreads();
    }
    wait<0>();
    for (int i = 0; i < 8; i++) y[threadIdx.x * 8 + i] = d[i];
}
extern "C" __global__ void product_right(const char* x, float* y, int turns) { product<0>(x, y, turns); }
extern "C" __global__ void product_unfenced(const char* x, float* y, int turns) { product<1>(x, y, turns); }
extern "C" __global__ void product_overwritten(const char* x, float* y, int turns) { product<2>(x, y, turns); }
extern "C" __global__ void product_read_early(const char* x, float* y, int turns) { product<3>(x, y, turns); }
extern "C" __global__ void product_set_late(const char* x, float* y, int turns) { product<4>(x, y, turns); }

// CTAs of a cluster read each other's number, then write their own. BUG: while the other may still be reading.
template <int BUG>
__device__ void far_overwritten(const float* x, float* y) {
    __shared__ float mine[32];
    const int i = threadIdx.x, rank = cluster_rank();
    mine[i] = x[blockIdx.x * 32 + i];
    cluster_sync();
    uint32_t far;
    float value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(shared_address(mine + (i ^ 1))), "r"(rank ^ 1));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(far) : "memory");
    if (!BUG) cluster_sync();
    mine[i] = value + 1;
    cluster_sync();
    y[blockIdx.x * 32 + i] = mine[i];
}
BOTH(far_overwritten, (const float* x, float* y), (x, y), __cluster_dims__(2, 1, 1))
