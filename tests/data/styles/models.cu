// Quantised and sparse products, attention and recurrences in the manner of inference engines.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

struct Q4 {
    __half d;
    uint8_t q[16];
};
struct Q8 {
    __half2 ds;
    int8_t q[32];
};
struct Q6 {
    uint8_t low[128], high[64];
    int8_t scale[16];
    __half d;
};

extern "C" __global__ void quantise_rows(const float *x, Q8 *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], most = fabsf(v), sum = v;
    for (int s = 16; s; s >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, s)), sum += __shfl_xor_sync(~0u, sum, s);
    float d = most / 127.0f;
    y[i / 32].q[i % 32] = most == 0.0f ? 0 : roundf(v / d);
    if (i % 32 == 0) y[i / 32].ds = make_half2(d, sum);
}

extern "C" __global__ void dot_q4_q8(const Q4 *w, const Q8 *x, float *y, int blocks) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    float acc = 0;
    for (int b = threadIdx.x / 4; b < blocks; b += 8) {
        const Q4 &a = w[row * blocks + b];
        int part = threadIdx.x % 4, q = 0;
        memcpy(&q, a.q + part * 4, 4);
        const int *u = (const int *)x[b].q;
        int s = __dp4a(q & 0x0F0F0F0F, u[part], 0);
        s = __dp4a((q >> 4) & 0x0F0F0F0F, u[part + 4], s);
        float2 ds = __half22float2(x[b].ds);
        acc += __half2float(a.d) * (s * ds.x - 2.0f * ds.y);
    }
    for (int s = 16; s; s >>= 1) acc += __shfl_xor_sync(~0u, acc, s);
    if (threadIdx.x == 0) y[row] = acc;
}

extern "C" __global__ void dequantise_six(const Q6 *w, __half2 *y) {
    int b = blockIdx.x, t = threadIdx.x, ip = t / 32, il = t % 32, is = 8 * ip + il / 16;
    const Q6 &a = w[b];
    uint8_t l0 = a.low[64 * ip + il], l1 = a.low[64 * ip + il + 32], h = a.high[32 * ip + il];
    float d = __half2float(a.d);
    float v0 = d * a.scale[is] * ((int8_t)((l0 & 15) | ((h & 3) << 4)) - 32), v1 = d * a.scale[is + 2] * ((int8_t)((l1 & 15) | (((h >> 2) & 3) << 4)) - 32);
    float v2 = d * a.scale[is + 4] * ((int8_t)((l0 >> 4) | (((h >> 4) & 3) << 4)) - 32), v3 = d * a.scale[is + 6] * ((int8_t)((l1 >> 4) | (h >> 6 << 4)) - 32);
    y[b * 128 + t * 2] = __floats2half2_rn(v0, v1), y[b * 128 + t * 2 + 1] = __floats2half2_rn(v2, v3);
}

__device__ const int8_t grid16[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

extern "C" __global__ void lookup_four(const uint32_t *q, const int *u, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t *t = (const uint32_t *)grid16;
    uint32_t v = q[i], tmp[2];
    for (int s = 0; s < 2; s++) {
        uint32_t sel = (0x32103210 | (v & 0x88888888) >> 1);
        uint32_t half = v >> (16 * s);
        uint32_t lo = __byte_perm(t[0], t[1], half & 0x7777), hi = __byte_perm(t[2], t[3], half & 0x7777);
        tmp[s] = __byte_perm(lo, hi, sel >> (16 * s));
    }
    out[i] = __dp4a((int)__byte_perm(tmp[0], tmp[1], 0x6420), u[i], __dp4a((int)__byte_perm(tmp[0], tmp[1], 0x7531), u[i] ^ 0x01010101, 7));
}

__device__ __forceinline__ uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void load4(uint32_t (&r)[4], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}
__device__ __forceinline__ void load2t(uint32_t (&r)[2], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(p)));
}
__device__ __forceinline__ void load2(uint32_t (&r)[2], const void *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(p)));
}
__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int h = 0; h < 2; h++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2 * h]), "r"(a[2 * h + 1]), "r"(b[h]));
#endif
}

