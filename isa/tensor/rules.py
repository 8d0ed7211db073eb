"""What each architecture's tensor cores compute: one table.

A row says, for an architecture, an instruction class, an operand family and a result type, which *method* gives the
result and with which numbers. The methods:

``fused``
    Fused steps (:mod:`isa.tensor.fused`) of ``products`` terms each (fewer where K is smaller), k ascending, C entering
    the first, each step's result entering the next.
``fused_halves``
    ptxas has no such instruction and unpacks FP8 to f16: a fused step over the elements with k mod 4 in {0, 1}, from
    +0; a second over k mod 4 in {2, 3}, from the first; then ``+ C``, rounded to nearest even.
``fused_scaled``
    Fused steps whose product exponents are raised by those of the two scales of row and column.
``fused_groups``
    Products of 16 elements of A and of B are summed exactly; each sum, times its two scales, is a term of a fused step. A
    term's exponent is that of its scales.
``fma``
    A chain of IEEE fused multiply-adds, k ascending, C first, rounded as the instruction says.
``ffma``
    The subroutine for m8n8k4 (:mod:`isa.tensor.mma_884`).
``integer``
    The exact sum, wrapped or clamped once. sm_90 and later have no 4-bit and no ``.xor`` instruction and compose them
    of others; the sum being exact, that cannot be seen.

Of ``mma.sp``, k counts the elements that A stores, each with the element of B that it meets.

``output`` is how a step rounds: ``f32`` toward zero, ``e8m13`` toward zero to 13 fraction bits, ``f16`` to nearest
even. ``emax_floor`` is the least exponent that terms are aligned to; None where there is none.

``status`` is ``verified`` (the row reproduces every word of the recordings named in ``source``), ``published`` (taken
from that source, not checked here) or ``hypothesis``. A floor matters only to results below about 2^-100 (f32) or 2^-14
(f16); where it is less well known than the rest of its row, ``source`` says so.
"""

from __future__ import annotations

from msgspec import Struct

from isa.errors import TcsimError

__all__ = ["ARCHITECTURES", "FAMILIES", "RULES", "NoRuleError", "Rule", "find_rule"]

ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)

FAMILIES = {
    "f16": "f16", "bf16": "bf16", "tf32": "tf32", "e4m3": "fp8", "e5m2": "fp8", "f64": "f64",
    "e2m3": "f8f6f4", "e3m2": "f8f6f4", "e2m1": "f8f6f4", "s8": "int8", "u8": "int8", "s4": "int4", "u4": "int4", "b1": "b1",
}  # fmt: skip
"""The operand family of each PTX element type."""


class Rule(Struct, frozen=True):
    """One row. ``sm`` is 10 * major + minor; ``instruction`` is ``mma``, ``mma.m8n8k4`` (f16 only), ``mma.rounded``
    (``mma`` and ``wmma`` with ``.rz``, ``.rm`` or ``.rp``), ``mma.sp``, ``wmma``, ``wgmma``, ``wgmma.sp`` or, with ``.kind``,
    that of ``mma`` or ``mma.sp`` behind it (``mma.mxf4``); ``d`` the PTX type of the result; ``nan`` the bits of every NaN
    result, None where NaNs keep their payload or there are none."""

    sm: int
    instruction: str
    family: str
    d: str
    method: str
    products: int
    fraction_bits: int
    emax_floor: int | None
    output: str
    nan: int | None
    status: str
    source: str


class NoRuleError(TcsimError):
    """An architecture has no such tensor-core instruction, or none that is known here."""


_F32, _F16 = 0x7FFFFFFF, 0x7FFF

