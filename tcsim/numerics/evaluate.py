"""One scalar instruction on numbers: :func:`evaluate`. It runs the very kernel that executed code runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import isa.instructions  # noqa: F401  (fills the registry)
from isa.kernels.lanes import Words, run_lanes
from isa.spec.enumerate import scalar_instructions
from isa.spec.registry import Form, ResolvedOperand, find
from isa.tensor.formats import FLOAT_FORMATS
from isa.types import scalar_type
from tcsim.array import asnumpy
from tcsim.device import Device
from tcsim.errors import TcsimError
from tcsim.numerics.describe import how_known
from tcsim.numerics.instructions import device_sm
from tcsim.numerics.operands import OperandError
from tcsim.numerics.scalars import bits_text, read_numbers, value_of

__all__ = ["Evaluation", "evaluate"]

_VALUES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_SHOWN = 32  # rows of a text


@dataclass(frozen=True)
class Evaluation:
    """An instruction's results. ``operands`` and ``bits`` are words by the operand's name, as unsigned integers."""

    form: Form
    device: str
    operands: dict[str, Words]
    bits: dict[str, Words]
    shape: tuple[int, ...]

    @property
    def known(self) -> str:
        """How it is known that hardware returns these."""
        return how_known(self.form)

    @property
    def results(self) -> dict[str, NDArray[Any]]:
        """The results in NumPy's types where it, or ``ml_dtypes``, has them; packed ones as unsigned integers."""
        types = {operand.name: operand for operand in self.form.destinations}
        return {name: _values(words, types[name]).reshape(self.shape) for name, words in self.bits.items()}

    @property
    def result(self) -> NDArray[Any]:
        """The first result, which most instructions have alone."""
        return next(iter(self.results.values()))

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able data: words in hexadecimal."""
        words = {**self.operands, **self.bits}
        rows = {name: [hex(int(word)) for word in column] for name, column in words.items()}
        return {"instruction": self.form.name, "device": self.device, "known": self.known, "words": rows}

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        types = {operand.name: operand.type.name for operand in self.form.operands}
        words = {**self.operands, **self.bits}
        count = len(next(iter(words.values())))
        lines = [f"{self.form.name} on {self.device}", f"  {self.known}"]
        for row in range(min(count, _SHOWN)):
            lines += [""] if count > 1 else []
            lines += [f"  {name:<6}{_text(int(column[row]), types[name])}" for name, column in words.items()]
        return "\n".join([*lines, f"  ... and {count - _SHOWN} more"] if count > _SHOWN else lines)


def evaluate(opcode: str, *operands: Any, carry: Any = False, device: str | Device | None = None) -> Evaluation:
    """What a scalar instruction returns: ``tcsim.evaluate("fma.rn.ftz.f32", 1.5, x, "0x7f800001").result``.

    opcode: as PTX spells it. operands: its sources in PTX's order, each a number, a text such as ``"0x3c00"`` (bits), or an
    array of the type or of its bits; arrays have one shape. Numbers are rounded to the type, to nearest. Of packed types the
    bits, or a pair of numbers, the lower half first. carry: ``CC.CF`` for instructions that read it. device: as for
    :class:`tcsim.Device`; without one, the current device.

    Raises TcsimError for an opcode that is no scalar instruction or that the device does not have, OperandError for operands
    that do not fit.
    """
    name, sm = device_sm(device)
    form = _form(opcode.strip().removesuffix(";"), len(operands), name, sm)
    hidden = form.instruction.hidden
    given = iter(operands)
    columns = [_words(carry if o.name in hidden else next(given), o) for o in form.sources]
    shapes = {words.shape for words in columns if words.ndim}
    if len(shapes) > 1:
        raise OperandError(f"{form.name}: operands have the shapes {' and '.join(map(str, sorted(shapes)))}; give one shape")
    shape = shapes.pop() if shapes else ()
    if 0 in shape:
        raise OperandError(f"{form.name}: operands have no elements")
    flat = [np.ascontiguousarray(np.broadcast_to(words, shape)).reshape(-1) for words in columns]
    results = run_lanes(form, flat)
    bits = {
        o.name: words & np.uint64((1 << o.type.bits) - 1) for o, words in zip(form.destinations, results, strict=True)
    }
    shown = dict(zip((o.name for o in form.sources), flat, strict=True))
    return Evaluation(form, name, shown, bits, shape)


def _form(opcode: str, count: int, device: str, sm: int) -> Form:
    found, reason = find(opcode)
    if not found:
        raise TcsimError(f"{opcode}: {reason}")
    entries = {id(entry) for entry in scalar_instructions("oob", "beyond")}
    scalar = [f for f in found if id(f.instruction) in entries and not any(o.is_vector for o in f.sources)]
    if not scalar:
        raise TcsimError(
            f"{opcode} cannot be run by itself, on numbers alone: run it in a kernel (matrix instructions: tcsim.explain, "
            "tcsim.matmul)"
        )
    here = [f for f in scalar if _has(f, sm)]
    if not here:
        targets = scalar[0].instruction.targets
        where = " and ".join(targets) + " only" if targets else f"sm_{min(f.instruction.sm for f in scalar)} or later"
        raise TcsimError(f"{opcode} exists on {where}, and {device} is sm_{sm} (PTX ISA {scalar[0].instruction.section})")
    fitting = [f for f in here if sum(o.name not in f.instruction.hidden for o in f.sources) == count]
    if not fitting:
        names = " or ".join(
            ", ".join(f"{o.name} ({o.type.name})" for o in f.sources if o.name not in f.instruction.hidden) for f in here
        )
        raise OperandError(f"{opcode} takes {names}; {count} operands were given")
    return min(fitting, key=lambda f: len(f.destinations))


def _has(form: Form, sm: int) -> bool:
    targets = form.instruction.targets
    return sm >= form.instruction.sm and (not targets or any(t[3:].rstrip("af") == str(sm) for t in targets))


# ------------------------------------------------------------------------------------------------------------ operands


def _words(value: Any, operand: ResolvedOperand) -> Words:
    """The bits of an operand, an array or (of no dimension) a single word."""
    kind, bits, name = operand.type, operand.type.bits, operand.name
    if kind.kind == "p":
        return np.asarray(asnumpy(value)).astype(bool).astype(np.uint64)
    array = asnumpy(value) if hasattr(value, "dtype") else None
    if array is not None:
        return _of_array(np.asarray(array), operand)
    element = kind.name.removesuffix("x2")
    if isinstance(value, Sequence) and not isinstance(value, str):
        if element == kind.name or len(value) != 2:
            raise OperandError(f"{name} is {kind.name}: give a number, bits such as 0x3c00, or an array")
        low, high = (int(_number(part, element, name)) for part in value)
        return np.asarray(np.uint64(high << (bits // 2) | low))
    return np.asarray(np.uint64(_number(value, kind.name, name, bits)))


def _number(value: Any, type_name: str, name: str, bits: int = 64) -> int:
    if type_name in FLOAT_FORMATS or type_name == "f64":
        return read_numbers([value], type_name, name)[0][0]
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)
        exact = isinstance(value, str) or number == value
    except (TypeError, ValueError):
        exact = False
    signed = type_name.startswith("s")
    is_bits = isinstance(value, str) and value.strip().lower().startswith("0x")
    highest = (1 << (bits - 1) if signed and not is_bits else 1 << bits) - 1
    if not exact or not -(1 << (bits - 1)) <= number <= highest:
        packed = " (or a pair of numbers)" if "x" in type_name else ""
        raise OperandError(f"{name} = {value!r} is no {type_name}: whole numbers to {highest}, or bits such as 0x3c00{packed}")
    return number & ((1 << bits) - 1)


def _of_array(array: NDArray[Any], operand: ResolvedOperand) -> Words:
    kind, bits = operand.type, operand.type.bits
    accepted = {f"uint{bits}"} | ({f"int{bits}"} if kind.kind in "usb" else set())
    if kind.name in _VALUES:
        accepted.add(np.dtype(_VALUES[kind.name]).name)
    if array.dtype.name not in accepted:
        raise OperandError(f"{operand.name} is {array.dtype.name}, and {kind.name} takes {' or '.join(sorted(accepted))}")
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    words: Words = plain.view(f"u{plain.dtype.itemsize}").astype(np.uint64).reshape(array.shape)
    return words


# ------------------------------------------------------------------------------------------------------------- results


def _values(words: Words, operand: ResolvedOperand) -> NDArray[Any]:
    kind = operand.type
    if kind.kind == "p":
        return words.astype(bool)
    unsigned = words.astype(f"u{max(1, kind.bits // 8)}")
    if kind.name in _VALUES:
        return unsigned.view(_VALUES[kind.name])
    return unsigned.view(f"i{kind.bits // 8}") if kind.kind == "s" else unsigned


def _text(word: int, type_name: str) -> str:
    """Value and bits; of a pair the lower half first."""
    if type_name == "pred":
        return str(bool(word)).lower()
    element = type_name.removesuffix("x2")
    if element in FLOAT_FORMATS or element == "f64":
        if element != type_name:
            half, mask = scalar_type(type_name).bits // 2, (1 << FLOAT_FORMATS[element].bits) - 1
            low, high = value_of(word & mask, element), value_of(word >> half & mask, element)
            return f"{low!r}, {high!r}  ({word:#0{half // 2 + 2}x})"
        return f"{value_of(word, element)!r}  ({bits_text(word, element)})"
    bits = int("".join(filter(str.isdigit, type_name.partition("x")[0])) or 0)
    signed = type_name.startswith("s") and "x" not in type_name
    value = word - (1 << bits) if signed and bits and word >> (bits - 1) else word
    return f"{value}  ({word:#x})"
