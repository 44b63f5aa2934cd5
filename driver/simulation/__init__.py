"""What a cluster would do with pods and claims, told from the same parts that run in one. Pure."""

from driver.simulation.assumed import INTERFACES_ASSUMED, MAX_VFS, with_assumed_speed, with_assumed_vfs
from driver.simulation.cluster import cluster_state, objects_of, slice_json
from driver.simulation.run import Outcome, PodOutcome, Simulation, simulate
from driver.simulation.why import Answer, answers
from driver.simulation.workloads import GivenClaim, SimulatedPod, Work, Workload, work_of

__all__ = [
    "INTERFACES_ASSUMED",
    "MAX_VFS",
    "Answer",
    "GivenClaim",
    "Outcome",
    "PodOutcome",
    "SimulatedPod",
    "Simulation",
    "Work",
    "Workload",
    "answers",
    "cluster_state",
    "objects_of",
    "simulate",
    "slice_json",
    "with_assumed_speed",
    "with_assumed_vfs",
    "work_of",
]
