"""Claims over simulated nodes: inventory → slices → allocate → prepare plan.

It is made of the parts that run in a cluster and decides nothing of its own, except the order: claims one after the
other as they are given, each on the first node that fits. (kube-scheduler takes pods as they come and picks among the
nodes that fit by other scores; a claim alone does not say which.)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from driver.allocator import AllocationError, Allocator
from driver.api.resource_v1 import DeviceClass, Node, ObjectMeta, ResourceClaim, ResourceClaimStatus, ResourceSlice
from driver.layout import resource_slices
from driver.model.inventory import Inventory
from driver.plan import PreparePlan, prepare_plan

__all__ = ["Outcome", "Simulation", "simulate"]

# Claims in files have no UID yet. A name-based one (RFC 9562, version 5) keeps CDI device names the same in every run.
_UID_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "simulate.rootport.dev")
_HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one claim.

    Attributes:
        claim: The claim; with ``status.allocation`` where it fits.
        node: The node whose devices it got; None where it fits nowhere.
        plan: What the node's plugin would prepare; None where the claim fits nowhere.
        problem: Why it fits nowhere, where there is more to say than that.
    """

    claim: ResourceClaim
    node: str | None = None
    plan: PreparePlan | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result.

    Attributes:
        inventories: The nodes, as given.
        slices: All ResourceSlices, node by node.
        outcomes: One a claim, as given.
    """

    inventories: tuple[Inventory, ...]
    slices: tuple[ResourceSlice, ...]
    outcomes: tuple[Outcome, ...]


def simulate(
    inventories: Sequence[Inventory],
    classes: Sequence[DeviceClass],
    claims: Sequence[ResourceClaim],
    *,
    progress: Callable[[], None] = lambda: None,
) -> Simulation:
    """Publish, allocate and plan.

    Args:
        inventories: One a node; names are unique.
        classes: The DeviceClasses that claims may name.
        claims: Valid, with the API's defaults, a namespace and a name.
        progress: Called after each claim.

    Raises:
        InputError: What a claim was given cannot be prepared, for example because its configuration does not fit.
    """
    slices = tuple(part for inventory in inventories for part in resource_slices(inventory))
    nodes = [_node(inventory.node) for inventory in inventories]
    by_name = {inventory.node: inventory for inventory in inventories}
    allocator = Allocator(slices, classes)
    outcomes = []
    for claim in claims:
        outcomes.append(_place(_with_uid(claim), allocator, nodes, by_name))
        progress()
    return Simulation(inventories=tuple(inventories), slices=slices, outcomes=tuple(outcomes))


def _node(name: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={_HOSTNAME_LABEL: name}))


def _with_uid(claim: ResourceClaim) -> ResourceClaim:
    if claim.metadata.uid:
        return claim
    uid = uuid.uuid5(_UID_NAMESPACE, f"{claim.metadata.namespace}/{claim.metadata.name}")
    return claim.model_copy(update={"metadata": claim.metadata.model_copy(update={"uid": str(uid)})})


def _place(
    claim: ResourceClaim, allocator: Allocator, nodes: Sequence[Node], inventories: dict[str, Inventory]
) -> Outcome:
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
    plan = prepare_plan(allocated, inventories[node], assume_minors=True)
    return Outcome(claim=allocated, node=node, plan=plan)
