// Tensor cores: wmma, mma.sync, ldmatrix, cp.async, and waits written as inline assembly with scoped labels.
#include <mma.h>
#include <cuda_bf16.h>
#include <cstdint>
using namespace nvcuda;

extern "C" __global__ void wmma_gemm(const half *a, const half *b, float *c, int n) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int k = 0; k < n; k += 16) {
    wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * n + k, n);
    wmma::load_matrix_sync(fb, b + blockIdx.x * 16 * n + k, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, fc, n, wmma::mem_row_major);
}

__device__ void copy16(uint32_t to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ void wait_barrier(uint32_t bar, uint32_t phase) {
  asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra LAB_WAIT;\nDONE:\n}\n"
               :: "r"(bar), "r"(phase) : "memory");
}
template <typename T> __global__ void __launch_bounds__(256, 2) pipeline(const T *a, const T *b, float *c, int k) {
  extern __shared__ __align__(128) char shared[];
  uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
  copy16(base + threadIdx.x * 16, a + threadIdx.x * 8, k > 3 ? 16 : 0);
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  uint32_t x[4], y[2]; float d[4] = {};
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(base));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2 + 1024];" : "=r"(y[0]), "=r"(y[1]) : "r"(base));
#pragma unroll 1
  for (int i = 0; i < k; ++i) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; @!p mov.f32 %0, 0f00000000; .reg .b32 %%r0; mov.b32 %%r0, %1; }" : "+f"(d[0]) : "r"(i));
  }
  c[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
template __global__ void pipeline<__nv_bfloat16>(const __nv_bfloat16 *, const __nv_bfloat16 *, float *, int);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
struct alignas(64) Map { unsigned char bytes[128]; };
extern "C" __global__ void __cluster_dims__(2, 1, 1) tma(const __grid_constant__ Map map, float *out, int x, int y) {
  __shared__ __align__(1024) float tile[64 * 32];
  __shared__ uint64_t bar;
  uint32_t s = (uint32_t)__cvta_generic_to_shared(tile), b = (uint32_t)__cvta_generic_to_shared(&bar);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(1));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(s), "l"(&map), "r"(b), "r"(x), "r"(y) : "memory");
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %3, %4}], [%2], {%5, %6}, %5;"
                 :: "r"(s), "l"(&map), "r"(b), "r"(x), "r"(y), "h"((short)1), "h"((short)2) : "memory");
  }
  wait_barrier(b, 0); wait_barrier(b, 1);
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;");
  uint32_t pred;
  asm volatile("{\n.reg .pred P;\nelect.sync _|P, %1;\nselp.b32 %0, 1, 0, P;\n}" : "=r"(pred) : "r"(0xffffffff));
  out[threadIdx.x] = tile[threadIdx.x] + pred;
}
#endif
