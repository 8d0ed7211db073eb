"""A kernel for every form of every PTX instruction, to see what machine code ptxas makes of it and what that computes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

import isa.instructions  # noqa: F401  (fills the registry)
from isa.spec import Form, Instruction, ResolvedOperand, all_instructions
from isa.spec.registry import make_form

THREADS = 32
RECORD = 512
"""Bytes that every thread reads, and as many it writes; ``scratch`` has as many per thread, too."""

_REGISTERS = {1: "p", 8: "h", 16: "h", 32: "r", 64: "l"}
_LOADS = {8: "u16", 16: "u16", 32: "u32", 64: "u64"}
_CARRIED = ("addc", "subc", "madc")

HEADER = """.version 8.7
.target {target}
.address_size 64
.const .align 16 .b8 constants[512] = {{ {constants} }};
"""
_ENTRY = """.visible .entry k{number}(.param .u64 in, .param .u64 out, .param .u64 scratch)
{{
.reg .pred p<40>; .reg .b16 h<80>; .reg .b32 r<80>; .reg .b64 l<80>; .reg .b64 a<9>; .reg .b32 s<9>; .reg .b8 c<8>;
.reg .b128 w<40>;
.shared .align 128 .b8 tile[16384];
.local .align 16 .b8 own[64];
ld.param.u64 a0, [in]; ld.param.u64 a1, [out]; ld.param.u64 a2, [scratch]; mov.u32 s0, %tid.x;
cvta.to.global.u64 a0, a0; cvta.to.global.u64 a1, a1; cvta.to.global.u64 a4, a2;
mul.wide.u32 a3, s0, {record}; add.u64 a0, a0, a3; add.u64 a1, a1, a3; add.u64 a5, a2, a3; add.u64 a6, a4, a3;
mov.u32 s1, tile; mul.lo.u32 s2, s0, {shared}; add.u32 s1, s1, s2; mov.u32 s3, tile; mov.u32 s4, own;
"""


def constants() -> bytes:
    """What the ``.const`` array holds."""
    return np.random.default_rng(3).integers(0, 256, 512, dtype=np.uint8).tobytes()


def module(forms: list[Form], target: str) -> str:
    """A module with kernels ``k0``, ``k1``, ...; see :func:`kernel`."""
    header = HEADER.format(target=target, constants=", ".join(str(byte) for byte in constants()))
    return header + "\n".join(kernel(form, number) for number, form in enumerate(forms))


def kernel(form: Form, number: int) -> str:
    """A kernel ``(in, out, scratch)`` of one warp: every thread reads the sources from its record, executes, and writes the
    destinations (and its 64 bytes of shared and of local memory, where the instruction writes there) to its record."""
    entry = form.instruction
    lines, operands, results = list[str](), list[str](), list[tuple[str, int]]()
    at = 0
    count = dict.fromkeys("prhlw", 0)
    shared = any(o.is_address for o in form.operands) and "shared" in form.name
    wide_rows = entry.memory in ("matrix_load", "matrix_store")
    if shared:
        lines += [f"ld.global.u32 r70, [a0+{448 + 4 * i}]; st.shared.u32 [s1+{4 * i}], r70;" for i in range(16)]
    if ".local" in form.name:
        lines += [f"ld.global.u32 r70, [a0+{448 + 4 * i}]; st.local.u32 [own+{4 * i}], r70;" for i in range(16)]
    if shared:
        lines.append("bar.warp.sync -1;")
    for operand in form.operands:
        if operand.name in entry.hidden:
            continue
        if operand.is_address:
            text = f"[{_place(form, operand)}]"
        elif (fixed := _fixed(form, operand)) is not None:
            text = fixed
        else:
            names = []
            letter = _REGISTERS.get(operand.type.bits, "w")
            for _ in range(operand.count):
                name = f"{letter}{count[letter]}"
                count[letter] += 1
                names.append(name)
                if operand.is_destination:
                    results.append((name, operand.type.bits))
                    continue
                size = max(2, operand.type.bits // 8) if letter != "p" else 4
                at = -(-at // size) * size
                if letter == "p":
                    lines.append(f"ld.global.u32 s5, [a0+{at}]; and.b32 s5, s5, 1; setp.ne.u32 {name}, s5, 0;")
                elif letter == "w":
                    lines.append(f"ld.global.b128 {name}, [a0+{at}];")
                else:
                    lines.append(f"ld.global.{_LOADS[operand.type.bits]} {name}, [a0+{at}];")
                at += size
            text = names[0] if operand.count == 1 and not operand.is_vector else "{" + ", ".join(names) + "}"
            if operand.count == 1 and operand.is_vector and entry.memory in ("load", "store", "atomic"):
                text = names[0]
        operands.append(("|" if operand.paired else ", " if operands else " ") + text)
    if entry.pattern.base in _CARRIED:
        lines.append("ld.global.u32 r70, [a0+256]; add.cc.u32 r70, r70, r70;")
    lines.append(f"{form.name}{''.join(operands)};")
    if ".cc." in form.name:
        lines.append("addc.u32 r71, 0, 0;")
        results.append(("r71", 32))
    if entry.memory == "copy":
        lines.append("cp.async.wait_all; bar.warp.sync -1;")
    at = 0
    for name, bits in results:
        size = 4 if bits == 1 else max(2, bits // 8)
        at = -(-at // size) * size
        if bits == 1:
            lines.append(f"selp.u32 r71, 1, 0, {name}; st.global.u32 [a1+{at}], r71;")
        elif bits == 8:
            lines.append(f"cvt.u16.u8 h70, {name}; st.global.u16 [a1+{at}], h70;")
        else:
            lines.append(f"st.global.b{bits} [a1+{at}], {name};")
        at += size
    if shared:
        lines.append("bar.warp.sync -1;")
        lines += [f"ld.shared.u32 r70, [s1+{4 * i}]; st.global.u32 [a1+{384 + 4 * i}], r70;" for i in range(16)]
    if ".local" in form.name:
        lines += [f"ld.local.u32 r70, [own+{4 * i}]; st.global.u32 [a1+{448 + 4 * i}], r70;" for i in range(16)]
    start = _ENTRY.format(number=number, record=RECORD, shared=16 if wide_rows else 64)
    return start + "\n".join(lines) + "\nret;\n}\n"


def _place(form: Form, operand: ResolvedOperand) -> str:
    """An address that all threads may use: of the thread's own bytes, or of a tile that a warp shares."""
    name, tile = form.name, form.instruction.memory in ("tile_load", "tile_store")
    if form.instruction.memory == "copy":
        return "s1" if operand.name == "dst" else "a6"
    if ".const" in name:
        return "constants+16"
    if ".local" in name:
        return "own"
    if ".param" in name:
        return "in"
    if ".shared" in name:
        return "s3" if tile else "s1"
    if ".global" in name:
        return "a4" if tile else "a6"
    return "a2" if tile else "a5"


def _fixed(form: Form, operand: ResolvedOperand) -> str | None:
    """Operands that must be, or had better be, constants."""
    base, name = form.instruction.pattern.base, operand.name
    if name == "membermask":
        return "-1"
    if name == "lut":
        return "0x1e"
    if name == "stride":
        return "32"
    if name in ("selector", "n") and base in ("mma", "cp"):
        return "0"
    if base == "cp" and name in ("size", "given"):
        return "16" if ".cg." in form.name or name == "size" else "8"
    if base in ("bar", "barrier") and name in "ab":
        return "1" if name == "a" else str(THREADS)
    if base == "nanosleep":
        return "100"
    return None


def inputs(seed: int) -> NDArray[np.uint32]:
    """Records of a warp: bits, small integers, floats of three widths, values at the edges; uint32 [THREADS, RECORD / 4]."""
    rng = np.random.default_rng(seed)
    shape = (THREADS, RECORD // 4)
    words = rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)
    words = np.where(rng.random(shape) < 0.2, rng.integers(0, 64, shape).astype(np.uint32), words)
    words = np.where(rng.random(shape) < 0.3, rng.normal(0, 100, shape).astype(np.float32).view(np.uint32), words)
    halves = rng.normal(0, 10, (*shape, 2)).astype(np.float16).view(np.uint32)[..., 0]
    words = np.where(rng.random(shape) < 0.2, halves, words)
    doubles = rng.normal(0, 10, (THREADS, RECORD // 8)).view(np.uint32)
    words = np.where(np.repeat(rng.random((THREADS, RECORD // 8)) < 0.2, 2, axis=1), doubles, words)
    edges = [0, 1, 0xFFFFFFFF, 0x80000000, 0x7F800000, 0x7FC00000, 0x00800000, 0x3F800000]
    words[: len(edges)] = np.array(edges, np.uint32)[:, None]
    return words


SKIPPED = {"internal", "convert_internal"}
_LARGE = 40


def every_form(sample: int = _LARGE) -> Iterator[Form]:
    """Every form of every instruction that a kernel can hold alone; of those with more than thousands, ``sample`` of each."""
    for entry in all_instructions():
        module_ = entry.function.__module__.rpartition(".")[2] if entry.function else ""
        if module_ in SKIPPED or entry.pattern.base in _APART:
            continue
        yield from _forms(entry, sample)


_APART = {
    *("extract_field", "insert_field", "read_clock", "bra", "exit", "ret", "call", "brx", "trap", "brkpt", "function_list"),
    *("function_entry", "function_return", "fused_multiply_add", "mul_scaled", "div_factors", "rcp_factors"),
}


def _forms(entry: Instruction, sample: int) -> Iterator[Form]:
    optional = {name for kind, name in entry.pattern.parts if kind == "opt"}
    choices: list[list[str | bool]] = []
    total = 1
    for name, slot in entry.pattern.slots.items():
        words: list[str | bool] = [True] if slot.is_flag else list(slot.words)
        choices.append([False if slot.is_flag else "", *words] if name in optional else words)
        total *= len(choices[-1])
    if total < 8000:
        for values in product(*choices):
            params = dict(zip(entry.pattern.slots, values, strict=True))
            if entry.valid is None or entry.valid(params) is None:
                yield make_form(entry, params)
        return
    rng = random.Random(entry.pattern.text)
    for index, words in enumerate(choices):
        for word in words:
            found = 0
            for _ in range(100 * sample):
                values = [rng.choice(w) if i != index and rng.random() < 0.5 else w[0] for i, w in enumerate(choices)]
                values = [rng.choice(w) if w[0] not in ("", False) else v for w, v in zip(choices, values, strict=True)]
                values[index] = word
                params = dict(zip(entry.pattern.slots, values, strict=True))
                if entry.valid is None or entry.valid(params) is None:
                    yield make_form(entry, params)
                    found += 1
                    if found == sample:
                        break
