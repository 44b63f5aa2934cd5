"""Rootport's chart, and the real Helm that renders and installs it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.paths import REPO

__all__ = ["CHART", "COMPONENTS", "HELM_LABELS", "RELEASE", "Helm", "keyed", "switch", "without_helm"]

CHART: Final = REPO / "resourceclasses"
RELEASE: Final = "rootport"
COMPONENTS: Final = (
    "webhook",
    "webhook-fail-closed",
    "convert-webhook",
    "cni",
    "monitoring",
    "network-policy",
    "placement",
    "extended-resources",
    "pod-annotations",
    "node-labels",
)
"""The kustomization's components, in the order in which they can be named."""

HELM_LABELS: Final = frozenset(
    {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"}
)
"""What the chart adds to each object's labels, as Helm's best practices ask."""

_NAMESPACE: Final = "rootport-system"


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm with nothing of this machine's configuration.

    Attributes:
        program: The binary.
        home: For its caches and configuration.
        kubeconfig: The cluster; None where none is asked.
    """

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes of it."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig or "")}
        return subprocess.run(
            [self.program, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    def __call__(self, *arguments: str | Path) -> str:
        """Run it, and return its standard output.

        Raises:
            AssertionError: It failed; the message is Helm's.
        """
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr or done.stdout
        return done.stdout

    def render(
        self, values: Mapping[str, Any] | None = None, *options: str, chart: Path = CHART
    ) -> list[dict[str, Any]]:
        """Return the objects that the chart makes with these values."""
        text = self("template", RELEASE, chart, f"--namespace={_NAMESPACE}", *self._values(values or {}), *options)
        return [item for item in yaml.safe_load_all(text) if item]

    def notes(self, values: Mapping[str, Any]) -> str:
        """Return what Helm tells whoever installs the chart with these values."""
        command = ("install", RELEASE, CHART, f"--namespace={_NAMESPACE}", "--dry-run=client")
        return self(*command, *self._values(values)).partition("\nNOTES:\n")[2]

    def refusal(self, values: Mapping[str, Any], *options: str) -> str:
        """Return why Helm does not render the chart with these values."""
        command = ("template", RELEASE, CHART, f"--namespace={_NAMESPACE}", *self._values(values), *options)
        done = self.run(*command)
        assert done.returncode != 0, "Helm took it"
        return done.stderr

    def _values(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        file = self.home / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values)))
        return (f"--values={file}",)


def switch(component: str) -> str:
    """Return the value below ``components`` that turns a component on."""
    first, *rest = component.split("-")
    return first + "".join(map(str.capitalize, rest))


def keyed(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the objects by kind, namespace and name; none is there twice."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for item in objects:
        key = (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
        assert key not in found, key
        found[key] = item
    return found


def without_helm(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what the chart adds for Helm: labels, and CRDs' policy to stay."""
    metadata = dict(item["metadata"])
    metadata["labels"] = {key: value for key, value in metadata["labels"].items() if key not in HELM_LABELS}
    annotations = dict(metadata.pop("annotations", {}))
    annotations.pop("helm.sh/resource-policy", None)
    return item | {"metadata": metadata | ({"annotations": annotations} if annotations else {})}
