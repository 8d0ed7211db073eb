"""Asynchronous copies, mbarriers, clusters, fences and matrix moves with every combination of modifiers that might exist.

The companion of :mod:`tests.reference.lines`, whose registers these lines use. (``mma``, ``wmma.mma`` and ``wgmma`` are
compared in test_tensor_ptxas.py and test_wgmma_ptxas.py.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tests.reference.lines import HINT, SCOPES

SPACES = ("", ".shared", ".shared::cta", ".shared::cluster", ".global")
ORDERS = ("", ".relaxed", ".release", ".acquire", ".acq_rel", ".sc")
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
TYPES = ("u32", "s32", "b32", "u64", "s64", "b64", "f32", "f64", "f16", "bf16", "f16x2")
DONE = ("", ".mbarrier::complete_tx::bytes", ".bulk_group")
TO = (".shared::cluster.global", ".shared::cta.global", ".global.shared::cta", ".shared::cluster.shared::cta", ".global.global")


def mbarriers() -> Iterator[str]:
    for space in SPACES:
        yield from (f"mbarrier.init{space}.b64 [sv], {count};" for count in ("1", "r0"))
        yield from (f"mbarrier.inval{space}.b64 [sv];", f"mbarrier.pending_count{space}.b64 r0, l0;")
        yield from (f"cp.async.mbarrier.arrive{noinc}{space}.b64 [sv];" for noinc in ("", ".noinc"))
        for order, scope in product(ORDERS, SCOPES):
            for op, tx in product(("arrive", "arrive_drop"), ("", ".expect_tx", ".noComplete")):
                for result, count in product(("l0, ", "_, ", ""), ("", ", 4", ", r1")):
                    yield f"mbarrier.{op}{tx}{order}{scope}{space}.b64 {result}[sv]{count};"
            yield from (f"mbarrier.{op}{order}{scope}{space}.b64 [sv], r1;" for op in ("expect_tx", "complete_tx"))
            for op, parity, hint in product(("test_wait", "try_wait"), (".parity", ""), ("", ", 100", ", r3")):
                yield f"mbarrier.{op}{parity}{order}{scope}{space}.b64 p0, [sv], {'r2' if parity else 'l2'}{hint};"


def fences() -> Iterator[str]:
    for order, scope, aligned in product(ORDERS, SCOPES, ("", ".aligned")):
        yield from (f"barrier.cluster.{op}{order}{scope}{aligned};" for op in ("arrive", "wait"))
    for order, where, scope in product(ORDERS, ("", ".sync_restrict::shared::cta", ".sync_restrict::shared::cluster"), SCOPES):
        yield from (f"fence{order}{where}{scope};", f"fence.proxy.async::generic{order}{where}{scope};")
        yield f"fence.mbarrier_init{order}{scope};"
        for proxy in (
            ".alias",
            ".async",
            ".async.global",
            ".async.shared::cta",
            ".async.shared::cluster",
            ".tensormap::generic",
        ):
            yield from (
                f"{op}.proxy{proxy}{order}{scope}{size};" for op, size in product(("fence", "membar"), ("", " [l0], 128"))
            )
    yield from ("elect.sync r0|p0, r1;", "elect.sync _|p0, -1;", "elect.sync r0|p0, 1;", "griddepcontrol.wait;")
    yield from ("griddepcontrol.launch_dependents;", "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;")
    yield from (f"wgmma.wait_group.sync.aligned {n};" for n in (0, 1, 7))
    for op, count in product(("inc", "dec"), (24, 32, 240, 256, 25)):
        yield f"setmaxnreg.{op}.sync.aligned.u32 {count};"
    for space, (t, letter), b in product(SPACES, (("u32", "r"), ("u64", "l")), ("r3", "1")):
        yield from (f"mapa{space}.{t} {letter}0, {letter}1, {b};", f"mapa{space}.{t} {letter}0, sv, {b};")
        yield from (f"getctarank{space}.{t} r0, {letter}1;", f"getctarank{space}.{t} r0, sv;")


def bulk() -> Iterator[str]:
    for to, done, cast, hint in product(TO, DONE, ("", ".multicast::cluster"), HINT):
        more = ", [sv]" if "mbarrier" in done else ""
        more += (", h3" if cast else "") + (", l9" if hint else "")
        target, source = ("[l0]", "[sv]") if to.startswith(".global") else ("[sv]", "[l0]")
        yield f"cp.async.bulk{to}{done}{cast}{hint} {target}, {source}, r4{more};"
        if not cast:
            for op, noftz, t in product(OPERATIONS, ("", ".noftz"), TYPES):
                yield f"cp.reduce.async.bulk{to}{done}{hint}.{op}{noftz}.{t} {target}, {source}, r4{more};"
    for hint in HINT:
        yield f"cp.async.bulk.prefetch.L2.global{hint} [l0], r4{', l9' if hint else ''};"
    yield from ("cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 3;")
    for dim, mode, done, hint in product(range(1, 6), ("", ".tile", ".im2col", ".im2col_no_offs", ".im2col::w"), DONE, HINT):
        tensor = f"[l1, {{{', '.join(f'r{n}' for n in range(dim))}}}]"
        policy = ", l9" if hint else ""
        pixels = [""] + ([f", {{{', '.join(f'h{n}' for n in range(dim - 2))}}}"] if dim > 2 else [])
        for to, cast, offsets in product(
            (".shared::cluster.global", ".shared::cta.global"), ("", ".multicast::cluster"), pixels
        ):
            ranks = ", h9" if cast else ""
            line = f"cp.async.bulk.tensor.{dim}d{to}{mode}{done}{cast}{hint} [sv], {tensor}, [sv]{offsets}{ranks}{policy};"
            yield line
        yield f"cp.async.bulk.tensor.{dim}d.global.shared::cta{mode}{done}{hint} {tensor}, [sv]{policy};"
        for op in OPERATIONS:
            yield f"cp.reduce.async.bulk.tensor.{dim}d.global.shared::cta.{op}{mode}{done}{hint} {tensor}, [sv]{policy};"
        for offsets in pixels if not done else []:
            yield f"cp.async.bulk.prefetch.tensor.{dim}d.L2.global{mode}{hint} {tensor}{offsets}{policy};"


def asynchronous_stores() -> Iterator[str]:
    spaces = (*SPACES[1:], "")
    done = (".mbarrier::complete_tx::bytes", "")
    for weak, space, vector, t in product(("", ".weak", ".relaxed.cluster"), spaces, ("", ".v2", ".v4"), TYPES[:8]):
        letter = {"f32": "f", "f64": "d"}.get(t, "l" if t.endswith("64") else "r")
        count = int(vector[2:] or 1)
        value = f"{letter}1" if count == 1 else "{" + ", ".join(f"{letter}{n}" for n in range(count)) + "}"
        yield from (f"st.async{weak}{space}{how}{vector}.{t} [r0], {value}{', [r1]' if how else ''};" for how in done)
    for order, space, op, t in product(("", ".relaxed.cluster", ".relaxed.cta"), spaces, OPERATIONS, TYPES[:6]):
        letter = "l" if t.endswith("64") else "r"
        yield f"red.async{order}{space}{done[0]}.{op}.{t} [r0], {letter}1, [r1];"
    yield from ("st.bulk.weak.shared::cta [l0], l1, 0;", "st.bulk [l0], 256, 0;")


def matrix_moves() -> Iterator[str]:
    for op, shape, count, trans, space, t in product(
        ("ldmatrix", "stmatrix"), ("m8n8", "m8n16", "m16n16", "m16n8"), (1, 2, 4), ("", ".trans"), SPACES, ("b16", "b8")
    ):
        vector = "{" + ", ".join(f"r{n}" for n in range(count)) + "}"
        operands = f"{vector}, [sv]" if op == "ldmatrix" else f"[sv], {vector}"
        yield f"{op}.sync.aligned.{shape}.x{count}{trans}{space}.{t} {operands};"
    yield from ("movmatrix.sync.aligned.m8n8.trans.b16 r0, r1;", "movmatrix.sync.aligned.m8n8.b16 r0, r1;")
    fields = ("global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype",
              "interleave_layout", "swizzle_mode", "fill_mode", "swizzle_atomicity")  # fmt: skip
    for field, space, (t, value), index in product(
        fields, SPACES, (("b32", "r1"), ("b64", "l1"), ("b32", "2")), ("", "1, ", "r2, ")
    ):
        yield f"tensormap.replace.tile.{field}{space}.b1024.{t} [sv], {index}{value};"
    for scope, order in product(SCOPES[1:], ORDERS):
        yield f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic{order}{scope}.sync.aligned [l0], [sv], 128;"
    for space in ("", ".param", ".const", ".global"):
        yield f"prefetch{space}.tensormap [{'kp' if space == '.param' else 'l0'}];"


def fragments() -> Iterator[str]:
    """Loads and stores of ``wmma``. (Of some shapes that a type does not have ptxas reports errors in other lines.)"""
    usual = ("m16n16k16", "m8n32k16", "m32n8k16")
    shapes = {"f16": usual, "bf16": usual, "s8": usual, "u8": usual, "tf32": ("m16n16k8",), "f64": ("m8n8k4",),
              "s4": ("m8n8k32",), "u4": ("m8n8k32",), "b1": ("m8n8k128",), "f32": (*usual, "m16n16k8"),
              "s32": (*usual, "m8n8k32", "m8n8k128")}  # fmt: skip
    of_a_type = [(t, shape) for t, every in shapes.items() for shape in every]
    for which, layout, (t, shape), space, count, stride in product(
        "abcd", ("row", "col"), of_a_type, ("", ".global", ".shared"), (1, 2, 4, 8), ("", ", r15")
    ):
        letter = {"f32": "f", "f64": "d"}.get(t, "r")
        vector = "{" + ", ".join(f"{letter}{n}" for n in range(count)) + "}"
        address = "[sv]" if space == ".shared" else "[l0]"
        if which == "d":
            yield f"wmma.store.d.sync.aligned.{layout}.{shape}{space}.{t} {address}, {vector}{stride};"
        else:
            yield f"wmma.load.{which}.sync.aligned.{layout}.{shape}{space}.{t} {vector}, {address}{stride};"


FAMILIES = {f.__name__: f for f in (mbarriers, fences, bulk, asynchronous_stores, matrix_moves, fragments)}


def lines(family: str) -> list[str]:
    """The lines of a family, each once."""
    return list(dict.fromkeys(FAMILIES[family]()))
