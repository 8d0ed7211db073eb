"""Are the registers of a matrix instruction in order? Where their elements come from says so.

One CTA runs on memory that holds, in place of numbers, the number of each 16-bit element; whatever moves bits (copies,
ldmatrix, shuffles, permutations) then brings those numbers to the operands of ``mma.sync``. Tiles of matrices in memory are
regular: A[i, k] is at r(i) + c(k), B[k, j] at r'(k) + c'(j), and c and r' go through k in proportion, since both walk the
same k. Operands that are not so, but would be with registers of A or B exchanged, have them exchanged; operands of which two
registers hold the same elements use one twice. Anything else (numbers computed on the way, gathers) says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tcsim.checking.confirm import Snapshot
from tcsim.checking.report import Access, Hazard

if TYPE_CHECKING:
    from tcsim.execute.cta import Geometry
    from tcsim.lanes.layouts import OperandLayout
    from tcsim.launch.launch import Launch
    from tcsim.memory import DeviceMemory
    from tcsim.step.recording import Recording

__all__ = ["check_fragments"]

STEPS = 4000
"""Steps of a warp that are looked at: a few turns of a loop over k."""

Ints = NDArray[np.int64]


def check_fragments(launch: Launch, geometry: Geometry, parameters: NDArray[np.uint8], before: Snapshot) -> list[Hazard]:
    """Look at the matrix instructions of warp 0 of CTA 0. before: memory at the start of the launch. Memory is left as it
    is."""
    from tcsim.step.recording import Recorder
    from tcsim.step.registers import Names

    memory = launch.device.memory
    after = Snapshot(memory)
    recordings: list[Recording] = []
    try:
        for shift in (0, 16):
            before.restore()
            _number_elements(memory, shift)
            recorder = Recorder(Names, most=STEPS)
            recorder.run(launch, geometry, parameters, 1, None)
            assert recorder.recording is not None
            recordings.append(recorder.recording)
    finally:
        after.restore()
    hazards = []
    for pc, at in _places(*recordings):
        hazard = _look(launch, geometry, recordings, pc, at)
        if hazard is not None:
            hazards.append(hazard)
    return hazards


def _number_elements(memory: DeviceMemory, shift: int) -> None:
    """Write 16 bits of its number, from 1 on and counted through all buffers, into every 16-bit element."""
    first = 1
    for start, end, _ in memory.table:
        allocation = memory.nearest(int(start))
        count = int(end - start) // 2
        if allocation is None or not count:
            continue
        numbers = np.arange(first, first + count, dtype=np.uint32)
        allocation.data[: 2 * count].view(np.uint16)[...] = (numbers >> np.uint32(shift)).astype(np.uint16)
        first += count


def _places(one: Recording, two: Recording) -> Iterator[tuple[int, int]]:
    """(instruction, step) of the first execution of each matrix instruction, as long as both recordings go the same way."""
    seen: set[int] = set()
    for at, (a, b) in enumerate(zip(one.steps, two.steps, strict=False)):
        if a.pc != b.pc:
            return
        if a.pc not in seen and one.program.opcodes[a.pc].startswith("mma.sync"):
            seen.add(a.pc)
            yield a.pc, at


def _look(launch: Launch, geometry: Geometry, recordings: list[Recording], pc: int, at: int) -> Hazard | None:
    from tcsim.step.fragments import operand_bits

    program = recordings[0].program
    low, high = (operand_bits(program, pc, recording.registers(at)) for recording in recordings)
    if not {"a", "b"} <= low.keys() or low["a"][0].bits != 16 or low["b"][0].bits != 16:
        return None
    a, b = ((low[n][0], _numbers(low[n][1], high[n][1])) for n in "ab")
    if not (a[1].all() and b[1].all()) or _regular(*a, *b):
        return None
    said = _twice("A", a[1]) or _twice("B", b[1]) or _exchanged(a, b)
    if said is None:
        return None
    loc = program.locs[pc]
    file, line = (program.files.get(loc.file, ""), loc.line) if loc is not None else ("", 0)
    access = Access("", program.opcodes[pc], pc, int(program.lines[pc]), file, line, geometry.cta_index(0), 0, tuple(range(32)))
    return Hazard(
        "FRAGMENT",
        said[0],
        (access,),
        "where its elements come from in memory, A and B do not go through k together (PTX ISA 9.7.14.5)",
        said[1],
        launch.loaded.program.name,
    )


def _numbers(low: NDArray[np.uint32], high: NDArray[np.uint32]) -> Ints:
    """Element numbers, int64 [register, lane, half], from both runs' registers; 0 where there is none."""
    mask = np.uint32(0xFFFF)
    halves = [(low >> np.uint32(s) & mask) | ((high >> np.uint32(s) & mask) << np.uint32(16)) for s in (0, 16)]
    return np.stack(halves, axis=2).astype(np.int64)


def _tile(one: OperandLayout, numbers: Ints) -> Ints:
    return numbers[one.register, one.lane, one.bit // 16]


def _regular(a: OperandLayout, a_numbers: Ints, b: OperandLayout, b_numbers: Ints) -> bool:
    """Whether both are tiles of matrices that go through k in proportion."""
    one, two = _tile(a, a_numbers), _tile(b, b_numbers)
    along_a, along_b = one[0] - one[0, 0], two[:, 0] - two[0, 0]
    if (one - one[:, :1] != along_a).any() or ((two - two[:1]) != along_b[:, None]).any():
        return False
    product = np.outer(along_a, along_b)
    return bool((product == product.T).all())


def _twice(operand: str, numbers: Ints) -> tuple[str, str] | None:
    name = operand.lower()
    for one in range(len(numbers)):
        for two in range(one + 1, len(numbers)):
            if (numbers[one] == numbers[two]).all():
                what = f"operand {operand}: registers {name}{one} and {name}{two} hold the same elements"
                return what, "the register that was meant for one of them"
    return None


def _exchanged(a: tuple[OperandLayout, Ints], b: tuple[OperandLayout, Ints]) -> tuple[str, str] | None:
    """The exchange of registers of one operand, with as few moved as possible, that makes both regular."""
    found: list[tuple[int, str, tuple[int, ...]]] = []
    for name, order in (
        *(("a", order) for order in permutations(range(len(a[1])))),
        *(("b", order) for order in permutations(range(len(b[1])))),
    ):
        chosen = list(order)
        parts = (a[0], a[1][chosen], *b) if name == "a" else (*a, b[0], b[1][chosen])
        if _regular(*parts):
            found.append((sum(i != j for i, j in enumerate(order)), name, order))
    if not found:
        return None
    _, name, order = min(found)
    registers = ", ".join(f"{name}{index}" for index in order)
    return f"operand {name.upper()}: registers exchanged", f"{{{registers}}}, by the numbers they have now"
