// Partly used vector loads (NVRTC marks the bytes it needs with a .pragma), packed arithmetic and a loop kept rolled.
extern "C" __global__ void partial(const float4 *a, const uchar4 *b, float *c, int n) {
  float4 v = a[threadIdx.x];
  uchar4 u = b[threadIdx.x];
  float sum = v.x + v.w;
#pragma unroll 1
  for (int i = 0; i < n; ++i) sum = sum * v.w + u.y;
  c[threadIdx.x] = sum + u.z;
}
extern "C" __global__ void pairs(const float4 *a, float2 *b) {
  float4 v = a[threadIdx.x];
  b[threadIdx.x] = make_float2(v.x * v.z + 1.0f, v.y * v.w + 1.0f);
}
