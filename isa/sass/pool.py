"""The operand pool: which place of the register block each operand of an instruction is read from or written to, and what is
done to its value as it is read."""

from __future__ import annotations

from collections.abc import Container

from isa.kernels.planes import PLANE_BYTES
from isa.lower.ir import SymbolRef
from isa.sass.code_addresses import CodeAddresses
from isa.sass.kernels import EVERYWHERE
from isa.sass.listing import ListingError, MachineInstruction
from isa.sass.operands import CodeAddress, Constant, Immediate, Label, Memory, Operand, Register, Special
from isa.sass.placed import Placed
from isa.sass.planes import RESULT_WORD, SINK_WORD, Planes
from isa.sass.specials import SPECIALS
from isa.spec.registry import ResolvedOperand

__all__ = ["Operands"]


class Operands:
    """Writes operands to a pool.

    name: the kernel's, for messages. planes: where values are. addresses: of its code. variables: names of the module's
    variables. ``functions_at``: byte offset in the pool of the table of functions that calls by address find them in; -1 for
    none.
    """

    def __init__(self, name: str, planes: Planes, addresses: CodeAddresses, variables: Container[str]) -> None:
        self.name, self.planes, self.addresses, self.variables = name, planes, addresses, variables
        self.pool: list[int] = addresses.table()
        self.functions_at = 0 if self.pool else -1

    def value(self, item: Placed, spec: ResolvedOperand, operand: Operand | None, step: int) -> int:
        """Byte offset of the place that holds one register's worth of an operand."""
        planes = max(1, spec.type.planes)
        if operand is None:
            if spec.is_destination:
                return 4 * SINK_WORD if spec.type.kind == "p" else self.planes.sink_plane * PLANE_BYTES
            if item.instruction.base == "LDGSTS":  # without a predicate everything is copied
                return self.planes.constant(0xFFFF_FFFF, 1)
            if spec.name == "old":
                return self.value(item, spec, item.operands["p"], step)
            if item.instruction.base == "LEPC":
                return self.planes.constant(16 * item.number, planes)
            hidden = {"counted": self.planes.result_plane * PLANE_BYTES, "holds": 4 * RESULT_WORD}
            return hidden.get(spec.name, self.planes.constant(0, planes))
        if isinstance(operand, Register):
            if operand.parts == ("SIGN",):
                return self.planes.register(operand, 0, 1, False)
            if operand.is_predicate and operand.index < 0 and operand.negated and not spec.is_destination:
                return self.planes.constant(0, 1)
            return self.planes.register(operand, step * planes, planes, spec.is_destination)
        if isinstance(operand, Immediate):
            return self.planes.constant(_immediate_bits(item.instruction, operand, spec), planes)
        if isinstance(operand, Constant):
            return self.planes.bank(self.bank_place(item, operand), planes)
        if isinstance(operand, CodeAddress) and operand.symbol in self.variables:
            at = self.planes.new(1)
            self.planes.constants.append((at, SymbolRef(operand.symbol, 0), int(operand.half == "hi")))
            return at
        if isinstance(operand, CodeAddress):
            address = self.addresses.value(item, operand.symbol)
            return self.planes.constant(address >> 32 if operand.half == "hi" else address & 0xFFFF_FFFF, planes)
        if isinstance(operand, Special):
            kind, value = SPECIALS[operand.name]
            return self.planes.special(str(value)) if kind == "special" else self.planes.constant(int(value), planes)
        if isinstance(operand, Label):
            return self.planes.constant(16 * self.addresses.at_label(item, operand.name), planes)
        raise ListingError(f"{item.section.name}: {item.instruction.text}: {operand} is not a value")

    def bank_place(self, item: Placed, constant: Constant) -> int:
        """Byte offset in the constant banks. Raises ListingError for a bank that the kernel does not have."""
        try:
            return self.planes.banks.place(constant.bank, constant.offset)
        except KeyError:
            text = item.instruction.text
            raise ListingError(f"{self.name}: {text}: the kernel has no constant bank {constant.bank}") from None

    def address(self, item: Placed, operand: Operand | None) -> tuple[tuple[str, ...], int]:
        """Append an address to the operand pool: base plane, offset, and a uniform register's plane if it is added. Returns
        how it is read, and the planes of its base."""
        if isinstance(operand, Constant):
            at = self.bank_place(item, operand)
            register = operand.register
            base = self.planes.constant(0, 1) if register is None else self.planes.register(register, 0, 1, False)
            self.pool += [base, at]
            return (), 1
        assert isinstance(operand, Memory)
        assert item.form is not None
        # Atomics on generic addresses leave ``.64`` out of the text; the shared address of a copy is one register.
        wide = operand.wide or (item.instruction.base != "LDGSTS" and ".E" in item.instruction.opcode)
        base_register, uniform = operand.register, operand.uniform
        reading: tuple[str, ...] = (f"scale{operand.scale}",) if operand.scale != 1 else ()
        if uniform is not None and (base_register is None or base_register.index < 0):  # [UR4], [RZ.U32+UR4]
            base_register, uniform = uniform, None
        if uniform is not None and uniform.index < 0:
            uniform = None
        planes = 2 if wide and item.form.instruction.state not in ("shared", "local") and base_register is not None else 1
        if base_register is None:
            base = self.planes.constant(0, planes)
        else:
            base = self.planes.register(base_register, 0, planes, False)
        self.pool += [base, operand.offset]
        if uniform is not None:
            if planes == 2:
                raise ListingError(f"{self.name}: {item.instruction.text}: a 64-bit address with a uniform register")
            self.pool.append(self.planes.register(uniform, 0, 1, False))
            reading += ("uniform",)
        return reading, planes

    def row(self, item: Placed) -> tuple[list[tuple[str, ...]], list[int]]:
        """Append an instruction's operands to the pool; returns how each is read and its planes."""
        assert item.form is not None
        readings: list[tuple[str, ...]] = []
        planes: list[int] = []
        for spec in item.form.operands:
            operand = item.operands[spec.name]
            if spec.is_address:
                reading, width = self.address(item, operand)
            else:
                reading, width = _reading(operand, spec), spec.type.planes
                if item.instruction.base == "R2UR" and item.instruction.guard is not None and spec.name == "d":
                    reading = (EVERYWHERE,)
                if "XORSIGN" in item.instruction.opcode:  # takes the magnitudes itself, and the signs too
                    reading = tuple(step for step in reading if step != "abs")
                for step in range(spec.count):
                    self.pool.append(self.value(item, spec, operand, step))
            readings.append(reading)
            planes.append(width)
        return readings, planes


def _reading(operand: Operand | None, spec: ResolvedOperand) -> tuple[str, ...]:
    """What is done to an operand's value as it is read, in order: a part is taken, then the magnitude, then the sign."""
    if not isinstance(operand, Register | Constant) or spec.is_destination:
        return ()
    steps = list(operand.parts)
    if isinstance(operand, Register) and operand.is_predicate:
        return ("not",) if operand.negated and operand.index >= 0 else ()
    if operand.absolute:
        steps.append("abs")
    if operand.negated:
        steps.append("neg")
    if operand.inverted:
        steps.append("inv")
    return tuple(steps)


def _immediate_bits(instruction: MachineInstruction, operand: Immediate, spec: ResolvedOperand) -> int:
    """The bits of an immediate as an operand of a type. Floats are taken from the encoding, where they are exact: 32 bits, of
    float64 the upper ones."""
    if operand.value is None or spec.type.kind in ("f", "x"):
        return instruction.immediate << 32 if spec.type.bits == 64 else instruction.immediate
    bits = max(32, spec.type.bits)
    return operand.value & ((1 << bits) - 1)
