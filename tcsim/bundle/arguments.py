"""Kernel arguments as short strings, the same on the command line, in suite files and in bundles.

    argument  = [role " "] dtype [shape] [":" contents] ["@" seed]  |  tensor_map
    role      = "in" | "out" | "inout"
    shape     = "[" extent {"," extent} "]"            no shape: a scalar, passed by value
    contents  = number                                 of a scalar
              | generator ["(" [parameter {"," parameter}] ")"]

Examples: ``f16[1024,1024]:normal``, ``f32[4096]:uniform(-1,1)@7``, ``out f32[1024,1024]``, ``inout u32[1]:zeros``,
``i32:1024``, ``f32:0.5``, ``b32:0x7fc00000``, ``s8[64,64]:randint(-128,127)``, ``u8[16]:file(weights.bin)``, and
``tensor_map(a,box=64x32)`` for the map of argument ``a`` (:mod:`.tensor_maps`).

Types are in :mod:`.dtypes`, generators in :mod:`.generators`. An array that a kernel only writes (``out``) starts as zeros
unless it says otherwise. A random generator without ``@seed`` takes the argument's position, counted from 1.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from .dtypes import ALIASES, DTYPES, DType, find_dtype
from .errors import ArgumentError
from .floats import encode
from .generators import GENERATORS, Generator, Parameter, generate
from .tensor_maps import MapArgument, parse_map

__all__ = ["Argument", "Role", "parse_argument"]

Role = Literal["in", "out", "inout"]
ROLES: tuple[Role, ...] = ("in", "out", "inout")

MAX_BYTES = 1 << 38
"""Largest array that a specification may ask for, 256 GiB: beyond any GPU's memory, so surely a slip."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: a scalar (``shape`` is None, ``value`` holds it), an array filled by a generator, or a
    ``tensor_map`` (of bytes, ``shape`` None).

    ``value`` of a scalar is an int for integer types and a float for floats. ``seed`` is None where nothing is random.
    """

    dtype: DType
    shape: tuple[int, ...] | None
    role: Role = "in"
    name: str = ""
    value: int | float | None = None
    generator: str = ""
    parameters: tuple[Parameter, ...] = ()
    seed: int | None = None
    tensor_map: MapArgument | None = None

    @property
    def is_scalar(self) -> bool:
        return self.shape is None

    @property
    def is_output(self) -> bool:
        """Whether the array's contents after the launch are a result."""
        return self.role != "in"

    @property
    def size(self) -> int:
        """Number of elements (1 for a scalar)."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape is not None else 1

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.bytes

    @property
    def spec(self) -> str:
        """The specification in full: parsing it gives this argument again, whatever its position (role and name apart)."""
        if self.tensor_map is not None:
            return self.tensor_map.spec
        if self.shape is None:
            return f"{self.dtype.name}:{_number_text(cast('int | float', self.value))}"
        shape = ",".join(map(str, self.shape))
        parameters = ",".join(map(_number_text, self.parameters))
        contents = f"{self.generator}({parameters})" if self.parameters else self.generator
        return f"{self.dtype.name}[{shape}]:{contents}" + (f"@{self.seed}" if self.seed is not None else "")

    def array(self, folder: Path | None = None) -> NDArray[Any]:
        """An array argument's contents before the launch, in the dtype's storage type. ``folder``: where files are."""
        if self.shape is None:
            raise TypeError(f"{self.spec} is a scalar; use scalar()")
        return generate(self.dtype, self.shape, self.generator, self.parameters, self.seed or 0, folder)

    def scalar(self) -> np.generic:
        """A scalar argument as a NumPy scalar of exactly its width, as kernel launches take it."""
        if self.shape is not None or self.tensor_map is not None:
            raise TypeError(f"{self.spec} is no scalar")
        if self.dtype.kind == "float":
            made = encode(np.array([self.value], dtype=np.float64), self.dtype)
        else:
            made = np.array([int(cast(int, self.value)) % (1 << self.dtype.bits)], dtype=f"<u{self.dtype.bytes}")
        return cast(np.generic, made.view(self.dtype.storage)[0])


def parse_argument(text: str, position: int = 0, role: Role = "in", name: str = "") -> Argument:
    """Parse one specification.

    ``position`` (0-based, among the kernel's arguments) gives random generators their default seed, ``position + 1``. ``role``
    applies if the text does not begin with one. Raises :class:`ArgumentError`, which shows the offending part.
    """
    return _Parser(text).argument(position, role, name)


def _number_text(value: Parameter) -> str:
    return value if isinstance(value, str) else repr(value)


class _Parser:
    """One pass over the text, left to right. ``at`` is where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    # ------------------------------------------------------------------------------------------------- the grammar

    def argument(self, position: int, role: Role, name: str) -> Argument:
        self._blanks()
        role = self._role(role)
        if self.text.startswith("tensor_map(", self.at):
            return Argument(DTYPES["b8"], None, "in", name, tensor_map=parse_map(self.text[self.at :]))
        dtype = self._dtype()
        if not self._next_is("["):
            return self._scalar(Argument(dtype, None, role, name))
        argument = Argument(dtype, self._shape(dtype), role, name)
        generator: Generator = GENERATORS["zeros"]
        parameters: tuple[Parameter, ...] = ()
        start = self.at
        if self._next_is(":"):
            self.at += 1
            start = self.at
            generator, parameters = self._generator(dtype)
        elif role != "out":
            self._fail(
                start, start, f"nothing says what fills this {role!r} array", "try :zeros, :normal or :uniform(-1,1)"
            )
        self._check_fit(argument, generator, parameters, start)
        seed = self._seed()
        if seed is not None and not generator.random:
            self._fail(self.at - len(str(seed)) - 1, self.at, f"{generator.name!r} is not random and takes no seed")
        if seed is None and generator.random:
            seed = position + 1
        self._end()
        return replace(argument, generator=generator.name, parameters=parameters, seed=seed)

    def _role(self, role: Role) -> Role:
        first, blank, _ = self.text[self.at :].partition(" ")
        if not blank:
            return role
        for known in ROLES:
            if first == known:
                self.at += len(first)
                self._blanks()
                return known
        if first.isalpha():
            self._fail(self.at, self.at + len(first), f"unknown role {first!r}", _one_of(ROLES, first))
        return role

    def _dtype(self) -> DType:
        start, word = self.at, self._word()
        dtype = find_dtype(word)
        if dtype is None:
            problem = f"unknown type {word!r}" if word else "expected a type"
            self._fail(start, self.at, problem, _one_of([*DTYPES, *ALIASES], word))
        return dtype

    def _shape(self, dtype: DType) -> tuple[int, ...]:
        start = self.at
        close = self.text.find("]", start)
        if close < 0:
            self._fail(start, len(self.text), "this '[' is never closed", "a shape is [extent] or [rows,columns,...]")
        extents = []
        at = start + 1
        for piece in self.text[start + 1 : close].split(","):
            digits = piece.strip()
            if not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
                self._fail(at, at + len(piece), f"{digits!r} is not an extent", "an extent is a whole number above 0")
            extents.append(int(digits))
            at += len(piece) + 1
        self.at = close + 1
        total = dtype.bytes
        for extent in extents:
            total *= extent
        if total > MAX_BYTES:
            self._fail(start, self.at, f"an array of {total:.3g} bytes", f"at most {MAX_BYTES} bytes are allowed")
        return tuple(extents)

    def _scalar(self, argument: Argument) -> Argument:
        dtype = argument.dtype
        if argument.is_output:
            self._fail(
                0, self.at, f"a scalar cannot be {argument.role!r}", "only arrays carry results; give it a shape: [1]"
            )
        if not self._next_is(":"):
            self._fail(
                self.at, self.at, f"a scalar {dtype.name} needs a value", f"try {dtype.name}:1, or a shape: [1024]"
            )
        self.at += 1
        start = self.at
        piece = self.text[start:].rstrip()
        self.at = len(self.text)
        if piece.partition("(")[0] in GENERATORS:
            self._fail(
                start,
                start + len(piece),
                "a scalar takes a number, not a generator",
                "for an array give a shape: [1024]",
            )
        return replace(argument, value=self._element(piece, start, dtype))

    def _generator(self, dtype: DType) -> tuple[Generator, tuple[Parameter, ...]]:
        start, word = self.at, self._word()
        generator = GENERATORS.get(word)
        if generator is None:
            problem = f"unknown generator {word!r}" if word else "expected a generator"
            hint = _one_of(GENERATORS, word)
            if not word:
                hint += "; to fill an array with one number, const(number)"
            self._fail(start, self.at, problem, hint)
        if dtype.kind not in generator.kinds:
            other = "use randint(low,high)" if generator.name == "uniform" else "use an integer type"
            self._fail(start, self.at, f"{generator.name!r} does not make {dtype.name} elements", other)
        given: list[Parameter] = []
        if self._next_is("("):
            close = self.text.find(")", self.at)
            if close < 0:
                self._fail(self.at, len(self.text), "this '(' is never closed")
            inside, at = self.text[self.at + 1 : close], self.at + 1
            for piece in inside.split(",") if inside.strip() else []:
                if len(given) == len(generator.parameters):
                    self._fail(at, at + len(piece), f"one parameter too many: {piece.strip()!r}", _usage(generator))
                given.append(self._parameter(piece, at, generator, dtype))
                at += len(piece) + 1
            self.at = close + 1
        for parameter, default in generator.parameters[len(given) :]:
            if default is None:
                self._fail(start, self.at, f"{generator.name!r} lacks its parameter {parameter!r}", _usage(generator))
            given.append(default)
        return generator, tuple(given)

    def _parameter(self, piece: str, at: int, generator: Generator, dtype: DType) -> Parameter:
        stripped = piece.strip()
        if generator.numbers == "file":
            if not stripped:
                self._fail(at, at + len(piece), "the file's name is missing", _usage(generator))
            return stripped
        whole = _whole(stripped)
        if whole is not None:
            return whole
        if generator.numbers == "integer" or (generator.numbers == "element" and dtype.kind != "float"):
            self._fail(at, at + len(piece), f"{stripped!r} is not a whole number", _usage(generator))
        return self._real(stripped, at)

    def _seed(self) -> int | None:
        if not self._next_is("@"):
            return None
        start = self.at
        self.at += 1
        digits = self._word()
        if not (digits.isascii() and digits.isdigit()) or int(digits) >= 1 << 64 or str(int(digits)) != digits:
            self._fail(
                start, max(self.at, start + 1), "expected a seed after '@'", "a seed is a whole number below 2^64"
            )
        return int(digits)

    def _check_fit(
        self, argument: Argument, generator: Generator, parameters: tuple[Parameter, ...], start: int
    ) -> None:
        """Refuse integers that the element type cannot hold, where the text alone decides it."""
        dtype = argument.dtype
        if generator.name == "randint":
            low, high = int(parameters[0]), int(parameters[1])
            if low > high:
                self._fail(start, self.at, f"the range {low}..{high} is empty", _usage(generator))
            if high - low >= 1 << 64:
                self._fail(start, self.at, "the range is wider than 64 bits", _usage(generator))
            if dtype.kind == "float":
                if max(abs(low), abs(high)) > 1 << 53:
                    self._fail(start, self.at, "integers beyond 2^53 are not exact as floats", "use a smaller range")
                return
            smallest, largest = dtype.integer_range()
            if low < smallest or high > largest:
                self._fail(
                    start, self.at, f"{low}..{high} does not fit {dtype.name}", f"it holds {smallest}..{largest}"
                )
        elif generator.name == "const" and dtype.kind != "float":
            smallest, largest = dtype.integer_range()
            if not smallest <= int(parameters[0]) <= largest:
                self._fail(
                    start, self.at, f"{parameters[0]} does not fit {dtype.name}", f"it holds {smallest}..{largest}"
                )
        elif generator.name == "permutation" and argument.size - 1 > dtype.integer_range()[1]:
            self._fail(
                start, self.at, f"indices of {argument.size} elements do not fit {dtype.name}", "use a wider type"
            )

    # ------------------------------------------------------------------------------------------------- its pieces

    def _element(self, piece: str, at: int, dtype: DType) -> int | float:
        """A number of type ``dtype``."""
        if dtype.kind == "float":
            number = _whole(piece) if not piece.lower().lstrip("+-").startswith("0x") else None
            return float(number) if number is not None else self._real(piece, at)
        whole = _whole(piece)
        if whole is None:
            self._fail(
                at,
                at + len(piece),
                f"{piece!r} is not a whole number",
                f"{dtype.name} holds integers, such as 5 or 0xff",
            )
        smallest, largest = dtype.integer_range()
        if not smallest <= whole <= largest:
            self._fail(at, at + len(piece), f"{piece} does not fit {dtype.name}", f"it holds {smallest}..{largest}")
        return whole

    def _real(self, piece: str, at: int) -> float:
        try:
            if "_" in piece:
                raise ValueError
            return float(piece)
        except ValueError:
            self._fail(at, at + len(piece), f"{piece!r} is not a number", "such as 0.5, -1e-3 or inf")

    def _word(self) -> str:
        start = self.at
        while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] == "_"):
            self.at += 1
        return self.text[start : self.at]

    def _blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1

    def _next_is(self, character: str) -> bool:
        return self.text.startswith(character, self.at)

    def _end(self) -> None:
        if self.text[self.at :].strip():
            self._fail(self.at, len(self.text), f"unexpected {self.text[self.at :].strip()!r} after the argument")

    def _fail(self, start: int, end: int, problem: str, hint: str = "") -> NoReturn:
        raise ArgumentError(self.text, start, end, problem, hint)


def _whole(piece: str) -> int | None:
    """The integer that ``piece`` spells (decimal, 0x, 0b or 0o), or None."""
    try:
        return int(piece, 0) if "_" not in piece else None
    except ValueError:
        return None


def _one_of(allowed: Iterable[str], word: str) -> str:
    names = list(allowed)
    close = difflib.get_close_matches(word, names, 1)
    return f"one of {', '.join(names)}" + (f"; did you mean {close[0]!r}?" if close else "")


def _usage(generator: Generator) -> str:
    shown = [name if default is None else f"{name}={default}" for name, default in generator.parameters]
    return f"it is written {generator.name}({','.join(shown)})" if shown else f"it is written {generator.name}"
