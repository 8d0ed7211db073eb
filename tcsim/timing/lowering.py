"""What ptxas makes of each PTX instruction, as far as first order matters: nothing, or instructions of which class.

PTX is not machine code. Copies of registers and constants, address conversions, loads of parameters and narrowing
conversions cost nothing (the machine renames registers and reads constants directly); :mod:`tcsim.timing.folding` finds
those that are folded into another instruction. What becomes several machine instructions is priced by its timing class
in the chip's tables. How often which PTX instruction survives was counted in 235 files compiled by ptxas 13.0.
"""

from __future__ import annotations

from isa.program import GUARD, OPERANDS, Program
from tcsim.timing.folding import folded

__all__ = ["Lowering"]

# Special registers that ptxas reads from the constant bank instead of a special register.
_CONSTANT_SPECIALS = ("ntid", "nctaid")

# Integer conversions (from, to) that keep the register they read, or put zeros beside it.
_RENAMING_CONVERSIONS = {
    (wide, narrow) for wide in ("u64", "s64") for narrow in ("u32", "s32", "u16", "s16", "u8", "s8")
} | {
    ("u32", "u64"),
    ("u32", "s64"),
    ("u16", "u32"),
    ("u16", "s32"),
    ("u32", "u16"),
    ("s32", "s16"),
    ("u32", "s32"),
    ("s32", "u32"),
}

_HALVES = ("f16", "bf16", "f16x2", "bf16x2")


class Lowering:
    """What becomes of the instructions of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._specials = {offset: name for name, offset in program.specials.items()}
        self._folded, self._taken = folded(program)

    def is_free(self, pc: int) -> bool:
        """Whether an instruction needs no issue slot."""
        program, opcode, timing = self.program, self.program.opcodes[pc], self.program.timing[pc]
        if pc in self._folded or timing == "nothing":
            return True
        if program.code[pc, GUARD] >= 0:
            return False
        if timing == "load.param":
            return True
        words = opcode.split(".")
        if words[0] == "cvt":
            return len(words) == 3 and (words[2], words[1]) in _RENAMING_CONVERSIONS
        if timing == "mov":
            if words[0] == "cvta":
                return True
            name = self._special_of(pc)
            if name:
                return name.startswith(_CONSTANT_SPECIALS)
            registers = 2 if words[-1].endswith("64") else 1
            # Whole registers are renamed; what packs or unpacks parts of one is a PRMT.
            return len(program.reads[pc]) <= registers and len(program.writes[pc]) <= registers
        return False

    def reads_constants(self, pc: int) -> bool:
        """Whether a free instruction reads the constant bank: a parameter, or an extent of the launch."""
        return self.program.timing[pc] == "load.param" or bool(self._special_of(pc))

    def _special_of(self, pc: int) -> str:
        """The special register that a ``mov`` reads, or ""."""
        if self.program.timing[pc] != "mov" or self.program.reads[pc]:
            return ""
        row = int(self.program.code[pc, OPERANDS]) // 4
        return self._specials.get(int(self.program.pool[row + 1]), "")

    def timing_class(self, pc: int) -> str:
        """The timing class that prices an instruction."""
        timing = self.program.timing[pc]
        if self._special_of(pc) and not self.is_free(pc):
            return "special_register"
        if timing == "convert":
            return _conversion(self.program.opcodes[pc])
        if pc in self._taken and timing == "alu.64":
            return "imad.wide"  # the sum of a product or shift: IMAD.WIDE, or LEA with its high half
        return timing


def _conversion(opcode: str) -> str:
    """The class of a ``cvt`` by what it becomes: F2FP packs halves, HADD2.F32 unpacks one, I2FP makes a float of an
    integer.
    """
    result, operand = opcode.split(".")[-2:]
    if result in _HALVES and operand == "f32":
        return "convert.pack"
    if result == "f32" and operand in _HALVES:
        return "convert.unpack"
    if result == "f32" and operand[0] in "su":
        return "convert.i2f"
    return "convert"
