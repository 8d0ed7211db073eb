// Bulk and tensor copies, one case for each CTA (or cluster): gpu_ref/tma/copy_cases.py says what a case is. Every form is here,
// so that a recording covers all of them. bulk_copies.ptx: nvcc -ptx -arch=sm_90a -lineinfo (13.0).
#include <cstdint>

struct Case {
    int kind, dimensions, coordinate[5], offset[3], at, bytes, window, out, map, source, target, operation, ranks, early;
};
struct alignas(64) Map {
    uint64_t words[16];
};

extern __shared__ uint8_t raw[];

__device__ __forceinline__ uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ uint8_t* aligned() { return raw + (-shared_address(raw) & 1023); }

__device__ __forceinline__ void make_barrier(uint64_t* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void expect(uint64_t* barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// Whether the bytes have come; waits for them, but not for ever. `early` cases have said before the copy what to expect.
__device__ __forceinline__ int finish(uint64_t* barrier, uint32_t bytes, int early) {
    if (!early) expect(barrier, bytes);
    for (int tries = 0; tries < 10000; ++tries) {
        int done;
        asm volatile(
            "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.s32 %0, 1, 0, p;}"
            : "=r"(done) : "r"(shared_address(barrier)) : "memory");
        if (done) return 1;
    }
    return 0;
}
__device__ __forceinline__ void finish_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
__device__ __forceinline__ void async_fence() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Coordinates as text (operands %4 on) and as operands.
#define C1 "{%4}"
#define C2 "{%4,%5}"
#define C3 "{%4,%5,%6}"
#define C4 "{%4,%5,%6,%7}"
#define C5 "{%4,%5,%6,%7,%8}"
#define X(i) "r"(c.coordinate[i])
#define X1 X(0)
#define X2 X1, X(1)
#define X3 X2, X(2)
#define X4 X3, X(3)
#define X5 X4, X(4)
#define O3 "{%1}"
#define O4 "{%1,%2}"
#define O5 "{%1,%2,%3}"

// ------------------------------------------------------------------------------------------------------------------ loads

#define COPY_TENSOR "cp.async.bulk.tensor."
#define TO_SHARED ".mbarrier::complete_tx::bytes"

// kind 0: tile, 1: im2col. `pattern`: what shared memory holds before.
extern "C" __global__ void loads(const Case* cases, const Map* maps, uint32_t* out, int* completed, uint32_t pattern) {
    __shared__ alignas(8) uint64_t barrier;
    const Case c = cases[blockIdx.x];
    uint8_t* memory = aligned();
    for (int i = threadIdx.x; i < c.window / 4; i += blockDim.x) ((uint32_t*)memory)[i] = pattern + i;
    if (threadIdx.x == 0) make_barrier(&barrier);
    async_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t target = shared_address(memory) + c.at, told = shared_address(&barrier);
        const Map* map = maps + c.map;
        const uint16_t o0 = c.offset[0], o1 = c.offset[1], o2 = c.offset[2];
        if (c.early) expect(&barrier, c.bytes);
#define LOAD_TILE(D, MODE, SPACE)                                                                                              \
    case D:                                                                                                                   \
        asm volatile(COPY_TENSOR #D "d." SPACE ".global" MODE TO_SHARED " [%0], [%1, " C##D "], [%2];" ::"r"(target),          \
                     "l"(map), "r"(told), "r"(0), X##D : "memory");                                                           \
        break;
#define LOAD_PIXELS(D)                                                                                                        \
    case 8 + D:                                                                                                               \
        asm volatile("{.reg .b64 map; .reg .b32 to, told;\n\t"                                                           \
                     "mov.b64 map, %0; mov.b64 {to, told}, %9;\n\t" COPY_TENSOR #D                                            \
                     "d.shared::cluster.global.im2col" TO_SHARED " [to], [map, " C##D "], [told], " O##D ";}" ::"l"(map),     \
                     "h"(o0), "h"(o1), "h"(o2), X5, "l"((uint64_t)told << 32 | target) : "memory");                           \
        break;
        switch (c.kind * 8 + c.dimensions) {
            LOAD_TILE(1, ".tile", "shared::cluster")
            LOAD_TILE(2, "", "shared::cta")
            LOAD_TILE(3, ".tile", "shared::cta")
            LOAD_TILE(4, "", "shared::cluster")
            LOAD_TILE(5, ".tile", "shared::cluster")
            LOAD_PIXELS(3)
            LOAD_PIXELS(4)
            LOAD_PIXELS(5)
        }
        completed[blockIdx.x] = finish(&barrier, c.bytes, c.early);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < c.window / 4; i += blockDim.x) out[c.out / 4 + i] = ((uint32_t*)memory)[i];
}

// ----------------------------------------------------------------------------------------------------------------- stores

// operation 0: store; 1 to 8: add, min, max, inc, dec, and, or, xor. kind 0: tile, 1: im2col.
extern "C" __global__ void stores(const Case* cases, const Map* maps, const uint32_t* source) {
    const Case c = cases[blockIdx.x];
    uint8_t* memory = aligned();
    for (int i = threadIdx.x; i < c.window / 4; i += blockDim.x) ((uint32_t*)memory)[i] = source[c.source / 4 + i];
    async_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t from = shared_address(memory) + c.at;
        const Map* map = maps + c.map;
#define PUT(NUMBER, BASE, OP, D, MODE)                                                                                        \
    case NUMBER * 16 + D:                                                                                                     \
        asm volatile(BASE #D "d.global.shared::cta" OP MODE ".bulk_group [%1, " C##D "], [%0];" ::"r"(from), "l"(map),         \
                     "r"(0), "r"(0), X##D : "memory");                                                                        \
        break;
#define PUT_PIXELS(NUMBER, BASE, OP, D)                                                                                       \
    case NUMBER * 16 + 8 + D:                                                                                                 \
        asm volatile(BASE #D "d.global.shared::cta" OP ".im2col_no_offs.bulk_group [%1, " C##D "], [%0];" ::"r"(from),         \
                     "l"(map), "r"(0), "r"(0), X##D : "memory");                                                              \
        break;
#define PUTS(NUMBER, BASE, OP)                                                                                                \
    PUT(NUMBER, BASE, OP, 1, ".tile")                                                                                         \
    PUT(NUMBER, BASE, OP, 2, "")                                                                                              \
    PUT(NUMBER, BASE, OP, 3, ".tile")                                                                                         \
    PUT(NUMBER, BASE, OP, 4, "")                                                                                              \
    PUT(NUMBER, BASE, OP, 5, ".tile")                                                                                         \
    PUT_PIXELS(NUMBER, BASE, OP, 3)                                                                                           \
    PUT_PIXELS(NUMBER, BASE, OP, 4)                                                                                           \
    PUT_PIXELS(NUMBER, BASE, OP, 5)
#define REDUCE_TENSOR "cp.reduce.async.bulk.tensor."
        switch (c.operation * 16 + c.kind * 8 + c.dimensions) {
            PUTS(0, COPY_TENSOR, "")
            PUTS(1, REDUCE_TENSOR, ".add")
            PUTS(2, REDUCE_TENSOR, ".min")
            PUTS(3, REDUCE_TENSOR, ".max")
            PUTS(4, REDUCE_TENSOR, ".inc")
            PUTS(5, REDUCE_TENSOR, ".dec")
            PUTS(6, REDUCE_TENSOR, ".and")
            PUTS(7, REDUCE_TENSOR, ".or")
            PUTS(8, REDUCE_TENSOR, ".xor")
        }
        finish_group();
    }
}

// ----------------------------------------------------------------------------------------------------------------- blocks

// kind 0: load, 1: store, 2: reduce (operation: position in the list below).
extern "C" __global__ void blocks(const Case* cases, uint8_t* global, uint32_t* out, int* completed, const uint32_t* source) {
    __shared__ alignas(8) uint64_t barrier;
    const Case c = cases[blockIdx.x];
    uint8_t* memory = aligned();
    for (int i = threadIdx.x; i < c.window / 4; i += blockDim.x) ((uint32_t*)memory)[i] = source[c.source / 4 + i];
    if (threadIdx.x == 0) make_barrier(&barrier);
    async_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint32_t here = shared_address(memory) + c.at, told = shared_address(&barrier);
        uint8_t* there = global + c.target;
        if (c.early && c.kind == 0) expect(&barrier, c.bytes);
#define REDUCE_BLOCK(NUMBER, OP)                                                                                              \
    case 2 + NUMBER:                                                                                                          \
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." OP " [%0], [%1], %2;" ::"l"(there), "r"(here),      \
                     "r"(c.bytes) : "memory");                                                                                \
        break;
        switch (c.kind + c.operation) {
            case 0:
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(here),
                             "l"(there), "r"(c.bytes), "r"(told) : "memory");
                break;
            case 1:
                asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(there), "r"(here), "r"(c.bytes)
                             : "memory");
                break;
                REDUCE_BLOCK(0, "add.u32")
                REDUCE_BLOCK(1, "add.s32")
                REDUCE_BLOCK(2, "add.u64")
                REDUCE_BLOCK(3, "add.f32")
                REDUCE_BLOCK(4, "add.f64")
                REDUCE_BLOCK(5, "add.noftz.f16")
                REDUCE_BLOCK(6, "add.noftz.bf16")
                REDUCE_BLOCK(7, "min.u32")
                REDUCE_BLOCK(8, "min.s32")
                REDUCE_BLOCK(9, "min.u64")
                REDUCE_BLOCK(10, "min.s64")
                REDUCE_BLOCK(11, "min.f16")
                REDUCE_BLOCK(12, "min.bf16")
                REDUCE_BLOCK(13, "max.u32")
                REDUCE_BLOCK(14, "max.s32")
                REDUCE_BLOCK(15, "max.u64")
                REDUCE_BLOCK(16, "max.s64")
                REDUCE_BLOCK(17, "max.f16")
                REDUCE_BLOCK(18, "max.bf16")
                REDUCE_BLOCK(19, "inc.u32")
                REDUCE_BLOCK(20, "dec.u32")
                REDUCE_BLOCK(21, "and.b32")
                REDUCE_BLOCK(22, "and.b64")
                REDUCE_BLOCK(23, "or.b32")
                REDUCE_BLOCK(24, "or.b64")
                REDUCE_BLOCK(25, "xor.b32")
                REDUCE_BLOCK(26, "xor.b64")
        }
        if (c.kind == 0) {
            completed[blockIdx.x] = finish(&barrier, c.bytes, c.early);
        } else {
            finish_group();
            completed[blockIdx.x] = 1;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < c.window / 4; i += blockDim.x) out[c.out / 4 + i] = ((uint32_t*)memory)[i];
}

// --------------------------------------------------------------------------------------------------------------- clusters

// kind 0: multicast of a box to the CTAs in `ranks`, 1: of a block; 2 on: from the shared memory of the CTA of rank `operation` to
// that of rank `ranks`, a copy (coordinate[1] = 0) or a reduction (1 on). Coordinate 0 is then where it goes to.
extern "C" __global__ void __cluster_dims__(4, 1, 1)
    clusters(const Case* cases, const Map* maps, const uint8_t* global, uint32_t* out, int* completed) {
    __shared__ alignas(8) uint64_t barrier;
    const int rank = blockIdx.x % 4;
    const Case c = cases[blockIdx.x / 4];
    uint8_t* memory = aligned();
    for (int i = threadIdx.x; i < c.window / 4; i += blockDim.x) {
        ((uint32_t*)memory)[i] = (0xC0DE0000u + (rank << 12) + i) * 2654435761u;
    }
    if (threadIdx.x == 0) make_barrier(&barrier);
    async_fence();
    cluster_sync();
    const bool receives = c.kind < 2 ? c.ranks >> rank & 1 : c.ranks == rank;
    if (threadIdx.x == 0 && receives && c.early) expect(&barrier, c.bytes);
    if (threadIdx.x == 0 && rank == c.operation) {
        const uint32_t here = shared_address(memory) + c.at, told = shared_address(&barrier);
        const Map* map = maps + c.map;
        const uint16_t ranks = c.ranks;
#define MULTICAST(D)                                                                                                          \
    case D:                                                                                                                   \
        asm volatile(COPY_TENSOR #D "d.shared::cluster.global.tile" TO_SHARED ".multicast::cluster [%0], [%1, " C##D          \
                                    "], [%2], %3;" ::"r"(here), "l"(map), "r"(told), "h"(ranks), X##D : "memory");            \
        break;
#define MOVE(NUMBER, TEXT)                                                                                                    \
    case 7 + NUMBER:                                                                                                          \
        asm volatile(TEXT " [%0], [%1], %2, [%3];" ::"r"(there), "r"(here), "r"(c.bytes), "r"(far) : "memory");               \
        break;
#define REDUCING(OP) "cp.reduce.async.bulk.shared::cluster.shared::cta" TO_SHARED OP
        uint32_t there = 0, far = 0;
        if (c.kind >= 2) {
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(memory) + c.coordinate[0]), "r"(c.ranks));
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(told), "r"(c.ranks));
        }
        switch (c.kind == 0 ? c.dimensions : c.kind == 1 ? 6 : 7 + c.coordinate[1]) {
            MULTICAST(1)
            MULTICAST(2)
            MULTICAST(3)
            MULTICAST(4)
            MULTICAST(5)
            case 6:
                asm volatile("cp.async.bulk.shared::cluster.global" TO_SHARED ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(here),
                             "l"(global + c.target), "r"(c.bytes), "r"(told), "h"(ranks) : "memory");
                break;
                MOVE(0, "cp.async.bulk.shared::cluster.shared::cta" TO_SHARED)
                MOVE(1, REDUCING(".add.u32"))
                MOVE(2, REDUCING(".add.s32"))
                MOVE(3, REDUCING(".add.u64"))
                MOVE(4, REDUCING(".min.u32"))
                MOVE(5, REDUCING(".min.s32"))
                MOVE(6, REDUCING(".max.u32"))
                MOVE(7, REDUCING(".max.s32"))
                MOVE(8, REDUCING(".inc.u32"))
                MOVE(9, REDUCING(".dec.u32"))
                MOVE(10, REDUCING(".and.b32"))
                MOVE(11, REDUCING(".or.b32"))
                MOVE(12, REDUCING(".xor.b32"))
        }
    }
    if (threadIdx.x == 0) completed[blockIdx.x] = receives ? finish(&barrier, c.bytes, c.early) : -1;
    __syncthreads();
    cluster_sync();
    for (int i = threadIdx.x; i < c.window / 4; i += blockDim.x) out[c.out / 4 + rank * (c.window / 4) + i] = ((uint32_t*)memory)[i];
}

