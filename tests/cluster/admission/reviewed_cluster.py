"""An API server with the webhook, as its administrators and users meet it."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import NAMESPACE
from tests.support.waiting import eventually

__all__ = ["Cluster", "eventually"]

_HOOKS: Final = ("claims.rootport.dev", "classes.rootport.dev")


class Cluster:
    """The API server as an administrator and users meet it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def send_to(self, port: int) -> None:
        """There is no network for Services here: the API server is given the address instead."""
        self._send({"service": None, "url": f"https://127.0.0.1:{port}/admission"})

    def send_to_the_service(self) -> None:
        """As the manifests have it."""
        self._send({"service": {"namespace": NAMESPACE, "name": "rootport-webhook"}, "url": None})

    def secret(self) -> dict[str, str]:
        text = self.plane.kubectl("get", "secret", "rootport-webhook", f"--namespace={NAMESPACE}", "--output=json")
        data: dict[str, str] = json.loads(text).get("data", {})
        return data

    def hooks(self) -> list[dict[str, Any]]:
        text = self.plane.kubectl("get", "validatingwebhookconfiguration", "rootport", "--output=json")
        hooks: list[dict[str, Any]] = json.loads(text)["webhooks"]
        return hooks

    def forget(self) -> None:
        """As freshly installed: no certificate, and nothing told to the API server."""
        name = ("secret", "rootport-webhook", f"--namespace={NAMESPACE}")
        self.plane.kubectl("patch", *name, "--type=json", '--patch=[{"op": "add", "path": "/data", "value": {}}]')
        client = {"service": {"namespace": NAMESPACE, "name": "rootport-webhook", "path": "/admission", "port": 443}}
        patch = [
            {"op": "replace", "path": f"/webhooks/{index}/{field}", "value": value}
            for index in range(len(_HOOKS))
            for field, value in (("clientConfig", client), ("failurePolicy", "Ignore"))
        ]
        name = ("validatingwebhookconfiguration", "rootport")
        self.plane.kubectl("patch", *name, "--type=json", "--patch", json.dumps(patch))

    def made(self, body: dict[str, Any]) -> str:
        """What kubectl says to the creation of an object that is not kept."""
        return self.plane.kubectl("create", "--dry-run=server", "--filename=-", input=json.dumps(body), check=False)

    def until_made(self, body: dict[str, Any], text: str) -> str:
        """Try until kubectl says this: the API server takes a changed configuration up by a watch."""
        return str(eventually(text, lambda: (said := self.made(body)) and text in said and said))

    def _send(self, client: dict[str, Any]) -> None:
        patch = {"webhooks": [{"name": name, "clientConfig": client} for name in _HOOKS]}
        self.plane.kubectl("patch", "validatingwebhookconfiguration", "rootport", "--patch", json.dumps(patch))