// One warp does 16 queries of a head of 64 elements over keys in steps of 16, with an online softmax and a bias by distance.
extern "C" __global__ void attention(const __half *q, const __half *k, const __half *v, float *out, int keys) {
    __shared__ __align__(16) __half sq[16][72], sk[16][72], sv[16][72];
    int t = threadIdx.x, g = t / 4, c = t % 4;
    for (int i = t; i < 16 * 64; i += 32) sq[i / 64][i % 64] = q[blockIdx.x * 1024 + i];
    __syncwarp();
    uint32_t a[4][4];
    for (int i = 0; i < 4; i++) load4(a[i], &sq[t % 16][i * 16 + t / 16 * 8]);
    float o[8][4] = {}, top[2] = {-1e30f, -1e30f}, sum[2] = {};
    for (int at = 0; at < keys; at += 16) {
        for (int i = t; i < 16 * 64; i += 32) sk[i / 64][i % 64] = k[at * 64 + i], sv[i / 64][i % 64] = v[at * 64 + i];
        __syncwarp();
        float s[2][4] = {};
        for (int n = 0; n < 2; n++)
            for (int i = 0; i < 4; i++) {
                uint32_t b[2];
                load2(b, &sk[n * 8 + t % 8][i * 16 + t / 8 % 2 * 8]);
                mma16816(s[n], a[i], b);
            }
        uint32_t p[4];
        for (int h = 0; h < 2; h++) {
            float most = top[h];
            for (int n = 0; n < 2; n++)
                for (int e = 0; e < 2; e++) {
                    int key = at + n * 8 + c * 2 + e, query = blockIdx.x * 16 + g + 8 * h;
                    s[n][2 * h + e] = key > query + 40 ? -1e30f : s[n][2 * h + e] * 0.125f - 0.01f * abs(query - key);
                    most = fmaxf(most, s[n][2 * h + e]);
                }
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1)), most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            float old = exp2f((top[h] - most) * 1.44269504f), part = 0;
            for (int n = 0; n < 2; n++) {
                float x = exp2f((s[n][2 * h] - most) * 1.44269504f), y = exp2f((s[n][2 * h + 1] - most) * 1.44269504f);
                part += x + y;
                __half2 both = __floats2half2_rn(x, y);
                p[n * 2 + h] = *(uint32_t *)&both;
            }
            sum[h] = sum[h] * old + part, top[h] = most;
            for (int n = 0; n < 8; n++) o[n][2 * h] *= old, o[n][2 * h + 1] *= old;
        }
        for (int n = 0; n < 8; n++) {
            uint32_t b[2];
            load2t(b, &sv[t % 16][n * 8]);
            mma16816(o[n], p, b);
        }
        __syncwarp();
    }
    for (int h = 0; h < 2; h++) {
        sum[h] += __shfl_xor_sync(~0u, sum[h], 1), sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
        for (int n = 0; n < 8; n++)
            for (int e = 0; e < 2; e++) out[(blockIdx.x * 16 + g + 8 * h) * 64 + n * 8 + c * 2 + e] = o[n][2 * h + e] / sum[h];
    }
}

extern "C" __global__ void selective_scan(const float *x, const float *dt, const float *A, const float *B, const float *C, float *y, int n) {
    int d = blockIdx.x * blockDim.x + threadIdx.x, channels = gridDim.x * blockDim.x;
    float state[8] = {}, a[8];
    for (int i = 0; i < 8; i++) a[i] = -expf(A[d * 8 + i]);
    for (int t = 0; t < n; t++) {
        float step = dt[t * channels + d], u = x[t * channels + d], sum = 0;
        step = step > 20 ? step : log1pf(expf(step));
        for (int i = 0; i < 8; i++) {
            state[i] = state[i] * __expf(step * a[i]) + B[t * 8 + i] * u * step;
            sum += state[i] * C[t * 8 + i];
        }
        y[t * channels + d] = sum + u * (1.0f / (1.0f + __expf(-u)));
    }
}

extern "C" __global__ void rotated(__half2 *x, const int *pos, float base, int heads) {
    int i = threadIdx.x, token = blockIdx.x, head = blockIdx.y;
    float angle = pos[token] * powf(base, -2.0f * i / (2 * blockDim.x)), s, c;
    sincosf(angle, &s, &c);
    __half2 *p = x + (token * heads + head) * blockDim.x + i;
    float2 v = __half22float2(*p);
    *p = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
}

extern "C" __global__ void top_k(const float *logits, int *chosen, float *weight, int experts) {
    int t = threadIdx.x, row = blockIdx.x * blockDim.y + threadIdx.y;
    float v[4], top = -INFINITY, sum = 0;
    for (int i = 0; i < 4; i++) v[i] = t + i * 32 < experts ? logits[row * experts + t + i * 32] : -INFINITY, top = fmaxf(top, v[i]);
    for (int s = 16; s; s /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, s));
    for (int i = 0; i < 4; i++) v[i] = expf(v[i] - top), sum += v[i];
    for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
    for (int k = 0; k < 4; k++) {
        float best = -1;
        int at = 0;
        for (int i = 0; i < 4; i++)
            if (v[i] > best) best = v[i], at = t + i * 32;
        for (int s = 16; s; s /= 2) {
            float other = __shfl_xor_sync(~0u, best, s);
            int where = __shfl_xor_sync(~0u, at, s);
            if (other > best || (other == best && where < at)) best = other, at = where;
        }
        if (t == 0) chosen[row * 4 + k] = at, weight[row * 4 + k] = best / sum;
        if (at % 32 == t) v[at / 32] = -2;
    }
}

extern "C" __global__ void fragments(const __half *a, const __half *b, const float *c, __half *d) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, 32, 8, 16, __half, row_major> fa;
    fragment<matrix_b, 32, 8, 16, __half, col_major> fb;
    fragment<accumulator, 32, 8, 16, float> fc;
    load_matrix_sync(fc, c, 8, mem_row_major);
    for (int k = 0; k < 64; k += 16) {
        load_matrix_sync(fa, a + k, 64);
        load_matrix_sync(fb, b + k, 64);
        for (int i = 0; i < fa.num_elements; i++) fa.x[i] = __hmul(fa.x[i], __float2half(0.5f));
        mma_sync(fc, fa, fb, fc);
    }
    fragment<accumulator, 32, 8, 16, __half> fd;
    for (int i = 0; i < fc.num_elements; i++) fd.x[i] = __float2half(tanhf(fc.x[i]));
    store_matrix_sync(d, fd, 32, mem_col_major);
}
