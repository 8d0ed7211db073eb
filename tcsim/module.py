"""Modules and kernels, shaped like CuPy's ``RawModule`` and ``RawKernel``: one script runs on a GPU or here."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from isa import instructions as _instructions  # noqa: F401  (fills the registry)
from isa.errors import Unsupported, UnsupportedError
from isa.lower import lower, unsupported_in
from isa.program import Program
from isa.ptx import link, parse
from isa.sass.cubin import is_machine_code
from isa.sass.toolchain import AssemblerError
from tcsim.compile import compile_cuda, looks_like_ptx
from tcsim.device import Device, current_device
from tcsim.errors import LaunchError, TcsimError, UnsupportedWarning
from tcsim.execute.loader import LoadedProgram, load_program
from tcsim.launch.checks import check_launch, cluster_extents, dim3
from tcsim.launch.launch import Launch, run
from tcsim.profiler import active_profiler
from tcsim.progress import compiling
from tcsim.symbols import ModuleVariables

if TYPE_CHECKING:
    from isa.lower.ir import Kernel
    from isa.sass.assemble import Listing
    from tcsim.code_source import CodeSource
    from tcsim.machine_code import ModuleCode

__all__ = ["Function", "RawKernel", "RawModule", "RoundingWarning"]

_MOST_NOTES = 5


class RoundingWarning(UserWarning):
    """Some bits of a kernel's results depend on what ptxas does with loops and branches, which its PTX does not determine."""


