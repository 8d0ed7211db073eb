// Blocks of memory by bulk copies as libcu++ issues them: cuda::barrier, cuda::memcpy_async, cuda::ptx.
#include <cuda/barrier>
#include <cuda/ptx>

constexpr int COUNT = 512;

// out[i] = x[i] * x[i] + i, block by block: in by memcpy_async, out by cp.async.bulk.
extern "C" __global__ void square_blocks(const int* x, int* out, int blocks) {
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ alignas(16) int data[COUNT];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier barrier;
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    for (int b = blockIdx.x; b < blocks; b += gridDim.x) {
        Barrier::arrival_token token;
        if (threadIdx.x == 0) {
            cuda::memcpy_async(data, x + b * COUNT, cuda::aligned_size_t<16>(sizeof(data)), barrier);
        }
        token = barrier.arrive();
        barrier.wait(std::move(token));
        for (int i = threadIdx.x; i < COUNT; i += blockDim.x) data[i] = data[i] * data[i] + b * COUNT + i;
        cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
        __syncthreads();
        if (threadIdx.x == 0) {
            cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared, out + b * COUNT, data, sizeof(data));
            cuda::ptx::cp_async_bulk_commit_group();
            cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
        }
        __syncthreads();
    }
}
