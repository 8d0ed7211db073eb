// Warpgroup matrix products from plain CUDA C: descriptors, ordering, and the instruction for a few sizes of N.
#pragma once
#include <cstdint>

namespace wgmma {

enum Swizzle : uint64_t { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };

// A matrix in shared memory; offsets in bytes.
__device__ __forceinline__ uint64_t matrix(const void* start, int leading, int stride, Swizzle swizzle) {
    uint64_t address = __cvta_generic_to_shared(start);
    return (address & 0x3FFFF) >> 4 | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(swizzle) << 62;
}

// Where byte `at` of a tile that begins at a multiple of 1024 lies once it is swizzled over `width` bytes.
template <int width>
__device__ __forceinline__ int swizzled(int at) {
    return at ^ ((at >> 7) & (width / 16 - 1)) << 4;
}

// Before the first product that reads what ordinary stores have put into shared memory.
__device__ __forceinline__ void written() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

__device__ __forceinline__ void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
__device__ __forceinline__ void wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory"); }

// Row and column, in the 64 x N result, of accumulator i of this thread (32-bit accumulators).
__device__ __forceinline__ int row_of(int i) { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * (i / 2 % 2); }
__device__ __forceinline__ int column_of(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

}  // namespace wgmma

#define WGMMA_BIND_16(C, d) \
    C((d)[0]), C((d)[1]), C((d)[2]), C((d)[3]), C((d)[4]), C((d)[5]), C((d)[6]), C((d)[7]), C((d)[8]), C((d)[9]), \
    C((d)[10]), C((d)[11]), C((d)[12]), C((d)[13]), C((d)[14]), C((d)[15])

// 16 accumulators; A and B in shared memory.
#define WGMMA_16(OPCODE, C, d, a, b, scale_d, TAIL) \
    asm volatile("{ .reg .pred on; setp.ne.b32 on, %18, 0; " OPCODE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15" \
    "}, %16, %17, on" TAIL "; }" : WGMMA_BIND_16(C, d) : "l"(a), "l"(b), "r"(int(scale_d)))

#define WGMMA_BIND_32(C, d) \
    C((d)[0]), C((d)[1]), C((d)[2]), C((d)[3]), C((d)[4]), C((d)[5]), C((d)[6]), C((d)[7]), C((d)[8]), C((d)[9]), \
    C((d)[10]), C((d)[11]), C((d)[12]), C((d)[13]), C((d)[14]), C((d)[15]), C((d)[16]), C((d)[17]), C((d)[18]), C((d)[19]), \
    C((d)[20]), C((d)[21]), C((d)[22]), C((d)[23]), C((d)[24]), C((d)[25]), C((d)[26]), C((d)[27]), C((d)[28]), C((d)[29]), \
    C((d)[30]), C((d)[31])

// 32 accumulators; A and B in shared memory.
#define WGMMA_32(OPCODE, C, d, a, b, scale_d, TAIL) \
    asm volatile("{ .reg .pred on; setp.ne.b32 on, %34, 0; " OPCODE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
    "}, %32, %33, on" TAIL "; }" : WGMMA_BIND_32(C, d) : "l"(a), "l"(b), "r"(int(scale_d)))

#define WGMMA_BIND_48(C, d) \
    C((d)[0]), C((d)[1]), C((d)[2]), C((d)[3]), C((d)[4]), C((d)[5]), C((d)[6]), C((d)[7]), C((d)[8]), C((d)[9]), \
    C((d)[10]), C((d)[11]), C((d)[12]), C((d)[13]), C((d)[14]), C((d)[15]), C((d)[16]), C((d)[17]), C((d)[18]), C((d)[19]), \
    C((d)[20]), C((d)[21]), C((d)[22]), C((d)[23]), C((d)[24]), C((d)[25]), C((d)[26]), C((d)[27]), C((d)[28]), C((d)[29]), \
    C((d)[30]), C((d)[31]), C((d)[32]), C((d)[33]), C((d)[34]), C((d)[35]), C((d)[36]), C((d)[37]), C((d)[38]), C((d)[39]), \
    C((d)[40]), C((d)[41]), C((d)[42]), C((d)[43]), C((d)[44]), C((d)[45]), C((d)[46]), C((d)[47])

// 48 accumulators; A and B in shared memory.
#define WGMMA_48(OPCODE, C, d, a, b, scale_d, TAIL) \
    asm volatile("{ .reg .pred on; setp.ne.b32 on, %50, 0; " OPCODE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, " \
    "%40, %41, %42, %43, %44, %45, %46, %47" \
    "}, %48, %49, on" TAIL "; }" : WGMMA_BIND_48(C, d) : "l"(a), "l"(b), "r"(int(scale_d)))

#define WGMMA_BIND_64(C, d) \
    C((d)[0]), C((d)[1]), C((d)[2]), C((d)[3]), C((d)[4]), C((d)[5]), C((d)[6]), C((d)[7]), C((d)[8]), C((d)[9]), \
    C((d)[10]), C((d)[11]), C((d)[12]), C((d)[13]), C((d)[14]), C((d)[15]), C((d)[16]), C((d)[17]), C((d)[18]), C((d)[19]), \
    C((d)[20]), C((d)[21]), C((d)[22]), C((d)[23]), C((d)[24]), C((d)[25]), C((d)[26]), C((d)[27]), C((d)[28]), C((d)[29]), \
    C((d)[30]), C((d)[31]), C((d)[32]), C((d)[33]), C((d)[34]), C((d)[35]), C((d)[36]), C((d)[37]), C((d)[38]), C((d)[39]), \
    C((d)[40]), C((d)[41]), C((d)[42]), C((d)[43]), C((d)[44]), C((d)[45]), C((d)[46]), C((d)[47]), C((d)[48]), C((d)[49]), \
    C((d)[50]), C((d)[51]), C((d)[52]), C((d)[53]), C((d)[54]), C((d)[55]), C((d)[56]), C((d)[57]), C((d)[58]), C((d)[59]), \
    C((d)[60]), C((d)[61]), C((d)[62]), C((d)[63])

// 64 accumulators; A and B in shared memory.
#define WGMMA_64(OPCODE, C, d, a, b, scale_d, TAIL) \
    asm volatile("{ .reg .pred on; setp.ne.b32 on, %66, 0; " OPCODE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, " \
    "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, " \
    "%60, %61, %62, %63" \
    "}, %64, %65, on" TAIL "; }" : WGMMA_BIND_64(C, d) : "l"(a), "l"(b), "r"(int(scale_d)))

// A in four registers.
#define WGMMA_32_REGISTERS(OPCODE, C, d, a, b, scale_d, TAIL) \
    asm volatile("{ .reg .pred on; setp.ne.b32 on, %37, 0; " OPCODE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
    "}, {%32, %33, %34, %35}, %36, on" TAIL "; }" : WGMMA_BIND_32(C, d) \
    : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(int(scale_d)))

// A sparse, with its metadata and selector.
#define WGMMA_32_SPARSE(OPCODE, C, d, a, b, metadata, SELECTOR, scale_d, TAIL) \
    asm volatile("{ .reg .pred on; setp.ne.b32 on, %35, 0; " OPCODE " {" \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
    "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
    "}, %32, %33, %34, " #SELECTOR ", on" TAIL "; }" : WGMMA_BIND_32(C, d) \
    : "l"(a), "l"(b), "r"(metadata), "r"(int(scale_d)))
