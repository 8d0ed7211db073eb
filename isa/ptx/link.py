"""Link PTX modules: several texts become one, as nvlink joins object files (PTX ISA 11.6, linking directives).

Names with ``.visible`` or ``.weak`` are shared by all modules, names without a linking directive belong to their own. The
result is text again, each module behind the one before, so that whatever takes a module takes linked ones, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from isa.errors import TcsimError

from .ast import Function, Module, Variable
from .parser import parse

__all__ = ["LinkError", "link"]

Symbol = Function | Variable


class LinkError(TcsimError):
    """Modules that do not go together; the message names the symbol and the modules."""


_HEADER = re.compile(r"\.version\s+\S+|\.target\s+\w+(?:\s*,\s*\w+)*|\.address_size\s+\d+")
_FILE_NUMBERS = re.compile(r"(\.file\s+|\.loc\s+|\binlined_at\s+)(\d+)")
_FUNCTION = re.compile(r"\.func\b")
_LINKAGE = re.compile(r"\.(?:extern|visible|weak)\s+\Z")
_TARGET = re.compile(r"sm_(\d+)(\w?)")


def link(texts: Sequence[str], names: Sequence[str] | None = None) -> str:
    """One module's text that holds all of ``texts``. ``names`` (such as file names) are for messages.

    Of several weak definitions the first is taken, of several ``.common`` ones the largest, and any other one before those.
    Raises LinkError for two strong definitions of a name or different address sizes, PtxSyntaxError for text that is no PTX.
    """
    names = names or [f"module {number}" for number in range(1, len(texts) + 1)]
    modules = [parse(text, path=name) for text, name in zip(texts, names, strict=True)]
    if len({module.address_size for module in modules}) > 1:
        sizes = ", ".join(f"{name}: {module.address_size}" for name, module in zip(names, modules, strict=True))
        raise LinkError(f"modules with different address sizes cannot be linked ({sizes}; PTX ISA 11.1.3)")
    renames = _conflicts(modules, names)
    shared = _shared_functions(modules, renames)
    pieces = [_header(modules)]
    pieces += [f"{_declaration(texts[number], function)};" for number, function in shared.values()]
    moved = _moved_variables(modules, texts, renames)
    offset = 0
    for number, module in enumerate(modules):
        text = texts[number].rstrip("\0")
        for variable, content in reversed(moved[number]):  # from the last on, so that the lines of the others stay
            text = _replaced(text, variable, content)
        for function in module.functions:
            if function.body is None and function.name in shared:
                text = _without(text, function)
        text = _HEADER.sub("", text, count=3)
        for symbol in renames[number]:
            text = _rename_definition(text, symbol, number)
        for name in _own_names(modules, number):
            text = _word(name).sub(f"{name}$of{number}", text)
        pieces += [f"// {names[number]}", _renumbered(text, offset)]
        offset += 1 + max(module.files, default=0)
    return "\n".join(pieces)


def _renumbered(text: str, offset: int) -> str:
    """The text with other numbers for its source files."""
    return _FILE_NUMBERS.sub(lambda match: f"{match[1]}{int(match[2]) + offset}", text) if offset else text


def _header(modules: Sequence[Module]) -> str:
    """The newest version, the highest target and every option."""
    version = max(module.version for module in modules)
    target = max((module.target for module in modules), key=_rank)
    options = dict.fromkeys(option for module in modules for option in module.target_options)
    lines = [f".version {version[0]}.{version[1]}", f".target {', '.join((target, *options))}"]
    return "\n".join([*lines, f".address_size {modules[0].address_size}"])


def _rank(target: str) -> tuple[int, str]:
    match = _TARGET.fullmatch(target)
    return (int(match[1]), match[2]) if match else (0, target)


def _symbols(module: Module) -> list[Symbol]:
    """What a module defines at its top level."""
    functions: list[Symbol] = [f for f in module.functions if f.body is not None]
    return functions + [v for v in module.variables if v.linkage != "extern"]


def _conflicts(modules: Sequence[Module], names: Sequence[str]) -> list[list[Symbol]]:
    """For each module, the definitions that give way to one of another module."""
    shared: dict[str, list[tuple[int, Symbol]]] = {}
    for number, module in enumerate(modules):
        for symbol in _symbols(module):
            if symbol.linkage:
                shared.setdefault(symbol.name, []).append((number, symbol))
    losers: list[list[Symbol]] = [[] for _ in modules]
    for name, found in shared.items():
        strong = [item for item in found if item[1].linkage == "visible"]
        if len(strong) > 1:
            where = " and ".join(f"{names[number]}:{symbol.line}" for number, symbol in strong)
            raise LinkError(f"{name} is defined more than once: {where} (PTX ISA 11.6; only .weak and .common may be)")
        winner = (strong or sorted(found, key=lambda item: (item[1].linkage == "common", -_extent(item[1]))))[0]
        for number, symbol in found:
            if symbol is not winner[1]:
                losers[number].append(symbol)
    return losers


def _shared_functions(modules: Sequence[Module], losers: list[list[Symbol]]) -> dict[str, tuple[int, Function]]:
    """The functions that modules share: which module defines each, and its definition."""
    found: dict[str, tuple[int, Function]] = {}
    for number, module in enumerate(modules):
        lost = {id(symbol) for symbol in losers[number]}
        for function in module.functions:
            if function.kind == "func" and function.linkage and function.body is not None and id(function) not in lost:
                found[function.name] = (number, function)
    return found


def _span(text: str, function: Function) -> tuple[int, int]:
    """Where a function's header stands in a text: from its linking directive up to its ``{`` or ``;``."""
    match = _FUNCTION.search(text, _line_start(text, function.line))
    assert match is not None  # the parser read it there
    start = match.start()
    before = _LINKAGE.search(text, max(0, start - 40), start)
    end = next(at for at in range(match.end(), len(text)) if text[at] in "{;")
    return (before.start() if before is not None else start), end


