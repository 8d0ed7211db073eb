// Elementwise kernels, reductions and norms: other types, widths and shapes than in the other suites.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

__device__ float warp_sum(float x) {
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

__device__ float warp_max(float x) {
    for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

// The sum over a CTA, in all its threads.
__device__ float cta_sum(float x, float* part) {
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0.0f;
    return warp_sum(x);
}

KERNEL axpby_f64(double a, const double2* x, double b, double2* y, int pairs) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += gridDim.x * blockDim.x) {
        const double2 u = x[i], v = y[i];
        y[i] = make_double2(a * u.x + b * v.x, a * u.y + b * v.y);
    }
}

// Pixels of three bytes to planes of floats, each channel with its own scale and shift.
KERNEL normalise_pixels(const unsigned char* pixels, float* planes, const float* scale, const float* shift, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    for (int c = 0; c < 3; c++) planes[size_t(c) * count + i] = float(pixels[3 * i + c]) * scale[c] + shift[c];
}

KERNEL gelu_erf_bf16(const __nv_bfloat162* x, __nv_bfloat162* y, int pairs) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    const float2 v = __bfloat1622float2(x[i]);
    y[i] = __floats2bfloat162_rn(0.5f * v.x * (1.0f + erff(v.x * 0.70710678f)), 0.5f * v.y * (1.0f + erff(v.y * 0.70710678f)));
}

KERNEL gamma_curve(const float4* x, float4* y, float exponent, int quads) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    const float4 v = x[i];
    y[i] = make_float4(powf(v.x, exponent), powf(v.y, exponent), powf(v.z, exponent), powf(v.w, exponent));
}

// Momentum SGD with weight decay on f16 parameters and f32 state.
KERNEL sgd_momentum(__half* weights, const __half* gradients, float* momentum, float rate, float beta, float decay, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float w = __half2float(weights[i]);
    const float m = beta * momentum[i] + __half2float(gradients[i]) + decay * w;
    momentum[i] = m;
    weights[i] = __float2half(w - rate * m);
}

// Rows of floats to signed bytes and a scale: absolute maximum first, then the row again.
KERNEL quantise_rows(const float4* x, char4* y, float* scales, int quads) {
    __shared__ float part[32];
    x += size_t(blockIdx.x) * quads, y += size_t(blockIdx.x) * quads;
    float largest = 0.0f;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        const float4 v = x[i];
        largest = fmaxf(largest, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
    }
    largest = warp_max(largest);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = largest;
    __syncthreads();
    largest = warp_max(threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0.0f);
    const float scale = 127.0f / largest;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        const float4 v = x[i];
        y[i] = make_char4(__float2int_rn(v.x * scale), __float2int_rn(v.y * scale), __float2int_rn(v.z * scale),
                          __float2int_rn(v.w * scale));
    }
    if (threadIdx.x == 0) scales[blockIdx.x] = largest / 127.0f;
}

// Sums of columns: 32 columns and a strip of rows to a CTA of 32 x 8 threads, strips joined by atomics.
KERNEL column_sums(const float* x, float* sums, int rows, int columns, int strip) {
    __shared__ float part[8][33];
    const int column = blockIdx.x * 32 + threadIdx.x, begin = blockIdx.y * strip, end = min(rows, begin + strip);
    float sum = 0.0f;
    for (int r = begin + threadIdx.y; r < end; r += 8) sum += x[size_t(r) * columns + column];
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y) return;
    for (int i = 1; i < 8; i++) sum += part[i][threadIdx.x];
    atomicAdd(sums + column, sum);
}

// The largest element of each row and where it is; the first of equals.
KERNEL argmax_rows(const float* x, float* values, int* places, int columns) {
    __shared__ float best[8];
    __shared__ int where[8];
    const float* row = x + size_t(blockIdx.x) * columns;
    float value = -INFINITY;
    int place = 0x7fffffff;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        if (row[i] > value) value = row[i], place = i;
    for (int d = 16; d > 0; d /= 2) {
        const float other = __shfl_down_sync(~0u, value, d);
        const int there = __shfl_down_sync(~0u, place, d);
        if (other > value || (other == value && there < place)) value = other, place = there;
    }
    if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = value, where[threadIdx.x / 32] = place;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < blockDim.x / 32; w++)
        if (best[w] > value || (best[w] == value && where[w] < place)) value = best[w], place = where[w];
    values[blockIdx.x] = value, places[blockIdx.x] = place;
}

// Mean and variance of an array in one launch: the CTA that finishes last adds up what all have written.
KERNEL variance(const float4* x, float2* parts, unsigned* finished, float* out, int quads) {
    __shared__ float shared[32];
    __shared__ bool last;
    float sum = 0.0f, squares = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += gridDim.x * blockDim.x) {
        const float4 v = x[i];
        sum += v.x + v.y + v.z + v.w;
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    sum = cta_sum(sum, shared), squares = cta_sum(squares, shared);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = make_float2(sum, squares);
        __threadfence();
        last = atomicAdd(finished, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    sum = squares = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
        const float2 part = __ldcg(parts + i);
        sum += part.x, squares += part.y;
    }
    sum = cta_sum(sum, shared), squares = cta_sum(squares, shared);
    const float mean = sum / (4.0f * quads);
    if (threadIdx.x == 0) out[0] = mean, out[1] = squares / (4.0f * quads) - mean * mean;
}

