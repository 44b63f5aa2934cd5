"""What a cluster would do with claims, told from the same parts that run in one. Pure."""

from driver.simulation.assumed import MAX_VFS, with_assumed_speed, with_assumed_vfs
from driver.simulation.checks import check_claim, check_class
from driver.simulation.run import Outcome, Simulation, simulate

__all__ = [
    "MAX_VFS",
    "Outcome",
    "Simulation",
    "check_claim",
    "check_class",
    "simulate",
    "with_assumed_speed",
    "with_assumed_vfs",
]
