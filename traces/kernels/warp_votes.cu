// What the lanes of a warp can ask each other: match, vote, ballot and redux, also in half of a diverged warp.
// Every thread writes RESULTS words; word j of thread i is out[j * n + i].

constexpr int RESULTS = 14;
constexpr unsigned ALL_LANES = 0xffffffffu;

extern "C" __global__ void warp_votes(const int* __restrict__ x, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = x[i];
    int lane = threadIdx.x % 32;
    unsigned result[RESULTS];

    result[0] = __match_any_sync(ALL_LANES, value);                         // the lanes that hold my value
    result[1] = __match_any_sync(ALL_LANES, (long long)value << 33);        // the same with 64 bits
    int all_equal;
    unsigned mask = __match_all_sync(ALL_LANES, value, &all_equal);         // all lanes or none
    result[2] = mask + all_equal;
    result[3] = __ballot_sync(ALL_LANES, value > 0);
    result[4] = __all_sync(ALL_LANES, value < 7) * 2 + __any_sync(ALL_LANES, value < -7);

    result[5] = __reduce_add_sync(ALL_LANES, value);
    result[6] = __reduce_min_sync(ALL_LANES, value);                        // signed
    result[7] = __reduce_max_sync(ALL_LANES, (unsigned)value);              // unsigned
    result[8] = __reduce_and_sync(ALL_LANES, value | 0xff00);
    result[9] = __reduce_or_sync(ALL_LANES, 1u << (value & 31));
    result[10] = __reduce_xor_sync(ALL_LANES, value * 2654435761u);

    // The odd and the even lanes part and vote among themselves. The mask names those who take part.
    if (lane % 2) {
        result[11] = __ballot_sync(0xaaaaaaaau, value % 2);
        result[12] = __reduce_add_sync(0xaaaaaaaau, lane);
    } else {
        result[11] = __popc(__ballot_sync(0x55555555u, value % 3 == 0));
        result[12] = __match_any_sync(0x55555555u, value);
    }
    __syncwarp();
    // A different partition: each group of lanes with equal values elects its first lane and takes that lane's index.
    int leader = __ffs(result[0]) - 1;
    result[13] = __shfl_sync(result[0], i, leader);

    for (int j = 0; j < RESULTS; ++j) out[j * n + i] = result[j];
}