// Softmax of rows of 512 halves, a warp to a row, 16 bytes at a time.
KERNEL softmax_half(const uint4* x, uint4* y, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    uint4 raw[2];
    float2 v[8];
    float largest = -INFINITY, sum = 0.0f;
    for (int i = 0; i < 2; i++) raw[i] = x[size_t(row) * 64 + i * 32 + lane];
    for (int i = 0; i < 8; i++) {
        v[i] = __half22float2(reinterpret_cast<const __half2*>(raw)[i]);
        largest = fmaxf(largest, fmaxf(v[i].x, v[i].y));
    }
    largest = warp_max(largest);
    for (int i = 0; i < 8; i++) {
        v[i] = make_float2(__expf(v[i].x - largest), __expf(v[i].y - largest));
        sum += v[i].x + v[i].y;
    }
    const float scale = 1.0f / warp_sum(sum);
    for (int i = 0; i < 8; i++) reinterpret_cast<__half2*>(raw)[i] = __floats2half2_rn(v[i].x * scale, v[i].y * scale);
    for (int i = 0; i < 2; i++) y[size_t(row) * 64 + i * 32 + lane] = raw[i];
}

// Softmax of long rows, a CTA to a row: maximum and sum kept together on the first way through.
KERNEL softmax_online(const float* x, float* y, int columns) {
    __shared__ float maxima[8], sums[8];
    x += size_t(blockIdx.x) * columns, y += size_t(blockIdx.x) * columns;
    float largest = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        const float v = x[i], now = fmaxf(largest, v);
        sum = sum * expf(largest - now) + expf(v - now);
        largest = now;
    }
    for (int d = 16; d > 0; d /= 2) {
        const float other = __shfl_xor_sync(~0u, largest, d), theirs = __shfl_xor_sync(~0u, sum, d);
        const float now = fmaxf(largest, other);
        sum = sum * expf(largest - now) + theirs * expf(other - now);
        largest = now;
    }
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = largest, sums[threadIdx.x / 32] = sum;
    __syncthreads();
    largest = -INFINITY;
    for (int w = 0; w < 8; w++) largest = fmaxf(largest, maxima[w]);
    sum = 0.0f;
    for (int w = 0; w < 8; w++) sum += sums[w] * expf(maxima[w] - largest);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = expf(x[i] - largest) / sum;
}

// Layer norm with the residual added first: rows of 768 bf16, a CTA of 96 threads to a row, 8 elements to a thread.
KERNEL add_layer_norm(const uint4* x, const uint4* residual, const float4* weight, const float4* bias, uint4* sum_out, uint4* y,
                      float epsilon) {
    __shared__ float part[32];
    const size_t at = size_t(blockIdx.x) * 96 + threadIdx.x;
    uint4 a = x[at], b = residual[at];
    float v[8], sum = 0.0f, squares = 0.0f;
    for (int i = 0; i < 4; i++) {
        const float2 p = __bfloat1622float2(reinterpret_cast<__nv_bfloat162*>(&a)[i]);
        const float2 q = __bfloat1622float2(reinterpret_cast<__nv_bfloat162*>(&b)[i]);
        v[2 * i] = p.x + q.x, v[2 * i + 1] = p.y + q.y;
        reinterpret_cast<__nv_bfloat162*>(&a)[i] = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
    }
    sum_out[at] = a;
    for (int i = 0; i < 8; i++) sum += v[i];
    const float mean = cta_sum(sum, part) / 768.0f;
    for (int i = 0; i < 8; i++) squares += (v[i] - mean) * (v[i] - mean);
    const float scale = rsqrtf(cta_sum(squares, part) / 768.0f + epsilon);
    float w[8], c[8];
    for (int i = 0; i < 2; i++) {
        reinterpret_cast<float4*>(w)[i] = weight[threadIdx.x * 2 + i];
        reinterpret_cast<float4*>(c)[i] = bias[threadIdx.x * 2 + i];
    }
    for (int i = 0; i < 4; i++)
        reinterpret_cast<__nv_bfloat162*>(&b)[i] = __floats2bfloat162_rn(
            (v[2 * i] - mean) * scale * w[2 * i] + c[2 * i], (v[2 * i + 1] - mean) * scale * w[2 * i + 1] + c[2 * i + 1]);
    y[at] = b;
}

// L2 norm of each row of doubles, a warp to a row.
KERNEL row_norms_f64(const double* x, double* norms, int rows, int columns) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    double sum = 0.0;
    for (int i = threadIdx.x % 32; i < columns; i += 32) sum += x[size_t(row) * columns + i] * x[size_t(row) * columns + i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) norms[row] = sqrt(sum);
}
