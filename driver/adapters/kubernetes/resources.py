"""The kinds of objects that Rootport reads and writes, and where the API server keeps them.

Plurals, kinds and scopes are Kubernetes' own (k8s.io/api v0.36.3); those under ``rootport.dev`` come from our CRDs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

__all__ = [
    "DAEMON_SETS",
    "DEVICES",
    "DEVICE_CLASSES",
    "DEVICE_TAINT_RULES",
    "DEVICE_TAINT_RULE_VERSIONS",
    "EVENTS",
    "EVENTS_K8S_IO",
    "LEASES",
    "MUTATING_WEBHOOK_CONFIGURATIONS",
    "NODES",
    "NODE_INVENTORIES",
    "PODS",
    "RESOURCE_CLAIMS",
    "RESOURCE_CLAIM_TEMPLATES",
    "RESOURCE_SLICES",
    "SECRETS",
    "SERVER_VERSION",
    "SUBJECT_ACCESS_REVIEWS",
    "TOKEN_REVIEWS",
    "VALIDATING_WEBHOOK_CONFIGURATIONS",
    "JsonObject",
    "Resource",
    "object_key",
]

JsonObject: TypeAlias = dict[str, Any]
"""An object in the wire format: camelCase keys, JSON values."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object in one version of its API group.

    Attributes:
        group: The API group; empty for the core group.
        version: The version of the group, such as ``v1``; empty for a path that is no kind of object (RBAC calls it a
            nonResourceURL).
        plural: The name in URLs and in RBAC rules, such as ``resourceclaims``.
        kind: The name in objects, such as ``ResourceClaim``.
        namespaced: Whether its objects live in namespaces.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """Return the name that kubectl and RBAC messages use: ``resourceclaims.resource.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NODES: Final = Resource("", "v1", "nodes", "Node")
PODS: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
EVENTS: Final = Resource("", "v1", "events", "Event", namespaced=True)
EVENTS_K8S_IO: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
"""The same objects as EVENTS in the newer API group, with its fields."""

DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
VALIDATING_WEBHOOK_CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"
)
MUTATING_WEBHOOK_CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
)
TOKEN_REVIEWS: Final = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview")
SUBJECT_ACCESS_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
RESOURCE_CLAIM_TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice")
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass")
DEVICE_TAINT_RULES: Final = Resource("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule")
"""Served since Kubernetes 1.37."""
DEVICE_TAINT_RULE_VERSIONS: Final = (
    DEVICE_TAINT_RULES,
    *(replace(DEVICE_TAINT_RULES, version=version) for version in ("v1beta2", "v1alpha3")),
)
"""Newest first. Before 1.37 they are served only with the API server's feature gate DRADeviceTaintRules."""

SERVER_VERSION: Final = Resource("", "", "version", "Info")
"""The path ``/version``, which everyone who is authenticated may read (ClusterRole system:public-info-viewer)."""

NODE_INVENTORIES: Final = Resource("rootport.dev", "v1alpha1", "nodeinventories", "NodeInventory")
DEVICES: Final = Resource("rootport.dev", "v1alpha1", "devices", "Device")


def object_key(stored: JsonObject) -> str:
    """Return the key of a stored object: ``namespace/name``, or ``name`` without a namespace."""
    metadata = stored["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
