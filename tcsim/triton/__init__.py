"""Triton kernels on a simulated GPU: unmodified ``@triton.jit`` functions, on a machine that has none.

    import tcsim.triton

    tcsim.triton.activate("a100")
    kernel[grid](x, y, n, BLOCK=1024)  # x, y: NumPy arrays, CPU tensors of PyTorch, or tcsim arrays

Triton compiles as it always does, down to PTX, and tcsim launches that. Needs Triton (``pip install 'tcsim[triton]'``), but not
PyTorch.
"""

from tcsim.triton.activation import activate, deactivate
from tcsim.triton.bench import do_bench
from tcsim.triton.tensors import astensor

__all__ = ["activate", "astensor", "deactivate", "do_bench"]