def _declaration(text: str, function: Function) -> str:
    """A function's header, to announce it before any module calls it: ptxas wants that of a function that comes later."""
    start, end = _span(text, function)
    return text[start:end].rstrip()


def _without(text: str, function: Function) -> str:
    """The text without a declaration; lines keep their numbers."""
    start, end = _span(text, function)
    return text[:start] + "\n" * text.count("\n", start, end) + text[end + 1 :]


def _moved_variables(
    modules: Sequence[Module], texts: Sequence[str], losers: list[list[Symbol]]
) -> list[list[tuple[Variable, str]]]:
    """For each module, the variables whose text changes, in the order of the text, and into what.

    A definition moves to where the variable is first declared ``.extern``; the other declarations go. (ptxas takes the first
    mention of a name for the variable itself.)
    """
    moved: list[list[tuple[Variable, str]]] = [[] for _ in modules]
    for home, module in enumerate(modules):
        lost = {id(symbol) for symbol in losers[home]}
        for definition in module.variables:
            if not definition.linkage or definition.linkage == "extern" or id(definition) in lost:
                continue
            declared = [
                (number, variable)
                for number, other in enumerate(modules)
                for variable in other.variables
                if variable.name == definition.name and variable.linkage == "extern"
            ]
            if not declared:
                continue
            content = _content(texts[home], definition)
            first = declared[0][0] < home
            for place, (number, variable) in enumerate(declared):
                moved[number].append((variable, content if first and place == 0 else ""))
            if first:
                moved[home].append((definition, ""))
    for changes in moved:
        changes.sort(key=lambda change: change[0].line)
    return moved


def _variable_span(text: str, variable: Variable) -> tuple[int, int]:
    """Where a variable's declaration stands in a text, its ``;`` included."""
    match = _word(variable.name).search(text, _line_start(text, variable.line))
    assert match is not None  # the parser read it there
    return text.rindex(f".{variable.linkage}", 0, match.start()), text.index(";", match.end()) + 1


def _content(text: str, variable: Variable) -> str:
    start, end = _variable_span(text, variable)
    return text[start:end].replace("\n", " ")


def _replaced(text: str, variable: Variable, content: str) -> str:
    """The text with another declaration of a variable; lines keep their numbers."""
    start, end = _variable_span(text, variable)
    return text[:start] + content + "\n" * text.count("\n", start, end) + text[end:]


def _extent(symbol: Symbol) -> int:
    """The elements of a ``.common`` array; nothing else is compared by size."""
    size = 1
    if isinstance(symbol, Variable) and symbol.linkage == "common":
        for extent in symbol.dims:
            size *= extent
    return size


def _own_names(modules: Sequence[Module], number: int) -> list[str]:
    """Names of a module's own that another module uses, too. (Those of the first module may stay as they are.)"""
    if number == 0:
        return []
    own = {symbol.name for symbol in _symbols(modules[number]) if not symbol.linkage}
    others: set[str] = set()
    for other, module in enumerate(modules):
        if other != number:
            declared: list[Symbol] = [*module.functions, *module.variables]
            others |= {symbol.name for symbol in declared if symbol.linkage or other < number}
    return sorted(own & others)


def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w$%]){re.escape(name)}(?![\w$])")


def _line_start(text: str, line: int) -> int:
    """The offset of a line, counted from 1."""
    start = 0
    for _ in range(line - 1):
        start = text.index("\n", start) + 1
    return start


def _rename_definition(text: str, symbol: Symbol, number: int) -> str:
    """Give a definition another name; what refers to the old one then means another module's."""
    match = _word(symbol.name).search(text, _line_start(text, symbol.line))
    assert match is not None  # the parser read it there
    return f"{text[: match.start()]}{symbol.name}$of{number}{text[match.end() :]}"
