// Everyday kernels: vector add, softmax, histogram, scan, transpose, warp operations, fp64, 64-bit integers.
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void vector_add(const float *__restrict__ a, const float *__restrict__ b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void vector4(const float4 *a, float4 *b) { float4 v = a[threadIdx.x]; b[threadIdx.x] = make_float4(v.y, v.x, 0, v.w); }
__global__ void part(const float4 *a, float *b) { float4 v = a[threadIdx.x]; b[threadIdx.x] = v.x + v.w; }
extern "C" __global__ void softmax(const float *x, float *y, int n) {
  const float *row = x + blockIdx.x * n; float m = __int_as_float(0xff800000), s = 0;
  for (int i = threadIdx.x; i < n; i += 32) m = fmaxf(m, row[i]);
  for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  for (int i = threadIdx.x; i < n; i += 32) s += __expf(row[i] - m);
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  for (int i = threadIdx.x; i < n; i += 32) y[blockIdx.x * n + i] = __expf(row[i] - m) / s;
}
__global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(bins + i, local[i]);
}
__global__ void groups(int *p) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int v = cg::reduce(tile, p[threadIdx.x], cg::plus<int>());
  if (tile.thread_rank() == 0) p[tile.meta_group_rank()] = v + __popc(__ballot_sync(~0u, v > 3)) + __match_any_sync(~0u, v);
}
__global__ void grid_sync(int *p) { cg::this_grid().sync(); p[0] = clock64(); }
__global__ void doubles(double *x, long long *y, int n) {
  double a = x[threadIdx.x]; long long b = y[threadIdx.x];
  x[threadIdx.x] = sqrt(a) / (a + 1.5e-300) + sin(a) + fma(a, 3.25, 1e300); y[threadIdx.x] = b / n + b % 7 + __umul64hi(b, n);
}
__global__ void transpose(const float *a, float *b) {
  __shared__ float t[32][33];
  t[threadIdx.y][threadIdx.x] = a[threadIdx.y * 32 + threadIdx.x]; __syncthreads();
  b[threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
__global__ void vote(half2 *h, int *p) {
  h[threadIdx.x] = __hfma2(h[threadIdx.x], h[threadIdx.x], h[0]); bool q = __all_sync(~0u, p[threadIdx.x] > 0);
  if (q && p[3] < 4 || __any_sync(1, p[2])) p[threadIdx.x] = __ffs(p[1]) + __brev(p[2]) + __clz(p[3]);
}
