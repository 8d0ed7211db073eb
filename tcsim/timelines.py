"""A profiler that keeps a timeline of every launch it times."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from tcsim.profiler import Profiler
from tcsim.timeline import Timeline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tcsim.execute.cta import Geometry
    from tcsim.launch.launch import Launch
    from tcsim.launch.occupancy import Occupancy
    from tcsim.profile import LaunchProfile

__all__ = ["Timelines"]


class Timelines(Profiler):
    """As :class:`~tcsim.profiler.Profiler`; :meth:`timeline` gives what was seen of a launch. sm, ctas, cycles: as
    :class:`~tcsim.timeline.Timeline` takes them; sample: as the profiler does."""

    def __init__(
        self,
        sm: int | None = 0,
        ctas: Collection[int] | None = None,
        cycles: tuple[int, int] | None = None,
        *,
        sample: bool | int = False,
    ) -> None:
        super().__init__(sample=sample)
        self._sm, self._ctas, self._cycles = sm, ctas, cycles
        self._kept: dict[int, Timeline] = {}

    def run(
        self,
        launch: Launch,
        geometry: Geometry,
        parameters: NDArray[np.uint8],
        residency: Occupancy,
        progress: Callable[[int, int], None] | None,
    ) -> int:
        """Run a launch in time, watched by a timeline of its own."""
        seen = Timeline(sm=self._sm, ctas=self._ctas, cycles=self._cycles)
        seen.program = launch.loaded.program
        if geometry.cluster_size > 1:
            clusters = range(geometry.ctas // geometry.cluster_size)
            seen.clusters = {cta: cluster for cluster in clusters for cta in geometry.members(cluster)}
        self._observers = (seen,)
        executed = super().run(launch, geometry, parameters, residency, progress)
        self._kept[id(self.launches[-1])] = seen
        return executed

    def timeline(self, profile: LaunchProfile) -> Timeline:
        """What was seen of one of :attr:`launches`."""
        return self._kept[id(profile)]
