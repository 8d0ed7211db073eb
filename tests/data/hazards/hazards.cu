// Kernels with one bug each, and the same kernel without it. Compiled by nvcc 13.0:
//   nvcc -ptx -arch=sm_90 -lineinfo hazards.cu -o hazards.ptx

#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

// --------------------------------------------------------------------------------- races in shared memory

// The reduction reads its neighbour's partial sum before the neighbour has written it.
template <bool BUG>
__device__ void reduce(const float* x, float* y) {
  __shared__ float partial[256];
  int t = threadIdx.x;
  partial[t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (t < step) partial[t] += partial[t + step];
    if (!BUG) __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = partial[0];
}
extern "C" __global__ void reduce_racing(const float* x, float* y) { reduce<true>(x, y); }
extern "C" __global__ void reduce_right(const float* x, float* y) { reduce<false>(x, y); }

// The next tile is written while slower warps still read the last.
template <bool BUG>
__device__ void tiles(const float* x, float* y, int n) {
  __shared__ float tile[128];
  int t = threadIdx.x;
  float sum = 0;
  for (int start = 0; start < n; start += 128) {
    tile[t] = x[start + t];
    __syncthreads();
    for (int i = 0; i < 128; i++) sum += tile[i] * (i + t);
    if (!BUG) __syncthreads();
  }
  y[t] = sum;
}
extern "C" __global__ void tiles_racing(const float* x, float* y, int n) { tiles<true>(x, y, n); }
extern "C" __global__ void tiles_right(const float* x, float* y, int n) { tiles<false>(x, y, n); }

// The last steps of a reduction inside a warp, which once went without synchronisation.
template <bool BUG>
__device__ void warp_sum(const float* x, float* y) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  s[t + 32] = x[t + 32];
  if (!BUG) __syncwarp();
  volatile float* v = s;
  for (int step = 32; step > 0; step /= 2) {
    float other = v[(t + step) & 63];
    if (!BUG) __syncwarp();
    v[t] = v[t] + other;
    if (!BUG) __syncwarp();
  }
  if (t == 0) y[0] = s[0];
}
extern "C" __global__ void warp_sum_racing(const float* x, float* y) { warp_sum<true>(x, y); }
extern "C" __global__ void warp_sum_right(const float* x, float* y) { warp_sum<false>(x, y); }

// Two warps hand a buffer on through a named barrier that only one of them arrives at with the right number.
template <bool BUG>
__device__ void handover(const float* x, float* y) {
  __shared__ float box[32];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  if (warp == 0) {
    box[lane] = x[lane];
    asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else if (warp == 1) {
    if (BUG) asm volatile("bar.sync 2, 32;" ::: "memory");
    else asm volatile("bar.sync 1, 64;" ::: "memory");
    y[lane] = box[31 - lane];
  }
}
extern "C" __global__ void handover_racing(const float* x, float* y) { handover<true>(x, y); }
extern "C" __global__ void handover_right(const float* x, float* y) { handover<false>(x, y); }

// --------------------------------------------------------------------------------- races in global memory

// The last CTA adds up what all have written; without a fence it may read old values.
template <bool BUG>
__device__ void last_block(const float* x, float* partial, unsigned* count, float* y) {
  __shared__ bool last;
  int t = threadIdx.x;
  if (t == 0) {
    float sum = 0;
    for (int i = 0; i < 64; i++) sum += x[blockIdx.x * 64 + i];
    partial[blockIdx.x] = sum;
    if (!BUG) __threadfence();
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    __threadfence();
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += partial[i];
    *y = sum;
  }
}
extern "C" __global__ void last_block_racing(const float* x, float* p, unsigned* c, float* y) { last_block<true>(x, p, c, y); }
extern "C" __global__ void last_block_right(const float* x, float* p, unsigned* c, float* y) { last_block<false>(x, p, c, y); }

// In place, a CTA reads the edge of its neighbour's part.
template <bool BUG>
__device__ void blur(float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 >= n) return;
  float value = 0.5f * (x[i] + x[i + 1]);
  if (BUG) __syncthreads();
  (BUG ? x : y)[i] = value;
}
extern "C" __global__ void blur_racing(float* x, float* y, int n) { blur<true>(x, y, n); }
extern "C" __global__ void blur_right(float* x, float* y, int n) { blur<false>(x, y, n); }

