"""A server with a queue, as one number: when it will have done all that was asked of it so far.

Requests are served in the order in which they are made. One made at ``now`` waits for the work that is then left, so
the order of requests must follow time up to small differences; the chip's event queue sees to that.
"""

from __future__ import annotations

__all__ = ["Server"]


class Server:
    """Times in ticks (:data:`tcsim.timing.units.TICKS`). ``busy``: ticks of service so far."""

    __slots__ = ("busy", "done")

    def __init__(self) -> None:
        self.done = 0
        self.busy = 0

    def serve(self, now: int, service: int) -> int:
        """Ask for ``service`` ticks at ``now``; returns the ticks until they are over, waiting included."""
        self.busy += service
        done = self.done
        if done < now:
            done = now
        done += service
        self.done = done
        return done - now
