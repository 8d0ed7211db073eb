// Kernels whose fragment registers are in order, and the same with registers exchanged or used twice. Compiled by nvcc 13.0:
//   nvcc -ptx -arch=sm_90a -lineinfo fragments.cu -o fragments.ptx

#include <cstdint>
#include <cuda_fp16.h>

enum Bug { RIGHT, A_EXCHANGED, B_EXCHANGED, A_TWICE };

template <int BUG>
__device__ void disturb(uint32_t* a, uint32_t* b) {
  if (BUG == A_EXCHANGED) { uint32_t t = a[1]; a[1] = a[2]; a[2] = t; }
  if (BUG == B_EXCHANGED) { uint32_t t = b[0]; b[0] = b[1]; b[1] = t; }
  if (BUG == A_TWICE) a[3] = a[1];
}

__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

#define MULTIPLY(name, opcode, kind, letter)                                                                            \
  __device__ void name(kind* c, const uint32_t* a, const uint32_t* b) {                                                 \
    asm volatile("mma.sync.aligned." opcode " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                    \
                 : "+" letter(c[0]), "+" letter(c[1]), "+" letter(c[2]), "+" letter(c[3])                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                   \
  }
MULTIPLY(mma_s8, "m16n8k32.row.col.s32.s8.s8.s32", int, "r")
MULTIPLY(mma_e4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f")
MULTIPLY(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
MULTIPLY(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")

// Bytes: A [16][128] and B [8][128], through shared memory by cp.async, from there by ordinary loads.
template <int BUG, class T, class Product>
__device__ void bytes(const uint8_t* x, const uint8_t* y, T* z, Product product) {
  __shared__ __align__(16) uint8_t s[24][144];
  int t = threadIdx.x;
  if (t < 32) {  // the first warp copies, the second multiplies
    for (int i = t; i < 24 * 8; i += 32) {
      const uint8_t* from = i < 128 ? x + i * 16 : y + (i - 128) * 16;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&s[i / 8][i % 8 * 16])), "l"(from));
    }
    asm volatile("cp.async.wait_all;");
  }
  __syncthreads();
  if (t < 32) return;
  int g = t % 32 / 4, q = t % 4;
  T c[4] = {};
  for (int k = 0; k < 128; k += 32) {
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) a[i] = *(const uint32_t*)&s[g + i % 2 * 8][k + 4 * q + i / 2 * 16];
    for (int i = 0; i < 2; i++) b[i] = *(const uint32_t*)&s[16 + g][k + 4 * q + i * 16];
    disturb<BUG>(a, b);
    product(c, a, b);
  }
  for (int i = 0; i < 4; i++) z[(g + i / 2 * 8) * 8 + 2 * q + i % 2] = c[i];
}
#define BYTES(name, kind, product, bug)                                                                                 \
  extern "C" __global__ void name(const uint8_t* x, const uint8_t* y, kind* z) {                                        \
    bytes<bug>(x, y, z, [](kind* c, const uint32_t* a, const uint32_t* b) { product(c, a, b); });                       \
  }
BYTES(s8_right, int, mma_s8, RIGHT)
BYTES(s8_a, int, mma_s8, A_EXCHANGED)
BYTES(s8_twice, int, mma_s8, A_TWICE)
BYTES(e4m3_right, float, mma_e4m3, RIGHT)
BYTES(e4m3_b, float, mma_e4m3, B_EXCHANGED)

// tf32: A [16][32] and B [8][32] in f32, rounded on the way.
template <int BUG>
__device__ void words(const float* x, const float* y, float* z) {
  __shared__ float s[24][36];
  int t = threadIdx.x, g = t / 4, q = t % 4;
  for (int i = t; i < 24 * 32; i += 32) s[i / 32][i % 32] = i < 512 ? x[i] : y[i - 512];
  __syncwarp();
  float c[4] = {};
  for (int k = 0; k < 32; k += 8) {
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(a[i]) : "f"(s[g + i % 2 * 8][k + q + i / 2 * 4]));
    for (int i = 0; i < 2; i++) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(b[i]) : "f"(s[16 + g][k + q + i * 4]));
    disturb<BUG>(a, b);
    mma_tf32(c, a, b);
  }
  for (int i = 0; i < 4; i++) z[(g + i / 2 * 8) * 8 + 2 * q + i % 2] = c[i];
}
extern "C" __global__ void tf32_right(const float* x, const float* y, float* z) { words<RIGHT>(x, y, z); }
extern "C" __global__ void tf32_a(const float* x, const float* y, float* z) { words<A_EXCHANGED>(x, y, z); }

