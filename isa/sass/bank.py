"""Constant banks: where machine code reads parameters, launch extents, literals, ``.const`` variables and addresses.

Bank 0 begins with what the driver writes at a launch, then the parameters. Bank 2 holds literals and branch tables of a kernel,
bank 3 the module's ``.const`` variables, bank 4 addresses of its other variables. Here they become one image of bytes, bank
after bank, that a launch copies and completes. (Offsets of bank 0 were read from listings for sm_80 and sm_90 and from
what kernels compute with them.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import Unsupported, UnsupportedError
from isa.lower.ir import SymbolRef
from isa.machine import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from isa.program import ConstantImage
from isa.reserved import RESERVED_END, RESERVED_SHARED
from isa.sass.listing import CodeSection, MachineCode
from isa.sass.operands import Constant
from isa.sass.sections import Section

__all__ = [
    "GENERIC",
    "RESERVED_BEHIND_AT",
    "SHARED_BYTES_AT",
    "WORKSPACE",
    "BankLayout",
    "add_functions",
    "cluster_words",
    "is_known",
    "lay_out_banks",
    "reads_reserved",
]

BLOCK_AT, GRID_AT = 0x0, 0xC
SHARED_WINDOW_AT, LOCAL_WINDOW_AT, STACK_TOP_AT, DYNAMIC_SHARED_AT = 0x18, 0x20, 0x28, 0x2C
SM_COUNT_AT = 0x10C
"""Bank 0: block extents x, y, z and grid extents x, y, z; generic addresses of shared and of local memory; end of a thread's
local memory; dynamic shared memory in bytes; SMs of the device."""

DESCRIPTORS = (0x118, 0x208)
"""Bank 0, before the parameters that start at 0x160 (up to sm_89) or 0x210 (sm_90): what describes global memory to loads and
stores. No value depends on it."""

CONSTANTS_AT = (0x50, 0xD0)
"""Likewise: the generic address of bank 3, which ``cvta.const`` adds, ``cvta.to.const`` subtracts and ``isspacep`` asks for."""

WORKSPACE = ((0x8C, 0x90), (0x44, 0x48))
"""Likewise: ``%envreg1`` and ``%envreg2``, the upper and lower half of the address of a cooperative launch's workspace."""

CLUSTER_AT = 0x140
CLUSTER_WORDS_AT = {"is_cluster": 0x140, "extents": 0x144, "inverses": 0x150, "clusters": 0x15C, "size": 0x188}
"""Bank 0 on sm_90 (found by dumping it on an H200, and in what ptxas makes of the special registers): 1 if the launch has
clusters; their extents; 1 over these, as float32; the grid's extents in clusters; CTAs of a cluster."""

PARAMETERS_AT = 0x198
"""Bank 0 on sm_90: generic addresses of the first parameter and of the end of all."""

BANK_AT, PARAMETERS_END_AT = 0x40, 0x12C
"""Bank 0 up to sm_89: its own generic address, and the offset in it of the end of the parameters."""

RESERVED_BEHIND_AT = {"end": 0x120, "1": 0x124}
"""Bank 0 up to sm_89: ``%reserved_smem_offset_end`` and ``%reserved_smem_offset_1``, which depend on the launch there."""

ALIAS = (0x128, 0x18C)
"""Bank 0, up to sm_89 and on sm_90: how far ``fence.proxy.alias`` must reach; 0 on an H200. No value depends on it."""

RESERVED_AT, SHARED_BYTES_AT = 0x114, 0x13C
"""Bank 0: bytes of shared memory that the system reserves; on sm_90 all bytes of a CTA's."""

RESERVED_END_AT, RESERVED_PLACE_AT = 0x68, 0x6C
"""Bank 0 on sm_90: ``%reserved_smem_offset_end`` and ``%reserved_smem_offset_1``, which is 0."""

