"""Special registers (PTX ISA 10): which there are, and how each reaches an instruction.

Most are planes that the machine fills before a warp starts (``%tid``, ``%ctaid``, ...). The few that depend on *when* they are
read (``%clock``, ``%globaltimer``) become an instruction that asks the machine.
"""

from __future__ import annotations

import re

from isa.lower.ir import Instr, Kernel, Special, VReg
from isa.spec.registry import find
from isa.types import scalar_type

__all__ = ["is_special", "read_clocks", "special_planes"]

_DIMENSIONED = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
_PLAIN_32 = (
    *("laneid", "warpid", "nwarpid", "smid", "nsmid"),
    *(f"lanemask_{relation}" for relation in ("eq", "le", "lt", "ge", "gt")),
    *("dynamic_smem_size", "total_smem_size", "aggr_smem_size"),
    *("cluster_ctarank", "cluster_nctarank", "is_explicit_cluster"),
    *(f"reserved_smem_offset_{end}" for end in ("begin", "end", "cap", "0", "1")),
    *(f"pm{number}" for number in range(8)),  # no event is counted, so these stay 0
)
_PLAIN_64 = ("gridid", "current_graph_exec", *(f"pm{number}_64" for number in range(8)))
_TIMED = {
    "clock": ("clock", 32),
    "clock_hi": ("clock_hi", 32),
    "clock64": ("clock", 64),
    "globaltimer": ("globaltimer", 64),
    "globaltimer_lo": ("globaltimer", 32),
    "globaltimer_hi": ("globaltimer_hi", 32),
}
_ENVREG = re.compile(r"envreg([0-9]|[12][0-9]|3[01])$")

_WIDTHS: dict[str, int] = {f"{name}.{axis}": 32 for name in _DIMENSIONED for axis in "xyzw"}
_WIDTHS |= dict.fromkeys(_DIMENSIONED, 32)  # ``%tid`` alone is its x component
_WIDTHS |= dict.fromkeys(_PLAIN_32, 32) | dict.fromkeys(_PLAIN_64, 64)
_WIDTHS |= {name: width for name, (_, width) in _TIMED.items()}


def is_special(name: str) -> bool:
    """Whether ``%name`` (with the percent sign) is a special register that tcsim knows."""
    return name.startswith("%") and (name[1:] in _WIDTHS or _ENVREG.match(name[1:]) is not None)


def special_planes(name: str) -> int:
    """Planes (32 bits each) of a special register's value. Name without the percent sign."""
    return _WIDTHS.get(name, 32) // 32


def read_clocks(instr: Instr, kernel: Kernel) -> list[Instr]:
    """The instruction, and before it one for every clock that it reads as an operand. ``mov d, %clock`` itself becomes one."""
    out: list[Instr] = []
    for name, source in instr.args.items():
        if not isinstance(source, Special) or source.name not in _TIMED:
            continue
        which, width = _TIMED[source.name]
        form = find(f"read_clock.{which}.u{width}")[0][0]
        target = instr.args.get("d")
        if instr.form.instruction.pattern.base == "mov" and isinstance(target, VReg) and target.type.bits == width:
            return [Instr(form, {"d": target}, instr.guard, instr.line, instr.loc)]
        now = kernel.new_register(scalar_type(f"b{width}"), f"%{source.name}")
        out.append(Instr(form, {"d": now}, instr.guard, instr.line, instr.loc))
        instr.args[name] = now
    return [*out, instr]
