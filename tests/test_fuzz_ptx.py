"""Real PTX, damaged: whatever is done to it, parsing and lowering end with a program or with an error that says where."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import isa.instructions  # noqa: F401  (fills the registry)
from isa.errors import PtxError, PtxSyntaxError, TcsimError, UnsupportedError
from isa.lower import lower, unsupported_in
from isa.ptx import parse
from tcsim.memory import DeviceMemory
from tcsim.symbols import ModuleVariables

ROOT = Path(__file__).parents[1]
FILES = [*(ROOT / "tests/data").glob("*/*.ptx"), *(ROOT / "traces/kernels").glob("*.ptx")]
TEXTS = [text for text in (file.read_text(errors="replace") for file in sorted(FILES)) if len(text) < 25_000]

OPCODE = re.compile(r"(\s*(?:@!?\S+\s+)?)([a-z][\w.:]+)(\s.*)")
TOKEN = re.compile(r"[%$\w.:]+|\{[^}]*\}|\[[^\]]*\]")
OPCODES = sorted({m[2] for text in TEXTS for line in text.split("\n") if (m := OPCODE.match(line)) and ";" in line})
ODD_OPERANDS = ["0", "-1", "1.0", "0f7fc00000", "_", "!%p1", "{%r1}", "{%r1, %r2}", "[%r1]", "[%rd1+-8]", "%tid.x", "%clock64",
                "%r1|%p1", "x[1]", "x[%r1]", "9" * 30, "(1+2)", "WARP_SZ", "-%r1", "{}", "%rd1+4"]  # fmt: skip
ODD_TEXT = ["{", "}", "(", "[", "]", "<", ">", "%", "@", "!", "-", "~", '"', ";", ",", ":", "/*", "//", "\0", "é", ".b128",
            ".v4", ".reg .v2 .b32 v;", ".param .b8 p[9];", ".loc 1 2", ".file", ".section", ".pragma", ".extern", ".entry",
            ".func f()", "call", "L: .branchtargets A;", "brx.idx %r1, L;", "alloca.u64 %rd1, 8;",
            "vadd.u32.u32.u32 %r1, %r2, %r3.b9;",
            ".address_size 32", "ret;", ".alias a, b;", "0x", "1e999"]  # fmt: skip


def change_a_line(line: str, other: str, random: Random) -> str:
    """A line with an operand, the opcode or a modifier replaced, or operands added or left out."""
    tokens = list(TOKEN.finditer(line))
    match = OPCODE.match(line)
    kind = random.randrange(6)
    if kind <= 1 and tokens:
        chosen = random.choice(tokens)
        found = TOKEN.findall(other)
        new = random.choice(found) if found and kind == 0 else random.choice(ODD_OPERANDS)
        return line[: chosen.start()] + new + line[chosen.end() :]
    if kind == 2 and match:
        return match[1] + random.choice(OPCODES) + match[3]
    if kind == 3 and match:
        words = match[2].split(".")
        if random.random() < 0.5 and len(words) > 1:
            del words[random.randrange(1, len(words))]
        else:
            words.insert(random.randrange(1, len(words) + 1), random.choice(random.choice(OPCODES).split(".")))
        return match[1] + ".".join(words) + match[3]
    if kind == 4:
        return re.sub(r", [^,;]*;", ";", line)
    return line.replace(";", f", {random.choice(ODD_OPERANDS)};")


def damage(text: str, random: Random) -> str:
    """The text with one to three things changed."""
    for _ in range(random.choice((1, 1, 2, 3))):
        lines = text.split("\n")
        here, there = random.randrange(len(lines)), random.randrange(len(lines))
        kind = random.randrange(10)
        if kind <= 4:
            lines[here] = change_a_line(lines[here], lines[there], random)
        elif kind == 5:
            lines[here], lines[there] = lines[there], lines[here]
        elif kind == 6:
            lines.insert(there, lines[here])
        elif kind == 7:
            del lines[here]
        text = "\n".join(lines)
        at = random.randrange(len(text) + 1)
        if kind == 8:
            text = f"{text[:at]} {random.choice(ODD_TEXT)} {text[at:]}"
        elif kind == 9:
            text = text[:at] + text[at + random.choice((1, 2, 7, 10**6)) :]
    return text


def take(text: str) -> None:
    """Parse, scan, lower and initialise, as loading and launching do."""
    module = parse(text)
    kernels = [f for f in module.functions if f.kind == "entry" and f.body is not None]
    for kernel in kernels[:2]:
        missing = unsupported_in(kernel, module)
        if missing:
            raise UnsupportedError(missing, kernel.name)
        lower(module, kernel.name, sm=90)
    ModuleVariables(module, DeviceMemory(1 << 32))


def assert_tells(error: TcsimError) -> None:
    """An error has a position: a line, and where the grammar is broken, a column."""
    if isinstance(error, PtxSyntaxError):
        assert error.line >= 1 and error.column >= 1 and error.expected
    elif isinstance(error, PtxError):
        assert error.line >= 1
    elif isinstance(error, UnsupportedError):
        assert error.items and all(item.line >= 1 for item in error.items)
    else:
        assert re.search(r"line \d+", str(error)), error


@settings(deadline=20_000, max_examples=250, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1))
def test_damaged_ptx_is_run_or_refused(seed: int) -> None:
    random = Random(seed)
    text = damage(random.choice(TEXTS), random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            take(text)
        except TcsimError as error:
            assert_tells(error)


@settings(deadline=5_000, max_examples=200)
@given(st.lists(st.sampled_from([*ODD_TEXT, *ODD_OPERANDS, *OPCODES[::7], "\n", "mov.u32 %r1, %r2;", "{ret;}"]), max_size=40))
def test_heaps_of_tokens(tokens: list[str]) -> None:
    body = " ".join(tokens)
    for text in (body, f".version 8.0 .target sm_90 .entry k() {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; {body} ret; }}"):
        try:
            take(text)
        except TcsimError as error:
            assert_tells(error)


def test_every_file_is_whole() -> None:
    """What is damaged above is fine before."""
    assert len(TEXTS) > 25
    for text in TEXTS[::5]:
        try:
            take(text)
        except UnsupportedError as error:
            assert_tells(error)


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    for opening, closing in (("{", "}"), ("(", ")"), ("[", "]")):
        for text in (opening * 5000, opening * 5000 + closing * 5000):
            with pytest.raises(TcsimError):
                take(f".version 8.0 .target sm_90 .entry k() {{ mov.u32 %r1, {text}; {text} }}")
