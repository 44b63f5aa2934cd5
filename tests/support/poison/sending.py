"""Sends what the corpus holds to an API server, byte by byte."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import yaml

from driver.adapters.kubernetes.resources import Resource
from tests.support.poison.corpus import Poison

__all__ = ["Sender"]

_AT_MOST_S: Final = 120.0


class Sender:
    """Writes objects with the rights of a kubeconfig that has a token.

    Args:
        kubeconfig: As :class:`tests.support.cluster.control_plane.ControlPlane` writes them.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server = cluster["server"]
        self._token = config["users"][0]["user"]["token"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def send(self, poisons: Iterable[Poison]) -> dict[str, str]:
        """Create the objects; what the API server said to those that it refused, by ``str`` of the object."""
        refused = {}
        for poison in poisons:
            said = self.create(poison)
            if said:
                refused[str(poison)] = said
        return refused

    def create(self, poison: Poison) -> str:
        """Create an object; why it was refused, empty where it was not."""
        said = self._call("POST", _path(poison), poison.body)
        if said or not poison.status:
            return said
        return self._call("PUT", f"{_path(poison)}/{poison.name}/status", poison.status)

    def merge_patch(self, resource: Resource, namespace: str, name: str, body: bytes) -> str:
        """Change an object; why it was refused, empty where it was not."""
        return self._call("PATCH", f"{_path_of(resource, namespace)}/{name}", body, "application/merge-patch+json")

    def delete(self, poisons: Iterable[Poison]) -> None:
        """Delete the objects that are there."""
        for poison in poisons:
            self._call("DELETE", f"{_path(poison)}/{poison.name}?gracePeriodSeconds=0", b"")

    def _call(self, method: str, path: str, body: bytes, content_type: str = "application/json") -> str:
        """One request; why it was refused, empty where it was not."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        request = urllib.request.Request(f"{self._server}{path}", data=body or None, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=_AT_MOST_S) as answer:
                while answer.read(1 << 20):
                    pass
        except OSError as error:
            if not isinstance(error, urllib.error.HTTPError):
                return f"no answer: {error}"  # some make the API server itself drop the connection
            with error:
                return f"{error.code}: {error.read(500).decode(errors='replace')}"
        return ""


def _path(poison: Poison) -> str:
    return _path_of(poison.resource, poison.namespace)


def _path_of(resource: Resource, in_namespace: str | None) -> str:
    group = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.api_version}"
    namespace = f"/namespaces/{in_namespace}" if in_namespace else ""
    return f"{group}{namespace}/{resource.plural}"
