"""A row of A with its zeros, as ``mma.sp`` stores it: which elements, and those of B that they meet."""

from __future__ import annotations

from collections.abc import Sequence

from isa.tensor.forms import MmaForm
from tcsim.numerics.operands import OperandError

__all__ = ["compressed"]


def compressed(a: Sequence[int], b: Sequence[int], form: MmaForm) -> tuple[list[int], list[int], list[int]]:
    """The stored elements of a row (bits), the elements of B that they meet, and their places along K.

    ``a`` and ``b`` have K bits each and are filled up with zeros to whole instructions. Of each four elements two are stored:
    those that are not +0, then the first others. Of tf32, one of two; of 4 bits, two pairs of four neighbouring ones. Raises
    OperandError where more are not zero (PTX ISA 9.7.14.6.1).
    """
    missing = [0] * (-len(a) % form.k)
    a, b = [*a, *missing], [*b, *missing]
    unit = 2 if form.operand_bits == 4 else 1
    of, stored = (2, 1) if form.a == "tf32" else (4, 2)
    chosen: list[int] = []
    for start in range(0, len(a), of * unit):
        units = [range(start + unit * i, start + unit * (i + 1)) for i in range(of)]
        full = [i for i, places in enumerate(units) if any(a[k] for k in places)]
        if len(full) > stored:
            what = "pairs with numbers" if unit == 2 else "numbers"
            last = start + of * unit - 1
            raise OperandError(
                f"a has {len(full)} {what} that are not zero among k = {start} to {last}, and of {of} only {stored} can be "
                f"stored (PTX ISA 9.7.14.6.1)"
            )
        free = [i for i in range(of) if i not in full]
        for i in sorted([*full, *free[: stored - len(full)]]):
            chosen += units[i]
    return [a[k] for k in chosen], [b[k] for k in chosen], chosen
