"""Hardware vectors of the tensor-core instructions, and of a few others whose results the PTX ISA leaves open.

==============  =====================================================================================================
module          what it does
==============  =====================================================================================================
draw            random integers that follow from a name and a seed, under every NumPy version
float_inputs    adversarial operands of the floating-point forms, by class
inputs          operands of every form, as the registers of a warp
kernels         one PTX kernel for each form
probes          PTX kernels for atomics, matrix moves, shuffles, votes and barriers
record          runs all of these on a GPU and writes what came out
replay          the same operands through :mod:`isa.tensor`
fuzz            new operands on a GPU and through :mod:`isa.tensor`, side by side
==============  =====================================================================================================
"""
