// The kernels of the lessons. kernels.ptx is made of this by nvcc 13.0:
//   nvcc -ptx -arch=sm_80 -lineinfo kernels.cu -o kernels.ptx

#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <stdint.h>

#define KERNEL extern "C" __global__ void

// Lesson 1
KERNEL warp_sum(const float* x, float* y) {
  float v = x[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
  y[threadIdx.x] = v;
}

KERNEL divergent(const int* x, int* y) {
  int i = threadIdx.x, v = x[i];
  if (i % 2 == 0) v = v * 3;
  else v = v + 100;
  y[i] = v;
}

// Lesson 2
KERNEL strided(const float* x, float* y, int n, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[(i * stride) & (n - 1)];
}

// Lesson 3
template <int PITCH>
__device__ void transpose(const float* x, float* y) {
  __shared__ float tile[32][PITCH];
  int lane = threadIdx.x, row = threadIdx.y;
  tile[row][lane] = x[row * 32 + lane];
  __syncthreads();
  y[row * 32 + lane] = tile[lane][row];
}
KERNEL transpose32(const float* x, float* y) { transpose<32>(x, y); }
KERNEL transpose33(const float* x, float* y) { transpose<33>(x, y); }

// Lesson 4
KERNEL chase(const int* next, int* out, int steps) {
  extern __shared__ int unused[];
  int i = blockIdx.x * blockDim.x + threadIdx.x, at = i;
  for (int s = 0; s < steps; s++) at = next[at];
  out[i] = at;
}

// Lesson 5
using namespace nvcuda;
KERNEL wmma_tile(const half* a, const half* b, float* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fd;
  wmma::fill_fragment(fd, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fd, fa, fb, fd);
  wmma::store_matrix_sync(d, fd, 16, wmma::mem_row_major);
}

// Lesson 6: A is 16 x 16 by rows, B 16 x 8 by columns, D 16 x 8 by rows
__device__ void mma(float* d, const uint32_t* a, const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <bool SWAPPED>
__device__ void mma_tile(const uint32_t* a, const uint32_t* b, float* d) {
  int g = threadIdx.x / 4, t = threadIdx.x % 4;
  uint32_t fa[4], fb[2];
  fa[0] = a[g * 8 + t];
  fa[SWAPPED ? 2 : 1] = a[(g + 8) * 8 + t];
  fa[SWAPPED ? 1 : 2] = a[g * 8 + t + 4];
  fa[3] = a[(g + 8) * 8 + t + 4];
  fb[0] = b[g * 8 + t];
  fb[1] = b[g * 8 + t + 4];
  float fd[4] = {};
  mma(fd, fa, fb);
  d[g * 8 + 2 * t] = fd[0], d[g * 8 + 2 * t + 1] = fd[1];
  d[(g + 8) * 8 + 2 * t] = fd[2], d[(g + 8) * 8 + 2 * t + 1] = fd[3];
}
KERNEL mma_right(const uint32_t* a, const uint32_t* b, float* d) { mma_tile<false>(a, b, d); }
KERNEL mma_swapped(const uint32_t* a, const uint32_t* b, float* d) { mma_tile<true>(a, b, d); }

// Lesson 7: a tile of 64 columns of f16 in shared memory: rows of 128 bytes
template <bool SWIZZLE>
__device__ void ldmatrix_rows(const uint4* x, uint32_t* y) {
  __shared__ uint4 tile[16][8];
  int lane = threadIdx.x;
  for (int i = lane; i < 128; i += 32) {
    int row = i / 8, chunk = i % 8;
    tile[row][SWIZZLE ? chunk ^ (row & 7) : chunk] = x[i];
  }
  __syncwarp();
  int row = lane % 16, chunk = lane / 16;
  uint32_t r[4];
  unsigned address = (unsigned)__cvta_generic_to_shared(&tile[row][SWIZZLE ? chunk ^ (row & 7) : chunk]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
  for (int i = 0; i < 4; i++) y[i * 32 + lane] = r[i];
}
KERNEL ldmatrix_plain(const uint4* x, uint32_t* y) { ldmatrix_rows<false>(x, y); }
KERNEL ldmatrix_swizzled(const uint4* x, uint32_t* y) { ldmatrix_rows<true>(x, y); }

// Lesson 8: y[t] is the sum over n tiles of 128 vectors, fetched STAGES ahead
template <int STAGES, int LEFT>
__device__ void pipelined(const float4* x, float* y, int n) {
  __shared__ float4 tile[STAGES][128];
  int t = threadIdx.x;
  x += (size_t)blockIdx.x * n * 128;
  for (int s = 0; s < STAGES - 1; s++) {
    __pipeline_memcpy_async(&tile[s][t], &x[s * 128 + t], 16);
    __pipeline_commit();
  }
  float sum = 0;
  for (int i = 0; i < n; i++) {
    if (i + STAGES - 1 < n) __pipeline_memcpy_async(&tile[(i + STAGES - 1) % STAGES][t], &x[(i + STAGES - 1) * 128 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(LEFT);
    __syncthreads();
    float4 v = tile[i % STAGES][127 - t];
    sum += v.x + v.y + v.z + v.w;
    __syncthreads();
  }
  y[blockIdx.x * 128 + t] = sum;
}
KERNEL one_stage(const float4* x, float* y, int n) { pipelined<1, 0>(x, y, n); }
KERNEL four_stages(const float4* x, float* y, int n) { pipelined<4, 3>(x, y, n); }
KERNEL four_stages_early(const float4* x, float* y, int n) { pipelined<4, 4>(x, y, n); }

// Lesson 10: dot products of four bytes
KERNEL dot4(const int* a, const int* b, int* c) {
  int i = threadIdx.x;
  c[i] = __dp4a(a[i], b[i], 0);
}

// Lesson 11: of every four elements of a row of A two are kept; e says which
KERNEL sparse_tile(const uint32_t* a, const uint32_t* e, const uint32_t* b, float* d) {
  int g = threadIdx.x / 4, t = threadIdx.x % 4;
  uint32_t fa[2] = {a[g * 4 + t], a[(g + 8) * 4 + t]};
  uint32_t fb[2] = {b[g * 8 + t], b[g * 8 + t + 4]};
  float fd[4] = {};
  asm volatile(
      "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6, %7}, {%0, %1, %2, %3}, %8, 0x0;"
      : "+f"(fd[0]), "+f"(fd[1]), "+f"(fd[2]), "+f"(fd[3])
      : "r"(fa[0]), "r"(fa[1]), "r"(fb[0]), "r"(fb[1]), "r"(e[threadIdx.x]));
  d[g * 8 + 2 * t] = fd[0], d[g * 8 + 2 * t + 1] = fd[1];
  d[(g + 8) * 8 + 2 * t] = fd[2], d[(g + 8) * 8 + 2 * t + 1] = fd[3];
}

// Lesson 12: one warp, nothing but products; INDEPENDENT chains of them
template <int INDEPENDENT>
__device__ void products(float* d, int n) {
  uint32_t a[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u}, b[2] = {0x3c003c00u, 0x3c003c00u};
  float c[INDEPENDENT][4] = {};
  for (int i = 0; i < n; i++)
#pragma unroll
    for (int j = 0; j < INDEPENDENT; j++) mma(c[j], a, b);
  float sum = 0;
  for (int j = 0; j < INDEPENDENT; j++) sum += c[j][0] + c[j][1] + c[j][2] + c[j][3];
  d[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
KERNEL one_chain(float* d, int n) { products<1>(d, n); }
KERNEL eight_chains(float* d, int n) { products<8>(d, n); }

// Lesson 12: C = A B, A (m x k) by rows, B (k x n) by rows, C (m x n) by rows; m, n, k multiples of 128, 256, 32.
// A CTA of 8 warps computes 128 x 256 of C, a warp 64 x 64; tiles of 32 along k come STAGES - 1 ahead.
constexpr int BM = 128, BN = 256, BK = 32, STAGES = 4, STAGE_BYTES = (BM + BN) * BK * 2;
__device__ int at_a(int row, int chunk) { return row * 64 + (chunk ^ (row >> 1 & 3)) * 16; }
__device__ int at_b(int row, int chunk) { return BM * BK * 2 + row * 512 + (chunk ^ (row & 7)) * 16; }
__device__ void fetch(char* stage, const half* a, const half* b, int n, int k) {
  for (int i = threadIdx.x; i < BM * BK / 8; i += 256)
    __pipeline_memcpy_async(stage + at_a(i / 4, i % 4), a + (size_t)(i / 4) * k + i % 4 * 8, 16);
  for (int i = threadIdx.x; i < BK * BN / 8; i += 256)
    __pipeline_memcpy_async(stage + at_b(i / 32, i % 32), b + (size_t)(i / 32) * n + i % 32 * 8, 16);
}
__device__ void load_a(uint32_t* r, const char* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(p)));
}
__device__ void load_b(uint32_t* r, const char* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(p)));
}
extern "C" __global__ void __launch_bounds__(256) gemm(const half* a, const half* b, float* c, int n, int k) {
  extern __shared__ __align__(128) char shared[];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row0 = warp / 4 * 64, column0 = warp % 4 * 64;
  a += (size_t)blockIdx.y * BM * k, b += blockIdx.x * BN;
  c += (size_t)blockIdx.y * BM * n + blockIdx.x * BN;
  int steps = k / BK;
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < steps) fetch(shared + s * STAGE_BYTES, a + s * BK, b + (size_t)s * BK * n, n, k);
    __pipeline_commit();
  }
  float d[4][8][4] = {};
  for (int s = 0; s < steps; s++) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    int next = s + STAGES - 1;
    if (next < steps) fetch(shared + next % STAGES * STAGE_BYTES, a + next * BK, b + (size_t)next * BK * n, n, k);
    __pipeline_commit();
    const char* stage = shared + s % STAGES * STAGE_BYTES;
#pragma unroll
    for (int kk = 0; kk < 2; kk++) {
      uint32_t fa[4][4], fb[8][2];
#pragma unroll
      for (int i = 0; i < 4; i++) load_a(fa[i], stage + at_a(row0 + i * 16 + lane % 16, kk * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 4; j++) load_b(fb[2 * j], stage + at_b(kk * 16 + lane % 16, column0 / 8 + j * 2 + lane / 16));
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) mma(d[i][j], fa[i], fb[j]);
    }
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 8; j++)
      for (int h = 0; h < 2; h++) {
        int row = row0 + i * 16 + h * 8 + lane / 4, column = column0 + j * 8 + lane % 4 * 2;
        *(float2*)(c + (size_t)row * n + column) = make_float2(d[i][j][2 * h], d[i][j][2 * h + 1]);
      }
}
