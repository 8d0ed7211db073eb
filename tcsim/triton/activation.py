"""Switching Triton over to a simulated GPU, and back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tcsim.device import Device, current_device
from tcsim.errors import DeviceError, TcsimError
from tcsim.triton.bench import do_bench, no_graphs

__all__ = ["activate", "deactivate"]

OLDEST = (3, 4)
"""Triton's first version with the launcher protocol that :mod:`tcsim.triton.launcher` speaks."""


@dataclass
class _Replaced:
    """What Triton had before: its driver, and attributes of its objects as (object, name, value)."""

    driver: Any
    device: Device
    attributes: list[tuple[Any, str, Any]] = field(default_factory=list)
    backend: Any = None

    def replace(self, owner: Any, name: str, value: Any) -> None:
        self.attributes.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def restore(self) -> None:
        for owner, name, value in reversed(self.attributes):
            setattr(owner, name, value)
        self.attributes.clear()


_replaced: _Replaced | None = None


def activate(device: str | Device = "h200", *, target: str | int | None = None) -> Device:
    """Run all Triton launches from now on in tcsim, and make ``device`` current; returns it.

    ``target``: compile for another architecture than the device's own, such as ``"sm_80"`` on an H200, to compare the two.
    Calling it again changes the device. Raises TcsimError if Triton is missing, too old or in interpreter mode, DeviceError for
    an unknown device or a target that it cannot run.
    """
    global _replaced
    _require_triton()
    chosen = device if isinstance(device, Device) else Device(device)
    sm = _target(chosen, target)

    from tcsim.triton.driver import SimulatorDriver

    triton_driver = _driver_config()
    if _replaced is None:
        _replaced = _Replaced(_selected(triton_driver), current_device())
        _patch(_replaced)
    triton_driver.set_active(SimulatorDriver(chosen, sm))
    chosen.use()
    return chosen


def deactivate() -> None:
    """Give Triton its previous driver back, and tcsim its previous current device. Does nothing if tcsim is not active."""
    global _replaced
    if _replaced is None:
        return
    from triton.backends import backends

    from tcsim.triton.tensors import unload_kernels

    unload_kernels()
    _replaced.restore()
    backends["nvidia"] = _replaced.backend
    _driver_config().set_active(_replaced.driver)
    _replaced.device.use()
    _replaced = None


def _require_triton() -> None:
    try:
        import triton
    except ImportError:
        raise TcsimError("Triton is not installed. Try: pip install 'tcsim[triton]'") from None
    version = tuple(int(part) for part in re.findall(r"\d+", triton.__version__)[:2])
    if version < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise TcsimError(f"Triton {triton.__version__} is too old: {needed} is needed. Try: pip install 'triton>={needed}'")
    if triton.knobs.runtime.interpret:
        raise TcsimError(
            "TRITON_INTERPRET is set, so Triton would run kernels in its own interpreter. Unset it before importing triton"
        )


def _target(device: Device, target: str | int | None) -> int:
    if target is None:
        return device.arch.sm
    match = re.fullmatch(r"(?:sm_?)?(\d{2,3})", str(target))
    if match is None:
        raise DeviceError(f"target {target!r}: give a PTX target such as 'sm_80', or its number")
    sm = int(match[1])
    # From sm_90 on Triton emits "a" code, which runs on exactly that architecture (PTX ISA 11.1.2).
    if not device.can_run(f"sm_{sm}a" if sm >= 90 else f"sm_{sm}"):
        raise DeviceError(f"{device.name} (sm_{device.arch.sm}) cannot run code that Triton compiles for sm_{sm}")
    return sm


def _driver_config() -> Any:
    from triton.runtime import driver

    return driver


def _selected(config: Any) -> Any:
    """The driver in use, without making Triton look for a GPU: None where it has not chosen one yet."""
    if "_active" in vars(config):  # from Triton 3.5 on, ``active`` is a property that chooses one
        return vars(config)["_active"]
    return config.active


def _patch(replaced: _Replaced) -> None:
    import triton.testing
    from triton.backends import Backend, backends
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    from tcsim.triton.compiler import ptx_backend
    from tcsim.triton.tensors import taking_arrays

    replaced.backend = backends["nvidia"]
    backends["nvidia"] = Backend(ptx_backend(replaced.backend.compiler), replaced.backend.driver)
    # NumPy and tcsim arrays lack what Triton asks of an argument, and none of its hooks can replace one.
    kinds: tuple[Any, ...] = (JITFunction, Autotuner, Heuristics)
    for kind in kinds:
        replaced.replace(kind, "run", taking_arrays(kind.run))
    benchmarks: dict[str, Callable[..., Any]] = {
        "do_bench": do_bench,
        "do_bench_proton": do_bench,
        "do_bench_cudagraph": no_graphs,
        "do_bench_cudagraph_proton": no_graphs,
    }
    for name, function in benchmarks.items():
        if hasattr(triton.testing, name):
            replaced.replace(triton.testing, name, function)
