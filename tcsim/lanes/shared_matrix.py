"""Where ``wgmma`` finds the elements of a matrix in shared memory: ``tcsim layout ... --descriptor`` and ``--swizzle``."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.tensor import MmaForm
from isa.tensor.forms import element_bits
from isa.tensor.matrix_descriptor import Descriptor, element_addresses
from isa.tensor.wgmma_forms import transposable
from tcsim.errors import TcsimError

__all__ = ["SharedMatrix", "packed", "shared_matrix"]


@dataclass(frozen=True, eq=False)
class SharedMatrix:
    """Operand ``a`` or ``b`` of a ``wgmma`` in shared memory. ``addresses`` ``[row of A or column of B, k]``: of the byte that
    the element begins in. ``mn_major``: rows of A, or columns of B, side by side."""

    form: MmaForm
    operand: str
    descriptor: Descriptor
    mn_major: bool
    addresses: NDArray[np.int64]

    @property
    def bits(self) -> int:
        """Of an element."""
        return element_bits(self.form.a)

    @property
    def title(self) -> str:
        """What is read and by which descriptor."""
        d = self.descriptor
        line = "column" if self.operand == "b" else "row"
        major = f"{line}s side by side" if self.mn_major else f"each {line} along k"
        swizzle = f"swizzled over {d.swizzle} bytes" if d.swizzle else "no swizzle"
        stored = "stored " if self.form.is_sparse and self.operand == "a" else ""
        mn, k = self.addresses.shape
        return (
            f"{self.form}\n{self.operand.upper()}  {mn} {line}s of {k} {stored}{self.form.a}, {major}, {swizzle}\n"
            f"descriptor {d.encode():#018x}: start {d.start:#x}, leading offset {d.leading}, stride {d.stride}, "
            f"base offset {d.base_offset}"
        )

    def chunks(self) -> list[list[int]]:
        """Addresses of the runs of 16 bytes: K-major ``[row or column][along k]``, else ``[k][along rows or columns]``."""
        step = 128 // self.bits
        by_line = self.addresses.T if self.mn_major else self.addresses
        chunks: list[list[int]] = by_line[:, ::step].tolist()
        return chunks

    def text(self) -> str:
        """A line for each row, column or k, with the address of each run of 16 bytes."""
        step, chunks = 128 // self.bits, self.chunks()
        along = ("column" if self.operand == "b" else "row") if self.mn_major else "k"
        down = "k" if self.mn_major else ("column" if self.operand == "b" else "row")
        heads = [f"{along} {i * step}-{i * step + step - 1}" for i in range(len(chunks[0]))]
        table = [[down, *heads], *([str(i), *(f"{x:#07x}" for x in line)] for i, line in enumerate(chunks))]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(word.rjust(width) for word, width in zip(words, widths, strict=True)) for words in table]
        return "\n".join([self.title, "", *lines])

    def _rows(self) -> list[tuple[int, int, int]]:
        mn, k = self.addresses.shape
        return [(i, j, int(self.addresses[i, j])) for i in range(mn) for j in range(k)]

    def csv(self) -> str:
        """Every element: row of A or column of B, k, address, and the lowest bit there."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(("column" if self.operand == "b" else "row", "k", "address", "bit"))
        writer.writerows((i, j, at, j * self.bits % 8) for i, j, at in self._rows())
        return out.getvalue()

    def json(self) -> str:
        """The descriptor's fields and all addresses."""
        d = self.descriptor
        fields = {name: getattr(d, name) for name in ("start", "leading", "stride", "swizzle", "base_offset")}
        data = {
            "schema": 1,
            "ptx": str(self.form),
            "operand": self.operand,
            "mn_major": self.mn_major,
            "descriptor": f"{d.encode():#018x}",
            **fields,
            "addresses": self.addresses.tolist(),
        }
        return json.dumps(data) + "\n"


def packed(form: MmaForm, operand: str, swizzle: int, mn_major: bool) -> Descriptor:
    """The descriptor of a matrix that begins at address 0 and has its core matrices next to each other."""
    mn, k = (form.m, form.stored_k) if operand == "a" else (form.n, form.k)
    width = max(1, swizzle // 16)
    atom = 128 * width
    chunks = k * element_bits(form.a) // 128
    if mn_major:
        groups = -(-mn // (8 * width))
        return Descriptor(0, atom * (k // 8), atom, swizzle) if swizzle else Descriptor(0, atom * groups, atom)
    return Descriptor(0, atom * (mn // 8), atom, swizzle) if swizzle else Descriptor(0, atom, atom * chunks)


def shared_matrix(
    form: MmaForm, operand: str, *, descriptor: int | None = None, swizzle: int = 0, mn_major: bool = False
) -> SharedMatrix:
    """The addresses that a ``wgmma`` reads operand ``a`` or ``b`` from: by ``descriptor`` (64 bits), or as :func:`packed` lays
    it out. Raises TcsimError for an operand that is never in shared memory or cannot be MN-major."""
    if not form.instruction.startswith("wgmma") or operand not in ("a", "b"):
        raise TcsimError(f"{form}: only operands a and b of wgmma are read through matrix descriptors (PTX ISA 9.7.15.5.1.2)")
    if mn_major and not transposable(form.a):
        raise TcsimError(f"{form}: only operands of 16 bits can be transposed, {form.a} lies along k (PTX ISA 9.7.15.5.2)")
    if swizzle not in (0, 32, 64, 128):
        raise TcsimError(f"swizzle {swizzle}: it is 0, 32, 64 or 128 bytes wide (PTX ISA 9.7.15.5.1.2)")
    fields = packed(form, operand, swizzle, mn_major) if descriptor is None else Descriptor.decode(descriptor)
    mn, k = (form.m, form.stored_k) if operand == "a" else (form.n, form.k)
    addresses = element_addresses(fields.encode(), mn, k, element_bits(form.a), mn_major)
    return SharedMatrix(form, operand, fields, mn_major, addresses)
