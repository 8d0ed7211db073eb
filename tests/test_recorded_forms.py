"""Video instructions, atomics and cache policies against what an H200 made of the same operands (tests/data/forms)."""

from __future__ import annotations

import hashlib
import inspect
import json
import lzma
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import isa.instructions  # noqa: F401  (fills the registry)
import tcsim
from isa.errors import PtxError
from isa.instructions import cache_hints
from isa.instructions.oob import is_filled
from isa.lower.video import plain_operands
from isa.ptx import Immediate
from isa.spec import find
from tests.ptx_text import instruction

FOLDER = Path(__file__).parent / "data" / "forms"
RECORDED: dict[str, Any] = json.loads(lzma.decompress((FOLDER / "h200.json.xz").read_bytes()))
with np.load(FOLDER / "inputs.npz") as _inputs:
    WORDS, SLOTS, HALVES = _inputs["words"], _inputs["slots"], _inputs["halves"]
EVERY = 1 if os.environ.get("TCSIM_ALL_FORMS") else 24


def digest(results: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(results, np.uint32).tobytes()).hexdigest()[:16]


def fail(message: str, _: object) -> PtxError:
    return PtxError(message, 1)


@pytest.mark.parametrize("text", list(RECORDED["video"])[::EVERY])
def test_video(text: str) -> None:
    node = plain_operands(instruction(text), fail)
    form = find(node.opcode)[0][0]
    function = form.instruction.function
    assert function is not None
    names = [p.name for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY]
    modifiers = {name: form.params[name] for name in names}
    selectors = [np.uint32(o.value) for o in node.operands[4:] if isinstance(o, Immediate)]
    third = np.zeros(len(WORDS), np.uint32) if isinstance(node.operands[3], Immediate) else WORDS[:, 2]
    with np.errstate(over="ignore"):
        got = [function(a, b, c, *selectors, **modifiers) for (a, b), c in zip(WORDS[:, :2], third, strict=True)]
    assert digest(np.array(got)) == RECORDED["video"][text]


@pytest.mark.parametrize("text", list(RECORDED["beyond"]))
def test_beyond_the_isa(text: str) -> None:
    opcode, _, flag = text.partition(" ")
    form = find(opcode)[0][0]
    function = form.instruction.function
    assert function is not None
    names = [p.name for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY]
    modifiers = {name: form.params[name] for name in names}
    a, b, c, last = HALVES.T
    if opcode.startswith("fma"):
        rows = zip(*(column.astype(np.uint16) if opcode.endswith("f16") else column for column in (a, b, c)), strict=True)
    else:
        carries = c >= last if flag == "borrow" else c.astype(np.uint64) + last > 0xFFFFFFFF
        signed = [column.astype(np.int32) for column in (a, b, c)]
        rows = zip(*signed[: 3 if opcode.startswith("madc") else 2], (bool(x) for x in carries), strict=True)
    got = np.array([int(function(*row, **modifiers)) & 0xFFFFFFFF for row in rows], np.uint32)
    assert digest(got) == RECORDED["beyond"][text]


@pytest.mark.parametrize("opcode", [opcode for opcode in RECORDED["oob"] if "sat" not in opcode])
def test_what_stands_for_out_of_bounds(opcode: str) -> None:
    filled = [0x7FF7, 0xFFF7]
    assert RECORDED["oob"][opcode] == [filled, filled, []]
    assert all(is_filled(np.uint16(word)) == (word in filled) for word in range(1 << 16))


BITS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}


