// Small formats, as the headers of the toolkit convert and compute them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

extern "C" __global__ void quantise_e4m3(const float *x, unsigned char *q, float *scale, __half *back, int columns) {
    __shared__ float part[4];
    const float *row = x + blockIdx.x * columns;
    float most = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, fabsf(row[i]));
    for (int s = 16; s; s /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, s));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
    __syncthreads();
    most = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    float by = 448.0f / most;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        __nv_fp8_e4m3 v(row[i] * by);
        q[blockIdx.x * columns + i] = v.__x;
        back[blockIdx.x * columns + i] = __half(v);
    }
    if (threadIdx.x == 0) scale[blockIdx.x] = most / 448.0f;
}

extern "C" __global__ void eights(const float4 *x, unsigned *e4, unsigned *e5, float4 *again, __nv_bfloat162 *pairs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __nv_fp8x4_e4m3 a(x[i]);
    __nv_fp8x4_e5m2 b(x[i]);
    e4[i] = a.__x, e5[i] = b.__x;
    float4 f = static_cast<float4>(a), g = static_cast<float4>(b);
    again[i] = make_float4(f.x + g.x, f.y * g.y, f.z - g.z, fmaf(f.w, g.w, 1.0f));
    __nv_fp8x2_e5m2 c(__floats2bfloat162_rn(x[i].x, x[i].w));
    pairs[i] = __float22bfloat162_rn(static_cast<float2>(c));
}

extern "C" __global__ void sixes_and_fours(const float2 *x, unsigned short *e2m3, unsigned short *e3m2, unsigned char *e2m1, float2 *again) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __nv_fp6x2_e2m3 a(x[i]);
    __nv_fp6x2_e3m2 b(x[i]);
    __nv_fp4x2_e2m1 c(x[i]);
    e2m3[i] = a.__x, e3m2[i] = b.__x, e2m1[i] = c.__x;
    float2 f = static_cast<float2>(a), g = static_cast<float2>(b), h = static_cast<float2>(c);
    again[i] = make_float2(f.x * 2 + g.x + h.x, f.y - g.y * h.y);
}

extern "C" __global__ void half_functions(const __half2 *x, __half2 *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    __half2 v = x[i], w = __habs2(v);
    out[i] = h2exp(v), out[n + i] = h2log(w), out[2 * n + i] = h2sin(v), out[3 * n + i] = h2rcp(v), out[4 * n + i] = h2sqrt(w);
    out[5 * n + i] = h2tanh(v), out[6 * n + i] = h2exp2(v), out[7 * n + i] = h2log10(w), out[8 * n + i] = __h2div(v, w);
    out[9 * n + i] = __hfma2_relu(v, w, v), out[10 * n + i] = __hmax2_nan(v, __hneg2(w)), out[11 * n + i] = __hcmadd(v, w, v);
    out[12 * n + i] = h2rint(v), out[13 * n + i] = h2floor(v), out[14 * n + i] = __hgt2(v, w), out[15 * n + i] = __hmul2_sat(v, w);
}

extern "C" __global__ void bfloat_functions(const __nv_bfloat162 *x, __nv_bfloat162 *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    __nv_bfloat162 v = x[i], w = __habs2(v);
    out[i] = h2exp(v), out[n + i] = h2log2(w), out[2 * n + i] = h2cos(v), out[3 * n + i] = h2rsqrt(w), out[4 * n + i] = __h2div(v, w);
    out[5 * n + i] = __hfma2_relu(v, w, v), out[6 * n + i] = __hmin2_nan(v, w), out[7 * n + i] = h2trunc(v), out[8 * n + i] = __hadd2_sat(v, w);
    out[9 * n + i] = __hfma2(v, w, __hneg2(v)), out[10 * n + i] = __heq2(v, w), out[11 * n + i] = __hcmadd(v, w, v);
}

extern "C" __global__ void half_integers(const float *x, const int *n, long long *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half h = __float2half_rz(x[i]);
    __nv_bfloat16 b = __int2bfloat16_rn(n[i]);
    out[i * 6] = __half2ll_rd(h), out[i * 6 + 1] = __half2ushort_rz(h), out[i * 6 + 2] = __half_as_short(__ll2half_ru((long long)n[i] * 3));
    out[i * 6 + 3] = __bfloat162int_rn(b), out[i * 6 + 4] = __bfloat16_as_ushort(__double2bfloat16(x[i] * 1e-3)), out[i * 6 + 5] = __half2uint_ru(h);
}

extern "C" __global__ void half_atomics(const float2 *x, __half2 *a, __nv_bfloat162 *b, float *c, double *d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float2 v = make_float2(rintf(x[i].x * 8), rintf(x[i].y * 8));
    atomicAdd(a + i % 7, __float22half2_rn(v));
    atomicAdd(b + i % 5, __float22bfloat162_rn(make_float2(v.x > 0 ? 1.0f : -1.0f, v.y > 3 ? 1.0f : 0.0f)));
    atomicAdd(c + i % 3, v.x), atomicAdd(d + i % 3, (double)v.y);
}
