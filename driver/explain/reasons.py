"""Why a claim hangs: the codes. They are stable: programs and alerts may compare them.

docs/user/reasons.md explains each.

Where Kubernetes has a word for it (a field, a gate, a taint's effect), the code uses it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["UNKNOWN_REASONS", "Reason"]


class Reason(StrEnum):
    """What keeps a claim from being allocated, or its pod from running. The values are what is printed."""

    # Nothing is wrong
    FITS = "Fits"
    """There is room: the scheduler has not come to it yet, or waits for a retry."""
    ALLOCATED = "Allocated"
    """It has its devices."""
    WAITING_FOR_POD = "WaitingForPod"
    """No pod uses it: a claim is allocated when a pod that uses it is scheduled (KEP-4381)."""

    POD_ENDED = "PodEnded"
    """The pod has succeeded or failed: it waits for nothing."""

    # Not known
    NO_CLAIM = "NoClaim"
    """The pod names no claim and asks for no extended resource: there is nothing that explain could look at."""
    EXTENDED_RESOURCE_NOT_EVALUATED = "ExtendedResourceNotEvaluated"
    """The pod asks for an extended resource that a node's device plugin gives, which explain does not look at."""
    OBJECT_UNREADABLE = "ObjectUnreadable"
    """An object that decides, or could, is there and could not be read; or a dump has none of its kind."""

    # The pod
    CLAIM_MISSING = "ClaimMissing"
    """The pod names a claim that is not there."""
    CLAIM_TEMPLATE_MISSING = "ClaimTemplateMissing"
    """The pod names a ResourceClaimTemplate that is not there."""
    CLAIM_NOT_CREATED = "ClaimNotCreated"
    """The claim of a template is not there yet: kube-controller-manager makes it."""
    CLAIM_DELETED = "ClaimDeleted"
    """The claim is being deleted."""
    CLAIM_IN_USE = "ClaimInUse"
    """The claim is allocated, and reserved for as many other pods as may have it."""
    CLAIM_ELSEWHERE = "ClaimElsewhere"
    """A claim of the pod is allocated on a node on which the pod, or its other claims, cannot be."""
    WAITING_FOR_DEVICE_PREPARATION = "WaitingForDevicePreparation"
    """Allocated; kube-scheduler binds the pod once the devices are prepared (binding conditions, KEP-5007)."""
    DEVICE_PREPARATION_FAILED = "DevicePreparationFailed"
    """Allocated; a device could not be prepared, so that kube-scheduler takes the devices back."""
    SCHEDULING_GATED = "SchedulingGated"
    """The pod has scheduling gates: the scheduler does not look at it."""
    WAITING_FOR_PLACEMENT = "WaitingForPlacement"
    """There is room on a managed node, or its gate is about to go: Rootport's controller has not come to it yet."""
    PLACEMENT_NOT_RUNNING = "PlacementNotRunning"
    """There is room on a managed node, and no controller allocates the devices there."""
    PLACEMENT_SAYS_OTHERWISE = "PlacementSaysOtherwise"
    """Its devices are free on a managed node; placement finds no node for another reason, such as CPU or memory."""
    DEVICES_MANAGED = "DevicesManaged"
    """Only managed nodes have room, and placement does not serve what the pod asks for."""
    OTHER_SCHEDULER = "OtherScheduler"
    """The pod is for a scheduler that is not kube-scheduler's default profile."""

    # The claim itself
    DEVICE_CLASS_MISSING = "DeviceClassMissing"
    """A request names a DeviceClass that is not there."""
    CLAIM_INVALID = "ClaimInvalid"
    """It asks for what no cluster of this version can give: an unknown kind of request, a feature that is off."""
    TOO_MANY_DEVICES = "TooManyDevices"
    """It asks for more devices than one claim may get (32)."""
    PARAMETERS_INVALID = "ParametersInvalid"
    """Its opaque parameters for Rootport are wrong: it may be allocated, but no node prepares it."""
    SELECTOR_FAILS = "SelectorFails"
    """A CEL selector ends with an error, for example because a device lacks the attribute."""
    FEATURE_OFF = "FeatureOff"
    """It needs a feature gate that is off on this cluster, so that the API server dropped fields."""
    MANAGED_TAINT_TOLERATED = "ManagedTaintTolerated"
    """It tolerates the taint of managed nodes, so that two allocate the same devices."""
    SEARCH_LIMIT = "SearchLimit"
    """Too many combinations: kube-scheduler gives up after ten seconds."""

    # What is published
    NO_DEVICES_PUBLISHED = "NoDevicesPublished"
    """No ResourceSlice has devices for the node, or for any node."""
    CLASS_SELECTS_TOO_FEW = "ClassSelectsTooFew"
    """The class's selectors leave fewer devices than are asked for, whatever is in use."""
    SELECTOR_SELECTS_TOO_FEW = "SelectorSelectsTooFew"
    """The request's own selectors leave fewer devices than are asked for, whatever is in use."""
    POOL_INCOMPLETE = "PoolIncomplete"
    """Slices of a pool are missing: it is being published, or was not finished."""
    POOL_INVALID = "PoolInvalid"
    """A pool is published wrongly: its driver must repair it."""
    CAPACITY_UNKNOWN = "CapacityUnknown"
    """A capacity of that name is on none of the devices."""
    CAPACITY_TOO_LARGE = "CapacityTooLarge"
    """More of a capacity is asked for than any device has in all, or in amounts that its policy does not have."""
    DEVICE_TAINTED = "DeviceTainted"
    """Taints that the request does not tolerate."""
    ATTRIBUTE_MISSING = "AttributeMissing"
    """A constraint is on an attribute that the devices lack, or have with different types."""
    CONSTRAINT_NOT_SATISFIABLE = "ConstraintNotSatisfiable"
    """No value of the constraint's attribute has enough devices, whatever is in use."""

    # What is in use
    DEVICES_IN_USE = "DevicesInUse"
    """Too few devices that would do are free: claims have them."""
    CAPACITY_IN_USE = "CapacityInUse"
    """No device has enough of a capacity left: shares of claims have it."""
    COUNTERS_IN_USE = "CountersInUse"
    """Free by themselves, but in another mode: the GPU is given whole, in shares, by percent or in partitions."""
    CONSTRAINT_IN_USE = "ConstraintInUse"
    """Enough free devices, but not with one value of the constraint's attribute (or not with different ones)."""
    REQUESTS_COMPETE = "RequestsCompete"
    """Each request could be served alone, not all of them together."""

    # The node
    EXTENDED_RESOURCE_MISSING = "ExtendedResourceMissing"
    """The node has less of an extended resource in all than the pod asks for, and no DeviceClass stands behind it."""
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    """The node is cordoned."""
    NODE_NOT_READY = "NodeNotReady"
    """The node's kubelet does not answer, or says that the node is not ready."""
    NODE_TAINTED = "NodeTainted"
    """The node has taints that the pod does not tolerate."""
    NODE_AFFINITY = "NodeAffinity"
    """The pod's nodeSelector or required node affinity leaves the node out."""
    PLUGIN_NOT_READY = "PluginNotReady"
    """Rootport's plugin on the node does not tell of its devices, or says why it cannot."""
    PREPARE_FAILS = "PrepareFails"
    """Allocated and placed; the node cannot prepare it."""
    SCHEDULER_SAYS_OTHERWISE = "SchedulerSaysOtherwise"
    """Its devices are free; the scheduler's own message names something else, such as CPU or memory."""


UNKNOWN_REASONS: Final = frozenset({Reason.SEARCH_LIMIT, Reason.EXTENDED_RESOURCE_NOT_EVALUATED})
"""Why it is not known whether a pod could be on a node."""
