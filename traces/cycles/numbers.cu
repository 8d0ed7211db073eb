// Arithmetic and control flow: transforms, random numbers, searches, integration.
typedef unsigned u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void

__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// Fourier transforms of 1024 points, radix 4, Stockham, 256 threads to each.
KERNEL fft1024(const float2* x, float2* y) {
    __shared__ float2 s[1024];
    const int t = threadIdx.x;
    float2 v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = x[size_t(blockIdx.x) * 1024 + t + 256 * i];
#pragma unroll
    for (int span = 1; span < 1024; span *= 4) {
        const int k = t % span;
        const float angle = -6.2831853f * k / (4 * span);
#pragma unroll
        for (int i = 1; i < 4; i++) {
            float si, co;
            __sincosf(angle * i, &si, &co);
            v[i] = times(v[i], make_float2(co, si));
        }
        const float2 a = make_float2(v[0].x + v[2].x, v[0].y + v[2].y), b = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
        const float2 c = make_float2(v[1].x + v[3].x, v[1].y + v[3].y), d = make_float2(v[1].y - v[3].y, v[3].x - v[1].x);
        const int at = (t - k) * 4 + k;
        __syncthreads();
        s[at] = make_float2(a.x + c.x, a.y + c.y);
        s[at + span] = make_float2(b.x + d.x, b.y + d.y);
        s[at + 2 * span] = make_float2(a.x - c.x, a.y - c.y);
        s[at + 3 * span] = make_float2(b.x - d.x, b.y - d.y);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = s[t + 256 * i];
    }
#pragma unroll
    for (int i = 0; i < 4; i++) y[size_t(blockIdx.x) * 1024 + t + 256 * i] = v[i];
}

// Random walks of an option's price: xorshift numbers, Box-Muller, exponentials.
KERNEL monte_carlo(float* out, int steps, float drift, float width) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    u32 state = i * 747796405u + 2891336453u;
    float price = 0, sum = 0;
    for (int s = 0; s < steps; s++) {
        u32 bits[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            state ^= state << 13, state ^= state >> 17, state ^= state << 5;
            bits[k] = state * 1664525u;
        }
        const float r = sqrtf(-2 * __logf((bits[0] + 1.0f) * 2.3283064e-10f));
        price += drift + width * r * __cosf(bits[1] * 1.4629181e-9f);
        sum += __expf(price);
    }
    out[i] = sum / steps;
}

__constant__ unsigned char pattern[16] = "needlexneedley";

// Places where a pattern of up to 16 bytes stands in a text, a start a thread.
KERNEL find_pattern(const unsigned char* text, u32* count, int n, int length) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int k = 0;
    if (i + length <= n)
        while (k < length && text[i + k] == pattern[k]) k++;
    const u32 votes = __ballot_sync(~0u, k == length);
    if (votes && threadIdx.x % 32 == 0) atomicAdd(count, __popc(votes));
}

// Lorenz's equations in doubles, fourth order.
KERNEL lorenz(double* state, int steps, double h) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    double v[3] = {state[i], state[i + n], state[i + 2 * n]};
    for (int s = 0; s < steps; s++) {
        double k[3] = {0, 0, 0}, sum[3] = {0, 0, 0};
#pragma unroll
        for (int stage = 0; stage < 4; stage++) {
            const double step = stage == 0 ? 0 : stage == 3 ? h : h / 2, weight = stage == 1 || stage == 2 ? h / 3 : h / 6;
            const double x = v[0] + step * k[0], y = v[1] + step * k[1], z = v[2] + step * k[2];
            k[0] = 10 * (y - x), k[1] = x * (28 - z) - y, k[2] = x * y - 8.0 / 3 * z;
#pragma unroll
            for (int c = 0; c < 3; c++) sum[c] += weight * k[c];
        }
#pragma unroll
        for (int c = 0; c < 3; c++) v[c] += sum[c];
    }
    state[i] = v[0], state[i + n] = v[1], state[i + 2 * n] = v[2];
}

