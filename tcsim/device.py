"""Devices: a GPU to simulate, its memory, and which one is current."""

from __future__ import annotations

import re
from contextvars import ContextVar, Token
from types import TracebackType
from typing import ClassVar, Literal

from tcsim.arch import Arch, find_arch
from tcsim.errors import DeviceError
from tcsim.memory import DeviceMemory

__all__ = ["Device", "current_device"]

DEFAULT = "h200"


class Device:
    """A simulated GPU: ``with tcsim.Device("a100"): ...`` makes it current, as in CuPy.

    ``name`` is a product, an architecture or a target, ``h200``, ``hopper``, ``sm_90``, or a file that describes a GPU,
    ``mine.toml`` (:func:`tcsim.arch.find_arch`). The same
    name always gives the same device, with the same memory. ``execute``: run a kernel's ``"ptx"``, or the ``"machine"`` code
    that an installed ptxas makes of it (both on the same memory). Raises DeviceError for an unknown name.
    """

    _all: ClassVar[dict[tuple[str, str], Device]] = {}
    arch: Arch
    execute: Literal["ptx", "machine"]
    memory: DeviceMemory
    _tokens: list[Token[Device | None]]

    def __new__(cls, name: str = DEFAULT, *, execute: Literal["ptx", "machine"] = "ptx") -> Device:
        arch = find_arch(name)
        if execute not in ("ptx", "machine"):
            raise DeviceError(f"Device(execute={execute!r}): 'ptx' or 'machine'")
        device = cls._all.get((arch.name, execute))
        if device is None:
            device = object.__new__(cls)
            device.arch, device.execute = arch, execute
            twin = cls._all.get((arch.name, "machine" if execute == "ptx" else "ptx"))
            device.memory = twin.memory if twin is not None else DeviceMemory(arch.memory.bytes)
            device._tokens = []
            cls._all[arch.name, execute] = device
        return device

    @property
    def name(self) -> str:
        """Canonical name, such as ``h200``."""
        return self.arch.name

    @property
    def compute_capability(self) -> str:
        """As in CuPy: ``"90"``."""
        return str(self.arch.sm)

    def use(self) -> None:
        """Make this the current device."""
        _current.set(self)

    def __enter__(self) -> Device:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        _current.reset(self._tokens.pop())

    def __repr__(self) -> str:
        what = ", running machine code" if self.execute == "machine" else ""
        return f"<tcsim.Device {self.name!r}: {self.arch.full_name}, sm_{self.arch.sm}{what}>"

    def can_run(self, target: str) -> bool:
        """Whether code for a PTX ``.target`` runs here.

        Plain targets run on every later architecture; ``a`` targets only on their own, ``f`` targets within their family (PTX
        ISA 11.1.2).
        """
        match = re.fullmatch(r"sm_(\d+)([af]?)", target)
        if match is None:
            return False
        sm, suffix = int(match[1]), match[2]
        if suffix == "a":
            return sm == self.arch.sm
        if suffix == "f":
            return sm // 10 == self.arch.sm // 10 and sm <= self.arch.sm
        return sm <= self.arch.sm


_current: ContextVar[Device | None] = ContextVar("tcsim_device", default=None)


def current_device() -> Device:
    """The device that arrays and modules are made on: the innermost ``with tcsim.Device(...)``, else an H200."""
    return _current.get() or Device(DEFAULT)
