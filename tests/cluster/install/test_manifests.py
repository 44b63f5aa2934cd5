"""The manifests themselves: complete, as strict as they can be, and of one mind with the programs they start."""

from __future__ import annotations

import json
import os
import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from driver import __version__
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.installation import FOLDER, document
from tests.support.paths import REPO
from tests.unit.resourceclasses.test_manifests import _PROGRAMS, _WORKLOADS

EARLY = REPO / "examples/prepare-before-binding"


@pytest.mark.needs_go
def test_a_server_takes_everything_as_it_is(installed: ControlPlane) -> None:
    said = installed.kubectl("apply", "--kustomize", FOLDER, "--dry-run=server", "--validate=strict")
    assert "daemonset.apps/rootport-kubelet-plugin" in said
    assert "deployment.apps/rootport-controller" in said


@pytest.mark.needs_go
def test_the_cni_component_adds_flags_that_the_plugin_has_and_the_folders_that_they_name(
    installed: ControlPlane, tmp_path: Path
) -> None:
    made = _with_component(installed, "cni", tmp_path)
    (plugin,) = (item for item in yaml.safe_load_all(made) if item["kind"] == "DaemonSet")
    spec = plugin["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    added = [argument for argument in container["args"] if argument.startswith("--cni-")]
    command = import_module(_PROGRAMS["rootport-kubelet-plugin"]).command
    with command.make_context("plugin", ["--node-name=n", *added]) as context:
        folders = {str(context.params[name]) for name in ("cni_conf_dir", "cni_bin_dir")}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert folders < mounts.keys()
    # Both sides name the files by one path.
    assert all(volumes[mounts[path]["name"]] == path for path in (*folders, "/run/netns"))
    assert mounts["/run/netns"]["mountPropagation"] == "HostToContainer"
    assert len(mounts) == len(container["volumeMounts"])


@pytest.mark.needs_go
def test_the_example_of_preparing_before_binding_adds_flags_that_the_plugin_has(installed: ControlPlane) -> None:
    made = installed.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", EARLY)
    (plugin,) = (item for item in yaml.safe_load_all(made) if item["kind"] == "DaemonSet")
    (container,) = plugin["spec"]["template"]["spec"]["containers"]
    added = [argument for argument in container["args"] if "binding" in argument]
    command = import_module(_PROGRAMS["rootport-kubelet-plugin"]).command
    with command.make_context("plugin", ["--node-name=n", *added]) as context:
        assert context.params["prepare_before_binding"] == ("mig", "rdma-vf")


@pytest.mark.needs_go
def test_the_classes_of_extended_resources_are_what_a_server_takes(installed: ControlPlane, tmp_path: Path) -> None:
    made = yaml.safe_load_all(_with_component(installed, "extended-resources", tmp_path))
    classes = [item["spec"] for item in made if item and item["kind"] == "DeviceClass"]
    names = {spec["extendedResourceName"] for spec in classes if "extendedResourceName" in spec}
    assert {"nvidia.com/gpu", "nvidia.com/mig-1g.5gb.me", "amd.com/gpu", "rdma/hca"} < names
    # Those that are installed with the rest stay as they are.
    assert len(classes) == len(names) + 10


@pytest.mark.needs_go
def test_the_network_policies_name_the_pods_and_the_ports_that_there_are(
    installed: ControlPlane, tmp_path: Path
) -> None:
    made = [item for item in yaml.safe_load_all(_with_component(installed, "network-policy", tmp_path)) if item]
    policies = {item["metadata"]["name"]: item["spec"] for item in made if item["kind"] == "NetworkPolicy"}
    workloads = [item for item in made if item["kind"] in _WORKLOADS]
    assert policies.keys() == {item["metadata"]["name"] for item in workloads}
    for workload in workloads:
        policy, template = policies[workload["metadata"]["name"]], workload["spec"]["template"]
        chosen = policy["podSelector"]["matchLabels"]
        assert [chosen.items() <= item["spec"]["template"]["metadata"]["labels"].items() for item in workloads].count(
            True
        ) == 1
        assert chosen.items() <= template["metadata"]["labels"].items()
        ports = {rule["ports"][0]["port"] for rule in policy["ingress"]}
        assert ports == {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        # What asks nobody for a token is not for everybody.
        assert all("from" in rule for rule in policy["ingress"] if rule["ports"][0]["port"] == "health")


@pytest.mark.needs_go
def test_the_kustomization_in_the_guide_sets_the_image(control_plane: ControlPlane, tmp_path: Path) -> None:
    guide = (FOLDER.parent / "docs/operator/install.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    kustomization = next(text for text in blocks if "kind: Kustomization\n" in text)
    (tmp_path / "rootport").symlink_to(FOLDER.parent)
    (tmp_path / "kustomization.yaml").write_text(kustomization)
    text = control_plane.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", tmp_path)
    assert text.count(f"image: registry.example.com/rootport:{__version__}\n") == len(_WORKLOADS)
    assert "image: rootport" not in text


def _documented() -> dict[str, dict[str, Any]]:
    """The kustomizations in users' and operators' pages, and what their parts make of the one before them, by place."""
    found: dict[str, dict[str, Any]] = {}
    for page in sorted(page for who in ("operator", "user") for page in (FOLDER.parent / "docs" / who).glob("*.md")):
        whole: dict[str, Any] = {}
        for number, text in enumerate(re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)):
            if "kind: Kustomization\n" in text:
                whole = yaml.safe_load(text)
            elif not whole or not text.startswith(("components:", "configMapGenerator:", "patches:")):
                continue
            found[f"{page.stem}-{number}"] = whole | yaml.safe_load(text)
    return found


@pytest.mark.needs_go
@pytest.mark.parametrize("place", sorted(_documented()))
def test_a_documented_kustomization_renders_as_its_page_says(
    cluster_binaries: Binaries, tmp_path: Path, place: str
) -> None:
    kustomization = _documented()[place]
    (tmp_path / "rootport").symlink_to(FOLDER.parent)
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    policies = "apiVersion: rootport.dev/v1alpha1\nkind: GpuPolicies\npolicies: [{modes: [gpu]}]\n"
    (tmp_path / "gpu-policies.yaml").write_text(policies)
    command = [cluster_binaries["kubectl"], "kustomize", "--load-restrictor=LoadRestrictionsNone", tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    made = {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(ran.stdout)}
    if "configMapGenerator" in kustomization:
        assert made["ConfigMap", "rootport-gpu-policies"]["data"] == {"gpu-policies.yaml": policies}
        assert ("ConfigMap", "rootport-nic-policies") in made
    if "release:" in str(kustomization.get("patches")):
        monitors = [item for (kind, _), item in made.items() if kind in {"PodMonitor", "PrometheusRule"}]
        assert [item["metadata"]["labels"] for item in monitors] == [{"release": "kube-prometheus-stack"}] * 3
    if "port: https" in str(kustomization.get("patches")):
        (endpoint,) = made["PodMonitor", "rootport-controller"]["spec"]["podMetricsEndpoints"]
        assert (endpoint["port"], endpoint["scheme"], endpoint["honorLabels"]) == ("https", "https", True)


@pytest.mark.needs_go
@pytest.mark.parametrize(
    ("kind", "level", "reason"),
    [
        ("Deployment", "restricted", ""),
        ("DaemonSet", "privileged", ""),
        ("DaemonSet", "baseline", "violates PodSecurity"),
    ],
    ids=lambda value: value,
)
def test_pod_security(installed: ControlPlane, kind: str, level: str, reason: str) -> None:
    namespace = f"install-{level}"
    labels = {"pod-security.kubernetes.io/enforce": level}
    spec = document(kind, _WORKLOADS[kind])["spec"]["template"]["spec"]
    metadata = {"name": spec["serviceAccountName"], "namespace": namespace}
    for body in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
    ):
        installed.kubectl("apply", "--filename=-", input=json.dumps(body))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    command = ("create", "--dry-run=server", "--filename=-")
    said = installed.kubectl(*command, input=json.dumps(pod), check=False)
    assert reason in said if reason else "created" in said


def _with_component(plane: ControlPlane, component: str, folder: Path) -> str:
    """What a user's kustomization with this component makes; the API server takes it."""
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(FOLDER, folder.resolve())],
        "components": [os.path.relpath(FOLDER / "components" / component, folder.resolve())],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    made = plane.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", folder)
    plane.kubectl("apply", "--filename=-", "--dry-run=server", "--validate=strict", input=made)
    return made
