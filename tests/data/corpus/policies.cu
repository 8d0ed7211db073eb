// Cache hints as hand-tuned kernels give them.
extern "C" __global__ void hinted(const float *x, float *y, unsigned *histogram, int n) {
    unsigned long long once, often;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    asm("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(often));
    for (int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x); i < n; i += 4 * gridDim.x * blockDim.x) {
        float a, b, c, d;
        asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                     : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
                     : "l"(x + i), "l"(once));
        asm volatile("st.global.L1::no_allocate.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(y + i), "f"(b),
                     "f"(a), "f"(d), "f"(c), "l"(once)
                     : "memory");
        unsigned bin = __float_as_uint(a * b + c * d) >> 24;
        asm volatile("red.relaxed.gpu.global.add.L2::cache_hint.u32 [%0], 1, %1;" ::"l"(histogram + bin), "l"(often) : "memory");
        asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(histogram + bin));
    }
}
