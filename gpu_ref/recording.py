"""Recording: launch a bundle's kernel on the GPU and keep what came out.

Every launch is made twice, the second time with its write-only arrays full of rubbish: equal results show that the kernel is
deterministic and writes all that it claims to. Where ptxas is installed, a third launch runs its code instead of the driver's,
and the recording says whether the outputs were the same.
"""

from __future__ import annotations

import datetime
import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import TcsimError
from isa.sass.assemble import assemble, read_kept, write_kept
from isa.sass.toolchain import find_nvdisasm
from tcsim.arch import find_arch
from tcsim.bundle import Bundle, Comparison, Metric, load_bundle, record_output, save_bundle

from .device import describe_gpu, device_name, require_cupy
from .launching import Assembler, Launched, Value, launch, load_kernel
from .profiling import OPTIONS, ProfilerError, find_ncu, known_metrics, ncu_version, profile_bundles
from .toolchain import AssemblerError, find_ptxas

__all__ = ["RecordingError", "add_metrics", "compare", "record", "replay", "with_listing"]

POISON = 0xA5
"""Byte that fills write-only arrays before the second launch."""


class RecordingError(TcsimError):
    """The launch works, but is not fit to be recorded."""


def record(bundle: Bundle, out_dir: str | Path, metrics: bool = True) -> Bundle:
    """Launch ``bundle`` (from a suite, or an earlier recording) and save it with its outputs as ``out_dir/NAME``.

    Its PTX is copied to ``out_dir/kernels``, unless it is there. ``metrics`` adds Nsight Compute's, where ``ncu`` is on the
    PATH. Returns the recorded bundle. Raises :class:`RecordingError` if the outputs differ between two launches, and as
    :func:`.launch` does.
    """
    recorded = _record_outputs(bundle, Path(out_dir))
    if metrics and find_ncu():
        add_metrics([recorded.folder])
        recorded = load_bundle(recorded.folder)
    return recorded


def compare(bundle: Bundle | str | Path) -> list[Comparison]:
    """Launch a recorded bundle on this machine's GPU and compare every output with the recording."""
    loaded = bundle if isinstance(bundle, Bundle) else load_bundle(bundle)
    return loaded.compare(_outputs(loaded, _launch(loaded, loaded.values())))


def replay(folders: Sequence[str | Path]) -> None:
    """Launch the bundles in ``folders`` once each, with the CUDA profiler switched on only around the kernel itself."""
    runtime = require_cupy().cuda.runtime
    for folder in folders:
        bundle = load_bundle(folder)
        handle = load_kernel(bundle.ptx_text(), bundle.entry, assembler=_assembler(bundle), fmad=bundle.fmad)
        uploaded = handle.upload(bundle.values())
        runtime.deviceSynchronize()
        runtime.profilerStart()
        handle.run(bundle.grid, bundle.block, uploaded, bundle.shared_mem, bundle.cluster)
        runtime.profilerStop()


def add_metrics(folders: Sequence[Path], timeout: float = 300.0) -> None:
    """Profile the recorded bundles in ``folders`` with one ncu process and add the metrics to them.

    Raises :class:`.ProfilerError`.
    """
    ncu = find_ncu()
    if ncu is None:
        raise ProfilerError("ncu (Nsight Compute) is not on the PATH")
    profiles = profile_bundles(ncu, folders, known_metrics(ncu), timeout)
    version = ncu_version(ncu)
    for folder, profile in zip(folders, profiles, strict=True):
        bundle = load_bundle(folder)
        if profile.kernel != bundle.entry:
            raise ProfilerError(f"ncu reports kernel {profile.kernel!r} where {bundle.entry!r} was launched")
        provenance = {**bundle.provenance, "ncu": version, "ncu_options": " ".join(OPTIONS)}
        clock = profile.metrics.get("sm__cycles_elapsed.avg.per_second", Metric(0)).value
        if clock:
            provenance["sm_clock_hz"] = clock
        save_bundle(replace(bundle, metrics=profile.metrics, provenance=provenance), folder)


# ---------------------------------------------------------------------------------------------------------- launching


def _assembler(bundle: Bundle) -> Assembler:
    """The driver's compiler, unless the bundle asks for uncontracted code, which only ptxas makes."""
    return "driver" if bundle.fmad else "ptxas"


