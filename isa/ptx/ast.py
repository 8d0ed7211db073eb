"""The PTX abstract syntax tree: what the text says, before any meaning is given to it.

The tree knows no opcodes. An instruction is its dotted opcode text, a guard and operands; whether ``mma.sync...``
exists is decided later, by the registry (:mod:`isa.spec`). Every node is frozen. Lines and columns are 1-based
positions in the PTX text; CUDA positions come from ``.loc`` and name an entry of :attr:`Module.files`.

Names are kept as written (``%r1``, ``p``, ``$L__BB0_2``, ``%tid.x``): PTX scopes registers, variables and labels to
their ``{}`` block, so what a name refers to is settled by :mod:`isa.lower`, which walks the blocks.

Source of the grammar: PTX ISA, chapters 4 (syntax), 5 (state spaces and types), 6 (operands), 11 (directives).
"""

from __future__ import annotations

from msgspec import Struct

# --------------------------------------------------------------------------------------------------------- operands


class Name(Struct, frozen=True, gc=False):
    """A register, variable, label, function or special register, as written. ``_`` (the sink) is ``Name("_")``."""

    name: str


class Immediate(Struct, frozen=True, gc=False):
    """A constant, expressions evaluated. ``kind`` is ``"int"`` (``value`` is the integer, in the range of ``.s64`` or
    ``.u64``, not yet cut to the instruction's type: ``-1`` is -1, ``~0`` is 2**64-1), ``"f32"`` (``0fXXXXXXXX``;
    ``value`` holds the 32 bits) or ``"f64"`` (``0dXXXXXXXXXXXXXXXX`` or a decimal such as ``1.5e-3``; ``value`` holds
    the 64 bits)."""

    value: int
    kind: str


class Not(Struct, frozen=True, gc=False):
    """``!p``: a negated predicate operand."""

    name: str


class Pair(Struct, frozen=True, gc=False):
    """``d|p``: two destinations. Either may be the sink ``_``; ``tex`` takes a vector as the first."""

    first: Name | Vector
    second: Name


class Vector(Struct, frozen=True, gc=False):
    """``{a, b, ...}``, also with a single element. Elements are names (or the sink ``_``) and constants."""

    elements: tuple[Name | Immediate, ...]


class Address(Struct, frozen=True, gc=False):
    """``[base]``, ``[base+offset]``, ``[base, {coordinates}]``, ``[base+offset, extra, ...]``.

    ``base`` is a :class:`Name` or an integer :class:`Immediate`; ``offset`` is in bytes and may be negative. ``extra``
    are the further operands inside the brackets (tensor coordinates), in order. ``unified`` marks ``[a].unified`` (PTX
    ISA 9.7.9.8).
    """

    base: Name | Immediate
    offset: int = 0
    extra: tuple[Name | Immediate | Vector, ...] = ()
    unified: bool = False


class Group(Struct, frozen=True, gc=False):
    """``(a, b, ...)``: the return values or the arguments of a ``call``."""

    elements: tuple[Name | Immediate, ...]


class Offset(Struct, frozen=True, gc=False):
    """``name+bytes`` outside brackets: ``mov.u64 %rd1, table+16;`` takes the address of a byte of ``table``."""

    name: str
    offset: int


class Element(Struct, frozen=True, gc=False):
    """``name[index+offset]``: an element of an array, the address counted in elements (PTX ISA 6.4.2).

    ``index`` is a register or None; ``offset`` is a constant number of elements. Hand-written code only.
    """

    name: str
    index: Name | None
    offset: int


class Signed(Struct, frozen=True, gc=False):
    """``-name`` or ``~name`` in a place where PTX takes it (``op`` is the sign); rare, never constant-folded."""

    op: str
    name: str


Operand = Name | Immediate | Not | Pair | Vector | Address | Group | Offset | Element | Signed

# ------------------------------------------------------------------------------------------------------- statements


class Guard(Struct, frozen=True, gc=False):
    """``@p`` or ``@!p``."""

    name: str
    negated: bool


class Location(Struct, frozen=True, gc=False):
    """A CUDA source position given by ``.loc``: ``file`` is an index into :attr:`Module.files`.

    ``function`` and ``inlined_at`` (label text and position) are kept when the directive gives them.
    """

    file: int
    line: int
    column: int
    function: str | None = None
    inlined_at: tuple[int, int, int] | None = None


