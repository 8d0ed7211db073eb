"""Atomic operations on memory: subnormal numbers, NaNs, signed zeros and the ends of ranges, in global and in shared memory.

Every thread has a location of its own (or a vector of them): it stores x there, combines it with y, and notes what was
there before and what is there after. The input is all x, all y, and for ``cas`` all new values; the output all results,
then all old values (zeros where a ``red`` gives none).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpu_ref.tensor.draw import Draw, Words
from gpu_ref.tensor.float_inputs import FORMATS, special_values
from gpu_ref.tensor.probes import Probe, kernel

__all__ = ["ATOMIC_PROBES"]

_ELEMENTS = 768
_BLOCK = 32


@dataclass(frozen=True)
class _Atomic:
    """``instruction`` is ``atom`` or ``red``. ``space`` is ``global`` or ``shared``; with ``generic`` the address is
    generic."""

    instruction: str
    space: str
    op: str
    kind: str
    vector: int = 1
    generic: bool = False

    @property
    def bits(self) -> int:
        return 32 if self.kind.endswith("x2") else int("".join(x for x in self.kind if x.isdigit()))

    @property
    def opcode(self) -> str:
        half = self.kind in ("f16", "f16x2", "bf16", "bf16x2")
        vector = f".v{self.vector}" if self.vector > 1 else ""
        space = "" if self.generic else f".{self.space}"
        return f"{self.instruction}{space}.{self.op}{'.noftz' if half else ''}{vector}.{self.kind}"


def _ptx(atomic: _Atomic) -> str:
    size, vector = atomic.bits // 8, atomic.vector
    registers = {16: "%h", 32: "%r", 64: "%rd"}[atomic.bits]
    operands = 3 if atomic.op == "cas" else 2
    x, y, z, old = ([f"{registers}{group * 10 + i}" for i in range(vector)] for group in (2, 3, 4, 5))
    total = _ELEMENTS * size
    body = [f"mul.wide.u32 %rd90, %index, {size * vector};", "add.u64 %rd91, %in, %rd90;", "add.u64 %rd92, %out, %rd90;"]
    for group, names in enumerate((x, y, z)[:operands]):
        body += [f"ld.global.b{atomic.bits} {name}, [%rd91+{group * total + i * size}];" for i, name in enumerate(names)]
    slot, declarations = "%rd92", ""
    if atomic.space == "shared":
        declarations = f".shared .align 16 .b8 slots[{_BLOCK * size * vector}];"
        body += ["mov.u64 %rd93, slots;", f"mad.wide.u32 %rd93, %thread, {size * vector}, %rd93;"]
        slot = "%rd93"
    body += [f"st.{atomic.space}.b{atomic.bits} [{slot}+{i * size}], {name};" for i, name in enumerate(x)]
    address = slot
    if atomic.generic:
        body.append(f"cvta.{atomic.space}.u64 %rd94, {slot};")
        address = "%rd94"
    values = [", ".join(names) if vector == 1 else "{" + ", ".join(names) + "}" for names in (old, y, z)]
    result = f"{values[0]}, " if atomic.instruction == "atom" else ""
    last = f", {values[2]}" if atomic.op == "cas" else ""
    body.append(f"{atomic.opcode} {result}[{address}], {values[1]}{last};")
    if atomic.instruction == "atom":
        body += [f"st.global.b{atomic.bits} [%rd92+{total + i * size}], {name};" for i, name in enumerate(old)]
    if atomic.space == "shared":
        for i, name in enumerate(x):
            body += [f"ld.shared.b{atomic.bits} {name}, [{slot}+{i * size}];"]
            body += [f"st.global.b{atomic.bits} [%rd92+{i * size}], {name};"]
    return kernel(body, _BLOCK, declarations)


def _float_pairs(draw: Draw, kind: str, count: int) -> tuple[Words, Words]:
    """Every pair of special values as far as there is room for them, then numbers that nearly cancel into subnormals, and
    others."""
    f = FORMATS[kind]
    special = special_values(f)
    x, y = (v.reshape(-1) for v in np.meshgrid(special, special))
    order = np.argsort(draw.words(len(x)), kind="stable")
    rest = max(count // 4, count - len(x))
    x, y = x[order][: count - rest], y[order][: count - rest]
    sign, hidden = np.uint64(1 << (f.bits - 1)), f.fraction_bits
    raw = draw.words(rest) >> np.uint64(64 - f.bits)
    small = raw & np.uint64((8 << hidden) - 1) | raw & sign
    near = small ^ sign ^ draw.below(1 << min(hidden, 4), rest).astype(np.uint64)
    other = draw.words(rest) >> np.uint64(64 - f.bits)
    cancels = draw.chance(10, rest)
    return np.append(x, np.where(cancels, small, raw)), np.append(y, np.where(cancels, near, other))


def _integers(draw: Draw, bits: int, count: int) -> Words:
    """The ends of the signed and unsigned ranges, small numbers, and any."""
    ends = np.array([0, 1, 2, (1 << bits) - 1, (1 << bits) - 2, 1 << (bits - 1), (1 << (bits - 1)) - 1], np.uint64)
    raw = draw.words(count) >> np.uint64(64 - bits)
    return np.where(draw.chance(10, count), draw.pick(ends, count), raw).astype(np.uint64)


def _data(atomic: _Atomic) -> Words:
    """The elements, in order: x, y, and for ``cas`` new values."""
    draw = Draw("atomic", atomic.op, atomic.kind)
    if atomic.kind.endswith("x2"):
        low = _float_pairs(draw, atomic.kind[:-2], _ELEMENTS)
        high = _float_pairs(draw, atomic.kind[:-2], _ELEMENTS)
        return np.concatenate([a | b << np.uint64(16) for a, b in zip(low, high, strict=True)])
    if atomic.kind in FORMATS:
        return np.concatenate(_float_pairs(draw, atomic.kind, _ELEMENTS))
    x, y, z = (_integers(draw, atomic.bits, _ELEMENTS) for _ in range(3))
    if atomic.op == "cas":
        return np.concatenate([x, np.where(draw.chance(8, _ELEMENTS), x, y), z])
    return np.concatenate([x, y])


def _atomics() -> list[_Atomic]:
    """Floating-point additions in both spaces, with and without result; of the others, each on global memory and some on
    shared."""
    found = []
    for space in ("global", "shared"):
        for generic in (False, True):
            found += [_Atomic(i, space, "add", "f32", generic=generic) for i in ("atom", "red")]
        found += [_Atomic("atom", space, "add", kind) for kind in ("f64", "f16", "f16x2", "bf16", "bf16x2")]
        found += [_Atomic("atom", space, op, kind) for op in ("min", "max") for kind in ("u32", "s32", "u64", "s64")]
        found += [_Atomic("atom", space, op, "u32") for op in ("inc", "dec")]
        found += [_Atomic("atom", space, "cas", kind) for kind in ("b16", "b32", "b64")]
    found += [_Atomic("red", "global", "add", kind) for kind in ("f64", "f16x2", "bf16x2")]
    found += [_Atomic("atom", "global", "add", kind) for kind in ("u32", "s32", "u64")]
    found += [_Atomic("atom", "global", op, kind) for op in ("and", "or", "xor", "exch") for kind in ("b32", "b64")]
    for op, kind, vector in (
        ("add", "f32", 2), ("add", "f32", 4), ("add", "f16", 8), ("add", "f16x2", 4), ("add", "bf16", 4), ("add", "bf16x2", 2),
        ("min", "f16", 4), ("max", "f16", 8), ("min", "f16x2", 2), ("max", "f16x2", 4), ("min", "bf16", 8), ("max", "bf16", 2),
        ("min", "bf16x2", 4), ("max", "bf16x2", 2),
    ):  # fmt: skip
        found.append(_Atomic("atom", "global", op, kind, vector))
    return [*found, _Atomic("red", "global", "add", "f32", 4)]


def _probe(atomic: _Atomic) -> Probe:
    where = f" ({atomic.space})" if atomic.generic else ""
    words = 2 * _ELEMENTS * atomic.bits // 32
    data = _data(atomic).astype(f"u{atomic.bits // 8}")
    grid = _ELEMENTS // atomic.vector // _BLOCK
    return Probe(atomic.opcode + where, _ptx(atomic), grid, _BLOCK, data, words)


ATOMIC_PROBES = tuple(_probe(atomic) for atomic in _atomics())
