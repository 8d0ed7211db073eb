"""An access to shared memory as text and as JSON data: which lane meets which in which bank, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcsim.execute.banks import BANKS
from tcsim.lanes.bank_access import BankAccess, Phase
from tcsim.lanes.remedies import Remedies, Remedy, Swizzle
from tcsim.lanes.words import count, spans

__all__ = ["access_data", "access_text", "remedies_data", "remedies_text", "summary", "wavefront_of"]

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def summary(access: BankAccess) -> str:
    """One line: what it takes, and what it could take."""
    lanes = len(access.active)
    conflicts = count(access.conflicts, "bank conflict") if access.conflicts else "no bank conflicts"
    taken = f"{count(access.wavefronts, 'wavefront')}, ideal {access.ideal}"
    return f"{count(lanes, 'lane')}, {count(access.width, 'byte')} each: {taken}: {conflicts}"


def _phase_line(number: int, phase: Phase) -> str:
    lanes = spans(phase.lanes)
    line = f"phase {number}  lanes {lanes:<6}  {count(phase.wavefronts, 'wavefront')}"
    if phase.degree > 1:
        worst = [bank for bank, words in phase.banks.items() if len(words) == phase.degree]
        line += f"  ({phase.degree} different words in bank{'s' if len(worst) > 1 else ''} {spans(worst)})"
    return line


def access_text(access: BankAccess, picture: bool = True) -> str:
    """The summary, a line per phase, and the picture: lanes down, banks across, in which wavefront each is served."""
    lines = [summary(access), *(f"  {_phase_line(n, phase)}" for n, phase in enumerate(access.phases))]
    return "\n".join([*lines, "", *_picture(access)] if picture else lines)


def _picture(access: BankAccess) -> list[str]:
    lines = ["  lane  address  bank " + "".join(f"{bank:<8}" for bank in range(0, BANKS, 4)).rstrip()]
    for phase in access.phases:
        for lane in phase.lanes:
            served = wavefront_of(access, phase, lane)
            cells = " ".join(_DIGITS[served[bank]] if bank in served else "." for bank in range(BANKS))
            lines.append(f"  {lane:4}  {int(access.addresses[lane]):#7x}       {cells}")
        words = " ".join(_DIGITS[len(phase.banks[bank])] if bank in phase.banks else "." for bank in range(BANKS))
        lines.append(f"  {'words of each bank':21}{words}")
    lines.append("  a cell: the wavefront of its phase that serves the lane (a is 10, w is 32)")
    return lines


def wavefront_of(access: BankAccess, phase: Phase, lane: int) -> dict[int, int]:
    """By bank: the wavefront of the phase, from 1 on, in which a lane gets its word."""
    return {word % BANKS: 1 + phase.banks[word % BANKS].index(word) for word in access.words_of(lane)}


def remedies_text(remedies: Remedies, expressions: Sequence[str] = ()) -> str:
    """What removes the conflicts, with the resulting expressions."""
    if not remedies.needed:
        return "Nothing to remove: this is as few wavefronts as there can be."
    now = f"{count(remedies.wavefronts, 'wavefront')} now, ideal {remedies.ideal:,}"
    lines = [f"To remove the conflicts ({now}), in every access to the buffer:"]
    for kind, remedy in (("swizzle", remedies.swizzle), ("padding", remedies.padding)):
        if remedy is None:
            lines.append(f"  {kind}: none helps")
            continue
        left = "" if remedy.wavefronts == remedies.ideal else ", not all"
        lines.append(f"  {kind}: {remedy.change}: {count(remedy.wavefronts, 'wavefront')}{left}")
        lines.append(f"    address = {remedy.change.spell('a')}")
        lines += [f"    {remedy.change.spell(f'({expression})')}" for expression in expressions]
    return "\n".join(lines)


def _remedy_data(remedy: Remedy | None, expressions: Sequence[str]) -> dict[str, Any] | None:
    if remedy is None:
        return None
    change = remedy.change
    numbers = (
        {"bits": change.bits, "base": change.base, "shift": change.source - change.base}
        if isinstance(change, Swizzle)
        else {"row": change.row, "pad": change.pad}
    )
    spelled = {"formula": change.spell("a"), "expressions": [change.spell(f"({each})") for each in expressions]}
    return numbers | {"wavefronts": remedy.wavefronts} | spelled


def remedies_data(remedies: Remedies, expressions: Sequence[str] = ()) -> dict[str, Any]:
    """For JSON. ``shift`` as in ``Swizzle<bits, base, shift>``."""
    return {
        "wavefronts": remedies.wavefronts,
        "ideal": remedies.ideal,
        "swizzle": _remedy_data(remedies.swizzle, expressions),
        "padding": _remedy_data(remedies.padding, expressions),
    }


def access_data(access: BankAccess) -> dict[str, Any]:
    """For JSON. ``banks``: bank -> distinct words (address / 4), in the order in which they are served."""
    source = {"expression": access.expression.text, "let": access.expression.lets} if access.expression is not None else {}
    phases = [
        {"lanes": list(p.lanes), "wavefronts": p.wavefronts, "banks": {str(b): list(words) for b, words in p.banks.items()}}
        for p in access.phases
    ]
    return source | {
        "width": access.width,
        "lanes": list(access.active),
        "addresses": [int(access.addresses[lane]) for lane in access.active],
        "wavefronts": access.wavefronts,
        "ideal": access.ideal,
        "conflicts": access.conflicts,
        "phases": phases,
    }
