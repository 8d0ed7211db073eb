"""Errors a user can cause, and how they are told.

Every message says what is wrong, where, which rule it breaks, and what to try. The classes are for ``except``; the text is
for people.
"""

from __future__ import annotations

__all__ = ["PtxError", "PtxSyntaxError", "TcsimError", "Unsupported", "UnsupportedError"]

from dataclasses import dataclass


class TcsimError(Exception):
    """Base of every error that tcsim raises for something its user did or asked for."""


class PtxSyntaxError(TcsimError):
    """PTX text outside the grammar.

    Attributes: ``path`` (or None), ``line`` and ``column`` (1-based), ``found`` (the offending text), ``expected`` (what the
    grammar allows there), ``source_line`` (the whole line).
    """

    def __init__(
        self, found: str, expected: str, line: int, column: int, source_line: str = "", path: str | None = None
    ) -> None:
        self.path, self.line, self.column = path, line, column
        self.found, self.expected, self.source_line = found, expected, source_line
        where = f"{path or 'PTX'}:{line}:{column}"
        shown, caret = _clip(source_line, column)
        picture = f"\n    {shown}\n    {' ' * (caret - 1)}^" if shown else ""
        super().__init__(f"{where}: found {found!r}, expected {expected}{picture}")


class PtxError(TcsimError):
    """PTX that parses but breaks a rule of the PTX ISA: an undeclared name, an operand of the wrong kind or width.

    Attributes: ``line`` (PTX, 1-based), ``kernel``.
    """

    def __init__(self, message: str, line: int, kernel: str = "", path: str | None = None) -> None:
        self.line, self.kernel = line, kernel
        where = f"{path or 'PTX'}:{line}" + (f" (in {kernel})" if kernel else "")
        super().__init__(f"{where}: {message}")


def _clip(text: str, column: int, width: int = 100) -> tuple[str, int]:
    """The part of a line around a column, so that a 400 KB line does not end up in an error message."""
    text = text.rstrip("\n").replace("\t", " ")
    start = max(0, column - 1 - width // 2)
    return text[start : start + width], column - start


@dataclass(frozen=True)
class Unsupported:
    """One thing in a kernel that tcsim does not do: ``what`` (the opcode or directive), ``why``, and its PTX line."""

    what: str
    why: str
    line: int
    kernel: str = ""


class UnsupportedError(TcsimError):
    """Everything unsupported in a module or kernel, reported at once. ``items`` lists each as :class:`Unsupported`."""

    def __init__(self, items: list[Unsupported], what: str) -> None:
        self.items = tuple(items)
        shown = "\n".join(f"  line {i.line}: {i.what}: {i.why}" for i in self.items[:40])
        more = f"\n  ... and {len(self.items) - 40} more" if len(self.items) > 40 else ""
        super().__init__(f"{what}: {len(self.items)} unsupported\n{shown}{more}")
