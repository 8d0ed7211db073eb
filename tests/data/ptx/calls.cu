// Functions, indirect calls, printf, assert, malloc, switch tables, recursion.
#include <cstdio>
#include <cassert>
#include <cuda_runtime.h>

struct Big { float v[12]; char tag; double d; };
typedef float (*unary)(float, int);

__device__ __noinline__ float twice(float x, int n) { return x * 2.0f + n; }
__device__ __noinline__ float square(float x, int n) { return x * x - n; }
__device__ __noinline__ float cube(float x, int n) { return x * x * x * n; }
__device__ unary table[3] = {twice, square, cube};
extern __device__ int outside(int a, float b);
extern __device__ Big make_big(Big b, int k);
__device__ __noinline__ Big shift(Big b, int k) { for (int i = 0; i < 12; ++i) b.v[i] += k; b.tag = 'x'; return b; }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ void nothing(int *p) { *p = 3; }

extern "C" __global__ void indirect(float *out, const float *in, int which, unary given) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = table[which](in[i], i) + given(in[i], which);
}
__global__ void structs(Big *out, Big in, int k) { out[threadIdx.x] = shift(in, k); nothing((int *)out); out[0].d = fib(k); }
__global__ void speak(int *p, float x) {
  printf("thread %d says %f and %s\n", threadIdx.x, x, "a string; with { braces } // and \"quotes\"");
  assert(p[threadIdx.x] > 0);
  int *q = (int *)malloc(16); if (q) { q[0] = p[0]; p[1] = q[0]; free(q); }
}
__global__ void choose(int *p, int k) {
  switch (k) {
    case 0: p[0] += 7; break; case 1: p[1] *= 3; break; case 2: p[2] ^= 9; break; case 3: p[3] -= 2; break;
    case 4: p[4] /= 5; break; case 5: p[5] = ~p[5]; break; case 6: p[6] <<= 2; break; case 7: p[0] = p[7]; break;
    case 9: p[9] |= 5; break; default: p[10] = 0;
  }
}
#ifdef __CUDACC_RDC__
__global__ void far(int *p, Big b) { p[0] = outside(p[1], 2.5f); b = make_big(b, 3); p[2] = (int)b.v[3]; }
#endif
