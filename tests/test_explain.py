"""``tcsim.explain``, ``tcsim explain`` and ``tcsim isa show``: what they say is what happens."""

from __future__ import annotations

import doctest
import json
import re
import shutil
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tcsim
from gpu_ref.tensor import machine_code as recorder
from gpu_ref.tensor.draw import Draw
from gpu_ref.tensor.float_inputs import FLOAT_CLASSES, FORMATS, Sizes
from isa.tensor import MMA_FORMS, SPARSE_FORMS, WMMA_FORMS, MmaForm, execute, make_plan, metadata_layout, mma_fragment
from isa.tensor.formats import INTEGER_BITS
from isa.tensor.forms import element_bits
from isa.tensor.metadata import codes_of, gathered_k, valid_pairs
from isa.tensor.rules import ARCHITECTURES
from isa.tensor.scaled_forms import KIND_FORMS
from tcsim.cli import main
from tcsim.errors import TcsimError
from tcsim.numerics import OperandError
from tcsim.numerics.describe import machine_code, status_letters
from tcsim.numerics.explain import Explanation, Operation, Step, explain_bits
from tcsim.numerics.explain_text import exact_text
from tcsim.numerics.instructions import find_instruction, instruction_of
from tcsim.numerics.scalars import fraction_of, integer_of, read_numbers
from tests.test_matmul import bits_of, native, quietly

F16 = "mma.m16n8k16.f32.f16.f16.f32"
FORMS = [form for form in (*MMA_FORMS, *WMMA_FORMS) if form.c == form.d]


# ------------------------------------------------------------------------------------------------ it is what happens


