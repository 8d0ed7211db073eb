// Packed half-precision arithmetic: two f16 or bf16 values per register and instruction.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// A polynomial, a clamp, a comparison and an exponential on pairs of halves. `x * y + z` written as two operations is a
// mul.f16x2 and an add.f16x2 in PTX, which ptxas may contract.
extern "C" __global__ void half2_math(const half2* __restrict__ x, const half2* __restrict__ y, half2* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half2 a = x[i], b = y[i];
    half2 polynomial = __hfma2(__hfma2(a, __float2half2_rn(0.25f), b), a, __float2half2_rn(-1.5f));
    half2 contracted = __hadd2(__hmul2(a, b), polynomial);
    half2 separate = __hadd2_rn(__hmul2_rn(a, b), polynomial);
    half2 clamped = __hmin2(__hmax2(contracted, __float2half2_rn(-2.0f)), __float2half2_rn(2.0f));
    half2 mask = __hgt2(a, b);  // 1.0 where a > b
    out[i] = __hadd2(__hsub2(contracted, separate), clamped);
    out[i + n] = __hfma2_relu(mask, separate, __hneg2(__habs2(clamped)));
    out[i + 2 * n] = h2exp2(clamped);
    float2 wide = __half22float2(a);
    out[i + 3 * n] = __floats2half2_rn(wide.x * wide.y, sqrtf(fabsf(wide.x)) - wide.y);
}

extern "C" __global__ void bfloat2_math(const __nv_bfloat162* __restrict__ x, const __nv_bfloat162* __restrict__ y,
                                        __nv_bfloat162* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_bfloat162 a = x[i], b = y[i];
    __nv_bfloat162 product = __hfma2(a, b, __hmax2(a, b));
    float2 wide = __bfloat1622float2(b);
    out[i] = __hmul2(product, a);
    out[i + n] = __floats2bfloat162_rn(wide.x / 3.0f, wide.y * wide.x + 0.1f);
}
