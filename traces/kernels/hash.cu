// Integer work of many kinds: xorshift, multiply-mix hashing, 64-bit products, rotations, byte permutes and bit counts.

typedef unsigned long long u64;

__device__ __forceinline__ unsigned mix32(unsigned h) {  // the finaliser of MurmurHash3
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

__device__ __forceinline__ u64 xorshift64(u64 state) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^ state << 17;
}

extern "C" __global__ void hash_rounds(const unsigned* __restrict__ x, unsigned* out, u64* out64, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = x[i];
    u64 state = ((u64)h << 32 | mix32(h)) | 1;
    for (int round = 0; round < rounds; ++round) {
        state = xorshift64(state) * 0x2545f4914f6cdd1dull;
        unsigned low = (unsigned)state, high = (unsigned)(state >> 32);
        h = __funnelshift_l(h, high, low & 31) + mix32(low);
        h ^= __umulhi(h, high) + __byte_perm(low, high, 0x6172);
        h += __popc(low) * __clz(high | 1) - __brev(h) / 7;
        h = __dp4a((int)h, (int)low, (int)(h % 1000));
        state += __umul64hi(state, h | 0xffff00000000ull);
        if (h & 0x100) h = max((int)h, (int)low) - __sad((int)low, (int)high, 5u);
    }
    out[i] = h;
    out64[i] = state / (h % 97 + 1) + state % (u64)(i % 8 + 3);
}
