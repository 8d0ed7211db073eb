"""A bundle: everything a launch needs and everything the hardware answered, in one folder.

``traces/NAME/bundle.json`` describes it; ``outputs.npz`` beside it holds the hardware's outputs (:mod:`.outputs`). The PTX
lies beside it too, or is named by a relative path such as ``../kernels/softmax.ptx``, and its SHA-256 says whether it is still
the one that ran. Input arrays are described by generators (:mod:`.arguments`).

``bundle.json``::

    {"schema": 1, "name": ..., "description": ...,
     "kernel": {"ptx": path, "sha256": ..., "entry": name, "listings": [path of machine code, ...]},
     "launch": {"grid": [x,y,z], "block": [x,y,z], "shared_mem": bytes},
     "device": "h200", "options": {"fmad": true},
     "arguments": [{"name": ..., "role": "in" | "out" | "inout", "spec": "f16[64,64]:normal(0,1)@1"}, ...],
     "outputs": {name: {"dtype", "shape", "sha256", "stored": "raw" | "hashed"}},
     "metrics": {Nsight Compute name: {"value": number, "unit": ...}},
     "provenance": {...}}

A bundle without ``outputs`` is a launch that has not been recorded yet. Unknown keys are refused. Only NumPy is needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .arguments import ROLES, Argument, parse_argument
from .errors import ArgumentError, BundleError
from .outputs import Comparison, RecordedOutput, compare
from .tensor_maps import MapOf

__all__ = ["SCHEMA_VERSION", "Bundle", "Metric", "load_bundle", "save_bundle"]

SCHEMA_VERSION = 1
DESCRIPTION_FILE = "bundle.json"
OUTPUTS_FILE = "outputs.npz"

Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Metric:
    """One Nsight Compute metric: its value and the unit that Nsight Compute printed (base units)."""

    value: int | float
    unit: str = ""


@dataclass(frozen=True)
class Bundle:
    """One launch, and the hardware's answer if it has been recorded.

    ``folder`` is where relative paths start. ``ptx`` is the path as written; ``listings`` are those of its machine code, as
    nvdisasm lists it, for one architecture each (:mod:`isa.sass.assemble`). ``fmad`` False means that ptxas does not contract
    multiplications and additions. ``shared_mem`` is dynamic shared memory in bytes;
    ``cluster`` the extents of a cluster in CTAs, where the launch says them.
    """

    name: str
    ptx: str
    entry: str
    grid: Dim3
    block: Dim3
    arguments: tuple[Argument, ...]
    folder: Path = field(default_factory=Path)
    shared_mem: int = 0
    device: str = "h200"
    fmad: bool = True
    description: str = ""
    ptx_sha256: str = ""
    outputs: Mapping[str, RecordedOutput] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    listings: tuple[str, ...] = ()
    cluster: Dim3 | None = None

    @property
    def ptx_path(self) -> Path:
        return self.folder / self.ptx

    @property
    def listing_paths(self) -> list[Path]:
        return [self.folder / listing for listing in self.listings]

    def ptx_text(self) -> str:
        """The PTX. Raises :class:`BundleError` if it is missing or is not the one that was recorded."""
        if not self.ptx_path.is_file():
            raise BundleError(f"bundle {self.name!r}: its PTX {self.ptx_path} is missing")
        data = self.ptx_path.read_bytes()
        if self.ptx_sha256 and hashlib.sha256(data).hexdigest() != self.ptx_sha256:
            raise BundleError(
                f"bundle {self.name!r}: {self.ptx_path} is not the PTX that was recorded (its SHA-256 differs)\n"
                "  restore it, or record the bundle again on a GPU"
            )
        return data.decode()

    def values(self) -> list[NDArray[Any] | np.generic | MapOf]:
        """The arguments in order, as arrays and scalars of their storage types, and tensor maps of the arrays among them."""
        return [self._value(argument) for argument in self.arguments]

    def _value(self, argument: Argument) -> NDArray[Any] | np.generic | MapOf:
        described = argument.tensor_map
        if described is None:
            return argument.scalar() if argument.is_scalar else argument.array(self.folder)
        for position, other in enumerate(self.arguments):
            if other.name == described.array and other.shape is not None:
                return described.of(position, other.dtype.name, other.shape)
        arrays = ", ".join(a.name for a in self.arguments if a.shape is not None)
        raise BundleError(f"bundle {self.name!r}: {described.spec} is the map of no array; there are {arrays or 'none'}")

    def compare(self, results: Mapping[str, NDArray[Any] | bytes]) -> list[Comparison]:
        """Compare ``results`` (the contents of every output argument, by name) with the recording, byte for byte."""
        if not self.outputs:
            raise BundleError(f"bundle {self.name!r} has no recorded outputs to compare with; record it on a GPU first")
        return [compare(recorded, results[name]) for name, recorded in self.outputs.items()]


def load_bundle(path: str | Path) -> Bundle:
    """Read the bundle in folder ``path`` (or of a ``bundle.json``). Raises :class:`BundleError`."""
    path = Path(path)
    file = path if path.suffix == ".json" else path / DESCRIPTION_FILE
    if not file.is_file():
        raise BundleError(f"there is no bundle at {path}: {file} does not exist")
    try:
        described = json.loads(file.read_text())
    except json.JSONDecodeError as error:
        raise BundleError(f"{file}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    return _from_json(described, file)


def save_bundle(bundle: Bundle, folder: str | Path) -> None:
    """Write ``bundle`` into ``folder`` (made if need be): ``bundle.json``, and ``outputs.npz`` if there are outputs.

    Files that arguments name are the caller's to copy. The same bundle gives the same bytes.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DESCRIPTION_FILE).write_text(_json_text(_to_json(bundle)))
    arrays = {key: array for output in bundle.outputs.values() for key, array in output.arrays().items()}
    if arrays:
        np.savez_compressed(folder / OUTPUTS_FILE, **arrays)  # type: ignore[arg-type]  # NumPy's stub takes the keys for flags


