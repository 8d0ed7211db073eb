"""Where the cycles went: from the peak of the tensor cores, or of issue, down to what was reached, with nothing left over.

All SMs could have worked in every cycle of the launch. What was not reached is divided exactly: cycles in which an SM had no
CTA (launch overhead, SMs without work, the tail), and, of the others, those in which the resource stood still, in the
proportion in which resident warps stalled.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcsim.profile import LaunchProfile
from tcsim.report.derived import with_derived
from tcsim.report.stall_advice import STALL_ADVICE
from tcsim.report.work import has_matrices

__all__ = ["Account", "Loss", "account"]


@dataclass(frozen=True)
class Loss:
    """A share of the peak, in per cent, and where it went."""

    name: str
    percent: float
    text: str


@dataclass(frozen=True)
class Account:
    """``resource``: what is counted; ``reached``: per cent of its peak over the whole launch. ``reached`` and the losses add
    up to 100."""

    resource: str
    reached: float
    losses: tuple[Loss, ...]

    def remainder(self) -> float:
        """What the account leaves unexplained: 0, up to rounding."""
        return 100.0 - self.reached - sum(loss.percent for loss in self.losses)


def account(profile: LaunchProfile) -> Account | None:
    """The account of a launch; None where the profile lacks what it needs."""
    metrics = with_derived(profile.metrics)
    elapsed = float(metrics.get("sm__cycles_elapsed.max", 0))
    active = float(metrics.get("sm__cycles_active.avg", 0))
    tensor = float(metrics.get("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", 0))
    issue = float(metrics.get("sm__inst_issued.avg.pct_of_peak_sustained_active", 0))
    if not elapsed or not profile.warp_cycles:
        return None
    inside = min(1.0, active / elapsed)
    is_tensor = has_matrices(profile) and tensor > 0
    resource, busy = ("tensor cores", tensor) if is_tensor else ("issue slots", issue)
    reached = inside * busy
    losses = _outside(metrics, elapsed, 100 * (1 - inside))
    rest = 100 * inside - reached
    waiting = {reason: cycles for reason, cycles in profile.stalls.items() if cycles and (reason != "selected" or is_tensor)}
    total = sum(waiting.values())
    for reason, cycles in sorted(waiting.items(), key=lambda item: -item[1]):
        what = STALL_ADVICE.get(reason, ("", ""))[0]
        if reason == "selected":
            what = "issues instructions other than those for the tensor cores, or feeds them"
        losses.append(Loss(reason, rest * cycles / total, f"a warp {what}" if what else ""))
    if not total:
        losses.append(Loss("idle", rest, "no warp was resident"))
    return Account(resource, reached, tuple(losses))


def _outside(metrics: dict[str, int | float], elapsed: float, percent: float) -> list[Loss]:
    """Cycles in which an SM has no CTA, as far as the longest-working SM tells them apart."""
    longest = min(elapsed, float(metrics.get("sm__cycles_active.max", elapsed)))
    overhead = min(percent, 100 * (1 - longest / elapsed))
    losses = [Loss("launch", overhead, "no SM has work yet, or any more: launch, and the memory's last answers")]
    losses.append(Loss("no CTA", percent - overhead, "this SM has none while others do: too few CTAs, or a last wave"))
    return [loss for loss in losses if loss.percent > 0]
