"""Machine code of a PTX module: assembled by ptxas, read, and lowered for the executor."""

from __future__ import annotations

from isa.errors import TcsimError, Unsupported, UnsupportedError
from isa.lower.callgraph import function_addresses
from isa.lower.ir import Parameter, SymbolRef
from isa.lower.scopes import layout, variable_align, variable_bytes
from isa.program import Program
from isa.ptx import ast
from isa.sass.assemble import Listing, assemble
from isa.sass.function_compares import compared_functions
from isa.sass.listing import MachineCode, read_listing
from isa.sass.lower import lower_machine
from isa.sass.placed import bind, place
from isa.sass.source import MachineSource, source_of

__all__ = ["ModuleCode", "locations_of"]


class ModuleCode:
    """The machine code of a module for an architecture (SM number). ``listing``: its text; ``code``: what was read from it."""

    def __init__(self, tree: ast.Module, listing: Listing, sm: int) -> None:
        """Read a listing. Raises ListingError."""
        self.tree, self.sm, self.listing = tree, sm, listing
        self.code: MachineCode = read_listing(listing.text)

    @classmethod
    def assembled(cls, tree: ast.Module, ptx: str, sm: int, *, fmad: bool = True) -> ModuleCode:
        """Assemble a module with the installed ptxas (or fetch it from disk). Raises AssemblerError, ListingError."""
        return cls(tree, assemble(ptx, f"sm_{sm}", fmad=fmad), sm)

    def program(self, kernel: str) -> Program:
        """The program of a kernel. Raises UnsupportedError with every instruction that cannot be executed."""
        function = next(f for f in self.tree.functions if f.name == kernel and f.kind == "entry" and f.body is not None)
        if kernel not in self.code.code:
            raise TcsimError(f"ptxas made no machine code of kernel {kernel}")
        if compared := compared_functions(self.tree, function):
            raise UnsupportedError(compared, f"machine code of kernel {kernel}")
        locs, files = locations_of(function), self.tree.files
        if not locs:  # a cubin has its CUDA lines in the listing
            locs, files = _listed_locations(self.code)
        program = lower_machine(
            self.code,
            kernel,
            sm=self.sm,
            parameters=_parameters(function, self.code.code[kernel].parameter_offsets),
            directives=_directives(function),
            locs=locs,
            files=files,
            functions=function_addresses(self.tree),
        )
        self._check_symbols(program)
        return program

    def source(self, kernel: str) -> MachineSource:
        """The text and the live registers of a kernel's instructions, of which :meth:`program` made a program."""
        placed, _ = place(self.code, self.code.code[kernel])
        bind(placed, kernel)
        return source_of(self.code, placed)

    def _check_symbols(self, program: Program) -> None:
        """Raise UnsupportedError for addresses of things that are no variables of the module, such as functions."""
        known = {variable.name for variable in self.tree.variables}
        symbols = [symbol.symbol for _, _, symbol in program.image.symbols] if program.image is not None else []
        symbols += [value.symbol for _, value, _ in program.constants if isinstance(value, SymbolRef)]
        missing = [Unsupported(name, "its address is not known", 0, program.name) for name in symbols if name not in known]
        if missing:
            raise UnsupportedError(missing, f"machine code of kernel {program.name}")


def _parameters(function: ast.Function, offsets: dict[int, int]) -> list[Parameter]:
    """The parameters of an entry with their offsets from the first byte of all; ``offsets``: those that ptxas chose."""
    out: list[Parameter] = []
    offset = 0
    for number, variable in enumerate(function.params):
        start, offset = layout(offset, variable)
        start = offsets.get(number, start)
        size, align = variable_bytes(variable), variable_align(variable)
        out.append(Parameter(variable.name, start, size, align, variable.type, bool(variable.dims)))
    return out


def _directives(function: ast.Function) -> dict[str, tuple[int, ...]]:
    found = {}
    for directive in function.directives:
        found[directive.name] = tuple(int(a, 0) for a in directive.arguments if a.strip().lstrip("-").isdigit())
    return found


def _listed_locations(code: MachineCode) -> tuple[dict[int, ast.Location], dict[int, str]]:
    """CUDA position by PTX line, and the files by number, as the listing of a cubin has them."""
    lines = {ptx: place for section in code.code.values() for ptx, place in section.cuda_lines.items()}
    numbers = {file: number for number, file in enumerate(dict.fromkeys(file for file, _ in lines.values()), 1)}
    locs = {ptx: ast.Location(numbers[file], line, 0) for ptx, (file, line) in lines.items()}
    return locs, {number: file for file, number in numbers.items()}


def locations_of(function: ast.Function) -> dict[int, ast.Location]:
    """CUDA position by PTX line."""
    found: dict[int, ast.Location] = {}
    blocks = [function.body] if function.body is not None else []
    while blocks:
        for statement in blocks.pop().statements:
            if isinstance(statement, ast.Block):
                blocks.append(statement)
            elif isinstance(statement, ast.Instruction) and statement.loc is not None:
                found[statement.line] = statement.loc
    return found