# --------------------------------------------------------------------------------------------------------- to JSON


def _to_json(bundle: Bundle) -> dict[str, Any]:
    return {
        "schema": SCHEMA_VERSION,
        "name": bundle.name,
        "description": bundle.description,
        "kernel": {
            "ptx": bundle.ptx,
            "sha256": bundle.ptx_sha256,
            "entry": bundle.entry,
            **({"listings": list(bundle.listings)} if bundle.listings else {}),
        },
        "launch": {
            "grid": list(bundle.grid),
            "block": list(bundle.block),
            "shared_mem": bundle.shared_mem,
            **({"cluster": list(bundle.cluster)} if bundle.cluster else {}),
        },
        "device": bundle.device,
        "options": {"fmad": bundle.fmad},
        "arguments": [{"name": a.name, "role": a.role, "spec": a.spec} for a in bundle.arguments],
        "outputs": {name: output.describe() for name, output in bundle.outputs.items()},
        "metrics": {name: {"value": metric.value, "unit": metric.unit} for name, metric in bundle.metrics.items()},
        "provenance": dict(bundle.provenance),
    }


def _json_text(described: dict[str, Any]) -> str:
    """Indented JSON with the innermost lists and objects on one line each, so that a bundle reads as a table."""

    def render(value: Any, indent: int) -> str:
        flat = json.dumps(value)
        nested = isinstance(value, dict | list) and any(isinstance(v, dict | list) for v in _children(value))
        if not isinstance(value, dict | list) or (not nested and len(flat) + indent <= 118) or not value:
            return flat
        pad = "\n" + " " * (indent + 2)
        if isinstance(value, dict):
            rows = [f"{json.dumps(key)}: {render(item, indent + 2)}" for key, item in value.items()]
            return "{" + pad + ("," + pad).join(rows) + "\n" + " " * indent + "}"
        return "[" + pad + ("," + pad).join(render(item, indent + 2) for item in value) + "\n" + " " * indent + "]"

    return render(described, 0) + "\n"


def _children(value: dict[str, Any] | list[Any]) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, dict) else value


# ------------------------------------------------------------------------------------------------------- from JSON

T = TypeVar("T")


class _Fields:
    """The keys of one JSON object, taken one by one; what is left at the end was not expected."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise BundleError(f"{where}: expected an object, found {type(value).__name__}")
        self.left, self.where = dict(value), where

    def take(self, key: str, kind: type[T]) -> T:
        if key not in self.left:
            raise BundleError(f"{self.where}: the key {key!r} is missing")
        value = self.left.pop(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BundleError(f"{self.where}: {key!r} must be a {kind.__name__}, found {json.dumps(value)}")
        return value

    def dim3(self, key: str) -> Dim3:
        value = self.take(key, list)
        if len(value) != 3 or not all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in value):
            raise BundleError(f"{self.where}: {key!r} must be three whole numbers above 0, found {json.dumps(value)}")
        return value[0], value[1], value[2]

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty where the key is missing."""
        value = self.left.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BundleError(f"{self.where}: {key!r} must be a list of strings, found {json.dumps(value)}")
        return tuple(value)

    def end(self) -> None:
        if self.left:
            raise BundleError(f"{self.where}: unknown key {next(iter(self.left))!r}")


