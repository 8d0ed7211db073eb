"""Array contents from a generator's name and a seed, the same bytes on every machine and with every NumPy version.

Random generators draw 64-bit words from Philox4x64-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11)
with key = seed and a counter that starts at 1: ``numpy.random.Philox(key=seed).random_raw()``, whose stream NumPy promises
not to change (NEP 19). Everything after that is integer arithmetic and correctly rounded IEEE operations, written out here,
because NumPy does not promise stable streams for ``normal`` and the like, and log and cos differ between math libraries.

Element i of an array (row-major order) uses the words below; w is such a word.

==============  =======  ============================================================================================
generator       words    value
==============  =======  ============================================================================================
bits            1 each   the bytes of the stream, little-endian, cut into elements: any bit pattern, NaNs included
uniform(a,b)    1        a + (b - a) * (w >> 11) / 2^53, in f64
normal(m,s)     6        m + s * (sum of the twelve 32-bit halves - 6 * (2^32 - 1)) / 2^32, in f64: mean 0, variance 1,
                         |z| <= 6 (Irwin-Hall), never more than 53 bits long
randint(a,b)    1        a + w mod (b - a + 1), both ends included
permutation     1        the rank of w among all elements' words: each number below the size once
==============  =======  ============================================================================================

``arange(start,step)``, ``const(v)``, ``zeros``, ``ones`` and ``file(name)`` need no seed. Real values are rounded once to the
element type, as :func:`.floats.encode` says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .dtypes import DType
from .errors import BundleError
from .floats import encode

__all__ = ["GENERATORS", "Generator", "Parameter", "generate", "random_words"]

Parameter = int | float | str

_CHUNK = 1 << 18  # elements at a time: bounds the memory of the generators that need several words each


@dataclass(frozen=True, slots=True)
class Generator:
    """What a generator takes: ``parameters`` are names with defaults (None: required), ``kinds`` the element kinds it fills.

    ``numbers`` says what its parameters are: any real numbers, integers only, numbers as the element type has them, or the
    name of a file.
    """

    name: str
    parameters: tuple[tuple[str, int | float | None], ...]
    kinds: tuple[str, ...]
    random: bool
    numbers: Literal["real", "integer", "element", "file"]


_ALL = ("float", "signed", "unsigned", "bits")
_INTEGERS = ("signed", "unsigned", "bits")

GENERATORS: dict[str, Generator] = {
    g.name: g
    for g in [
        Generator("arange", (("start", 0), ("step", 1)), _ALL, False, "element"),
        Generator("bits", (), _ALL, True, "real"),
        Generator("const", (("value", None),), _ALL, False, "element"),
        Generator("file", (("name", None),), _ALL, False, "file"),
        Generator("normal", (("mean", 0), ("deviation", 1)), _ALL, True, "real"),
        Generator("ones", (), _ALL, False, "real"),
        Generator("permutation", (), _INTEGERS, True, "real"),
        Generator("randint", (("low", None), ("high", None)), _ALL, True, "integer"),
        Generator("uniform", (("low", 0), ("high", 1)), ("float",), True, "real"),
        Generator("zeros", (), _ALL, False, "real"),
    ]
}
"""Every generator by its name."""


def random_words(seed: int, count: int, skip: int = 0) -> NDArray[np.uint64]:
    """``count`` words of the stream of ``seed``, after the first ``skip`` (a multiple of 4)."""
    stream = np.random.Philox(key=seed)
    if skip:
        stream.advance(skip // 4)  # one counter step makes four words
    return np.asarray(stream.random_raw(count), dtype=np.uint64)


def generate(
    dtype: DType,
    shape: tuple[int, ...],
    name: str,
    parameters: tuple[Parameter, ...] = (),
    seed: int = 0,
    folder: Path | None = None,
) -> NDArray[Any]:
    """The array of ``shape`` that generator ``name`` makes, in ``dtype``'s storage type.

    ``folder`` is where ``file(name)`` looks. Raises :class:`BundleError` if that file is missing or of another size.
    """
    size = int(np.prod(shape, dtype=np.int64))
    if name == "file":
        return _from_file(dtype, size, str(parameters[0]), folder).reshape(shape)
    if name == "bits":
        words = random_words(seed, -(-size * dtype.bytes // 8))
        return np.frombuffer(words.astype("<u8").tobytes(), dtype=dtype.storage, count=size).reshape(shape).copy()
    if name == "permutation":
        ranks = np.empty(size, dtype=np.int64)
        ranks[np.argsort(random_words(seed, size), kind="stable")] = np.arange(size)
        return ranks.astype(dtype.storage).reshape(shape)
    if name in _CONSTANT:
        return _CONSTANT[name](dtype, size, parameters).reshape(shape)
    flat = np.empty(size, dtype=dtype.storage)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # absurd parameters give infinities and NaNs, which is what they ask for
        for start in range(0, size, _CHUNK):
            count = min(_CHUNK, size - start)
            flat[start : start + count] = _RANDOM[name](dtype, count, start, seed, parameters)
    return flat.reshape(shape)


def _uniform(dtype: DType, count: int, start: int, seed: int, parameters: tuple[Parameter, ...]) -> NDArray[Any]:
    low, high = (float(p) for p in parameters)
    fraction = (random_words(seed, count, start) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return encode(low + (high - low) * fraction, dtype)


def _normal(dtype: DType, count: int, start: int, seed: int, parameters: tuple[Parameter, ...]) -> NDArray[Any]:
    mean, deviation = (float(p) for p in parameters)
    words = random_words(seed, count * 6, start * 6).reshape(count, 6)
    halves = (words & np.uint64(0xFFFFFFFF)).sum(axis=1) + (words >> np.uint64(32)).sum(axis=1)
    centred = (halves.astype(np.int64) - 6 * 0xFFFFFFFF).astype(np.float64) * 2.0**-32
    return encode(mean + deviation * centred, dtype)


def _randint(dtype: DType, count: int, start: int, seed: int, parameters: tuple[Parameter, ...]) -> NDArray[Any]:
    low, high = (int(p) for p in parameters)
    words = random_words(seed, count, start)
    values = words if high - low + 1 == 1 << 64 else words % np.uint64(high - low + 1)
    values = values + np.uint64(low % (1 << 64))  # wraps: two's complement
    if dtype.kind == "float":
        return encode(values.view(np.int64).astype(np.float64), dtype)
    return values.astype(dtype.storage)


def _arange(dtype: DType, size: int, parameters: tuple[Parameter, ...]) -> NDArray[Any]:
    first, step = parameters
    if dtype.kind == "float":
        with np.errstate(over="ignore"):
            return encode(float(first) + float(step) * np.arange(size, dtype=np.float64), dtype)
    offset = np.uint64(int(first) % (1 << 64))
    return (np.arange(size, dtype=np.uint64) * np.uint64(int(step) % (1 << 64)) + offset).astype(dtype.storage)


def _const(dtype: DType, size: int, parameters: tuple[Parameter, ...]) -> NDArray[Any]:
    (value,) = parameters
    if dtype.kind == "float":
        return encode(np.full(size, float(value)), dtype)
    return np.full(size, int(value) % (1 << dtype.bits), dtype=f"<u{dtype.bytes}").view(dtype.storage)


_RANDOM: dict[str, Callable[[DType, int, int, int, tuple[Parameter, ...]], NDArray[Any]]] = {
    "normal": _normal,
    "randint": _randint,
    "uniform": _uniform,
}
_CONSTANT: dict[str, Callable[[DType, int, tuple[Parameter, ...]], NDArray[Any]]] = {
    "arange": _arange,
    "const": _const,
    "ones": lambda dtype, size, _: _const(dtype, size, (1,)),
    "zeros": lambda dtype, size, _: _const(dtype, size, (0,)),
}


def _from_file(dtype: DType, size: int, name: str, folder: Path | None) -> NDArray[Any]:
    path = (folder or Path()) / name
    if not path.is_file():
        raise BundleError(f"file({name}): there is no file {path}")
    data = np.load(path).tobytes() if path.suffix == ".npy" else path.read_bytes()
    if len(data) != size * dtype.bytes:
        raise BundleError(
            f"file({name}): {path} holds {len(data)} bytes, but {size} elements of {dtype.name} are {size * dtype.bytes} bytes"
        )
    return np.frombuffer(data, dtype=dtype.storage).copy()
