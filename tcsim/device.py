"""Devices: a GPU to simulate, its memory, and which one is current."""

from __future__ import annotations

import re
from contextvars import ContextVar, Token
from types import TracebackType
from typing import ClassVar

from tcsim.arch import Arch, find_arch
from tcsim.memory import DeviceMemory

__all__ = ["Device", "current_device"]

DEFAULT = "h200"


class Device:
    """A simulated GPU: ``with tcsim.Device("a100"): ...`` makes it current, as in CuPy.

    ``name`` is a product, an architecture or a target: ``h200``, ``hopper``, ``sm_90`` (:func:`tcsim.arch.find_arch`). The same
    name always gives the same device, with the same memory. Raises DeviceError for an unknown name.
    """

    _all: ClassVar[dict[str, Device]] = {}
    arch: Arch
    memory: DeviceMemory
    _tokens: list[Token[Device | None]]

    def __new__(cls, name: str = DEFAULT) -> Device:
        arch = find_arch(name)
        device = cls._all.get(arch.name)
        if device is None:
            device = object.__new__(cls)
            device.arch = arch
            device.memory = DeviceMemory(arch.memory.bytes)
            device._tokens = []
            cls._all[arch.name] = device
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
        return f"<tcsim.Device {self.name!r}: {self.arch.full_name}, sm_{self.arch.sm}>"

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
