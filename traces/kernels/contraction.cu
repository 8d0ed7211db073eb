// Multiplications and additions without a rounding modifier. PTX lets the assembler fuse an unrounded mul and add into one
// fma, which rounds once instead of twice and so changes bits. nvcc fuses before it writes PTX and marks what it leaves with
// .rn, so this kernel writes plain mul and add itself, in the shapes that decide whether ptxas fuses.

#include "ptx.cuh"

DEVICE float mul(float a, float b) {
    float d;
    asm("mul.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
DEVICE float add(float a, float b) {
    float d;
    asm("add.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
DEVICE float sub(float a, float b) {
    float d;
    asm("sub.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
DEVICE float add_rn(float a, float b) {
    float d;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
DEVICE float mul_ftz(float a, float b) {
    float d;
    asm("mul.ftz.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
DEVICE float add_sat(float a, float b) {
    float d;
    asm("add.sat.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
DEVICE double mul64(double a, double b) {
    double d;
    asm("mul.f64 %0, %1, %2;" : "=d"(d) : "d"(a), "d"(b));
    return d;
}
DEVICE double add64(double a, double b) {
    double d;
    asm("add.f64 %0, %1, %2;" : "=d"(d) : "d"(a), "d"(b));
    return d;
}

constexpr int RESULTS = 18;

// Result j of thread i is out[j * n + i].
extern "C" __global__ void contraction(const float* __restrict__ xs, const float* __restrict__ ys,
                                       const float* __restrict__ zs, float* out, int n, float parameter) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = xs[i], y = ys[i], z = zs[i];
    float result[RESULTS];

    result[0] = add(mul(x, y), z);                    // one use: fused
    result[1] = sub(z, mul(x, y));                    // fused with the product negated
    result[2] = add_rn(mul(x, z), y);                 // the add insists on its rounding: not fused
    result[3] = add(mul_ftz(x, y), z);                // .ftz differs: not fused
    result[4] = add_sat(mul(y, z), x);                // saturation survives
    result[5] = add(mul(x, y), mul(y, z));            // two products: the first operand fuses

    float stored = mul(x, z);                         // a product that is also stored: not fused
    result[6] = stored;
    result[7] = add(stored, y);
    float twice = mul(y, y);                          // two uses, both additions: both fused
    result[8] = add(twice, x);
    result[9] = sub(twice, z);
    float bounded = mul(x, x);                        // a use that is no addition: not fused
    result[10] = add(bounded, z);
    result[11] = fmaxf(bounded, y);

    result[12] = sub(mul(x, z), mul(y, parameter));   // complex-like product
    float in_entry = mul(x, y), scaled = mul(x, parameter), tripled = mul(y, 3.0f);
    result[13] = result[14] = result[15] = 0.0f;
    if (z > 0.25f) {                                  // another block: only products by a parameter or constant fuse
        __threadfence_block();
        result[13] = add(in_entry, z);
        result[14] = add(scaled, z);
        result[15] = add(tripled, z);
    }
    result[16] = add(mul(mul(x, y), 0.5f), z);
    double wide = add64(mul64(x, 1.0 / 3.0), mul64(y, z));
    result[17] = (float)(wide - (double)x / 3.0);

    for (int j = 0; j < RESULTS; ++j) out[j * n + i] = result[j];
}
