"""Which bytes of shared memory ``wgmma`` reads for a matrix descriptor: ask a GPU.

Shared memory is filled with numbers that tell where they stand (in two parts, low and high digits), and multiplied with an
identity matrix; the result is where each element was read from. That for descriptors with random starts, offsets and base
offsets, canonical or not.

Run on a machine with a GPU of compute capability 9.0, NumPy and CuPy, from the root of the checkout::

    python -m gpu_ref.tensor.wgmma_addresses FILE.npz

It writes, for each of :data:`PROBES` (its name), uint64 ``[descriptor, 2]``: the descriptor, whose start counts from a
multiple of 1024, and the digest (:func:`digest_of`) of the addresses of all elements, counted likewise.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_ref.device import require_cupy
from gpu_ref.launching import KernelHandle, load_kernel
from gpu_ref.tensor.draw import Draw
from gpu_ref.tensor.wgmma_inputs import IMAGE_BYTES, Problems, Setting, accumulators, places
from gpu_ref.tensor.wgmma_kernels import ENTRY, wgmma_ptx
from gpu_ref.tensor.wgmma_record import run_problems
from isa.errors import TcsimError
from isa.tensor.forms import MmaForm, element_bits
from isa.tensor.layouts import operand_a
from isa.tensor.matrix_descriptor import Descriptor, element_addresses
from isa.tensor.metadata import metadata_fragment
from isa.tensor.wgmma_forms import find_wgmma_form

__all__ = ["DESCRIPTORS", "PROBES", "Probe", "digest_of", "main", "measure"]

DESCRIPTORS = 256
_SEED = 7


class Probe(NamedTuple):
    """``operand`` ``a`` or ``b`` of a form, MN-major or K-major."""

    operand: str
    form: MmaForm
    mn_major: bool

    @property
    def name(self) -> str:
        return f"{self.form} {self.operand} {'mn' if self.mn_major else 'k'}-major"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of A or columns of B, and k."""
        return (self.form.m, self.form.stored_k) if self.operand == "a" else (self.form.n, self.form.k)


def _probes() -> list[Probe]:
    found = []
    for shape, d, a, sparse in (
        ("m64n64k16", "f32", "f16", False), ("m64n256k16", "f32", "f16", False), ("m64n64k32", "f32", "f16", True),
        ("m64n32k32", "s32", "u8", False), ("m64n64k64", "s32", "u8", True), ("m64n8k8", "f32", "tf32", False),
    ):  # fmt: skip
        form = find_wgmma_form(shape, d, a, a, sparse=sparse)
        for operand in "ab":
            if operand == "b" or form.n >= form.k:  # B is to be the identity
                found += [Probe(operand, form, mn_major) for mn_major in ((False, True) if a == "f16" else (False,))]
    return found


PROBES = tuple(_probes())


def digest_of(addresses: NDArray[Any]) -> int:
    """64 bits of the BLAKE2b hash of addresses ``[row of A or column of B, k]``."""
    return int.from_bytes(hashlib.blake2b(np.ascontiguousarray(addresses, "<i4").tobytes(), digest_size=8).digest(), "little")


