"""The objects of a cluster as explain keeps them: only what decides about devices, for there are many.

Read from the API's JSON by :mod:`driver.explain.known.reading`, kept by :mod:`driver.explain.known.state`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from driver.allocator.ledger import Holding
from driver.api.resource_v1 import DeviceTaint, Node, NodeSelector, ResourceClaim
from driver.explain.explanation import ObjectRef
from driver.explain.known.needs import NO_NEEDS, PodNeeds
from driver.model.health import Fault
from driver.model.rivals import Rival
from driver.objects.binding_conditions import UnreadyDevice
from driver.objects.consumers import GROUP_KIND

__all__ = [
    "EXTENDED_CLAIM",
    "ClaimState",
    "ContainerRequests",
    "InventoryReport",
    "Kind",
    "NodeState",
    "NodeTaint",
    "PodClaim",
    "PodState",
    "PodToleration",
    "PrepareFailure",
    "TaintRule",
]


_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}-[0-9a-f]{2}-[0-9a-f]{2}-[0-9a-f](?![0-9a-z])")

EXTENDED_CLAIM: Final = "<extended-resources>"
"""What kube-scheduler calls the claim that it makes of a pod's extended resources, until it is stored; no object can be
called so (specialClaimInMemName, k8s.io/kubernetes v1.37.2, dynamicresources/extendeddynamicresources.go)."""


class Kind(Enum):
    """The kinds of objects that explain looks at; the values are the ``kind`` of the API."""

    SLICE = "ResourceSlice"
    CLASS = "DeviceClass"
    CLAIM = "ResourceClaim"
    TEMPLATE = "ResourceClaimTemplate"
    POD = "Pod"
    NODE = "Node"
    TAINT_RULE = "DeviceTaintRule"
    """Not served by default up to Kubernetes 1.36 (feature gate DRADeviceTaintRules, v1beta2 there)."""
    EVENT = "Event"
    """Of events, those count in which a kubelet says that it cannot prepare a pod's claims."""
    INVENTORY = "NodeInventory"
    """Rootport's own: what a node's plugin says, with the condition that says whether it is published."""
    LEASE = "Lease"
    """Of leases, the one counts by which a controller of Rootport leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTaint:
    """A taint of a Node (core/v1)."""

    key: str
    value: str = ""
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A Node.

    Attributes:
        node: Its name and labels, as the allocator takes them; one object as long as they do not change.
        unschedulable: It is cordoned.
        taints: Its taints.
        not_ready: Why its Ready condition is not True; empty where it is, or where it has none.
        extended: How much it has in all of each extended resource; None where it does not say what it has.
        allocatable: How much it has for pods of every resource: CPU in thousandths of a core, all else in whole units;
            None where it does not say.
    """

    node: Node
    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()
    not_ready: str = ""
    extended: Mapping[str, int] | None = None
    allocatable: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodToleration:
    """A toleration of a Pod (core/v1); empty fields mean what they mean there."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """An entry of a pod's ``spec.resourceClaims``.

    Attributes:
        name: Its name in the pod.
        claim: The ResourceClaim; for a template the one that was made of it (``status.resourceClaimStatuses``), empty
            as long as there is none.
        template: The ResourceClaimTemplate; empty where the pod names a claim.
        needs_none: kube-controller-manager says that no claim is needed for the template.
    """

    name: str
    claim: str = ""
    template: str = ""
    needs_none: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequests:
    """A container of a pod that asks for extended resources.

    Attributes:
        place: Its place among the init containers and then the others.
        is_first: It ends before the next one starts: an init container that is no sidecar.
        asked: By the resource's name: its place among the names of all resources that the container requests, in order
            of the alphabet; and how much.
    """

    place: int
    is_first: bool
    asked: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A Pod.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its UID.
        claims: In order; last the one that was made of its extended resources, if there is one.
        has_more_claims: It names more than these.
        node: Where it was placed; empty while it is not.
        node_selector: Labels that its node must have.
        affinity: Required node affinity; None where there is none.
        tolerations: Of node taints.
        gates: Names of its scheduling gates.
        scheduler: Its scheduler's name.
        phase: ``Pending``, ``Running``, ``Succeeded`` or ``Failed``.
        deleting: It is being deleted.
        scheduler_message: The message of its condition PodScheduled, where that is False.
        waiting: Reasons and messages of containers that wait; ``ContainerCreating`` also where all goes well.
        containers: Those that ask for extended resources.
        has_more_resources: Containers name more resources than are looked at, so that ``containers`` has none.
        created: When it was created; None where that is not known.
        needs: What it takes of its node beside devices, and what it wants of other pods.
        group: Its PodGroup's name; empty where it is in none.
    """

    namespace: str
    name: str
    uid: str
    claims: tuple[PodClaim, ...] = ()
    has_more_claims: bool = False
    node: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: NodeSelector | None = None
    tolerations: tuple[PodToleration, ...] = ()
    gates: tuple[str, ...] = ()
    scheduler: str = "default-scheduler"
    phase: str = ""
    deleting: bool = False
    scheduler_message: str = ""
    waiting: str = ""
    containers: tuple[ContainerRequests, ...] = ()
    has_more_resources: bool = False
    created: datetime | None = None
    needs: PodNeeds = NO_NEEDS
    group: str = ""

    @property
    def ended(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def is_waiting(self) -> bool:
        """Whether it still waits to be scheduled."""
        return not (self.node or self.ended or self.deleting)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def ref(self) -> ObjectRef:
        """How an explanation names it."""
        return ObjectRef(kind="Pod", namespace=self.namespace, name=self.name, uid=self.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareFailure:
    """A kubelet could not prepare a pod's claims.

    Attributes:
        pod_uid: The pod.
        when: The last time, as the event has it; comparable.
        message: What the kubelet says.
    """

    pod_uid: str
    when: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimState:
    """A ResourceClaim.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its UID.
        claim: All of it, with the API's defaults, as long as it is not allocated; None afterwards: there are many, and
            only what they hold matters.
        asked: Its specification as JSON, once it is allocated: one text for all claims that ask for the same; empty
            where it is very long.
        unreadable: Why the claim could not be read (a field that this version does not know); empty where it could.
        allocated: It has an allocation.
        holds: What it has, on any node, of any driver; admin access holds nothing.
        last_rungs: The groups of its pairs that a ladder's last rung gave (:func:`group_on_last_rung`).
        available_on: Where its devices can be used (``status.allocation.nodeSelector``); None: everywhere.
        pods: Which pods it is reserved for: (name, uid), in order.
        pod_groups: Which PodGroups it is reserved for, and with them all of their pods: (name, uid), in order.
        owner_pod: The pod for which it was made, from a template or of its extended resources: (name, uid); None for
            others.
        is_extended: kube-scheduler made it of that pod's extended resources.
        reserved_full: It is reserved for as many as may have it (256, KEP-4381).
        deleting: It is being deleted.
        placed: What Rootport's placement has written about it, for people; empty for nothing.
        not_placed: Why placement finds no node for its pod, as the controller has annotated it; empty for nothing.
        unready: Its devices for which binding its pod waits, or that have failed.
        allocated_at: When it was allocated (RFC 3339), where a device is unready; empty where nobody wrote it.
    """

    namespace: str
    name: str
    uid: str
    claim: ResourceClaim | None = None
    asked: str = ""
    unreadable: str = ""
    allocated: bool = False
    holds: tuple[Holding, ...] = ()
    last_rungs: tuple[str, ...] = ()
    available_on: NodeSelector | None = None
    pods: tuple[tuple[str, str], ...] = ()
    pod_groups: tuple[tuple[str, str], ...] = ()
    owner_pod: tuple[str, str] | None = None
    is_extended: bool = False
    reserved_full: bool = False
    deleting: bool = False
    placed: str = ""
    not_placed: str = ""
    unready: tuple[UnreadyDevice, ...] = ()
    allocated_at: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def ref(self) -> ObjectRef:
        """How an explanation names it."""
        return ObjectRef(kind="ResourceClaim", namespace=self.namespace, name=self.name, uid=self.uid)

    @property
    def user_refs(self) -> tuple[ObjectRef, ...]:
        """How an explanation names the pods and PodGroups that it is reserved for."""
        users = (*(("Pod", *item) for item in self.pods), *((GROUP_KIND, *item) for item in self.pod_groups))
        return tuple(ObjectRef(kind=kind, namespace=self.namespace, name=name, uid=uid) for kind, name, uid in users)

    def is_reserved_for(self, pod: PodState) -> bool:
        """Whether it is reserved for a pod, or for its PodGroup, of which a pod knows no more than the name."""
        # k8s.io/dynamic-resource-allocation v0.37.2, resourceclaim.go, IsReservedForPod.
        return (pod.name, pod.uid) in self.pods or any(pod.group == name for name, _ in self.pod_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryReport:
    """The part of a NodeInventory's status that explains something.

    Attributes:
        problem: What is wrong, such as ``Published: False, NodeSilent: …``; empty where all is well.
        remark: What the controller left out of what it published, and why; empty for nothing.
        modes: Why not every mode of its GPUs is published all the time; empty where each is, or nothing says so.
        faults: What is wrong with the node's devices.
        rivals: Who else gives them out.
    """

    problem: str = ""
    remark: str = ""
    modes: str = ""
    faults: tuple[Fault, ...] = ()
    rivals: tuple[Rival, ...] = ()

    def rivals_behind(self, device: str, kind: str) -> tuple[Rival, ...]:
        """Return those for which Rootport has tainted a device; of a VF whose NIC is not known, all of the kind.

        Args:
            device: The device's name in the slices.
            kind: The taint's value.
        """
        found = [rival for rival in self.rivals if rival.kind == kind]
        near = [rival for rival in found if any(_address(name) == _address(device) for name in rival.devices)]
        return tuple(near or found)

    def fault_behind(self, device: str, reason: str) -> Fault | None:
        """Return the fault for which Rootport has tainted a device: its own, or that of the device it is a part of.

        A part has its device's PCI address in its name. A VF has one of its own, and NICs alone have VFs: where several
        NICs have the fault, the name does not show which of them the VF is of.

        Args:
            device: The device's name in the slices.
            reason: The taint's value.
        """
        found = [fault for fault in self.faults if fault.reason == reason]
        for fault in found:
            if _address(fault.device) == _address(device):
                return fault
        nics = [fault for fault in found if fault.device.startswith("rdma-")]
        return nics[0] if device.startswith("rdma-vf-") and len(nics) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintRule:
    """A DeviceTaintRule: taints the devices of a driver, a pool, or one device; an empty text selects all."""

    name: str
    driver: str = ""
    pool: str = ""
    device: str = ""
    taint: DeviceTaint


def _address(name: str) -> str:
    found = _ADDRESS.search(name)
    return name if found is None else found.group()
