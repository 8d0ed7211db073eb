"""Machine instructions one by one: integer and logic ones against plain integers, and the registry as a whole.

Floating point shares its functions with PTX, which hardware recordings check; :mod:`tests.test_sass_kernels` and the fuzz run
them in machine code.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.sass.instructions import integer, logic, warp
from isa.sass.kernels import MachineKernelSpec
from isa.sass.operands import parse_operands
from isa.sass.registry import MachineForm, all_opcodes, find_opcode, match_operands

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in scalar")  # sums wrap, as they should
WORD = 1 << 32
words = st.one_of(st.integers(0, WORD - 1), st.sampled_from([0, 1, 31, 32, 33, 63, 64, 0x7FFFFFFF, 0x80000000, WORD - 1]))
bools = st.booleans()
few = settings(max_examples=60, deadline=None)


def u32(x: int) -> np.uint32:
    return np.uint32(x % WORD)


def s32(x: int) -> int:
    return (x % WORD) - WORD * (x % WORD >= WORD // 2)


# ------------------------------------------------------------------------------------------------------------------- sums


@few
@given(a=words, b=words, c=words, e=bools, f=bools, x=bools, signs=st.tuples(bools, bools, bools))
def test_iadd3_carries(a: int, b: int, c: int, e: bool, f: bool, x: bool, signs: tuple[bool, bool, bool]) -> None:
    terms = [(~v % WORD if s else v) for v, s in zip((a, b, c), signs, strict=True)]
    total = sum(terms) + (e + f if x else sum(signs))
    result, once, twice = integer.iadd3(
        u32(a), u32(b), u32(c), e, f, x=x, negated_a=signs[0], negated_b=signs[1], negated_c=signs[2]
    )
    assert int(result) == total % WORD
    assert (bool(once), bool(twice)) == (total >= WORD, total >= 2 * WORD)


@few
@given(a=words, b=words, c=words, e=bools, unsigned=st.sampled_from(["", "U32"]), high=words)
def test_imad_wide_and_hi(a: int, b: int, c: int, e: bool, unsigned: str, high: int) -> None:
    pair = high << 32 | c
    product = a * b if unsigned else s32(a) * s32(b)
    total = product % (1 << 64) + pair + e
    wide, carry = integer.imad_wide(u32(a), u32(b), np.uint64(pair), e, unsigned=unsigned, negated_c=False)
    assert (int(wide), bool(carry)) == (total % (1 << 64), total >= 1 << 64)
    upper, carry = integer.imad_hi(u32(a), u32(b), np.uint64(pair), e, unsigned=unsigned)
    assert (int(upper), bool(carry)) == (total % (1 << 64) >> 32, total >= 1 << 64)
    low, _ = integer.imad(u32(a), u32(b), u32(c), e)
    assert int(low) == (a * b + c + e) % WORD


@few
@given(a=words, b=words, c=words, n=st.integers(0, 31), e=bools, x=bools)
def test_lea(a: int, b: int, c: int, n: int, e: bool, x: bool) -> None:
    e = e and x
    low, carry = integer.lea(u32(a), u32(b), u32(n), e, x=x, negated_a=False, negated_b=False)
    total = (a << n) % WORD + b + e
    assert (int(low), bool(carry)) == (total % WORD, total >= WORD)
    high, _ = integer.lea_hi(u32(a), u32(b), u32(c), u32(n), e, x=x, negated_a=False, negated_b=False)
    assert int(high) == (((c << 32 | a) << n >> 32) + b + e) % WORD
    signed, _ = integer.lea_hi_signed(np.int32(s32(a)), u32(b), u32(n), e, x=x, negated_a=False, negated_b=False)
    assert int(signed) == ((s32(a) << n >> 32) + b + e) % WORD


@few
@given(low=st.tuples(words, words), high=st.tuples(words, words), signed=bools)
@pytest.mark.parametrize("cmp", ["LT", "LE", "GT", "GE", "EQ", "NE"])
def test_isetp_compares_pairs(cmp: str, low: tuple[int, int], high: tuple[int, int], signed: bool) -> None:
    """Lower words unsigned, then upper words with ``.EX``: a comparison of 64 bits."""
    first, _ = integer.isetp(u32(low[0]), u32(low[1]), True, False, cmp=cmp, op="AND", ex=False)
    upper = [np.int32(s32(v)) if signed else u32(v) for v in high]
    holds, opposite = integer.isetp(upper[0], upper[1], True, bool(first), cmp=cmp, op="AND", ex=True)
    a, b = ((s32(h) if signed else h) << 32 | v for h, v in zip(high, low, strict=True))
    want = {"LT": a < b, "LE": a <= b, "GT": a > b, "GE": a >= b, "EQ": a == b, "NE": a != b}[cmp]
    assert (bool(holds), bool(opposite)) == (want, not want)


@few
@given(a=words, b=words, c=words, e=bools)
def test_minima_and_maxima(a: int, b: int, c: int, e: bool) -> None:
    choose = min if e else max
    assert int(integer.imnmx(np.int32(s32(a)), np.int32(s32(b)), e)) == choose(s32(a), s32(b)) % WORD
    assert int(integer.imnmx(u32(a), u32(b), e)) == choose(a, b)
    three = integer.imnmx3(np.int32(s32(a)), np.int32(s32(b)), np.int32(s32(c)), e)
    assert int(three) == choose(s32(a), s32(b), s32(c)) % WORD
    added = integer.viaddmnmx(u32(a), u32(b), np.int32(s32(c)), e, unsigned="", relu=True)
    assert int(added) == max(choose(s32(a + b), s32(c)), 0)


@few
@given(a=words, b=words, c=words, acc=bools, kind=st.sampled_from(["U8", ""]))
def test_absolute_differences(a: int, b: int, c: int, acc: bool, kind: str) -> None:
    def parts(x: int) -> list[int]:
        return [v - 256 * (kind == "" and v > 127) for v in x.to_bytes(4, "little")]

    differences = [abs(x - y) for x, y in zip(parts(a), parts(b), strict=True)]
    want = (sum(differences) + c) % WORD if acc else int.from_bytes(bytes(d & 255 for d in differences), "little")
    assert int(integer.vabsdiff4(u32(a), u32(b), u32(c), t=kind, acc=acc)) == want
    assert int(integer.vabsdiff(np.int32(s32(a)), np.int32(s32(b)), u32(c))) == (abs(s32(a) - s32(b)) + c) % WORD


# ------------------------------------------------------------------------------------------------------------------ logic


@few
@given(a=words, c=words, n=words, w=bools, hi=bools, way=st.sampled_from("LR"), t=st.sampled_from(["U32", "S32", "U64", "S64"]))
def test_shf_is_a_shift_of_a_pair(a: int, c: int, n: int, w: bool, hi: bool, way: str, t: str) -> None:
    width = int(t[1:])
    amount = n % width if w else min(n, width)
    pair = c << 32 | a
    if way == "R" and t[0] == "S":
        pair -= (c >> 31) << 64
    shifted = pair << amount if way == "L" else pair >> amount
    result = logic.shf(u32(a), u32(n), u32(c), way=way, w=w, t=t, hi=hi)
    assert int(result) == (shifted >> 32 if hi else shifted) % WORD


@few
@given(a=words, b=words, c=words, table=st.integers(0, 255), e=bools)
def test_lop3_and_plop3_look_up_a_table(a: int, b: int, c: int, table: int, e: bool) -> None:
    bits = [table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1 for i in range(32)]
    want = sum(bit << i for i, bit in enumerate(bits))
    some, word = logic.lop3(u32(a), u32(b), u32(c), u32(table), e, pand=False)
    assert (int(word), bool(some)) == (want, want != 0 or e)
    first, second = logic.plop3(bool(a & 1), bool(b & 1), bool(c & 1), u32(table), u32(~table & 255))
    assert (bool(first), bool(second)) == (bool(bits[0]), not bits[0])


@few
@given(a=words, c=words, selector=st.lists(st.integers(0, 15), min_size=4, max_size=4))
def test_prmt_picks_bytes(a: int, c: int, selector: list[int]) -> None:
    source = (c << 32 | a).to_bytes(8, "little")
    picked = [(255 * (source[s & 7] >> 7)) if s & 8 else source[s & 7] for s in selector]
    control = sum(s << 4 * i for i, s in enumerate(selector))
    assert int(logic.prmt(u32(a), u32(control), u32(c), mode="")) == int.from_bytes(bytes(picked), "little")


# ------------------------------------------------------------------------------------------------------------------ lanes


def test_redux_and_r2ur_take_the_executing_lanes() -> None:
    values = np.arange(100, 132, dtype=np.uint32)
    mask = np.uint32(0b1100)
    out = np.zeros(32, np.uint32)
    warp.redux(out, values, mask, op="SUM", signed=False)
    assert out[2] == 102 + 103
    others = np.zeros(1, np.uint32)
    warp.r2ur(others, out, values, mask)
    assert out[3] == 102
    assert others[0] & mask == 0b1000  # whose value is not the first lane's


def test_halves_are_named_upper_first() -> None:
    """``.H0_NH1``, as in a complex product: the upper half is the operand's lower one, the lower half its upper one negated."""
    form = next(f for f in find_opcode("HFMA2")[0])
    operands = parse_operands("R0, R1.H1_H1, R2.H0_NH1, R3")
    matched = match_operands(form, operands)
    assert matched is not None
    readings = ((), ("H1_H1",), ("H0_NH1",), ())
    source = MachineKernelSpec(form, readings, (1, 1, 1, 1), {}).source()
    assert "b0 = np.uint32(((b0 >> np.uint32(16)) | (b0 << np.uint32(16))) ^ np.uint32(0x8000))" in source


