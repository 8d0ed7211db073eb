// The kernel of lesson 12 that fills Hopper's tensor cores. hopper.ptx is made of this by nvcc 13.0:
//   nvcc -ptx -arch=sm_90a -lineinfo hopper.cu -o hopper.ptx

#include <cuda_fp16.h>
#include <stdint.h>

struct alignas(64) Map {  // a CUtensorMap
  uint64_t words[16];
};
__device__ uint32_t at(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// mbarriers: count arrivals and bytes
__device__ void init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(barrier)), "r"(arrivals) : "memory");
}
__device__ void expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(barrier)), "r"(bytes) : "memory");
}
__device__ void wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again; }" ::"r"(at(barrier)), "r"(parity)
      : "memory");
}
__device__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(barrier)) : "memory");
}

// A box of a matrix, by the tensor memory accelerator
__device__ void load(void* to, const Map* map, int x, int y, uint64_t* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
                   "r"(at(to)), "l"(map), "r"(x), "r"(y), "r"(at(barrier)) : "memory");
}

// A matrix in shared memory whose rows are 128 bytes, swizzled over them; 8 rows are 1024 bytes
__device__ uint64_t matrix(const void* p) { return (at(p) & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }

// D (64 x 256 a warpgroup, 128 registers a thread) += A (64 x 16) B (16 x 256)
#define EIGHT(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
                 "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define ALL EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56), \
            EIGHT(64), EIGHT(72), EIGHT(80), EIGHT(88), EIGHT(96), EIGHT(104), EIGHT(112), EIGHT(120)
__device__ void multiply(float (&d)[128], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
               "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
               "}, %128, %129, 1, 1, 1, 0, 0;" : ALL : "l"(a), "l"(b));
}

const int ROWS = 128, COLUMNS = 256, DEPTH = 64, STAGES = 4;
struct Stage {
  half a[ROWS * DEPTH], b[COLUMNS * DEPTH];
};
struct Shared {
  Stage stages[STAGES];
  uint64_t full[STAGES], empty[STAGES];
};

// C [m][n] = A [m][k] B, with B as [n][k]. Warpgroup 0 loads tiles, 1 and 2 multiply 64 rows each.
extern "C" __global__ void __launch_bounds__(384, 1)
    wgmma_gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  extern __shared__ __align__(1024) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  const int group = threadIdx.x / 128, steps = k / DEPTH;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; s++) init(&shared.full[s], 1), init(&shared.empty[s], 2);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0)
      for (int i = 0; i < steps; i++) {
        const int s = i % STAGES;
        Stage& stage = shared.stages[s];
        wait(&shared.empty[s], (i / STAGES & 1) ^ 1);  // both warpgroups have read what was here
        expect(&shared.full[s], sizeof(Stage));
        load(stage.a, &a, i * DEPTH, blockIdx.x * ROWS, &shared.full[s]);
        load(stage.b, &b, i * DEPTH, blockIdx.y * COLUMNS, &shared.full[s]);
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[128] = {};
    for (int i = 0; i < steps; i++) {
      const int s = i % STAGES;
      Stage& stage = shared.stages[s];
      wait(&shared.full[s], i / STAGES & 1);
      const uint64_t x = matrix(stage.a + (group - 1) * 64 * DEPTH), y = matrix(stage.b);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int step = 0; step < DEPTH / 16; step++) multiply(d, x + 2 * step, y + 2 * step);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");  // the products of the step before are done
      if (i > 0 && threadIdx.x % 128 == 0) arrive(&shared.empty[(i - 1) % STAGES]);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    const int row = blockIdx.x * ROWS + (group - 1) * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    float* out = c + (size_t)row * n + blockIdx.y * COLUMNS + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 128; i += 4) {
      *(float2*)(out + i * 2) = make_float2(d[i], d[i + 1]);
      *(float2*)(out + i * 2 + 8 * (size_t)n) = make_float2(d[i + 2], d[i + 3]);
    }
  }
}
