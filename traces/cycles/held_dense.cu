// Dense linear algebra, attention and other arithmetic without tensor cores.
#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void

// C = A B in tiles of 128 x 128, 8 x 8 to a thread, two buffers of shared memory, A turned on its way in.
KERNEL __launch_bounds__(256) sgemm_128(const float* a, const float* b, float* c, int n, int k) {
    __shared__ __align__(16) float sa[2][8][132], sb[2][8][128];
    const int row = blockIdx.y * 128, column = blockIdx.x * 128, t = threadIdx.x;
    const int ar = t / 2, ak = t % 2 * 4, bk = t / 32, bc = t % 32 * 4, tr = t / 16 * 8, tc = t % 16 * 4;
    float4 u = *reinterpret_cast<const float4*>(a + size_t(row + ar) * k + ak);
    float4 v = *reinterpret_cast<const float4*>(b + size_t(bk) * n + column + bc);
    float sums[8][8] = {};
    int now = 0;
    for (int first = 0; first < k; first += 8, now ^= 1) {
        sa[now][ak][ar] = u.x, sa[now][ak + 1][ar] = u.y, sa[now][ak + 2][ar] = u.z, sa[now][ak + 3][ar] = u.w;
        *reinterpret_cast<float4*>(&sb[now][bk][bc]) = v;
        __syncthreads();
        if (first + 8 < k) {
            u = *reinterpret_cast<const float4*>(a + size_t(row + ar) * k + first + 8 + ak);
            v = *reinterpret_cast<const float4*>(b + size_t(first + 8 + bk) * n + column + bc);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float x[8], y[8];
            *reinterpret_cast<float4*>(x) = *reinterpret_cast<const float4*>(&sa[now][i][tr]);
            *reinterpret_cast<float4*>(x + 4) = *reinterpret_cast<const float4*>(&sa[now][i][tr + 4]);
            *reinterpret_cast<float4*>(y) = *reinterpret_cast<const float4*>(&sb[now][i][tc]);
            *reinterpret_cast<float4*>(y + 4) = *reinterpret_cast<const float4*>(&sb[now][i][tc + 64]);
#pragma unroll
            for (int p = 0; p < 8; p++)
#pragma unroll
                for (int q = 0; q < 8; q++) sums[p][q] += x[p] * y[q];
        }
    }
    for (int p = 0; p < 8; p++)
        for (int q = 0; q < 8; q += 4)
            *reinterpret_cast<float4*>(c + size_t(row + tr + p) * n + column + tc + q / 4 * 64) =
                make_float4(sums[p][q], sums[p][q + 1], sums[p][q + 2], sums[p][q + 3]);
}

// Many small products, alpha A B + beta C, tiles of 16 x 16, an element to a thread.
KERNEL sgemm_batched(const float* a, const float* b, float* c, int n, float alpha, float beta) {
    __shared__ float sa[16][16], sb[16][16];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    const size_t matrix = size_t(blockIdx.z) * n * n;
    float sum = 0.0f;
    for (int first = 0; first < n; first += 16) {
        sa[threadIdx.y][threadIdx.x] = a[matrix + size_t(row) * n + first + threadIdx.x];
        sb[threadIdx.y][threadIdx.x] = b[matrix + size_t(first + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
        __syncthreads();
    }
    float& out = c[matrix + size_t(row) * n + column];
    out = alpha * sum + beta * out;
}

// Products of complex matrices, tiles of 16 x 16.
KERNEL cgemm(const float2* a, const float2* b, float2* c, int n) {
    __shared__ float2 sa[16][17], sb[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float2 sum = {};
    for (int first = 0; first < n; first += 16) {
        sa[threadIdx.y][threadIdx.x] = a[size_t(row) * n + first + threadIdx.x];
        sb[threadIdx.y][threadIdx.x] = b[size_t(first + threadIdx.y) * n + column];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const float2 u = sa[threadIdx.y][i], v = sb[i][threadIdx.x];
            sum.x += u.x * v.x - u.y * v.y;
            sum.y += u.x * v.y + u.y * v.x;
        }
        __syncthreads();
    }
    c[size_t(row) * n + column] = sum;
}

// Tridiagonal systems by elimination, a thread to a system; systems lie side by side.
KERNEL thomas(const float* lower, const float* diagonal, const float* upper, const float* right, float* scratch, float* x,
              int systems, int n) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= systems) return;
    float c = upper[s] / diagonal[s], d = right[s] / diagonal[s];
    scratch[s] = c, x[s] = d;
    for (int i = 1; i < n; i++) {
        const size_t at = size_t(i) * systems + s;
        const float m = 1.0f / (diagonal[at] - lower[at] * c);
        c = upper[at] * m, d = (right[at] - lower[at] * d) * m;
        scratch[at] = c, x[at] = d;
    }
    for (int i = n - 2; i >= 0; i--) {
        const size_t at = size_t(i) * systems + s;
        d = x[at] - scratch[at] * d;
        x[at] = d;
    }
}

// Kepler's equation by Newton's method in doubles.
KERNEL kepler(const double* anomaly, double* x, double eccentricity, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double m = anomaly[i];
    double e = m;
    for (int step = 0; step < 6; step++) {
        double s, c;
        sincos(e, &s, &c);
        e -= (e - eccentricity * s - m) / (1.0 - eccentricity * c);
    }
    x[i] = e;
}

