// Scans, compaction, sorting and searching.
typedef unsigned u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void

__device__ u32 warp_scan(u32 x) {
    for (int d = 1; d < 32; d *= 2) {
        const u32 y = __shfl_up_sync(~0u, x, d);
        if (threadIdx.x % 32 >= d) x += y;
    }
    return x;
}

// Inclusive sum over a CTA of up to 32 warps; `all` becomes the CTA's sum.
__device__ u32 cta_scan(u32 x, u32* part, u32& all) {
    const u32 inside = warp_scan(x), warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 31) part[threadIdx.x / 32] = inside;
    __syncthreads();
    if (threadIdx.x < 32) {
        const u32 sum = warp_scan(threadIdx.x < warps ? part[threadIdx.x] : 0);
        __syncwarp();
        if (threadIdx.x < warps) part[threadIdx.x] = sum;
    }
    __syncthreads();
    const u32 before = threadIdx.x >= 32 ? part[threadIdx.x / 32 - 1] : 0;
    all = part[warps - 1];
    return inside + before;
}

// Prefix sums of the whole array in one launch: CTAs take tickets, publish their sums and look back at their predecessors'.
KERNEL scan_lookback(const uint4* x, uint4* y, u32* ticket, volatile u64* states) {
    __shared__ u32 part[32], mine, before;
    if (threadIdx.x == 0) mine = atomicAdd(ticket, 1u);
    __syncthreads();
    const u32 tile = mine, at = tile * blockDim.x + threadIdx.x;
    uint4 v = x[at];
    v.y += v.x, v.z += v.y, v.w += v.z;
    u32 all;
    const u32 sum = cta_scan(v.w, part, all) - v.w;
    if (threadIdx.x == 0) {
        states[tile] = u64(tile ? 1 : 2) << 32 | all;
        u32 total = 0;
        for (int p = int(tile) - 1; p >= 0;) {
            const u64 state = states[p];
            if (!(state >> 32)) continue;
            total += u32(state);
            if (state >> 32 == 2) break;
            p--;
        }
        if (tile) states[tile] = u64(2) << 32 | (total + all);
        before = total;
    }
    __syncthreads();
    const u32 base = sum + before;
    y[at] = make_uint4(v.x + base, v.y + base, v.z + base, v.w + base);
}

// Keep the odd numbers: ranks by ballots, one atomic a CTA; the order of CTAs is free, so only the count is a result.
KERNEL compact_odd(const u32* x, u32* kept, u32* count, int n) {
    __shared__ u32 warps[32], base;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 v = i < n ? x[i] : 0, votes = __ballot_sync(~0u, v & 1), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) warps[warp] = __popc(votes);
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 sum = 0;
        for (int w = 0; w < blockDim.x / 32; w++) {
            const u32 c = warps[w];
            warps[w] = sum;
            sum += c;
        }
        base = atomicAdd(count, sum);
    }
    __syncthreads();
    if (v & 1) kept[base + warps[warp] + __popc(votes & ((1u << lane) - 1))] = v;
}

// Each CTA sorts 1024 pairs by key.
KERNEL sort_pairs(u32* keys, u32* values) {
    __shared__ u32 k[1024], v[1024];
    const u32 t = threadIdx.x, base = blockIdx.x * 1024;
    for (u32 i = t; i < 1024; i += blockDim.x) k[i] = keys[base + i], v[i] = values[base + i];
    for (u32 size = 2; size <= 1024; size *= 2)
        for (u32 d = size / 2; d; d /= 2) {
            __syncthreads();
            const u32 i = 2 * t - (t & (d - 1)), j = i + d, a = k[i], b = k[j];
            if ((a > b) == !(i & size)) {
                const u32 p = v[i];
                k[i] = b, k[j] = a, v[i] = v[j], v[j] = p;
            }
        }
    __syncthreads();
    for (u32 i = t; i < 1024; i += blockDim.x) keys[base + i] = k[i], values[base + i] = v[i];
}

// One pass of a radix sort inside each CTA: 4-bit digits, a private row of counters for each thread, 16 x 256 in shared memory.
KERNEL radix_pass(const u32* x, u32* y, u32* totals, int shift) {
    __shared__ unsigned short counts[16][256];
    __shared__ u32 part[32];
    const u32 t = threadIdx.x, base = blockIdx.x * 2048 + t * 8;
    u32 v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = x[base + i];
#pragma unroll
    for (int d = 0; d < 16; d++) counts[d][t] = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) counts[v[i] >> shift & 15][t]++;
    __syncthreads();
    u32 sum = 0, local[16], all;
    for (int i = 0; i < 16; i++) local[i] = sum, sum += (&counts[0][0])[t * 16 + i];
    const u32 before = cta_scan(sum, part, all) - sum;
    for (int i = 0; i < 16; i++) (&counts[0][0])[t * 16 + i] = local[i] + before;
    __syncthreads();
    if (t < 16) totals[blockIdx.x * 16 + t] = counts[t][0];
#pragma unroll
    for (int i = 0; i < 8; i++) y[blockIdx.x * 2048 + counts[v[i] >> shift & 15][t]++] = v[i];
}

// Where each key would stand in a sorted table.
KERNEL lower_bound(const u32* table, const u32* keys, u32* places, int size, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const u32 key = keys[i];
    int low = 0, high = size;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (table[middle] < key) low = middle + 1;
        else high = middle;
    }
    places[i] = low;
}

// Merge two sorted lists of n each: every thread finds its diagonal and merges eight outputs.
KERNEL merge_path(const u32* a, const u32* b, u32* out, int n) {
    const int diagonal = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    int low = max(0, diagonal - n), high = min(diagonal, n);
    while (low < high) {
        const int i = (low + high) / 2;
        if (a[i] <= b[diagonal - 1 - i]) low = i + 1;
        else high = i;
    }
    int i = low, j = diagonal - low;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const bool first = j >= n || (i < n && a[i] <= b[j]);
        out[diagonal + k] = first ? a[i++] : b[j++];
    }
}
