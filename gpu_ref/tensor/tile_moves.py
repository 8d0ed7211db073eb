"""What ``wmma.load`` and ``wmma.store`` move where: every operand, layout, shape and type, packed and with strides.

A kernel loads a tile of random words and writes the fragment's registers out, or takes registers and stores them as a tile. The
recording has a hash of what each returned. On a machine with a GPU, from the root of the checkout::

    python -m gpu_ref.tensor.tile_moves traces/vectors/tile_moves.npz
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import isa.instructions  # noqa: F401  (fills the registry)
from gpu_ref.device import require_cupy
from gpu_ref.launching import load_kernel
from gpu_ref.tensor.draw import Draw
from isa.errors import TcsimError
from isa.spec import Form, all_instructions
from isa.spec.enumerate import forms_of
from isa.tensor.forms import element_bits

__all__ = ["ENTRY", "MEMORY_WORDS", "MOVES", "Move", "digest", "given", "main", "ptx", "results"]

ENTRY = "move"
MEMORY_WORDS = 4096
_SEED = 2026_12
_LONGER = (0, 1, 3)
"""Strides are those of the packed tile, rounded up to 16 bytes, and so many times 16 bytes more."""


class Move(NamedTuple):
    """A form, and the ``stride`` that it is given, in elements; 0 where its text has none."""

    form: Form
    stride: int

    @property
    def name(self) -> str:
        return f"{self.form.name} {self.stride or 'packed'}"


def _stride(form: Form, longer: int) -> int:
    m, n, k = (int(x) for x in str(form.params["shape"])[1:].replace("n", " ").replace("k", " ").split())
    rows, columns = {"a": (m, k), "b": (k, n)}.get(str(form.params.get("operand", "d")), (m, n))
    extent = columns if form.params["layout"] == "row" else rows
    unit = 128 // element_bits(str(form.params["t"]))
    return (-(-extent // unit) + longer) * unit


def _moves() -> list[Move]:
    found = []
    for entry in all_instructions():
        for form in forms_of(entry) if entry.pattern.base == "wmma" and not entry.pattern.text.startswith("wmma.mma") else ():
            if form.params["space"]:
                continue
            has_stride = any(o.name == "stride" for o in form.operands)
            found += [Move(form, _stride(form, more)) for more in _LONGER] if has_stride else [Move(form, 0)]
    return found


def ptx(move: Move) -> str:
    """The kernel: parameters are the address of what it reads, that of (zeroed) memory to write, and the stride."""
    form = move.form
    (fragment,) = (o for o in form.operands if o.is_vector)
    wide = fragment.type.bits == 64
    kind, size = ("f64", 8) if wide else ("b32", 4)
    registers = ", ".join(f"%v{i}" for i in range(fragment.count))
    stride = ", %s" if move.stride else ""
    lines = []
    if fragment.is_destination:
        lines.append(f"{form.name} {{{registers}}}, [%in]{stride};")
        lines += [f"st.global.{kind} [%o+{32 * size * i}], %v{i};" for i in range(fragment.count)]
    else:
        lines += [f"ld.global.{kind} %v{i}, [%i+{32 * size * i}];" for i in range(fragment.count)]
        lines.append(f"{form.name} [%out], {{{registers}}}{stride};")
    body = "\n".join(lines)
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry {ENTRY}(.param .u64 in, .param .u64 out, .param .u32 stride)
{{
.reg .{kind} %v<{fragment.count}>; .reg .b64 %in, %out, %i, %o; .reg .b32 %s, %t;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %s, [stride];
mov.u32 %t, %laneid; mad.wide.u32 %i, %t, {size}, %in; mad.wide.u32 %o, %t, {size}, %out;
{body}
ret;
}}
"""


MOVES: tuple[Move, ...] = tuple(_moves())
"""Every form of ``wmma.load`` and ``wmma.store`` in generic addresses, with several strides."""


def given(move: Move) -> NDArray[np.uint32]:
    """The memory that a kernel reads."""
    return Draw("tile moves", move.name, _SEED).words(MEMORY_WORDS).astype(np.uint32)


def digest(words: NDArray[np.uint32]) -> int:
    """64 bits of the BLAKE2b hash of what a kernel wrote."""
    return int.from_bytes(hashlib.blake2b(np.ascontiguousarray(words, "<u4").tobytes(), digest_size=8).digest(), "little")


Launch = Callable[[str, NDArray[np.uint32], int], NDArray[np.uint32]]


def results(launch: Launch, moves: tuple[Move, ...] = MOVES) -> dict[str, int]:
    """The digest of each move. ``launch`` runs a kernel's text on memory and a stride and returns what it wrote."""
    return {move.name: digest(launch(ptx(move), given(move), move.stride)) for move in moves}


def _on_gpu(text: str, memory: NDArray[np.uint32], stride: int) -> NDArray[np.uint32]:
    handle = load_kernel(text, ENTRY)
    uploaded = handle.upload([memory, np.zeros(MEMORY_WORDS, np.uint32), np.uint32(stride)])
    handle.run((1, 1, 1), (32, 1, 1), uploaded, 0)
    written: NDArray[Any] = uploaded[1].get()
    return written


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text. Returns 0, or 2 where the GPU failed."""
    parser = argparse.ArgumentParser(description="Ask this machine's GPU what wmma.load and wmma.store move where.")
    parser.add_argument("file", type=Path, help="where to write the recording (.npz)")
    options = parser.parse_args(arguments)
    try:
        require_cupy()
        found = results(_on_gpu)
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 2
    names, digests = np.array("\n".join(found)), np.array(list(found.values()), np.uint64)
    np.savez_compressed(options.file, names=names, digests=digests)
    print(f"{options.file}: {len(found)} moves")
    return 0


if __name__ == "__main__":
    sys.exit(main())