def dots(form: MmaForm, case: str, seed: int, count: int) -> list[tuple[list[int], list[int], int]]:
    """K bits of A and B and those of C, of a class of operands; random where the form takes integers."""
    draw = Draw(form, case, seed, 1)
    if form.a in FORMATS:
        a, b, c = FLOAT_CLASSES[case](draw, Sizes(count, 1, 1, form.k, FORMATS[form.a], FORMATS[form.b], FORMATS[form.c]))
    else:
        a, b = (draw.words(count, form.k, 1) >> np.uint64(64 - element_bits(t)) for t in (form.a, form.b))
        c = draw.words(count, 1, 1) >> np.uint64(32)
    return [(x.ravel().tolist(), y.ravel().tolist(), int(z.ravel()[0])) for x, y, z in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("number", range(len(FORMS)), ids=lambda number: str(FORMS[number]))
def test_the_result_is_that_of_matmul(number: int) -> None:
    """Every form, on architectures and classes of operands by turns."""
    form = FORMS[number]
    sms = [sm for sm in ARCHITECTURES if sm >= form.sm]
    cases = tuple(FLOAT_CLASSES) if form.a in FORMATS else ("integers",)
    for turn in range(3):
        sm = sms[(number + turn) % len(sms)]
        for a, b, c in dots(form, cases[(3 * number + turn) % len(cases)], number, 2):
            row, column, start = (np.array(x, np.uint64) for x in ([a], [[y] for y in b], [[c]]))
            d = quietly(native(row, form.a), native(column, form.b), native(start, form.c), form=str(form), device=f"sm_{sm}")
            explained = explain_bits(instruction_of(form, sm), a, b, c)
            assert explained.bits == int(bits_of(d)[0, 0])
            check(explained)


def check(e: Explanation) -> None:
    """What an explanation says must add up."""
    for step in e.steps:
        if isinstance(step, Operation) or step.total is None:
            continue
        assert step.total == sum(term.kept for term in step.terms)
        for term in step.terms:
            assert term.exact is not None and term.kept + term.dropped == term.exact
            if step.unit is None:
                assert term.dropped == 0
                continue
            unit = Fraction(2) ** step.unit
            assert abs(term.dropped) < unit and term.kept % unit == 0
            assert abs(term.kept) <= abs(term.exact) and term.kept * term.exact >= 0
            assert term.exponent is None or term.exponent <= step.emax
        rounded = fraction_of(step.bits, step.type)
        if rounded is not None and step.type == "f32":
            assert abs(rounded) <= abs(step.total)  # toward zero
    assert e.steps[-1].bits == e.bits
    json.loads(e.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert str(e)


@pytest.mark.parametrize("case", FLOAT_CLASSES)
def test_steps_add_up_for_every_class(case: str) -> None:
    for name, sm in ((F16, 90), ("mma.m16n8k32.f16.e5m2.e4m3.f16", 90), ("mma.m16n8k16.f32.bf16.bf16.f32", 80)):
        instruction = find_instruction(name, f"sm_{sm}")
        assert instruction.form is not None
        for a, b, c in dots(instruction.form, case, 5, 4):
            check(explain_bits(instruction, a, b, c))


SPARSE = [form for form in SPARSE_FORMS if not form.satfinite and form.b == form.a]


@pytest.mark.parametrize("form", SPARSE, ids=str)
def test_sparse_rows_give_the_kernel_s_bits(form: MmaForm) -> None:
    """A row of A with its zeros, against the kernel with metadata that say the same."""
    rng = np.random.default_rng(len(str(form)))
    layout = metadata_layout(form)
    pairs = rng.choice(valid_pairs(form, True), (32, 8)).astype(np.uint32)
    metadata = (pairs << np.arange(0, 32, 4, dtype=np.uint32)).sum(axis=1).astype(np.uint32)
    places = gathered_k(form, codes_of(form, metadata, 0))
    width = element_bits(form.a)
    stored = rng.integers(0, 1 << min(width, 31), (form.m, form.stored_k)) & ~(0x1FFF if form.a == "tf32" else 0)
    b = rng.integers(0, 1 << min(width, 31), (form.k, form.n)) & ~(0x1FFF if form.a == "tf32" else 0)
    c = rng.integers(0, 1 << element_bits(form.c), (form.m, form.n))
    plan = make_plan(form, 90, True)
    packed = [mma_fragment(form, o).pack(x.astype(np.uint64)) for o, x in zip("abc", (stored, b, c), strict=True)]
    d = mma_fragment(form, "d").unpack(execute(plan, *packed, metadata, 0))
    assert layout.selectors >= 1
    for row, column in ((0, 0), (9, 5)):
        dense = np.zeros(form.k, np.int64)
        dense[places[row]] = stored[row]
        a_row, b_column = ([hex(int(x)) for x in bits] for bits in (dense, b[:, column]))
        if form.a in INTEGER_BITS:
            a_row, b_column = ([integer_of(int(x, 16), form.a) for x in words] for words in (a_row, b_column))  # type: ignore[misc]
        start = integer_of(int(c[row, column]), "s32") if form.c == "s32" else hex(int(c[row, column]))
        explained = tcsim.explain(str(form), a_row, b_column, start)
        assert explained.bits == int(d[row, column])
        check(explained)


def test_a_row_that_is_not_sparse_is_refused() -> None:
    with pytest.raises(TcsimError, match=r"3 numbers that are not zero among k = 4 to 7.*PTX ISA 9\.7\.14\.6\.1"):
        tcsim.explain("mma.sp.m16n8k32.f32.f16.f16.f32", [0, 0, 0, 0, 1, 2, 3], [1] * 7)
    with pytest.raises(TcsimError, match="of 2 only 1 can be stored"):
        tcsim.explain("mma.sp.m16n8k8.f32.tf32.tf32.f32", [1, 2], [1, 1])


# ------------------------------------------------------------------------------------------------------------ by hand


def test_what_is_cut_off() -> None:
    """Sixteen times 2^-25 beside 1: each is kept on Hopper (F = 25) and cut off on Ampere (F = 24)."""
    a, b = [2.0**-13] * 16, [2.0**-12] * 16
    hopper = tcsim.explain("mma.m16n8k16.f32.bf16.bf16.f32", a, b, 1.0)
    (step,) = hopper.steps
    assert isinstance(step, Step)
    assert (step.emax, step.unit, step.total) == (0, -25, 1 + Fraction(1, 1 << 21))
    assert hopper.dropped == 0 and hopper.value == 1 + 2.0**-21 and hopper.error_ulp == 0
    ampere = tcsim.explain("mma.m16n8k16.f32.bf16.bf16.f32", a, b, 1.0, device="a100")
    assert len(ampere.steps) == 2  # of eight products
    assert ampere.dropped == Fraction(1, 1 << 21) and ampere.value == 1 and ampere.error_ulp == -4
    assert hopper.exact == ampere.exact == 1 + Fraction(1, 1 << 21)
    assert ampere.nearest == 0x3F800004
    assert ampere.ieee == 0x3F800000 and ampere.ieee_error_ulp == -4  # each one is less than half a unit


def test_fp8_on_hopper_is_two_steps_and_an_addition() -> None:
    e = tcsim.explain("mma.m16n8k32.f32.e4m3.e4m3.f32", [1, 2, 4, 8], [1, 1, 1, 1], 0.5)
    first, second, addition = e.steps
    assert isinstance(first, Step) and isinstance(second, Step) and isinstance(addition, Operation)
    assert [term.k for term in first.terms[:4]] == [0, 1, 4, 5] and first.accumulator == "+0" and first.value == 3
    assert second.accumulator == "sum" and second.value == 15 and addition.value == e.value == 15.5
    (one,) = tcsim.explain("wgmma.m64n8k32.f32.e4m3.e4m3", [1, 2, 4, 8], [1, 1, 1, 1], 2.0**-11).steps
    assert isinstance(one, Step) and one.unit == 3 - 13  # C is cut with the products
    assert one.terms[-1].dropped == Fraction(1, 1 << 11) and one.value == 15


def test_special_values() -> None:
    e = tcsim.explain(F16, ["0x7c00", 1], [0, 1], 0)
    assert (e.bits, e.exact, e.nearest, e.error_ulp) == (0x7FFFFFFF, None, None, None)
    assert "an infinity or NaN decides" in str(e) and json.loads(e.to_json())["value"] == "nan"
    assert tcsim.explain(F16, [float("-inf")], [2], 0).value == float("-inf")


def test_numbers_of_all_kinds() -> None:
    half = np.array([1, 2], np.float16)
    as_bits = tcsim.explain(F16, half.view(np.uint16), half, np.float32(1.5))
    assert as_bits.value == 6.5 and not as_bits.notes
    assert tcsim.explain(F16, ["0x3c00", "2"], [1, 2], "0x3fc00000").bits == as_bits.bits
    noted = tcsim.explain(F16, [0.1, 2], [1, 2], 0)
    assert noted.notes == ("a[0] = 0.1 is 0.0999755859375 in f16",)
    assert read_numbers([1 + 2.0**-11, 1 + 3 * 2.0**-11, -0.0], "tf32", "a")[0] == [0x3F800000, 0x3F804000, 0x80000000]
    assert tcsim.explain("mma.m16n8k64.s32.s4.u4.s32", [-8, 7], [15, 1], -1).value == -114
    assert tcsim.explain("mma.m8n8k4.f64.f64.f64.f64", [0.1], [3], 0).value == 0.1 * 3
    assert tcsim.explain("mma.m16n8k8.f32.tf32.tf32.f32", np.float32([1.5]), [2], 0).value == 3


def test_ulps_and_the_nearest_number() -> None:
    # 2^-25 below 1 the spacing is half of that above it
    e = tcsim.explain(F16, [1, -(2.0**-13)], [1, 2.0**-13], 0)
    assert e.exact == 1 - Fraction(1, 1 << 26) and e.value == 1 and e.error_ulp == 0.25
    assert tcsim.explain("mma.m16n8k16.f16.f16.f16.f16", [2.0**-24], [0.5], 0).error_ulp == -0.5  # of the least float16
    assert exact_text(Fraction(-3, 1 << 40)) == "-3*2^-40" and exact_text(Fraction(5, 4)) == "1.25"


def test_a_long_row_is_a_chain_of_instructions() -> None:
    e = tcsim.explain(F16, [1] * 40, [1] * 40, 2)
    assert len(e.steps) == 3 and e.value == 42 and e.steps[2].title.startswith("instruction 2: fused step over k = 32 to 47")
    mixed = tcsim.explain("wmma.m16n16k16.f16.f16.f16.f32", [1], [1], 2)
    assert mixed.type == "f16" and mixed.value == 3 and isinstance(mixed.steps[-1], Operation)


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        ([1, 2], [1], 0, "a has 2 numbers and b 1"),
        ([], [], 0, "a has 0 numbers"),
        (["x"], [1], 0, r"a = 'x' is no number"),
        (["0x12345"], [1], 0, "more than the 16 bits of f16"),
        ([1], [1], [1, 2], "c has 2 numbers"),
        ("1,2", [1, 2], 0, "a must be a sequence"),
        (np.ones(2, np.float32), [1, 2], 0, "a is float32"),
    ],
)
def test_rows_that_do_not_fit(a: object, b: object, c: object, message: str) -> None:
    with pytest.raises(OperandError, match=message):
        tcsim.explain(F16, a, b, c)


