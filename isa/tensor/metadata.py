"""The metadata of ``mma.sp``: which elements of a row of A are stored.

A row of A is cut into chunks of four *units*, of which two are stored. Each stored unit has a code of two bits, its index in
its chunk. What a unit is depends on the type (PTX ISA 9.7.14.6.1):

* an element of 16 or 8 bits (2:4 granularity),
* a pair of neighbouring 4-bit elements (4:8, pair-wise),
* half of a tf32 element (1:2 is written as 2:4 of halves: 0b0100 stores the first of two elements, 0b1110 the second).

The two codes of a chunk are a *pair* of four bits, the first stored unit's in the low ones. The two codes must differ. With
``::ordered_metadata`` the first must be the lower; for tf32 there are only the two pairs above. What other pairs do is
undefined. An H200 takes every code for itself, whatever its neighbour is: two stored units may meet one unit of B, and a
tf32 element halves of two (driver 580.159.04, all forms, random metadata: ``undefined.npz`` in ``traces/vectors``).

One operand of 32 bits holds the codes. Of each group of four lanes, one, two or all contribute theirs: with 16-bit units,
lane (g, t) holds eight codes of row g in its low half and of row g + 8 in its high half; with 8-bit units sixteen codes of
one of these rows. Where not all lanes contribute, the selector says which do. Source: figures in PTX ISA 9.7.14.6.2; the
recordings in ``traces/vectors`` agree with them.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from isa.tensor.forms import MmaForm, NoFormError
from isa.tensor.layouts import Fragment, Step

__all__ = [
    "DEFINED_EVERYWHERE", "MetadataLayout", "codes_of", "gathered_k", "metadata_fragment", "metadata_layout",
    "reading_lanes", "valid_pairs",
]  # fmt: skip

_ROWS = 16

DEFINED_EVERYWHERE = frozenset({90})
"""Architectures of which it is known what pairs without a meaning do."""


class MetadataLayout(Struct, frozen=True):
    """``units`` stored units of ``unit_bits`` bits in a row; ``lanes`` of each four lanes contribute metadata."""

    unit_bits: int
    units: int
    lanes: int

    @property
    def selectors(self) -> int:
        """How many values the selector can have."""
        return 4 // self.lanes


def metadata_layout(form: MmaForm) -> MetadataLayout:
    """The layout of a form's metadata. Raises :class:`~isa.tensor.forms.NoFormError` for a form that has none."""
    if not form.is_sparse:
        raise NoFormError(f"{form} is dense and has no metadata (PTX ISA 9.7.14.6)")
    bits = form.operand_bits
    unit_bits = 16 if bits >= 16 else 8
    units = form.stored_k * bits // unit_bits
    return MetadataLayout(unit_bits, units, _ROWS * units // (8 * 16))


def metadata_fragment(form: MmaForm) -> Fragment:
    """The metadata operand as a matrix of codes, ``[row of A, stored unit]``. Lanes that differ only in bits that the
    selector stands for hold copies here; the instruction reads :func:`reading_lanes`."""
    layout = metadata_layout(form)
    row_8: Step = (8, 0)
    free = (layout.units // 8).bit_length() - 1
    if layout.unit_bits == 16:
        element: tuple[Step, ...] = ((0, 1), (0, 2), (0, 4), row_8)
        chosen: tuple[Step, ...] = ((0, 8),)[:free]
    else:
        element = ((0, 1), (0, 2), (0, 4), (0, 8))
        chosen = (row_8, (0, 16))[:free]
    copies: tuple[Step, ...] = ((0, 0),) * (2 - len(chosen))
    return Fragment(_ROWS, layout.units, (*chosen, *copies, (1, 0), (2, 0), (4, 0)), register=(), element=element)


def reading_lanes(form: MmaForm, selector: int) -> np.ndarray:
    """The lanes whose metadata the instruction reads, ascending. Raises :class:`~isa.tensor.forms.NoFormError` for a
    selector that the form does not have."""
    layout = metadata_layout(form)
    if not 0 <= selector < layout.selectors:
        raise NoFormError(f"{form} takes a sparsity selector below {layout.selectors}, this is {selector} (PTX ISA 9.7.14.6.1)")
    lanes = np.arange(32)
    return np.asarray(lanes[lanes % 4 // layout.lanes == selector])


def valid_pairs(form: MmaForm, ordered: bool) -> tuple[int, ...]:
    """The pairs of codes that have a meaning, as four bits each."""
    if form.a == "tf32":
        return 0b0100, 0b1110
    pairs = ((first, second) for first in range(4) for second in range(4))
    return tuple(first | second << 2 for first, second in pairs if (first < second if ordered else first != second))


def codes_of(form: MmaForm, metadata: np.ndarray, selector: int) -> np.ndarray:
    """The codes ``[row, unit]`` in a metadata operand ``[lane]``. Raises as :func:`reading_lanes` does."""
    fragment = metadata_fragment(form)
    row, unit, _ = fragment.coordinates()
    lanes = reading_lanes(form, selector)
    codes = np.zeros((fragment.rows, fragment.columns), np.int64)
    bits = np.arange(fragment.per_register, dtype=np.uint32) * np.uint32(2)
    codes[row[0, lanes], unit[0, lanes]] = metadata[lanes, None].astype(np.uint32) >> bits & np.uint32(3)
    return codes


def gathered_k(form: MmaForm, codes: np.ndarray) -> np.ndarray:
    """The column of A (row of B) of each stored element, ``[row, element]``, from codes ``[row, unit]``. For tf32, of pairs
    that have a meaning."""
    layout = metadata_layout(form)
    unit = 4 * (np.arange(layout.units) // 2) + codes
    bits = form.operand_bits
    if bits > layout.unit_bits:
        return np.asarray(unit[:, ::2] // 2)
    per_unit = layout.unit_bits // bits
    return np.asarray(np.repeat(unit, per_unit, axis=1) * per_unit + np.arange(form.stored_k) % per_unit)
