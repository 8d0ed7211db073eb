"""What arithmetic instructions compute, lane by lane and bit by bit, free of PTX and of any machine.

- ``lane``: how lane functions are written, and their decorator
- ``primitives``: what numba lacks: reinterpretation, fused multiply-add, f16, bit counts, select
- ``rounding``: exact values as a float64 rounded to odd; float64 to float32 in every mode
- ``float32``, ``float64``: add, multiply, multiply-add, divide, square root in every mode; modifiers
- ``float16``, ``bfloat16``: the same for halves and packed pairs, to nearest
- ``compare``: comparisons, classes, minima and maxima
- ``convert``, ``float8``: conversions
- ``integer``, ``packed_integer``: integers, pairs of them, dot products
- ``bitfield``: shifts, bit fields, counts, byte permutation, logic
- ``mufu``, ``approx``: the special-function unit, and the approximate instructions around it
- ``packed``, ``stack``: pairs in a register; scratch arrays

All of it was compared with an H200 (driver 580.159.04): 1102 scalar PTX forms on 3072 operand rows each, and the
approximate instructions of one operand on all 2^32 words. The recorders are in ``gpu_ref.mufu``.
"""
