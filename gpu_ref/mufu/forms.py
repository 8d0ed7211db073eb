"""The approximate PTX instructions that go through the special-function unit, and the inputs they are recorded on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpu_ref.mufu.codec import GOLDEN, Stream, mix

__all__ = [
    "DENSE",
    "FILES",
    "FORMS",
    "SWEEPS",
    "Dense",
    "Form",
    "Sweep",
    "dense_inputs",
    "sample_inputs",
    "sweep_operands",
]


class Form(NamedTuple):
    """One instruction: its PTX opcode, and ``kind``: "f32", "x2" (a packed pair), "half", "f64" or "div" (two f32)."""

    opcode: str
    kind: str


class Sweep(NamedTuple):
    """All 2^32 values of one operand. ``role`` says how they are used (see :func:`sweep_operands`)."""

    opcode: str
    role: str
    fixed: int

    @property
    def name(self) -> str:
        return self.opcode if self.role == "x" else f"{self.opcode} {self.role} {self.fixed:08x}"


class Dense(NamedTuple):
    """Consecutive inputs of an instruction: words ``start + i * stride``; for ``stride`` 0 float32 ``i * 2^-23``."""

    opcode: str
    start: int
    stride: int
    length: int

    @property
    def name(self) -> str:
        return f"{self.opcode} {self.start:08x}"


_F32 = [f"{op}.approx{ftz}.f32" for op in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos") for ftz in (".ftz", "")]
_X2 = ["ex2.approx.f16x2", "ex2.approx.ftz.bf16x2", "tanh.approx.f16x2", "tanh.approx.bf16x2"]
_HALF = ["ex2.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.f16", "tanh.approx.bf16"]
_F64 = ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rsqrt.approx.f64"]
_DIV = [f"div.{accuracy}{ftz}.f32" for accuracy in ("approx", "full") for ftz in (".ftz", "")]

FORMS: tuple[Form, ...] = tuple(
    Form(opcode, kind)
    for kind, opcodes in (
        ("f32", [*_F32, "tanh.approx.f32"]),
        ("x2", _X2),
        ("half", _HALF),
        ("f64", _F64),
        ("div", _DIV),
    )
    for opcode in opcodes
)

# Second operands of the divisions: ordinary, next to one, subnormal, beyond 2^126 (where div.full rescales), largest.
_FIXED = (0x40400000, 0x3F800001, 0x00000123, 0x7E967699, 0x7F000001, 0xBDCCCCCD, 0x7F7FFFFF)

SWEEPS: tuple[Sweep, ...] = tuple(
    [Sweep(form.opcode, "x", 0) for form in FORMS if form.kind in ("f32", "x2", "f64")]
    + [Sweep(opcode, role, fixed) for opcode in _DIV for role in ("over", "under") for fixed in _FIXED]
    + [Sweep(opcode, "scrambled", 0) for opcode in _DIV]
)

_M = 1 << 23  # mantissas in one binade

FILES: dict[str, tuple[Dense, ...]] = {
    "dense_rcp_rsqrt": (
        Dense("rcp.approx.ftz.f32", 0x3F800000, 1, _M),
        Dense("rsqrt.approx.ftz.f32", 0x3F800000, 1, 2 * _M),
        Dense("rcp.approx.ftz.f64", 0x3FF00000, 1, 1 << 20),  # high words, low word 0
        Dense("rsqrt.approx.ftz.f64", 0x3FF00000, 1, 1 << 21),
    ),
    "dense_ex2": (
        Dense("ex2.approx.ftz.f32", 0x3F000000, 1, 2 * _M),  # [0.5, 2)
        Dense("ex2.approx.ftz.f32", 0xBF000000, 1, 2 * _M),  # (-2, -0.5]
    ),
    "dense_sqrt_lg2": (
        Dense("sqrt.approx.ftz.f32", 0x3F800000, 1, 2 * _M),
        Dense("lg2.approx.ftz.f32", 0x3F000000, 1, 2 * _M),  # [0.5, 2)
    ),
    "dense_sin_cos": (
        Dense("sin.approx.ftz.f32", 0, 0, 2 * _M),  # [0, 2): the first quadrant and a little more
        Dense("cos.approx.ftz.f32", 0, 0, 2 * _M),
    ),
    "dense_tanh": tuple(Dense("tanh.approx.f32", (127 + e) << 23, 4, _M // 4) for e in range(-9, 4)),
}
"""Name of each file of dense sweeps (no suffix), and the sweeps in it."""

DENSE: tuple[Dense, ...] = tuple(dense for group in FILES.values() for dense in group)


def dense_inputs(dense: Dense) -> npt.NDArray[np.uint32]:
    """The input words of a dense sweep (for f64 instructions: the high words)."""
    index = np.arange(dense.length, dtype=np.uint32)
    if dense.stride == 0:
        return (index.astype(np.float32) * np.float32(2.0**-23)).view(np.uint32)
    return np.uint32(dense.start) + index * np.uint32(dense.stride)


def sweep_operands(
    sweep: Sweep, kind: str, index: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The two operands, as 64-bit words, that a hashed sweep gives the instruction for each ``index``.

    Roles: "x", the only operand is the index (f64: its high word, the low word being that of ``mix(index)``); "over",
    index / fixed; "under", fixed / index; "scrambled", index / low word of ``mix(index * GOLDEN)``.
    """
    wide = index.astype(np.uint64)
    fixed = np.full_like(wide, sweep.fixed)
    low = np.uint64(0xFFFFFFFF)
    if sweep.role == "x":
        return (wide << np.uint64(32) | mix(wide) & low if kind == "f64" else wide), fixed
    if sweep.role == "over":
        return wide, fixed
    if sweep.role == "under":
        return fixed, wide
    return wide, mix(wide * np.uint64(GOLDEN)) & low


