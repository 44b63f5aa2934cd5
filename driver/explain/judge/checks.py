"""Checks what keeps a pod or its claims from being allocated, before any node is evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from driver import DRIVER_NAME
from driver.allocator.candidates import MAX_RESULTS
from driver.allocator.demands import ClaimDemand, read_claim
from driver.allocator.errors import AllocationError
from driver.allocator.features import Channel, Features
from driver.api.resource_v1 import DeviceAllocationConfiguration, ResourceClaim
from driver.config.entries import read_entries
from driver.explain.explanation import Finding, ObjectRef
from driver.explain.known.cluster import ClaimState, Kind, PodClaim, PodState
from driver.explain.known.extended import Extended
from driver.explain.known.state import ClusterState
from driver.explain.known.vocabulary import Vocabulary
from driver.explain.reasons import Reason
from driver.explain.texts import joined
from driver.objects.extended_resources import CLASS_PREFIX
from driver.spelling import is_one_domain, nearest
from driver.wording import listed

__all__ = [
    "DEFAULT_SCHEDULER",
    "check_claim",
    "check_extended",
    "check_parameters",
    "check_pod_claim",
    "check_prepared",
    "fewest_devices",
    "prepare_problem",
]

DEFAULT_SCHEDULER = "default-scheduler"
_REFUSED: Final = "create claim for extended resources"
"""What kube-scheduler says of a claim that it could not create (k8s.io/kubernetes v1.37.2, dynamicresources,
createExtendedResourceClaimInAPI)."""
_MOST_COMPARED = 1_000
"""Of so many names the nearest one is looked for: it takes some 10 µs each."""


def check_pod_claim(state: ClusterState, pod: PodState, entry: PodClaim) -> ClaimState | Finding | None:
    """Return the claim of an entry of the pod, or why there is none; None where none is needed."""
    if entry.needs_none:
        return None
    if not entry.claim:
        if entry.template and f"{pod.namespace}/{entry.template}" not in state.templates:
            known = [key for key in state.templates if key.startswith(f"{pod.namespace}/")]
            return Finding(
                reason=Reason.CLAIM_TEMPLATE_MISSING,
                message=f"pod {pod.key} makes its claim {entry.name} of ResourceClaimTemplate {pod.namespace}/"
                f"{entry.template}, which is not there{_meant(entry.template, 'template', known)}",
            )
        return Finding(
            reason=Reason.CLAIM_NOT_CREATED,
            message=f"claim {entry.name} of pod {pod.key} has not been made of template {entry.template} yet:"
            " kube-controller-manager makes it; if it stays so, look at its log",
        )
    claim = state.claim(f"{pod.namespace}/{entry.claim}")
    if claim is not None:
        return claim
    ref = ObjectRef(kind="ResourceClaim", namespace=pod.namespace, name=entry.claim)
    if why := state.left_out.why(Kind.CLAIM, f"{pod.namespace}/{entry.claim}"):
        message = f"pod {pod.key} names {ref}, which could not be read: {why}"
        return Finding(reason=Reason.OBJECT_UNREADABLE, message=message, claim=ref)
    if entry.template:
        return Finding(
            reason=Reason.CLAIM_NOT_CREATED,
            message=f"claim {ref.namespace}/{ref.name}, made of template {entry.template} for pod {pod.key}, is not"
            " there any more: kube-controller-manager makes it again, or the pod has to be made anew",
            claim=ref,
        )
    known = [key for key in state.claim_keys() if key.startswith(f"{pod.namespace}/")]
    return Finding(
        reason=Reason.CLAIM_MISSING,
        message=f"pod {pod.key} names claim {ref.namespace}/{ref.name}, which is not there"
        f"{_meant(entry.claim, 'claim', known)}",
        claim=ref,
    )


def check_extended(state: ClusterState, pod: PodState, extended: Extended) -> Iterator[Finding]:
    """Yield what is wrong with a pod's extended resources: a missing DeviceClass, or a claim that cannot be created.

    kube-scheduler creates the claim when it has found devices and a node, and then a quota or a webhook may refuse it.
    The pod's condition has the answer, until another attempt ends otherwise.
    """
    _, refused, why = pod.scheduler_message.partition(_REFUSED)
    if extended.claim is not None and refused:
        answer = why.partition(": ")[2]  # behind the claim, which has no name yet
        message = f"kube-scheduler cannot create the claim for the extended resources of pod {pod.key}: {answer}"
        yield Finding(reason=Reason.CLAIM_NOT_CREATED, message=message)
    for name in extended.missing_classes:
        asks = f"pod {pod.key} asks for {CLASS_PREFIX}{name}"
        if why := state.left_out.why(Kind.CLASS, name):
            message = f"{asks}; DeviceClass {name} could not be read: {why}"
            yield Finding(reason=Reason.OBJECT_UNREADABLE, message=message)
        else:
            message = f"{asks}; there is no DeviceClass {name}{_classes_meant(state, [name])}"
            yield Finding(reason=Reason.DEVICE_CLASS_MISSING, message=message)


def check_claim(state: ClusterState, claim: ClaimState, pod: PodState | None) -> ClaimDemand | Finding | None:
    """Return what a claim asks for, or why it cannot be allocated for ``pod`` anywhere; None where it is allocated."""
    ref = claim.ref
    if claim.deleting:
        return Finding(
            reason=Reason.CLAIM_DELETED,
            message=f"claim {claim.key} is being deleted; it goes when no pod uses it any more",
            claim=ref,
        )
    if claim.allocated:
        if claim.reserved_full and pod is not None and not claim.is_reserved_for(pod):
            message = f"claim {claim.key} is reserved for 256 other pods, which is as many as may share it"
            return Finding(reason=Reason.CLAIM_IN_USE, message=message, claim=ref)
        return None
    if claim.claim is None or claim.unreadable:
        why = claim.unreadable or "its specification is not known"
        return Finding(reason=Reason.CLAIM_INVALID, message=f"claim {claim.key} cannot be read: {why}", claim=ref)
    return _demand(state, claim.claim, claim, ref)


def check_prepared(claim: ClaimState) -> Finding | None:
    """Return why the pods of an allocated claim are not bound yet (KEP-5007); None where its devices are prepared."""
    if not claim.unready or claim.deleting:
        return None
    failed = next((device for device in claim.unready if device.failed), None)
    if failed is not None:
        why = f": {failed.reason}: {failed.message}" if failed.reason else ""
        return Finding(
            reason=Reason.DEVICE_PREPARATION_FAILED,
            message=f"device {failed.device} of pool {failed.pool}, which claim {claim.key} was given, cannot be"
            f" prepared{why}; kube-scheduler takes the claim's devices back and looks for others",
            claim=claim.ref,
        )
    first, *others = claim.unready
    more = f" and {len(others)} more" if others else ""
    since = f", allocated at {claim.allocated_at}," if claim.allocated_at else ""
    return Finding(
        reason=Reason.WAITING_FOR_DEVICE_PREPARATION,
        message=f"claim {claim.key}{since} waits until device {first.device} of pool {first.pool}{more} is prepared:"
        " kube-scheduler binds the pod then; it takes the devices back after ten minutes, unless bindingTimeout in its"
        " configuration says otherwise",
        claim=claim.ref,
    )


def check_parameters(state: ClusterState, claim: ClaimState) -> Finding | None:
    """Return what is wrong with the parameters for Rootport in a claim and its classes: no node would prepare it."""
    if claim.claim is None:
        return None
    problems: list[str] = []
    classes: set[str] = set()
    for request, name in _class_names(claim.claim):
        found = state.classes.get(name)
        if found is None or name in classes:
            continue
        classes.add(name)
        entries = [
            DeviceAllocationConfiguration(source="FromClass", requests=(request,), opaque=item.opaque)
            for item in found.spec.config
        ]
        problems += [f"DeviceClass {name}: {error}" for error in read_entries(entries, "spec.config")[1]]
    entries = [
        DeviceAllocationConfiguration(source="FromClaim", requests=item.requests, opaque=item.opaque)
        for item in claim.claim.spec.devices.config
        if item.opaque is not None and item.opaque.driver == DRIVER_NAME
    ]
    places = [
        index
        for index, item in enumerate(claim.claim.spec.devices.config)
        if item.opaque is not None and item.opaque.driver == DRIVER_NAME
    ]
    for place, entry in zip(places, entries, strict=True):
        for error in read_entries([entry], "spec.devices.config")[1]:
            problems.append(str(error).replace("spec.devices.config[0]", f"spec.devices.config[{place}]", 1))
    if not problems:
        return None
    return Finding(
        reason=Reason.PARAMETERS_INVALID,
        message=f"claim {claim.key} has parameters that no node will prepare: {joined(problems)}",
        claim=claim.ref,
    )


def prepare_problem(state: ClusterState, pod: PodState) -> str:
    """Return what keeps a placed pod from starting, as far as its claims do; a started one has no such problem."""
    if not pod.node or not pod.waiting:
        return ""
    # Prepared, but the runtime does not find what was prepared: no event of the kubelet's says more.
    return pod.waiting if "CDI" in pod.waiting else state.prepare_problem(pod)


def _demand(state: ClusterState, spec: ResourceClaim, claim: ClaimState, ref: ObjectRef) -> ClaimDemand | Finding:
    missing = sorted({name for _, name in _class_names(spec) if name and name not in state.classes})
    unread = [(name, why) for name in missing if (why := state.left_out.why(Kind.CLASS, name))]
    if unread:
        name, why = unread[0]
        message = f"claim {claim.key} names DeviceClass {name}, which could not be read: {why}"
        return Finding(reason=Reason.OBJECT_UNREADABLE, message=message, claim=ref)
    if missing:
        there = _classes_meant(state, missing)
        request = next(request for request, name in _class_names(spec) if name == missing[0])
        classes = "DeviceClass" if len(missing) == 1 else "DeviceClasses"
        verb = "is" if len(missing) == 1 else "are"
        return Finding(
            reason=Reason.DEVICE_CLASS_MISSING,
            message=f"claim {claim.key} names {classes} {', '.join(missing)}, which {verb} not there{there}",
            claim=ref,
            request=request,
        )
    least = fewest_devices(spec)
    if least > MAX_RESULTS:
        return Finding(
            reason=Reason.TOO_MANY_DEVICES,
            message=f"claim {claim.key} asks for {least} devices; one claim can have {MAX_RESULTS} at most",
            claim=ref,
        )
    off = next(_features_off(spec, state.features), None)
    try:
        return read_claim(spec, state.classes, state.features)
    except AllocationError as error:
        if off is not None:
            message = f"claim {claim.key} {off} on this cluster"
            return Finding(reason=Reason.FEATURE_OFF, message=message, claim=ref)
        return Finding(reason=Reason.CLAIM_INVALID, message=str(error), claim=ref)


def _classes_meant(state: ClusterState, missing: Sequence[str]) -> str:
    """Write a hint about classes that are not there, to follow their names."""
    vocabulary = Vocabulary(state.classes)
    near = [hint for name in missing if (hint := vocabulary.class_hint(name))]
    if near:
        return f" ({'; '.join(near)})"
    others = [name for name in missing if "." in name and not is_one_domain(name, f"x.{DRIVER_NAME}")]
    foreign = f" ({others[0]} is none of Rootport's: it comes with another driver's installation)" if others else ""
    return foreign + _there_are("class", list(state.classes))


def _features_off(spec: ResourceClaim, features: Features) -> Iterator[str]:
    """Yield what the claim uses of features that are off."""
    for request in spec.spec.devices.requests:
        where = f"(request {request.name}) uses"
        if not features.prioritized_list and (request.first_available or request.exactly is None):
            # An API server with the gate off drops firstAvailable, and then neither is there.
            yield f"{where} firstAvailable, but the feature gate DRAPrioritizedList is off"
        parts = (*request.first_available, *([request.exactly] if request.exactly is not None else ()))
        if not features.consumable_capacity and any(part.capacity is not None for part in parts):
            yield f"{where} capacity requests, but the feature gate DRAConsumableCapacity is off"
        if not features.admin_access and request.exactly is not None and request.exactly.admin_access is not None:
            yield f"{where} adminAccess, but the feature gate DRAAdminAccess is off"
    if features.channel is Channel.STABLE or not features.consumable_capacity:
        for index, constraint in enumerate(spec.spec.devices.constraints):
            if constraint.match_attribute is None:
                yield f"(constraint #{index}) uses distinctAttribute, but the feature gate DRAConsumableCapacity is off"


def _class_names(spec: ResourceClaim) -> Iterator[tuple[str, str]]:
    """Yield (request or alternative, class) of all requests."""
    for request in spec.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly.device_class_name
        for part in request.first_available:
            yield f"{request.name}/{part.name}", part.device_class_name


def fewest_devices(spec: ResourceClaim) -> int:
    """Return the fewest devices that serve the claim on any node."""
    total = 0
    for request in spec.spec.devices.requests:
        parts = (*request.first_available, *([request.exactly] if request.exactly is not None else ()))
        total += min((part.count if part.allocation_mode == "ExactCount" else 0 for part in parts), default=0)
    return total


def _meant(name: str, what: str, known: Sequence[str]) -> str:
    """Write a hint about a claim or template that is not there, to follow its name."""
    names = [key.rpartition("/")[2] for key in known]
    near = nearest(name, names) if len(names) <= _MOST_COMPARED else None
    return f" (did you mean {near}?)" if near is not None else _there_are(what, known)


def _there_are(what: str, known: Sequence[str]) -> str:
    names = sorted(key.rpartition("/")[2] for key in known)
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    if not names:
        return f" (there are no {plural} at all)" if what == "class" else ""
    return f" ({plural} there: {listed(names)})"