// Counting without atomics.
template <bool BUG>
__device__ void count(const int* x, int* bins) {
  int b = x[blockIdx.x * blockDim.x + threadIdx.x] & 7;
  if (BUG) bins[b] += 1;
  else atomicAdd(&bins[b], 1);
}
extern "C" __global__ void count_racing(const int* x, int* bins) { count<true>(x, bins); }
extern "C" __global__ void count_right(const int* x, int* bins) { count<false>(x, bins); }

// --------------------------------------------------------------------------------- barriers

template <bool BUG>
__device__ void branch_barrier(float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  s[t] = t;
  if (BUG) {
    if (t < n) __syncthreads();
  } else {
    __syncthreads();
  }
  y[t] = s[127 - t];
}
extern "C" __global__ void barrier_divergent(float* y, int n) { branch_barrier<true>(y, n); }
extern "C" __global__ void barrier_right(float* y, int n) { branch_barrier<false>(y, n); }

// Half of the CTA waits at one barrier, half at another: for ever.
extern "C" __global__ void deadlocked(float* y) {
  if (threadIdx.x < 64) asm volatile("bar.sync 1, 128;" ::: "memory");
  else asm volatile("bar.sync 2, 128;" ::: "memory");
  y[threadIdx.x] = 1;
}

// --------------------------------------------------------------------------------- asynchronous copies

template <int BUG>  // 1: the wait leaves the group under way. 2: it comes before the commit. 3: no barrier
__device__ void copy(const float4* x, float4* y) {
  __shared__ float4 tile[2][128];
  int t = threadIdx.x;
  for (int stage = 0; stage < 2; stage++) {
    __pipeline_memcpy_async(&tile[stage][t], &x[128 * stage + t], 16);
    if (BUG != 2) __pipeline_commit();
  }
  __pipeline_wait_prior(BUG == 1 ? 1 : 0);
  if (BUG == 2) __pipeline_commit();
  if (BUG != 3) __syncthreads();
  y[t] = tile[1][127 - t];
}
extern "C" __global__ void copy_early(const float4* x, float4* y) { copy<1>(x, y); }
extern "C" __global__ void copy_uncommitted(const float4* x, float4* y) { copy<2>(x, y); }
extern "C" __global__ void copy_unsynchronised(const float4* x, float4* y) { copy<3>(x, y); }
extern "C" __global__ void copy_right(const float4* x, float4* y) { copy<0>(x, y); }

// --------------------------------------------------------------------------------- memory

extern "C" __global__ void uninitialised_shared(float* y) {
  __shared__ float s[128];
  int t = threadIdx.x;
  if (t < 100) s[t] = t;
  __syncthreads();
  y[t] = s[t];
}

extern "C" __global__ void uninitialised_local(float* y, int n) {
  float history[16];
  for (int i = 0; i < n; i++) history[i & 15] = i * threadIdx.x;
  y[threadIdx.x] = history[(threadIdx.x + n) & 15];
}

extern "C" __global__ void out_of_bounds(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = x[i];
}

extern "C" __global__ void misaligned(const float* x, float4* y) { y[threadIdx.x] = *(const float4*)(x + 1 + 4 * threadIdx.x); }

// --------------------------------------------------------------------------------- lanes

template <bool BUG>
__device__ void shuffle(const float* x, float* y, int n) {
  int t = threadIdx.x;
  if (t >= n) return;
  unsigned mask = BUG ? 0xffffffffu : (1u << n) - 1;
  float v = x[t];
  v += BUG ? __shfl_down_sync(mask, v, 16) : __shfl_down_sync(mask, v, n / 2, n);
  y[t] = v;
}
extern "C" __global__ void shuffle_inactive(const float* x, float* y, int n) { shuffle<true>(x, y, n); }
extern "C" __global__ void shuffle_right(const float* x, float* y, int n) { shuffle<false>(x, y, n); }

extern "C" __global__ void shuffle_wrong_mask(const float* x, float* y) {
  int t = threadIdx.x;
  float v = x[t];
  if (t < 8) v += __shfl_xor_sync(0xfu, v, 1);
  y[t] = v;
}

using namespace nvcuda;
extern "C" __global__ void tensor_core(const half* a, const half* b, half* d) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, half> fd;
  wmma::fill_fragment(fd, __float2half(0.0f));
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  for (int i = 0; i < 4; i++) wmma::mma_sync(fd, fa, fb, fd);
  wmma::store_matrix_sync(d, fd, 16, wmma::mem_row_major);
}