def atomic_kernel(name: str) -> str:
    """A kernel that does one atomic operation per thread on its own slot (tests/data/forms/README.md)."""
    kind, rest = name.split(" ")
    space, operation, vector, type_ = rest.split("|")
    bits = BITS.get(type_) or int(type_[1:])
    count = int(vector)

    def registers(stem: str) -> str:
        return f"%{stem}0" if count == 1 else "{" + ", ".join(f"%{stem}{i}" for i in range(count)) + "}"

    def each(text: str) -> str:
        return "\n".join(text.format(i=i, at=i * bits // 8) for i in range(count))

    dotted = f".{space}" if space else ""
    widened = f".v{count}" if count > 1 else ""
    cas = operation == "cas"
    arguments = f"[%rd9], {registers('b')}" + (f", %{'c'}0" if cas else "")
    call = f"{kind}{dotted}.{operation}{widened}.{type_} " + (f"{registers('a')}, " if kind == "atom" else "") + arguments
    shared = space == "shared"
    place = "cvt.u64.u32 %rd9, %r9; cvta.shared.u64 %rd8, %rd9;" if shared else "mov.u64 %rd8, %rd2; mov.u64 %rd9, %rd2;"
    return f"""
    .version 8.3
    .target sm_90
    .address_size 64
    .visible .entry k(.param .u64 out, .param .u64 in)
    {{
        .reg .b{bits} %a<8>, %b<8>, %c<2>; .reg .b32 %r<12>; .reg .b64 %rd<12>, %m<4>; .reg .pred %p;
        .shared .align 16 .b8 box[4096];
        ld.param.u64 %rd2, [out]; ld.param.u64 %rd1, [in];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r2, %r2, %r3, %r1;
        mul.wide.u32 %rd3, %r2, 64; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
        mov.u32 %r9, box; mad.lo.u32 %r9, %r1, 32, %r9;
        {place}
        ld.global.v2.u64 {{%m0, %m1}}, [%rd1]; ld.global.v2.u64 {{%m2, %m3}}, [%rd1+16];
        st.v2.u64 [%rd8], {{%m0, %m1}}; st.v2.u64 [%rd8+16], {{%m2, %m3}};
        {each(f"ld.global.b{bits} %b{{i}}, [%rd1+32+{{at}}];")}
        {f"ld.global.b{bits} %c0, [%rd1+48]; and.b32 %r4, %r1, 1; setp.eq.u32 %p, %r4, 0;" if cas else ""}
        {f"@%p ld.global.b{bits} %b0, [%rd1];" if cas else ""}
        {call};
        {each(f"st.global.b{bits} [%rd2+32+{{at}}], %a{{i}};") if kind == "atom" else ""}
        ld.v2.u64 {{%m0, %m1}}, [%rd8]; ld.v2.u64 {{%m2, %m3}}, [%rd8+16];
        st.global.v2.u64 [%rd2], {{%m0, %m1}}; st.global.v2.u64 [%rd2+16], {{%m2, %m3}};
        ret;
    }}
    """


CHOSEN = [
    "atom shared|add.noftz|1|bf16x2",
    "atom global|add.noftz|8|f16",
    "atom global|min.noftz|4|bf16x2",
    "atom |max.noftz|2|f16x2",
    "atom global|add|4|f32",
    "atom |add|1|f64",
    "atom shared|cas|1|b128",
    "atom global|cas|1|b16",
    "atom global|exch|1|b128",
    "red global|add.noftz|4|bf16",
    "red shared|dec|1|u32",
    "red |min|1|s64",
]


@pytest.mark.parametrize("name", list(RECORDED["atomics"]) if EVERY == 1 else CHOSEN)
def test_atomics(name: str) -> None:
    function = tcsim.RawModule(code=atomic_kernel(name)).get_function("k")
    out = tcsim.zeros(SLOTS.size, np.uint32)
    function((4,), (128,), (out, tcsim.asarray(SLOTS)))
    assert digest(tcsim.asnumpy(out)) == RECORDED["atomics"][name]


@pytest.mark.parametrize("text", list(RECORDED["policies"]))
def test_policies(text: str) -> None:
    opcode, _, operands = text.partition(" ")
    form = find(opcode)[0][0]
    modifiers = {name: form.params[name] for name in ("primary", "secondary")}
    if "fractional" in opcode:
        fractions = WORDS[:, 0].view(np.float32) if operands == "f1" else WORDS[:, 1].astype(np.float32) * np.float32(2.0**-32)
        got = np.array([cache_hints.createpolicy_fractional(f, **modifiers) for f in fractions], np.uint64)
    else:
        start = WORDS[:, 0].astype(np.uint64) | WORDS[:, 1].astype(np.uint64) << np.uint64(32)
        start &= np.uint64(0xFFFF_FFFF_FFFF)
        sizes = (WORDS[:, 2], WORDS[:, 3]) if re.search("r3", operands) else (WORDS[:, 2] >> 8, WORDS[:, 3] >> 6)
        got = np.zeros(len(WORDS), np.uint64)
        for row in range(0, len(WORDS), 32):
            part = slice(row, row + 32)
            cache_hints.createpolicy_range(got[part], start[part], sizes[0][part], sizes[1][part], **modifiers)
    assert digest(got.view(np.uint32)) == RECORDED["policies"][text]