# Sources. The "toolbox" recordings are of one dot product each, 5,000 for each GPU and type, all near 1. Those of the
# H200 are of whole warps, with raw random bits, specials, subnormals, cancellation and overflow; they are in
# traces/vectors, and tests/test_tensor_hardware.py and test_wgmma_hardware.py replay them. Of the numbers in a row, every
# neighbour fails to reproduce them, but for floors where the source says so.
_TOOLBOX = "MATLAB-tensor-core of Khattak and Mikaitis (arXiv 2512.07004): recordings of "
_FLOOR = "; floor published with them"
_V100 = _TOOLBOX + "a V100" + _FLOOR
_V100_WMMA = _V100 + "; a chain of the HMMA.884 steps of mma.m8n8k4"
_A100 = _TOOLBOX + "an A100" + _FLOOR
_A2 = _TOOLBOX + "an A2" + _FLOOR
_ADA = _TOOLBOX + "an L40S and an RTX 1000 Ada" + _FLOOR
_ADA_FP8 = _TOOLBOX + "an L40S and an RTX 1000 Ada; floor as of f16, unprobed"
_B200 = _TOOLBOX + "a B200 (tf32: K = 4 only); floor as on sm_90, unprobed"
_B200_FP8 = _TOOLBOX + "a B200, which leave F open; SASS of ptxas 13.0"
_H200 = "traces/vectors: every register of an H200, driver 580.159.04, CUDA 13.0, and 4.1e9 outputs compared on it"
_H200_F16 = _H200 + "; floor: any down from -124 fits, the operands being f16"
_H200_FP8 = _H200 + "; floor: any down from -12 fits, the operands being FP8"
_H200_FP8_F16 = _H200 + "; floor: any down from -7 fits, the operands being FP8"
_WGMMA = "traces/vectors: registers of an H200, driver 580.159.04, CUDA 13.0, and 5.0e8 outputs of wgmma by digest"
_WGMMA_F16 = _WGMMA + "; floor: any down from -124 fits, the operands being f16"
_WGMMA_FP8 = _WGMMA + "; floor: any down from -126 fits, the operands being FP8"
_WGMMA_FP8_F16 = _WGMMA + "; floor: any down from -19 fits, the operands being FP8"
_SIM = "MMA-Sim (arXiv 2511.10909), tables 4 and 5"
_SIM_75 = _SIM + "; floor as on sm_80, a guess"
_SIM_120 = _SIM + "; floor as on sm_90, a guess"
_SIM_SCALED = _SIM + "; floor as on sm_90, a guess; NaN scales give NaN as in the OCP MX specification, a guess"
_SPARSE_KIND = "the row of the dense instruction, applied to what A stores; no recordings"
_SIM_F64 = _SIM + "; NaNs as on sm_90, a guess"
_SASS = "SASS of ptxas 13.0: the subroutine of sm_90, where it is verified"
_CHAIN = "SASS of ptxas 13.0: a chain of the steps of mma m16n8k4"
_EXACT = "PTX ISA 9.7.14: integer arithmetic is exact"
_SPARSE = "the row of mma, applied to what A stores, which holds on sm_90; no recordings"
_ROUNDED = "the row of mma with another rounding, which holds on sm_90; no recordings"
_H200_MORE = "traces/vectors: every register of an H200, driver 580.159.04, CUDA 13.0, and {} outputs compared on it"
_H200_SPARSE = _H200_MORE.format("4.8e8")
_H200_SPARSE_F16 = _H200_SPARSE + "; floor: any down from -124 fits, the operands being f16"
_H200_SPARSE_FP8 = _H200_SPARSE + "; floor: any down from -10 fits, the operands being FP8"
_H200_ROUNDED = _H200_MORE.format("1.7e8")

