"""Creates the ResourceClaimTemplates that converted pods name: one for each distinct claim and namespace.

A template's name is made of its content, and its spec is immutable. So what is there under that name is either what is
wanted or somebody else's, and is never changed; a pod is never left to a template that says anything else.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from controller.conversion.counts import ConversionCounter
from controller.conversion.lifetime import BY_WEBHOOK, Lifetime, is_collected, used_at
from controller.serving.buckets import Buckets, Rate
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import AlreadyExistsError, ConflictError, NotFoundError, UnavailableError
from driver.adapters.kubernetes.resources import RESOURCE_CLAIM_TEMPLATES, JsonObject
from driver.budget import check
from driver.convert import CONVERTED_LABEL
from driver.errors import RootportError

__all__ = ["NEW_TEMPLATES", "TemplateTakenError", "Templates"]

NEW_TEMPLATES: Final = Rate(a_second=2, at_once=100)
"""How many templates are created in one namespace. More than a cluster's workloads need at the start, and a bound on
what pods that all ask for something else, or reviews that no API server sent, can make."""

_LOG: Final = logging.getLogger(__name__)
_ATTEMPTS: Final = 4  # each follows a change that somebody else made at the same moment
_MAX_KNOWN: Final = 1024


class TemplateTakenError(RootportError):
    """Another object has the name of the template that is needed."""


class Templates:
    """Sees to it that templates are there. Thread-safe, and safe beside other replicas.

    Args:
        api: With the rights to get, create and patch resourceclaimtemplates.
        counts: Counts what is created.
        lifetime: When a use is written into a template.
        now: Returns the time.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        api: KubernetesApi,
        counts: ConversionCounter,
        *,
        lifetime: Lifetime | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._counts = counts
        self._lifetime = lifetime or Lifetime()
        self._now = now
        self._new = Buckets(NEW_TEMPLATES, clock)
        self._lock = threading.Lock()
        self._as_stored: OrderedDict[str, Any] = OrderedDict()

    def ensure(self, wanted: Mapping[str, Any], *, dry_run: bool) -> None:
        """Return once a template with exactly this spec is there, and stays for the pod that is to name it.

        Args:
            wanted: A ResourceClaimTemplate with a name and a namespace.
            dry_run: Whether nothing is to be created or changed. That another object has the name is found out.

        Raises:
            TemplateTakenError: Another object has the name.
            ApiServerError: The API server does not answer, or refuses the template.
            SpentError: The budget in force (:mod:`driver.budget`) is spent.
        """
        namespace, name = str(wanted["metadata"]["namespace"]), str(wanted["metadata"]["name"])
        for _ in range(_ATTEMPTS):
            check()
            try:
                found = self._api.get(RESOURCE_CLAIM_TEMPLATES, name, namespace=namespace)
            except NotFoundError:
                if dry_run or self._create(wanted, namespace):
                    return
                continue
            self._check(found, wanted, namespace)
            if dry_run or self._mark_used(found, namespace):
                return
        raise UnavailableError(
            f"ResourceClaimTemplate {namespace}/{name} changes all the time", hint="try again in a moment"
        )

    def _create(self, wanted: Mapping[str, Any], namespace: str) -> bool:
        """Create the template; return False if another replica, or anybody, was faster."""
        if not self._new.take(namespace):
            raise UnavailableError(
                f"too many different requests for devices are new in the namespace {namespace}",
                hint=f"{NEW_TEMPLATES.at_once} are converted at once, and then {NEW_TEMPLATES.a_second:g} a second",
            )
        try:
            made = self._api.create(RESOURCE_CLAIM_TEMPLATES, _body(wanted), namespace=namespace)
        except AlreadyExistsError:
            return False
        self._counts.created()
        self._remember(wanted, made.get("spec"))
        _LOG.info("template created", extra={"template": f"{namespace}/{wanted['metadata']['name']}"})
        return True

    def _check(self, found: JsonObject, wanted: Mapping[str, Any], namespace: str) -> None:
        """Raise unless a stored template is the one that is wanted."""
        name = wanted["metadata"]["name"]
        place = f"{namespace}/{name}"
        if found["metadata"].get("deletionTimestamp"):
            raise TemplateTakenError(
                f"ResourceClaimTemplate {place} is being deleted",
                hint="it is created again once it is gone; if it stays, remove its finalizers",
            )
        spec = found.get("spec")
        if spec is not None and (spec == self._known(wanted) or spec == self._stored(wanted, namespace)):
            return
        raise TemplateTakenError(
            f"ResourceClaimTemplate {place} is not what this pod asks for: somebody else created it under the name "
            "that Rootport needs",
            hint=f"delete it: kubectl --namespace={namespace} delete resourceclaimtemplate {name}",
        )

    def _mark_used(self, found: JsonObject, namespace: str) -> bool:
        """Write that the template is used, unless that is written; return False if it has changed meanwhile."""
        metadata, now = found["metadata"], self._now()
        if not is_collected(metadata) or not self._lifetime.is_stale(metadata, now):
            return True
        body: JsonObject = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": used_at(now),
            }
        }
        try:
            self._api.merge_patch(RESOURCE_CLAIM_TEMPLATES, metadata["name"], body, namespace=namespace)
        except (ConflictError, NotFoundError):
            return False
        return True

    def _stored(self, wanted: Mapping[str, Any], namespace: str) -> Any:
        """Return the spec as the API server stores it, with its defaults and its way to write quantities.

        It is asked: a list of defaults in this program would be wrong for a newer Kubernetes.
        """
        body = _body(wanted)
        body["metadata"] = {"generateName": f"{wanted['metadata']['name']}-", "labels": body["metadata"]["labels"]}
        spec = self._api.create(RESOURCE_CLAIM_TEMPLATES, body, namespace=namespace, dry_run=True).get("spec")
        self._remember(wanted, spec)
        return spec

    def _known(self, wanted: Mapping[str, Any]) -> Any:
        with self._lock:
            return self._as_stored.get(_digest(wanted))

    def _remember(self, wanted: Mapping[str, Any], spec: Any) -> None:
        with self._lock:
            self._as_stored[_digest(wanted)] = spec
            while len(self._as_stored) > _MAX_KNOWN:
                self._as_stored.popitem(last=False)


def _body(wanted: Mapping[str, Any]) -> JsonObject:
    metadata = wanted["metadata"]
    labels = {**metadata.get("labels", {}), CONVERTED_LABEL: BY_WEBHOOK}
    return {**wanted, "metadata": {"name": metadata["name"], "labels": labels}}


def _digest(wanted: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(wanted["spec"], sort_keys=True).encode()).hexdigest()
