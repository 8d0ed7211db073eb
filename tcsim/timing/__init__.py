"""The timing model: when each instruction of a launch issues, and why not earlier.

It consumes what the executor did (which instructions each warp executed, which sectors and banks they touched) and
never changes a value. Read :mod:`~tcsim.timing.gpu` for how a chip is put together, then
:mod:`~tcsim.timing.work_distributor`, :mod:`~tcsim.timing.sm` and :mod:`~tcsim.timing.sub_partition` from the outside
in; :mod:`~tcsim.timing.lsu` leads on to the memories.
"""

from tcsim.timing.gpu import TimedRun, run_timed

__all__ = ["TimedRun", "run_timed"]
