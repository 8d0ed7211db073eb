// Transposes, gathers, scatters, histograms, scans and sorts.
#include <cuda_fp16.h>

typedef unsigned u32;

#define KERNEL extern "C" __global__ void

// Tiles of 64 x 64 halves through shared memory, two columns to a thread; rows of 66 avoid most conflicts.
KERNEL transpose_half(const __half2* x, __half2* y, int rows, int columns) {
    __shared__ __half tile[64][66];
    const int tx = threadIdx.x % 32, ty = threadIdx.x / 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    for (int r = ty; r < 64; r += 8)
        *reinterpret_cast<__half2*>(&tile[r][2 * tx]) = x[(size_t(row + r) * columns + column) / 2 + tx];
    __syncthreads();
    for (int r = ty; r < 64; r += 8)
        y[(size_t(column + r) * rows + row) / 2 + tx] = __halves2half2(tile[2 * tx][r], tile[2 * tx + 1][r]);
}

// Tiles of 32 x 32 doubles without padding: reads of a column conflict.
KERNEL transpose_f64_conflicts(const double* x, double* y, int rows, int columns) {
    __shared__ double tile[32][32];
    const int row = blockIdx.y * 32, column = blockIdx.x * 32;
    for (int r = threadIdx.y; r < 32; r += 8) tile[r][threadIdx.x] = x[size_t(row + r) * columns + column + threadIdx.x];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) y[size_t(column + r) * rows + row + threadIdx.x] = tile[threadIdx.x][r];
}

// No shared memory: reads are coalesced, writes are strided.
KERNEL transpose_strided(const float* x, float* y, int rows, int columns) {
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row < rows && column < columns) y[size_t(column) * rows + row] = x[size_t(row) * columns + column];
}

// Images of planes to images of pixels: [n][c][p] to [n][p][c], a thread to an element of the result.
KERNEL planes_to_pixels(const __half* x, __half* y, int channels, int pixels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= channels * pixels) return;
    const int p = i / channels, c = i % channels;
    const size_t image = size_t(blockIdx.y) * channels * pixels;
    y[image + i] = x[image + size_t(c) * pixels + p];
}

// Rows of 64 floats by index, half a warp to a row.
KERNEL take_rows(const float4* table, const int* index, float4* out, int rows) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, row = i / 16;
    if (row < rows) out[i] = table[size_t(index[row]) * 16 + i % 16];
}

// A 64-bit value to a random place, the place taken from an index.
KERNEL scatter_values(const double* x, const u32* index, double* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[index[i]] = x[i];
}

// Table look-ups with linear interpolation, the table of 1,024 floats in shared memory.
KERNEL interpolate(const float* x, const float* table, float* y, int n) {
    __shared__ float copy[1025];
    for (int i = threadIdx.x; i < 1025; i += blockDim.x) copy[i] = table[i];
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float at = fminf(fmaxf(x[i], 0.0f), 0.9999f) * 1024.0f;
        const int left = int(at);
        const float part = at - left;
        y[i] = copy[left] * (1.0f - part) + copy[left + 1] * part;
    }
}

// 1,024 bins in shared memory, joined in the end.
KERNEL histogram_floats(const float4* x, u32* bins, int quads) {
    __shared__ u32 mine[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < quads; i += gridDim.x * blockDim.x) {
        const float4 v = x[i];
        for (float each : {v.x, v.y, v.z, v.w}) atomicAdd(&mine[min(1023, int(each * 1024.0f))], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        if (mine[i]) atomicAdd(&bins[i], mine[i]);
}

// Inclusive sums of rows of 1,024 by doubling distances, two buffers of shared memory.
KERNEL scan_doubling(const float* x, float* y) {
    __shared__ float buffer[2][1024];
    const int i = threadIdx.x;
    int now = 0;
    buffer[0][i] = x[size_t(blockIdx.x) * 1024 + i];
    __syncthreads();
    for (int d = 1; d < 1024; d *= 2) {
        buffer[1 - now][i] = i >= d ? buffer[now][i] + buffer[now][i - d] : buffer[now][i];
        now = 1 - now;
        __syncthreads();
    }
    y[size_t(blockIdx.x) * 1024 + i] = buffer[now][i];
}

// Exclusive sums of 2,048 integers to a CTA, eight to a thread: in registers, warps by shuffles, warps joined in shared memory.
KERNEL scan_registers(const int4* x, int4* y, int* totals) {
    __shared__ int part[8];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int v[8], sum = 0;
    for (int i = 0; i < 2; i++) reinterpret_cast<int4*>(v)[i] = x[size_t(blockIdx.x) * 512 + threadIdx.x * 2 + i];
    for (int i = 0; i < 8; i++) {
        const int each = v[i];
        v[i] = sum, sum += each;
    }
    int inside = sum;
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(~0u, inside, d);
        if (lane >= d) inside += other;
    }
    if (lane == 31) part[warp] = inside;
    __syncthreads();
    int before = inside - sum;
    for (int w = 0; w < warp; w++) before += part[w];
    for (int i = 0; i < 8; i++) v[i] += before;
    for (int i = 0; i < 2; i++) y[size_t(blockIdx.x) * 512 + threadIdx.x * 2 + i] = reinterpret_cast<int4*>(v)[i];
    if (threadIdx.x == 255) totals[blockIdx.x] = before + sum;
}

// Sort 512 keys of 16 bits to a CTA by splitting at one bit after another.
KERNEL split_sort(const unsigned short* x, unsigned short* y) {
    __shared__ u32 keys[512], zeros[16];
    const int i = threadIdx.x, lane = i % 32, warp = i / 32;
    u32 key = x[size_t(blockIdx.x) * 512 + i];
    for (int bit = 0; bit < 16; bit++) {
        const bool one = key >> bit & 1;
        const u32 ballot = __ballot_sync(~0u, !one);
        if (lane == 0) zeros[warp] = __popc(ballot);
        __syncthreads();
        u32 before = 0, all = 0;
        for (int w = 0; w < 16; w++) {
            if (w < warp) before += zeros[w];
            all += zeros[w];
        }
        before += __popc(ballot & (1u << lane) - 1);
        keys[one ? all + i - before : before] = key;
        __syncthreads();
        key = keys[i];
        __syncthreads();
    }
    y[size_t(blockIdx.x) * 512 + i] = key;
}

// The rank of each of n keys among all: everyone is compared with everyone, 256 at a time.
KERNEL rank_sort(const float* x, float* y, int n) {
    __shared__ float tile[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float mine = x[i];
    int rank = 0;
    for (int first = 0; first < n; first += 256) {
        tile[threadIdx.x] = x[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 256; j++) rank += tile[j] < mine || (tile[j] == mine && first + j < i);
        __syncthreads();
    }
    y[rank] = mine;
}

// Bring the positive elements of every segment of 1,024 to its front.
KERNEL pack_positive(const float* x, float* y, int* counts) {
    __shared__ int part[8];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int done = 0;
    for (int first = 0; first < 1024; first += 256) {
        const float v = x[size_t(blockIdx.x) * 1024 + first + threadIdx.x];
        const u32 ballot = __ballot_sync(~0u, v > 0.0f);
        if (lane == 0) part[warp] = __popc(ballot);
        __syncthreads();
        int before = done;
        for (int w = 0; w < 8; w++) {
            if (w < warp) before += part[w];
            done += part[w];
        }
        if (v > 0.0f) y[size_t(blockIdx.x) * 1024 + before + __popc(ballot & (1u << lane) - 1)] = v;
        __syncthreads();
    }
    if (threadIdx.x == 0) counts[blockIdx.x] = done;
}
