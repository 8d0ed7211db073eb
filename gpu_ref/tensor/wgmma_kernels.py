"""One PTX kernel for each ``wgmma`` form: shared memory from an image, operands to registers, the instruction, its result.

The kernel ``form(image, a, c, e, numbers, d)`` runs one problem of :mod:`gpu_ref.tensor.wgmma_inputs` a CTA of 128 threads.
``numbers`` are 64-bit words: the descriptors, whose addresses count from the start of the image, scale-d, and which variant of
the instruction to run.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from gpu_ref.tensor.wgmma_inputs import IMAGE_BYTES, Setting
from isa.tensor.forms import MmaForm
from isa.tensor.metadata import metadata_layout
from isa.tensor.wgmma_plans import accumulator_registers, operand_order

__all__ = ["ENTRY", "numbers_of", "wgmma_ptx"]

ENTRY = "form"

_CONSTANTS = ("selector", "scale_a", "scale_b", "trans_a", "trans_b")

_FRAME = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry {entry}(.param .u64 image, .param .u64 pa, .param .u64 pc, .param .u64 pe, .param .u64 numbers, .param .u64 pd)
{{
    .reg .b32 %d<{registers}>, %a<4>, %e0, %thread, %cta, %warp, %lane, %at, %i, %word, %base, %variant;
    .reg .b64 %p, %q, %step, %da, %db, %start;
    .reg .pred %more, %on, %other;
    .shared .align 1024 .b8 tiles[{bytes}];
    mov.u32 %thread, %tid.x;
    mov.u32 %cta, %ctaid.x;
    shr.u32 %warp, %thread, 5;
    and.b32 %lane, %thread, 31;
    mov.u32 %base, tiles;
    ld.param.u64 %p, [image];
    cvta.to.global.u64 %p, %p;
    mad.lo.u32 %at, %cta, {words}, %thread;
    mad.wide.u32 %p, %at, 4, %p;
    mov.u32 %i, %thread;
    mad.lo.u32 %at, %thread, 4, %base;
COPY:
    ld.global.u32 %word, [%p];
    st.shared.u32 [%at], %word;
    add.u64 %p, %p, 512;
    add.u32 %at, %at, 512;
    add.u32 %i, %i, 128;
    setp.lt.u32 %more, %i, {words};
    @%more bra COPY;
    fence.proxy.async;
    bar.sync 0;
    mad.lo.u32 %warp, %cta, 4, %warp;
{loads}
    ld.param.u64 %q, [numbers];
    cvta.to.global.u64 %q, %q;
    cvt.u64.u32 %start, %base;
    shr.u64 %start, %start, 4;
    ld.global.u64 %da, [%q];
    add.u64 %da, %da, %start;
    ld.global.u64 %db, [%q+8];
    add.u64 %db, %db, %start;
    ld.global.u32 %word, [%q+16];
    setp.ne.u32 %on, %word, 0;
    ld.global.u32 %variant, [%q+24];
    wgmma.fence.sync.aligned;
{variants}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
{stores}
    ret;
}}
"""


def _variants(form: MmaForm, a_in_registers: bool) -> list[dict[str, int]]:
    """The values that the constants among a form's operands can have, by name, in every combination."""
    selectors = range(metadata_layout(form).selectors) if form.is_sparse else ()
    values = {"selector": selectors, "scale_a": (1, -1), "scale_b": (1, -1), "trans_a": (0, 1), "trans_b": (0, 1)}
    names = [name for name in operand_order(form, a_in_registers) if name in _CONSTANTS]
    return [dict(zip(names, chosen, strict=True)) for chosen in product(*(values[name] for name in names))]


def numbers_of(form: MmaForm, chosen: Setting) -> NDArray[np.uint64]:
    """The ``numbers`` of a setting."""
    every = _variants(form, chosen.a_in_registers)
    wanted = chosen._asdict()
    variant = next(i for i, values in enumerate(every) if all(wanted[name] == x for name, x in values.items()))
    return np.array([chosen.a, chosen.b, chosen.scale_d, variant], np.uint64)


def _planes(name: str, count: int, access: str) -> list[str]:
    """Load or store registers ``name`` 0 on of this lane, from or to ``[warp, register, lane]``."""
    address = [
        f"ld.param.u64 %p, [p{name}];",
        "cvta.to.global.u64 %p, %p;",
        f"mad.lo.u32 %at, %warp, {32 * count}, %lane;",
        "mad.wide.u32 %p, %at, 4, %p;",
    ]
    register = "d" if name == "c" else name
    places = [(f"%{register}{r}", f"[%p+{128 * r}]") for r in range(count)]
    if access == "st":
        return address + [f"st.global.b32 {place}, {x};" for x, place in places]
    return address + [f"ld.global.b32 {x}, {place};" for x, place in places]


def wgmma_ptx(form: MmaForm, a_in_registers: bool) -> str:
    """The PTX module whose kernel is :data:`ENTRY`."""
    registers = accumulator_registers(form)
    vector = "{" + ", ".join(f"%d{i}" for i in range(registers)) + "}"
    a = "{%a0, %a1, %a2, %a3}" if a_in_registers else "%da"
    variants: list[str] = []
    for number, values in enumerate(_variants(form, a_in_registers)):
        given = {"metadata": "%e0", "scale_d": "%on"} | {name: str(x) for name, x in values.items()}
        tail = ", ".join(given[name] for name in operand_order(form, a_in_registers))
        variants += [
            f"setp.ne.u32 %other, %variant, {number};",
            f"@%other bra NOT{number};",
            f"{form} {vector}, {a}, %db, {tail};",
            f"NOT{number}:",
        ]
    loads = [*_planes("a", 4, "ld"), *_planes("c", registers, "ld"), *_planes("e", 1, "ld")]

    def text(lines: list[str]) -> str:
        return "\n".join(f"    {line}" for line in lines)

    return _FRAME.format(
        entry=ENTRY, registers=registers, bytes=IMAGE_BYTES, words=IMAGE_BYTES // 4, loads=text(loads), variants=text(variants),
        stores=text(_planes("d", registers, "st")),
    )  # fmt: skip
