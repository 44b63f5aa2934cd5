"""Rootport on a test cluster: installed by its own manifests, its processes under their own service accounts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import yaml

from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.hardware import FakeHost
from tests.support.cluster.processes import Process, Processes
from tests.support.paths import REPO

__all__ = ["MANIFESTS", "NAMESPACE", "install", "kustomized", "start_controller", "start_plugin"]

MANIFESTS: Final = REPO / "resourceclasses"
NAMESPACE: Final = "rootport-system"
_WORKLOADS: Final = frozenset({"DaemonSet", "Deployment", "PodDisruptionBudget"})


def kustomized(plane: ControlPlane, *components: str, manifests: Path = MANIFESTS) -> str:
    """What a user's kustomization makes that names Rootport's folder and these of its components."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(manifests, folder)],
            "components": [os.path.relpath(manifests / "components" / name, folder) for name in components],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return plane.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", folder)


def install(plane: ControlPlane, *components: str, workloads: bool = False, manifests: Path = MANIFESTS) -> None:
    """``kubectl apply -k resourceclasses/``; without the workloads for tests that start the processes themselves."""
    text = kustomized(plane, *components, manifests=manifests)
    documents = [document for document in yaml.safe_load_all(text) if document]
    if not workloads:
        documents = [document for document in documents if document["kind"] not in _WORKLOADS]
    plane.kubectl("apply", "--server-side", "--filename=-", input=yaml.safe_dump_all(documents))
    plane.wait_for_crds()


def start_controller(
    plane: ControlPlane,
    processes: Processes,
    *options: str,
    name: str = "controller",
    module: str = "controller",
    env: Mapping[str, str] | None = None,
) -> Process:
    """A controller process with the token of its service account.

    Args:
        plane: Whose API server.
        processes: Where it runs.
        options: Further options.
        name: Of the process and of its log.
        module: What Python runs; a module of the tests is found from every working directory.
        env: Further environment variables.
    """
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "rootport-controller")
    if module.startswith("tests."):
        env = {"PYTHONPATH": str(REPO), **(env or {})}
    return processes.start(
        name,
        sys.executable,
        "-m",
        module,
        f"--kubeconfig={kubeconfig}",
        f"--namespace={NAMESPACE}",
        f"--identity={name}",
        "--https-port=0",  # several run side by side; who wants one names it
        "--health-port=0",
        *options,
        env=env,
    )


def start_plugin(
    plane: ControlPlane,
    processes: Processes,
    host: FakeHost,
    *,
    node: str,
    folders: Path | None = None,
    options: Iterable[str] = (),
    instance: str = "local",
    module: tuple[str, ...] = ("-m", "kubeletplugin"),
) -> Process:
    """A plugin process with a token of its service account that is bound to the node, as its pod's would be.

    Args:
        plane: Whose API server.
        processes: Where it runs.
        host: The node's hardware.
        node: The node's name; the Node object must exist.
        folders: Where its folders are; None for the kubelet's real ones. With folders of their own many nodes can be
            simulated on one computer, without kubelets.
        options: Further options.
        instance: Tells two plugins of one node apart.
        module: What Python runs, for tests that run the plugin's main with a fault built in.
    """
    kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "rootport-kubelet-plugin", node=node)
    places = ()
    if folders is not None:
        places = (
            f"--plugin-dir={folders / 'plugins'}",
            f"--registry-dir={folders / 'registry'}",
            f"--cdi-dir={folders / 'cdi'}",
        )
        (folders / "registry").mkdir(parents=True, exist_ok=True)
    return processes.start(
        f"plugin-{node}-{instance}",
        sys.executable,
        *module,
        f"--kubeconfig={kubeconfig}",
        f"--namespace={NAMESPACE}",
        f"--node-name={node}",
        f"--instance={instance}",
        f"--host-root={host.root}",
        f"--device-root={host.root}",
        *places,
        *options,
        env=host.environment,
    )
