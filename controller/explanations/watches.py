"""The watches that only explanations need: classes, templates, pods that are not placed, and taint rules."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from controller.cluster.packed import pack
from controller.explanations.mirror import Mirror
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
from driver.explain.known.reading import MAX_POD_CLAIMS
from driver.objects.extended_resources import MAX_POD_RESOURCES, extended_amounts

__all__ = ["ExplanationWatches", "pod_essence"]

_LOG: Final = logging.getLogger(__name__)
_DATA: Final = "data"
_ASK_AGAIN_S: Final = 600.0
_RETRY_S: Final = 5.0

# Of a Pod what explain reads; environments and images of containers are most of it.
_POD_METADATA: Final = ("name", "namespace", "uid", "deletionTimestamp", "ownerReferences")
_POD_SPEC: Final = (
    "affinity",
    "nodeName",
    "nodeSelector",
    "resourceClaims",
    "schedulerName",
    "schedulingGates",
    "tolerations",
)
_POD_STATUS: Final = ("phase", "resourceClaimStatuses", "extendedResourceClaimStatus")


class ExplanationWatches:
    """Feeds a mirror. :class:`~controller.cluster.view.ClusterView` feeds it all other kinds.

    Args:
        api: The API server.
        mirror: What is fed.
    """

    def __init__(self, api: KubernetesApi, mirror: Mirror) -> None:
        self._api = api
        self._mirror = mirror
        self._rules_known = threading.Event()
        self._watches = {
            "deviceclasses": self._watch(DEVICE_CLASSES, _whole),
            "resourceclaimtemplates": self._watch(RESOURCE_CLAIM_TEMPLATES, _name_alone, metadata_only=True),
            "pods": self._watch(PODS, pod_essence, field_selector="spec.nodeName="),
        }

    def start(self, stop: threading.Event) -> list[threading.Thread]:
        """Watch until ``stop`` is set, in threads of their own."""
        threads = [
            threading.Thread(target=watch.run, args=(stop,), name=f"watch-{name}", daemon=True)
            for name, watch in self._watches.items()
        ]
        threads.append(
            threading.Thread(target=self._watch_rules, args=(stop,), name="watch-devicetaintrules", daemon=True)
        )
        for thread in threads:
            thread.start()
        return threads

    @property
    def are_synced(self) -> bool:
        """Whether everything was read once."""
        return self._rules_known.is_set() and all(watch.synced.is_set() for watch in self._watches.values())

    def _watch_rules(self, stop: threading.Event) -> None:
        """DeviceTaintRules, in the version that is served; where none is, ask again now and then.

        Up to Kubernetes 1.36 their API is off by default, so that its absence is no error.
        """
        said = ""
        while not stop.is_set():
            try:
                served = self._served_rules()
            except ApiServerError as error:
                if said != str(error):
                    said = str(error)
                    _LOG.warning("cannot ask for DeviceTaintRules", extra={"error": said, "retry_in_s": _RETRY_S})
                stop.wait(_RETRY_S)
                continue
            if served is None:
                self._rules_known.set()
                stop.wait(_ASK_AGAIN_S)
            else:
                watch = self._watch(served, _whole)
                watch.synced = self._rules_known
                watch.run(stop)

    def _served_rules(self) -> Resource | None:
        """The resource that is served; None where none is.

        Raises:
            ApiServerError: Nobody could say.
        """
        for resource in DEVICE_TAINT_RULE_VERSIONS:
            try:
                self._api.list(resource, metadata_only=True, transform=lambda _stored: {})
            except NotFoundError:
                continue
            return resource
        return None

    def _watch(
        self,
        resource: Resource,
        essence: Callable[[JsonObject], JsonObject | None],
        *,
        metadata_only: bool = False,
        field_selector: str = "",
    ) -> Reflector:
        def kept(wire: JsonObject) -> JsonObject:
            metadata = wire["metadata"]
            identity = {key: metadata[key] for key in ("name", "namespace", "resourceVersion") if key in metadata}
            found = essence(wire)
            return {"metadata": identity, _DATA: None if found is None else pack(found)}

        def tell(key: str) -> None:
            found = reflector.get(key)
            data = None if found is None else found[_DATA]
            if data is None:
                self._mirror.remove(resource.kind, key)
            else:
                self._mirror.put(resource.kind, key, data)

        reflector = Reflector(
            self._api,
            resource,
            field_selector=field_selector,
            metadata_only=metadata_only,
            on_change=tell,
            transform=kept,
        )
        return reflector


def _whole(wire: JsonObject) -> JsonObject:
    return wire


def _name_alone(wire: JsonObject) -> JsonObject:
    return {"metadata": {key: wire["metadata"][key] for key in ("name", "namespace")}}


def pod_essence(wire: JsonObject) -> JsonObject | None:
    """What is kept of a pod; None for one without claims and extended resources, as most pods are."""
    spec, status = wire.get("spec") or {}, wire.get("status") or {}
    containers = {field: _containers(spec.get(field) or ()) for field in ("initContainers", "containers")}
    is_extended = any(map(any, containers.values()))
    if not spec.get("resourceClaims") and not is_extended:
        return None
    # One more than is looked at, so that whoever reads them knows that there are more.
    spec["resourceClaims"] = (spec.get("resourceClaims") or [])[: MAX_POD_CLAIMS + 1]
    scheduled = [item for item in status.get("conditions") or () if item.get("type") == "PodScheduled"]
    return {
        "metadata": {key: wire["metadata"][key] for key in _POD_METADATA if key in wire["metadata"]},
        "spec": {key: spec[key] for key in _POD_SPEC if key in spec} | (containers if is_extended else {}),
        "status": {key: status[key] for key in _POD_STATUS if key in status}
        | {"conditions": [{key: item.get(key) for key in ("type", "status", "message")} for item in scheduled]},
    }


def _containers(containers: Sequence[JsonObject]) -> list[JsonObject]:
    """In their order, of those that ask for extended resources what they request, of others nothing."""
    kept: list[JsonObject] = []
    for container in containers:
        requests = (container.get("resources") or {}).get("requests") or {}
        # One more than is looked at, so that whoever reads them knows that there are more.
        few = dict(islice(requests.items(), MAX_POD_RESOURCES + 1))
        if len(few) > MAX_POD_RESOURCES or extended_amounts(few):
            policy = {"restartPolicy": container["restartPolicy"]} if container.get("restartPolicy") else {}
            kept.append({"resources": {"requests": few}} | policy)
        else:
            kept.append({})
    return kept
