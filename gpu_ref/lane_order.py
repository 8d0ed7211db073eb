"""Whose value stays, and who comes first, when the lanes of one warp meet at one place in one instruction.

PTX leaves both open; a GPU does not. Each kernel here carries out one instruction once, with every lane's address, value and
predicate read from memory, and writes out what is left at the places and what each lane got back. The recording has a hash of
both for each pattern of addresses. On a machine with a GPU, from the root of the checkout::

    python -m gpu_ref.lane_order traces/vectors/lane_order.npz
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

from gpu_ref.device import require_cupy
from gpu_ref.launching import load_kernel
from gpu_ref.tensor.draw import Draw
from isa.errors import TcsimError

__all__ = ["ACCESSES", "ENTRY", "PATTERNS", "WORDS", "Access", "digest", "given", "main", "ptx", "results"]

ENTRY = "meet"
WORDS = 512
"""32-bit words of each array: the input (see `given`), and the output: 256 of the places, 256 of what the lanes got back."""

PATTERNS = 18
"""Patterns of addresses for each access; a third of them leaves lanes out."""

REPEATS = 4
"""A GPU carries out each pattern so often; what differs between two runs is not recorded but refused."""

_SEED = 2026_11
_PLACES = 32


class Access(NamedTuple):
    """One instruction.

    ``text`` has ``%a`` for the address (``%sa`` in shared memory), ``%s`` for that of the lane's 16 bytes in global memory,
    ``%v0``... for words and ``%w0``... for pairs of them, ``%x`` and ``%y`` for what comes back (32 and 64 bits). ``size`` are
    the bytes of a place; ``space`` is ``global`` or ``shared``, or ``cluster`` for the shared memory of another CTA.
    """

    text: str
    size: int
    space: str

    @property
    def name(self) -> str:
        return f"{self.text} in {self.space} memory"


def _accesses() -> tuple[Access, ...]:
    found = []
    for space in ("global", "shared"):
        a = "%a" if space == "global" else "%sa"
        for kind, size, value in (
            ("u8", 1, "%v0"),
            ("u16", 2, "%h0"),
            ("u32", 4, "%v0"),
            ("u64", 8, "%w0"),
            ("v2.u32", 8, "{%v0, %v1}"),
            ("v4.u32", 16, "{%v0, %v1, %v2, %v3}"),
            ("v2.u64", 16, "{%w0, %w1}"),
        ):
            found.append(Access(f"st.{space}.{kind} [{a}], {value}", size, space))
        for op, size, operands in (
            ("add.u32", 4, "%x, [@], %v0"),
            ("add.u64", 8, "%y, [@], %w0"),
            ("add.f32", 4, "%x, [@], %v0"),
            ("add.f64", 8, "%y, [@], %w0"),
            ("exch.b32", 4, "%x, [@], %v0"),
            ("exch.b64", 8, "%y, [@], %w0"),
            ("cas.b32", 4, "%x, [@], %v1, %v0"),
            ("cas.b64", 8, "%y, [@], %w1, %w0"),
            ("inc.u32", 4, "%x, [@], %v0"),
            ("add.noftz.f16x2", 4, "%x, [@], %v0"),
        ):
            if space == "shared" and size == 8 and "add" in op:
                continue  # ptxas makes a loop of these: several instructions
            found.append(Access(f"atom.{space}.{op} {operands.replace('@', a)}", size, space))
    found += [Access(f"red.global.add.{t} [%a], {v}", size, "global") for t, size, v in (("f32", 4, "%v0"), ("f64", 8, "%w0"))]
    for cop, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)):
        found.append(Access(f"cp.async.{cop}.shared.global [%sa], [%s], {size}", size, "shared"))
    for count in (1, 2, 4):
        registers = ", ".join(f"%v{i}" for i in range(count))
        for trans in ("", ".trans"):
            text = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%sa], {{{registers}}}"
            found.append(Access(text, 16, "shared"))
    found.append(Access("st.shared::cluster.u32 [%sa], %v0", 4, "cluster"))
    found.append(Access("st.shared::cluster.u64 [%sa], %w0", 8, "cluster"))
    return tuple(found)


ACCESSES: tuple[Access, ...] = _accesses()
"""Every access that is asked."""


def ptx(access: Access) -> str:
    """The kernel: parameters are the address of the input (`given`) and that of zeroed output."""
    guard = "" if access.text.startswith("stmatrix") else "@%p "
    meet = f"{guard}{access.text};"
    if access.space == "cluster":
        meet = f"""mapa.shared::cluster.u32 %sa, %sa, 1;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.ne.u32 %q, %rank, 0; @!%q bra MEET; bra MET;
