"""CUDA C to PTX through NVRTC, where it is installed (no GPU and no driver needed)."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from functools import cache
from pathlib import Path

from tcsim.errors import TcsimError

__all__ = ["CompileError", "compile_cuda", "looks_like_ptx", "nvrtc_available"]


class CompileError(TcsimError):
    """NVRTC rejected the source; the message is its log."""


_COMMENT = re.compile(r"\s+|//[^\n]*\n?|/\*.*?\*/", re.DOTALL)


def looks_like_ptx(text: str) -> bool:
    """Whether a text is PTX: after comments it starts with a directive (``.version``), which CUDA C never does.

    Raises TcsimError where nothing but comments is there, as a compiler leaves a file when it fails.
    """
    position = 0
    while match := _COMMENT.match(text, position):
        position = match.end()
    if not text[position:].strip("\0"):
        raise TcsimError("the module is empty: neither PTX nor CUDA C is in it. Did the compiler that wrote it fail?")
    return text.startswith(".", position)


@cache
def _nvrtc() -> ctypes.CDLL | None:
    """The NVRTC library: from the ``nvidia-cuda-nvrtc`` package if present, else a CUDA toolkit's."""
    folders = [Path(entry) / "nvidia" for entry in sys.path if entry]
    pattern = "nvrtc64_*.dll" if sys.platform == "win32" else "libnvrtc.so.*"
    candidates = [p for f in folders if f.is_dir() for p in sorted(f.glob(f"*/lib/{pattern}"), reverse=True)]
    names = [str(p) for p in candidates if "builtins" not in p.name and "alt" not in p.name]
    toolkit = sorted(Path("/usr/local").glob("cuda*/lib64/libnvrtc.so"), reverse=True)
    for name in (*names, *map(str, toolkit), "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            library = ctypes.CDLL(name)
            # NVRTC opens this one by its bare name; it finds what is loaded already.
            for builtins in Path(name).parent.glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(builtins))
        except OSError:
            continue
        return library
    return None


def nvrtc_available() -> bool:
    """Whether CUDA C can be compiled here."""
    return _nvrtc() is not None


def _include_folders() -> list[Path]:
    """Where ``cuda_fp16.h`` and its like are: beside NVRTC in the pip packages, else in a CUDA toolkit."""
    roots = [root for entry in sys.path if entry for root in sorted((Path(entry) / "nvidia").glob("*/include"))]
    roots += [Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots += [Path("/usr/local/cuda/include")]
    found = next((root for root in roots if (root / "cuda_fp16.h").is_file()), None)
    if found is None:
        return []
    return [found, *(folder for folder in (found / "cccl",) if folder.is_dir())]


def compile_cuda(
    source: str,
    sm: int,
    options: tuple[str, ...] = (),
    path: str | None = None,
    names: tuple[str, ...] = (),
) -> tuple[str, dict[str, str]]:
    """PTX of CUDA C for ``sm_XX`` with source lines, and the names in it of the C++ expressions ``names``.

    CUDA's own headers are found by themselves, those beside ``path`` too. Raises CompileError, or TcsimError if NVRTC is
    missing.
    """
    library = _nvrtc()
    if library is None:
        raise TcsimError(
            "this is CUDA C, and compiling it needs NVRTC: pip install 'tcsim[cuda]' (no GPU needed). PTX runs without it: "
            "nvcc -ptx kernel.cu"
        )
    flags = [f"--gpu-architecture=compute_{sm}", "--generate-line-info", *options]
    if any(o.startswith(("-arch", "--gpu-architecture")) for o in options):
        flags.remove(f"--gpu-architecture=compute_{sm}")
    folders = ([Path(path).resolve().parent] if path else []) + _include_folders()
    flags += [f"--include-path={folder}" for folder in folders]
    program = ctypes.c_void_p()
    name = (path or "kernel.cu").encode()
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name, 0, None, None))
    try:
        for expression in names:
            _check(library, library.nvrtcAddNameExpression(program, expression.encode()))
        encoded = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        status = library.nvrtcCompileProgram(program, len(flags), encoded)
        if status != 0:
            log = _text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
            raise CompileError(f"NVRTC could not compile {path or 'the source'}:\n{log.strip() or _error(library, status)}")
        lowered = {expression: _lowered(library, program, expression) for expression in names}
        return _text(library.nvrtcGetPTXSize, library.nvrtcGetPTX, program), lowered
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _lowered(library: ctypes.CDLL, program: ctypes.c_void_p, expression: str) -> str:
    name = ctypes.c_char_p()
    _check(library, library.nvrtcGetLoweredName(program, expression.encode(), ctypes.byref(name)))
    return (name.value or b"").decode()


def _text(size_of: object, get: object, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))  # type: ignore[operator]
    buffer = ctypes.create_string_buffer(size.value)
    get(program, buffer)  # type: ignore[operator]
    return buffer.value.decode(errors="replace")


def _error(library: ctypes.CDLL, status: int) -> str:
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    text = library.nvrtcGetErrorString(status)
    return text.decode() if text else f"error {status}"


def _check(library: ctypes.CDLL, status: int) -> None:
    if status != 0:
        raise CompileError(f"NVRTC: {_error(library, status)}")
