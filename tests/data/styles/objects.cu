// C++ on the device: virtual methods, lambdas, templates, the heap, 128-bit integers, the standard library of libcu++.
#include <cstdio>
#include <cassert>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/complex>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/variant>
#include <cuda/std/utility>
#include <new>

struct Shape {
    float scale;
    __device__ Shape(float s) : scale(s) {}
    __device__ virtual float area(float t) const = 0;
    __device__ virtual int sides() const { return 0; }
    __device__ virtual ~Shape() {}
};
struct Circle : Shape {
    __device__ Circle(float s) : Shape(s) {}
    __device__ float area(float t) const override { return 3.14159274f * scale * scale * t; }
};
struct Square : Shape {
    float tilt;
    __device__ Square(float s) : Shape(s), tilt(s * 0.5f) {}
    __device__ float area(float t) const override { return scale * scale * t + tilt; }
    __device__ int sides() const override { return 4; }
};
struct Hexagon final : Square {
    __device__ Hexagon(float s) : Square(s) {}
    __device__ float area(float t) const override { return Square::area(t) * 2.598f; }
    __device__ int sides() const override { return Square::sides() + 2; }
};

extern "C" __global__ void shapes(const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Shape *s;
    if (i % 3 == 0) s = new Circle(in[i]);
    else if (i % 3 == 1) s = new Square(in[i]);
    else s = new Hexagon(in[i]);
    float total = 0;
    for (int k = 1; k < 4; k++) total += s->area(k) * (s->sides() + 1);
    out[i] = total;
    delete s;
}

typedef int (*Step)(int, int);
__device__ int plus_(int a, int b) { return a + b; }
__device__ int times(int a, int b) { return a * b; }
__device__ __noinline__ int mixed(int a, int b) { return __funnelshift_l(a, b, b & 31); }
__constant__ Step steps[3] = {plus_, times, mixed};

extern "C" __global__ void table(const int *in, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
    for (int k = 0; k < 6; k++) v = steps[(v >> k) % 3 < 0 ? 0 : (v >> k) % 3](v, in[(i + k) % 256]);
    out[i] = v;
}

extern "C" __global__ void wide_integers(const long long *in, long long *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __int128 a = (__int128)in[i] * in[i + 1] + in[i + 2];
    unsigned __int128 b = ((unsigned __int128)(unsigned long long)in[i + 3] << 40) | 12345;
    __int128 q = a / (__int128)(b | 1), r = a % (__int128)(in[i + 1] | 1);
    a = (a << (in[i] & 63)) ^ (__int128)(b >> 7);
    out[i * 4] = (long long)(a >> 64), out[i * 4 + 1] = (long long)a, out[i * 4 + 2] = (long long)q ^ (long long)(q >> 64), out[i * 4 + 3] = (long long)r;
}

struct Packed {
    unsigned a : 5, b : 11;
    int c : 9;
    unsigned d : 7;
};

extern "C" __global__ void bit_fields(const unsigned *in, unsigned *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    union {
        Packed p;
        unsigned u;
    } x;
    x.u = in[i];
    x.p.c -= x.p.b;
    x.p.a ^= x.p.d;
    x.p.b += cuda::std::popcount(in[i]) + cuda::std::countl_zero(in[i] | 1);
    out[i] = x.u ^ cuda::std::rotl(in[i], 13);
}

template <int N, class F> __device__ __forceinline__ void unrolled(F &&f) {
    if constexpr (N > 0) {
        unrolled<N - 1>(f);
        f(N - 1);
    }
}

extern "C" __global__ void standard(const float *in, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    cuda::std::array<float, 8> a;
    unrolled<8>([&](int k) { a[k] = in[(i + k * k) % 256]; });
    cuda::std::complex<float> z(a[0], a[1]), w(a[2], a[3]);
    z = z * w + cuda::std::conj(w);
    cuda::std::optional<float> best;
    for (float v : cuda::std::span<float, 8>(a))
        if (!best || v > *best) best = v;
    auto t = cuda::std::make_tuple(a[4], i, best.value_or(-1.0f));
    cuda::std::variant<int, float> v = i % 2 ? cuda::std::variant<int, float>(i) : cuda::std::variant<int, float>(a[5]);
    float picked = cuda::std::visit([](auto x) { return (float)x * 2.0f; }, v);
    cuda::std::swap(a[6], a[7]);
    out[i * 4] = z.real(), out[i * 4 + 1] = z.imag(), out[i * 4 + 2] = cuda::std::get<0>(t) + cuda::std::get<2>(t), out[i * 4 + 3] = picked + a[6];
}

struct List {
    int value;
    List *next;
};

extern "C" __global__ void lists(const int *in, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    List *head = nullptr;
    for (int k = 0; k < in[i] % 6 + 1; k++) head = new List{in[(i + k) % 128] + k, head};
    int hash = 17;
    while (head) {
        hash = hash * 31 + head->value;
        List *gone = head;
        head = head->next;
        delete gone;
    }
    int *more = (int *)malloc(16 * (in[i] % 3 + 1));
    assert(more != nullptr);
    memset(more, i, 16 * (in[i] % 3 + 1));
    hash ^= more[3];
    free(more);
    out[i] = hash;
}

__device__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }

extern "C" __global__ void recursive(int *out) { out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x % 7); }

extern "C" __global__ void told(const float *in, int *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 2) out[i] = printf("%d %.3f %s %c %llx %5d|%-5u|%e %%\n", i, in[i], "text", 'x', 0x123456789abcull + i, -i, 7u, in[i]);
    else out[i] = i;
}

struct Big {
    double v[9];
    int n;
    char tag[3];
};
__device__ __noinline__ Big grown(Big b, int by) {
    for (int i = 0; i < 9; i++) b.v[i] += by * i;
    b.n += by;
    b.tag[by % 3] = 'a' + by;
    return b;
}

extern "C" __global__ void structures(Big *out) {
    Big b{{1, 2, 3, 4, 5, 6, 7, 8, 9}, (int)threadIdx.x, {'x', 'y', 'z'}};
    for (int k = 0; k < 3; k++) b = grown(b, k + threadIdx.x % 4);
    out[blockIdx.x * blockDim.x + threadIdx.x].n = b.n + b.tag[0] * 1000 + b.tag[1];
    for (int i = 0; i < 9; i++) out[blockIdx.x * blockDim.x + threadIdx.x].v[i] = b.v[i];
}
