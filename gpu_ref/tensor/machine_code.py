"""What ptxas makes of each matrix instruction on each architecture, to ``isa/tensor/machine_code.toml``.

Needs ptxas and nvdisasm, but no GPU; run from the root of the checkout::

    python -m gpu_ref.tensor.machine_code
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import isa.tensor
from gpu_ref.tensor.kernels import form_ptx
from isa.errors import TcsimError
from isa.sass.toolchain import AssemblerError, ptxas_version, required, run_ptxas
from isa.tensor import MMA_FORMS, SPARSE_FORMS, WMMA_FORMS, MmaForm
from isa.tensor.plans import register_counts
from isa.tensor.rules import ARCHITECTURES
from isa.tensor.scaled_forms import KIND_FORMS

__all__ = ["machine_code", "main"]

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?\w+\s+)?([A-Z][\w.]*)", re.M)
_ARITHMETIC = re.compile(r"\w*MMA|F2FP|F2F|FADD|FMUL|FFMA|HADD2|LOP3|PLOP3|SEL|SHFL|MOVM|VIADD|PRMT")
_NOT_ITS_OWN = {"HFMA2.MMA": 1 << 30, "LOP3.LUT": 1}  # a move of a constant; how many the frame of the kernel has


def machine_code(form: MmaForm, sm: int) -> str | None:
    """The machine instructions of one matrix instruction, such as ``12 F2FP, 2 HMMA.16816.F32, 4 FADD``; None where ptxas has
    no such architecture. Moves, addresses and integer additions are left out. Raises AssemblerError."""
    ptxas, nvdisasm = required("ptxas"), required("nvdisasm")
    target = f"sm_{sm}a" if form.kind else f"sm_{sm}"
    text = _single(form) if form.kind or form.is_sparse else form_ptx(form)
    text = re.sub(r"\.target sm_\w+", f".target {target}", text)
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "form.ptx", Path(folder) / "form.cubin"
        source.write_text(text)
        try:
            run_ptxas(ptxas, source, cubin, target)
        except AssemblerError as problem:
            if "is not defined for option" in str(problem) or "Unsupported" in str(problem):
                return None
            raise
        listing = subprocess.run([str(nvdisasm), "-c", str(cubin)], capture_output=True, text=True, check=True).stdout
    counts = Counter(name for name in _INSTRUCTION.findall(listing) if _ARITHMETIC.match(name))
    counts.subtract({name: min(n, counts[name]) for name, n in _NOT_ITS_OWN.items()})
    words = [f"{n} {name}" if n > 1 else name for name, n in counts.items() if n > 0]
    return ", ".join(words) + (" (a subroutine)" if "CALL" in listing else "")


def _single(form: MmaForm) -> str:
    """A kernel around one sparse or block-scaled instruction, whose operands it loads."""
    counts = register_counts(form)
    names = {x: [f"{x}{i}" for i in range(counts[x])] for x in "abcd"}
    opcode = str(form).replace(".sync.", ".sync.aligned.")
    if form.kind:
        opcode = opcode.replace("mma.sp.", "mma.sp::ordered_metadata.")
    operands = ["{" + ", ".join(names[x]) + "}" for x in "dabc"]
    scalars = ["e"] * form.is_sparse + ["sa", "sb"] * bool(form.scale_vec)
    operands += ["e, 0"] * form.is_sparse + ["sa, {0, 0}, sb, {0, 0}"] * bool(form.scale_vec)
    given = [*(r for x in "abc" for r in names[x]), *scalars]
    lines = [f".reg .b32 {', '.join([*given, *names['d']])}; .reg .b64 p; .reg .b32 lane;"]
    lines += ["ld.param.u64 p, [at];", "mov.u32 lane, %laneid;", "mad.wide.u32 p, lane, 4, p;"]
    lines += [f"ld.global.b32 {name}, [p+{128 * i}];" for i, name in enumerate(given)]
    lines += [f"{opcode} {', '.join(operands)};"]
    lines += [f"st.global.b32 [p+{128 * i}], {name};" for i, name in enumerate(names["d"])]
    body = "\n".join(lines)
    return f".version 8.7\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 at) {{\n{body}\nret;\n}}\n"


def _rows(form: MmaForm) -> list[tuple[list[int], str]]:
    """Architectures with the same code, together."""
    rows: list[tuple[list[int], str]] = []
    for sm in ARCHITECTURES:
        exists = sm == form.sm if form.kind else sm >= form.sm
        code = machine_code(form, sm) if exists else None
        if code is None:
            continue
        same = next((sms for sms, other in rows if other == code), None)
        if same is None:
            rows.append(([sm], code))
        else:
            same.append(sm)
    return rows


def main() -> int:
    """Write the table. Returns 2 where ptxas or nvdisasm is missing."""
    try:
        lines = [
            "# What ptxas makes of each mma, mma.sp and wmma instruction; written by python -m gpu_ref.tensor.machine_code.",
            "# Moves, addresses and integer additions are left out.",
            f'source = "ptxas {ptxas_version(required("ptxas"))}"',
        ]
        for form in (*MMA_FORMS, *SPARSE_FORMS, *WMMA_FORMS, *KIND_FORMS):
            lines += ["", f'["{form}"]', *(f'"{" ".join(map(str, sms))}" = "{code}"' for sms, code in _rows(form))]
            print(lines[-1], file=sys.stderr)
    except TcsimError as problem:
        print(problem, file=sys.stderr)
        return 2
    (Path(isa.tensor.__file__).parent / "machine_code.toml").write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
