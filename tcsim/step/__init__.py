"""Step a warp through a kernel, forward and back: ``tcsim step``.

=========== =======================================================================
module      what it does
=========== =======================================================================
registers   names of registers, values in words
recording   runs one CTA an instruction at a time and keeps what a warp did
cursor      where one stands in a recording, breakpoints, watched registers
fragments   operands of matrix instructions as tiles
app         the viewer in the terminal (needs textual)
=========== =======================================================================
"""
