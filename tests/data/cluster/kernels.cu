// Kernels with mbarriers and clusters, for tests/test_clusters.py: nvcc 13.0, -arch=sm_90a -ptx.
#include <cstdint>
typedef unsigned u32;
typedef unsigned long long u64;

__device__ __forceinline__ u32 shared(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void init(u64 *b, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared(b)), "r"(count) : "memory");
}
__device__ __forceinline__ u64 arrive(u64 *b) {
    u64 state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(shared(b)) : "memory");
    return state;
}
__device__ __forceinline__ void wait(u64 *b, u32 parity) {
    asm volatile("{.reg .pred P; L: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra D; bra L; D: }" ::"r"(shared(b)),
                 "r"(parity) : "memory");
}
__device__ __forceinline__ void spin(u64 *b, u64 state) {
    asm volatile("{.reg .pred P; L: mbarrier.test_wait.shared::cta.b64 P, [%0], %1; @P bra D; bra L; D: }" ::"r"(shared(b)),
                 "l"(state) : "memory");
}
__device__ __forceinline__ u32 rank() {
    u32 r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ __forceinline__ u32 ranks() {
    u32 r;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
    return r;
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ u32 at_rank(const void *p, u32 r) {
    u32 a;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(shared(p)), "r"(r));
    return a;
}

// Warp 0 fills a ring of four buffers, the others read them; n rows of 32.
extern "C" __global__ void pipeline(const int *in, int *out, int n) {
    __shared__ u64 full[4], empty[4];
    __shared__ int ring[4][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    if (threadIdx.x == 0)
        for (int i = 0; i < 4; i++) { init(full + i, 32); init(empty + i, (warps - 1) * 32); }
    __syncthreads();
    if (warp == 0) {
        for (int i = 0; i < n; i++) {
            int s = i % 4;
            if (i >= 4) wait(empty + s, (i / 4 - 1) & 1);
            ring[s][lane] = in[(blockIdx.x * n + i) * 32 + lane];
            arrive(full + s);
        }
    } else {
        int sum = 0;
        for (int i = 0; i < n; i++) {
            int s = i % 4;
            wait(full + s, (i / 4) & 1);
            sum = sum * 3 + ring[s][(lane + warp) & 31];
            arrive(empty + s);
        }
        out[(blockIdx.x * (warps - 1) + warp - 1) * 32 + lane] = sum;
    }
}

// All threads exchange values five times, waiting by the state that their arrival returned, in a loop that never sleeps.
extern "C" __global__ void token(const int *in, int *out) {
    __shared__ u64 b;
    __shared__ int x[256];
    if (threadIdx.x == 0) init(&b, blockDim.x);
    __syncthreads();
    int v = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int i = 0; i < 5; i++) {
        x[threadIdx.x] = v;
        spin(&b, arrive(&b));
        v = v * 5 + x[(threadIdx.x * 7 + i) % blockDim.x];
        spin(&b, arrive(&b));
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

// Distributed shared memory: loads by shared and by generic address, atomics.
extern "C" __global__ void __cluster_dims__(4, 1, 1) distributed(const int *in, int *out) {
    __shared__ int x[128];
    int t = threadIdx.x;
    x[t] = in[blockIdx.x * 128 + t];
    cluster_sync();
    int s = 0;
    for (u32 r = 0; r < ranks(); r++) {
        int v;
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(at_rank(x + (t + r) % 128, r)) : "memory");
        u64 g;
        asm volatile("mapa.u64 %0, %1, %2;" : "=l"(g) : "l"((u64)(x + (t * 3) % 128)), "r"((r + 1) % ranks()));
        s = s * 7 + v + *(volatile int *)g;
    }
    cluster_sync();
    int old;
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;"
                 : "=r"(old) : "r"(at_rank(x + t, (rank() + 1) % ranks())), "r"(s) : "memory");
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    out[blockIdx.x * 128 + t] = x[t] + s + 0 * old;
}

// A pointer to shared memory, given to another CTA through its shared memory.
extern "C" __global__ void __cluster_dims__(2, 1, 1) passed(int *out) {
    __shared__ int x[32];
    __shared__ int *theirs;
    __shared__ u32 their_address;
    x[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
    cluster_sync();
    if (threadIdx.x == 0) {
        asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(at_rank(&theirs, rank() ^ 1)), "l"((u64)x) : "memory");
        asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at_rank(&their_address, rank() ^ 1)), "r"(shared(x)) : "memory");
    }
    cluster_sync();
    int v;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(their_address + 4 * (31 - threadIdx.x)) : "memory");
    out[blockIdx.x * 32 + threadIdx.x] = theirs[threadIdx.x] * 3 + v;
    cluster_sync();
}

// Messages that signal an mbarrier in another CTA.
extern "C" __global__ void __cluster_dims__(3, 1, 1) remote(int *out) {
    __shared__ u64 b;
    __shared__ int x[64];
    if (threadIdx.x == 0) {
        init(&b, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_sync();
    if (threadIdx.x == 0)
        asm volatile("{.reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], 256; }" ::"r"(shared(&b)) : "memory");
    u32 next = (rank() + 1) % ranks();
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(at_rank(x + threadIdx.x, next)),
                 "r"(rank() * 100 + threadIdx.x), "r"(at_rank(&b, next)) : "memory");
    wait(&b, 0);
    out[blockIdx.x * 64 + threadIdx.x] = x[threadIdx.x] + blockIdx.x * 1000;
    cluster_sync();
}

// The special registers of clusters: 18 words of each CTA.
extern "C" __global__ void registers(u32 *out) {
    __shared__ u32 x[16];
    u32 *o = out + 18 * (blockIdx.x + gridDim.x * blockIdx.y), s, k = 0;
#define READ(name) asm volatile("mov.u32 %0, %%" name ";" : "=r"(s)); o[k++] = s;
    READ("clusterid.x") READ("clusterid.y") READ("clusterid.z") READ("nclusterid.x") READ("nclusterid.y") READ("nclusterid.z")
    READ("cluster_ctaid.x") READ("cluster_ctaid.y") READ("cluster_ctaid.z") READ("cluster_nctaid.x") READ("cluster_nctaid.y")
    READ("cluster_nctaid.z") READ("cluster_ctarank") READ("cluster_nctarank") READ("total_smem_size") READ("aggr_smem_size")
    asm volatile("{.reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(s));
    o[k++] = s;
    o[k++] = shared(x) >> 24;
}

// Waits for an arrival that never comes.
extern "C" __global__ void hang(int *out) {
    __shared__ u64 b;
    if (threadIdx.x == 0) init(&b, blockDim.x + 1);
    __syncthreads();
    arrive(&b);
    wait(&b, 0);
    out[threadIdx.x] = 1;
}

// Some threads of the cluster never come to its barrier.
extern "C" __global__ void __cluster_dims__(2, 1, 1) absent(int *out) {
    if (blockIdx.x == 1 && threadIdx.x >= 32) {
        __shared__ u64 b;
        if (threadIdx.x == 32) init(&b, 2);
        __syncwarp();
        wait(&b, 0);
    }
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    out[threadIdx.x] = 1;
}

// More arrivals at once than the object expects.
extern "C" __global__ void excess(int *out) {
    __shared__ u64 b;
    if (threadIdx.x == 0) init(&b, 3);
    __syncthreads();
    asm volatile("{.reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0], 4; }" ::"r"(shared(&b)) : "memory");
    out[threadIdx.x] = 1;
}
