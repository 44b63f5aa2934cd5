"""Finds out by a dry run whether the API server keeps the fields that a node's slices need; nothing is stored.

The API server silently drops fields whose feature gate is off. Without counters (DRAPartitionableDevices, off by
default before Kubernetes 1.36) the scheduler would allocate one GPU whole, by percent and in partitions at the same
time, so that has to be known before anything is published. Without taints (DRADeviceTaints) it would allocate broken
devices, and the controller can only report that. Fields of alpha gates are asked for only where the controller's own
--feature-gates turns them on: lists as values of attributes (DRAListTypeAttributes), and what a GPU takes of its node's
CPU and memory (DRANodeAllocatableResources).

So it does with a DeviceClass's ``extendedResourceName`` (DRAExtendedResource): a class that says by an annotation which
name it was given shows whether that was kept.
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

from driver import DRIVER_NAME
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ForbiddenError, InvalidError
from driver.adapters.kubernetes.resources import DEVICE_CLASSES, RESOURCE_SLICES, JsonObject
from driver.api.prepared_device import PREPARATION_FAILED, PREPARED
from driver.api.resource_v1 import API_VERSION
from driver.layout.names import slice_name
from driver.wording import listed

__all__ = ["NO_BINDING_CONDITIONS", "SliceFeatures"]

_LOG: Final = logging.getLogger(__name__)
_NODE: Final = "dry-run"
_COUNTERS: Final = "consumesCounters"
_SHARES: Final = "allowMultipleAllocations"
_TAINTS: Final = "taints"
_LISTS: Final = "attributes"
_NODE_ALLOCATABLE: Final = "nodeAllocatableResources"
_BINDING: Final = "bindingConditions"
_GATES: Final = {
    _COUNTERS: "DRAPartitionableDevices",
    _SHARES: "DRAConsumableCapacity",
    _TAINTS: "DRADeviceTaints",
    _LISTS: "DRAListTypeAttributes",
    _NODE_ALLOCATABLE: "DRANodeAllocatableResources",
}
_PROBES: Final[dict[str, JsonObject]] = {
    _COUNTERS: {_COUNTERS: [{"counterSet": "g0", "counters": {"gpu": {"value": "1"}}}]},
    _SHARES: {_SHARES: True},
    _TAINTS: {_TAINTS: [{"key": f"{DRIVER_NAME}/dry-run", "effect": "NoSchedule"}]},
    _LISTS: {_LISTS: {"dryRun": {"ints": [1, 2]}}},
    _NODE_ALLOCATABLE: {_NODE_ALLOCATABLE: {"cpu": {"overhead": {"perPod": "1"}}}},
    # One is not valid without the other.
    _BINDING: {_BINDING: [PREPARED], "bindingFailureConditions": [PREPARATION_FAILED]},
}
_REFUSED_S: Final = 10.0  # every node asks, and a policy that refuses goes on refusing
# An API server that knows the field admits it on nodes alone whose kubelets declare the feature (k8s.io/kubernetes
# v1.37.2, plugin/pkg/admission/nodedeclaredfeatures).
_ASKS_THE_NODE: Final = re.compile(r'forbidden: node "[^"]*" not found for device')
# What an API server says that knows the field, and not as it is sent here.
_NOT_AS_SENT: Final = {
    # Kubernetes 1.34 wants counters and their consumers in one slice.
    _COUNTERS: re.compile(r"spec\.devices\[0\]\.consumesCounters\b[^:]*: "),
    # Without its list, which is dropped, an attribute has no value.
    _LISTS: re.compile(r"spec\.devices\[0\]\.attributes\b[^:]*: "),
}
_NO_TAINTS: Final = (
    "devices that are unhealthy, without a link or given out by another system are given as well, and no GPU changes "
    "its mode for a claim: the API server drops the taints of devices; its feature gate DRADeviceTaints is off"
)
NO_BINDING_CONDITIONS: Final = (
    "pods are bound before their devices are prepared, although the plugin could prepare them earlier: the API server "
    "drops binding conditions; its feature gate DRADeviceBindingConditions or DRAResourceClaimDeviceStatus is off"
)
"""What a node loses whose plugin prepares devices before a pod is bound, where the API server drops the conditions."""

_NO_SHARES: Final = (
    "GPUs and RDMA NICs are given whole only, also to claims that ask for a share, and VFs are published by name: the "
    "API server drops what says that a device can be shared, and the amounts that claims ask for; its feature gate "
    "DRAConsumableCapacity is off"
)
_EXTENDED_RESOURCE: Final = f"{DRIVER_NAME}/extended-resource"


_ALPHA_LOST: Final = {
    _LISTS: "devices that are in several places, such as several NUMA nodes, are published in the first alone",
    _NODE_ALLOCATABLE: "GPUs bring no CPU and no memory of the node",
}


class SliceFeatures:
    """Asks the API server once, and again after :meth:`forget`. Thread-safe.

    Where it refuses the question, nothing is known: that is an error, since what it keeps decides about safety.

    Args:
        api: The API server.
        lists: Whether to ask for lists as values of attributes.
        node_allocatable: Whether to ask for what a device takes of its node's CPU and memory.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        lists: bool = False,
        node_allocatable: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        alpha = {_LISTS: lists, _NODE_ALLOCATABLE: node_allocatable}
        self._asked = tuple(name for name in _GATES if alpha.get(name, True))
        self._clock = clock
        self._refused: tuple[float, ApiServerError] | None = None
        self._lock = threading.Lock()
        self._kept: frozenset[str] | None = None
        self._keeps_binding: bool | None = None
        self._lost_names: tuple[str, ...] | None = None

    @property
    def has_counters(self) -> bool:
        """Whether it keeps counters as Rootport uses them: consumed in one slice, shared in another (Kubernetes 1.35).

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        return _COUNTERS in self._kept_fields()

    @property
    def has_shares(self) -> bool:
        """Whether it keeps the field that makes a device shareable.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        return _SHARES in self._kept_fields()

    @property
    def has_taints(self) -> bool:
        """Whether it keeps the taints of devices.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        return _TAINTS in self._kept_fields()

    @property
    def has_lists(self) -> bool:
        """Whether attributes may be lists: the administrator says so, and the API server keeps them.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        return _LISTS in self._kept_fields()

    @property
    def has_node_allocatable(self) -> bool:
        """Whether devices may take of their node's CPU and memory, where its kubelet declares it: as :attr:`has_lists`.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        return _NODE_ALLOCATABLE in self._kept_fields()

    @property
    def asks_node_allocatable(self) -> bool:
        """Whether the administrator says that devices may take of their node's CPU and memory."""
        return _NODE_ALLOCATABLE in self._asked

    @property
    def has_binding_conditions(self) -> bool:
        """Whether it keeps binding conditions. Asked for apart: few nodes prepare devices before a pod is bound.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        with self._lock:
            if self._keeps_binding is None:
                self._keeps_binding = self._is_kept(_BINDING)
            return self._keeps_binding

    @property
    def notes(self) -> tuple[str, ...]:
        """What users lose, apart from the devices that the layout leaves out without counters; for a person.

        Raises:
            ApiServerError: It does not answer, or refuses the dry run.
        """
        kept = self._kept_fields()
        alpha = (
            (name, f"{loss}: the API server drops what says it; its feature gate {_GATES[name]} is off")
            for name, loss in _ALPHA_LOST.items()
        )
        lost = ((_SHARES, _NO_SHARES), (_TAINTS, _NO_TAINTS), *alpha)
        notes = [note for name, note in lost if name in self._asked and name not in kept]
        if names := self._lost_extended_resources():
            notes.append(
                f"pods that ask for {listed(names)} are not served: the API server dropped the extendedResourceName of "
                "their DeviceClasses; its feature gate DRAExtendedResource is off, or was when they were applied"
            )
        return tuple(notes)

    def forget(self) -> None:
        """Forget the answer: the API server may have been upgraded since."""
        with self._lock:
            self._kept = self._refused = self._lost_names = self._keeps_binding = None

    def _kept_fields(self) -> frozenset[str]:
        with self._lock:
            if self._kept is None:
                if self._refused is not None and self._clock() < self._refused[0] + _REFUSED_S:
                    raise self._refused[1].with_traceback(None)
                try:
                    self._kept = frozenset(name for name in self._asked if self._is_kept(name))
                except (ForbiddenError, InvalidError) as error:
                    self._refused = self._clock(), error
                    raise
                if lost := set(self._asked) - self._kept:
                    _LOG.error(
                        "the API server drops fields that Rootport needs: turn on its feature gates %s, on the "
                        "scheduler as well (counters take Kubernetes 1.35 besides)",
                        " and ".join(sorted(_GATES[name] for name in lost)),
                        extra={"dropped": sorted(lost)},
                    )
            return self._kept

    def _lost_extended_resources(self) -> tuple[str, ...]:
        """Return the extended resources that DeviceClasses were given, and have not."""
        with self._lock:
            if self._lost_names is None:
                try:
                    classes = self._api.list(DEVICE_CLASSES).items
                except ForbiddenError as error:
                    _LOG.warning("DeviceClasses cannot be read", extra={"error": str(error)})
                    classes = ()
                given = ((_given_name(item), item["spec"].get("extendedResourceName")) for item in classes)
                lost = {name for name, kept in given if name and not kept}
                self._lost_names = tuple(sorted(lost, key=lambda name: (len(name), name)))
            return self._lost_names

    def _is_kept(self, name: str) -> bool:
        try:
            answer = self._api.create(RESOURCE_SLICES, _slice(name), dry_run=True)
        except ForbiddenError as error:
            if name == _NODE_ALLOCATABLE and _ASKS_THE_NODE.search(str(error)):
                return True
            raise
        except InvalidError as error:
            # Any other refusal, such as that of a ValidatingAdmissionPolicy, does not say what the API server keeps.
            expected = _NOT_AS_SENT.get(name)
            if expected is not None and error.causes and all(expected.match(cause) for cause in error.causes):
                return False
            raise
        return name in answer["spec"]["devices"][0]


def _given_name(device_class: JsonObject) -> str | None:
    return (device_class["metadata"].get("annotations") or {}).get(_EXTENDED_RESOURCE)


def _slice(name: str) -> JsonObject:
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        # Another one each time: an object of a foreseeable name would keep all nodes' slices from being published.
        "metadata": {"name": slice_name(_NODE, secrets.token_hex(8), 0)},
        "spec": {
            "driver": DRIVER_NAME,
            "nodeName": _NODE,
            "pool": {"name": _NODE, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu", **_PROBES[name]}],
        },
    }