def test_integers_out_of_range() -> None:
    with pytest.raises(OperandError, match="whole numbers from -128 to 127"):
        tcsim.explain("mma.m16n8k32.s32.s8.s8.s32", [128], [1], 0)
    with pytest.raises(OperandError, match=r"a = 1\.5 is not in s8"):
        tcsim.explain("mma.m16n8k32.s32.s8.s8.s32", [1.5], [1], 0)


# ------------------------------------------------------------------------------------------------- the command line


def test_explain_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", F16, "--a", "-1,0x4000,3", "--b", "1, 1, 1", "--c", "1e8", "--device", "a100"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "on a100 (sm_80)" in text and "emax = 26: every term is cut to a multiple of 2^2" in text
    assert "recordings of an A100" in text
    assert main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == 1 and data["sm"] == 80 and data["exact"] == [25000001, 2]
    assert [step["emax"] for step in data["steps"]] == [26, 26]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", F16, "--a", ",", "--b", "1"], "--a has no numbers"),
        (["explain", F16, "--a", "1,2", "--b", "1"], "a has 2 numbers and b 1"),
        (["explain", "mma.m16n8k32.f32.e4m3.e4m3.f32", "--a", "1", "--b", "1", "-d", "a100"], "needs sm_89 or later"),
        (["isa", "show", "mma.m16n8k17.f32.f16.f16.f32"], "nearest: mma.m16n8k16.f32.f16.f16.f32"),
        (["isa", "show", "wgmma.m64n65k16.f32.f16.f16"], "nearest: wgmma.m64n64k16.f32.f16.f16"),
        (["isa", "show", "add.ftx.f32"], ".ftx may be .ftz"),
        (["isa", "show", "ad"], "nearest: "),
        (["isa", "list", "--type", "f13"], "'f13' operands"),
    ],
)
def test_mistakes_are_one_message(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    told = capsys.readouterr().err
    assert message in told and told.startswith("tcsim: ") and "Traceback" not in told


def test_show_a_tensor_form(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("mma.m16n8k32.f32.e4m3.e4m3.f32", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"):
        assert main(["isa", "show", name]) == 0
        text = capsys.readouterr().out
        assert "A 16 x 32 e4m3, B 32 x 8 e4m3, C 16 x 8 f32, D 16 x 8 f32" in text and "sm_89 or later" in text
        assert "sm_90: two steps (k mod 4 in {0, 1} from +0, then {2, 3})" in text
        assert "verified on hardware: traces/vectors" in text and "published, not checked here: MMA-Sim" in text
        assert "sm_90, sm_100: 12 F2FP.F16.E4M3.UNPACK_B, 2 HMMA.16816.F32, 4 FADD" in text
        assert "timing class mma.m16n8k32.e4m3" in text and "gh100: " in text


def test_show_other_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "show", "wgmma.m64n64k32.f32.e4m3.e4m3"]) == 0
    assert "each term cut to 13 bits below it" in capsys.readouterr().out
    assert main(["isa", "show", "wmma.m16n16k16.f32.f16.f16.f32"]) == 0
    assert "sm_70: steps of 4 products" in capsys.readouterr().out
    assert main(["isa", "show", "add.ftz.f32"]) == 0
    assert "verified on hardware: traces/scalar" in capsys.readouterr().out
    assert main(["isa", "show", "ex2.approx.ftz.f32"]) == 0
    assert "for every input there is" in capsys.readouterr().out
    assert main(["isa", "show", "ld.global.v4.f32"]) == 0
    assert "{d:.f32 x 4}, [a]" in capsys.readouterr().out


def test_every_tensor_form_can_be_shown_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    for form in FORMS[::7]:
        assert main(["isa", "show", str(form)]) == 0
        assert f"{form.k} {form.a}" in capsys.readouterr().out
    assert main(["isa", "list", "mma.sync.m16n8k8", "--type", "tf32"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("mma.sync"))
    assert row.split()[1:] == ["-", "-", "V", "V", "V", "V", "V", "P"]
    assert status_letters(FORMS[0])[ARCHITECTURES.index(90)] == "V"


# ------------------------------------------------------------------------------------------------------ machine code


def test_the_table_of_machine_code_has_every_form() -> None:
    for form in (*MMA_FORMS, *SPARSE_FORMS, *WMMA_FORMS):
        listed = [sm for sms in machine_code(form) for sm in sms]
        assert sorted(listed) == [sm for sm in ARCHITECTURES if sm >= max(form.sm, 75)]  # ptxas 13.0 has no sm_70
    assert all(list(machine_code(form)) == [(form.sm,)] for form in KIND_FORMS)


def test_the_table_of_machine_code_is_what_ptxas_makes() -> None:
    if shutil.which("ptxas") is None or shutil.which("nvdisasm") is None:
        pytest.skip("needs ptxas and nvdisasm")
    for name, sm in (("mma.m16n8k32.f16.e4m3.e5m2.f16", 90), ("mma.m16n8k64.satfinite.s32.s4.s4.s32", 90), (F16, 80)):
        form = find_instruction(name, f"sm_{sm}").form
        assert form is not None
        (listed,) = (code for sms, code in machine_code(form).items() if sm in sms)
        assert recorder.machine_code(form, sm) == listed


def test_the_tool_that_writes_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(tool: str) -> Path:
        raise TcsimError(f"{tool} is not installed")

    monkeypatch.setattr(recorder, "required", missing)
    assert recorder.main() == 2
    assert "ptxas is not installed" in capsys.readouterr().err


def test_nothing_here_warns() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tcsim.explain(F16, ["0x7e00", "0x7c00"], ["0xfc00", "0x0001"], "0xff800000")
        tcsim.explain("mma.m16n8k32.f32.e5m2.e5m2.f32", [57344] * 32, [57344] * 32, 3e38)


# ------------------------------------------------------------------------------------------------------ the page of docs


PAGE = Path(__file__).parents[1] / "docs" / "numerics.md"


def test_commands_on_the_page_print_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```console\n\$ tcsim (.*?)\n(.*?)\n```", PAGE.read_text(), re.S)
    assert len(blocks) == 5
    for command, shown in blocks:
        assert main(command.split()) == 0
        printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        told = [[line for line in lines if not line.startswith("  verified: ")] for lines in (printed, shown.splitlines())]
        assert told[0] == told[1]  # but for the recordings that verify the rule, of which there may be more by now


def test_python_on_the_page_returns_what_it_shows() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    page = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    outcome = doctest.DocTestRunner().run(page)
    assert outcome.attempted > 10 and outcome.failed == 0
