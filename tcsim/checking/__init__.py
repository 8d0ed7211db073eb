"""What is wrong with a kernel: races, barriers, copies waited for too late, uninitialised memory, bad masks, overflow.

A checked launch runs on the same executor; the instructions that matter are surrounded by hooks
(:mod:`tcsim.checking.instrument`).
"""

from tcsim.checking.checker import Checker, check
from tcsim.checking.report import Access, CheckReport, Hazard, HazardError

__all__ = ["Access", "CheckReport", "Checker", "Hazard", "HazardError", "check"]
