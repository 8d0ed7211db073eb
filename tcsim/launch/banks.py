"""Complete the constant banks of machine code for a launch: extents, addresses, and the values of ``.const`` variables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from isa.program import ConstantImage
from isa.reserved import RESERVED_END, reserved_behind
from isa.sass.bank import RESERVED_BEHIND_AT, SHARED_BYTES_AT, WORKSPACE, cluster_words
from tcsim.execute.cta import Geometry
from tcsim.memory import DeviceMemory

__all__ = ["complete_banks"]


def complete_banks(
    image: ConstantImage,
    block: NDArray[np.uint8],
    geometry: Geometry,
    symbols: Mapping[str, int],
    memory: DeviceMemory,
    sms: int,
    clusters: bool = False,
    static_shared: int = 0,
) -> None:
    """Fill ``block``, the parameter block that the arguments are already packed into, with all else that the banks hold.

    symbols: device addresses of the module's variables. sms: of the device. clusters: whether the architecture has clusters.
    static_shared: bytes of the kernel's shared variables.
    """
    content = np.frombuffer(image.content, np.uint8)
    empty = content != 0
    block[empty] = content[empty]
    for start, extents in ((image.block_at, geometry.block), (image.grid_at, geometry.grid)):
        block[start : start + 12] = np.array(extents, np.uint32).view(np.uint8)
    high_at, low_at = WORKSPACE[clusters]
    numbers = {
        image.dynamic_shared_at: geometry.dynamic_shared,
        image.sm_count_at: sms,
        high_at: geometry.workspace >> 32,
        low_at: geometry.workspace & 0xFFFF_FFFF,
    }
    for start, number in numbers.items():
        block[start : start + 4] = np.array([number], np.uint32).view(np.uint8)
    if clusters:
        block[SHARED_BYTES_AT : SHARED_BYTES_AT + 4].view(np.uint32)[0] += geometry.dynamic_shared
        for start, data in cluster_words(geometry.cluster, geometry.clusters, geometry.is_clustered).items():
            block[start : start + len(data)] = np.frombuffer(data, np.uint8)
    else:
        reserved = reserved_behind(static_shared + geometry.dynamic_shared)
        for name, value in (("1", reserved), ("end", reserved + RESERVED_END)):
            block[RESERVED_BEHIND_AT[name] :][:4] = np.array([value], np.uint32).view(np.uint8)
    for offset, width, symbol in image.symbols:
        value = symbols[symbol.symbol] + symbol.addend
        block[offset : offset + width] = np.frombuffer(value.to_bytes(8, "little")[:width], np.uint8)
    for offset, size, name in image.variables:
        if name in symbols:  # the size counts the padding up to the next variable
            data = memory.read(symbols[name], min(size, memory.extent(symbols[name])))
            block[offset : offset + len(data)] = np.frombuffer(data, np.uint8)
