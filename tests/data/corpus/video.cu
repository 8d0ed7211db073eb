// A Smith-Waterman cell as bioinformatics codes write it: packed bytes and halves, maxima, saturation.
__device__ unsigned vmax4s(unsigned a, unsigned b) { unsigned r; asm("vmax4.s32.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0)); return r; }
__device__ unsigned vadd4s(unsigned a, unsigned b) { unsigned r; asm("vadd4.s32.s32.s32.sat %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0)); return r; }
__device__ unsigned vsub4s(unsigned a, unsigned b) { unsigned r; asm("vsub4.s32.s32.s32.sat %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0)); return r; }
__device__ unsigned veq4(unsigned a, unsigned b) { unsigned r; asm("vset4.u32.u32.eq %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0)); return r; }

extern "C" __global__ void align(const unsigned *query, const unsigned *target, unsigned *best, int length) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = 0, e = 0, f = 0, most = 0, row[16] = {0};
    for (int i = 0; i < length; i++) {
        unsigned q = query[t * length + i] & 0x03030303u, diagonal = 0;
        h = 0;
        f = 0;
        for (int j = 0; j < 16; j++) {
            unsigned same = veq4(q, target[j] & 0x03030303u) * 7u, score = vsub4s(same, 0x03030303u);
            unsigned above = row[j];
            h = vmax4s(vmax4s(vadd4s(diagonal, score), e), vmax4s(f, 0));
            e = vmax4s(vsub4s(e, 0x01010101u), vsub4s(h, 0x05050505u));
            f = vmax4s(vsub4s(f, 0x01010101u), vsub4s(h, 0x05050505u));
            diagonal = above;
            row[j] = h;
            most = vmax4s(most, h);
        }
    }
    best[t] = most;
}
