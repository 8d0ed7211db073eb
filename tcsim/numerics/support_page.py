"""The support matrix as text: badges, and the page ``docs/support.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from isa.spec.registry import Instruction
from isa.spec.support import ISA_VERSION, entries, missing, public_instructions, state_of_instruction
from isa.tensor import MMA_FORMS, SPARSE_FORMS, WMMA_FORMS, MmaForm
from isa.tensor.rules import ARCHITECTURES
from isa.tensor.scaled_forms import KIND_FORMS
from isa.tensor.wgmma_forms import WGMMA_FORMS
from tcsim.numerics.describe import status_letters

__all__ = ["BADGES", "first_target", "support_page"]

BADGES = {"hardware": "HW", "published": "PUB", "specification": "ISA", "hypothesis": "HYP", "refused": "-"}
"""How lists show the states of :mod:`isa.spec.support`."""


def first_target(entry: Instruction) -> str:
    """The first target that has an instruction; the architecture-specific one where it belongs to single ones."""
    return entry.targets[0] if entry.targets else f"sm_{entry.sm}"


def _rows(instructions: list[Instruction]) -> Iterator[str]:
    for entry in sorted(instructions, key=lambda e: (e.section_key, e.pattern.base)):
        state = state_of_instruction(entry)
        spelling = entry.pattern.spell().replace("|", "\\|")
        yield f"| {entry.section} | `{spelling}` | {first_target(entry)} | {BADGES[state.name]} | {state.source} |"


def _families() -> Iterator[str]:
    """A line for each kind of matrix instruction whose forms stand alike on every architecture."""
    groups: dict[tuple[str, ...], list[MmaForm]] = {}
    wgmma = [form for form in WGMMA_FORMS if form.n == 64]
    for form in (*MMA_FORMS, *SPARSE_FORMS, *WMMA_FORMS, *wgmma, *KIND_FORMS):
        kind = f".kind::{form.kind}" if form.kind else ".rz .rm .rp" if form.rounding else ""
        key = (form.instruction + kind, form.family, form.d, *status_letters(form))
        groups.setdefault(key, []).append(form)
    for (instruction, _, d, *letters), forms in groups.items():
        types = sorted({f"{form.a}" if form.a == form.b else f"{form.a}·{form.b}" for form in forms})
        shapes = sorted({form.shape if not instruction.startswith("wgmma") else f"m64nNk{form.k}" for form in forms})
        shown = ", ".join(types) if len(types) < 6 else f"{', '.join(sorted({form.a for form in forms}))} in all mixes"
        yield f"| `{instruction}` {', '.join(shapes)} | {shown} → {d} | {' | '.join(letters)} |"


def support_page() -> str:
    """Markdown: what is executed and how it is known, and what is not."""
    public = list(public_instructions())
    counts = Counter(state_of_instruction(entry).name for entry in public)
    every, absent = list(entries()), missing()
    lines = [
        "# What is executed, and how it is known",
        "",
        "Made by `tcsim isa list --markdown` from the registry, the table of tensor-core arithmetic and the recordings.",
        "`tcsim isa show INSTRUCTION` tells more.",
        "",
        "| badge | what it says | instructions |",
        "|---|---|--:|",
        f"| HW | exact on hardware: every recorded result was reproduced | {counts['hardware']} |",
        f"| PUB | by a published rule, not checked on hardware here | {counts['published']} |",
        f"| ISA | by the text of the PTX ISA {ISA_VERSION}; no recording of this alone | {counts['specification']} |",
        f"| HYP | the text leaves something open, and a guess fills it | {counts['hypothesis']} |",
        f"| - | refused by name and place when a module is loaded | {len(absent)} of {len(every)} in the PTX ISA |",
        "",
        "## Matrix instructions",
        "",
        "V verified on hardware, P published, H hypothesis, - no such form. `wgmma` is of sm_90a, kinds are of sm_120a.",
        "",
        f"| instruction | operands → result | {' | '.join(f'sm_{sm}' for sm in ARCHITECTURES)} |",
        f"|---|---|{'--|' * len(ARCHITECTURES)}",
        *_families(),
        "",
        "## Every instruction",
        "",
        "{..} may be left out, <..> is a choice; the target is the first that has it.",
        "",
        "| PTX ISA | instruction | target | known | source |",
        "|---|---|---|---|---|",
        *_rows(public),
        "",
        "## Refused",
        "",
        "| PTX ISA | instruction |",
        "|---|---|",
        *(f"| {entry.section} | `{entry.name}` |" for entry in absent),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"
