"""Triton's NVIDIA backend, stopped at PTX: ptxas does not run, and no cubin is made."""

from __future__ import annotations

from functools import cache
from typing import Any

import tcsim

__all__ = ["ptx_backend"]


@cache
def ptx_backend(nvidia: type[Any]) -> type[Any]:
    """A subclass of Triton's NVIDIA compiler backend whose binary is the PTX."""

    class PtxBackend(nvidia):
        """Compiles as its base does, with the same options and passes, as far as PTX."""

        def __init__(self, target: Any) -> None:
            super().__init__(target)
            self.binary_ext = "tcsim"

        def add_stages(self, stages: dict[str, Any], *args: Any) -> None:
            super().add_stages(stages, *args)
            del stages["cubin"]
            # The binary has a stage of its own, since Triton keeps it as bytes and users expect text under asm["ptx"].
            stages["tcsim"] = lambda ptx, metadata: ptx.encode()

        def hash(self) -> str:
            """Separates cached results from those of a GPU, and cached autotuning of one simulated device from another's."""
            from triton.runtime import driver

            return f"{super().hash()}-tcsim-{tcsim.__version__}-{driver.active.device.name}"

    return PtxBackend