_EVERYWHERE = frozenset(
    {
        *range(BLOCK_AT, GRID_AT + 12, 4),
        *(at + half for at in (SHARED_WINDOW_AT, LOCAL_WINDOW_AT) for half in (0, 4)),
        *(STACK_TOP_AT, DYNAMIC_SHARED_AT, SM_COUNT_AT, RESERVED_AT),
    }
)
_UP_TO_SM_89 = _EVERYWHERE | {
    *(at + half for at in (DESCRIPTORS[0], CONSTANTS_AT[0], BANK_AT) for half in (0, 4)),
    *(PARAMETERS_END_AT, ALIAS[0], *WORKSPACE[0], *RESERVED_BEHIND_AT.values()),
}
_ON_SM_90 = _EVERYWHERE | {
    *(at + half for at in (DESCRIPTORS[1], CONSTANTS_AT[1], PARAMETERS_AT, PARAMETERS_AT + 8) for half in (0, 4)),
    *range(CLUSTER_AT, 0x168, 4),
    *(CLUSTER_WORDS_AT["size"], SHARED_BYTES_AT, ALIAS[1], *WORKSPACE[1]),
    *(RESERVED_END_AT, RESERVED_PLACE_AT),
}


def is_known(offset: int, parameters: int) -> bool:
    """Whether the contents of an offset before the parameters, which start at ``parameters``, are known."""
    return offset in (_ON_SM_90 if parameters > PARAMETERS_AT else _UP_TO_SM_89)


def reads_reserved(constant: Constant) -> bool:
    """Whether an operand of machine code for sm_89 or earlier says where the system's shared memory is."""
    return constant.bank == 0 and constant.offset in _RESERVED_PLACES


_RESERVED_PLACES = frozenset({RESERVED_AT, *RESERVED_BEHIND_AT.values()})

_ALIGN = 64


class BankLayout:
    """The image of a kernel's banks. ``starts``: bank to its offset in the image; ``image``: what a launch completes."""

    def __init__(self, starts: dict[int, int], image: ConstantImage) -> None:
        self.starts, self.image = starts, image

    def place(self, bank: int, offset: int) -> int:
        """Offset in the image. Raises KeyError for a bank that the kernel does not have."""
        return self.starts[bank] + offset

    def bank_of(self, place: int) -> int:
        """The bank that an offset in the image belongs to."""
        return max((start, bank) for bank, start in self.starts.items() if start <= place)[1]


def lay_out_banks(machine: MachineCode, code: CodeSection, stack: int) -> BankLayout:
    """The banks of a kernel, one behind the other. ``stack``: bytes of local memory per thread."""
    content = bytearray(max(code.parameter_base + code.parameter_size, 0x160))
    for at, window in ((SHARED_WINDOW_AT, SHARED_WINDOW), (LOCAL_WINDOW_AT, LOCAL_WINDOW)):
        content[at : at + 8] = window.to_bytes(8, "little")
    content[RESERVED_AT : RESERVED_AT + 4] = RESERVED_SHARED.to_bytes(4, "little")
    if code.parameter_base > PARAMETERS_AT:
        content[RESERVED_END_AT : RESERVED_END_AT + 4] = RESERVED_END.to_bytes(4, "little")
        shared = max(code.static_shared, RESERVED_SHARED)
        content[SHARED_BYTES_AT : SHARED_BYTES_AT + 4] = shared.to_bytes(4, "little")
        for at, where in ((0, code.parameter_base), (8, code.parameter_base + code.parameter_size)):
            content[PARAMETERS_AT + at : PARAMETERS_AT + at + 8] = (PARAM_WINDOW + where).to_bytes(8, "little")
    else:
        content[BANK_AT : BANK_AT + 8] = PARAM_WINDOW.to_bytes(8, "little")
        end = code.parameter_base + code.parameter_size
        content[PARAMETERS_END_AT : PARAMETERS_END_AT + 4] = end.to_bytes(4, "little")
    content[STACK_TOP_AT : STACK_TOP_AT + 4] = stack.to_bytes(4, "little")
    starts = {0: 0}
    symbols: list[tuple[int, int, SymbolRef]] = []
    variables: list[tuple[int, int, str]] = []
    for bank in (2, 3, 4):
        section = machine.data.get(f".nv.constant{bank}") or machine.data.get(f".nv.constant{bank}.{code.name}")
        if section is None:
            continue
        content += bytes(-len(content) % _ALIGN)
        start = starts[bank] = len(content)
        content += section.content()
        symbols += [(start + r.offset, r.width, _symbol(r.symbol, code.name)) for r in section.relocations()]
        if bank == 3:
            variables += _variables(section, start, len(content))
    constants = CONSTANTS_AT[code.parameter_base >= 0x210]  # the window shows the whole image, so generic loads find bank 3
    content[constants : constants + 8] = (PARAM_WINDOW + starts.get(3, 0)).to_bytes(8, "little")
    image = ConstantImage(bytes(content), BLOCK_AT, GRID_AT, DYNAMIC_SHARED_AT, SM_COUNT_AT, symbols, variables)
    return BankLayout(starts, image)


