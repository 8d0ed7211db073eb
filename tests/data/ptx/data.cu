// Initialised variables: arrays, structs with pointers, strings, wide constants, managed, alignment, textures.
#include <cuda_fp16.h>
#include <cstdint>
struct Node { int key; const Node *next; double weight; const char *name; };
__constant__ float taps[5] = {0.1f, 0.25f, 0.3f, 0.25f, 0.1f};
__constant__ int grid3[2][3][2] = {{{1, 2}, {3}, {4, 5}}, {{6}, {7, -8}, {9, 10}}};
__device__ const char greeting[] = "hello, \"world\" // not a comment";
__device__ int counter = 42;
__device__ int unset;
__device__ double pi = 3.14159265358979;
__device__ int64_t big = -1234567890123456789LL;
__device__ int values[8] = {1, -2, 3};
__device__ int *where = &values[3];
__device__ int *const places[4] = {&values[0], nullptr, &counter, &values[7]};
__device__ Node last = {2, nullptr, 0.5, "last"};
__device__ Node first = {1, &last, 1.5, "first"};
__device__ __align__(64) unsigned char packed[24] = {1, 2, 3, 0xff};
__managed__ int shared_with_host = 7;
__device__ __half halves[4];
__device__ bool flags[3] = {true, false, true};
__device__ short shorts[3] = {-1, 2, 3};
__shared__ int bare[16];
__constant__ struct { char c; short s; int i; long long l; float f; double d; } mixed = {'a', -2, 3, -4, 1.25f, -2.5};
template <int N> __device__ int chosen = N * N;
extern __shared__ __align__(128) unsigned char dynamic[];

extern "C" __global__ void reads(float *out, int i, cudaTextureObject_t t, uint4 wide) {
  __shared__ float tile[32][33];
  __shared__ __align__(16) double2 pairs[8];
  float stack[40];
  for (int k = 0; k < 40; ++k) stack[k] = out[k] * i;
  tile[threadIdx.x][i] = taps[i % 5];
  pairs[i & 7] = make_double2(pi, big);
  bare[threadIdx.x] = counter + grid3[i & 1][1][1] + mixed.s + chosen<3>;
  dynamic[threadIdx.x] = greeting[i];
  __syncthreads();
  out[i] = tile[i][threadIdx.x] + stack[i % 40] + pairs[3].x + bare[i] + *where + *places[i & 3] + first.next->weight
         + dynamic[i] + tex1Dfetch<float>(t, i) + wide.y + __half2float(halves[i & 3]) + flags[i % 3] + shorts[i % 3]
         + packed[i] + shared_with_host + first.name[i] + unset + values[i] + mixed.f;
}