def _from_json(described: Any, file: Path) -> Bundle:
    top = _Fields(described, str(file))
    version = top.take("schema", int)
    if version != SCHEMA_VERSION:
        raise BundleError(f"{file}: schema {version}; this tcsim reads schema {SCHEMA_VERSION}")
    kernel = _Fields(top.take("kernel", dict), f"{file}: kernel")
    launch = _Fields(top.take("launch", dict), f"{file}: launch")
    options = _Fields(top.take("options", dict), f"{file}: options")
    bundle = Bundle(
        name=top.take("name", str),
        description=top.take("description", str),
        ptx=kernel.take("ptx", str),
        ptx_sha256=kernel.take("sha256", str),
        entry=kernel.take("entry", str),
        listings=kernel.strings("listings"),
        grid=launch.dim3("grid"),
        block=launch.dim3("block"),
        shared_mem=launch.take("shared_mem", int),
        cluster=launch.dim3("cluster") if "cluster" in launch.left else None,
        device=top.take("device", str),
        fmad=options.take("fmad", bool),
        arguments=_arguments(top.take("arguments", list), file),
        folder=file.parent,
        metrics=_metrics(top.take("metrics", dict), file),
        provenance=top.take("provenance", dict),
    )
    outputs = top.take("outputs", dict)
    for fields in (kernel, launch, options, top):
        fields.end()
    return replace(bundle, outputs=_outputs(outputs, bundle)) if outputs else bundle


def _arguments(listed: list[Any], file: Path) -> tuple[Argument, ...]:
    arguments = []
    for position, described in enumerate(listed):
        fields = _Fields(described, f"{file}: arguments[{position}]")
        name, role, spec = fields.take("name", str), fields.take("role", str), fields.take("spec", str)
        fields.end()
        if role not in ROLES:
            raise BundleError(f"{fields.where}: unknown role {role!r}; one of {', '.join(ROLES)}")
        try:
            arguments.append(parse_argument(spec, position, role, name))
        except ArgumentError as error:
            raise BundleError(f"{fields.where}: {error}") from None
    check_names(arguments, str(file))
    return tuple(arguments)


def check_names(arguments: Sequence[Argument], where: str) -> None:
    """Outputs are told apart by name: every argument needs one of its own. Raises :class:`BundleError`."""
    seen: set[str] = set()
    for argument in arguments:
        if not argument.name.isidentifier() or argument.name in seen:
            raise BundleError(f"{where}: argument name {argument.name!r} is not an identifier of its own")
        seen.add(argument.name)


def _metrics(described: dict[str, Any], file: Path) -> dict[str, Metric]:
    metrics = {}
    for name, entry in described.items():
        fields = _Fields(entry, f"{file}: metrics[{name!r}]")
        value = fields.left.pop("value", None)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise BundleError(f"{fields.where}: 'value' must be a number, found {json.dumps(value)}")
        metrics[name] = Metric(value, fields.take("unit", str))
        fields.end()
    return metrics


def _outputs(described: dict[str, Any], bundle: Bundle) -> dict[str, RecordedOutput]:
    file = bundle.folder / OUTPUTS_FILE
    if not file.is_file():
        raise BundleError(f"bundle {bundle.name!r}: {file} is missing")
    expected = {a.name: a for a in bundle.arguments if a.is_output}
    if set(described) != set(expected):
        raise BundleError(
            f"bundle {bundle.name!r}: outputs are {sorted(described)}, but the arguments make {sorted(expected)}"
        )
    with np.load(file) as arrays:
        outputs = {name: RecordedOutput.restore(name, entry, arrays) for name, entry in described.items()}
    for name, output in outputs.items():
        if (output.dtype, output.shape) != (expected[name].dtype, expected[name].shape):
            raise BundleError(f"bundle {bundle.name!r}: output {name!r} has another type or shape than the argument")
    return outputs