// --------------------------------------------------------------------------------- mbarriers

// Warp 0 fills four buffers in turn, the others read them. With the bug they call one empty before they read it.
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{.reg .pred P; L: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra D; bra L; D: }" ::"r"(at(b)),
               "r"(parity) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("{.reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(at(b)) : "memory");
}
template <bool BUG>
__device__ void pipeline(const int* x, int* y, int n) {
  __shared__ unsigned long long full[4], empty[4];
  __shared__ int ring[4][32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, sum = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < 4; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(at(full + i)) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(at(empty + i)) : "memory");
    }
  __syncthreads();
  for (int i = 0; i < n; i++) {
    int s = i % 4;
    if (warp == 0) {
      if (i >= 4) wait(empty + s, (i / 4 - 1) & 1);
      ring[s][lane] = x[32 * i + lane];
      arrive(full + s);
    } else {
      wait(full + s, (i / 4) & 1);
      if (BUG) arrive(empty + s);
      sum = sum * 3 + ring[s][lane ^ 1];
      if (!BUG) arrive(empty + s);
    }
  }
  if (warp == 1) y[lane] = sum;
}
extern "C" __global__ void pipeline_racing(const int* x, int* y, int n) { pipeline<true>(x, y, n); }
extern "C" __global__ void pipeline_right(const int* x, int* y, int n) { pipeline<false>(x, y, n); }

// --------------------------------------------------------------------------------- messages between CTAs

// CTA 0 writes 32 words, then a flag; CTA 1 waits for the flag and reads the words. Nothing is cached in L1, but the stores may
// arrive in any order.
template <int FENCE>
__device__ void message(volatile float* box, volatile int* flag, const float* x, float* y) {
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    box[t] = x[t];
    if (FENCE == 1) __threadfence_block();
    if (FENCE == 2) __threadfence();
    __syncwarp();
    if (t == 0) *flag = 1;
    if (FENCE == 3) __threadfence();
  } else {
    while (*flag == 0) {}
    y[t] = box[31 - t];
  }
}
#define MESSAGE(name, fence) \
  extern "C" __global__ void name(float* b, int* f, const float* x, float* y) { message<fence>(b, f, x, y); }
MESSAGE(message_racing, 0)
MESSAGE(message_block_fence, 1)
MESSAGE(message_right, 2)
MESSAGE(message_late_fence, 3)

// An atomic operation for the threads of a CTA, on a word that other CTAs add to.
extern "C" __global__ void count_in_block(const int* x, int* bins) {
  atomicAdd_block(&bins[x[blockIdx.x * blockDim.x + threadIdx.x] & 7], 1);
}

// --------------------------------------------------------------------------------- barriers in functions

// Some threads return early from a function in which the others wait.
template <bool BUG>
__device__ __noinline__ void exchange(float* s, int n) {
  int t = threadIdx.x;
  float other = s[t ^ 1];
  if (BUG && t >= n) return;
  __syncthreads();
  s[t] = other;
}
template <bool BUG>
__device__ __noinline__ void twice(float* s, int n) {
  exchange<false>(s, n);
  __syncthreads();
  exchange<BUG>(s, n);
}
template <bool BUG>
__device__ void called(float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  twice<BUG>(s, n);
  y[t] = s[t];
}
extern "C" __global__ void called_right(float* y, int n) { called<false>(y, n); }
extern "C" __global__ void called_returning(float* y, int n) { called<true>(y, n); }

// Some do not call it.
extern "C" __global__ void called_branching(float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  if (t < n) twice<false>(s, n);
  y[t] = s[t];
}

// --------------------------------------------------------------------------------- a lock that lanes of a warp fight for

template <bool BUG>
__device__ void lock(int* sum, int* word) {
  for (bool done = false; !done;) {
    if (atomicCAS(word, 0, 1) == 0) {
      if (!BUG) __threadfence();
      *sum += threadIdx.x;
      if (!BUG) __threadfence();
      atomicExch(word, 0);
      done = true;
    }
  }
}
extern "C" __global__ void lock_racing(int* sum, int* word) { lock<true>(sum, word); }
extern "C" __global__ void lock_right(int* sum, int* word) { lock<false>(sum, word); }