MEET: {meet}
MET: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    leave = "setp.eq.u32 %q, %rank, 0; @%q ret;" if access.space == "cluster" else ""
    places = ""
    if access.space != "global":
        places = "\n".join(f"ld.shared.u32 %t, [%own+{128 * i}]; st.global.u32 [%out+{128 * i}], %t;" for i in range(8))
    clear = "\n".join(f"st.shared.u32 [%own+{128 * i}], 0;" for i in range(8))
    return f""".version 8.1
.target sm_90
.address_size 64
.visible .entry {ENTRY}(.param .u64 in, .param .u64 out){" .reqnctapercluster 2, 1, 1" if access.space == "cluster" else ""}
{{
.reg .b16 %h0; .reg .b32 %l, %t, %x, %sa, %own, %offset, %rank, %v<4>;
.reg .b64 %a, %in, %out, %s, %y, %w<2>; .reg .pred %p, %q;
.shared .align 16 .b8 places[1024];
ld.param.u64 %in, [in]; ld.param.u64 %a, [out]; mov.u32 %l, %laneid; mov.u32 %rank, %cluster_ctarank;
mov.u32 %x, 77; mov.u64 %y, 77;
mad.wide.u32 %s, %l, 4, %in; ld.global.u32 %offset, [%s]; ld.global.u32 %t, [%s+128]; setp.ne.u32 %p, %t, 0;
mad.wide.u32 %s, %l, 16, %in; add.u64 %s, %s, 1024;
ld.global.v4.u32 {{%v0, %v1, %v2, %v3}}, [%s]; ld.global.v2.u64 {{%w0, %w1}}, [%s]; cvt.u16.u32 %h0, %v0;
mad.wide.u32 %out, %l, 4, %a; mov.u32 %own, places; add.u32 %sa, %own, %offset; mad.lo.u32 %own, %l, 4, %own;
cvt.u64.u32 %in, %offset; add.u64 %a, %a, %in;
{clear}
bar.warp.sync 0xffffffff;
{meet}
cp.async.wait_all;
bar.warp.sync 0xffffffff;
{leave}
{places}
st.global.u32 [%out+1024], %x; mad.wide.u32 %out, %l, 4, %out; st.global.u64 [%out+1280], %y;
ret;
}}
"""


def given(access: Access, pattern: int) -> NDArray[np.uint32]:
    """The input: each lane's place in bytes, whether it takes part, and from word 256 on four words for it."""
    draw = Draw("lane order", access.name, pattern, _SEED)
    lanes = np.arange(32)
    places = (
        np.zeros(32, np.int64),
        lanes // 2,
        draw.below(4, 32),
        draw.below(_PLACES, 32),
        (31 - lanes) // 3,
        16 * draw.below(2, 32),
    )[pattern % 6]
    words = np.zeros(WORDS, np.uint32)
    words[:32] = places * access.size
    words[32:64] = 1 if pattern < 2 * PATTERNS // 3 else draw.below(2, 32)
    values = draw.words(128).astype(np.uint32)
    if ".f16x2" in access.text:  # numbers of similar size, so that the order of a sum shows in its bits
        values = np.uint32(0x3C003C00) | values & np.uint32(0x03FF03FF)
    elif ".f32" in access.text or ".f64" in access.text:
        values = np.uint32(0x3F800000) | values & np.uint32(0x007FFFFF)
    if "cas" in access.text:  # what every third lane compares with is what the lane before it would leave
        rows, word = values.reshape(32, 4), access.size // 4
        rows[:, word : 2 * word] = 0
        rows[:, 3] = 0
        rows[::3, word : 2 * word] = np.roll(rows[:, :word], 1, 0)[::3]
    words[256:384] = values
    return words


def digest(words: NDArray[np.uint32]) -> int:
    """64 bits of the BLAKE2b hash of what a kernel wrote."""
    return int.from_bytes(hashlib.blake2b(np.ascontiguousarray(words, "<u4").tobytes(), digest_size=8).digest(), "little")


Launch = Callable[[Access, list[NDArray[np.uint32]]], list[NDArray[np.uint32]]]


def results(launch: Launch, accesses: tuple[Access, ...] = ACCESSES) -> dict[str, list[int]]:
    """The digests of each access, a pattern each. ``launch`` runs its kernel on several inputs and returns what it wrote."""
    found = {}
    for access in accesses:
        written = launch(access, [given(access, pattern) for pattern in range(PATTERNS)])
        found[access.name] = [digest(words) for words in written]
    return found


def _on_gpu(access: Access, inputs: list[NDArray[np.uint32]]) -> list[NDArray[np.uint32]]:
    handle = load_kernel(ptx(access), ENTRY)
    found = []
    for words in inputs:
        runs = []
        for _ in range(REPEATS):
            uploaded = handle.upload([words, np.zeros(WORDS, np.uint32)])
            handle.run((2 if access.space == "cluster" else 1, 1, 1), (32, 1, 1), uploaded, 0)
            runs.append(uploaded[1].get())
        if any((run != runs[0]).any() for run in runs):
            raise TcsimError(f"{access.name}: two runs on this GPU differ, so there is no order to record")
        found.append(runs[0])
    return found


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text. Returns 0, or 2 where the GPU failed."""
    parser = argparse.ArgumentParser(description="Ask this machine's GPU in which order the lanes of a warp meet at one place.")
    parser.add_argument("file", type=Path, help="where to write the recording (.npz)")
    options = parser.parse_args(arguments)
    try:
        require_cupy()
        found = results(_on_gpu)
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 2
    digests: NDArray[Any] = np.array(list(found.values()), np.uint64)
    np.savez_compressed(options.file, names=np.array("\n".join(found)), digests=digests)
    print(f"{options.file}: {digests.size} patterns of {len(found)} accesses")
    return 0


if __name__ == "__main__":
    sys.exit(main())