class Instruction(Struct, frozen=True):
    """One instruction. ``opcode`` is the whole dotted text, e.g. ``"mad.lo.s32"``. ``line`` and ``column`` are those of
    its first character (the guard's ``@`` when there is a guard). ``loc`` is the latest ``.loc`` before it in its
    function, in text order, or None. ``pragma`` holds the text of a ``.pragma`` that immediately precedes it and
    belongs to it (``"used_bytes_mask 0xff"``), else None."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    line: int
    column: int
    loc: Location | None
    pragma: str | None = None


class Label(Struct, frozen=True):
    name: str
    line: int


class Registers(Struct, frozen=True):
    """``.reg .b32 %r<7>, %x;`` : ``names`` lists plain names, ``ranges`` the parameterised ones as (prefix, count).
    ``%r<7>`` declares ``%r0`` ... ``%r6``. ``type`` is without the dot; ``vector`` is 1, 2 or 4 (``.v2``/``.v4``)."""

    type: str
    names: tuple[str, ...]
    ranges: tuple[tuple[str, int], ...]
    line: int
    vector: int = 1


class Initializer(Struct, frozen=True, gc=False):
    """The bytes an initialised variable starts with, and what must be patched in when symbol addresses are known.

    ``text`` is the initialiser as written, parsed only when asked for (one real file holds 468 KB of them on one line):
    :func:`isa.ptx.initializers.evaluate` turns it into data.
    """

    text: str
    line: int
    column: int = 1


class Variable(Struct, frozen=True):
    """A variable or parameter declaration in any state space.

    ``space`` is ``"global" | "shared" | "local" | "const" | "param" | "tex"``, with ``shared::cta``/``shared::cluster``
    kept as written; ``type`` is the fundamental type without the dot; ``dims`` are the array extents, -1 for ``[]``
    (unsized); ``align`` in bytes or None when not given; ``linkage`` is ``"" | "visible" | "extern" | "weak" |
    "common"``; ``ptr`` holds the ``.ptr`` attributes of an entry parameter, (space or "", alignment or None), or None.
    """

    name: str
    space: str
    type: str
    dims: tuple[int, ...]
    align: int | None
    linkage: str
    line: int
    vector: int = 1
    init: Initializer | None = None
    ptr: tuple[str, int | None] | None = None
    attributes: tuple[str, ...] = ()
    count: int | None = None  # ``.param .b32 %p<3>`` style ranges: how many, named name0...


class Directive(Struct, frozen=True, gc=False):
    """Any other directive kept for later: performance directives (``maxntid``, ``reqntid``, ``minnctapersm``,
    ``maxnreg``, ``noreturn``, ...), ``pragma``, ``branchtargets``, ``calltargets``, ``callprototype``, ``alias``,
    ``attribute`` (of a function). ``name`` is without the dot, ``label`` the label it defines (``branchtargets``,
    ``calltargets`` and ``callprototype``), ``arguments`` the arguments as written (strings without their quotes). A
    ``callprototype`` has its parameters in ``returns`` and ``params``, as a :class:`Function` has, and its trailing
    directives (``.noreturn``) as ``arguments``."""

    name: str
    arguments: tuple[str, ...]
    line: int
    label: str | None = None
    returns: tuple[Variable, ...] = ()
    params: tuple[Variable, ...] = ()


class Block(Struct, frozen=True):
    """A ``{}`` scope."""

    statements: tuple[Statement, ...]
    line: int


Statement = Instruction | Label | Registers | Variable | Directive | Block

# ---------------------------------------------------------------------------------------------------------- top level


class Function(Struct, frozen=True):
    """``.entry`` or ``.func``. ``body`` is None for a declaration. ``returns`` and ``params`` are ``.param`` or
    ``.reg`` variables (``space == "reg"`` for the latter). ``directives`` stand between the signature and the body."""

    name: str
    kind: str  # "entry" | "func"
    linkage: str  # "" | "visible" | "extern" | "weak"
    params: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    directives: tuple[Directive, ...]
    body: Block | None
    line: int


class Module(Struct, frozen=True):
    """One PTX module. ``files`` maps a ``.file`` index to its path. ``sections`` holds the names of skipped debug
    sections."""

    version: tuple[int, int]
    target: str
    target_options: tuple[str, ...]
    address_size: int
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    directives: tuple[Directive, ...]
    files: dict[int, str]
    sections: tuple[str, ...]
    source: str
    path: str | None = None
