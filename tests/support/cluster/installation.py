"""Rootport on the real node, installed by ``kubectl apply -k`` as a user does it: this tree or a former one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.cluster.binaries import cache_folder
from tests.support.cluster.cni_program import build_cni_program
from tests.support.cluster.driver import NAMESPACE
from tests.support.cluster.images import build_rootport
from tests.support.cluster.rootport import RunningRootport
from tests.support.cluster.strategies import policies

__all__ = ["CONTROLLER", "PLUGIN", "Installation", "installations", "logs"]

PLUGIN: Final = "daemonset/rootport-kubelet-plugin"
CONTROLLER: Final = "deployment/rootport-controller"
_WORKLOADS: Final = (CONTROLLER, PLUGIN)


class Installation:
    """One version of Rootport: its image, and a kustomization as a user would write one for the test node.

    Args:
        running: The node. Its own processes must be stopped before a version is applied.
        source: The repository's files, of this tree or of a former commit.
        folder: New: where the kustomization goes.
        plugin_command: What the plugin's container runs instead of ``rootport-kubelet-plugin``.

    Attributes:
        kustomization: The folder to apply.
    """

    def __init__(
        self, running: RunningRootport, source: Path, folder: Path, *, plugin_command: Sequence[str] | None = None
    ) -> None:
        self._running = running
        self._source = source
        self.kustomization = folder
        running.cluster.import_image(build_rootport(source, cache_folder()))
        self._write(plugin_command)

    def apply(self) -> None:
        """``kubectl apply -k``; nothing is waited for."""
        self._running.cluster.kubectl("apply", "--kustomize", self.kustomization)

    def wait(self) -> None:
        """Wait until both workloads are rolled out."""
        for workload in _WORKLOADS:
            self._running.cluster.kubectl(
                "rollout", "status", workload, f"--namespace={NAMESPACE}", "--timeout=180s", timeout=190
            )

    def _write(self, plugin_command: Sequence[str] | None) -> None:
        """Ours, with the plugin told where this node's hardware is described."""
        root, container = self._running.host.root, "/spec/template/spec/containers/0"
        manifests, folder = self._source / "resourceclasses", self.kustomization
        # A program of its own for each version: they differ in the folder that says which pods get interfaces.
        program = build_cni_program(
            root / f"rootport-cni-of-{folder.name}", state=root / "run/rootport/cni", source=self._source
        )
        patch: list[dict[str, Any]] = [
            {"op": "add", "path": f"{container}/args/-", "value": f"--host-root=/host{root}"},
            {"op": "add", "path": f"{container}/args/-", "value": f"--device-root={root}"},
            {"op": "add", "path": f"{container}/args/-", "value": f"--cni-program=/host{program}"},
            {
                "op": "add",
                "path": f"{container}/env/-",
                "value": {"name": "ROOTPORT_STUB_NVML", "value": f"/host{root}/nvml.txt"},
            },
            # The real host's /run, /dev and GPUs are file systems of their own below a read-only /host, or none at all.
            {
                "op": "add",
                "path": f"{container}/volumeMounts/-",
                "value": {"name": "described-hardware", "mountPath": f"/host{root}"},
            },
            {
                "op": "add",
                "path": "/spec/template/spec/volumes/-",
                "value": {"name": "described-hardware", "hostPath": {"path": str(root), "type": "Directory"}},
            },
        ]
        # An update removes an old pod that is not ready before the new one is there, and the machine is busy with other
        # tests.
        patch += [
            {"op": "add", "path": f"{container}/readinessProbe/timeoutSeconds", "value": 20},
            {"op": "add", "path": f"{container}/readinessProbe/failureThreshold", "value": 10},
        ]
        if plugin_command is not None:
            patch.append({"op": "replace", "path": f"{container}/command", "value": list(plugin_command)})
        cluster = self._running.cluster
        cni_folders = {"cni-conf": cluster.cni_conf_folder, "cni-bin": cluster.cni_bin_folder}
        volumes = [{"name": name, "hostPath": {"path": str(path)}} for name, path in cni_folders.items()]
        folder.mkdir(parents=True)
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(manifests, folder)],
            "components": [os.path.relpath(manifests / "components/cni", folder)],
            "patches": [
                {"target": {"kind": "DaemonSet"}, "patch": yaml.safe_dump(patch)},
                {"patch": yaml.safe_dump(_gpu_policies(policies({"mps": self._running.host.gpus[:1]})))},
                {"patch": yaml.safe_dump(_daemon_set({"spec": {"template": {"spec": {"volumes": volumes}}}}))},
            ],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))


@contextmanager
def installations(running: RunningRootport) -> Iterator[None]:
    """Have no processes of :class:`RunningRootport` in the block, and start them again after it.

    Afterwards no installation is left but the objects of the last one that was applied: it must be of this tree.
    """
    cluster = running.cluster
    running.stop()
    try:
        yield
    finally:
        for name in ("controller", "kubelet-plugin"):
            (cluster.folder / f"{name}.pods.log").write_text(logs(running, name))
        (cluster.folder / "installed.inventories.log").write_text(
            cluster.kubectl("get", "nodeinventories", "--output=yaml", check=False)
        )
    cluster.kubectl("delete", *_WORKLOADS, f"--namespace={NAMESPACE}", "--cascade=foreground")
    running.start_controller()
    running.start_plugin()


def logs(running: RunningRootport, component: str) -> str:
    """What the pods of a component (``controller`` or ``kubelet-plugin``) have logged, those that are there now."""
    selector = f"--selector=app.kubernetes.io/component={component}"
    return running.cluster.kubectl("logs", selector, f"--namespace={NAMESPACE}", "--tail=-1", check=False)


def _gpu_policies(document: dict[str, Any]) -> dict[str, Any]:
    """A strategic merge patch of the ConfigMap with the GpuPolicies."""
    metadata = {"name": "rootport-gpu-policies", "namespace": NAMESPACE}
    data = {"gpu-policies.yaml": yaml.safe_dump(document)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _daemon_set(body: dict[str, Any]) -> dict[str, Any]:
    """A strategic merge patch of the plugin's DaemonSet."""
    metadata = {"name": "rootport-kubelet-plugin", "namespace": NAMESPACE}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, **body}
