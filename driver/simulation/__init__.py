"""What a cluster would do with claims, told from the same parts that run in one. Pure."""

from driver.simulation.checks import check_claim, check_class
from driver.simulation.run import Outcome, Simulation, simulate

__all__ = ["Outcome", "Simulation", "check_claim", "check_class", "simulate"]
