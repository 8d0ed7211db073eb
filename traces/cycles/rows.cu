// Normalisations, losses and reductions: one row, channel or segment to a warp or a CTA.
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

__device__ float warp_sum(float x) {
    for (int m = 16; m; m >>= 1) x += __shfl_xor_sync(~0u, x, m);
    return x;
}

// The sum over a CTA, in every thread. `part` holds a float for each warp.
__device__ float cta_sum(float x, float* part) {
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0;
    __syncthreads();
    return warp_sum(x);
}

// A CTA to each row of halves, which stays in registers: columns = 8 * threads.
KERNEL rmsnorm(const uint4* x, const uint4* weight, uint4* y, float epsilon) {
    __shared__ float part[32];
    const size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    uint4 raw = x[at], scale = weight[threadIdx.x];
    __half2 *v = reinterpret_cast<__half2*>(&raw), *w = reinterpret_cast<__half2*>(&scale);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 f = __half22float2(v[i]);
        squares += f.x * f.x + f.y * f.y;
    }
    const float factor = rsqrtf(cta_sum(squares, part) / (8 * blockDim.x) + epsilon);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 f = __half22float2(v[i]);
        v[i] = __hmul2(__floats2half2_rn(f.x * factor, f.y * factor), w[i]);
    }
    y[at] = raw;
}

// Batch norm in training: Welford's mean and variance of a channel by one CTA, merged pairwise; NCHW.
KERNEL batchnorm(const float* x, float* y, int images, int channels, int pixels) {
    __shared__ float means[32], squares[32], counts[32];
    float mean = 0, m2 = 0, n = 0;
    for (int image = 0; image < images; image++)
        for (int i = threadIdx.x; i < pixels; i += blockDim.x) {
            const float v = x[(size_t(image) * channels + blockIdx.x) * pixels + i], d = v - mean;
            n += 1;
            mean += d / n;
            m2 += d * (v - mean);
        }
    const auto merge = [&](float other_mean, float other_m2, float other_n) {
        const float all = n + other_n, d = other_mean - mean, share = all > 0 ? other_n / all : 0;
        mean += d * share;
        m2 += other_m2 + d * d * n * share;
        n = all;
    };
    for (int m = 16; m; m >>= 1)
        merge(__shfl_xor_sync(~0u, mean, m), __shfl_xor_sync(~0u, m2, m), __shfl_xor_sync(~0u, n, m));
    if (threadIdx.x % 32 == 0) means[threadIdx.x / 32] = mean, squares[threadIdx.x / 32] = m2, counts[threadIdx.x / 32] = n;
    __syncthreads();
    mean = m2 = n = 0;
    for (int w = 0; w < blockDim.x / 32; w++) merge(means[w], squares[w], counts[w]);
    const float scale = rsqrtf(m2 / n + 1e-5f);
    for (int image = 0; image < images; image++)
        for (int i = threadIdx.x; i < pixels; i += blockDim.x) {
            const size_t at = (size_t(image) * channels + blockIdx.x) * pixels + i;
            y[at] = (x[at] - mean) * scale;
        }
}

// Loss and gradient of a row of logits by one CTA: maximum and sum in one pass, the gradient in another.
KERNEL cross_entropy_grad(const float* logits, const int* labels, float* losses, float* grads, int classes) {
    __shared__ float tops[32], sums[32];
    const float* row = logits + size_t(blockIdx.x) * classes;
    float top = -1e30f, sum = 0;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        const float v = row[i], now = fmaxf(top, v);
        sum = sum * __expf(top - now) + __expf(v - now);
        top = now;
    }
    for (int m = 16; m; m >>= 1) {
        const float other = __shfl_xor_sync(~0u, top, m), more = __shfl_xor_sync(~0u, sum, m), now = fmaxf(top, other);
        sum = sum * __expf(top - now) + more * __expf(other - now);
        top = now;
    }
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top, sums[threadIdx.x / 32] = sum;
    __syncthreads();
    top = tops[0];
    for (int w = 1; w < blockDim.x / 32; w++) top = fmaxf(top, tops[w]);
    sum = 0;
    for (int w = 0; w < blockDim.x / 32; w++) sum += sums[w] * __expf(tops[w] - top);
    const int label = labels[blockIdx.x];
    if (threadIdx.x == 0) losses[blockIdx.x] = __logf(sum) + top - row[label];
    for (int i = threadIdx.x; i < classes; i += blockDim.x)
        grads[size_t(blockIdx.x) * classes + i] = __expf(row[i] - top) / sum - (i == label ? 1.0f : 0.0f);
}