# fmt: off
_FUSED = (
    # sm,        instruction,  family, d,     L,  F,  floor, output,  status,      source
    ((70,),      "mma.m8n8k4", "f16",  "f32",  4, 23, None,  "f32",   "verified",  _V100),
    ((70,),      "mma.m8n8k4", "f16",  "f16",  4, 23, -19,   "f16",   "verified",  _V100),
    ((70,),      "wmma",       "f16",  "f32",  4, 23, None,  "f32",   "verified",  _V100_WMMA),
    ((70,),      "wmma",       "f16",  "f16",  4, 23, -19,   "f16",   "verified",  _V100_WMMA),

    ((75,),      "mma.m8n8k4", "f16",  "f32",  4, 24, -132,  "f32",   "published", _SIM_75),
    ((75,),      "mma.m8n8k4", "f16",  "f16",  4, 24, -20,   "f16",   "published", _SIM_75),
    ((75,),      "mma",        "f16",  "f32",  8, 24, -132,  "f32",   "published", _SIM_75),
    ((75,),      "mma",        "f16",  "f16",  8, 24, -20,   "f16",   "published", _SIM_75),

    ((80,),      "mma",        "f16",  "f32",  8, 24, -132,  "f32",   "verified",  _A100),
    ((80,),      "mma",        "f16",  "f16",  8, 24, -20,   "f16",   "verified",  _A100),
    ((80,),      "mma",        "bf16", "f32",  8, 24, -132,  "f32",   "verified",  _A100),
    ((80,),      "mma",        "tf32", "f32",  4, 24, -132,  "f32",   "verified",  _A100),

    ((86,),      "mma",        "f16",  "f32",  8, 24, -132,  "f32",   "verified",  _A2),
    ((86,),      "mma",        "f16",  "f16",  8, 24, -20,   "f16",   "verified",  _A2),
    ((86,),      "mma",        "bf16", "f32",  8, 24, -132,  "f32",   "verified",  _A2),
    ((86,),      "mma",        "tf32", "f32",  4, 24, -132,  "f32",   "verified",  _A2),

    ((89,),      "mma",        "f16",  "f32",  8, 24, -132,  "f32",   "verified",  _ADA),
    ((89,),      "mma",        "f16",  "f16",  8, 24, -20,   "f16",   "verified",  _ADA),
    ((89,),      "mma",        "bf16", "f32",  8, 24, -132,  "f32",   "verified",  _ADA),
    ((89,),      "mma",        "tf32", "f32",  4, 24, -132,  "f32",   "verified",  _ADA),
    ((89,),      "mma",        "fp8",  "f32", 16, 13, -132,  "e8m13", "verified",  _ADA_FP8),
    ((89,),      "mma",        "fp8",  "f16", 16, 13, -20,   "f16",   "verified",  _ADA_FP8),

    ((90,),      "mma",        "f16",  "f32", 16, 25, -133,  "f32",   "verified",  _H200_F16),
    ((90,),      "mma",        "f16",  "f16", 16, 25, -21,   "f16",   "verified",  _H200),
    ((90,),      "mma",        "bf16", "f32", 16, 25, -133,  "f32",   "verified",  _H200),
    ((90,),      "mma",        "tf32", "f32",  8, 25, -133,  "f32",   "verified",  _H200),
    ((90,),      "wmma",       "tf32", "f32",  4, 25, -133,  "f32",   "verified",  _H200),
    ((90,),      "wgmma",      "f16",  "f32", 16, 25, -133,  "f32",   "verified",  _WGMMA_F16),
    ((90,),      "wgmma",      "f16",  "f16", 16, 25, -21,   "f16",   "verified",  _WGMMA),
    ((90,),      "wgmma",      "bf16", "f32", 16, 25, -133,  "f32",   "verified",  _WGMMA),
    ((90,),      "wgmma",      "tf32", "f32",  8, 25, -133,  "f32",   "verified",  _WGMMA),
    ((90,),      "wgmma",      "fp8",  "f32", 32, 13, -133,  "e8m13", "verified",  _WGMMA_FP8),
    ((90,),      "wgmma",      "fp8",  "f16", 32, 13, -21,   "f16",   "verified",  _WGMMA_FP8_F16),

    ((90,),      "wgmma.sp",   "f16",  "f32", 16, 25, -133,  "f32",   "verified",  _WGMMA_F16),
    ((90,),      "wgmma.sp",   "f16",  "f16", 16, 25, -21,   "f16",   "verified",  _WGMMA),
    ((90,),      "wgmma.sp",   "bf16", "f32", 16, 25, -133,  "f32",   "verified",  _WGMMA),
    ((90,),      "wgmma.sp",   "tf32", "f32",  8, 25, -133,  "f32",   "verified",  _WGMMA),
    ((90,),      "wgmma.sp",   "fp8",  "f32", 32, 13, -133,  "e8m13", "verified",  _WGMMA_FP8),
    ((90,),      "wgmma.sp",   "fp8",  "f16", 32, 13, -21,   "f16",   "verified",  _WGMMA_FP8_F16),

    ((100,),     "mma",        "f16",  "f32", 16, 25, -133,  "f32",   "verified",  _B200),
    ((100,),     "mma",        "f16",  "f16", 16, 25, -21,   "f16",   "verified",  _B200),
    ((100,),     "mma",        "bf16", "f32", 16, 25, -133,  "f32",   "verified",  _B200),
    ((100,),     "mma",        "tf32", "f32",  8, 25, -133,  "f32",   "verified",  _B200),

    ((120,),     "mma",        "f16",  "f32", 16, 25, -133,  "f32",   "published", _SIM_120),
    ((120,),     "mma",        "f16",  "f16", 16, 25, -21,   "f16",   "published", _SIM_120),
    ((120,),     "mma",        "bf16", "f32", 16, 25, -133,  "f32",   "published", _SIM_120),
    ((120,),     "mma",        "tf32", "f32",  8, 25, -133,  "f32",   "published", _SIM_120),
    ((120,),     "mma",        "fp8",  "f32", 32, 25, -133,  "f32",   "published", _SIM_120),
    ((120,),     "mma",        "fp8",  "f16", 32, 25, -21,   "f16",   "published", _SIM_120),

    ((100, 120), "wmma",       "tf32", "f32",  4, 25, -133,  "f32",   "published", _CHAIN),

    ((80, 86, 89), "mma.sp",   "f16",  "f32",  8, 24, -132,  "f32",   "hypothesis", _SPARSE),
    ((80, 86, 89), "mma.sp",   "f16",  "f16",  8, 24, -20,   "f16",   "hypothesis", _SPARSE),
    ((80, 86, 89), "mma.sp",   "bf16", "f32",  8, 24, -132,  "f32",   "hypothesis", _SPARSE),
    ((80, 86, 89), "mma.sp",   "tf32", "f32",  4, 24, -132,  "f32",   "hypothesis", _SPARSE),
    ((89,),      "mma.sp",     "fp8",  "f32", 16, 13, -132,  "e8m13", "hypothesis", _SPARSE),
    ((90,),      "mma.sp",     "f16",  "f32", 16, 25, -133,  "f32",   "verified",  _H200_SPARSE_F16),
    ((90,),      "mma.sp",     "f16",  "f16", 16, 25, -21,   "f16",   "verified",  _H200_SPARSE),
    ((90,),      "mma.sp",     "bf16", "f32", 16, 25, -133,  "f32",   "verified",  _H200_SPARSE),
    ((90,),      "mma.sp",     "tf32", "f32",  8, 25, -133,  "f32",   "verified",  _H200_SPARSE),
    ((100, 120), "mma.sp",     "f16",  "f32", 16, 25, -133,  "f32",   "hypothesis", _SPARSE),
    ((100, 120), "mma.sp",     "f16",  "f16", 16, 25, -21,   "f16",   "hypothesis", _SPARSE),
    ((100, 120), "mma.sp",     "bf16", "f32", 16, 25, -133,  "f32",   "hypothesis", _SPARSE),
    ((100, 120), "mma.sp",     "tf32", "f32",  8, 25, -133,  "f32",   "hypothesis", _SPARSE),
    ((120,),     "mma.sp",     "fp8",  "f32", 32, 25, -133,  "f32",   "hypothesis", _SPARSE),
)

