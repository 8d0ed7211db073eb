"""Addresses in the code of a program: 16 times an instruction's number, the functions of the host behind the last one."""

from __future__ import annotations

from dataclasses import replace

from isa.instructions.control import HOST_FUNCTIONS
from isa.sass.bank import BankLayout
from isa.sass.host import STUB, host_functions
from isa.sass.listing import ListingError, MachineCode
from isa.sass.operands import Constant
from isa.sass.placed import Placed, owners_of

__all__ = ["CodeAddresses", "fill_in_code_addresses"]


class CodeAddresses:
    """Numbers of a program's instructions by label and function.

    machine: all the code. placed: the program's instructions. starts: number of the first of each section by its name. host:
    the functions of the host that the program calls.
    """

    def __init__(self, machine: MachineCode, placed: list[Placed], starts: dict[str, int]) -> None:
        self.placed, self.starts = placed, starts
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
        section = self.owners.get(name)
        return self.starts[section.name] + section.labels[name] // 16 if section and section.name in self.starts else None


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
            content[at : at + width] = (16 * number).to_bytes(width, "little")
    banks.image = replace(image, content=bytes(content), symbols=symbols)
