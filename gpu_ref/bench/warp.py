"""Exchange between the lanes of a warp: shuffles, votes, matches, reductions."""

from __future__ import annotations

from typing import Any

from .chains import Op, chain_benchmarks
from .gpu import Benchmark

__all__ = ["FAMILY", "benchmarks"]

FAMILY = "warp"

_ALL = "0xffffffff"


def _op(name: str, text: str, sass: str, count: int = 1, **more: Any) -> Op:
    return Op(name, text, sass, count=count, **{"operands": (0x12345, 5, 3), **more})


OPS = (
    _op("shfl_bfly", f"shfl.sync.bfly.b32 {{x}}, {{x}}, 1, 31, {_ALL};", "SHFL"),
    _op("shfl_up", f"shfl.sync.up.b32 {{x}}, {{x}}, 1, 0, {_ALL};", "SHFL"),
    _op("shfl_down", f"shfl.sync.down.b32 {{x}}, {{x}}, 1, 31, {_ALL};", "SHFL"),
    _op("shfl_idx", f"shfl.sync.idx.b32 {{x}}, {{x}}, {{j}}, 31, {_ALL};", "SHFL"),
    _op("shfl_idx_lane", f"shfl.sync.idx.b32 {{x}}, {{j}}, {{x}}, 31, {_ALL};", "SHFL", note="(chain through the lane)"),
    _op("shfl_predicate", f"shfl.sync.bfly.b32 {{x}}|{{p}}, {{x}}, 1, 31, {_ALL};", "SHFL"),
    _op("ballot", f"setp.lt.u32 {{q}}, {{x}}, {{y}}; vote.sync.ballot.b32 {{x}}, {{q}}, {_ALL};", "VOTE", others=120),
    _op("vote_any", f"vote.sync.any.pred {{p}}, {{q}}, {_ALL}; xor.pred {{q}}, {{q}}, {{p}};", r"VOTE", others=120),
    _op("vote_all", f"vote.sync.all.pred {{p}}, {{q}}, {_ALL}; xor.pred {{q}}, {{q}}, {{p}};", r"VOTE", others=120),
    _op("match_any", f"match.any.sync.b32 {{x}}, {{x}}, {_ALL};", "MATCH", others=120),
    *(
        _op(
            f"match_any_{k + 1}_values",
            f"match.any.sync.b32 {{x}}, {{x}}, {_ALL}; or.b32 {{x}}, {{x}}, {{y}};",
            "MATCH",
            operands=(0x12345, (1 << 32) - (1 << k), 3),
            note=f"{k + 1} different values (with a LOP3)",
            others=120,
        )
        for k in (0, 1, 3, 7, 15)
    ),
    _op("match_all", f"match.all.sync.b32 {{x}}, {{x}}, {_ALL};", "MATCH", others=120),
    _op("match_any_64", f"cvt.u64.u32 {{w}}, {{x}}; match.any.sync.b64 {{x}}, {{w}}, {_ALL};", "MATCH", others=240),
    _op("redux_add", f"redux.sync.add.u32 {{x}}, {{x}}, {_ALL};", "", note="(with a move from the uniform register)"),
    _op("redux_min", f"redux.sync.min.s32 {{x}}, {{x}}, {_ALL};", "", note="(with a move from the uniform register)"),
    _op("redux_xor", f"redux.sync.xor.b32 {{x}}, {{x}}, {_ALL};", "", note="(with a move from the uniform register)"),
    _op("movmatrix", "movmatrix.sync.aligned.m8n8.trans.b16 {x}, {x};", "MOVM"),
    _op("elect", f"elect.sync {{t}}|{{p}}, {_ALL}; sub.u32 {{x}}, {{x}}, {{t}};", ""),
    _op(
        "syncwarp",
        f"bar.warp.sync {_ALL}; add.u32 {{x}}, {{x}}, {{j}};",
        "",
        second=f"bar.warp.sync {_ALL}; add.u32 {{j}}, {{j}}, {{x}};",
    ),
)


def benchmarks() -> list[Benchmark]:
    """All of this family."""
    return chain_benchmarks(FAMILY, OPS)
