"""Where the parameters and variables of a kernel lie in the memories that it names."""

from __future__ import annotations

from isa.errors import PtxError
from isa.lower.callgraph import call_graph, walk
from isa.lower.functions import range_names
from isa.lower.ir import SHARED_SYMBOL, Arg, Const, Kernel, MemoryArg, Parameter, Routine, SymbolRef
from isa.lower.matching import names_in
from isa.lower.parameters import Writer, parameter_cells
from isa.lower.scopes import Scope, Symbol, element_bytes, layout, variable_align, variable_bytes
from isa.ptx import ast
from isa.reserved import RESERVED_SHARED
from isa.types import scalar_type

__all__ = ["Placement"]


_CLUSTER = ("mapa", "getctarank", "barrier.cluster")
"""What a kernel uses to reach the shared memory of other CTAs."""


class Placement:
    """Where the parameters and variables of a kernel lie."""

    def __init__(self, module: ast.Module, function: ast.Function) -> None:
        self.module, self.function = module, function
        self.kernel = Kernel(function.name, line=function.line)
        self.module_scope = Scope(self.kernel)
        self.reaches_cluster = False  # whether it addresses the shared memory of other CTAs of its cluster
        self.own_shared: dict[int, int] = {}  # offsets of the shared variables declared in the body, by id of their node
        self.graph = call_graph(module, function)
        self.routine: Routine | None = None  # the function being bound, None in the kernel's own body

    def _lay_out_parameters(self, scope: Scope) -> None:
        offset = 0
        for variable in self.function.params:
            start, offset = layout(offset, variable)
            scope.names[variable.name] = Symbol(variable.name, "param", start, element_bytes(variable))
            self.kernel.parameters.append(
                Parameter(
                    variable.name,
                    start,
                    variable_bytes(variable),
                    variable_align(variable),
                    variable.type,
                    bool(variable.dims),
                )
            )
        self.kernel.param_size = offset

    def _lay_out_shared(self) -> None:
        """Static shared variables: those of the module that the kernel names, then its own; dynamic ones behind them all. What
        the system reserves stands before them, as on sm_90, if the kernel asks where it is (PTX ISA 10.30)."""
        bodies = [f.body for f in (self.function, *self.graph.functions) if f.body is not None]
        statements = [statement for body in bodies for statement in walk(body)]
        instructions = [s for s in statements if isinstance(s, ast.Instruction)]
        distinct = {id(operand): operand for s in instructions for operand in s.operands}  # the parser shares equal ones
        used = set(names_in(tuple(distinct.values())))
        self.reaches_cluster = any(s.opcode.startswith(_CLUSTER) for s in instructions) or any(
            name.startswith("%cluster") for name in used
        )
        if any(name.startswith("%reserved_smem_offset") for name in used):
            self.kernel.reserved_shared = self.kernel.shared_size = RESERVED_SHARED
        dynamic: list[ast.Variable] = []
        for variable in (v for v in self.module.variables if v.space == "shared" and v.name in used):
            if (variable.dims and variable.dims[0] < 0) or variable.linkage == "extern":
                dynamic.append(variable)
            else:
                start, self.kernel.shared_size = layout(self.kernel.shared_size, variable)
                self._shared_symbol(variable, start, self.module_scope)
        for statement in statements:
            if isinstance(statement, ast.Variable) and statement.space == "shared":
                self.own_shared[id(statement)], self.kernel.shared_size = layout(self.kernel.shared_size, statement)
        for variable in dynamic:  # all of them begin at one address
            align = max(variable_align(variable), 16)
            self.kernel.shared_size = -(-self.kernel.shared_size // align) * align
        for variable in dynamic:
            self._shared_symbol(variable, self.kernel.shared_size, self.module_scope)

    def _shared_symbol(self, variable: ast.Variable, offset: int, scope: Scope) -> None:
        scope.names[variable.name] = Symbol(variable.name, "shared", offset, element_bytes(variable))
        self.kernel.shared_symbols[variable.name] = offset

    def _declare(self, variable: ast.Variable, scope: Scope) -> None:
        if variable.space == "local":
            scope.names[variable.name] = self.local(
                variable.name, variable_align(variable), variable_bytes(variable), element_bytes(variable)
            )
        elif variable.space == "param":
            for name in range_names(variable):
                scope.names[name] = parameter_cells(variable, self.kernel)
        elif variable.space == "shared":
            self._shared_symbol(variable, self.own_shared[id(variable)], scope)
        elif variable.space in ("global", "const"):
            scope.names[variable.name] = variable
        else:
            raise PtxError(f".{variable.space} variable {variable.name} inside a kernel is not supported", variable.line)

    def local(self, name: str, align: int, size: int, element: int = 0) -> Symbol:
        """A place in local memory: at a fixed offset, or in the frame of a recursive function."""
        routine = self.routine
        if routine is not None and routine.recursive:
            start = -(-routine.local_size // align) * align
            routine.local_size = start + size
            return Symbol(name, "frame", start, element)
        start = -(-self.kernel.local_size // align) * align
        self.kernel.local_size = start + size
        return Symbol(name, "local", start, element)

    def place(self, symbol: Symbol, offset: int) -> MemoryArg:
        """``[symbol + offset]``."""
        if symbol.space == "frame":
            assert self.routine is not None and self.routine.frame is not None
            return MemoryArg(self.routine.frame, symbol.offset + offset)
        return MemoryArg(self._base(symbol, 0), offset)

    def _base(self, symbol: Symbol, offset: int) -> Const | SymbolRef:
        """``symbol + offset``, not of space ``frame``."""
        if symbol.space == "shared" and self.reaches_cluster:
            return SymbolRef(SHARED_SYMBOL, symbol.offset + offset)
        return Const(symbol.offset + offset)

    def _address_of(self, symbol: Symbol, offset: int, node: ast.Instruction) -> Arg:
        """``symbol + offset`` as a value."""
        if symbol.space != "frame":
            return self._base(symbol, offset)
        address = self.kernel.new_register(scalar_type("b64"), symbol.name)
        writer = Writer(self.kernel, self.kernel.instructions, None, node.line, node.loc, "call")
        assert self.routine is not None and self.routine.frame is not None
        writer.emit("add.u64", d=address, a=self.routine.frame, b=Const(symbol.offset + offset))
        return address
