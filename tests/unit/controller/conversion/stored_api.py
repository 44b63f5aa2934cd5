"""An API server in memory for ResourceClaimTemplates and pods, below the library that sends requests.

It has what the conversion relies on: names, versions, preconditions, dry run, defaults, and one order of all requests.
"""

from __future__ import annotations

import copy
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.connection import Connection
from driver.adapters.kubernetes.request import Request
from driver.api.times import time_text

Json = dict[str, Any]


@dataclass
class StoredAnswer:
    status: int
    body: Json

    def header(self, name: str) -> str | None:
        return None

    def chunks(self) -> Iterator[bytes]:
        yield json.dumps(self.body).encode()

    def set_silence(self, seconds: float) -> None:
        pass

    def shut_down(self) -> None:
        pass

    def close(self) -> None:
        pass


class RefusedError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass
class StoredApi:
    """The server: objects by plural and ``namespace/name``.

    ``before`` is called with each request in the thread that sends it, before anything is done.
    """

    now: Callable[[], datetime]
    before: Callable[[Request], None] = lambda _: None
    objects: dict[str, dict[str, Json]] = field(default_factory=lambda: {"resourceclaimtemplates": {}, "pods": {}})
    requests: list[str] = field(default_factory=list)
    refusal: RefusedError | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._versions = itertools.count(1)

    def api(self) -> KubernetesApi:
        return KubernetesApi(Connection(self, 5.0))

    def send(self, request: Request, timeout_s: float) -> StoredAnswer:
        self.before(request)
        with self._lock:
            dry = " dry" if "dryRun" in request.query else ""
            self.requests.append(f"{request.verb} {request.resource.plural}{dry}")
            try:
                if self.refusal is not None:
                    raise self.refusal
                return StoredAnswer(200, copy.deepcopy(getattr(self, f"_{request.verb}")(request)))
            except RefusedError as error:
                status = {"kind": "Status", "reason": error.reason, "message": error.reason, "code": error.status}
                return StoredAnswer(error.status, status)

    def close(self) -> None:
        pass

    def put(self, plural: str, body: Json) -> Json:
        """Store an object that somebody else writes."""
        with self._lock:
            return self._store(plural, body)

    def templates(self) -> dict[str, Json]:
        return self.objects["resourceclaimtemplates"]

    def _store(self, plural: str, body: Json) -> Json:
        stored = copy.deepcopy(body)
        version = str(next(self._versions))
        metadata = {"uid": f"uid-{version}", "creationTimestamp": time_text(self.now())} | stored["metadata"]
        stored["metadata"] = metadata | {"resourceVersion": version}
        if plural == "resourceclaimtemplates":
            for asked in stored["spec"]["spec"]["devices"]["requests"]:
                asked["exactly"] = {"allocationMode": "ExactCount", "count": 1} | asked["exactly"]
        self.objects[plural][f"{metadata['namespace']}/{metadata['name']}"] = stored
        return stored

    def _found(self, request: Request) -> Json:
        try:
            return self.objects[request.resource.plural][f"{request.namespace}/{request.name}"]
        except KeyError:
            raise RefusedError(404, "NotFound") from None

    def _get(self, request: Request) -> Json:
        return self._found(request)

    def _create(self, request: Request) -> Json:
        plural, body = request.resource.plural, copy.deepcopy(request.body)
        assert body is not None
        metadata = body["metadata"] | {"namespace": request.namespace}
        metadata.setdefault("name", f"{metadata.get('generateName')}x7k2p")
        body["metadata"] = metadata
        key = f"{request.namespace}/{metadata['name']}"
        if key in self.objects[plural]:
            raise RefusedError(409, "AlreadyExists")
        stored = self._store(plural, body)
        if "dryRun" in request.query:
            del self.objects[plural][key]
        return stored

    def _patch(self, request: Request) -> Json:
        found, body = self._found(request), request.body
        assert body is not None
        assert request.content_type == "application/merge-patch+json"
        for key in ("uid", "resourceVersion"):
            if body["metadata"].get(key, found["metadata"][key]) != found["metadata"][key]:
                raise RefusedError(409, "Conflict")
        annotations = found["metadata"].get("annotations", {}) | body["metadata"].get("annotations", {})
        return self._store(
            request.resource.plural, found | {"metadata": found["metadata"] | {"annotations": annotations}}
        )

    def _delete(self, request: Request) -> Json:
        found, body = self._found(request), request.body
        assert body is not None
        for key, value in body.get("preconditions", {}).items():
            if found["metadata"][key] != value:
                raise RefusedError(409, "Conflict")
        del self.objects[request.resource.plural][f"{request.namespace}/{request.name}"]
        return {"kind": "Status", "status": "Success"}

    def _list(self, request: Request) -> Json:
        wanted = dict(item.split("=") for item in request.query.get("labelSelector", "").split(",") if item)
        ended = (
            {"Succeeded", "Failed"} if "status.phase!=Succeeded" in request.query.get("fieldSelector", "") else set()
        )
        items = [
            {"metadata": item["metadata"]} if "PartialObjectMetadataList" in request.accept else item
            for item in self.objects[request.resource.plural].values()
            if request.namespace in (None, item["metadata"]["namespace"])
            and wanted.items() <= item["metadata"].get("labels", {}).items()
            and item.get("status", {}).get("phase") not in ended
        ]
        return {"metadata": {"resourceVersion": str(next(self._versions))}, "items": items}