_FP8_HALVES = (
    # sm,    instruction, d,     F,  floor, output, status,     source
    (90,     "mma",       "f32", 25, -133,  "f32",  "verified", _H200_FP8),
    (90,     "mma",       "f16", 25, -21,   "f16",  "verified", _H200_FP8_F16),
    (100,    "mma",       "f32", 25, -133,  "f32",  "verified", _B200_FP8),
    (100,    "mma",       "f16", 25, -21,   "f16",  "verified", _B200_FP8),
    (90,     "mma.sp",    "f32", 25, -133,  "f32",  "verified", _H200_SPARSE_FP8),
    (100,    "mma.sp",    "f32", 25, -133,  "f32",  "hypothesis", _SPARSE),
)

_EXACT_ROWS = (
    # sm,                        instruction,  family, d,     method,    nan,  status,      source
    ((90,),                      "mma.m8n8k4", "f16",  "f32", "ffma",    _F32, "verified",  _H200),
    ((90,),                      "mma.m8n8k4", "f16",  "f16", "ffma",    _F16, "verified",  _H200),
    ((80, 86, 89, 100, 120),     "mma.m8n8k4", "f16",  "f32", "ffma",    _F32, "published", _SASS),
    ((80, 86, 89, 100, 120),     "mma.m8n8k4", "f16",  "f16", "ffma",    _F16, "published", _SASS),
    ((90,),                      "mma",        "f64",  "f64", "fma",     None, "verified",  _H200),
    ((80, 86, 89, 100, 120),     "mma",        "f64",  "f64", "fma",     None, "published", _SIM_F64),
    ((90,),                      "mma",        "int8", "s32", "integer", None, "verified",  _H200),
    ((90,),                      "mma",        "int4", "s32", "integer", None, "verified",  _H200),
    ((90,),                      "mma",        "b1",   "s32", "integer", None, "verified",  _H200),
    ((90,),                      "wgmma",      "int8", "s32", "integer", None, "verified",  _WGMMA),
    ((90,),                      "wgmma",      "b1",   "s32", "integer", None, "verified",  _WGMMA),
    ((90,),                      "wgmma.sp",   "int8", "s32", "integer", None, "verified",  _WGMMA),
    ((75, 80, 86, 89, 100, 120), "mma",        "int8", "s32", "integer", None, "published", _EXACT),
    ((75, 80, 86, 89, 100, 120), "mma",        "int4", "s32", "integer", None, "published", _EXACT),
    ((75, 80, 86, 89, 100, 120), "mma",        "b1",   "s32", "integer", None, "published", _EXACT),
    ((90,),                      "mma.rounded", "f64", "f64", "fma",     None, "verified",  _H200_ROUNDED),
    ((90,),                      "mma.sp",     "int8", "s32", "integer", None, "verified",  _H200_SPARSE),
    ((90,),                      "mma.sp",     "int4", "s32", "integer", None, "verified",  _H200_SPARSE),
    ((80, 86, 89, 100, 120),     "mma.rounded", "f64", "f64", "fma",     None, "hypothesis", _ROUNDED),
    ((80, 86, 89, 100, 120),     "mma.sp",     "int8", "s32", "integer", None, "published", _EXACT),
    ((80, 86, 89, 100, 120),     "mma.sp",     "int4", "s32", "integer", None, "published", _EXACT),
)
_KINDS = (
    # instruction,       family,   d,     method,         L,  F,  floor, output, status,     source
    ("mma.f8f6f4",       "f8f6f4", "f32", "fused",        32, 25, -133,  "f32", "published",  _SIM_120),
    ("mma.f8f6f4",       "f8f6f4", "f16", "fused",        32, 25, -21,   "f16", "published",  _SIM_120),
    ("mma.mxf8f6f4",     "f8f6f4", "f32", "fused_scaled", 32, 25, -133,  "f32", "published",  _SIM_SCALED),
    ("mma.mxf4",         "fp4",    "f32", "fused_groups", 64, 35, -133,  "f32", "published",  _SIM_SCALED),
    ("mma.mxf4nvf4",     "fp4",    "f32", "fused_groups", 64, 35, -133,  "f32", "published",  _SIM_SCALED),
    ("mma.sp.f8f6f4",    "f8f6f4", "f32", "fused",        32, 25, -133,  "f32", "hypothesis", _SPARSE_KIND),
    ("mma.sp.f8f6f4",    "f8f6f4", "f16", "fused",        32, 25, -21,   "f16", "hypothesis", _SPARSE_KIND),
    ("mma.sp.mxf8f6f4",  "f8f6f4", "f32", "fused_scaled", 32, 25, -133,  "f32", "hypothesis", _SPARSE_KIND),
    ("mma.sp.mxf4",      "fp4",    "f32", "fused_groups", 64, 35, -133,  "f32", "hypothesis", _SPARSE_KIND),
    ("mma.sp.mxf4nvf4",  "fp4",    "f32", "fused_groups", 64, 35, -133,  "f32", "hypothesis", _SPARSE_KIND),
)
"""Those of sm_120."""
# fmt: on


