"""The constant caches of an SM: one for operands of instructions, one for LDC, and behind both lines that come from the L2 or
from memory.

The lines of the bank of the parameters are there when a kernel starts, but not its blocks: on an H200 warps stall for imc_miss
for 43 cycles with operands in one block of 64 bytes and for 87 with operands in two, of the launch's extents and the arguments.
Blocks used least recently make room for others; lines stay, as all 64 KiB of constants do on hardware.
"""

from __future__ import annotations

import numpy as np

from isa.compiled import compiled
from isa.kernels.planes import as_i64
from isa.program import Program
from tcsim.arch.timing_spec import ConstantCache
from tcsim.timing.arrays import ArrayTable, row
from tcsim.timing.units import cycles_of_ns

__all__ = ["BLOCK_BYTES", "fixed_constants", "indexed_constants", "operand_constants", "parameters_end", "put_constant_caches"]

CONSTANT_COSTS, OPERANDS, INDEXED, LINES = 29, 30, 31, 32
"""Numbers of arrays in the table of the memories (:mod:`tcsim.timing.hierarchy`). LINES [sm, line]: when it is there, -1 if it
is not. OPERANDS, INDEXED: rows for each SM as :func:`_block` has them."""

# Columns of CONSTANT_COSTS: blocks of 64 bytes that the program has, of each cache, of a line; the rest in cycles.
BLOCKS, OPERAND_BLOCKS, INDEXED_BLOCKS, LINE_BLOCKS, OPERAND_MISS, INDEXED_MISS, LINE_MISS, WAY = range(8)
BLOCK_BYTES = 64


def put_constant_caches(
    table: ArrayTable, spec: ConstantCache, sm_hz: int, sms: int, size: int, parameters: int, shared_ns: float = 0.0
) -> None:
    """Empty caches for ``sms`` SMs and a program with ``size`` bytes of constants. The lines of the first bank, whose
    parameters end at ``parameters``, are there. A miss takes ``shared_ns`` longer because other SMs have it, too."""
    blocks, each = size // BLOCK_BYTES + 1, spec.line_bytes // BLOCK_BYTES
    shared = cycles_of_ns(shared_ns, sm_hz)
    costs = (
        blocks, spec.operand_bytes // BLOCK_BYTES, spec.indexed_bytes // BLOCK_BYTES, each,
        spec.operand_miss + shared, spec.indexed_miss + shared, cycles_of_ns(spec.line_ns, sm_hz), spec.way,
    )  # fmt: skip
    table.put(CONSTANT_COSTS, np.array([costs], np.int64))
    lines = table.put(LINES, np.full((sms, blocks // each + 1), -1, np.int64))
    lines[:, : -(-parameters // spec.line_bytes)] = 0
    for number in (OPERANDS, INDEXED):
        state = table.put(number, np.zeros((sms, 2 * blocks + 2), np.int64))
        state[:, :blocks] = -1


def parameters_end(program: Program) -> int:
    """Where the bank of the parameters ends in the image of constants, but for what fills it up."""
    return max((each.offset + each.size for each in program.parameters), default=0)


@compiled
def _line(m, sm, block, now):
    """The cycle in which the line of a block is there that is asked for in cycle ``now``."""
    lines, number = row(m, LINES, sm), block // row(m, CONSTANT_COSTS, 0)[LINE_BLOCKS]
    if lines[number] < 0:
        lines[number] = now + row(m, CONSTANT_COSTS, 0)[LINE_MISS]
    return max(lines[number], now)


@compiled
def _block(m, cache, capacity, miss, sm, block, now):
    """The same of a block of a cache, which takes ``capacity`` of them. A row of the cache: when each is there, -1 if it is
    not; then stamps of their last uses, how many are there, and the last stamp."""
    state, blocks = row(m, cache, sm), row(m, CONSTANT_COSTS, 0)[BLOCKS]
    state[2 * blocks + 1] += 1
    state[blocks + block] = state[2 * blocks + 1]
    if state[block] < 0:
        if state[2 * blocks] == capacity:
            oldest = -1
            for other in range(blocks):
                if state[other] >= 0 and (oldest < 0 or state[blocks + other] < state[blocks + oldest]):
                    oldest = other
            state[oldest] = -1
        else:
            state[2 * blocks] += 1
        state[block] = _line(m, sm, block, now) + miss
    return max(state[block], now)


@compiled
def operand_constants(m, sm, block, now):
    """The cycle in which an instruction has its constant operand that is next in cycle ``now``."""
    costs = row(m, CONSTANT_COSTS, 0)
    return _block(m, OPERANDS, costs[OPERAND_BLOCKS], costs[OPERAND_MISS], sm, block, now)


@compiled
def fixed_constants(m, sm, block, now):
    """How much longer than from the cache a load takes that issues in cycle ``now``, from an address that is in the code."""
    costs = row(m, CONSTANT_COSTS, 0)
    return _block(m, INDEXED, costs[INDEXED_BLOCKS], costs[INDEXED_MISS], sm, block, now) - now


@compiled
def indexed_constants(m, sm, words, at, now):
    """An indexed load that issues in cycle ``now``, with the payload at word ``at`` from address ``words`` on: how many
    sectors, of how many different addresses, and which. Addresses are served one after another. Returns how much longer its
    result takes than that of one address in the cache, and how much longer it holds its pipe."""
    costs, words = row(m, CONSTANT_COSTS, 0), as_i64(words)
    further = (words[at + 1] - 1) * costs[WAY]
    there = now
    last = -1
    for index in range(at + 2, at + 2 + words[at]):
        block = words[index] >> 1
        if block != last:
            there = _block(m, INDEXED, costs[INDEXED_BLOCKS], costs[INDEXED_MISS], sm, block, there)
            last = block
    return there - now + further, further
