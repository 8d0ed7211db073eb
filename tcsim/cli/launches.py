"""From the words of a command line to a launch: a bundle, or a file with its shape and arguments."""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcsim.array import asarray, asnumpy, ndarray
from tcsim.bundle import Argument, Bundle, decode, load_bundle, parse_argument
from tcsim.device import Device
from tcsim.errors import TcsimError, UndefinedOperandWarning
from tcsim.module import Function, RawModule, RoundingWarning
from tcsim.profiler import active_profiler

__all__ = ["LaunchOptions", "PreparedLaunch", "outputs_summary", "prepare", "target_bundle"]


@dataclass(frozen=True)
class LaunchOptions:
    """What the options of ``run``, ``profile`` and ``record`` say. ``arguments``: (``arg``/``out``/``inout``, text) in the
    order typed, which is the kernel's parameter order. ``machine``: run machine code instead of PTX."""

    kernel: str = ""
    grid: str = ""
    block: str = ""
    shared_mem: int = 0
    device: str = ""
    fmad: bool = True
    arguments: tuple[tuple[str, str], ...] = ()
    machine: bool = False
    cluster: str = ""


@dataclass
class PreparedLaunch:
    """A launch ready to go: call :meth:`run`, then read :meth:`outputs`."""

    bundle: Bundle
    device: Device
    function: Function
    arguments: list[Any]

    def run(self) -> None:
        """Launch on the simulated device."""
        bundle = self.bundle
        self.function.max_dynamic_shared_size_bytes = bundle.shared_mem
        with self.device:
            arguments = tuple(self.arguments)
            with _plainly_told():
                self.function(bundle.grid, bundle.block, arguments, shared_mem=bundle.shared_mem, cluster=bundle.cluster)

    def outputs(self) -> Mapping[str, NDArray[Any]]:
        """Contents of every output array by argument name."""
        pairs = zip(self.bundle.arguments, self.arguments, strict=True)
        return {a.name: asnumpy(value) for a, value in pairs if a.is_output and isinstance(value, ndarray)}


@contextmanager
def _plainly_told() -> Iterator[None]:
    """Undefined operands are told on stderr as everything else here is; other warnings stay as they are."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UndefinedOperandWarning)
        yield
    for warning in told:
        if issubclass(warning.category, UndefinedOperandWarning):
            print(f"tcsim: {warning.message}", file=sys.stderr)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def target_bundle(target: str, options: LaunchOptions) -> Bundle:
    """The launch that a target and its options describe, as a bundle (without recorded outputs if it is a file)."""
    path = Path(target)
    if path.suffix in (".ptx", ".cu", ".cubin", ".fatbin"):
        return _file_bundle(path, options)
    if path.is_dir() or path.suffix == ".json":
        given = [name for name in ("kernel", "grid", "block", "cluster", "arguments") if getattr(options, name)]
        if given:
            raise TcsimError(f"{target} is a bundle and says its own launch; leave out --{given[0].removesuffix('uments')}")
        return load_bundle(path)
    if not path.exists():
        raise TcsimError(f"{target}: no such file or bundle")
    raise TcsimError(f"{target}: expected a bundle (a folder with bundle.json), a .ptx, .cu, .cubin or .fatbin file")


def prepare(target: str, options: LaunchOptions) -> PreparedLaunch:
    """Load and lower the kernel and put its arguments on the device."""
    bundle = target_bundle(target, options)
    device = Device(options.device or bundle.device, execute="machine" if options.machine else "ptx")
    with device:
        if bundle.outputs:
            bundle.ptx_text()  # the recorded PTX, or an error
        module = RawModule(path=bundle.ptx_path, fmad=bundle.fmad and options.fmad)
        if (options.machine or active_profiler() is not None) and options.fmad:  # what is timed is machine code, too
            for listing in bundle.listing_paths:
                module.attach_listing(listing)
        elif options.fmad:
            module.kept_listings = bundle.listing_paths  # should it be timed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RoundingWarning)  # told below, as everything else is told here
            function = module.get_function(bundle.entry or _only_kernel(module, target))
        if function.notes:
            print(f"tcsim: {function.remark()}", file=sys.stderr)
        # A kernel that asks for the workspace of grid barriers (cooperative_groups::this_grid) cannot be meant otherwise.
        module.cooperative = "envreg1" in module.program(function.name, device.arch.sm).specials
        values = [asarray(v) if isinstance(v, np.ndarray) else v for v in bundle.values()]
    return PreparedLaunch(bundle, device, function, values)


def _only_kernel(module: RawModule, target: str) -> str:
    if len(module.kernels) != 1:
        raise TcsimError(f"{target} has {len(module.kernels)} kernels; choose one with --kernel: {', '.join(module.kernels)}")
    return module.kernels[0]


def _file_bundle(path: Path, options: LaunchOptions) -> Bundle:
    if not path.is_file():
        raise TcsimError(f"{path}: no such file")
    missing = [name for name in ("grid", "block") if not getattr(options, name)]
    if missing:
        raise TcsimError(f"{path}: a file needs --{missing[0]}, such as --grid 8,8 --block 256")
    arguments = tuple(_argument(position, role, text) for position, (role, text) in enumerate(options.arguments))
    return Bundle(
        name=path.stem,
        ptx=path.name,
        entry=options.kernel,
        grid=_extents(options.grid, "--grid"),
        block=_extents(options.block, "--block"),
        arguments=arguments,
        folder=path.parent,
        shared_mem=options.shared_mem,
        device=options.device or "h200",
        fmad=options.fmad,
        cluster=_extents(options.cluster, "--cluster") if options.cluster else None,
    )


def _argument(position: int, role: str, text: str) -> Argument:
    argument = parse_argument(text, position, {"arg": "in"}.get(role, role))  # type: ignore[arg-type]
    return argument if argument.name else replace(argument, name=f"arg{position}")


def _extents(text: str, option: str) -> tuple[int, int, int]:
    pieces = text.replace("x", ",").split(",")
    try:
        numbers = [int(piece) for piece in pieces]
    except ValueError:
        raise TcsimError(f"{option} {text!r}: one to three numbers, such as 8,8,1") from None
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise TcsimError(f"{option} {text!r}: one to three numbers of at least 1, such as 8,8,1")
    numbers += [1] * (3 - len(numbers))
    return numbers[0], numbers[1], numbers[2]


def outputs_summary(launch: PreparedLaunch, outputs: Mapping[str, NDArray[Any]]) -> Sequence[str]:
    """A line per output: shape, a hash of its bytes, and its first elements."""
    lines = []
    for argument in launch.bundle.arguments:
        if argument.name not in outputs:
            continue
        array = outputs[argument.name]
        flat = array.reshape(-1)
        values = flat if argument.dtype.is_native else decode(flat[:6], argument.dtype)
        shown = ", ".join(f"{value:.7g}" if np.issubdtype(values.dtype, np.floating) else str(value) for value in values[:6])
        digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
        shape = ",".join(map(str, array.shape))
        more = ", ..." if flat.size > 6 else ""
        lines.append(f"{argument.name} {argument.dtype.name}[{shape}]  sha256 {digest}  [{shown}{more}]")
    return lines

