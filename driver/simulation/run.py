"""Runs pods and their claims on simulated nodes: inventory → slices → allocation → prepare plan.

It is made of the parts that run in a cluster and decides nothing of its own, except the order: pods in the order of the
files, each with all its claims on the first node that fits. (kube-scheduler takes pods as they come and picks among the
nodes that fit by other scores, such as their free CPU, which are not simulated.)
"""

from __future__ import annotations

import itertools
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from driver import DRIVER_NAME
from driver.allocator import AllocationError, Allocator
from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
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
from driver.explain.known.cluster import EXTENDED_CLAIM
from driver.explain.known.extended import Extended, extended_of
from driver.explain.reasons import Reason
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory
from driver.simulation.by_policy import Fragmented, PolicyPlacement
from driver.simulation.extended import claim_made_for, with_claim
from driver.simulation.plugin import ClaimOutcome, SimulatedPlugin
from driver.simulation.workloads import UID_NAMESPACE, SimulatedPod, SimulationInput

__all__ = ["PodOutcome", "Simulation", "node_named", "simulate"]

_HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
_MOST_RESERVED: Final = 256
"""Pods that may share a claim (ResourceClaimReservedForMaxSize, k8s.io/api v0.36.3, resource/v1/types.go)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOutcome:
    """The result for one pod.

    Attributes:
        pod: The pod.
        node: The node on which all its claims are allocated; None if there is none.
        reason: Why there is none, if that is known without evaluating nodes; or why it is not known whether there is.
        problem: The reason in words, or the allocator's error.
    """

    pod: SimulatedPod
    node: str | None = None
    reason: Reason | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result of a simulation.

    Attributes:
        inventories: The nodes.
        slices: All ResourceSlices, node by node.
        classes: The DeviceClasses.
        templates: The ResourceClaimTemplates, as claims, by ``namespace/name``.
        outcomes: The claims' results, in the order in which pods name them.
        pods: The pods' results, in the order of the files.
        policies: The administrator's rules on how GPUs may be allocated.
        device_policies: What the administrator knows of devices, and keeps off the offer.
        fragmentation: Of the nodes in the end, by how many thousandths of free GPUs the placed pods could not use if
            they came again; None where the first node that fits was taken.
    """

    inventories: tuple[Inventory, ...]
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    templates: Mapping[str, ResourceClaim]
    outcomes: tuple[ClaimOutcome, ...]
    pods: tuple[PodOutcome, ...]
    policies: GpuPolicies = DEFAULT_POLICIES
    device_policies: DevicePolicies = DEFAULT_DEVICE_POLICIES
    fragmentation: Fragmented | None = None

    @property
    def done(self) -> bool:
        """Whether it is known of every pod that it could start."""
        placed = all(pod.node is not None and pod.reason is None for pod in self.pods)
        return placed and all(outcome.done for outcome in self.outcomes)


def simulate(
    inventories: Sequence[Inventory],
    classes: Sequence[DeviceClass],
    work: SimulationInput,
    *,
    policies: GpuPolicies = DEFAULT_POLICIES,
    nic_policies: NicPolicies = DEFAULT_NIC_POLICIES,
    device_policies: DevicePolicies = DEFAULT_DEVICE_POLICIES,
    policy: str = "",
    progress: Callable[[], None] = lambda: None,
) -> Simulation:
    """Publish the nodes' devices, allocate the claims, and plan what the nodes prepare.

    Args:
        inventories: The nodes, with unique names.
        classes: The DeviceClasses that claims may name.
        work: The pods and their claims. A claim that is allocated keeps its devices.
        policies: The administrator's rules on how GPUs may be allocated.
        nic_policies: The same for RDMA NICs.
        device_policies: What the administrator knows of devices, and keeps off the offer.
        policy: Places pods as Rootport's placement does by this policy; empty for the first node that fits.
        progress: Called for each node, and then for each pod.
    """
    slices: list[ResourceSlice] = []
    for inventory in inventories:
        slices.extend(
            resource_slices(inventory, policies=policies, nic_policies=nic_policies, device_policies=device_policies)
        )
        progress()
    scheduler = _Scheduler(inventories, slices, classes, work.claims, policy)
    scheduler.expect(work.pods)
    pods = []
    for pod in work.pods:
        pods.append(scheduler.place(pod))
        progress()
    plugins = {inventory.node: SimulatedPlugin(inventory, policies) for inventory in inventories}
    return Simulation(
        inventories=tuple(inventories),
        slices=tuple(slices),
        classes=tuple(classes),
        templates=work.templates,
        outcomes=tuple(scheduler.outcomes(plugins, pods)),
        pods=tuple(pods),
        policies=policies,
        device_policies=device_policies,
        fragmentation=scheduler.fragmentation(),
    )


