"""Addresses in the code of a program: 16 times an instruction's number, the functions of the host behind the last one.

Functions whose address memory holds have that address, which PTX gives them, wherever code names it, too. How ptxas has them
called depends on the module: by the place of the function in the one kernel there is, through a table in bank 2 that every
kernel has, or (``-G``) by its address. A jump takes the given addresses in the place of all these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from isa.instructions.control import HOST_FUNCTIONS
from isa.program import FUNCTION_ADDRESSES, FUNCTION_SPACING
from isa.sass.bank import BankLayout
from isa.sass.host import STUB, host_functions
from isa.sass.listing import ListingError, MachineCode
from isa.sass.operands import Constant
from isa.sass.placed import Placed, owners_of

__all__ = ["CodeAddresses", "fill_in_code_addresses"]


class CodeAddresses:
    """Numbers of a program's instructions by label and function.

    machine: all the code. placed: the program's instructions. starts: number of the first of each section by its name. given:
    the addresses that PTX gives device functions, which memory holds. host: the functions of the host that the program calls.
    """

    def __init__(
        self, machine: MachineCode, placed: list[Placed], starts: dict[str, int], given: Mapping[str, int] | None = None
    ) -> None:
        self.placed, self.starts, self.given = placed, starts, given or {}
        self.owners = owners_of(machine)
        self.host = host_functions(placed, machine.data.get(".nv.constant4"))

    def at_label(self, item: Placed, name: str) -> int:
        """Number of the instruction at a label. Raises ListingError for an unknown one."""
        if name in self.host:
            return len(self.placed) + STUB * self.host.index(name)
        section = item.section if name in item.section.labels else self.owners.get(name)
        if section is None:
            raise ListingError(f"{item.section.name}: {item.instruction.text}: unknown label {name}")
        return self.starts[section.name] + section.labels[name] // 16

    def of_function(self, name: str) -> int | None:
        """Number of the first instruction of a function; None if it is none of this program."""
        if name in self.host:
            return len(self.placed) + STUB * self.host.index(name)
        kernel = self.placed[0].section
        if (copy := f"${kernel.name}${name}") in kernel.labels:  # a function that is part of each kernel that calls it
            return self.starts[kernel.name] + kernel.labels[copy] // 16
        section = self.owners.get(name)
        return self.starts[section.name] + section.labels[name] // 16 if section and section.name in self.starts else None

    def value(self, item: Placed, name: str) -> int:
        """The address of a function or label that the code takes: what memory holds, too, if it is that of a function."""
        return self.given[name] if name in self.given else 16 * self.at_label(item, name)

    def table(self) -> list[int]:
        """The length of a table and the first instruction of each function by the number that its given address stands for;
        -1 for those that are not here. Empty without functions."""
        if not self.given:
            return []
        numbers = {(at - FUNCTION_ADDRESSES) // FUNCTION_SPACING: self.of_function(name) for name, at in self.given.items()}
        places = [numbers.get(number) for number in range(max(numbers) + 1)]
        return [len(places), *(-1 if place is None else place for place in places)]


def fill_in_code_addresses(banks: BankLayout, addresses: CodeAddresses) -> None:
    """Addresses of functions in the banks are those of their instructions here. What banks hold that the kernel does not
    read is left alone."""
    image = banks.image
    content, symbols = bytearray(image.content), []
    read = {operand.bank for item in addresses.placed for operand in item.instruction.operands if isinstance(operand, Constant)}
    for at, width, symbol in image.symbols:
        if banks.bank_of(at) not in read:
            continue
        number = addresses.of_function(symbol.symbol)
        if number is None and symbol.symbol not in HOST_FUNCTIONS:  # those that nobody calls stay 0
            symbols.append((at, width, symbol))
        elif number is not None:
            address = addresses.given.get(symbol.symbol, 16 * number)
            content[at : at + width] = (address & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    banks.image = replace(image, content=bytes(content), symbols=symbols)