// Pairs of particles with a cut-off, 64 neighbours each from a list.
KERNEL lennard_jones(const float4* positions, const int* neighbours, float4* forces, int n, float cut) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 me = positions[i];
    float4 f = {};
    for (int k = 0; k < 64; k++) {
        const float4 other = positions[neighbours[size_t(k) * n + i]];
        const float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z, r2 = dx * dx + dy * dy + dz * dz;
        if (r2 >= cut || r2 == 0.0f) continue;
        const float inverse = 1.0f / r2, r6 = inverse * inverse * inverse, strength = r6 * (48.0f * r6 - 24.0f) * inverse;
        f.x += dx * strength, f.y += dy * strength, f.z += dz * strength, f.w += r6 * (r6 - 1.0f);
    }
    forces[i] = f;
}

// Longest common subsequence of two strings of 256 bytes, a diagonal at a time, a CTA to a pair.
KERNEL common_subsequence(const unsigned char* left, const unsigned char* right, int* lengths) {
    __shared__ unsigned char a[256], b[256];
    __shared__ int rows[3][257];
    const int t = threadIdx.x;
    a[t] = left[size_t(blockIdx.x) * 256 + t], b[t] = right[size_t(blockIdx.x) * 256 + t];
    for (int i = 0; i < 3; i++) {
        rows[i][t + 1] = 0;
        if (t == 0) rows[i][0] = 0;
    }
    __syncthreads();
    for (int d = 0; d < 511; d++) {
        const int j = d - t;
        if (j >= 0 && j < 256) {
            const int* before = rows[(d + 2) % 3];
            rows[d % 3][t + 1] = a[t] == b[j] ? rows[(d + 1) % 3][t] + 1 : max(before[t], before[t + 1]);
        }
        __syncthreads();
    }
    if (t == 255) lengths[blockIdx.x] = rows[510 % 3][256];
}

// One query to a head against a cache of keys and values: 128 halves a key, a warp to every fourth key.
KERNEL decode_attention(const __half* q, const __half* keys, const __half* values, __half* out, int length, float scale) {
    extern __shared__ float scores[];
    __shared__ float query[128], part[4], joined[4][128];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const __half *k = keys + size_t(blockIdx.x) * length * 128, *v = values + size_t(blockIdx.x) * length * 128;
    query[t] = __half2float(q[blockIdx.x * 128 + t]) * scale;
    __syncthreads();
    float largest = -INFINITY;
    for (int i = warp; i < length; i += 4) {
        const uint2 raw = *reinterpret_cast<const uint2*>(k + size_t(i) * 128 + lane * 4);
        const float2 x = __half22float2(reinterpret_cast<const __half2*>(&raw)[0]);
        const float2 y = __half22float2(reinterpret_cast<const __half2*>(&raw)[1]);
        float sum = x.x * query[lane * 4] + x.y * query[lane * 4 + 1] + y.x * query[lane * 4 + 2] + y.y * query[lane * 4 + 3];
        for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
        if (lane == 0) scores[i] = sum;
        largest = fmaxf(largest, sum);
    }
    if (lane == 0) part[warp] = largest;
    __syncthreads();
    largest = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    __syncthreads();
    float total = 0.0f;
    for (int i = t; i < length; i += 128) total += scores[i] = __expf(scores[i] - largest);
    for (int d = 16; d > 0; d /= 2) total += __shfl_xor_sync(~0u, total, d);
    if (lane == 0) part[warp] = total;
    __syncthreads();
    total = part[0] + part[1] + part[2] + part[3];
    float sums[4] = {};
    for (int i = warp; i < length; i += 4) {
        const uint2 raw = *reinterpret_cast<const uint2*>(v + size_t(i) * 128 + lane * 4);
        const float2 x = __half22float2(reinterpret_cast<const __half2*>(&raw)[0]);
        const float2 y = __half22float2(reinterpret_cast<const __half2*>(&raw)[1]);
        const float p = scores[i];
        sums[0] += p * x.x, sums[1] += p * x.y, sums[2] += p * y.x, sums[3] += p * y.y;
    }
    for (int i = 0; i < 4; i++) joined[warp][lane * 4 + i] = sums[i];
    __syncthreads();
    out[blockIdx.x * 128 + t] = __float2half((joined[0][t] + joined[1][t] + joined[2][t] + joined[3][t]) / total);
}

// Attention in floats with heads of 32, a thread to a query, keys and values by 64 in shared memory.
KERNEL attention_f32(const float4* q, const float4* k, const float4* v, float4* out, int length, float scale) {
    __shared__ float4 keys[64][8], values[64][8];
    const size_t head = size_t(blockIdx.y) * length * 8, row = blockIdx.x * 64 + threadIdx.x;
    float4 query[8], sums[8] = {};
    for (int i = 0; i < 8; i++) query[i] = q[head + row * 8 + i];
    float largest = -INFINITY, total = 0.0f;
    for (int first = 0; first < length; first += 64) {
        __syncthreads();
        for (int i = threadIdx.x; i < 512; i += 64) {
            keys[i / 8][i % 8] = k[head + size_t(first) * 8 + i];
            values[i / 8][i % 8] = v[head + size_t(first) * 8 + i];
        }
        __syncthreads();
        for (int j = 0; j < 64; j++) {
            float score = 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const float4 x = query[i], y = keys[j][i];
                score += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
            }
            score *= scale;
            const float now = fmaxf(largest, score), shrink = __expf(largest - now), weight = __expf(score - now);
            total = total * shrink + weight, largest = now;
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const float4 y = values[j][i];
                sums[i].x = sums[i].x * shrink + weight * y.x, sums[i].y = sums[i].y * shrink + weight * y.y;
                sums[i].z = sums[i].z * shrink + weight * y.z, sums[i].w = sums[i].w * shrink + weight * y.w;
            }
        }
    }
    for (int i = 0; i < 8; i++)
        out[head + row * 8 + i] = make_float4(sums[i].x / total, sums[i].y / total, sums[i].z / total, sums[i].w / total);
}