class _Scheduler:
    """Places pods on nodes and allocates devices to claims, and remembers both."""

    def __init__(
        self,
        inventories: Sequence[Inventory],
        slices: Sequence[ResourceSlice],
        classes: Sequence[DeviceClass],
        claims: Mapping[str, ResourceClaim],
        policy: str,
    ) -> None:
        self._nodes = {inventory.node: node_named(inventory.node) for inventory in inventories}
        self._claims = dict(claims)
        self._where = {key: _node_of(claim) for key, claim in claims.items() if claim.status.allocation is not None}
        self._classes = {item.metadata.name: item for item in classes}
        # Whom a claim is reserved for, in order, each found fast.
        self._users = {key: {_key(item): item for item in claim.status.reserved_for} for key, claim in claims.items()}
        numbers = itertools.count(1)

        def new_share_id() -> str:
            # Kubernetes draws them; here the same input gives the same bytes.
            return str(uuid.uuid5(UID_NAMESPACE, f"share {next(numbers)}"))

        self._allocator = Allocator(slices, classes, allocated=claims.values(), new_share_id=new_share_id)
        self._placement = (
            PolicyPlacement(policy, slices, classes, list(self._nodes.values()), claims.values(), new_share_id)
            if policy
            else None
        )

    def fragmentation(self) -> Fragmented | None:
        """Return how fragmented the nodes are; None without a policy."""
        return None if self._placement is None else self._placement.fragmentation()

    def expect(self, pods: Iterable[SimulatedPod]) -> None:
        """Say which pods will come."""
        if self._placement is not None:
            self._placement.expect(pods)

    def place(self, pod: SimulatedPod) -> PodOutcome:
        """Find the first node on which the pod's claims fit, all together."""
        missing = _missing(pod, self._claims)
        if missing is not None:
            return PodOutcome(pod=pod, reason=missing)
        is_made = any(entry.name == EXTENDED_CLAIM for entry in pod.state.claims)
        extended = extended_of(pod.state, self._classes, is_made=is_made)
        if extended.missing_classes:
            return PodOutcome(pod=pod)  # explain says which
        made = claim_made_for(pod, extended, self._claims)
        keys = pod.claim_keys
        wanted = [key for key in dict.fromkeys(keys) if key not in self._where]
        held = [key for key in keys if key in self._where]
        full = next((key for key in held if self._is_full(key, pod)), None)
        if full is not None:
            problem = f"claim {full} is reserved for {_MOST_RESERVED} other pods, which is as many as may share it"
            return PodOutcome(pod=pod, reason=Reason.CLAIM_IN_USE, problem=problem)
        gone = next((key for key in held if self._where[key] not in self._nodes), None)
        if gone is not None:
            where = self._where[gone]
            what = f"on node {where}, which is" if where else "with devices of other drivers alone, which are"
            problem = f"claim {gone} is allocated {what} not simulated"
            return PodOutcome(pod=pod, reason=Reason.CLAIM_ELSEWHERE, problem=problem)
        nodes = list(dict.fromkeys(self._where[key] for key in held)) or list(self._nodes)
        if held and len(nodes) > 1:
            problem = f"its claims are allocated on different nodes: {', '.join(nodes[:3])}"
            return PodOutcome(pod=pod, reason=Reason.CLAIM_ELSEWHERE, problem=problem)
        if pod.state.node:
            return self._named(pod, [f"claim {key} is not allocated" for key in wanted], extended, held)
        asks_otherwise = bool(extended.by_plugin_alone or pod.unclaimed)
        if asks_otherwise and not keys and made is None:
            problem = _not_evaluated(pod, extended)
            return PodOutcome(pod=pod, reason=Reason.EXTENDED_RESOURCE_NOT_EVALUATED, problem=problem)
        claims = [self._claims[key] for key in wanted] + ([made] if made is not None else [])
        outcome = self._allocated(pod, nodes, claims, by_policy=made is None)
        if made is not None and outcome.node is not None:
            outcome = replace(outcome, pod=with_claim(pod, made))
        self._reserve(outcome)
        if outcome.node is None or not asks_otherwise:
            return outcome
        problem = _not_evaluated(pod, extended, " as well")
        return replace(outcome, reason=Reason.EXTENDED_RESOURCE_NOT_EVALUATED, problem=problem)

    def _named(self, pod: SimulatedPod, missing: Sequence[str], extended: Extended, held: Sequence[str]) -> PodOutcome:
        """Place a pod with ``spec.nodeName``: no scheduler sees it, so nothing is allocated for it."""
        name = pod.state.node
        missing = [*missing, *(["no claim is made of its extended resources"] if extended.claim is not None else [])]
        if missing:
            problem = f"spec.nodeName ({name}) keeps kube-scheduler from allocating for it: {missing[0]}"
            return PodOutcome(pod=pod, reason=Reason.PREPARE_FAILS, problem=problem)
        elsewhere = next((key for key in held if self._where[key] != name), None)
        if elsewhere is not None:
            where = self._where[elsewhere]
            problem = f"claim {elsewhere} is allocated on node {where}, and the pod's spec.nodeName has {name}"
            return PodOutcome(pod=pod, reason=Reason.CLAIM_ELSEWHERE, problem=problem)
        outcome = PodOutcome(pod=pod, node=name)
        self._reserve(outcome)
        return outcome

    def _is_full(self, key: str, pod: SimulatedPod) -> bool:
        """Whether the claim is reserved for as many pods as may share it, and not for this one."""
        users = self._users[key]
        return len(users) >= _MOST_RESERVED and _key(_holder(pod)) not in users

    def _reserve(self, outcome: PodOutcome) -> None:
        """Reserve the claims of a pod that has a node for it."""
        holder = _holder(outcome.pod)
        for key in outcome.pod.claim_keys if outcome.node is not None else ():
            self._users.setdefault(key, {}).setdefault(_key(holder), holder)

    def _allocated(
        self, pod: SimulatedPod, nodes: Sequence[str], claims: Sequence[ResourceClaim], *, by_policy: bool
    ) -> PodOutcome:
        """Allocate claims: by the policy, unless kube-scheduler makes one of them itself."""
        node = nodes[0] if nodes else None
        if claims:
            placement = self._placement
            try:
                if placement is not None and by_policy:
                    fit = placement.place(pod, claims)
                else:
                    fit = self._allocator.allocate_first((self._nodes[name] for name in nodes), claims)
                    if placement is not None and fit is not None:
                        placement.took(claims, fit)
            except AllocationError as error:
                # What kube-scheduler would report on the pod: this one cannot be placed, the others can.
                return PodOutcome(pod=pod, problem=str(error))
            if fit is None:
                return PodOutcome(pod=pod)
            self._allocator.commit(fit.results)
            node = fit.node.metadata.name
            for claim, result in zip(claims, fit.results, strict=True):
                key = f"{claim.metadata.namespace}/{claim.metadata.name}"
                status = ResourceClaimStatus(allocation=result)
                self._claims[key] = claim.model_copy(update={"status": status})
                self._where[key] = node
        return PodOutcome(pod=pod, node=node)

    def outcomes(self, plugins: Mapping[str, SimulatedPlugin], pods: Sequence[PodOutcome]) -> Iterator[ClaimOutcome]:
        """Return the claims' results, with what the nodes would prepare for them."""
        naming: defaultdict[str, list[PodOutcome]] = defaultdict(list)
        for pod in pods:
            for key in pod.pod.claim_keys:
                naming[key].append(pod)
        for key, claim in self._claims.items():
            node = self._where.get(key)
            names = tuple([pod.pod.key for pod in naming[key]])
            if node is None or node not in plugins:
                yield ClaimOutcome(claim=claim, pods=names)
                continue
            holders = tuple(self._users[key].values()) if key in self._users else ()
            status = claim.status.model_copy(update={"reserved_for": holders})
            yield replace(plugins[node].prepare(claim.model_copy(update={"status": status})), pods=names)