def _launch(bundle: Bundle, values: Sequence[Value], assembler: Assembler | None = None) -> Launched:
    chosen = assembler or _assembler(bundle)
    return launch(
        bundle.ptx_text(),
        bundle.entry,
        bundle.grid,
        bundle.block,
        values,
        bundle.shared_mem,
        assembler=chosen,
        fmad=bundle.fmad,
        cluster=bundle.cluster,
    )


def _outputs(bundle: Bundle, launched: Launched) -> dict[str, NDArray[Any]]:
    arrays = [argument for argument in bundle.arguments if not argument.is_scalar]
    return {a.name: array for a, array in zip(arrays, launched.arrays, strict=True) if a.is_output}


def _poisoned(bundle: Bundle, values: Sequence[Value]) -> list[Value]:
    """The arguments again, with every write-only array full of :data:`POISON`."""
    poisoned: list[Value] = []
    for argument, value in zip(bundle.arguments, values, strict=True):
        if argument.role == "out":
            assert isinstance(value, np.ndarray)
            value = np.full(argument.bytes, POISON, dtype=np.uint8).view(argument.dtype.storage).reshape(value.shape)
        poisoned.append(value)
    return poisoned


def _record_outputs(bundle: Bundle, out_dir: Path) -> Bundle:
    cupy = require_cupy()
    values = bundle.values()
    first = _launch(bundle, values)
    outputs = _outputs(bundle, first)
    for name, again in _outputs(bundle, _launch(bundle, _poisoned(bundle, values))).items():
        if again.tobytes() != outputs[name].tobytes():
            raise RecordingError(
                f"{bundle.name}: output {name!r} differs between two launches\n"
                "  either the kernel is not deterministic, or it leaves part of the array unwritten: then declare it inout"
            )
    provenance = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **describe_gpu(cupy),
        "assembler": first.assembler,
        **first.resources,
    }
    if first.assembler == "driver" and find_ptxas():
        provenance["cross_check"] = _cross_check(bundle, values, outputs)
    recorded = replace(
        bundle,
        ptx=f"../kernels/{bundle.ptx_path.name}",
        ptx_sha256=hashlib.sha256(bundle.ptx_path.read_bytes()).hexdigest(),
        folder=out_dir / bundle.name,
        device=device_name(cupy),
        outputs={a.name: record_output(a.name, a.dtype, outputs[a.name]) for a in bundle.arguments if a.is_output},
        metrics={},
        provenance=provenance,
    )
    _copy(bundle.ptx_path, out_dir / "kernels" / bundle.ptx_path.name)
    recorded.folder.mkdir(parents=True, exist_ok=True)  # paths are relative to it
    recorded = with_listing(recorded)
    for argument in bundle.arguments:
        if argument.generator == "file":
            _copy(bundle.folder / str(argument.parameters[0]), recorded.folder / str(argument.parameters[0]))
    save_bundle(recorded, recorded.folder)
    return recorded


def with_listing(bundle: Bundle) -> Bundle:
    """The bundle with the listing of its machine code beside its PTX, written if need be; as it was where NVIDIA's tools are
    not installed. Its ptxas is the one that the recording cross-checks with. One listing serves all bundles of the same PTX,
    architecture and options."""
    if not (find_ptxas() and find_nvdisasm()):
        return bundle
    listing = assemble(bundle.ptx_text(), f"sm_{find_arch(bundle.device).sm}", fmad=bundle.fmad, ptxas=find_ptxas())
    apart = "" if bundle.fmad else ".nofmad"
    path = bundle.ptx_path.with_suffix(f".{listing.target}{apart}.sass.xz")
    if not path.exists() or read_kept(path).text != listing.text:
        write_kept(listing, path)
    return replace(bundle, listings=(str(Path(bundle.ptx).with_name(path.name)),))


def _cross_check(bundle: Bundle, values: Sequence[Value], outputs: Mapping[str, NDArray[Any]]) -> str:
    """What running ptxas's code instead of the driver's gives, in words."""
    try:
        other = _launch(bundle, values, "ptxas")
    except AssemblerError as error:
        return str(error).splitlines()[0]
    same = all(array.tobytes() == outputs[name].tobytes() for name, array in _outputs(bundle, other).items())
    return f"outputs {'identical' if same else 'DIFFERENT'} when assembled by {other.assembler}"


def _copy(source: Path, target: Path) -> None:
    if source.resolve() != target.resolve():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
