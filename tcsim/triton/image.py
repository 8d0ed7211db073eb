"""One compiled kernel: its PTX, lowered when it is first needed."""

from __future__ import annotations

import re

from tcsim.device import Device
from tcsim.errors import UnsupportedError
from tcsim.module import Function, RawModule

__all__ = ["Image"]

_LATER = re.compile(r"^(tcgen05|clusterlaunchcontrol|cp\.async\.bulk)\b")


class Image:
    """The kernel ``name`` of a PTX text, for one device."""

    def __init__(self, name: str, ptx: str, device: Device) -> None:
        self.name, self.ptx, self.device = name, ptx, device
        self._functions: dict[bool, Function] = {}

    def function(self, fmad: bool = True) -> Function:
        """The kernel, with multiplies and adds contracted or not. Raises UnsupportedError with what to try."""
        if fmad not in self._functions:
            self._functions[fmad] = self._lower(fmad)
        return self._functions[fmad]

    def _lower(self, fmad: bool) -> Function:
        with self.device:
            try:
                return RawModule(code=self.ptx, fmad=fmad).get_function(self.name)
            except UnsupportedError as problem:
                raise UnsupportedError(list(problem.items), self._advice(problem)) from None

    def _advice(self, problem: UnsupportedError) -> str:
        target = re.search(r"^\s*\.target\s+(\w+)", self.ptx, re.MULTILINE)
        what = f"Triton kernel {self.name}, compiled for {target[1] if target else self.device.name}"
        found = sorted({match[1] for item in problem.items if (match := _LATER.match(item.what))})
        if not found or self.device.arch.sm < 90:
            return what
        return (
            f"{what}, uses {', '.join(found)}, which tcsim does not simulate. Compile for an architecture without them: "
            f"tcsim.triton.activate({self.device.name!r}, target='sm_80'), or activate('h200')\n{self.name}"
        )
