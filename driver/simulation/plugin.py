"""Prepares claims as a node's kubelet plugin would, without a node."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Final

from driver.api.gpu_policies import GpuPolicies
from driver.api.resource_v1 import ResourceClaim
from driver.errors import RootportError
from driver.model.devices import DeviceName
from driver.model.inventory import Inventory
from driver.plan import IsolationHost, NicHost, PreparePlan, prepare_plan
from driver.plan.effects import LendInterface
from driver.plan.host import gpus_beside
from driver.plan.sharing import refuse_overlap
from driver.simulation.assumed import INTERFACES_ASSUMED, with_assumed_interfaces

__all__ = ["NOT_PREPARED", "ClaimOutcome", "SimulatedPlugin"]

NOT_PREPARED: Final = "cannot be prepared: "
"""The beginning of :attr:`ClaimOutcome.problem`."""
_HOST: Final = IsolationHost(simulated=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimOutcome:
    """The result for one claim.

    Attributes:
        claim: The claim, with ``status.allocation`` if it fits, and reserved for the pods that have a node.
        node: The node whose devices it has; None if it fits nowhere.
        plan: What the node's plugin would prepare; None if the claim fits nowhere, or cannot be prepared.
        problem: Why it cannot be prepared.
        pods: ``namespace/name`` of the pods that name it.
    """

    claim: ResourceClaim
    node: str | None = None
    plan: PreparePlan | None = None
    problem: str | None = None
    pods: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.claim.metadata.namespace}/{self.claim.metadata.name}"

    @property
    def done(self) -> bool:
        """Whether the claim's pod could start."""
        return self.plan is not None


class SimulatedPlugin:
    """A node's kubelet plugin: prepares claims, and knows those that it prepared.

    Args:
        inventory: The node.
        policies: The administrator's rules on how GPUs may be allocated.
    """

    def __init__(self, inventory: Inventory, policies: GpuPolicies) -> None:
        self._inventory = with_assumed_interfaces(inventory)
        self._interfaces = {
            name for nic in inventory.nics for function in (nic, *nic.vfs) for name in function.if_names
        }
        self._host = replace(_HOST, policies=policies)
        self._taken_vfs: set[DeviceName] = set()
        self._sharing: dict[DeviceName, str] = {}
        # By the names of what they hold: of thousands of claims a few meet at one device.
        self._prepared: defaultdict[str, dict[str, PreparePlan]] = defaultdict(dict)

    def prepare(self, claim: ResourceClaim) -> ClaimOutcome:
        """Prepare an allocated claim, or say why it cannot be."""
        node = self._inventory.node
        nics = NicHost(taken_vfs=frozenset(self._taken_vfs), simulated=True)
        try:
            host = replace(self._host, in_use=self._sharing)
            plan = prepare_plan(claim, self._inventory, assume_minors=True, host=host, nics=nics)
            names = _held_names(plan)
            others = {uid: other for name in names for uid, other in self._prepared[name].items()}
            refuse_overlap(
                plan.claim, plan.held_devices, [item for other in others.values() for item in other.held_devices]
            )
        except RootportError as error:
            # What kubelet would report on the pod: it hangs on its node, with its devices held.
            return ClaimOutcome(claim=claim, node=node, problem=f"{NOT_PREPARED}{error}")
        self._taken_vfs.update(item.nic_use.vf for item in plan.held_devices if item.nic_use and item.nic_use.vf)
        lent = {item.interface for item in plan.effects if isinstance(item, LendInterface) and item.interface}
        if lent - self._interfaces:
            plan = replace(plan, notes=(*plan.notes, INTERFACES_ASSUMED))
        self._sharing |= gpus_beside("", plan.held_devices)
        for name in names:
            self._prepared[name][plan.claim.uid] = plan
        return ClaimOutcome(claim=claim, node=node, plan=plan)


def _held_names(plan: PreparePlan) -> set[str]:
    """Return the names of a claim's devices, and of the GPUs and NICs that they are parts of."""
    names: set[str] = set()
    for item in plan.held_devices:
        if not item.admin_access:
            names.add(item.device)
        if item.gpu_use is not None:
            names.add(item.gpu_use.gpu)
        if item.nic_use is not None:
            names |= {name for name in (item.nic_use.nic, item.nic_use.vf) if name}
    return names
