"""Machine code calls functions by addresses that memory holds, however ptxas spells these: in a module with one kernel by their
place in it, with more through a table. (:mod:`tests.test_styles` has code built for debugging, which calls by where they are.)
An H200 gave the same for C++ of this kind.
"""

from __future__ import annotations

import numpy as np
import pytest

import tcsim
from isa.sass.toolchain import find_nvdisasm, find_ptxas
from tcsim.errors import UnsupportedWarning

pytestmark = pytest.mark.skipif(not (find_ptxas() and find_nvdisasm()), reason="ptxas and nvdisasm are not installed")

FUNCTION = """.func (.param .b32 r) {name}(.param .b32 a)
{{ .reg .b32 x<2>; ld.param.b32 x0, [a]; {body} st.param.b32 [r], x0; ret; }}
"""
MODULE = """.version 8.0
.target sm_80
.address_size 64
{functions}
.global .u64 both[2] = {{twice, next}};
.const .u64 other[2] = {{square, twice}};
.global .u64 slots[64];
"""
KERNEL = """.visible .entry {name}(.param .u64 io)
{{
.reg .b32 x<9>; .reg .b64 l<9>; .reg .pred p<3>;
shape: .callprototype (.param .b32 _) _ (.param .b32 _);
mov.u32 x0, %tid.x; ld.param.u64 l0, [io]; mul.wide.u32 l1, x0, 4; add.u64 l0, l0, l1; ld.global.u32 x1, [l0];
and.b32 x2, x1, 1; mul.wide.u32 l2, x2, 8; mul.wide.u32 l7, x0, 8;
mov.u64 l3, both; add.u64 l3, l3, l2; ld.global.u64 l4, [l3];
mov.u64 l5, other; add.u64 l5, l5, l2; ld.const.u64 l6, [l5];
{compare}
setp.lt.u32 p0, x1, 50; @p0 mov.u64 l6, next;
mov.u64 l8, slots; add.u64 l8, l8, l7; st.global.u64 [l8], l6; bar.sync 0;
xor.b32 x3, x0, 1; mul.wide.u32 l7, x3, 8; mov.u64 l8, slots; add.u64 l8, l8, l7; ld.volatile.global.u64 l6, [l8];
{{ .param .b32 q; .param .b32 s; st.param.b32 [q], x1; call (s), l4, (q), shape; ld.param.b32 x1, [s]; }}
{{ .param .b32 q; .param .b32 s; st.param.b32 [q], x1; call (s), l6, (q), shape; ld.param.b32 x1, [s]; }}
st.global.u32 [l0], x1;
ret;
}}
"""
COMPARE = "mov.u64 l8, twice; setp.eq.u64 p1, l8, l4; @p1 add.u32 x1, x1, 7;"


def module(kernels: int, compare: str = "") -> str:
    bodies = {"twice": "add.u32 x0, x0, x0;", "next": "add.u32 x0, x0, 1;", "square": "mul.lo.u32 x0, x0, x0;"}
    functions = "".join(FUNCTION.format(name=name, body=body) for name, body in bodies.items())
    text = MODULE.format(functions=functions)
    return text + "".join(KERNEL.format(name=f"k{number}", compare=compare) for number in range(kernels))


def expected(values: np.ndarray, compared: bool = False) -> np.ndarray:
    def apply(name: str, x: int) -> int:
        return {"twice": 2 * x, "next": x + 1, "square": x * x}[name]

    plus = [7 * compared * (x & 1 == 0) for x in values.tolist()]
    held = ["next" if x + more < 50 else ("square", "twice")[x & 1] for x, more in zip(values.tolist(), plus, strict=True)]
    first = [apply(("twice", "next")[x & 1], x + more) for x, more in zip(values.tolist(), plus, strict=True)]
    return np.array([apply(held[i ^ 1], x) for i, x in enumerate(first)], np.uint32)


@pytest.mark.parametrize("device", ["a100", "h200"])
@pytest.mark.parametrize("kernels", [1, 2], ids=["place", "table"])
def test_functions_are_called_by_the_addresses_that_memory_holds(kernels: int, device: str) -> None:
    values = np.arange(20, 84, dtype=np.uint32)
    with tcsim.Device(device, execute="machine"):
        function = tcsim.RawModule(module(kernels)).get_function("k0")
        assert function.program.image is not None
        assert function.program.registers_per_thread == 32
        data = tcsim.asarray(values)
        function((1,), (64,), (data,))
        assert data.get().tolist() == expected(values).tolist()


def test_comparing_addresses_is_refused_where_they_are_spelt_in_two_ways() -> None:
    values = np.arange(20, 84, dtype=np.uint32)
    with tcsim.Device("h200", execute="machine"):
        with pytest.warns(UnsupportedWarning, match="compares addresses of functions"):
            function = tcsim.RawModule(module(2, COMPARE)).get_function("k0")
        assert function.program.image is None
        data = tcsim.asarray(values)
        function((1,), (64,), (data,))
        assert data.get().tolist() == expected(values, compared=True).tolist()
