"""Benchmarks in simulated time, in the form that Triton's autotuner and ``triton.testing`` use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tcsim.errors import TcsimError
from tcsim.profiler import Profiler

__all__ = ["do_bench", "no_graphs"]

_MODES = ("min", "max", "mean", "median", "all")


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> float | list[float]:
    """Predicted milliseconds of the launches in one call of ``fn``, at the simulated GPU's clock.

    As ``triton.testing.do_bench``, but one call is enough: a prediction has no noise, so ``warmup`` and ``rep`` do nothing and
    all ``quantiles`` (a list of as many numbers; a single one comes bare) and modes agree. Caches are cold, as Triton makes
    them between repetitions. Raises TcsimError if ``fn`` launches no kernel in tcsim, and what a launch raises.
    """
    if return_mode not in _MODES:
        raise TcsimError(f"return_mode {return_mode!r}: one of {', '.join(_MODES)}")
    for tensor in grad_to_none or ():
        tensor.grad = None
    with Profiler() as profiler:
        fn()
    if not profiler.launches:
        raise TcsimError(
            "the function to benchmark launched no kernel in tcsim. Only simulated launches have a time: a NumPy or PyTorch "
            "reference on the host cannot be compared with them"
        )
    milliseconds = 1e3 * sum(launch.seconds for launch in profiler.launches)
    if quantiles is not None:
        return milliseconds if len(quantiles) == 1 else [milliseconds] * len(quantiles)
    return [milliseconds] if return_mode == "all" else milliseconds


def no_graphs(*_: Any, **__: Any) -> float:
    """In place of ``triton.testing.do_bench_cudagraph``. Raises TcsimError."""
    raise TcsimError("tcsim has no CUDA graphs. Use triton.testing.do_bench: simulated launches have no host overhead to hide")