def _not_evaluated(pod: SimulatedPod, extended: Extended, as_well: str = "") -> str:
    """Say what of a pod is not simulated, and how it could be."""
    amounts: dict[str, object] = dict(extended.by_plugin_alone)
    system, instead = "a device plugin", ""
    if pod.unclaimed is not None:
        amounts, system = {**pod.unclaimed.amounts, **amounts}, pod.unclaimed.system
        does = "writes claims for that" if pod.unclaimed.converts else "says why it writes no claim for that"
        instead = f"; rootport convert {does}"
    asked = ", ".join(f"{name}: {amount}" for name, amount in amounts.items())
    return f"it asks for {asked} of {system}{as_well}, which is not simulated: it is not known whether it fits{instead}"


def node_named(name: str) -> Node:
    """Return a simulated node, of which nothing is known but its name."""
    return Node(metadata=ObjectMeta(name=name, labels={_HOSTNAME_LABEL: name}))


def _missing(pod: SimulatedPod, claims: Mapping[str, ResourceClaim]) -> Reason | None:
    """Return the reason if the pod names a claim or template that no file has."""
    for entry in pod.state.claims:
        if not entry.needs_none and f"{pod.state.namespace}/{entry.claim}" not in claims:
            return Reason.CLAIM_TEMPLATE_MISSING if entry.template else Reason.CLAIM_MISSING
    return None


def _node_of(claim: ResourceClaim) -> str:
    """Return the node of this driver's devices in a claim's allocation; empty if there are none."""
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return next((result.pool for result in results if result.driver == DRIVER_NAME), "")


def _holder(pod: SimulatedPod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.state.name, uid=pod.state.uid)


def _key(holder: ResourceClaimConsumerReference) -> tuple[str, ...]:
    return holder.api_group, holder.resource, holder.name, holder.uid
