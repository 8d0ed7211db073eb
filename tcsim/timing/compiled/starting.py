"""CTAs that start and end without Python: those of launches whose CTAs neither form clusters nor depend on time.

A CTA of few instructions is executed to its end when it starts, in a slot that the next one gets at once; what is left of it
are the records in its buffers. One that is not executed to its end keeps the slot, and is Python's from then on
(:meth:`tcsim.timing.stream.Streams.adopt`).
"""

from __future__ import annotations

import numpy as np

from isa.compiled import call, compiled
from isa.kernels.planes import as_i64
from tcsim.execute.interpreter import Outcome
from tcsim.execute.recorder import EXECUTING as LOG_EXECUTING
from tcsim.execute.recorder import LAST as LOG_LAST
from tcsim.execute.recorder import PAYLOAD as LOG_PAYLOAD
from tcsim.execute.recorder import PCS as LOG_PCS
from tcsim.execute.recorder import USED as LOG_USED
from tcsim.execute.recorder import WORDS as LOG_WORDS
from tcsim.execute.start import SLOT_LOG, SLOT_SM
from tcsim.timing.arrays import address_of_row, row
from tcsim.timing.compiled.executing import schedule
from tcsim.timing.compiled.issuing import advance
from tcsim.timing.compiled.state import (
    AT,
    C_QUICK,
    CTAS,
    EXECUTING,
    G_DRY,
    G_QUICK,
    G_SPARE,
    G_STATUS,
    O_BEGIN,
    O_CTA,
    O_REPORT,
    O_RETIRE,
    O_WARPS,
    OPTIONS,
    PAYLOAD,
    PCS,
    SETTLED,
    SIGNALS,
    START,
    USED,
    W_BASE,
    WARPS,
    WORDS,
)
from tcsim.timing.work_distributor import ENDED_CTAS, RETIRED, retire

__all__ = ["begin", "replace"]

_DONE = Outcome.DONE
_NO_LIMIT = 1 << 40


@compiled
def begin(c, sm, place, number):
    """Execute CTA ``number``, which has just started in a place. Returns whether to the end; then its warps have gone on to
    their first instructions. Else G_STATUS says why not, and Python has to see to it."""
    signals, warps = row(c, SIGNALS, 0), row(c, OPTIONS, 0)[O_WARPS]
    slot, first = as_i64(signals[G_SPARE]), place * warps
    log = as_i64(slot[SLOT_LOG])
    log[LOG_PCS], log[LOG_EXECUTING] = address_of_row(c, PCS, first), address_of_row(c, EXECUTING, first)
    log[LOG_PAYLOAD], log[LOG_WORDS] = address_of_row(c, PAYLOAD, first), address_of_row(c, WORDS, first)
    log[LOG_USED] = address_of_row(c, USED, first)
    last = as_i64(log[LOG_LAST])
    for index in range(warps):
        last[index] = 31
        row(c, USED, first + index)[0] = row(c, USED, first + index)[1] = 0
        row(c, AT, 0)[first + index] = -1
    slot[SLOT_SM] = sm
    status = call(row(c, OPTIONS, 0)[O_BEGIN], (signals[G_SPARE], number, np.int64(_NO_LIMIT)))
    for index in range(warps):
        row(c, SETTLED, 0)[first + index] = row(c, USED, first + index)[0]
    signals[G_STATUS] = status
    row(c, CTAS, place)[C_QUICK] = 1 if status == _DONE else 0
    if status != _DONE:
        return False
    signals[G_QUICK] += 1
    signals[G_DRY] = 0
    for index in range(warps):
        advance(c, first + index, row(c, WARPS, first + index)[W_BASE])
    return True


@compiled
def replace(c, sm, place, now):
    """Such a CTA has ended: the next one comes. Returns whether it is time to report progress."""
    row(c, SIGNALS, 0)[G_QUICK] -= 1
    options = row(c, OPTIONS, 0)
    distributor = as_i64(options[O_RETIRE])
    cluster = retire(options[O_RETIRE], now)
    if cluster >= 0:
        schedule(c, sm, distributor[RETIRED] + options[O_CTA], START, cluster, place)
    return options[O_REPORT] != 0 and distributor[ENDED_CTAS] % options[O_REPORT] == 0
