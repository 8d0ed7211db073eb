"""One PTX kernel for each matrix instruction: operands from memory to registers, the instruction, its result to memory.

The kernel ``form(a, b, c, d)``, or ``form(a, b, c, e, d)`` of ``mma.sp``, takes arrays ``[warp, register, lane]`` and runs one
instruction a warp, four warps a CTA. A warp's number chooses the selector of ``mma.sp`` and whether its metadata are ordered.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_ref.tensor.inputs import fragments
from isa.tensor import MmaForm, metadata_layout

__all__ = ["ENTRY", "WARPS_PER_CTA", "form_ptx", "opcode"]

ENTRY = "form"
WARPS_PER_CTA = 4

_HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def opcode(form: MmaForm, ordered: bool = False) -> str:
    """The instruction as PTX spells it, modifiers included; ``ordered``: ``mma.sp::ordered_metadata``."""
    layouts = f"{form.a_layout}.{form.b_layout}"
    bits = f".{form.bit_operation}.popc" if form.bit_operation else ""
    saturate = ".satfinite" if form.satfinite else ""
    rounding = f".{form.rounding}" if form.rounding else ""
    if form.instruction != "wmma":
        types = f"{form.d}.{form.a}.{form.b}.{form.c}"
        name = form.instruction + ("::ordered_metadata" if ordered else "")
        return f"{name}.sync.aligned.{form.shape}.{layouts}{rounding}{saturate}.{types}{bits}"
    types = f"{form.d}.{form.c}" if form.a == "f16" else f"{form.d}.{form.a}.{form.b}.{form.c}"
    return f"wmma.mma{bits}.sync.aligned.{layouts}.{form.shape}{rounding}.{types}{saturate}"


def _instructions(form: MmaForm, vectors: str, selectors: Sequence[int] | None) -> list[str]:
    """The instruction, or of ``mma.sp`` one for each variant with branches to them."""
    if not form.is_sparse:
        return [f"{opcode(form)} {vectors};"]
    cases = [(i, ordered) for ordered in (False, True) for i in selectors or range(metadata_layout(form).selectors)]
    lines = [".reg .pred %other;", ".reg .b32 %case;", f"rem.u32 %case, %warp, {len(cases)};"]
    for number, (selector, ordered) in enumerate(cases):
        lines += [
            f"setp.ne.u32 %other, %case, {number};",
            f"@%other bra NOT{number};",
            f"{opcode(form, ordered)} {vectors}, %e0, {selector};",
            f"NOT{number}:",
        ]
    return lines


def form_ptx(form: MmaForm, selectors: Sequence[int] | None = None) -> str:
    """The PTX module whose kernel is :data:`ENTRY`. ``selectors`` stand in for those that the PTX ISA gives ``mma.sp``."""
    parts = fragments(form)
    types = {"a": form.a, "b": form.b, "c": form.c, "e": "b32", "d": form.d}
    declare, load, store = [], [], []
    for name, fragment in parts.items():
        kind = types[name] if types[name] in ("f32", "f64") else "b32"
        bits = fragment.word_bits
        declare.append(f".reg .{kind} %{name}<{fragment.registers}>;")
        # Address of this lane's word of register 0; register r is r * 32 words on.
        address = [
            f"ld.param.u64 %at, [p{name}];",
            "cvta.to.global.u64 %at, %at;",
            f"mad.lo.u32 %word, %warp, {32 * fragment.registers}, %lane;",
            f"mad.wide.u32 %at, %word, {bits // 8}, %at;",
        ]
        places = [(f"%{name}{r}", f"[%at+{r * 32 * bits // 8}]") for r in range(fragment.registers)]
        if name == "d":
            store = address + [f"st.global.b{bits} {place}, {register};" for register, place in places]
        else:
            load += address + [f"ld.global.b{bits} {register}, {place};" for register, place in places]
    vectors = ", ".join("{" + ", ".join(f"%{name}{r}" for r in range(parts[name].registers)) + "}" for name in "dabc")
    lines = [
        *declare,
        ".reg .b32 %thread, %cta, %warp, %lane, %word;",
        ".reg .b64 %at;",
        "mov.u32 %thread, %tid.x;",
        "mov.u32 %cta, %ctaid.x;",
        "shr.u32 %warp, %thread, 5;",
        f"mad.lo.u32 %warp, %cta, {WARPS_PER_CTA}, %warp;",
        "and.b32 %lane, %thread, 31;",
        *load,
        *_instructions(form, vectors, selectors),
        *store,
        "ret;",
    ]
    parameters = ", ".join(f".param .u64 p{name}" for name in parts)
    return f"{_HEAD}.visible .entry {ENTRY}({parameters})\n{{\n    " + "\n    ".join(lines) + "\n}\n"
