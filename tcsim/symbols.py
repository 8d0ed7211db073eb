"""Module variables (``.global``, ``.const``) in device memory, with their initial values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from isa.lower.callgraph import function_addresses
from isa.lower.scopes import OPAQUE, variable_bytes
from isa.ptx import ast
from isa.ptx.initializers import evaluate
from tcsim.errors import TcsimError
from tcsim.memory import Allocation, DeviceMemory

__all__ = ["GlobalVariable", "ModuleVariables"]


@dataclass(frozen=True)
class GlobalVariable:
    """A module variable on a device: its address and size in bytes."""

    name: str
    ptr: int
    nbytes: int
    _allocation: Allocation = field(repr=False)

    def get(self, dtype: DTypeLike = np.uint8) -> NDArray[Any]:
        """A NumPy copy of its contents, one-dimensional."""
        return self._allocation.data[: self.nbytes].view(dtype).copy()

    def set(self, values: ArrayLike) -> None:
        """Overwrite its first bytes, as ``cudaMemcpyToSymbol`` does. Raises TcsimError if they are too many."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        if len(data) > self.nbytes:
            raise TcsimError(f"variable {self.name} has {self.nbytes} bytes; {len(data)} given")
        self._allocation.data[: len(data)] = data


class ModuleVariables:
    """All variables of a module on one device. ``addresses``: name to device address, of variables and functions.
    ``constants``: int64 [n, 2], where each ``.const`` variable begins and ends."""

    def __init__(self, tree: ast.Module, memory: DeviceMemory) -> None:
        self.memory = memory
        self._allocations: dict[str, Allocation] = {}
        spaces = ("global", "const")
        variables = [v for v in tree.variables if v.space in spaces and v.linkage != "extern" and v.type not in OPAQUE]
        for variable in variables:
            self._allocations[variable.name] = memory.allocate(variable_bytes(variable))
        ranges = [(a.start, a.start + a.nbytes) for a in (self._allocations[v.name] for v in variables if v.space == "const")]
        self.constants = np.array(ranges, np.int64).reshape(-1, 2)
        self.addresses = {name: allocation.start for name, allocation in self._allocations.items()}
        self.addresses |= function_addresses(tree)
        for variable in variables:
            if variable.init is not None:
                self._initialise(variable)

    def _initialise(self, variable: ast.Variable) -> None:
        data, relocations = evaluate(variable)
        buffer = bytearray(data)
        for relocation in relocations:
            if relocation.symbol not in self.addresses:
                raise TcsimError(f"variable {variable.name} (line {variable.line}) refers to the unknown {relocation.symbol}")
            value = self.addresses[relocation.symbol] + relocation.addend
            if relocation.mask is not None:  # one byte of the address (PTX ISA 5.4.4)
                value = (value & relocation.mask) // (relocation.mask // 0xFF)
            width = relocation.width
            buffer[relocation.offset : relocation.offset + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        target = self._allocations[variable.name].data
        target[: len(buffer)] = np.frombuffer(bytes(buffer), np.uint8)

    def find(self, name: str) -> GlobalVariable:
        """Raises TcsimError if the module has no such variable."""
        allocation = self._allocations.get(name)
        if allocation is None:
            raise TcsimError(f"no variable {name!r} in this module; it has {', '.join(self._allocations) or 'none'}")
        return GlobalVariable(name, allocation.start, allocation.nbytes, allocation)
