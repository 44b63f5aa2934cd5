"""A cluster with one real node: containerd and a kubelet in a machine of their own, with the control plane."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import UnavailableError
from driver.adapters.kubernetes.resources import PODS, Resource
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.machine import Machine
from tests.support.cluster.processes import Process, Processes, wait_until

__all__ = ["NODE_NAME", "RealCluster"]

NODE_NAME: Final = "node-1"
_KUBELET_TOKEN: Final = "kubelet"
_PAUSE_IMAGE: Final = "docker.io/library/pause:test"
_POD_NETWORK: Final = "10.42.0.0/16"


class RealCluster:
    """etcd, API server, scheduler, controller-manager, containerd and kubelet, all of them the real programs.

    Args:
        folder: New; everything goes below it.
        binaries: From :func:`tests.support.cluster.binaries.build`.
        images: OCI archives for containerd, the pause image ``docker.io/library/pause:test`` among them.
        outlive: Whether it goes on when this process ends.
        feature_gates: Of the control plane and the kubelet, by name, where they are not the version's defaults.
        runtime_config: As for the control plane.

    Attributes:
        machine: Where it runs; the host's usual paths are below ``machine.path("/")``.
        control_plane: Its control plane, with ``kubectl``.
        kubelet: The kubelet's process.
        cni_conf_folder: Where containerd reads its network configuration.
        cni_bin_folder: A folder where it finds CNI plugins, empty at first.
    """

    def __init__(
        self,
        folder: Path,
        binaries: Binaries,
        images: Sequence[Path],
        *,
        outlive: bool = False,
        feature_gates: Mapping[str, bool] = MappingProxyType({}),
        runtime_config: str = "",
    ) -> None:
        self.folder = folder
        self.binaries = binaries
        self._images = images
        self._feature_gates = feature_gates
        self.machine = Machine(folder / "machine", host_name=NODE_NAME, outlive=outlive)
        self.control_plane = ControlPlane(
            folder / "control-plane",
            binaries,
            machine=self.machine,
            full=True,
            feature_gates=",".join(f"{name}={str(is_on).lower()}" for name, is_on in feature_gates.items()),
            runtime_config=runtime_config,
        )
        self.control_plane.add_user(_KUBELET_TOKEN, f"system:node:{NODE_NAME}", "system:nodes")
        self.processes = Processes(folder / "logs", self.machine)
        self._containerd_folder = folder / "containerd"
        self.cni_conf_folder = self._containerd_folder / "net.d"
        self.cni_bin_folder = self._containerd_folder / "cni-bin"
        self.kubelet: Process | None = None
        self._api: KubernetesApi | None = None

    def start(self) -> None:
        """Start everything and wait until the node is Ready (about 12 s)."""
        self._write_containerd_config()
        self._write_kubelet_config()
        # A file system of its own, as /run is one on a real node; a small one, so that a test can fill it.
        self.machine.run("mkdir", "/run/cdi")
        self.machine.run("mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", "/run/cdi")
        self.processes.start(
            "containerd",
            self.binaries["containerd"],
            f"--config={self._containerd_folder / 'config.toml'}",
            env={"PATH": f"{self.binaries.folder}:/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        self.control_plane.start()
        wait_until("containerd's socket", self._containerd_socket.exists, timeout_s=30)
        for image in self._images:
            self.import_image(image)
        self.start_kubelet()
        wait_until("the node is Ready", self._node_ready, timeout_s=60)
        wait_until("the default service account", self._has_service_account, timeout_s=30)

    def start_kubelet(self) -> Process:
        """Start the kubelet, again after it was stopped."""
        self.kubelet = self.processes.start(
            "kubelet",
            self.binaries["kubelet"],
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.control_plane.token_kubeconfig('kubelet', _KUBELET_TOKEN)}",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={self.machine.address}",
            "--v=2",
        )
        return self.kubelet

    def import_image(self, archive: Path) -> None:
        """Make the images of an OCI archive known to the kubelet's containerd."""
        self.ctr("images", "import", "--local", archive)

    def ctr(self, *argv: str | Path) -> str:
        """Run ``ctr`` in the kubelet's containerd namespace."""
        done = self.machine.run(
            self.binaries["ctr"], f"--address={self._containerd_socket}", "--namespace=k8s.io", *argv, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"ctr {' '.join(map(str, argv))}: {done.stderr}")
        return done.stdout

    def kubectl(self, *argv: str | Path, **options: Any) -> str:
        """:meth:`tests.support.cluster.control_plane.ControlPlane.kubectl`."""
        return self.control_plane.kubectl(*argv, **options)

    def list(self, resource: Resource, *, namespace: str = "default", field_selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind; for waiting in loops, since each kubectl takes a fifth of a second of a processor."""
        if self._api is None:
            self._api = KubernetesApi.connect(kubeconfig=self.control_plane.kubeconfig)
        api, scope = self._api, namespace if resource.namespaced else None
        deadline = time.monotonic() + 30
        while True:
            try:
                return [*api.list(resource, namespace=scope, field_selector=field_selector).items]
            except UnavailableError:  # it was just started, or a CustomResourceDefinition's storage begins anew
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def get(self, *argv: str) -> dict[str, Any]:
        """``kubectl get … -o json``, read."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *argv, "--output=json"))
        return found

    def wait_for_pod(self, name: str, phase: str, *, namespace: str = "default", timeout_s: float = 60) -> None:
        """Wait until a pod is in a phase; the error says what its events say."""

        def reached() -> bool:
            return self._phases(namespace).get(name) == phase

        try:
            wait_until(f"pod {name} is {phase}", reached, timeout_s=timeout_s)
        except TimeoutError as error:
            story = self.kubectl("describe", "pod", name, f"--namespace={namespace}", check=False)
            raise TimeoutError(f"{error}\n{story}") from None

    def wait_for_no_pod(self, name: str, *, namespace: str = "default", timeout_s: float = 60) -> None:
        """Wait until a deleted pod is gone."""

        wait_until(f"pod {name} is gone", lambda: name not in self._phases(namespace), timeout_s=timeout_s)

    def _phases(self, namespace: str) -> dict[str, str]:
        found = self.list(PODS, namespace=namespace)
        return {item["metadata"]["name"]: item["status"].get("phase", "") for item in found}

    def kubelet_metrics(self) -> str:
        """The kubelet's metrics, in Prometheus' text format."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.machine.address}:10255/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    def stop(self) -> None:
        """End everything at once, and remove the pods' control groups, which outlive their namespaces."""
        if self._api is not None:
            self._api.close()
        self.machine.stop()
        self.processes.stop()
        self.control_plane.stop()
        remove_control_groups()

    @property
    def _containerd_socket(self) -> Path:
        return self._containerd_folder / "containerd.sock"

    def _node_ready(self) -> bool:
        assert self.kubelet is not None
        if not self.kubelet.alive():
            raise RuntimeError(f"the kubelet ended: see {self.kubelet.log}")
        path = "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        return self.kubectl("get", "node", NODE_NAME, path, check=False) == "True"

    def _has_service_account(self) -> bool:
        return "NotFound" not in self.kubectl("get", "serviceaccount", "default", check=False)

    def _write_containerd_config(self) -> None:
        folder = self._containerd_folder
        folder.mkdir(parents=True)
        self.cni_conf_folder.mkdir()
        self.cni_bin_folder.mkdir()
        conflist = {
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": "cni0",
                    "isGateway": True,
                    "ipMasq": False,
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": _POD_NETWORK}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        }
        (self.cni_conf_folder / "10-pods.conflist").write_text(json.dumps(conflist))
        (folder / "config.toml").write_text(
            f"""\
version = 3
root = "{folder}/root"
state = "{folder}/state"

[grpc]
  address = "{self._containerd_socket}"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{_PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{self.binaries.folder}", "{self.cni_bin_folder}"]
    conf_dir = "{self.cni_conf_folder}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{self.binaries["runc"]}"
      SystemdCgroup = false
"""
        )

    def _write_kubelet_config(self) -> None:
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "featureGates": dict(self._feature_gates),
            "containerRuntimeEndpoint": f"unix://{self._containerd_socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": "/",
            # What a machine without systemd, cgroup v2 and CAP_SYS_RESOURCE needs.
            "failCgroupV1": False,
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "localStorageCapacityIsolation": False,
            "failSwapOn": False,
            # Tests read its metrics and its containers' logs without certificates; the network is the machine's own.
            "readOnlyPort": 10255,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "imageMinimumGCAge": "24h",
            "resolvConf": "",
            "clusterDomain": "cluster.local",
            "syncFrequency": "5s",
            "nodeStatusUpdateFrequency": "4s",
        }
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump(config))


def remove_control_groups(mounted_at: Path = Path("/sys/fs/cgroup")) -> None:
    """Remove the pods' empty ones: those of another cluster that runs at the same time are busy, and stay."""
    for root in (*mounted_at.glob("k8s.io"), *mounted_at.glob("*/k8s.io")):  # version 2, and the controllers of 1
        for folder in [*sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True), root]:
            with suppress(OSError):
                folder.rmdir()