class RawModule:
    """A PTX module; or CUDA C, which an installed NVRTC compiles; or machine code, which an installed nvdisasm reads.

    code: PTX or CUDA C text. path: a file of either, or a cubin or fatbin, whose code for the current device runs as it is. A
    list of texts or files is linked into one module, CUDA C compiled as by ``nvcc -rdc=true`` (LinkError if they do not go
    together). options: for NVRTC. name_expressions: C++ names of template instances, by which ``get_function`` then finds them,
    as in CuPy. fmad: contract multiplies and adds as ptxas does by default; ``"oracle"``: the same, and compare with the
    machine code that an installed ptxas makes of each kernel when it is fetched (TcsimError lists what differs, or says that
    ptxas or nvdisasm is missing). A RoundingWarning names the operations of a kernel whose last bits are a guess.
    enable_cooperative_groups: launch with all CTAs resident at once, as grid barriers need it. Raises PtxSyntaxError for text
    outside the PTX grammar, UnsupportedError with everything unsupported if none of its kernels can run (if some can, an
    UnsupportedWarning lists the rest).
    """

    def __init__(
        self,
        code: str | Sequence[str] | None = None,
        *,
        path: str | Path | Sequence[str | Path] | None = None,
        options: Sequence[str] = (),
        backend: str = "nvrtc",
        fmad: bool | Literal["oracle"] = True,
        name_expressions: Sequence[str] | None = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        if (code is None) == (path is None):
            raise TcsimError("RawModule takes either code= or path=")
        listing = None
        paths: list[str | None]
        if isinstance(path, str | Path) and is_machine_code(data := _read(Path(path))):
            declared, listing = _declared(data, str(path))
            texts, paths = [declared], [str(path)]
        else:
            paths, texts = _sources(code, path)
        if not isinstance(fmad, bool) and fmad != "oracle":
            raise TcsimError(f"RawModule(fmad={fmad!r}): True, False or 'oracle'")
        if "--fmad=false" in options or "-fmad=false" in options:
            fmad = False
        self._lowered: dict[str, str] = {}
        compiled = [self._ptx_of(t, p, options, name_expressions, len(texts) > 1) for t, p in zip(texts, paths, strict=True)]
        where = " + ".join(filter(None, paths)) or None
        self.ptx = compiled[0] if len(compiled) == 1 else link(compiled, [p or f"module {n}" for n, p in enumerate(paths, 1)])
        self.fmad = fmad
        self.cooperative = enable_cooperative_groups
        self.tree = parse(self.ptx, path=where)
        self.unsupported = self._scan()
        self._variables: dict[str, ModuleVariables] = {}
        self._programs: dict[tuple[str, int], Program] = {}
        self._machine: dict[int, ModuleCode] = {}
        self.kept_listings: Sequence[Path] = ()  # to attach when machine code is asked for
        self._only = listing
        self._machine_programs: dict[tuple[str, int], Program | None] = {}

    def _ptx_of(
        self, text: str, path: str | None, options: Sequence[str], names: Sequence[str] | None, relocatable: bool
    ) -> str:
        """PTX as it is, CUDA C compiled."""
        if looks_like_ptx(text):
            if options and tuple(options) not in (("--fmad=false",), ("-fmad=false",)):
                warnings.warn(f"options {list(options)} do not apply to PTX", stacklevel=3)
            return text
        flags = (*options, "--relocatable-device-code=true") if relocatable else tuple(options)
        ptx, lowered = compile_cuda(text, current_device().arch.sm, flags, path, tuple(names or ()))
        self._lowered |= lowered
        return ptx

    def _scan(self) -> dict[str, list[Unsupported]]:
        found = {f.name: unsupported_in(f, self.tree) for f in self.tree.functions if f.kind == "entry" and f.body is not None}
        bad = {name: items for name, items in found.items() if items}
        everything = [item for items in bad.values() for item in items]
        name = self.tree.path or "module"
        if bad and len(bad) == len(found):
            raise UnsupportedError(everything, name)
        if bad:
            error = UnsupportedError(everything, f"{name} (its other kernels can run)")
            warnings.warn(str(error), UnsupportedWarning, stacklevel=4)
        return bad

    @property
    def is_machine_code(self) -> bool:
        """Whether it was read from a cubin or fatbin and has no PTX."""
        return self._only is not None

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the entry functions, in the order of the text."""
        return tuple(f.name for f in self.tree.functions if f.kind == "entry" and f.body is not None)

    def get_function(self, name: str) -> Function:
        """The kernel called ``name``. Raises TcsimError with the names there are, UnsupportedError, PtxError."""
        name = self._lowered.get(name, name)
        if name not in self.kernels:
            matches = [k for k in self.kernels if name in k]
            hint = f"; did you mean {matches[0]!r}?" if len(matches) == 1 else ""
            raise TcsimError(f"no kernel {name!r} in this module{hint or '.'} It has: {', '.join(self.kernels) or 'none'}")
        if self.fmad == "oracle":
            self._ask_ptxas(name)
        function = Function(self, name)
        if function.notes:
            warnings.warn(function.remark(), RoundingWarning, stacklevel=2)
        return function

    def _ask_ptxas(self, name: str) -> None:
        from gpu_ref.contraction_oracle import require_agreement

        for row in require_agreement(self.ptx, name, f"sm_{current_device().arch.sm}"):
            warnings.warn(f"{row}: the copies of an unrolled loop differ, so these bits may too", stacklevel=3)

    def get_global(self, name: str) -> Any:
        """The module variable ``name`` on the current device: an object with ``.ptr`` (device address) and ``.nbytes``."""
        return self.variables(current_device()).find(name)

    def variables(self, device: Device) -> ModuleVariables:
        """The module's variables on a device, placed and initialised on first use."""
        found = self._variables.get(device.name)
        if found is None:
            found = self._variables[device.name] = ModuleVariables(self.tree, device.memory)
        return found

    def machine_code(self, sm: int) -> ModuleCode | None:
        """The machine code for an SM number, if it has been made or read."""
        return self._machine.get(sm)

    def program(self, name: str, sm: int) -> Program:
        """The lowered program of a kernel for an SM number."""
        if self._only is not None:
            return self._own_machine_program(name, sm)
        key = (name, sm)
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = lower(self.tree, name, sm=sm, fmad=bool(self.fmad))
        return program

    def _own_machine_program(self, name: str, sm: int) -> Program:
        """The program of a kernel of a cubin. Raises LaunchError where it cannot run, UnsupportedError."""
        from isa.sass.cubin import runs_on
        from tcsim.machine_code import ModuleCode

        assert self._only is not None
        if not runs_on(self._only.target, sm):
            raise LaunchError(f"{self.tree.path} is machine code for {self._only.target}, which does not run on sm_{sm}")
        program = self._programs.get((name, sm))
        if program is None:
            if sm not in self._machine:
                self._machine[sm] = ModuleCode(self.tree, self._only, sm)
            program = self._programs[name, sm] = self._machine[sm].program(name)
        return program

    def attach_listing(self, path: str | Path) -> None:
        """Take the machine code of an architecture from a kept listing instead of an installed ptxas.

        Raises ListingError for a file that is none, TcsimError for the listing of other PTX or of other options.
        """
        from isa.sass.assemble import ptx_digest, read_kept
        from tcsim.machine_code import ModuleCode

        listing = read_kept(Path(path))
        if listing.ptx and listing.ptx != ptx_digest(self.ptx):
            raise TcsimError(f"{path} is the machine code of other PTX than this module's: record the bundle again")
        if listing.fmad != bool(self.fmad):
            raise TcsimError(f"{path} was assembled with fmad={listing.fmad}, this module asks for fmad={bool(self.fmad)}")
        self._machine[listing.sm] = ModuleCode(self.tree, listing, listing.sm)

    def machine_program(self, name: str, sm: int) -> Program | None:
        """The program of a kernel's machine code for an SM number, or None (with a warning, once, that says what is missing)
        if some of it cannot be executed. Raises AssemblerError, ListingError.
        """
        from tcsim.machine_code import ModuleCode  # a second instruction set, which most runs do without

        key = (name, sm)
        if key not in self._machine_programs:
            if sm not in self._machine:
                for path in self.kept_listings:
                    self.attach_listing(path)
                self.kept_listings = ()
            code = self._machine.get(sm)
            if code is None:
                code = self._machine[sm] = ModuleCode.assembled(self.tree, self.ptx, sm, fmad=bool(self.fmad))
            try:
                self._machine_programs[key] = code.program(name)
            except UnsupportedError as problem:
                self._machine_programs[key] = None
                warnings.warn(f"{problem}\n  {name} runs as PTX instead", UnsupportedWarning, stacklevel=4)
        return self._machine_programs[key]


def _sources(
    code: str | Sequence[str] | None, path: str | Path | Sequence[str | Path] | None
) -> tuple[list[str | None], list[str]]:
    """Where the texts of a module are from (None where there is no file), and the texts."""
    if code is not None:
        texts = [code] if isinstance(code, str) else list(code)
        paths: list[str | None] = [None] * len(texts)
    else:
        assert path is not None
        files = [path] if isinstance(path, str | Path) else list(path)
        texts = [_text(Path(file)) for file in files]
        paths = [str(file) for file in files]
    if not texts:
        raise TcsimError("RawModule: an empty list has nothing to link")
    return paths, texts


def _text(path: Path) -> str:
    data = _read(path)
    if b"\0" in data.rstrip(b"\0\n"):
        raise TcsimError(f"{path} is no text, so neither PTX nor CUDA C, and it does not begin as a cubin or fatbin does")
    return data.decode("utf-8-sig", errors="replace")


def _declared(data: bytes, where: str) -> tuple[str, Listing]:
    """PTX declarations of what a cubin or fatbin has for the current device, and its listing."""
    from isa.sass.cubin import declarations, listing_of
    from isa.sass.listing import read_listing

    listing = listing_of(data, current_device().arch.sm, where)
    return declarations(read_listing(listing.text)), listing


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise TcsimError(f"cannot read {path}: {problem.strerror}") from None


class Function:
    """A kernel: call it as ``f(grid, block, args, shared_mem=0)``.

    Attributes: ``name``; ``max_dynamic_shared_size_bytes`` (set it to launch with more than 48 KiB, as in CuPy); ``num_regs``
    (an estimate from liveness), ``shared_size_bytes``, ``local_size_bytes``, ``const_size_bytes``, ``max_threads_per_block``;
    ``instructions`` (warp instructions that the last launch executed).
    """

    def __init__(self, module: RawModule, name: str) -> None:
        self.module, self.name = module, name
        self.max_dynamic_shared_size_bytes = 0
        self.instructions = 0
        self._loaded: dict[tuple[str, bool], LoadedProgram] = {}
        self._target_checked: set[str] = set()
        self.program  # noqa: B018  (reports bad PTX now, not at the first launch)

    @property
    def program(self) -> Program:
        """The lowered program for the current device: of PTX, or of machine code if the device runs that. A launch that is
        timed runs machine code wherever it can be had, unless its profiler wants PTX.
        """
        device, profiler = current_device(), active_profiler()
        program = None
        if profiler is not None and profiler.code == "machine" and not self.module.is_machine_code:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UnsupportedWarning)  # the report says what was timed
                    program = self.module.machine_program(self.name, device.arch.sm)
                profiler.missing = "" if program is not None else "some of its instructions are not known"
            except AssemblerError as problem:
                profiler.missing = str(problem)
        elif profiler is None and device.execute == "machine" and not self.module.is_machine_code:
            program = self.module.machine_program(self.name, device.arch.sm)
        return program if program is not None else self.module.program(self.name, device.arch.sm)

    @property
    def notes(self) -> tuple[str, ...]:
        """Operations whose last bits are a guess, one per note: their PTX line, opcode, and why."""
        return tuple(self.program.notes)

    def remark(self) -> str:
        """What to tell about :attr:`notes`; empty if there are none."""
        if not self.notes:
            return ""
        what = "addition" if all("rounding" in note for note in self.notes) else "operation"
        several = "" if len(self.notes) == 1 else "s"
        count = f"{len(self.notes)} {what}{several}"
        lines = [f"{self.name}: bits of {count} depend on how ptxas unrolls loops or moves code, and are a guess here:"]
        lines += [f"  {note}" for note in self.notes[:_MOST_NOTES]]
        if len(self.notes) > _MOST_NOTES:
            lines.append(f"  and {len(self.notes) - _MOST_NOTES} more")
        return "\n".join(lines)

    @property
    def num_regs(self) -> int:
        return self.program.registers_per_thread

    @property
    def shared_size_bytes(self) -> int:
        return self.program.static_shared

    @property
    def local_size_bytes(self) -> int:
        return self.program.local_size

    @property
    def max_threads_per_block(self) -> int:
        declared = self.program.directives.get("maxntid") or self.program.directives.get("reqntid") or (1024,)
        total = 1
        for extent in declared:
            total *= extent
        return total

    def __call__(
        self, grid: Any, block: Any, args: Sequence[Any] = (), *, shared_mem: int = 0, stream: Any = None, cluster: Any = None
    ) -> None:
        """Run the kernel to completion on the current device.

        grid, block: 1-, 2- or 3-tuples (or an int). args: device arrays, NumPy scalars, Python numbers (int64, float64).
        cluster: extents of a cluster in CTAs (cudaLaunchAttributeClusterDimension); not needed with ``__cluster_dims__``.
        Inside ``with tcsim.Profiler()`` the launch is also timed. Raises LaunchError before anything runs, KernelFault or
        DeadlockError if the kernel fails.
        """
        device = current_device()
        target = self.module.tree.target
        if not device.can_run(target):
            raise LaunchError(
                f"kernel {self.name} is compiled for {target}, which {device.name} (sm_{device.arch.sm}) cannot run. "
                f"Try with tcsim.Device({target.rstrip('af')!r}), or compile for sm_{device.arch.sm}"
            )
        grid3, block3 = dim3(grid, "grid"), dim3(block, "block")
        program = self.program
        check_launch(program, device.arch, grid3, block3, int(shared_mem), self.max_dynamic_shared_size_bytes)
        cluster3 = cluster_extents(program, device.arch, grid3, None if cluster is None else dim3(cluster, "cluster"))
        loaded = self._load(device, program)
        cooperative = self.module.cooperative
        shape = (grid3, block3, tuple(args), int(shared_mem), cluster3)
        self.instructions = run(Launch(loaded, device, *shape, self._lowered, cooperative, lambda: self._source(program)))

    def _lowered(self) -> Kernel:
        """The kernel with its virtual registers; instructions are numbered as in its program of PTX."""
        from isa.lower import simplified
        from isa.lower.link import link

        kernel = simplified(self.module.tree, self.name, fmad=bool(self.module.fmad))
        link(kernel)
        return kernel

    def _source(self, program: Program) -> CodeSource:
        from tcsim.code_source import code_source

        return code_source(self.module, self.name, program)

    def _load(self, device: Device, program: Program) -> LoadedProgram:
        key = (device.name, program.image is not None)
        loaded = self._loaded.get(key)
        if loaded is None:
            variables = self.module.variables(device)
            with compiling(self.name) as progress:
                loaded = load_program(program, variables.addresses, progress, variables.constants)
            self._loaded[key] = loaded
        return loaded

    def __repr__(self) -> str:
        return f"<tcsim.Function {self.name!r}>"


class RawKernel:
    """One kernel of a piece of code, as CuPy's: ``tcsim.RawKernel(code, name)(grid, block, args)``."""

    def __init__(self, code: str, name: str, options: Sequence[str] = (), backend: str = "nvrtc", **kwargs: Any) -> None:
        self._function = RawModule(code=code, options=options, backend=backend, **kwargs).get_function(name)
        self.name = name

    def __call__(self, grid: Any, block: Any, args: Sequence[Any] = (), **kwargs: Any) -> None:
        """See :meth:`Function.__call__`."""
        self._function(grid, block, args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "max_dynamic_shared_size_bytes":
            self._function.max_dynamic_shared_size_bytes = value
        else:
            super().__setattr__(name, value)
