"""A product times a power of two is one machine instruction: ``FMUL.M2`` to ``.M8`` and ``.D2`` to ``.D8`` (f32 only).

``(a * b) * k`` with k of 2, 4, 8 and their reciprocals becomes a multiplication whose result is scaled before it is rounded,
once. That differs where the product overflows or is subnormal, and the inner ``.ftz`` is dropped if the outer multiplication
has none. ``mul.rn`` by one takes the inner product's place too, and its ``.ftz`` decides; so does ``cvt.ftz.f64.f32``, which
begins with a multiplication by one. ptxas does this after contraction, where the inner product has no other use, and not with
``--fmad=false``.
"""

from __future__ import annotations

from isa.lower.contract.editing import ORIGIN, Definitions, Editor, Saver, form_of, live_reads
from isa.lower.contract.expansion import has_factors, split_division
from isa.lower.contract.opcodes import op_of
from isa.lower.ir import Arg, Const, Instr, Kernel, VReg

__all__ = ["scale"]

_SCALES = {
    0x3F80_0000: "",
    0x4000_0000: "m2",
    0x4080_0000: "m4",
    0x4100_0000: "m8",
    0x3F00_0000: "d2",
    0x3E80_0000: "d4",
    0x3E00_0000: "d8",
}


def scale(kernel: Kernel) -> None:
    """Fuse scalings into the products before them, in place."""
    outer = [i for i, instr in enumerate(kernel.instructions) if _is_product(instr, ("", "rn")) or _flushes_first(instr)]
    if len(outer) == 0:
        return
    definitions = Definitions(kernel)
    candidates = [(i, found) for i in outer if (found := _scaled(i, kernel, definitions)) is not None]
    if not candidates:
        return
    reads = live_reads(kernel, definitions)
    editor = Editor(kernel)
    saver = Saver(definitions, editor)
    taken: set[int] = set()
    for index, (word, register, source) in candidates:
        is_dead = not any(reads.get(target.index) for target in kernel.instructions[index].destinations())
        if is_dead or reads.get(register.index) != 1 or source in taken:
            continue
        taken.add(index)
        taken.add(source)
        _fuse(index, word, source, kernel, editor, saver)
    editor.apply()


def _is_product(instr: Instr, roundings: tuple[str, ...]) -> bool:
    op = op_of(instr.form)
    return op.base == "mul" and op.type == "f32" and op.rounding in roundings


def _flushes_first(instr: Instr) -> bool:
    op = op_of(instr.form)
    return op.base == "cvt" and op.ftz and op.types == ("f64", "f32")


def _scaled(index: int, kernel: Kernel, definitions: Definitions) -> tuple[str, VReg, int] | None:
    """(scale, register, instruction) if a multiplication scales the result of another one."""
    instr = kernel.instructions[index]
    flushes = _flushes_first(instr)
    for name, other in (("", "a"),) if flushes else (("b", "a"), ("a", "b")):
        word = "" if flushes else _SCALES.get(_constant(instr.args[name], kernel, definitions) or 0)
        register = instr.args[other]
        if word is None or not isinstance(register, VReg):
            continue
        source = definitions.only(register)
        if source is None:
            continue
        inner = kernel.instructions[source]
        op = op_of(inner.form)
        if not has_factors(op) and (not _is_product(inner, ("",)) or op.sat):
            continue
        outer = op_of(instr.form)
        if word or (op.ftz != outer.ftz and (flushes or outer.rounding == "rn")):
            return word, register, source
    return None


def _constant(arg: Arg, kernel: Kernel, definitions: Definitions) -> int | None:
    if isinstance(arg, Const):
        return arg.bits
    source = definitions.only(arg)
    if source is None or op_of(kernel.instructions[source].form).base != "mov":
        return None
    moved = kernel.instructions[source].args["a"]
    return moved.bits if isinstance(moved, Const) else None


def _fuse(index: int, word: str, source: int, kernel: Kernel, editor: Editor, saver: Saver) -> None:
    outer, inner = kernel.instructions[index], kernel.instructions[source]
    op = op_of(outer.form)
    first: Arg
    second: Arg
    if has_factors(op_of(inner.form)):
        first, second = split_division(kernel, inner, source, editor)
    else:
        first, second = (saver.keep(inner.args[name], source, index) for name in ("a", "b"))
    editor.replace(source, None)
    tail = f"{'.ftz' if op.ftz else ''}{'.sat' if op.sat else ''}.f32"
    args: dict[str, Arg] = {"d": outer.args["d"], "a": first, "b": second}
    if _flushes_first(outer):
        args["d"] = inner.args["d"]
        editor.insert(index, Instr(form_of("mul.rn.ftz.f32"), args, None, outer.line, outer.loc, origin=ORIGIN))
        return
    form = form_of(f"mul_scaled.{word}{tail}" if word else f"mul.rn{tail}")
    editor.replace(index, Instr(form, args, outer.guard, outer.line, outer.loc, origin=ORIGIN))
