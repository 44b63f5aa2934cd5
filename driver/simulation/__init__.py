"""What a cluster would do with claims, told from the same parts that run in one. Pure."""

from driver.simulation.assumed import MAX_VFS, with_assumed_speed, with_assumed_vfs
from driver.simulation.run import Outcome, Simulation, simulate

__all__ = [
    "MAX_VFS",
    "Outcome",
    "Simulation",
    "simulate",
    "with_assumed_speed",
    "with_assumed_vfs",
]