def _descriptors(probe: Probe) -> NDArray[np.uint64]:
    """Random ones that stay well inside the image; half with a base offset, a quarter with reserved bits set."""
    draw = Draw("wgmma descriptors", probe.name, _SEED)
    n, (mn, k) = DESCRIPTORS, probe.shape
    groups = max(2, mn // 8 + k * element_bits(probe.form.a) // 128)
    span = (IMAGE_BYTES - 24 * 1024) // groups // 16
    start = draw.below(4, n) * 64 + draw.pick((0, 1, 1), n) * draw.below(64, n)
    units = draw.pick((1, 8, 8), n)
    leading, stride = (draw.below(span, n) // units * units for _ in range(2))
    base = draw.below(2, n) * draw.below(8, n)
    swizzle = draw.below(4, n)
    words = start | leading << 16 | stride << 32 | base << 49
    reserved = np.where(draw.chance(4, n), draw.words(n) & np.uint64(3 << 14 | 3 << 30 | 7 << 46 | 1023 << 52), np.uint64(0))
    found: NDArray[np.uint64] = words.astype(np.uint64) | swizzle.astype(np.uint64) << np.uint64(62) | reserved
    return found


def _identity(probe: Probe) -> tuple[Setting, NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint32]]:
    """The setting, an image that holds the identity B if A is probed, A in registers and metadata."""
    form = probe.form
    bits, one = element_bits(form.a), {"f16": 0x3C00, "tf32": 0x3F800000, "u8": 1}[form.a]
    image = np.zeros(IMAGE_BYTES, np.uint8)
    kind = np.dtype(f"<u{bits // 8}")
    e = np.full((4, 1, 32), 0x44444444, np.uint32)
    a = np.zeros((4, 4, 32), np.uint32)
    trans = int(probe.mn_major)
    if probe.operand == "a":
        size = form.n * form.k * bits // 8
        at = (IMAGE_BYTES - size) // 128 * 128
        identity = Descriptor(at, 128, 128 * (form.k * bits // 128)).encode()
        addresses = element_addresses(identity, form.n, form.k, bits, False)
        for index in range(form.k):
            image[addresses[index, index] : addresses[index, index] + bits // 8] = np.array([one], kind).view(np.uint8)
        return Setting(False, trans, 0, 1, 1, 0, 0, 0, identity), image, a, e
    rows = np.zeros((64, form.stored_k), np.uint64)
    for k in range(form.k):  # row k meets element k of a column; of a sparse one, with the first stored of chunk k / 4
        rows[k, 2 * (k // 4) if form.is_sparse else k] = one
    a = np.stack([operand_a(16, form.stored_k, bits).pack(rows[16 * w : 16 * w + 16]) for w in range(4)]).astype(np.uint32)
    if form.is_sparse:
        fragment = metadata_fragment(form)
        row, unit, _ = fragment.coordinates()
        first = row % 4
        codes = np.where(unit % 2 == 0, first, np.where(first == 3, 0, 3)).astype(np.uint32)
        shifts = 2 * np.arange(fragment.per_register, dtype=np.uint32)
        e = np.broadcast_to(np.bitwise_or.reduce(codes << shifts, axis=2), (4, 1, 32)).copy()
    return Setting(True, 0, trans, 1, 1, 0, 0, 0, 0), image, a, e


def _pattern(image: NDArray[np.uint8], ptx_type: str, part: int, keep: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """The image with digits of element numbers; the bytes of ``keep`` stay."""
    size = element_bits(ptx_type) // 8
    number = np.arange(IMAGE_BYTES // size)
    digit = number >> _DIGIT_BITS * part & (1 << _DIGIT_BITS) - 1
    values: Any = {"f16": np.float16, "tf32": np.float32, "u8": np.uint8}[ptx_type]
    return np.where(keep, image, digit.astype(values).view(np.uint8))


_DIGIT_BITS = 8


def measure(probe: Probe, handle: KernelHandle) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The descriptors, and the addresses ``[descriptor, row of A or column of B, k]``."""
    form = probe.form
    descriptors = _descriptors(probe)
    setting, image, a, e = _identity(probe)
    keep = np.zeros(IMAGE_BYTES, bool)
    if probe.operand == "a":
        keep[(IMAGE_BYTES - form.n * form.k * element_bits(form.a) // 8) // 128 * 128 :] = True
    found = np.zeros((len(descriptors), form.m, form.n), np.int64)
    row, column = places(form)
    none = np.zeros(0)
    for part in range(2):
        pattern = _pattern(image, form.a, part, keep)
        c = accumulators(form, np.zeros((1, form.m, form.n)))
        for index, descriptor in enumerate(descriptors.tolist()):
            chosen = setting._replace(**{probe.operand: descriptor})
            given = Problems(chosen, pattern[None], a[None], c, e.reshape(1, 4, 32), (none, none, none))
            d = run_problems(handle, form, given)[0]
            digits = d.view(np.float32) if form.d == "f32" else d
            found[index, row[..., 0], column[..., 0]] += digits.astype(np.int64) << _DIGIT_BITS * part
    bytes_each = element_bits(form.a) // 8
    k = probe.shape[1]
    if probe.operand == "b":
        return descriptors, found[:, :k].transpose(0, 2, 1) * bytes_each
    stored = np.arange(k)
    met = 4 * (stored // 2) + stored % 2 if form.is_sparse else stored
    return descriptors, found[:, :, met] * bytes_each


def main(arguments: list[str] | None = None) -> int:
    """Command line; see the module's text. Returns 0, or 2 where the GPU failed."""
    parser = argparse.ArgumentParser(description="Ask this machine's GPU which bytes wgmma reads.")
    parser.add_argument("file", type=Path, help="where to write the recording (.npz)")
    options = parser.parse_args(arguments)
    recorded = {}
    try:
        require_cupy()
        for probe in PROBES:
            handle = load_kernel(wgmma_ptx(probe.form, probe.operand == "b"), ENTRY, assembler="ptxas")
            descriptors, addresses = measure(probe, handle)
            digests = np.array([digest_of(x) for x in addresses], np.uint64)
            recorded[probe.name] = np.stack([descriptors, digests], axis=1)
    except TcsimError as error:
        print(error, file=sys.stderr)
        return 2
    np.savez_compressed(options.file, **recorded)  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main())
