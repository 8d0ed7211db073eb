"""Numbers through tensor cores, for people who have matrices rather than PTX.

=================  ==========================================================================================
module             what it does
=================  ==========================================================================================
instructions       tensor-core instructions by name, and which device has them
operands           NumPy arrays to bit patterns and back
order              the orders in which a GEMM adds along K
matmul             the bits of a GEMM
explain            one output element, step by step (``explain_steps``; ``explain_text``: as text and as data; ``scalars``:
                   its numbers)
scales             block scales, from arrays and from numbers
badge              how it is known what a kernel computes
evaluate           one scalar instruction on numbers or arrays
fused_chain        what matmul runs on: fused steps, many columns at a time
tile_chain         and for integers, bits, f64 and m8n8k4: the executor's kernels, tile by tile
warp_chain         the same with a sparse A (``compress``) or block scales
=================  ==========================================================================================
"""

from tcsim.numerics.evaluate import Evaluation, evaluate
from tcsim.numerics.explain import Explanation, explain
from tcsim.numerics.matmul import matmul
from tcsim.numerics.operands import OperandError, UndefinedOperandWarning
from tcsim.numerics.order import Chain, KOrder, Promote, SplitK

__all__ = [
    "Chain",
    "Evaluation",
    "Explanation",
    "KOrder",
    "OperandError",
    "Promote",
    "SplitK",
    "UndefinedOperandWarning",
    "evaluate",
    "explain",
    "matmul",
]