// The eight largest of a row by a warp: each lane keeps its own eight sorted, then the lanes' heads compete.
KERNEL top8(const float* x, float* values, int* places, int columns) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float best[8];
    int where[8];
#pragma unroll
    for (int i = 0; i < 8; i++) best[i] = -1e30f, where[i] = -1;
    for (int c = lane; c < columns; c += 32) {
        float v = x[size_t(row) * columns + c];
        int at = c;
        if (v <= best[7]) continue;
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (v > best[i]) {
                const float f = best[i];
                const int p = where[i];
                best[i] = v, where[i] = at, v = f, at = p;
            }
    }
    for (int k = 0; k < 8; k++) {
        float v = best[0];
        int at = where[0];
        for (int m = 16; m; m >>= 1) {
            const float other = __shfl_xor_sync(~0u, v, m);
            const int place = __shfl_xor_sync(~0u, at, m);
            if (other > v || (other == v && place < at)) v = other, at = place;
        }
        if (at == where[0]) {
#pragma unroll
            for (int i = 0; i < 7; i++) best[i] = best[i + 1], where[i] = where[i + 1];
            best[7] = -1e30f, where[7] = -1;
        }
        if (lane == 0) values[row * 8 + k] = v, places[row * 8 + k] = at;
    }
}

// Sums of segments of very different lengths, `pitch` apart, a warp to each.
KERNEL segmented_sum(const float* x, const int* lengths, float* sums, int pitch, int segments) {
    const int segment = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (segment >= segments) return;
    float sum = 0;
    for (int i = threadIdx.x % 32; i < lengths[segment]; i += 32) sum += x[segment * pitch + i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[segment] = sum;
}

// Dot product of two long vectors, four independent sums a thread, one atomic a CTA.
KERNEL dot_product(const float4* a, const float4* b, float* out, int n4) {
    __shared__ float part[32];
    float4 s = make_float4(0, 0, 0, 0);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n4; i += gridDim.x * blockDim.x) {
        const float4 u = a[i], v = b[i];
        s.x += u.x * v.x, s.y += u.y * v.y, s.z += u.z * v.z, s.w += u.w * v.w;
    }
    const float sum = cta_sum(s.x + s.y + s.z + s.w, part);
    if (threadIdx.x == 0) atomicAdd(out, sum);
}

// Gated linear unit with its bias: out = (x + p) * sigmoid(y + q), halves, columns of a bias row.
KERNEL gated_unit(const __half2* x, const __half2* y, const __half2* p, const __half2* q, __half2* out, int columns, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int c = i % columns;
    const float2 u = __half22float2(__hadd2(x[i], p[c])), v = __half22float2(__hadd2(y[i], q[c]));
    out[i] = __floats2half2_rn(u.x / (1 + __expf(-v.x)), u.y / (1 + __expf(-v.y)));
}

// Rotary embedding of queries in place: a pair of floats of two halves of a head.
KERNEL rotary(float* q, const float* angles, int heads, int half) {
    const int token = blockIdx.x;
    for (int i = threadIdx.x; i < heads * half; i += blockDim.x) {
        const int head = i / half, j = i % half;
        float *low = q + (size_t(token) * heads + head) * 2 * half + j, *high = low + half, s, c;
        sincosf(angles[token * half + j], &s, &c);
        const float a = *low, b = *high;
        *low = a * c - b * s;
        *high = a * s + b * c;
    }
}
