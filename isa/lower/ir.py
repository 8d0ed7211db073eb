"""The intermediate form between syntax and an executable program.

A kernel is a list of :class:`Instr` over virtual registers, with labels resolved to instruction indices. Passes
(contraction, register allocation) work on it; :mod:`isa.lower.emit` turns it into a :class:`~isa.program.Program`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from isa.ptx.ast import Location
from isa.spec.registry import Form
from isa.types import ScalarType

__all__ = ["Arg", "Const", "Guard", "Instr", "Kernel", "MemoryArg", "Routine", "Special", "SymbolRef", "VReg"]


@dataclass(frozen=True, slots=True)
class VReg:
    """A virtual register. ``index`` is unique in the kernel; ``name`` as in the text; ``type`` its declared type."""

    index: int
    name: str
    type: ScalarType

    @property
    def is_predicate(self) -> bool:
        return self.type.kind == "p"

    def __repr__(self) -> str:
        return f"{self.name}"


@dataclass(frozen=True, slots=True)
class Const:
    """An immediate: its bit pattern, masked to the width it is used with."""

    bits: int

    def __repr__(self) -> str:
        return f"{self.bits:#x}"


@dataclass(frozen=True, slots=True)
class SymbolRef:
    """The address of a module variable (known when the module is loaded on a device) plus a byte offset. With ``generic``,
    the generic address. Kernel-local symbols (shared, local, parameters) are :class:`Const` already."""

    symbol: str
    addend: int = 0
    generic: bool = False


SHARED_SYMBOL = "%shared"
"""The start of the CTA's own shared memory, in kernels that reach that of other CTAs of their cluster: there it depends on the
CTA (:mod:`isa.machine`). In all others an address in shared memory is a :class:`Const`."""


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as ``%tid.x``, read as a value the machine puts into the register block."""

    name: str


@dataclass(frozen=True, slots=True)
class MemoryArg:
    """``[base + offset]``. A base-less address is a :class:`Const` or :class:`SymbolRef` base."""

    base: VReg | Const | SymbolRef | Special
    offset: int


Arg = VReg | Const | SymbolRef | Special | MemoryArg | tuple[Any, ...] | None
"""An operand. A tuple is a vector; None is the sink ``_`` or a half of a pair that the text leaves out."""


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` / ``@!p``."""

    register: VReg
    negated: bool


@dataclass(slots=True)
class Instr:
    """One instruction: a form and its operands by name, in the form's operand order.

    ``target`` is the index of the instruction that a branch goes to (one past the last for a label at the end). ``line`` is
    the PTX line, ``loc`` the CUDA position. ``control`` names what the executor does for forms without a kernel. ``origin``
    says which pass made the instruction what it is (``""`` as written, ``"contract"``, ...).
    """

    form: Form
    args: dict[str, Arg]
    guard: Guard | None
    line: int
    loc: Location | None
    target: int | None = None
    label: str | None = None
    origin: str = ""
    pragma: str | None = None

    @property
    def opcode(self) -> str:
        return self.form.name

    def destinations(self) -> list[VReg]:
        """Registers this instruction writes."""
        return _registers(self.args, _operand_names(self.form)[0])

    def sources(self) -> list[VReg]:
        """Registers this instruction reads, its guard included."""
        out = _registers(self.args, _operand_names(self.form)[1])
        if self.guard is not None:
            out.append(self.guard.register)
        return out


_Names = tuple[tuple[str, ...], tuple[str, ...]]
_names_of: dict[int, tuple[_Names, Form]] = {}


def _operand_names(form: Form) -> _Names:
    """Names of a form's destinations and sources. (Lowering asks a dozen times an instruction.)"""
    try:
        return _names_of[id(form)][0]
    except KeyError:
        names = tuple(o.name for o in form.destinations), tuple(o.name for o in form.sources)
        _names_of[id(form)] = (names, form)  # kept alive, so no other form can have its identity
        return names


def _registers(args: dict[str, Arg], names: tuple[str, ...]) -> list[VReg]:
    out: list[VReg] = []
    for name in names:
        arg = args.get(name)
        if type(arg) is VReg:
            out.append(arg)
        elif arg is not None:
            out += registers_of(arg)
    return out


def registers_of(arg: Arg) -> list[VReg]:
    """The virtual registers inside an operand."""
    if isinstance(arg, VReg):
        return [arg]
    if isinstance(arg, tuple):
        return [r for item in arg for r in registers_of(item)]
    if isinstance(arg, MemoryArg) and isinstance(arg.base, VReg):
        return [arg.base]
    return []


@dataclass(slots=True)
class Parameter:
    """A kernel parameter: ``offset`` and ``size`` in bytes in the parameter block. ``type`` is the declared element type."""

    name: str
    offset: int
    size: int
    align: int
    type: str
    is_array: bool


@dataclass(slots=True)
class Routine:
    """A function that a kernel may call. One activation per thread is alive at a time unless it is recursive, so its registers
    are registers like the kernel's own.

    ``formals`` and ``results``: the registers that parameters arrive in and return values leave in (:mod:`.parameters`).
    ``by_address``: indirect calls may reach it. ``reach``: names of the functions it may lead to by calls; with its own name
    among them it is recursive: its local variables (``local_size`` bytes) are then on a stack, at the register ``frame``.
    ``calls``: whether it calls at all. ``link``: where it must return to, if it calls. ``allocates``: whether it uses the
    stack by itself; it then has a ``frame``, too.
    """

    name: str
    formals: list[VReg]
    results: list[VReg]
    by_address: bool
    reach: frozenset[str]
    local_size: int = 0
    calls: bool = False
    allocates: bool = False
    frame: VReg | None = None
    link: VReg | None = None

    @property
    def recursive(self) -> bool:
        return self.name in self.reach


@dataclass(slots=True)
class Kernel:
    """A kernel being lowered. Sizes in bytes. ``dynamic_shared_at`` is where ``.extern .shared`` arrays start.

    ``registers`` are all virtual registers; ``directives`` the performance directives (``maxntid`` ...) as integers.

    A kernel with calls holds the functions, too: instruction 0 (``function_list``) leads to the kernel's own first instruction
    and, as far as control flow is concerned, to every ``function_entry``, in the order of the text; no other edge joins them.
    ``functions`` describes them; ``function_table`` names those that indirect calls may reach by their number, "" for others
    (it is empty only if there are no calls).
    ``shared_registers``: those that belong to the machine's calling convention rather than to one function: ``"link"``,
    ``"stack"``, and those that carry what indirect calls pass. ``stack``: bytes of ``local_size`` that are the stack.
    ``vector_registers``: whether the text declares any. ``reserved_shared``: bytes at the start of ``shared_size`` that are the
    system's.
    """

    name: str
    parameters: list[Parameter] = field(default_factory=list)
    instructions: list[Instr] = field(default_factory=list)
    registers: list[VReg] = field(default_factory=list)
    shared_size: int = 0
    reserved_shared: int = 0
    shared_symbols: dict[str, int] = field(default_factory=dict)
    local_size: int = 0
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    line: int = 0
    param_size: int = 0
    functions: dict[str, Routine] = field(default_factory=dict)
    function_table: list[str] = field(default_factory=list)
    branch_tables: list[tuple[int, ...]] = field(default_factory=list)
    shared_registers: dict[str, VReg] = field(default_factory=dict)
    stack: int = 0
    vector_registers: bool = False

    def new_register(self, type_: ScalarType, name: str) -> VReg:
        register = VReg(len(self.registers), name, type_)
        self.registers.append(register)
        return register
