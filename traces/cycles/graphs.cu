// Sparse matrices, tables and graphs: what atomics and gathers are for.
typedef unsigned u32;

#define KERNEL extern "C" __global__ void

// y += A x of a matrix in coordinate form, an atomic to each nonzero.
KERNEL spmv_coo(const u32* rows, const u32* columns, const float* values, const float* x, float* y, int nonzeros) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < nonzeros) atomicAdd(&y[rows[i]], values[i] * x[columns[i]]);
}

// y = A x of a matrix with rows of different lengths, `pitch` apart, eight lanes to a row.
KERNEL spmv_rows(const int* lengths, const u32* columns, const float* values, const float* x, float* y, int pitch, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
    float sum = 0;
    if (row < rows)
        for (int i = lane; i < lengths[row]; i += 8) sum += values[row * pitch + i] * x[columns[row * pitch + i]];
    for (int m = 4; m; m >>= 1) sum += __shfl_xor_sync(~0u, sum, m);
    if (row < rows && lane == 0) y[row] = sum;
}

// Sums of `bag` rows of a table of 128 floats, a warp to each bag.
KERNEL embedding_bag(const float4* table, const u32* ids, float4* out, int bag) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int i = 0; i < bag; i++) {
        const float4 v = table[size_t(ids[row * bag + i]) * 32 + lane];
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    out[size_t(row) * 32 + lane] = sum;
}

// Gradient of a table: atomics on the rows that were looked up.
KERNEL embedding_grad(const float* grads, const u32* ids, float* table) {
    const u32 row = ids[blockIdx.x];
    for (int i = threadIdx.x; i < 128; i += blockDim.x) atomicAdd(&table[size_t(row) * 128 + i], grads[blockIdx.x * 128 + i]);
}

// Count distinct keys in an open hash table.
KERNEL hash_insert(const u32* keys, u32* table, u32 mask, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const u32 key = keys[i] | 1;
    for (u32 slot = key * 2654435761u >> 7 & mask;; slot = (slot + 1) & mask) {
        const u32 found = atomicCAS(&table[slot], 0u, key);
        if (found == 0 || found == key) break;
    }
}

// One step of a breadth-first search: a thread to each vertex of the frontier.
KERNEL bfs_step(const int* degrees, const u32* targets, int* levels, u32* changed, int level, int pitch, int vertices) {
    const int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vertices || levels[v] != level) return;
    for (int i = 0; i < degrees[v]; i++)
        if (atomicCAS(&levels[targets[v * pitch + i]], -1, level + 1) == -1) *changed = 1;
}

// Bins of a byte image: counters of each warp in shared memory.
KERNEL warp_histogram(const u32* x, u32* counts, int n) {
    __shared__ u32 bins[8][64];
    for (int i = threadIdx.x; i < 512; i += blockDim.x) (&bins[0][0])[i] = 0;
    __syncthreads();
    u32* own = bins[threadIdx.x / 32];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const u32 v = x[i];
        for (int b = 0; b < 32; b += 8) atomicAdd(&own[v >> b & 63], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        u32 sum = 0;
        for (int w = 0; w < 8; w++) sum += bins[w][threadIdx.x];
        atomicAdd(&counts[threadIdx.x], sum);
    }
}

// The largest of all by one atomic a warp.
KERNEL global_max(const int* x, int* out, int n) {
    int best = -2147483647;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) best = max(best, x[i]);
    best = __reduce_max_sync(~0u, best);
    if (threadIdx.x % 32 == 0) atomicMax(out, best);
}
