"""One-line instructions with every combination of modifiers that might exist, for ptxas to judge (see data/ptxas).

What is not arithmetic: memory, atomics, barriers, exchange between lanes, moves, special registers, video. (Arithmetic forms
are compared in test_instructions_ptxas.py.) Registers: ``p`` predicates, ``c h r l q`` of 8 to 128 bits, ``f d`` floats;
variables ``gv cv sv lv`` of each state space, the parameter ``kp``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

HEADER = """.version {version}
.target {target}
.address_size 64
.global .align 16 .b8 gv[64];
.const .align 16 .b8 cv[64];
.visible .entry k(.param .align 16 .b8 kp[16])
{{
.reg .pred p<16>; .reg .b8 c<16>; .reg .b16 h<16>; .reg .b32 r<16>; .reg .b64 l<16>; .reg .b128 q<16>;
.reg .f32 f<16>; .reg .f64 d<16>;
.shared .align 16 .b8 sv[64];
.local .align 16 .b8 lv[64];
"""

ADDRESS = {"": "[l0]", ".const": "[cv]", ".global": "[l0]", ".local": "[lv]", ".param": "[kp]", ".param::entry": "[kp]",
           ".param::func": "[kp]", ".shared": "[sv]", ".shared::cta": "[sv]", ".shared::cluster": "[sv]"}  # fmt: skip
TYPES = ["b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64", "b128", "f16", "bf16",
         "f16x2", "bf16x2"]  # fmt: skip
SCOPES = ("", ".cta", ".cluster", ".gpu", ".sys")
L1 = ("", ".L1::evict_normal", ".L1::evict_unchanged", ".L1::evict_first", ".L1::evict_last", ".L1::no_allocate")
L2 = ("", ".L2::evict_normal", ".L2::evict_first", ".L2::evict_last")
HINT = ("", ".L2::cache_hint")
PREFETCH = ("", ".L2::64B", ".L2::128B", ".L2::256B")
VECTORS = ("", ".v2", ".v4", ".v8")
LETTERS = {8: "h", 16: "h", 32: "r", 64: "l", 128: "q"}
PAIRS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}


def register(type_: str, number: int = 0) -> str:
    """A register of a type."""
    if type_ == "pred":
        return f"p{number}"
    if type_ in ("f32", "f64"):
        return f"{'f' if type_ == 'f32' else 'd'}{number}"
    return f"{LETTERS[PAIRS.get(type_) or int(type_[1:])]}{number}"


def registers(vector: str, type_: str) -> str:
    """A register, or a vector of them."""
    count = int(vector[2:] or 1)
    return register(type_) if count == 1 else "{" + ", ".join(register(type_, n) for n in range(count)) + "}"


def _orders(*orders: str) -> list[str]:
    return ["", ".weak", ".volatile", *(order + scope for order in orders for scope in SCOPES)]


def loads() -> Iterator[str]:
    for space, nc, vector, type_ in product(ADDRESS, ("", ".nc"), VECTORS[:3], TYPES):  # ptxas 13.0 crashes on some .v8
        yield f"ld{space}{nc}{vector}.{type_} {registers(vector, type_)}, {ADDRESS[space]};"
    orders = _orders(".relaxed", ".acquire", ".mmio.relaxed", ".mmio", ".release")
    slots = [orders, ("", ".nc"), ("", ".ca", ".cg", ".cs", ".lu", ".cv"), L1, L2, HINT, PREFETCH]
    for space, count in product(ADDRESS, (1, 2, 3)):
        for chosen in combinations(range(len(slots)), count):
            for words in product(*(slots[slot][1:] for slot in chosen)):
                parts = dict(zip(chosen, words, strict=True))
                order, *rest = (parts.get(slot, "") for slot in range(len(slots)))
                yield f"ld{order}{space}{''.join(rest)}.b32 r0, {ADDRESS[space]}{', l9' if parts.get(5) else ''};"
    for space, vector, type_ in product(("", ".global", ".shared"), VECTORS, TYPES):
        yield f"ldu{space}{vector}.{type_} {registers(vector, type_)}, [l0];"
    for space, nc, unified in product(("", ".global"), ("", ".nc"), (".unified", "")):
        yield f"ld{space}{nc}.b32 r0, [l0]{unified};"


def stores() -> Iterator[str]:
    for space in ("", ".global", ".local", ".shared", ".shared::cta", ".shared::cluster", ".const"):
        for vector, type_ in product(VECTORS, TYPES):
            yield f"st{space}{vector}.{type_} {ADDRESS[space]}, {registers(vector, type_)};"
        operators = ("", ".wb", ".cg", ".cs", ".wt", ".ca")
        for order, cop, l1, l2, hint in product(_orders(".relaxed", ".release", ".mmio.relaxed"), operators, L1, L2[::3], HINT):
            policy = ", l9" if hint else ""
            yield f"st{order}{space}{cop}{l1}{l2}{hint}.b32 {ADDRESS[space]}, r0{policy};"


def hints() -> Iterator[str]:
    for space, level in product(("", ".global", ".local", ".shared"), (".L1", ".L2", ".L2::evict_last", ".L2::evict_normal")):
        yield f"prefetch{space}{level} {ADDRESS[space]};"
        yield f"applypriority{space}{level} {ADDRESS[space]}, 128;"
        yield f"discard{space}{level} {ADDRESS[space]}, 128;"
    yield from ("prefetchu.L1 [l0];", "prefetchu.L2 [l0];", "createpolicy.cvt.L2.b64 l0, l1;")
    policies = [f".L2::evict_{kind}" for kind in ("last", "normal", "first", "unchanged")]
    for primary, secondary in product(policies, ("", *policies)):
        for fraction in ("", ", 0.5", ", f1"):
            yield f"createpolicy.fractional{primary}{secondary}.b64 l0{fraction};"
        for space, sizes in product(("", ".global", ".shared"), ("1024, 4096", "r1, r2")):
            yield f"createpolicy.range{space}{primary}{secondary}.b64 l0, [l1], {sizes};"
    for space in ADDRESS:
        yield from (f"isspacep{space} p0, l0;", f"isspacep{space} p0, r0;")
        yield from (f"cvta{space}.u64 l0, l1;", f"cvta.to{space}.u64 l0, l1;")


def atomics() -> Iterator[str]:
    spaces = ("", ".global", ".shared", ".shared::cta", ".shared::cluster", ".local")
    operations = ("and", "or", "xor", "exch", "add", "inc", "dec", "min", "max", "cas")
    types = [*TYPES, "u16", "s16"]
    for kind, space, op, noftz, vector, type_ in product(("atom", "red"), spaces, operations, ("", ".noftz"), VECTORS, types):
        if noftz and not type_.endswith(("f16", "f16x2")):
            continue
        for hint in HINT:
            result = f"{registers(vector, type_)}, " if kind == "atom" else ""
            swap = f", {register(type_, 2)}" if op == "cas" else ""
            policy = ", l9" if hint else ""
            operands = f"{result}{ADDRESS[space]}, {registers(vector, type_)}{swap}{policy}"
            yield f"{kind}{space}.{op}{noftz}{hint}{vector}.{type_} {operands};"
    orders = ("", ".relaxed", ".acquire", ".release", ".acq_rel", ".volatile", ".sc", ".weak")
    for kind, order, scope, space in product(("atom", "red"), orders, SCOPES, spaces):
        for op, type_ in ((".add", "u32"), (".cas", "b32"), (".exch", "b128"), (".add.noftz", "f16x2")):
            result = f"{register(type_)}, " if kind == "atom" else ""
            swap = ", r2" if op == ".cas" else ""
            yield f"{kind}{order}{scope}{space}{op}.{type_} {result}{ADDRESS[space]}, {register(type_, 1)}{swap};"


def threads() -> Iterator[str]:
    for spelling, aligned, number in product(("bar", "bar.cta", "barrier", "barrier.cta"), ("", ".aligned"), ("0", "r0")):
        for count in ("", ", 64", ", r1"):
            yield f"{spelling}.sync{aligned} {number}{count};"
            yield f"{spelling}.arrive{aligned} {number}{count};"
            for op, (type_, result) in product((".popc", ".and", ".or"), (("u32", "r2"), ("pred", "p1"), ("b32", "r2"))):
                yield from (f"{spelling}.red{op}{aligned}.{type_} {result}, {number}{count}, {q};" for q in ("p2", "!p2"))
    yield from ("bar.warp.sync r0;", "bar.warp.sync -1;", "activemask.b32 r0;", "activemask.u32 r0;")
    yield from (f"membar.{level};" for level in ("cta", "gl", "sys", "gpu"))
    yield from (f"fence{order}{scope};" for order in ("", ".sc", ".acq_rel", ".acquire", ".release") for scope in SCOPES[1:])
    for mode, (type_, result), q, mask in product(
        ("all", "any", "uni", "ballot"), (("pred", "p0"), ("b32", "r0")), ("p1", "!p1"), (", r1", ", -1", "")
    ):
        yield from (f"vote{text}.{type_} {result}, {q}{mask};" for text in (f".sync.{mode}", f".{mode}.sync", f".{mode}"))
    for mode, (type_, a), result, sync in product(
        ("any", "all"), (("b32", "r1"), ("b64", "l1"), ("u32", "r1")), ("r0", "r0|p0", "_|p0"), (".sync", "")
    ):
        yield from (f"match.{mode}{sync}.{type_} {result}, {a}, r2;", f"match.{mode}{sync}.{type_} {result}, 5, -1;")
    for op, type_, modifier in product(("add", "min", "max", "and", "or", "xor"), ("u32", "s32", "b32"), ("", ".abs", ".NaN")):
        yield from (f"redux.sync.{op}{modifier}.{type_} r0, r1, {mask};" for mask in ("r2", "0xffffffff"))
    for mode, sync, (type_, letter), pair, b, c, mask in product(
        ("up", "down", "bfly", "idx"), (".sync", ""), (("b32", "r"), ("u32", "r"), ("f32", "f"), ("b64", "l")), ("", "|p0"),
        ("r2", "4"), ("r3", "31"), (", r4", ", -1", ""),
    ):  # fmt: skip
        yield f"shfl{sync}.{mode}.{type_} {letter}0{pair}, {letter}1, {b}, {c}{mask};"


def moves() -> Iterator[str]:
    sources = ["1", "-1", "0f3f800000", "1.0", "gv", "sv", "lv", "cv", "gv+4", "sv+8", "%tid.x", "%clock64"]
    for type_ in [*TYPES, "pred"]:
        taken = sources[:2] if type_ == "b128" else sources
        yield from (f"mov.{type_} {register(type_)}, {source};" for source in (register(type_, 1), *taken))
        for count, letter in product((2, 4, 8), "chrlf"):
            vector = "{" + ", ".join(f"{letter}{n}" for n in range(count)) + "}"
            rest = "{_, " + ", ".join(f"{letter}{n}" for n in range(count - 1)) + "}"
            yield from (f"mov.{type_} {register(type_)}, {vector};", f"mov.{type_} {vector}, {register(type_, 1)};")
            yield f"mov.{type_} {rest}, {register(type_, 1)};"
    yield from ("mov.v2.u32 {r0, r1}, {r2, r3};", "mov.v4.f32 {f0, f1, f2, f3}, {f4, f5, f6, f7};", "mov.b32 f0, r0;")
    yield from ("mov.v4.u32 {r0, r1, r2, r3}, %tid;", "mov.b64 d0, l0;", "mov.f32 r0, f0;")


def rest() -> Iterator[str]:
    yield from ("nanosleep.u32 r0;", "nanosleep.u32 100;", "pmevent 1;", "pmevent.mask 1;", "brkpt;", "trap;", "exit;", "ret;")
    yield from ("ret.uni;", "@p0 exit;", "@!p0 trap;", "stacksave.u32 r0;", "stacksave.u64 l0;", "stackrestore.u64 l0;")
    yield from ("alloca.u32 r0, r1;", "alloca.u64 l0, l1;", "alloca.u64 l0, l1, 16;", "alloca.u64 l0, 64, 16;")
    for cop, shared, hint, prefetch, size, more in product(
        (".ca", ".cg"), (".shared", ".shared::cta"), HINT, PREFETCH, ("4", "8", "16"), ("", ", r3", ", p3", ", 0", ", !p3")
    ):
        yield f"cp.async{cop}{shared}.global{hint}{prefetch} [r0], [l0], {size}{more}{', l9' if hint else ''};"
    yield from ("cp.async.commit_group;", "cp.async.wait_group 0;", "cp.async.wait_group 7;", "cp.async.wait_all;")


def specials() -> Iterator[str]:
    names = ["laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "clock", "clock_hi", "clock64", "globaltimer", "envreg0",
             "globaltimer_lo", "globaltimer_hi", "envreg31", "total_smem_size", "aggr_smem_size", "dynamic_smem_size", "pm0",
             "current_graph_exec", "cluster_ctarank", "cluster_nctarank", "is_explicit_cluster", "pm7", "pm0_64"]  # fmt: skip
    names += [f"reserved_smem_offset_{place}" for place in ("begin", "end", "cap", "0", "1")]
    names += [f"lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")]
    vectors = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
    names += [f"{name}.{axis}" for name in vectors for axis in "xyzw"]
    for name in names:
        yield from (f"mov.{t} {register(t)}, %{name};" for t in ("u32", "u64", "u16", "b32", "b64", "s32", "pred"))
        yield from (f"add.u32 r0, r1, %{name};", f"cvt.u64.u32 l0, %{name};", f"cvt.u16.u32 h0, %{name};")
        yield from (f"setp.eq.u32 p0, %{name}, 0;", f"st.global.u32 [l0], %{name};")
        yield f"shfl.sync.idx.b32 r0, %{name}, 0, 31, -1;"


def video() -> Iterator[str]:
    kinds = list(product(("u32", "s32"), repeat=3))
    parts = ("", ".b0", ".b3", ".h0", ".h1")
    for op, (t, a, b), second in product(("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl.", "vshr."), kinds, ("", ".add")):
        modes = (".clamp", ".wrap") if op.endswith(".") else ("",)
        for mode, part in product(modes, parts):
            opcode = f"{op.rstrip('.')}.{t}.{a}.{b}{mode}{second}"
            third = ", r3" if second else ""
            yield from (f"{opcode} r0, r1{part}, r2{third};", f"{opcode} r0, r1, r2{part}{third};")
            if part != ".h1" and not second:
                yield f"{opcode} r0{part}, r1.b1, r2.h1, r3;"
    for (t, a, b), po, signs in product(kinds, ("", ".po"), (("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-"))):
        if not (po and any(signs)):
            yield f"vmad.{t}.{a}.{b}{po} r0, {signs[0]}r1.b0, {signs[1]}r2.h1, {signs[2]}r3;"
    for (a, b), cmp in product(product(("u32", "s32"), repeat=2), ("eq", "ne", "lt", "le", "gt", "ge")):
        yield from (f"vset.{a}.{b}.{cmp} r0, r1.b1, r2.h0;", f"vset.{a}.{b}.{cmp}.add r0, r1, r2, r3;")
        yield from (f"vset{n}.{a}.{b}.{cmp}{add} r0, r1, r2, r3;" for n in (2, 4) for add in ("", ".add"))
    for n, op, (t, a, b) in product((2, 4), ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"), kinds):
        mask, select = (".h10", ".h32") if n == 2 else (".b31", ".b7654")
        yield from (f"{op}{n}.{t}.{a}.{b}{word} r0, r1, r2, r3;" for word in ("", ".sat", ".add", ".sat.add"))
        yield f"{op}{n}.{t}.{a}.{b} r0{mask}, r1{select}, r2, r3;"


FAMILIES = {"loads": loads, "stores": stores, "hints": hints, "atomics": atomics, "threads": threads, "moves": moves,
            "rest": rest, "specials": specials, "video": video}  # fmt: skip


def lines(family: str) -> list[str]:
    """The lines of a family, each once."""
    return list(dict.fromkeys(FAMILIES[family]()))