def _words32(stream: Stream) -> npt.NDArray[np.uint64]:
    """Float32 words worth a look: powers of two and their neighbours, subnormals, magnitudes near one, random bits."""
    sign, exponents = np.uint64(1 << 31), np.arange(256, dtype=np.uint64)[:, None] << np.uint64(23)
    near = (exponents + np.array([0, 1, 0x7FFFFF, 0x400000], dtype=np.uint64)).reshape(-1)
    subnormal = stream.bits(23, 256)
    moderate = stream.integers(119, 136, 4096).astype(np.uint64) << np.uint64(23)
    moderate |= stream.bits(23, 4096) | stream.bits(1, 4096) << np.uint64(31)
    return np.concatenate([near, near | sign, subnormal, subnormal | sign, moderate, stream.bits(32, 8192)])


def _words64(stream: Stream) -> npt.NDArray[np.uint64]:
    """Float64 words: all exponents with several mantissas, both signs, specials and random bits."""
    exponents = np.arange(2048, dtype=np.uint64)[:, None] << np.uint64(52)
    mantissas = np.array([0, 1, (1 << 52) - 1, 1 << 51, 1 << 32, (1 << 32) - 1, 0x5555555555555], dtype=np.uint64)
    near = (exponents + mantissas).reshape(-1)
    ordinary = stream.integers(0x3F0, 0x410, 4096).astype(np.uint64) << np.uint64(52) | stream.bits(52, 4096)
    return np.concatenate([near, near | np.uint64(1 << 63), stream.bits(64, 8192), ordinary])


def sample_inputs(form: Form) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Operands (64-bit words; the second is 0 where there is none) of the raw samples of one instruction."""
    stream = Stream(20261130)
    if form.kind == "half":
        first = np.arange(1 << 16, dtype=np.uint64)
    else:
        first = _words64(stream) if form.kind == "f64" else _words32(stream)
    if form.kind != "div":
        return first, np.zeros_like(first)
    seconds = [first[np.argsort(stream.words(len(first)), kind="stable")] for _ in range(3)]
    return np.concatenate([first, first, first]), np.concatenate(seconds)
