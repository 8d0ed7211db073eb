"""The kernels of Triton's tutorials in our own words, and small ones for arguments of every kind.

Imported where Triton is known to be there: its compiler reads these sources.
"""

# Triton evaluates annotations of kernels itself, so they must not become strings here.

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


@triton.jit
def softmax_rows(out, x, row_stride, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = x + tl.program_id(0) * row_stride
    values = tl.load(row + at, at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + tl.program_id(0) * columns + at, powers / tl.sum(powers, 0), at < columns)


CONFIGS = [
    triton.Config({"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 16}, num_warps=1, num_stages=2),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}, num_warps=4, num_stages=3),
]


@triton.autotune(CONFIGS, key=["m", "n", "k"])
@triton.jit
def matmul(a, b, c, m, n, k, lda, ldb, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        left = k - start
        x = tl.load(a + rows[:, None] * lda + start + inner, (rows[:, None] < m) & (inner[None, :] < left), other=0)
        y = tl.load(b + (start + inner[:, None]) * ldb + columns, (inner[:, None] < left) & (columns[None, :] < n), other=0)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * n + columns, total.to(tl.float16), (rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def layer_norm(x, weight, bias, out, mean, rstd, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < n
    values = tl.load(x + row * n + at, inside, other=0.0)
    average = tl.sum(values, 0) / n
    centred = tl.where(inside, values - average, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, scale)
    tl.store(out + row * n + at, centred * scale * tl.load(weight + at, inside) + tl.load(bias + at, inside), inside)


@triton.jit
def dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, at < n)
    tl.store(out + at, tl.where(tl.rand(seed, at) > p, values * 2, 0.0), at < n)


@triton.jit
def attention(q, k, v, out, scale, length, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, WIDTH: tl.constexpr):
    """Causal attention of one head per program in y, with the running maximum and sum of "online" softmax."""
    base = tl.program_id(1) * length * WIDTH
    rows, width = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, WIDTH)
    query = tl.load(q + base + rows[:, None] * WIDTH + width)
    largest = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    result = tl.zeros((BLOCK_Q, WIDTH), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK_Q, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        scores = tl.dot(query, tl.load(k + base + keys[None, :] * WIDTH + width[:, None])) * scale
        scores = tl.where(rows[:, None] >= keys[None, :], scores, -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp(scores - larger[:, None])
        fade = tl.exp(largest - larger)
        total = total * fade + tl.sum(weights, 1)
        value = tl.load(v + base + keys[:, None] * WIDTH + width)
        result = tl.dot(weights.to(tl.float16), value, result * fade[:, None])
        largest = larger
    tl.store(out + base + rows[:, None] * WIDTH + width, (result / total[:, None]).to(tl.float16))


@triton.jit
def grouped_scale(pointers, sizes, factor, BLOCK: tl.constexpr):
    """Multiplies several buffers, whose addresses are in a table, in place."""
    group, at = tl.program_id(0), tl.arange(0, BLOCK)
    buffer = tl.load(pointers + group).to(tl.pointer_type(tl.float32))
    inside = at < tl.load(sizes + group)
    tl.store(buffer + at, tl.load(buffer + at, inside) * factor, inside)


@triton.jit
def store_scalars(ints, floats, pair, flag, missing, wide: tl.int64, half: tl.float16, brain: tl.bfloat16, double: tl.float64):
    tl.store(ints, pair[0])
    tl.store(ints + 1, pair[1].to(tl.int64))
    tl.store(ints + 2, flag.to(tl.int64))
    tl.store(ints + 3, wide)
    tl.store(floats, half.to(tl.float64))
    tl.store(floats + 1, brain.to(tl.float64))
    tl.store(floats + 2, double)
    if missing is not None:
        tl.store(missing, 1)


@triton.jit
def write_ones(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)


@triton.jit
def complement(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inverted = tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [tl.load(x + at)], tl.int32, is_pure=True, pack=1)
    tl.debug_barrier()
    tl.store(out + at, inverted)
