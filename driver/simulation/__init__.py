"""Simulates what a cluster would do with pods and claims, with the parts that run in one. Pure."""

from driver.simulation.assumed import INTERFACES_ASSUMED, MAX_VFS, with_assumed_speed, with_assumed_vfs
from driver.simulation.by_policy import Fragmented
from driver.simulation.cluster import cluster_state, objects_of, slice_json
from driver.simulation.plugin import ClaimOutcome
from driver.simulation.run import PodOutcome, Simulation, simulate
from driver.simulation.why import Answer, answers
from driver.simulation.workloads import InputClaim, SimulatedPod, SimulationInput, Unclaimed, Workload, simulation_input

__all__ = [
    "INTERFACES_ASSUMED",
    "MAX_VFS",
    "Answer",
    "ClaimOutcome",
    "Fragmented",
    "InputClaim",
    "PodOutcome",
    "SimulatedPod",
    "Simulation",
    "SimulationInput",
    "Unclaimed",
    "Workload",
    "answers",
    "cluster_state",
    "objects_of",
    "simulate",
    "simulation_input",
    "slice_json",
    "with_assumed_speed",
    "with_assumed_vfs",
]
