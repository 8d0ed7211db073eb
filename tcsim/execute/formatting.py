"""``printf`` of device code: the format of C, with the arguments in a packed buffer.

The buffer holds every argument at a multiple of its own size, 4 bytes for ``int``, 8 for ``long long``, ``double`` and pointers
(variable arguments as the C ABI promotes them; so nvcc lays out what it passes to ``vprintf``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

__all__ = ["format_text"]

_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d*))?(hh|h|ll|l|L|q|j|z|t)?([diouxXeEfFgGaAcsp%n])")
_LONG = ("l", "ll", "L", "q", "j", "z", "t")


def format_text(text: str, read: Callable[[int, int], bytes], string: Callable[[int], str]) -> tuple[str, int]:
    """The text that a call prints, and how many arguments it took.

    read: bytes of the argument buffer (offset, size). string: the text at an address.
    """
    arguments = _Arguments(read)
    out: list[str] = []
    end = 0
    for match in _CONVERSION.finditer(text):
        out.append(text[end : match.start()])
        end = match.end()
        if match[5] == "%":
            out.append("%")
        elif match[5] != "n":
            out.append(_convert(match, arguments, string))
    out.append(text[end:])
    return "".join(out), arguments.count


class _Arguments:
    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self.read, self.offset, self.count = read, 0, 0

    def take(self, size: int) -> bytes:
        """The next argument's bytes."""
        start = -(-self.offset // size) * size
        self.offset = start + size
        self.count += 1
        return self.read(start, size)


def _convert(match: re.Match[str], arguments: _Arguments, string: Callable[[int], str]) -> str:
    flags, width, precision, length, kind = match.groups()
    if width == "*":
        wanted = int.from_bytes(arguments.take(4), "little", signed=True)
        flags, width = (flags + "-", str(-wanted)) if wanted < 0 else (flags, str(wanted))
    if precision == "*":
        wanted = int.from_bytes(arguments.take(4), "little", signed=True)
        precision = None if wanted < 0 else str(wanted)
    spec = f"%{flags}{width or ''}" + ("" if precision is None else f".{precision or 0}")
    if kind in "diouxX":
        size = 8 if length in _LONG else 4
        value = int.from_bytes(arguments.take(size), "little", signed=kind in "di")
        value = _narrow(value, {"h": 16, "hh": 8}.get(length or "", 8 * size), signed=kind in "di")
        return (spec + kind.replace("i", "d").replace("u", "d")) % value
    if kind in "eEfFgG":
        number = float(struct.unpack("<d", arguments.take(8))[0])
        return (spec + kind) % number
    if kind in "aA":
        shown = float(struct.unpack("<d", arguments.take(8))[0]).hex()
        return ("%" + flags.replace("0", "") + (width or "") + "s") % (shown.upper() if kind == "A" else shown)
    if kind == "c":
        return f"%{flags}{width or ''}s".replace("0", "") % chr(arguments.take(4)[0])
    address = int.from_bytes(arguments.take(8), "little")
    if kind == "p":
        return f"%{flags}{width or ''}s" % (f"{address:#x}" if address else "(nil)")
    return (spec + "s") % string(address)


def _narrow(value: int, bits: int, *, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value
