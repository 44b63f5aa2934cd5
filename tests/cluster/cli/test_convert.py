"""``rootport convert`` on a real API server: kubectl takes what it prints, and a reader may assess the cluster."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.control_plane import ControlPlane
from tests.support.foreign_workloads import foreign_workloads, manifest_of, workload
from tests.support.paths import REPO

Run = Callable[..., Any]


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    name = f"convert-{uuid.uuid4().hex[:8]}"
    control_plane.kubectl("create", "namespace", name)
    for account in ("default", "reader"):  # no controller manager runs here
        control_plane.kubectl("create", "serviceaccount", account, f"--namespace={name}")
    return name


def moved(item: dict[str, Any], namespace: str) -> dict[str, Any]:
    return item | {"metadata": item["metadata"] | {"namespace": namespace}}


@pytest.mark.needs_go
def test_kubectl_takes_what_is_printed(
    rootport: Run, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    path = tmp_path / "all.yaml"
    wanted = [moved(item, namespace) for item in foreign_workloads(14)]
    path.write_text(manifest_of(*wanted))
    ran = rootport("convert", path)
    said = control_plane.kubectl("apply", "--validate=strict", "--filename=-", input=ran.out)
    assert said.count("created") == len(said.splitlines())
    assert len(said.splitlines()) > len(wanted)
    # A template cannot be changed: for the second time it is the same.
    control_plane.kubectl("apply", "--validate=strict", "--filename=-", input=ran.out)


@pytest.mark.needs_go
def test_the_examples_are_taken_as_they_are_and_converted(
    rootport: Run, control_plane: ControlPlane, namespace: str
) -> None:
    for path in sorted((REPO / "examples" / "convert").glob("*.yaml")):
        for text in (path.read_text(), rootport("convert", path).out):
            ours = text.replace("namespace: ml", f"namespace: {namespace}").replace(
                "name: ml\n", f"name: {namespace}\n"
            )
            options = ("--dry-run=server", "--validate=strict", f"--namespace={namespace}")
            control_plane.kubectl("apply", *options, "--filename=-", input=ours)


@pytest.mark.needs_go
def test_a_cluster_is_assessed_with_the_role_view(rootport: Run, control_plane: ControlPlane, namespace: str) -> None:
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "reader")
    refused = rootport("convert", "--check", "-n", namespace, "--kubeconfig", kubeconfig)
    assert (refused.code, refused.out) == (2, "")
    assert f"ask for the ClusterRole view in namespace {namespace}" in refused.err
    # What the controller manager, which does not run here, makes the ClusterRole view of.
    to_reader = ("--clusterrole=system:aggregate-to-view", f"--serviceaccount={namespace}:reader")
    control_plane.kubectl("create", "rolebinding", "reader", *to_reader, f"--namespace={namespace}")
    asks = ("Koordinator", "Koordinator, refused", "NVIDIA", "none")
    objects = [moved(workload(number, "Deployment", ask), namespace) for number, ask in enumerate(asks)]
    control_plane.kubectl("apply", "--filename=-", input=manifest_of(*objects))
    ran = rootport("convert", "--check", "-n", namespace, "--kubeconfig", kubeconfig, "-o", "json")
    assert ran.code == 1, ran.err
    summary = json.loads(ran.out)["summary"]
    assert (summary["asking"], summary["converted"], summary["refused"], summary["withoutDevices"]) == (3, 2, 1, 1)
