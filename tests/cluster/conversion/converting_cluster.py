"""An API server with the webhook that converts pods, as its administrators and users meet it."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE
from tests.support.waiting import eventually

__all__ = ["ConvertingCluster", "deployment", "pod"]

_KIND: Final = "mutatingwebhookconfiguration"
_PODS: Final = "pods.convert.rootport.dev"
_CLAIMS: Final = "claims.convert.rootport.dev"
_CONFIGURATIONS: Final = {_PODS: "rootport-convert", _CLAIMS: "rootport-convert-claims"}


def pod(name: str, limits: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    """A pod that asks for one GPU, or for something else."""
    resources = {"limits": {"nvidia.com/gpu": "1"} if limits is None else limits}
    named = metadata if "generateName" in metadata else {"name": name, **metadata}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": named,
        "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
    }


def deployment(name: str, replicas: int, limits: dict[str, str] | None = None) -> dict[str, Any]:
    """A Deployment of such pods."""
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(name, limits)["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


class ConvertingCluster:
    """The API server, and a namespace whose pods are converted."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace

    def make_namespace(self, name: str, *, opted_in: bool) -> str:
        """Make a namespace, and wait for the service account that pods need."""
        labels = {"rootport.dev/convert": "enabled"} if opted_in else {}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        self.plane.kubectl("create", "--filename=-", input=json.dumps(body))
        eventually(
            "a service account",
            lambda: "default" in self.plane.kubectl("get", "serviceaccounts", f"--namespace={name}", "--output=name"),
        )
        return name

    def send_to(self, port: int) -> None:
        """There is no network for Services here: the API server is given the address instead."""
        self._send({"service": None, "url": f"https://127.0.0.1:{port}/"})
        # A controller looks at its configurations every 30 seconds.
        for name, path in ((_PODS, "/convert/"), (_CLAIMS, "/convert-claims/")):
            eventually(
                "the path", lambda name=name, path=path: path in self.hook(name)["clientConfig"]["url"], timeout_s=45
            )
        # The API server takes a changed configuration up by a watch.
        eventually("the webhook", lambda: "resourceClaims" in self.said(pod("probe"), "--dry-run=server"))

    def send_to_the_service(self) -> None:
        """As the manifests have it: here nobody answers."""
        self._send({"service": {"namespace": NAMESPACE, "name": "rootport-webhook", "port": 443}, "url": None})

    def hook(self, name: str = _PODS) -> dict[str, Any]:
        """A webhook as the API server has it."""
        (hook,) = json.loads(self.plane.kubectl("get", _KIND, _CONFIGURATIONS[name], "--output=json"))["webhooks"]
        found: dict[str, Any] = hook
        return found

    def said(self, body: dict[str, Any], *options: str, namespace: str | None = None) -> str:
        """What kubectl says to the creation of an object."""
        place = f"--namespace={namespace or self.namespace}"
        return self.plane.kubectl(
            "create", "--filename=-", place, "--output=json", *options, input=json.dumps(body), check=False
        )

    def create(self, body: dict[str, Any], *options: str, namespace: str | None = None) -> dict[str, Any]:
        """Create an object; without warnings."""
        found: dict[str, Any] = json.loads(self.said(body, *options, namespace=namespace))
        return found

    def get(self, kind: str, *options: str) -> list[dict[str, Any]]:
        """The objects of the namespace."""
        text = self.plane.kubectl("get", kind, f"--namespace={self.namespace}", "--output=json", *options)
        found: list[dict[str, Any]] = json.loads(text)["items"]
        return found

    def _send(self, client: dict[str, Any]) -> None:
        for name, configuration in _CONFIGURATIONS.items():
            patch = {"webhooks": [{"name": name, "clientConfig": client}]}
            self.plane.kubectl("patch", _KIND, configuration, "--patch", json.dumps(patch))
