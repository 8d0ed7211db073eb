"""The compiled engine: the same machine as the SimPy one, as one loop over arrays.

It keeps no events: every SM knows the next cycle in which something may happen on it, and the loop goes from one to the next in
the order of time, ties in the order of SM numbers. Memories and their queues are the very functions that the SimPy engine calls
(:mod:`tcsim.timing.hierarchy`); what both do twice is choosing, issuing, barriers, and CTAs that come and go. Both give the
same cycles to the last digit.
"""

from tcsim.timing.compiled.run import CompiledChip

__all__ = ["CompiledChip"]
