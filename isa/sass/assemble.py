"""From PTX to a listing of its machine code: ptxas, then nvdisasm, kept on disk by the hash of the PTX and ptxas's version."""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from isa.cachefolder import cache_folder
from isa.sass.listing import ListingError
from isa.sass.sections import trim
from isa.sass.toolchain import AssemblerError, choose_ptxas, ptxas_version, required, run_ptxas, run_tool

__all__ = ["Listing", "assemble", "ptx_digest", "read_kept", "write_kept"]

_FORMAT = 5  # of a kept listing; counts up when more sections are kept


@dataclass(frozen=True, slots=True)
class Listing:
    """Machine code as text. ``target``: what it was assembled for, as ``sm_90``; ``assembler``: ptxas's version; ``fmad``:
    whether it contracted multiplies and adds; ``ptx``: :func:`ptx_digest` of its PTX, ``""`` where that is not known.

    The text says both itself, so it can be kept in a file and read again (:meth:`from_text`) where ptxas is not installed.
    """

    text: str
    target: str
    assembler: str
    fmad: bool = True
    ptx: str = ""

    @property
    def sm(self) -> int:
        """The architecture's number."""
        return int(self.target.removeprefix("sm_").rstrip("af"))

    @classmethod
    def from_text(cls, text: str) -> Listing:
        """A listing that was kept. Raises ListingError for other text."""
        match = _HEADER.match(text)
        if match is None:
            raise ListingError("this is not a listing that tcsim kept: its first lines must name ptxas's version and a target")
        return cls(text, match["target"], match["version"], not match["apart"], match["ptx"] or "")


_HEADER = re.compile(
    r"// ptxas (?P<version>[\d.]+)(?P<apart> without fmad)?(?: of PTX (?P<ptx>[0-9a-f]+))?\n\s*\.target\s+(?P<target>sm_\w+)\n"
)


def ptx_digest(ptx: str) -> str:
    """What a listing says of the PTX that it was made from: the start of its SHA-256."""
    return hashlib.sha256(ptx.encode()).hexdigest()[:16]


def read_kept(path: Path) -> Listing:
    """A listing from a file, compressed if its name ends in ``.xz``. Raises ListingError."""
    try:
        data = path.read_bytes()
        return Listing.from_text((lzma.decompress(data) if path.suffix == ".xz" else data).decode())
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as problem:
        raise ListingError(f"cannot read the listing {path}: {problem}") from None


def write_kept(listing: Listing, path: Path) -> None:
    """Write a listing, compressed; the same listing gives the same bytes."""
    path.write_bytes(lzma.compress(listing.text.encode(), preset=9 | lzma.PRESET_EXTREME))


def assemble(ptx: str, architecture: str, *, fmad: bool = True, ptxas: Path | None = None) -> Listing:
    """Assemble a module for an architecture and disassemble it.

    PTX whose ``.target`` is specific to an architecture (``sm_90a``) is assembled for that target. ``fmad`` False keeps
    multiplications and additions apart. Without ``ptxas``, :func:`isa.sass.toolchain.choose_ptxas` chooses one. Raises
    AssemblerError if a tool is missing or ptxas refuses the module.
    """
    ptxas = ptxas or choose_ptxas(ptx)
    version = ptxas_version(ptxas)
    specific = re.search(r"^\s*\.target\s+(sm_\d+[af])\b", ptx, re.MULTILINE)
    target = specific.group(1) if specific else architecture
    key = hashlib.sha256(f"{_FORMAT} {version} {target} {fmad}\n{ptx}".encode()).hexdigest()[:24]
    folder = cache_folder() / "listings"
    folder.mkdir(exist_ok=True)
    kept = folder / f"{key}.sass"
    if not kept.exists():
        draft = kept.with_suffix(f".{os.getpid()}.tmp")
        apart = "" if fmad else " without fmad"
        draft.write_text(f"// ptxas {version}{apart} of PTX {ptx_digest(ptx)}\n{_assemble(ptx, target, fmad, ptxas)}")
        draft.replace(kept)
    return Listing.from_text(kept.read_text())


def _assemble(ptx: str, target: str, fmad: bool, ptxas: Path) -> str:
    nvdisasm = required("nvdisasm")
    with tempfile.TemporaryDirectory() as name:
        source, cubin = Path(name) / "module.ptx", Path(name) / "module.cubin"
        source.write_text(ptx)
        run_ptxas(ptxas, source, cubin, target, "-lineinfo", f"--fmad={'true' if fmad else 'false'}")
        command = [str(nvdisasm), "-gp", "-hex", str(cubin)]
        answer = run_tool(command)
    if answer.returncode != 0:
        raise AssemblerError(f"nvdisasm: {answer.stderr.strip()[:2000]}")
    return trim(answer.stdout)
