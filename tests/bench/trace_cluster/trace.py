"""The nodes of a trace and the order in which its pods arrive, as the replay of the published experiment has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from driver.adapters.files.trace_folder import read_trace
from driver.placement.engine import Engine
from driver.placement.mix import Mix
from driver.placement.policies import POLICIES
from driver.placement.replay.run import replay
from driver.placement.replay.sequence import Arrivals, arrivals
from driver.placement.replay.trace import TracePod

__all__ = ["Experiment", "experiment"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is tried.

    Attributes:
        arriving: Nodes and pods; the pods have names of their own, also those that come again.
        mix: The typical pods of the workload.
    """

    arriving: Arrivals
    mix: Mix

    @property
    def capacity(self) -> int:
        """All GPUs, in thousandths."""
        return self.arriving.gpu_milli

    def until(self, percent: int) -> Sequence[TracePod]:
        """The pods that come until they ask for so much of the GPUs."""
        return list(self._until(percent))

    def replayed(self, policy: str) -> tuple[float, ...]:
        """The allocation that the replay reaches with a policy, in percent of all GPUs, by percent of demand."""
        return replay(self.arriving, Engine(POLICIES[policy], self.mix), self.mix).allocation

    def _until(self, percent: int) -> Iterator[TracePod]:
        asked = 0
        for pod in self.arriving.pods:
            if asked >= self.capacity * percent / 100:
                return
            yield pod
            asked += pod.gpu_milli


def experiment(folder: Path, workload: str, seed: int, *, every: int = 1) -> Experiment:
    """Read a trace's folder; with every so many-th node only, demand is that part as large."""
    trace = read_trace(folder, [workload])
    pods = trace.workloads[workload]
    found = arrivals(trace.nodes[::every], pods, seed)
    named = tuple(replace(pod, name=f"pod-{number:05}") for number, pod in enumerate(found.pods))
    return Experiment(replace(found, pods=named), Mix.of(pod.shape for pod in pods))