def _nan(d: str) -> int:
    return _F16 if d == "f16" else _F32


def _rows() -> list[Rule]:
    rows = []
    for sms, instruction, family, d, products, bits, floor, output, status, source in _FUSED:
        rows += [
            Rule(sm, instruction, family, d, "fused", products, bits, floor, output, _nan(d), status, source)
            for sm in sms
        ]
    for sm, instruction, d, bits, floor, output, status, source in _FP8_HALVES:
        rows.append(Rule(sm, instruction, "fp8", d, "fused_halves", 16, bits, floor, output, _nan(d), status, source))
    for instruction, family, d, method, products, bits, floor, output, status, source in _KINDS:
        rows.append(Rule(120, instruction, family, d, method, products, bits, floor, output, _nan(d), status, source))
    for exact_sms, instruction, family, d, method, nan, status, source in _EXACT_ROWS:
        rows += [Rule(sm, instruction, family, d, method, 1, 0, None, d, nan, status, source) for sm in exact_sms]
    return rows


RULES: dict[tuple[int, str, str, str], Rule] = {(r.sm, r.instruction, r.family, r.d): r for r in _rows()}
"""Every rule, by (sm, instruction, family, d)."""


def find_rule(sm: int, instruction: str, family: str, d: str) -> Rule:
    """The rule for an architecture (10 * major + minor), instruction class, operand family and result type.

    ``wmma`` is composed of ``mma`` and has rows of its own only where it differs; the sparse ones have theirs throughout. An
    architecture between two listed ones follows the one below it within the same major version. Raises
    :class:`NoRuleError`.
    """
    known = max((s for s in ARCHITECTURES if s <= sm and s // 10 == sm // 10), default=None)
    for name in (instruction, "mma") if instruction == "wmma" else (instruction,):
        if known is not None and (known, name, family, d) in RULES:
            return RULES[known, name, family, d]
    others = sorted({r.sm for r in RULES.values() if (r.family, r.d) == (family, d)})
    raise NoRuleError(
        f"no tensor-core rule for {instruction} with {family} operands and {d} results on sm_{sm}; "
        f"such operands and results are known on {', '.join(f'sm_{s}' for s in others) or 'no architecture'}"
    )
