"""The answer of explain: plain values, for the terminal, for JSON, for an Event.

All texts are for people and may change; the codes (:class:`Reason`, :class:`Step`, :class:`ChangeKind`) are stable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from driver.explain.reasons import Reason

__all__ = [
    "ChangeKind",
    "ClaimPatch",
    "Explanation",
    "Finding",
    "FunnelStep",
    "NodeGroup",
    "ObjectRef",
    "Proposal",
    "RequestFunnel",
    "Step",
]

_LONGEST_MESSAGE: Final = 2_000
_KINDS: Final = {"ResourceClaim": "claim", "PodGroup": "PodGroup"}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ObjectRef:
    """An object of the cluster. ``namespace`` is empty for kinds without; ``uid`` may be, where it is not known."""

    kind: str
    namespace: str = ""
    name: str
    uid: str = ""

    def __str__(self) -> str:
        """Write ``claim ml/train``, ``pod ml/train-0``, ``PodGroup ml/train``, ``node n1``."""
        kind = _KINDS.get(self.kind, self.kind.lower())
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"

    @property
    def delete_command(self) -> str:
        """The command that deletes an object of a namespace."""
        return f"kubectl -n {self.namespace} delete {self.kind.lower()} {self.name}"


class Step(StrEnum):
    """What a device must pass to be of use to a request, in the order in which explain counts."""

    PUBLISHED = "published"
    CLASS = "classSelector"
    SELECTOR = "claimSelector"
    SIZE = "capacitySize"
    TAINTS = "taints"
    IN_USE = "inUse"
    ROOM = "capacityLeft"
    COUNTERS = "counters"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunnelStep:
    """How many devices are left after a step.

    Attributes:
        step: The step.
        left: On all nodes together that the pod may go to.
        best: On the node with the most left.
        best_node: That node; empty where there is none.
        details: For a person, most important first: who took out how many, such as
            ``device.attributes["rootport.dev"].model == "H200": false for 16, which have "NVIDIA A100-SXM4-40GB"``.
    """

    step: Step
    left: int
    best: int
    best_node: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFunnel:
    """One request, or one alternative of a request with ``firstAvailable``.

    Attributes:
        claim: The claim.
        request: ``request`` or ``request/alternative``.
        device_class: The class that it names.
        need: How many devices it asks for; None for all that there are.
        steps: In order; a step that took nothing out is left out, except the first.
    """

    claim: ObjectRef
    request: str
    device_class: str
    need: int | None
    steps: tuple[FunnelStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One reason, with what was seen.

    Attributes:
        reason: The code.
        message: One or two sentences: what is asked for, what there is, who has it. No full stop at its end. What is
            longer than 2,000 characters is cut: names and labels in it are for others to choose.
        claim: The claim that it is about; None where it is about the pod or a node.
        request: The request's name; empty where it is about none.
        nodes: On how many nodes it decides; 0 where it is about no node.
        driver_fault: It is Rootport, or another driver, that has to act, not the claim's author.
    """

    reason: Reason
    message: str
    claim: ObjectRef | None = None
    request: str = ""
    nodes: int = 0
    driver_fault: bool = False

    def __post_init__(self) -> None:
        if len(self.message) > _LONGEST_MESSAGE:
            object.__setattr__(self, "message", f"{self.message[: _LONGEST_MESSAGE - 1]}…")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes that refuse for one reason.

    Attributes:
        reason: What decides there.
        count: How many nodes.
        examples: Some of their names, in order; at most 5.
        message: What is so on the first of them.
        lacks: How many devices the nearest of them lacks; None where that is no matter of devices.
    """

    reason: Reason
    count: int
    examples: tuple[str, ...]
    message: str
    lacks: int | None = None


class ChangeKind(StrEnum):
    """Who would have to change what."""

    CHANGE_CLAIM = "ChangeClaim"
    """Its author writes the claim (or its template) anew: specs of claims cannot be changed."""
    CHANGE_POD = "ChangePod"
    END_CLAIMS = "EndClaims"
    """The pods of other claims end."""
    CHANGE_NODE = "ChangeNode"
    """An administrator: uncordon, a node's taint."""
    CHANGE_DEVICE_TAINT = "ChangeDeviceTaint"
    """An administrator deletes a DeviceTaintRule, or repairs what the driver tainted the device for."""
    CREATE_OBJECT = "CreateObject"
    """A missing class, claim or template is made."""
    REPAIR_DRIVER = "RepairDriver"
    """A driver, its plugin on the node or what it publishes must be repaired."""
    WAIT = "Wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPatch:
    """A change to a claim's spec as JSON Patch (RFC 6902); paths begin at the ResourceClaim: ``/spec/devices/…``."""

    claim: ObjectRef
    operations: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What would make it fit.

    Attributes:
        kind: Who would have to change what.
        text: One sentence for a person, such as ``ask for 2 devices in request gpus instead of 4``.
        node: Where it fits then; empty where that is left to the scheduler.
        verified: The allocator found devices with the change made. False only where no allocator can tell (a driver to
            repair, an object to create whose content is not known).
        cost: How much it takes, to compare proposals of one kind: claims to end, devices or terms given up.
        patches: The changes to claims, for CHANGE_CLAIM.
        ends: The claims that end, for END_CLAIMS; their pods are in ``pods``.
        pods: The pods and PodGroups to end, for END_CLAIMS.
        commands: What to type, where a command does it; kubectl's. Of more pods than 16 only for the first.
    """

    kind: ChangeKind
    text: str
    node: str = ""
    verified: bool = True
    cost: int = 1
    patches: tuple[ClaimPatch, ...] = ()
    ends: tuple[ObjectRef, ...] = ()
    pods: tuple[ObjectRef, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer to "why is it pending?".

    Attributes:
        subject: What was asked for: a ResourceClaim or a Pod.
        claims: The claims that the scheduler allocates together (those of the pod), in the pod's order.
        pod: The pod in whose name they were evaluated; None where there is none.
        fits: The scheduler would find room now, or nothing is to be allocated; never where that is not certain
            (:attr:`is_known`).
        findings: The reasons, the deciding one first; at least one.
        nodes: How many nodes there are.
        nodes_fitting: On how many of them everything fits.
        nodes_unknown: For how many of them it is not known: there was no time to evaluate them, or it depends on what
            is not evaluated.
        requests: The funnels, in order; empty where evaluation did not come that far.
        groups: The nodes by reason, the most promising first.
        proposals: The nearest miss first; may be empty.
        scheduler_message: What kube-scheduler says of the pod (condition PodScheduled); empty where it says nothing.
        notes: What else the reader should know, such as features that are off.
        is_cut: Whether there was no time for all nodes, or for all details; ``notes`` has a line then.
    """

    subject: ObjectRef
    claims: tuple[ObjectRef, ...] = ()
    pod: ObjectRef | None = None
    fits: bool = False
    findings: tuple[Finding, ...]
    nodes: int = 0
    nodes_fitting: int = 0
    nodes_unknown: int = 0
    requests: tuple[RequestFunnel, ...] = ()
    groups: tuple[NodeGroup, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    scheduler_message: str = ""
    notes: tuple[str, ...] = ()
    is_cut: bool = False

    @property
    def reason(self) -> Reason:
        """What decides."""
        return self.findings[0].reason

    @property
    def is_known(self) -> bool:
        """Whether the answer is certain: nothing that was not read, or not looked at, could change it."""
        if self.fits:
            return True
        if any(finding.reason is Reason.OBJECT_UNREADABLE for finding in self.findings):
            return False
        if self.reason is Reason.SEARCH_LIMIT:
            return bool(self.groups) and not self.nodes_unknown
        return self.reason not in {Reason.NO_CLAIM, Reason.EXTENDED_RESOURCE_NOT_EVALUATED}

    @property
    def nodes_decide(self) -> bool:
        """It does not fit because no node would do; not for the pod or the claim itself, or an error on one node."""
        return not self.nodes_fitting and any(group.reason is self.reason for group in self.groups)