// ------------------------------------------------------------------------------------------------------------ replacement

// Field which[i] of map i becomes values[i]: in shared memory for even i, in device memory for odd i.
extern "C" __global__ void replacements(const Map* maps, const uint64_t* values, Map* out, const int* which) {
    __shared__ Map map;
    const int i = blockIdx.x;
    if (threadIdx.x < 16) map.words[threadIdx.x] = out[i].words[threadIdx.x] = maps[i].words[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        const uint64_t wide = values[i];
        const uint32_t narrow = (uint32_t)wide;
#define REPLACE(NUMBER, FIELD, BITS, OPERANDS)                                                                                \
    case 2 * (NUMBER):                                                                                                          \
        asm volatile("tensormap.replace.tile." FIELD ".shared::cta.b1024." BITS " [%0], " OPERANDS ";" ::"r"(                 \
                         shared_address(&map)), "l"(wide), "r"(narrow) : "memory");                                           \
        break;                                                                                                                \
    case 2 * (NUMBER) + 1:                                                                                                      \
        asm volatile("tensormap.replace.tile." FIELD ".global.b1024." BITS " [%0], " OPERANDS ";" ::"l"(out + i), "l"(wide),   \
                     "r"(narrow) : "memory");                                                                                 \
        break;
#define REPLACE_EACH(NUMBER, FIELD, BITS, VALUE)                                                                              \
    REPLACE(NUMBER, FIELD, BITS, "0, " VALUE)                                                                                 \
    REPLACE(NUMBER + 1, FIELD, BITS, "1, " VALUE)                                                                             \
    REPLACE(NUMBER + 2, FIELD, BITS, "2, " VALUE)                                                                             \
    REPLACE(NUMBER + 3, FIELD, BITS, "3, " VALUE)                                                                             \
    REPLACE(NUMBER + 4, FIELD, BITS, "4, " VALUE)
        switch (which[i] * 2 + (i & 1)) {
            REPLACE(0, "global_address", "b64", "%1")
            REPLACE(1, "rank", "b32", "%2")
            REPLACE_EACH(2, "box_dim", "b32", "%2")
            REPLACE_EACH(7, "global_dim", "b32", "%2")
            REPLACE_EACH(12, "element_stride", "b32", "%2")
            REPLACE_EACH(17, "global_stride", "b64", "%1")
            REPLACE(22, "elemtype", "b32", "0")
            REPLACE(23, "elemtype", "b32", "1")
            REPLACE(24, "elemtype", "b32", "2")
            REPLACE(25, "elemtype", "b32", "3")
            REPLACE(26, "elemtype", "b32", "4")
            REPLACE(27, "elemtype", "b32", "5")
            REPLACE(28, "elemtype", "b32", "6")
            REPLACE(29, "elemtype", "b32", "7")
            REPLACE(30, "elemtype", "b32", "8")
            REPLACE(31, "elemtype", "b32", "9")
            REPLACE(32, "elemtype", "b32", "10")
            REPLACE(33, "elemtype", "b32", "11")
            REPLACE(34, "elemtype", "b32", "12")
            REPLACE(35, "interleave_layout", "b32", "0")
            REPLACE(36, "interleave_layout", "b32", "1")
            REPLACE(37, "interleave_layout", "b32", "2")
            REPLACE(38, "swizzle_mode", "b32", "0")
            REPLACE(39, "swizzle_mode", "b32", "1")
            REPLACE(40, "swizzle_mode", "b32", "2")
            REPLACE(41, "swizzle_mode", "b32", "3")
            REPLACE(42, "fill_mode", "b32", "0")
            REPLACE(43, "fill_mode", "b32", "1")
        }
    }
    __syncthreads();
    if (!(i & 1)) {
        asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(out + i),
                     "r"(shared_address(&map)) : "memory");
    }
}
