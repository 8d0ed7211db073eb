"""Integer, logic and predicate instructions."""

from __future__ import annotations

from typing import Any

from .chains import Op, chain_benchmarks
from .gpu import Benchmark

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "integer"

_ODD = (0x1234567, 0x9E3779B1, 0x85EBCA6B)
_SMALL = (0x1234567, 13, 5)


def _op(name: str, text: str, sass: str, count: int = 1, **more: Any) -> Op:
    return Op(name, text, sass, count=count, **{"operands": _ODD, **more})


OPS = (
    _op(
        "iadd3",
        "add.u32 {t}, {x}, {j}; add.u32 {x}, {t}, {y};",
        r"IADD3",
        second="add.u32 {t}, {x}, {j}; add.u32 {j}, {t}, {z};",
    ),
    _op("iadd", "add.u32 {x}, {x}, {j};", r"IADD3|IMAD\.IADD|VIADD", second="add.u32 {j}, {j}, {x};"),
    _op("iadd3_3", "add.u32 {t}, {x}, {y}; sub.u32 {x}, {z}, {t};", r"IADD3"),
    _op("lop3", "lop3.b32 {x}, {x}, {y}, {z}, 0x6a;", r"LOP3"),
    _op("shl", "shl.b32 {x}, {y}, {x};", r"SHF"),
    _op("shr_s32", "shr.s32 {x}, {y}, {x};", r"SHF"),
    _op("shf", "shf.l.wrap.b32 {x}, {x}, {y}, {z};", r"SHF"),
    _op("prmt", "prmt.b32 {x}, {x}, {y}, {z};", r"PRMT"),
    _op("lea", "shl.b32 {t}, {x}, 3; add.u32 {x}, {t}, {y};", r"LEA|IMAD"),
    _op("imad", "mad.lo.u32 {x}, {x}, {y}, {z};", r"IMAD"),
    _op("imad_c", "mad.lo.u32 {x}, {y}, {z}, {x};", r"IMAD|IADD3|VIADD"),
    _op("imul", "mul.lo.u32 {x}, {x}, {y};", r"IMAD"),
    _op(
        "imad_wide",
        "mul.wide.u32 {w}, {x}, {y}; mov.b64 {{{t}, {u}}}, {w}; xor.b32 {x}, {t}, {u};",
        r"IMAD\.WIDE",
        note="(with a LOP3)",
        others=120,
    ),
    _op("imad_hi", "mad.hi.u32 {x}, {x}, {y}, {z};", r"IMAD\.HI"),
    _op("mul_lo_64", "mul.lo.u64 {x}, {x}, {y};", "", kind="b64"),
    _op("mul_hi_64", "mul.hi.u64 {x}, {x}, {y};", "", kind="b64"),
    _op("add_64", "add.u64 {x}, {x}, {v};", "", kind="b64", second="add.u64 {v}, {v}, {x};"),
    _op("imnmx", "min.s32 {t}, {x}, {y}; max.s32 {x}, {t}, {z};", r"VIMNMX|IMNMX", 2),
    _op("umin", "min.u32 {x}, {x}, {y}; xor.b32 {x}, {x}, {z};", r"VIMNMX|IMNMX", note="(with a LOP3)", others=120),
    _op("abs", "abs.s32 {t}, {x}; sub.s32 {x}, {y}, {t};", r"IABS", note="(with an IADD3)", others=120),
    _op("sad", "sad.u32 {x}, {x}, {y}, {z};", ""),
    _op("bfe", "bfe.u32 {x}, {x}, {y}, {z};", ""),
    _op("bfi", "bfi.b32 {x}, {x}, {y}, 5, 9;", ""),
    _op("bmsk", "bmsk.wrap.b32 {x}, {x}, {y};", r"BMSK", others=120),
    _op("szext", "szext.wrap.u32 {x}, {x}, {y};", ""),
    _op("sext8", "cvt.s32.s8 {t}, {x}; sub.s32 {x}, {y}, {t};", ""),
    _op("popc", "popc.b32 {x}, {x};", r"POPC"),
    _op("flo", "bfind.u32 {x}, {x};", r"FLO"),
    _op("clz", "clz.b32 {x}, {x};", r"FLO", others=120),
    _op("brev", "brev.b32 {x}, {x};", r"BREV"),
    _op("dp4a", "dp4a.u32.u32 {x}, {x}, {y}, {z};", r"IDP"),
    _op("dp4a_c", "dp4a.u32.u32 {x}, {y}, {z}, {x};", r"IDP"),
    _op("dp2a", "dp2a.lo.u32.u32 {x}, {x}, {y}, {z};", r"IDP"),
    _op("viaddmnmx", "add.s32 {t}, {x}, {y}; max.s32 {x}, {t}, {z};", r"VIADDMNMX"),
    _op("vimnmx_3", "max.s32 {t}, {x}, {y}; max.s32 {x}, {t}, {z};", ""),
    _op("min_s16x2", "min.s16x2 {x}, {x}, {y}; xor.b32 {x}, {x}, {z};", r"VIMNMX", note="(with a LOP3)", others=120),
    _op("add_s16x2", "add.u16x2 {x}, {x}, {y}; xor.b32 {x}, {x}, {z};", "", note="(with a LOP3)"),
    _op("vadd4", "vadd4.u32.u32.u32 {x}, {x}, {y}, {z};", ""),
    _op("vabsdiff4", "vabsdiff4.u32.u32.u32.add {x}, {x}, {y}, {z};", ""),
    _op("vset4", "vset4.u32.u32.lt {x}, {x}, {y}, {z};", ""),
    _op("sel", "selp.b32 {x}, {y}, {x}, %odd;", ""),
    _op("isetp_sel", "setp.lt.s32 {p}, {x}, {y}; selp.b32 {x}, {y}, {z}, {p};", r"ISETP\.GE|SEL", 2),
    _op(
        "isetp_guard",
        "setp.lt.s32 {p}, {x}, {y}; @{p} sub.u32 {x}, {z}, {x};",
        r"ISETP\.GE",
        note="(with a guarded IADD3)",
        others=120,
    ),
    _op("setp_and_sel", "setp.lt.s32 {p}, {x}, {y}; setp.gt.and.s32 {q}, {a}, {x}, {p}; selp.b32 {x}, {y}, {z}, {q};", ""),
    _op("slct", "slct.b32.s32 {x}, {y}, {z}, {x};", ""),
    _op("shl_64", "cvt.u32.u64 {t}, {x}; shl.b64 {x}, {y}, {t};", "", kind="b64"),
    _op("mul24", "mul24.lo.u32 {x}, {x}, {y};", ""),
    _op("div_u32", "div.u32 {x}, {y}, {x}; or.b32 {x}, {x}, 1;", "", operands=_SMALL),
    _op("rem_u32", "rem.u32 {x}, {y}, {x}; or.b32 {x}, {x}, 1;", "", operands=_SMALL),
    _op("div_s32", "div.s32 {x}, {y}, {x}; or.b32 {x}, {x}, 1;", "", operands=_SMALL),
    _op("div_u64", "div.u64 {x}, {y}, {x}; or.b64 {x}, {x}, 1;", "", kind="b64"),
    _op("clock32", "mov.u32 {t}, %clock; add.u32 {x}, {x}, {t};", "", note="(pairs share an IADD3)"),
    _op("cs2r_clock64", "mov.u64 {w}, %clock64; add.u64 {x}, {x}, {w};", r"CS2R", kind="b64", others=240),
    _op("globaltimer", "mov.u64 {w}, %globaltimer; add.u64 {x}, {x}, {w};", "", kind="b64"),
    _op("s2r", "mov.u32 {t}, %warpid; sub.u32 {x}, {t}, {x};", r"S2R", note="(with SHF, SGXT and IADD3)", others=360),
)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    return chain_benchmarks(FAMILY, OPS)