# --------------------------------------------------------------------------------------------------------------- registry

PIPES = {"alu", "fma", "fp64", "xu", "lsu", "tensor", "uniform", "cbu", "adu", "none"}


def test_every_opcode_says_what_it_does() -> None:
    entries = list(all_opcodes())
    assert len({entry.pattern.base for entry in entries}) > 110
    for entry in entries:
        assert entry.note, entry.pattern.text
        assert entry.pipe in PIPES, entry.pattern.text
        assert (entry.function is None) == bool(entry.control)


@pytest.mark.parametrize(
    ("opcode", "operands", "names"),
    [
        ("IADD3", "R5, P0, R0, UR4, RZ", "d p a b c"),
        ("IADD3", "R2, P3, P4, R9, -UR4, RZ", "d p q a b c"),
        ("IADD3.X", "R13, R7, UR5, RZ, P0, !PT", "d a b c e f"),
        ("LOP3.LUT", "P0, RZ, R7, R10, RZ, 0xc0, !PT", "p d a b c n e"),
        ("LOP3.LUT", "R2, R5, 0x1, RZ, 0xc0, !PT", "d a b c n e"),
        ("VOTE.ANY", "R8, PT, !P0", "d p a"),
        ("VOTE.ALL", "P0, !P0", "p a"),
        ("BRA", "`(.L_x_1)", "target"),
        ("WARPSYNC.COLLECTIVE.ALL", "`(.L_x_1)", "target"),
        ("UTMALDG.4D.IM2COL.MULTICAST", "UR8, UR4, UR21", "a m r"),
        ("RPCMOV.32", "Rpc.HI, R5", "d a"),
        ("BRA", "!P3, `(.L_x_9)", "a target"),
        ("LDGSTS.E.BYPASS.128", "[R15], desc[UR8][R10.64]", "dst src"),
        ("LDGSTS.E.LTC128B", "[R59], desc[UR12][R6.64], P2", "dst src e"),
    ],
)
def test_operands_are_matched_by_kind(opcode: str, operands: str, names: str) -> None:
    forms, why = find_opcode(opcode)
    assert why == ""
    fitting = [m for f in forms if (m := match_operands(f, parse_operands(operands))) is not None]
    assert [name for name, value in fitting[0].items() if value is not None] == names.split()


def test_unknown_opcodes_and_modifiers_are_told_apart() -> None:
    assert find_opcode("TEX.SCR") == ([], "this machine instruction is not known")
    assert find_opcode("IADD3.SAT") == ([], "IADD3 is known, but not with these modifiers")


@pytest.mark.parametrize("opcode", ["FADD.FTZ", "IMAD.WIDE.U32", "HMMA.16816.F32", "LDG.E.128", "SHF.R.U64", "R2UR"])
def test_kernel_sources_are_complete_modules(opcode: str) -> None:
    """What is compiled names everything it uses."""
    form: MachineForm = find_opcode(opcode)[0][0]
    rule = form.instruction.arch_rule(form.params, 90) if form.instruction.arch_rule else {}
    count = len(form.operands)
    planes = tuple(2 if o.is_address else o.type.planes for o in form.operands)
    source = MachineKernelSpec(form, ((),) * count, planes, rule).source()
    compile(source, opcode, "exec")
    assert "def kernel(R, mask, operands, ctx):" in source
