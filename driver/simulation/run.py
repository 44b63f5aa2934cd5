"""Claims over simulated nodes: inventory → slices → allocate → prepare plan.

It is made of the parts that run in a cluster and decides nothing of its own, except the order: claims one after the
other as they are given, each on the first node that fits. (kube-scheduler takes pods as they come and picks among the
nodes that fit by other scores; a claim alone does not say which.)
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.allocator import AllocationError, Allocator
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.api.resource_v1 import (
    DeviceClass,
    Node,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
    ResourceSlice,
)
from driver.errors import RootportError
from driver.layout import resource_slices
from driver.model.devices import DeviceName
from driver.model.inventory import Inventory
from driver.plan import IsolationHost, NicHost, PreparePlan, prepare_plan

__all__ = ["Outcome", "Simulation", "simulate"]

# Claims in files have no UID yet. A name-based one (RFC 9562, version 5) keeps CDI device names the same in every run.
_UID_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "simulate.rootport.dev")
_HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
_HOST: Final = IsolationHost(simulated=True)
_POD: Final = ResourceClaimConsumerReference(
    resource="pods", name="simulated", uid=str(uuid.uuid5(_UID_NAMESPACE, "pod"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one claim.

    Attributes:
        claim: The claim; with ``status.allocation`` where it fits.
        node: The node whose devices it got; None where it fits nowhere.
        plan: What the node's plugin would prepare; None where the claim fits nowhere, or cannot be prepared.
        problem: Why it fits nowhere, where there is more to say than that, or why it cannot be prepared.
    """

    claim: ResourceClaim
    node: str | None = None
    plan: PreparePlan | None = None
    problem: str | None = None

    @property
    def done(self) -> bool:
        """Whether the claim's pod could start."""
        return self.plan is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result.

    Attributes:
        inventories: The nodes, as given.
        slices: All ResourceSlices, node by node.
        outcomes: One a claim, as given.
        policies: What the administrator lets be given of GPUs.
    """

    inventories: tuple[Inventory, ...]
    slices: tuple[ResourceSlice, ...]
    outcomes: tuple[Outcome, ...]
    policies: GpuPolicies = DEFAULT_POLICIES


def simulate(
    inventories: Sequence[Inventory],
    classes: Sequence[DeviceClass],
    claims: Sequence[ResourceClaim],
    *,
    policies: GpuPolicies = DEFAULT_POLICIES,
    nic_policies: NicPolicies = DEFAULT_NIC_POLICIES,
    progress: Callable[[], None] = lambda: None,
) -> Simulation:
    """Publish, allocate and plan.

    Args:
        inventories: One a node; names are unique.
        classes: The DeviceClasses that claims may name.
        claims: Valid, with the API's defaults, a namespace and a name. One that is allocated keeps what it has.
        policies: What the administrator lets be given of GPUs.
        nic_policies: Likewise of RDMA NICs.
        progress: Called after each claim.
    """
    slices = tuple(
        part
        for inventory in inventories
        for part in resource_slices(inventory, policies=policies, nic_policies=nic_policies)
    )
    nodes = [_node(inventory.node) for inventory in inventories]
    numbers = itertools.count(1)
    # Kubernetes draws them; here the same input gives the same bytes.
    allocator = Allocator(
        slices,
        classes,
        allocated=claims,
        new_share_id=lambda: str(uuid.uuid5(_UID_NAMESPACE, f"share {next(numbers)}")),
    )
    plugins = {inventory.node: _Plugin(inventory) for inventory in inventories}
    outcomes = []
    for claim in _with_uids(claims):
        outcomes.append(_place(claim, allocator, nodes, plugins))
        progress()
    return Simulation(inventories=tuple(inventories), slices=slices, outcomes=tuple(outcomes), policies=policies)


def _node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={_HOSTNAME_LABEL: name}))


def _with_uids(claims: Sequence[ResourceClaim]) -> Iterator[ResourceClaim]:
    # A claim and a template may have one name; each claim needs a UID of its own, and so a CDI file of its own.
    times: Counter[str] = Counter()
    for claim in claims:
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        times[name] += 1
        if claim.metadata.uid:
            yield claim
        else:
            uid = uuid.uuid5(_UID_NAMESPACE, name if times[name] == 1 else f"{name}/{times[name]}")
            yield claim.model_copy(update={"metadata": claim.metadata.model_copy(update={"uid": str(uid)})})


def _place(
    claim: ResourceClaim, allocator: Allocator, nodes: Sequence[Node], plugins: Mapping[str, _Plugin]
) -> Outcome:
    if claim.status.allocation is not None:
        pools = (result.pool for result in claim.status.allocation.devices.results if result.driver == DRIVER_NAME)
        node = next(pools, None)
        if node is None or node not in plugins:
            return Outcome(claim=claim, problem="it is allocated already, but to none of the simulated nodes")
        return plugins[node].prepare(claim)
    try:
        fit = allocator.allocate_first(nodes, [claim])
    except AllocationError as error:
        # What kube-scheduler would report on the pod: this claim cannot be allocated, the others can.
        return Outcome(claim=claim, problem=str(error))
    if fit is None:
        return Outcome(claim=claim)
    allocator.commit(fit.results)
    node = fit.node.metadata.name
    allocated = claim.model_copy(update={"status": ResourceClaimStatus(allocation=fit.results[0])})
    return plugins[node].prepare(allocated)


class _Plugin:
    """A node's kubelet plugin: prepares claims, and knows which VFs it has given."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._taken_vfs: set[DeviceName] = set()

    def prepare(self, claim: ResourceClaim) -> Outcome:
        node = self._inventory.node
        # What a claim lends goes to one pod, and it is a pod that kubelet prepares a claim for.
        status = claim.status.model_copy(update={"reserved_for": claim.status.reserved_for or (_POD,)})
        nics = NicHost(taken_vfs=frozenset(self._taken_vfs), simulated=True)
        try:
            plan = prepare_plan(
                claim.model_copy(update={"status": status}),
                self._inventory,
                assume_minors=True,
                host=_HOST,
                nics=nics,
            )
        except RootportError as error:
            # What kubelet would report on the pod: it hangs on its node, with its devices held.
            return Outcome(claim=claim, node=node, problem=f"cannot be prepared: {error}")
        uses = (device.nic_use for device in plan.devices)
        self._taken_vfs.update(use.vf for use in uses if use is not None and use.vf is not None)
        return Outcome(claim=claim, node=node, plan=plan)
