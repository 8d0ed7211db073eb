"""Errors of the bundle format: an argument that does not parse, a bundle that does not load."""

from __future__ import annotations

from isa.errors import TcsimError

__all__ = ["ArgumentError", "BundleError"]


class BundleError(TcsimError):
    """A bundle (or suite file) is missing, incomplete, or not what was recorded."""


class ArgumentError(TcsimError):
    """An argument specification that says something impossible.

    Attributes: ``text`` (the whole specification), ``start`` and ``end`` (0-based, the offending part), ``problem``, ``hint``.
    """

    def __init__(self, text: str, start: int, end: int, problem: str, hint: str = "") -> None:
        self.text, self.start, self.end, self.problem, self.hint = text, start, end, problem, hint
        marks = " " * start + "^" * max(1, end - start)
        message = f"argument {text!r}: {problem} (column {start + 1})\n    {text}\n    {marks}"
        super().__init__(message + (f"\n  {hint}" if hint else ""))
