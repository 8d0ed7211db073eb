"""One access of a warp to shared memory: its phases, wavefronts and bank conflicts.

The number of wavefronts is the timing model's, from the function that the executor itself calls
(:func:`tcsim.execute.accesses.wavefronts`); here is what it comes from: which words of which bank meet in a phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tcsim.errors import TcsimError
from tcsim.execute.banks import BANKS, wavefronts
from tcsim.lanes.expression import Expression

__all__ = ["ALL_LANES", "BankAccess", "BankError", "Phase", "access_of_expression", "banks", "fewest_wavefronts"]

ALL_LANES = 0xFFFF_FFFF
WIDTHS = (1, 2, 4, 8, 16)
ROW_BYTES = 16
"""Bytes of a row of an 8x8 matrix of ldmatrix."""


class BankError(TcsimError):
    """An access to shared memory that cannot be: a width, a count of rows or an address that no instruction takes."""


@dataclass(frozen=True)
class Phase:
    """Lanes that are served together. ``banks``: for each bank in use the distinct words (address / 4) that lanes need of it,
    in the order of lanes; the first of all banks are served in the first wavefront, and so on."""

    lanes: tuple[int, ...]
    wavefronts: int
    banks: Mapping[int, tuple[int, ...]]

    @property
    def degree(self) -> int:
        """The most words that one bank must deliver."""
        return max(map(len, self.banks.values()), default=0)


@dataclass(frozen=True, eq=False)
class BankAccess:
    """``addresses``: int64 [32], bytes; ``lanes``: those that take part, as a mask; ``width``: bytes that each accesses.

    ``ideal``: wavefronts without a conflict, 128 bytes each. ``expression``: where the addresses come from, if that is a text.
    """

    addresses: NDArray[np.int64]
    lanes: int
    width: int
    ideal: int
    expression: Expression | None = None

    def __post_init__(self) -> None:
        for lane in self.active:
            address = int(self.addresses[lane])
            if address < 0:
                raise BankError(f"lane {lane}: address {address} is negative; they are bytes from the start of shared memory")
            if address % self.width:
                raise BankError(
                    f"lane {lane}: address {address} is {address % self.width} mod {self.width}; a {self.width}-byte access "
                    f"needs a multiple of {self.width} (PTX ISA 6.4.1)"
                )

    @property
    def active(self) -> tuple[int, ...]:
        """The lanes that take part."""
        return tuple(lane for lane in range(32) if self.lanes >> lane & 1)

    @property
    def wavefronts(self) -> int:
        """Passes over the banks that the access takes."""
        return self._wavefronts(self.lanes)

    def _wavefronts(self, lanes: int) -> int:
        return int(wavefronts(self.addresses, np.uint32(lanes), np.int64(self.width)))

    @property
    def conflicts(self) -> int:
        """Wavefronts above the ideal: Nsight Compute's ``l1tex__data_bank_conflicts_pipe_lsu_mem_shared``."""
        return max(0, self.wavefronts - self.ideal)

    @property
    def words(self) -> int:
        """Words of 4 bytes (or one of which it is a part) that a lane accesses."""
        return max(1, self.width // 4)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The access in the parts that are served one after another: half-warps of 8-byte accesses, quarters of 16."""
        each = 32 // self.words if self.words <= 4 else 8
        phases = []
        for first in range(0, 32, each):
            lanes = tuple(lane for lane in range(first, first + each) if self.lanes >> lane & 1)
            if lanes:
                mask = sum(1 << lane for lane in lanes)
                phases.append(Phase(lanes, self._wavefronts(mask), self._banks(lanes)))
        return tuple(phases)

    def _banks(self, lanes: Sequence[int]) -> dict[int, tuple[int, ...]]:
        found: dict[int, dict[int, None]] = {}
        for lane in lanes:
            for word in self.words_of(lane):
                found.setdefault(word % BANKS, {})[word] = None
        return {bank: tuple(found[bank]) for bank in sorted(found)}

    def words_of(self, lane: int) -> range:
        """The words that a lane accesses."""
        first = int(self.addresses[lane]) >> 2
        return range(first, first + self.words)

    def __str__(self) -> str:
        from tcsim.lanes.bank_text import access_text

        return access_text(self)

    def __repr__(self) -> str:
        return f"<tcsim bank access of {self.width} bytes a lane: {self.wavefronts} wavefronts, ideal {self.ideal}>"

    def _repr_html_(self) -> str:
        from tcsim.lanes.bank_picture import access_svg

        return access_svg(self)


def fewest_wavefronts(width: int, rows: int = 32) -> int:
    """Wavefronts of an access by ``rows`` lanes without a conflict: what lanes side by side take."""
    side_by_side = np.arange(32, dtype=np.int64) * max(4, width)
    return int(wavefronts(side_by_side, np.uint32((1 << rows) - 1), np.int64(width)))


def access_of_expression(expression: Expression, width: int, rows: int = 32, warp: int = 0) -> BankAccess:
    """The access of a warp whose first ``rows`` lanes access ``width`` bytes each. Raises ExpressionError, BankError."""
    if width not in WIDTHS:
        raise BankError(f"no access has {width} bytes a lane; widths are {', '.join(map(str, WIDTHS))}")
    if rows not in (8, 16, 32):
        raise BankError(f"{rows} rows: ldmatrix reads 8, 16 or 32 rows (.x1, .x2, .x4; PTX ISA 9.7.14.5.15)")
    if rows != 32 and width != ROW_BYTES:
        raise BankError(f"rows of {width} bytes: those of ldmatrix have {ROW_BYTES} (PTX ISA 9.7.14.5.15); leave out the width")
    values = [expression.value(lane, warp) if lane < rows else 0 for lane in range(32)]
    return BankAccess(np.array(values, np.int64), (1 << rows) - 1, width, fewest_wavefronts(width, rows), expression)


def banks(
    expression: str, *, width: int | None = None, rows: int | None = None, warp: int = 0,
    let: Mapping[str, str | int] | None = None,
) -> BankAccess:  # fmt: skip
    """How a warp's access to shared memory falls on the banks.

    expression: the byte address over ``lane`` (and ``warp``, and the names in ``let``). width: bytes a lane, 4 unless rows are
    given. rows: of ldmatrix, 8, 16 or 32, of 16 bytes each. Raises ExpressionError and BankError.
    """
    return access_of_expression(Expression(expression, let), width or (ROW_BYTES if rows else 4), rows or 32, warp)