def cluster_words(extents: tuple[int, int, int], clusters: tuple[int, int, int], is_clustered: bool) -> dict[int, bytes]:
    """What bank 0 says of the clusters of a launch on sm_90, by offset. ``clusters``: the grid's extents in clusters."""
    values: dict[str, NDArray[Any]] = {
        "is_cluster": np.array([is_clustered], np.uint32),
        "extents": np.array(extents, np.uint32),
        "inverses": 1 / np.array(extents, np.float32),
        "clusters": np.array(clusters, np.uint32),
        "size": np.array([np.prod(extents)], np.uint32),
    }
    return {CLUSTER_WORDS_AT[name]: value.tobytes() for name, value in values.items()}


def add_functions(layout: BankLayout, code: CodeSection, functions: Mapping[str, int]) -> None:
    """Let indirect calls find functions by the addresses that PTX gives them.

    ptxas numbers the functions whose address is taken, uses 8 times the number as the address, and calls what a table at the
    start of bank 2 has there: the place in the section. Addresses that are in memory are those of PTX here, so the table is
    continued with them. ``functions``: name to address. Code that has no such table calls by the address itself
    (:mod:`isa.sass.code_addresses`).
    """
    start, image = layout.starts.get(2), layout.image
    if not functions or start is None or image.content[start : start + 8] != _TABLE_START:
        return
    places = {address & 0xFFFF_FFFF: _place_in(code, name) for name, address in functions.items()}
    content = bytearray(image.content)
    content += bytes(max(0, start + max(places, default=0) + 8 - len(content)))
    for at, place in places.items():
        if place is not None:
            content[start + at : start + at + 8] = place.to_bytes(8, "little")
    layout.image = replace(image, content=bytes(content))


GENERIC = "fun@R_CUDA_G64"
"""How nvdisasm marks the generic address of a variable."""

_TABLE_START = (1).to_bytes(8, "little")


def _place_in(code: CodeSection, function: str) -> int | None:
    """Where a function begins in the section of a kernel that has a copy of it."""
    return code.labels.get(f"${code.name}${function}", code.labels.get(function))


def _symbol(text: str, kernel: str) -> SymbolRef:
    name, _, addend = text.removeprefix(GENERIC).strip("()").partition("+")
    name = name.strip()
    if not name.replace("_", "a").replace("$", "a").replace(".", "a").isalnum():
        item = Unsupported(text, "the constant bank holds an address of this kind, which is not known", 0, kernel)
        raise UnsupportedError([item], f"machine code of kernel {kernel}")
    return SymbolRef(name, int(addend.strip() or "0", 0))


def _variables(section: Section, start: int, end: int) -> list[tuple[int, int, str]]:
    """(offset, size, name) of the ``.const`` variables of bank 3."""
    places = sorted((start + at, name) for name, at in section.symbols().items() if not name.startswith("."))
    ends = [*(at for at, _ in places[1:]), end]
    return [(at, stop - at, name) for (at, name), stop in zip(places, ends, strict=True)]
