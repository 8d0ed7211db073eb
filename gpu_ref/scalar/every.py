"""Every scalar form of the instruction registry as a kernel for the GPU, its operands, and its model.

Where :mod:`gpu_ref.scalar.forms` lists what was worth recording word by word, this takes what the registry has: each form,
with each of its modifiers. A form reads a column of 64-bit words for each source and writes one for each destination. A
predicate is a word whose lowest bit counts; so is the carry flag, which ``add.cc`` sets before an instruction that reads it,
and ``addc`` fetches after one that writes it. The table of ``lop3`` is a constant that follows from the form's name.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np

import isa.instructions  # noqa: F401  (fills the registry)
from gpu_ref.mufu.codec import Stream
from gpu_ref.scalar.forms import Probe
from gpu_ref.scalar.inputs import operands_of
from isa.kernels.lanes import Words, run_lanes
from isa.spec import Form, ResolvedOperand
from isa.spec.enumerate import scalar_forms

__all__ = ["FORMS", "SM", "Words", "entry_name", "kernels_ptx", "key_of", "operand_columns", "run_model"]

SM = 90
"""The architecture whose forms these are."""


def key_of(form: Form) -> str:
    """A name that no other form has: the opcode, and ``p|q`` where it has a second result that the text may leave out."""
    optional = any(o.is_optional for o in form.operands)
    types = ",".join(o.type.name for o in form.operands if o.type.kind != "p")
    return f"{form.name}{' p|q' if optional else ''} ({types})"


@cache
def _forms() -> dict[str, Form]:
    return {key_of(form): form for form in scalar_forms(SM)}


FORMS: dict[str, Form] = _forms()
"""Every scalar form that sm_90 has, by :func:`key_of`."""


# -------------------------------------------------------------------------------------------------------- the GPU's side


def entry_name(number: int) -> str:
    """The kernel of the ``number``-th form of a module."""
    return f"form_{number}"


def _lut(form: Form) -> int:
    return zlib.crc32(form.name.encode()) & 0xFF


def _register_bits(operand: ResolvedOperand) -> int:
    """The register that holds a value: at least 16 bits, and 32 for the 8-bit types."""
    return 1 if operand.type.kind == "p" else 32 if operand.type.bits == 8 else operand.type.bits


def _statement(form: Form) -> str:
    """The instruction with registers named as its operands are."""
    text = ""
    for number, operand in enumerate(o for o in form.operands if o.name not in form.instruction.hidden):
        text += "|" if operand.paired else ", " if number else ""
        text += f"{_lut(form):#x}" if operand.name == "lut" else f"r_{operand.name}"
    return f"{form.name} {text};"


def _narrow(form: Form) -> bool:
    """Whether ptxas takes the result in an 8-bit register only (conversions of bf16)."""
    return form.name.endswith((".s8.bf16", ".u8.bf16"))


def _body(form: Form) -> list[str]:
    lines = []
    for operand in form.operands:
        bits = 8 if _narrow(form) and operand.is_destination else _register_bits(operand)
        lines.append(f".reg .{'pred' if bits == 1 else f'b{bits}'} r_{operand.name};")
    for operand in form.sources:
        if operand.name == "lut":
            continue
        if operand.type.kind == "p":
            lines += ["ld.global.b32 u, [address];", f"and.b32 u, u, 1; setp.ne.b32 r_{operand.name}, u, 0;"]
        else:
            lines.append(f"ld.global.b{_register_bits(operand)} r_{operand.name}, [address];")
        lines.append("add.u64 address, address, step;")
    hidden = form.instruction.hidden
    if any(o.name in hidden for o in form.sources):
        lines.append("selp.b32 u, -1, 0, r_carry; add.cc.u32 u, u, u;")
    lines.append(_statement(form))
    if any(o.name in hidden for o in form.destinations):
        lines.append("addc.u32 u, 0, 0; setp.ne.b32 r_q, u, 0;")
    for operand in form.destinations:
        if operand.type.kind == "p":
            lines.append(f"selp.b32 u, 1, 0, r_{operand.name}; st.global.b32 [target], u;")
        elif _narrow(form):
            lines.append(f"cvt.u32.u8 u, r_{operand.name}; st.global.b32 [target], u;")
        else:
            lines.append(f"st.global.b{_register_bits(operand)} [target], r_{operand.name};")
        lines.append("add.u64 target, target, step;")
    return lines


_FRAME = """
.visible .entry {name}(.param .u64 in, .param .u64 out, .param .u32 rows)
{{
.reg .pred outside; .reg .b32 u, i, n; .reg .b64 address, target, step, at;
ld.param.u64 address, [in];
ld.param.u64 target, [out];
ld.param.u32 n, [rows];
mov.u32 i, %ctaid.x;
mov.u32 u, %ntid.x;
mul.lo.u32 i, i, u;
mov.u32 u, %tid.x;
add.u32 i, i, u;
setp.ge.u32 outside, i, n;
@outside ret;
mul.wide.u32 at, i, 8;
add.u64 address, address, at;
add.u64 target, target, at;
mul.wide.u32 step, n, 8;
{body}
ret;
}}
"""


def kernels_ptx(forms: list[Form]) -> str:
    """A module with a kernel for each form, called :func:`entry_name`: parameters are the address of the sources' columns,
    that of the (zeroed) results' columns, and the number of rows; a thread does a row."""
    parts = [".version 8.6\n.target sm_90\n.address_size 64\n"]
    parts += [_FRAME.format(name=entry_name(k), body="\n".join(_body(form))) for k, form in enumerate(forms)]
    return "".join(parts)


# ------------------------------------------------------------------------------------------------------------ operands


def operand_columns(form: Form, seed: int, rows: int) -> list[Words]:
    """A column of words for each source but ``lut``: adversarial as :func:`gpu_ref.scalar.inputs.operands_of` makes them."""
    given = [o for o in form.sources if o.name != "lut" and o.type.kind != "p"]
    rng = Stream(zlib.crc32(f"{key_of(form)} {seed}".encode()))
    probe = Probe(form.name, "", "b32", tuple(o.type.name for o in given))
    columns = dict(zip((o.name for o in given), operands_of(probe, rng, rows), strict=True))
    return [columns[o.name] if o.name in columns else rng.bits(1, rows) for o in form.sources if o.name != "lut"]


# ------------------------------------------------------------------------------------------------------------- the model


def run_model(form: Form, columns: list[Words]) -> list[Words]:
    """The results of a form's compiled kernel on rows of operands: a column for each destination."""
    rows, remaining = len(columns[0]), iter(columns)
    lut = np.full(rows, _lut(form), np.uint64)
    given = [lut if operand.name == "lut" else next(remaining) for operand in form.sources]
    results = run_lanes(form, given)
    bits = [8 if _narrow(form) else _register_bits(operand) for operand in form.destinations]
    return [words & np.uint64((1 << width) - 1) for words, width in zip(results, bits, strict=True)]
