"""Extended resources of a pod: those that a DeviceClass stands behind, as the claim that kube-scheduler makes of them.

Source: k8s.io/kubernetes v1.37.2, pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go, the
feature DRAExtendedResource (on by default since Kubernetes 1.36); what a pod asks for as a whole: PodRequests in
k8s.io/component-helpers, resource/helpers.go.

A node that has such a resource already has it from a device plugin, and gives that one. Which of a plugin's devices are
in use is not known here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from driver.api.resource_v1 import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ObjectMeta,
    ResourceClaim,
    ResourceClaimSpec,
)
from driver.budget import check
from driver.explain.explanation import ChangeKind, Proposal
from driver.explain.known.cluster import EXTENDED_CLAIM, ClaimState, ContainerRequests, PodState
from driver.objects.extended_resources import CLASS_PREFIX

__all__ = ["Extended", "amounts_text", "extended_of", "for_pod", "needs_claim", "note_of_claim", "served_names"]

_NOT_YET: Final = "~"  # behind all times


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended:
    """What a pod asks for of extended resources.

    Attributes:
        amounts: How much the pod needs of each.
        classes: The DeviceClass behind each that has one.
        claim: What kube-scheduler would make of those; None where there are none, or it has made one already.
    """

    amounts: Mapping[str, int] = field(default_factory=dict)
    classes: Mapping[str, str] = field(default_factory=dict)
    claim: ClaimState | None = None

    @property
    def by_plugin_alone(self) -> dict[str, int]:
        """What no DeviceClass stands behind."""
        return {name: amount for name, amount in self.amounts.items() if name not in self.classes}

    @property
    def missing_classes(self) -> tuple[str, ...]:
        """Classes that resources name and that are not there."""
        names = (name.removeprefix(CLASS_PREFIX) for name in self.by_plugin_alone if name.startswith(CLASS_PREFIX))
        return tuple(names)


def extended_of(pod: PodState, classes: Mapping[str, DeviceClass], *, is_made: bool) -> Extended:
    """Return what the pod asks for of extended resources.

    Args:
        pod: The pod.
        classes: All DeviceClasses by name.
        is_made: Whether kube-scheduler has made the claim already.
    """
    if not pod.containers:
        return Extended()
    names = sorted({name for container in pod.containers for name in container.asked})
    amounts: dict[str, int] = {}
    for name in names:
        check()
        amounts[name] = _amount(pod.containers, name)
    named_by = [item for item in classes.values() if item.spec.extended_resource_name in amounts]
    named = {item.spec.extended_resource_name: item.metadata.name for item in _by_precedence(named_by)}
    behind: dict[str, str] = {}
    for name in names:
        found = named.get(name) if not name.startswith(CLASS_PREFIX) else name.removeprefix(CLASS_PREFIX)
        if found is not None and found in classes:
            behind[name] = found
    claim = _claim(pod, behind) if behind and not is_made else None
    return Extended(amounts=amounts, classes=behind, claim=claim)


def served_names(classes: Mapping[str, DeviceClass]) -> frozenset[str]:
    """Return the names of all extended resources that a DeviceClass stands behind."""
    named = {item.spec.extended_resource_name for item in classes.values()} - {None}
    return frozenset((*(name for name in named if name), *(f"{CLASS_PREFIX}{name}" for name in classes)))


def needs_claim(pod: PodState, served: Collection[str]) -> bool:
    """Whether a claim is made of what the pod asks for, or should be: a class that it names may not be there.

    Args:
        pod: The pod.
        served: Of :func:`served_names`.
    """
    return any(name in served or name.startswith(CLASS_PREFIX) for item in pod.containers for name in item.asked)


def _by_precedence(classes: Iterable[DeviceClass]) -> list[DeviceClass]:
    """Sort classes so that of two with one resource the later counts: the newer one, of equals that of the lower name.

    Source: ExtendedResourceCache of k8s.io/dynamic-resource-allocation, deviceclass/extendedresourcecache. A class that
    no API server has stored yet is new.
    """
    by_name = sorted(classes, key=lambda item: item.metadata.name, reverse=True)
    return sorted(by_name, key=lambda item: item.metadata.creation_timestamp or _NOT_YET)


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Write ``nvidia.com/gpu: 1, example.com/fpga: 2``."""
    return ", ".join(f"{name}: {amount}" for name, amount in amounts.items())


def note_of_claim(extended: Extended) -> tuple[str, ...]:
    """Return a note on the claim behind which there is no object; none where there is none."""
    if extended.claim is None:
        return ()
    amounts = {name: amount for name, amount in extended.amounts.items() if name in extended.classes}
    note = (
        f"{extended.claim.ref} is the one that kube-scheduler makes of {amounts_text(amounts)} (feature gate"
        " DRAExtendedResource, on by default since Kubernetes 1.36)"
    )
    return (note,)


def for_pod(proposals: Sequence[Proposal], extended: Extended) -> tuple[Proposal, ...]:
    """Return the proposals without changes to a claim that is not there: of its pod only the amounts can be changed."""
    if extended.claim is None:
        return tuple(proposals)
    ref = extended.claim.ref
    found = []
    for proposal in proposals:
        if not any(patch.claim == ref for patch in proposal.patches):
            found.append(proposal)
        elif all(step["path"].endswith("/count") for patch in proposal.patches for step in patch.operations):
            text = f"{proposal.text}: the container's resources say how many"
            found.append(replace(proposal, kind=ChangeKind.CHANGE_POD, text=text, patches=(), commands=()))
    return tuple(found)


def _amount(containers: Sequence[ContainerRequests], name: str) -> int:
    """Return what the pod needs at once: all that run together, or an init container beside the sidecars so far."""
    together = most = 0
    for container in containers:
        _, amount = container.asked.get(name, (0, 0))
        if container.is_first:
            most = max(most, together + amount)
        else:
            together += amount
    return max(most, together)


def _claim(pod: PodState, behind: Mapping[str, str]) -> ClaimState:
    requests = sorted(
        (request for name, of in behind.items() for request in _requests(pod.containers, name, of)),
        key=lambda request: request.name,
    )
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests)))
    metadata = ObjectMeta(namespace=pod.namespace, name=EXTENDED_CLAIM)
    return ClaimState(
        namespace=pod.namespace,
        name=EXTENDED_CLAIM,
        uid="",
        claim=ResourceClaim(metadata=metadata, spec=spec),
        owner_pod=(pod.name, pod.uid),
    )


def _requests(containers: Sequence[ContainerRequests], name: str, device_class: str) -> Iterator[DeviceRequest]:
    """Yield a request for each container that runs on, and the largest of init containers that find too little."""
    asking = [container for container in containers if name in container.asked]
    lasting = [(container.place, container.asked[name][1]) for container in asking if not container.is_first]
    first: DeviceRequest | None = None
    for container in asking:
        if not container.is_first:
            yield _request(container, name, device_class, container.asked[name][1])
            continue
        # It uses what later containers wait for, and only what is then missing is asked for beside that.
        lent = sum(amount for place, amount in lasting if place >= container.place)
        more = container.asked[name][1] - lent
        if more > 0 and (first is None or first.exactly is None or more > first.exactly.count):
            first = _request(container, name, device_class, more)
    if first is not None:
        yield first


def _request(container: ContainerRequests, name: str, device_class: str, count: int) -> DeviceRequest:
    exactly = ExactDeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=count)
    return DeviceRequest(name=f"container-{container.place}-request-{container.asked[name][0]}", exactly=exactly)
