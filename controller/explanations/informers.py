"""The informers that only explanations need: classes, templates, unscheduled pods, and taint rules."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from controller.cluster.packed import pack
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, NotFoundError
from driver.adapters.kubernetes.reflector import Reflector
from driver.adapters.kubernetes.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULE_VERSIONS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    JsonObject,
    Resource,
)
from driver.explain.known.needs_reading import NEEDS_METADATA, NEEDS_SPEC, kept_needs
from driver.explain.known.pod_reading import MAX_POD_CLAIMS
from driver.objects.extended_resources import MAX_POD_RESOURCES, extended_amounts

__all__ = ["ExplanationInformers", "ObjectSink", "transform_pod"]

_LOG: Final = logging.getLogger(__name__)
_ASK_AGAIN_S: Final = 600.0
_RETRY_S: Final = 5.0

# What explain reads of a Pod; environments and images of containers are most of it.
_POD_METADATA: Final = ("name", "namespace", "uid", "deletionTimestamp", "ownerReferences", *NEEDS_METADATA)
_POD_SPEC: Final = (
    *NEEDS_SPEC,
    "nodeName",
    "nodeSelector",
    "resourceClaims",
    "schedulerName",
    "schedulingGates",
    "tolerations",
)
_POD_STATUS: Final = ("phase", "resourceClaimStatuses", "extendedResourceClaimStatus")


class ObjectSink(Protocol):
    """Gets objects by kind and key."""

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Take in an object that is new or has changed; ``data`` is of :func:`controller.cluster.packed.pack`."""

    def remove(self, kind: str, key: str) -> None:
        """Drop an object that is gone, or is left out."""


class ExplanationInformers:
    """Watches four kinds for explanations; :class:`~controller.cluster.informers.ClusterInformers` watches the others.

    Args:
        api: The API server.
        cluster: Gets their objects.
        pods: Returns what is kept of a pod; None to leave it out.
        of_pods: Which pods are watched, as kubectl's ``--field-selector``.
    """

    def __init__(
        self,
        api: KubernetesApi,
        cluster: ObjectSink,
        *,
        pods: Callable[[JsonObject], JsonObject | None] = lambda wire: transform_pod(wire),  # noqa: PLW0108 - it stands below
        of_pods: str = "spec.nodeName=",
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._rules_known = threading.Event()
        self._reflectors = {
            "deviceclasses": self._reflector(DEVICE_CLASSES, _whole),
            "resourceclaimtemplates": self._reflector(RESOURCE_CLAIM_TEMPLATES, _name_only, metadata_only=True),
            "pods": self._reflector(PODS, pods, field_selector=of_pods),
        }

    def start(self, stop: threading.Event) -> list[threading.Thread]:
        """Watch until ``stop`` is set, in threads of their own."""
        threads = [
            threading.Thread(target=reflector.run, args=(stop,), name=f"watch-{name}", daemon=True)
            for name, reflector in self._reflectors.items()
        ]
        threads.append(
            threading.Thread(target=self._watch_rules, args=(stop,), name="watch-devicetaintrules", daemon=True)
        )
        for thread in threads:
            thread.start()
        return threads

    @property
    def are_synced(self) -> bool:
        """Whether everything has been read once."""
        return self._rules_known.is_set() and all(item.synced.is_set() for item in self._reflectors.values())

    def _watch_rules(self, stop: threading.Event) -> None:
        """Watch DeviceTaintRules in the version that is served; if none is, ask again now and then.

        Up to Kubernetes 1.36 their API is off by default, so that its absence is no error.
        """
        logged = ""
        while not stop.is_set():
            try:
                served = self._served_rules()
            except ApiServerError as error:
                if logged != str(error):
                    logged = str(error)
                    _LOG.warning("cannot ask for DeviceTaintRules", extra={"error": logged, "retry_in_s": _RETRY_S})
                stop.wait(_RETRY_S)
                continue
            if served is None:
                self._rules_known.set()
                stop.wait(_ASK_AGAIN_S)
            else:
                reflector = self._reflector(served, _whole)
                reflector.synced = self._rules_known
                reflector.run(stop)

    def _served_rules(self) -> Resource | None:
        """Return the resource that is served; None if none is.

        Raises:
            ApiServerError: The API server does not answer that.
        """
        for resource in DEVICE_TAINT_RULE_VERSIONS:
            try:
                self._api.list(resource, metadata_only=True, transform=lambda _stored: {})
            except NotFoundError:
                continue
            return resource
        return None

    def _reflector(
        self,
        resource: Resource,
        transform: Callable[[JsonObject], JsonObject | None],
        *,
        metadata_only: bool = False,
        field_selector: str = "",
    ) -> Reflector[bytes | None]:
        def identity(wire: JsonObject) -> tuple[JsonObject, bytes | None]:
            metadata = wire["metadata"]
            kept = {key: metadata[key] for key in ("name", "namespace", "resourceVersion") if key in metadata}
            found = transform(wire)
            return {"metadata": kept}, None if found is None else pack(found)

        def forward(key: str, data: bytes | None) -> None:
            if data is None:
                self._cluster.remove(resource.kind, key)
            else:
                self._cluster.put(resource.kind, key, data)

        return Reflector(
            self._api,
            resource,
            field_selector=field_selector,
            metadata_only=metadata_only,
            on_change=forward,
            transform=identity,
        )


def _whole(wire: JsonObject) -> JsonObject:
    return wire


def _name_only(wire: JsonObject) -> JsonObject:
    return {"metadata": {key: wire["metadata"][key] for key in ("name", "namespace")}}


def transform_pod(wire: JsonObject) -> JsonObject | None:
    """Keep what explain reads of a pod; None of one without claims and extended resources, as most are."""
    spec, status = wire.get("spec") or {}, wire.get("status") or {}
    if not spec.get("resourceClaims") and not _asks_for_extended(spec):
        return None
    # One more than is read, so that explain knows that there are more.
    spec["resourceClaims"] = (spec.get("resourceClaims") or [])[: MAX_POD_CLAIMS + 1]
    scheduled = [item for item in status.get("conditions") or () if item.get("type") == "PodScheduled"]
    return {
        "metadata": {key: wire["metadata"][key] for key in _POD_METADATA if key in wire["metadata"]},
        "spec": {key: spec[key] for key in _POD_SPEC if key in spec} | kept_needs(spec),
        "status": {key: status[key] for key in _POD_STATUS if key in status}
        | {"conditions": [{key: item.get(key) for key in ("type", "status", "message")} for item in scheduled]},
    }


def _asks_for_extended(spec: JsonObject) -> bool:
    """Whether a container asks for extended resources, or for so many resources that it may."""
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        requests = (container.get("resources") or {}).get("requests") or {}
        few = dict(islice(requests.items(), MAX_POD_RESOURCES + 1))
        if len(few) > MAX_POD_RESOURCES or extended_amounts(few):
            return True
    return False