// Attention of 16 queries over 32 keys, 16 numbers each: weights go from accumulators to A of the second product.
template <int BUG>
__device__ void attention(const half* q, const half* k, const half* v, float* z) {
  int t = threadIdx.x, g = t / 4, r = t % 4;
  uint32_t a[4], b[2];
  for (int i = 0; i < 4; i++) a[i] = *(const uint32_t*)(q + (g + i % 2 * 8) * 16 + 2 * r + i / 2 * 8);
  float s[4][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {}, o[2][4] = {};
  for (int n = 0; n < 4; n++) {
    for (int i = 0; i < 2; i++) b[i] = *(const uint32_t*)(k + (8 * n + g) * 16 + 2 * r + i * 8);
    mma_f16(s[n], a, b);
  }
  for (int n = 0; n < 4; n++)
    for (int i = 0; i < 4; i++) top[i / 2] = fmaxf(top[i / 2], s[n][i]);
  for (int h = 0; h < 2; h++)
    for (int step = 1; step < 4; step *= 2) top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], step));
  for (int n = 0; n < 4; n++)
    for (int i = 0; i < 4; i++) sum[i / 2] += s[n][i] = exp2f((s[n][i] - top[i / 2]) * 0.36f);
  for (int h = 0; h < 2; h++)
    for (int step = 1; step < 4; step *= 2) sum[h] += __shfl_xor_sync(~0u, sum[h], step);
  for (int n = 0; n < 4; n += 2) {
    for (int i = 0; i < 4; i++) {
      half2 p = __floats2half2_rn(s[n + i / 2][i % 2 * 2], s[n + i / 2][i % 2 * 2 + 1]);
      a[i] = *(uint32_t*)&p;
    }
    for (int m = 0; m < 2; m++) {
      for (int i = 0; i < 2; i++) {
        const half* from = v + (8 * n + 2 * r + 8 * i) * 16 + 8 * m + g;
        half2 both = __halves2half2(from[0], from[16]);
        b[i] = *(uint32_t*)&both;
      }
      uint32_t p[4] = {a[0], a[1], a[2], a[3]};
      disturb<BUG>(p, b);
      mma_f16(o[m], p, b);
    }
  }
  for (int m = 0; m < 2; m++)
    for (int i = 0; i < 4; i++) z[(g + i / 2 * 8) * 16 + 8 * m + 2 * r + i % 2] = o[m][i] / sum[i / 2];
}
#define ATTENTION(name, bug) \
  extern "C" __global__ void name(const half* q, const half* k, const half* v, float* z) { attention<bug>(q, k, v, z); }
ATTENTION(attention_right, RIGHT)
ATTENTION(attention_a, A_EXCHANGED)
ATTENTION(attention_b, B_EXCHANGED)
ATTENTION(attention_twice, A_TWICE)

// A warpgroup: A [64][32] from device memory to registers, B [16][32], by columns, in shared memory without swizzle.
template <int BUG>
__device__ void warpgroup(const half* x, const half* y, float* z) {
  __shared__ __align__(128) half s[2][2][2][8][8];  // step of k, chunk of k, eight columns, column, element
  int t = threadIdx.x, g = t % 32 / 4, q = t % 4, row = t / 32 * 16 + g;
  for (int i = t; i < 512; i += 128) s[i % 32 / 16][i / 8 % 2][i / 256][i / 32 % 8][i % 8] = y[i];
  asm volatile("fence.proxy.async.shared::cta;");
  __syncthreads();
  float c[8] = {};
  uint32_t a[2][4], none[2];
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 4; i++) a[k][i] = *(const uint32_t*)(x + (row + i % 2 * 8) * 32 + 16 * k + 2 * q + i / 2 * 8);
    if (BUG == A_EXCHANGED || BUG == A_TWICE) disturb<BUG>(a[k], none);
  }
  asm volatile("wgmma.fence.sync.aligned;");
  for (int k = 0; k < 2; k++) {
    uint64_t b = (shared_address(s[k]) & 0x3FFFF) >> 4 | 256ull >> 4 << 16 | 128ull >> 4 << 32;
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, 1, 1, 1, 0;"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
                 : "r"(a[k][0]), "r"(a[k][1]), "r"(a[k][2]), "r"(a[k][3]), "l"(b));
  }
  asm volatile("wgmma.commit_group.sync.aligned;\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 8; i++) z[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + 2 * q + i % 2] = c[i];
}
extern "C" __global__ void warpgroup_right(const half* x, const half* y, float* z) { warpgroup<RIGHT>(x, y, z); }
extern "C" __global__ void warpgroup_a(const half* x, const half* y, float* z) { warpgroup<A_EXCHANGED>(x, y, z); }
extern "C" __global__ void warpgroup_twice(const half* x, const half* y, float* z) { warpgroup<A_TWICE>(x, y, z); }

// A sparse A: of every four numbers of a row the first two are stored, [16][16] of [16][32].
template <int BUG>
__device__ void sparse(const half* x, const half* y, float* z) {
  int t = threadIdx.x, g = t / 4, q = t % 4;
  uint32_t a[4], b[4];
  for (int i = 0; i < 4; i++) a[i] = *(const uint32_t*)(x + (g + i % 2 * 8) * 16 + 2 * q + i / 2 * 8);
  for (int i = 0; i < 4; i++) b[i] = *(const uint32_t*)(y + g * 32 + 2 * q + i * 8);
  disturb<BUG>(a, b);
  float c[4] = {};
  asm volatile(
      "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, "
      "{%0,%1,%2,%3}, %12, 0;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(0x44444444));
  for (int i = 0; i < 4; i++) z[(g + i / 2 * 8) * 8 + 2 * q + i % 2] = c[i];
}
extern "C" __global__ void sparse_right(const half* x, const half* y, float* z) { sparse<RIGHT>(x, y, z); }
extern "C" __global__ void sparse_a(const half* x, const half* y, float* z) { sparse<A_EXCHANGED>(x, y, z); }
extern "C" __global__ void sparse_b(const half* x, const half* y, float* z) { sparse<B_EXCHANGED>(x, y, z); }
