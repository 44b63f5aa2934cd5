"""The request of ``rootport pairs``, checked: as many groups of GPUs and NICs as the API allows in one claim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from driver.api.quantity import Quantity
from driver.api.resource_v1 import MAX_CONSTRAINTS, MAX_REQUESTS, MAX_RESULTS
from driver.config.shares import share_errors
from driver.errors import InputError
from driver.model.alignment import LAST_RUNG
from driver.wording import plural

__all__ = ["PairsRequest", "Scope"]

_MAX_RAIL: Final = 4095


class Scope(StrEnum):
    """How near a GPU's NIC has to be. LADDER: as near as there is one, rung by rung; NODE: its last rung, anywhere."""

    SWITCH = "switch"
    ROOT = "root"
    NUMA = "numa"
    NODE = LAST_RUNG
    LADDER = "ladder"


_RUNGS: Final = (Scope.SWITCH, Scope.ROOT, Scope.NUMA, Scope.NODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRequest:
    """GPUs and NICs in groups: a GPU with its NIC, or several GPUs that have one NIC, or a GPU with several.

    Attributes:
        gpus: How many GPUs, or shares of GPUs.
        nics: How many NICs, VFs or shares of NICs.
        scope: How near the devices of a group are to each other.
        virtual_functions: Whether VFs are asked for instead of whole NICs.
        gpu_core: Percent of each GPU's core; None for none of its own, or, without ``gpu_memory``, the whole GPU.
        gpu_memory: Bytes of each GPU's memory; None for all of it.
        bandwidth: Of each NIC, in bits per second; None for the whole NIC.
        rails: The rail of each NIC, all of one fabric; empty where any will do.
        farthest: The ladder's last rung; NODE refuses nothing for being far apart.

    Raises:
        InputError: No claim can express that; all reasons at once.
    """

    gpus: int
    nics: int
    scope: Scope = Scope.LADDER
    virtual_functions: bool = False
    gpu_core: Quantity | None = None
    gpu_memory: Quantity | None = None
    bandwidth: Quantity | None = None
    rails: tuple[int, ...] = ()
    farthest: Scope = Scope.NODE

    def __post_init__(self) -> None:
        errors = list(self._errors())
        if errors:
            raise InputError.of_all(errors)

    @property
    def groups(self) -> int:
        """The number of groups."""
        return min(self.gpus, self.nics)

    @property
    def gpus_each(self) -> int:
        """The number of GPUs in a group."""
        return self.gpus // self.groups

    @property
    def nics_each(self) -> int:
        """The number of NICs in a group."""
        return self.nics // self.groups

    @property
    def shares_gpus(self) -> bool:
        """Whether shares of GPUs are asked for."""
        return self.gpu_core is not None or self.gpu_memory is not None

    @property
    def differ(self) -> bool:
        """Whether the claim has to require that its GPUs differ: two shares may otherwise be of one GPU."""
        return self.shares_gpus and self.gpus > 1

    @property
    def one_fabric(self) -> bool:
        """Whether the claim has to require one link type of its NICs: each kind of fabric has rails of its own."""
        return bool(self.rails) and self.nics > 1

    @property
    def constraints_each(self) -> int:
        """The number of constraints for a group."""
        if self.scope is not Scope.LADDER:
            return 1
        return _constraints_to(self.farthest) + (self.farthest is Scope.NODE and self.is_one_to_one)

    @property
    def rungs(self) -> tuple[Scope, ...]:
        """The ladder's rungs, nearest first."""
        return _RUNGS[: _RUNGS.index(self.farthest) + 1]

    @property
    def is_one_to_one(self) -> bool:
        """Whether each group is a GPU and a NIC."""
        return self.gpus == self.nics

    def gpu_capacity(self) -> dict[str, Quantity]:
        """Return the capacity request of each GPU; empty for the whole GPU."""
        wanted = {"core": self.gpu_core, "memory": self.gpu_memory}
        return {name: value for name, value in wanted.items() if value is not None}

    def nic_capacity(self) -> dict[str, Quantity]:
        """Return the capacity request of each NIC; empty for the whole NIC."""
        return {} if self.bandwidth is None else {"bandwidth": self.bandwidth}

    def _errors(self) -> Iterator[str]:
        if self.scope is Scope.NODE:
            yield "NODE is a ladder's rung, and no scope: devices from anywhere need no constraint, so ask by count"
        if self.farthest not in _RUNGS[1:]:
            yield f"a ladder cannot end with {self.farthest}: its last rung is root, numa or node"
            return
        if self.gpus < 1 or self.nics < 1:
            yield f"{self.gpus} GPUs with {self.nics} NICs: at least one of each is needed"
            return
        if max(self.gpus, self.nics) % self.groups:
            most = max(self.gpus, self.nics)
            near = f"{most - most % self.groups} or {most + self.groups - most % self.groups}"
            few, many = ("NICs", "GPUs") if self.gpus > self.nics else ("GPUs", "NICs")
            yield (
                f"{self.gpus} GPUs with {self.nics} NICs cannot be put into equal groups: for {self.groups} {few},"
                f" ask for {near} {many}"
            )
        else:
            yield from self._limits()
        if self.rails and len(self.rails) != self.nics:
            rails, nics = plural(len(self.rails), "rail"), plural(self.nics, "NIC")
            yield f"--rails names {rails} for {nics}: name one rail for each NIC"
        for rail in dict.fromkeys(self.rails):
            if not 0 <= rail <= _MAX_RAIL:
                yield f"--rails: {rail} is not a rail: expected a number from 0 to {_MAX_RAIL}"
            elif self.rails.count(rail) > 1 and not (self.virtual_functions or self.bandwidth):
                yield f"--rails names rail {rail} twice: a node has one NIC on each rail"
        if self.virtual_functions and self.bandwidth is not None:
            yield "--vf and --bandwidth: a share of bandwidth is of a whole NIC, a VF has none: name one of them"
        yield from (
            f"--gpu-{error.path[6:-1]}: {error.message}" for error in share_errors(self.gpu_capacity(), "flags")
        )
        yield from (f"--{error.path[6:-1]}: {error.message}" for error in share_errors(self.nic_capacity(), "flags"))

    def _limits(self) -> Iterator[str]:
        devices, requests = self.gpus + self.nics, 2 * self.groups
        constraints = self.groups * self.constraints_each + self.differ + self.one_fabric
        if devices > MAX_RESULTS:
            yield f"{self.gpus} GPUs and {self.nics} NICs are {devices} devices: a claim can have {MAX_RESULTS}"
        elif requests > MAX_REQUESTS:  # two or more devices a group: the limit of devices comes first
            yield f"{self.groups} groups are {requests} requests: a claim can have {MAX_REQUESTS}"
        if constraints > MAX_CONSTRAINTS:
            most = (MAX_CONSTRAINTS - self.differ - self.one_fabric) // self.constraints_each
            yield (
                f"{self.groups} groups with --scope {self.scope} take {constraints} constraints: a claim can have"
                f" {MAX_CONSTRAINTS}, enough for {most} groups; divide them between two claims of one pod, or use"
                f" {self._shorter()}--scope switch, root or numa"
            )

    def _shorter(self) -> str:
        """Return the flag of a ladder for which there are constraints enough, where there is one."""
        if self.scope is not Scope.LADDER or self.farthest is not Scope.NODE:
            return ""
        shorter = self.groups * _constraints_to(Scope.NUMA) + self.differ + self.one_fabric
        return "--farthest numa, or " if shorter <= MAX_CONSTRAINTS else ""


def _constraints_to(farthest: Scope) -> int:
    """Return how many constraints a group takes that keep rungs apart, one a rung, and hold devices together, three."""
    return _RUNGS.index(farthest) + 1 + 3