// CRC-32 of messages of 4 * words bytes, a message a thread, with a table in shared memory.
KERNEL crc32(const u32* messages, u32* out, int words) {
    __shared__ u32 table[256];
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) {
        u32 c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    u32 crc = ~0u;
    for (int w = 0; w < words; w++) {
        u32 v = messages[w * n + i];
#pragma unroll
        for (int b = 0; b < 4; b++, v >>= 8) crc = table[(crc ^ v) & 255] ^ crc >> 8;
    }
    out[i] = ~crc;
}

// Placings of `size` queens by backtracking, the first two given by the thread's number.
KERNEL queens(u32* counts, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, first = i % size, second = i / size % size;
    const u32 full = (1u << size) - 1;
    u32 columns[16], left[16], right[16], open[16], found = 0;
    const u32 a = 1u << first, b = 1u << second;
    if (!(b & (a | a << 1 | a >> 1))) {
        int row = 2;
        columns[2] = a | b, left[2] = (a << 2 | b << 1) & full, right[2] = a >> 2 | b >> 1;
        open[2] = full & ~(columns[2] | left[2] | right[2]);
        while (row >= 2) {
            if (!open[row]) {
                row--;
                continue;
            }
            const u32 q = open[row] & -open[row];
            open[row] ^= q;
            if (row == size - 1) {
                found++;
                continue;
            }
            columns[row + 1] = columns[row] | q;
            left[row + 1] = (left[row] | q) << 1 & full;
            right[row + 1] = (right[row] | q) >> 1;
            row++;
            open[row] = full & ~(columns[row] | left[row] | right[row]);
        }
    }
    counts[i] = found;
}

// Rays against spheres in constant order: square roots, divisions, lanes that hit and lanes that miss.
KERNEL trace_spheres(const float4* spheres, float* image, int count, int width) {
    const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    float ox = 0, oy = 0, oz = -4, dx = (px - width / 2) / float(width), dy = (py - width / 2) / float(width), light = 0, part = 1;
    float scale = rsqrtf(dx * dx + dy * dy + 1), dz = scale;
    dx *= scale, dy *= scale;
    for (int bounce = 0; bounce < 3; bounce++) {
        float nearest = 1e9f;
        int hit = -1;
        for (int s = 0; s < count; s++) {
            const float4 ball = spheres[s];
            const float cx = ball.x - ox, cy = ball.y - oy, cz = ball.z - oz, along = cx * dx + cy * dy + cz * dz;
            const float gap = ball.w * ball.w - (cx * cx + cy * cy + cz * cz - along * along);
            if (gap <= 0) continue;
            const float t = along - sqrtf(gap);
            if (t > 1e-3f && t < nearest) nearest = t, hit = s;
        }
        if (hit < 0) {
            light += part * (0.5f + 0.5f * dy);
            break;
        }
        const float4 ball = spheres[hit];
        ox += nearest * dx, oy += nearest * dy, oz += nearest * dz;
        const float nx = (ox - ball.x) / ball.w, ny = (oy - ball.y) / ball.w, nz = (oz - ball.z) / ball.w;
        const float back = 2 * (nx * dx + ny * dy + nz * dz);
        dx -= back * nx, dy -= back * ny, dz -= back * nz;
        light += part * 0.2f * fmaxf(ny, 0.0f);
        part *= 0.6f;
    }
    image[py * width + px] = light;
}

// Greatest common divisors of pairs of 64-bit numbers by division.
KERNEL gcd64(const u64* a, const u64* b, u64* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    u64 x = a[i], y = b[i];
    while (y) {
        const u64 r = x % y;
        x = y, y = r;
    }
    out[i] = x;
}

// Edit distance of strings of up to 32 letters by one warp: the diagonals of the table move through shuffles.
KERNEL edit_distance(const unsigned char* a, const unsigned char* b, int* out) {
    const int pair = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    const int letter = a[pair * 32 + lane];
    const int other = b[pair * 32 + lane];
    int here = lane + 1, left_up = lane;
    for (int step = 0; step < 63; step++) {
        const int j = step - lane;
        int up = __shfl_up_sync(~0u, here, 1);
        const int theirs = __shfl_sync(~0u, other, j & 31);
        if (lane == 0) up = j + 1;
        if (j >= 0 && j < 32) {
            const int now = min(min(up, here) + 1, left_up + (letter != theirs));
            left_up = up, here = now;
        }
    }
    if (lane == 31) out[pair] = here;
}
