"""The plugin's options, as its flags give them, checked before anything is started."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driver import DRIVER_NAME
from driver.adapters.http.clients import READERS, Readers
from driver.adapters.logs import LEVELS
from driver.api.validation.names import label, subdomain
from driver.errors import InputError

__all__ = ["BEFORE_BINDING_TYPES", "LEASE_DURATION_S", "Options"]

LEASE_DURATION_S: Final = 40
"""How long a heartbeat holds: one lost renewal, or two, must not look like a dead node."""

BEFORE_BINDING_TYPES: Final = ("mig", "rdma-vf")
"""The types of devices (:class:`driver.model.devices.DeviceType`) whose preparation changes the node."""

_KUBELET: Final = Path("/var/lib/kubelet")
_MAX_SOCKET_PATH: Final = 107  # sun_path of Linux's sockaddr_un, less its closing zero
_MAX_PORT: Final = 65_535
_MAX_DISCOVERY_INTERVAL_S: Final = 86_400
_MAX_HEALTH_INTERVAL_S: Final = 300
_MAX_HEALTH_HOLD_S: Final = 3600
_MAX_RIVAL_HOLD_S: Final = 3600
_MAX_TOLERATED: Final = 64
_RIVAL_NAME: Final = re.compile(r"[A-Za-z0-9*][-A-Za-z0-9._/*]{0,316}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The plugin's options; see ``rootport-kubelet-plugin --help``.

    Attributes:
        node: The node's name.
        instance: Distinguishes this process from another on the same node; a part of the sockets' names.
        host_root: Where the host's ``sys``, ``proc``, ``dev`` and driver files are seen.
        device_root: What stands before host paths in CDI specs; empty on a real host.
        plugin_dir: Sockets and checkpoint; both the kubelet and this process know it by this path.
        hami_core: HAMi-core's library on the host; it need not be there.
        gpu_policies: The file of the administrator's GpuPolicies, which need not be there; None: there are none.
        device_policies: Likewise of DevicePolicies.
        registry_dir: Where the kubelet watches for plugins.
        pod_resources_socket: The kubelet's PodResources socket; it need not be there.
        cdi_dir: Where the runtime reads CDI specs.
        cni_conf_dir: Where the container runtime reads its network configuration, to which Rootport's CNI plugin is
            added; None: it is not.
        cni_conf_file: Which file there; None for the first, which the runtime takes.
        cni_bin_dir: Where the runtime finds CNI plugins; given where the former is.
        cni_program: The CNI plugin, which is copied there; the image has it beside its Python.
        namespace: Rootport's namespace, for the node's Lease.
        kubeconfig: None for the pod's service account.
        heartbeat_interval_s: Between two renewals of the Lease.
        discovery_interval_s: Between two discoveries of the hardware.
        health_interval_s: Between two readings of the devices' health; 0: it is not watched.
        health_hold_s: How long a fault that readings show must have stayed away before it is over.
        log_level: Of :data:`driver.adapters.logs.LEVELS`.
        health_port: For healthz, readyz and metrics; 0 for none.
        metrics_readers: Who may read the metrics there.
        rival_hold_s: For how many seconds a rival counts after it was last seen.
        prepare_before_binding: The types of devices that are prepared before a pod is bound to the node.
        tolerated_rivals: The names of extended resources and DRA drivers that are no rivals.
    """

    node: str
    instance: str = "local"
    host_root: Path = Path("/")
    device_root: str = ""
    hami_core: Path = Path("/usr/local/vgpu/libvgpu.so")
    gpu_policies: Path | None = None
    device_policies: Path | None = None
    plugin_dir: Path = _KUBELET / "plugins" / DRIVER_NAME
    registry_dir: Path = _KUBELET / "plugins_registry"
    pod_resources_socket: Path = _KUBELET / "pod-resources" / "kubelet.sock"
    cdi_dir: Path = Path("/var/run/cdi")
    cni_conf_dir: Path | None = None
    cni_conf_file: str | None = None
    cni_bin_dir: Path | None = None
    cni_program: Path = Path(sys.prefix) / "libexec" / "rootport-cni"
    namespace: str = "rootport-system"
    kubeconfig: Path | None = None
    heartbeat_interval_s: float = 10.0
    discovery_interval_s: float = 60.0
    health_interval_s: float = 10.0
    health_hold_s: float = 60.0
    log_level: str = "info"
    health_port: int = 0
    metrics_readers: Readers = "everyone"
    rival_hold_s: float = 300.0
    tolerated_rivals: tuple[str, ...] = ()
    prepare_before_binding: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what cannot work.

        Raises:
            InputError: The first option that is wrong, by its flag.
        """
        for error in (
            *subdomain("--node-name", self.node),
            *label("--instance", self.instance),
            *label("--namespace", self.namespace),
        ):
            raise InputError(str(error))
        self._check_folders()
        if not 1 <= self.heartbeat_interval_s <= LEASE_DURATION_S / 2:
            raise InputError(
                f"--heartbeat-interval: expected 1 to {LEASE_DURATION_S // 2} seconds",
                hint=f"the node counts as gone when no heartbeat comes for {LEASE_DURATION_S} s",
            )
        if not 1 <= self.discovery_interval_s <= _MAX_DISCOVERY_INTERVAL_S:
            raise InputError(f"--discovery-interval: expected 1 to {_MAX_DISCOVERY_INTERVAL_S} seconds")
        if self.health_interval_s != 0 and not 1 <= self.health_interval_s <= _MAX_HEALTH_INTERVAL_S:
            raise InputError(
                f"--health-interval: expected 0 (not watched), or 1 to {_MAX_HEALTH_INTERVAL_S} seconds",
                hint="errors that the driver reports are heard of at once, whatever the interval",
            )
        if not 0 <= self.health_hold_s <= _MAX_HEALTH_HOLD_S:
            raise InputError(f"--health-hold: expected 0 to {_MAX_HEALTH_HOLD_S} seconds")
        if self.log_level not in LEVELS:
            raise InputError(f"--log-level: expected one of {', '.join(LEVELS)}")
        if self.metrics_readers not in READERS:
            raise InputError(f"--metrics-readers: expected one of {', '.join(READERS)}")
        if not 0 <= self.rival_hold_s <= _MAX_RIVAL_HOLD_S:
            raise InputError(
                f"--rival-hold: expected 0 to {_MAX_RIVAL_HOLD_S} seconds",
                hint="the kubelet waits for a device plugin that has gone for 300 s",
            )
        if len(self.tolerated_rivals) > _MAX_TOLERATED or not all(map(_RIVAL_NAME.fullmatch, self.tolerated_rivals)):
            raise InputError(
                f"--tolerate-rivals: expected at most {_MAX_TOLERATED} names of extended resources or DRA drivers",
                hint="such as openshift.io/storage_vfs, or openshift.io/* for all of a domain",
            )
        if not 0 <= self.health_port <= _MAX_PORT:
            raise InputError(f"--health-port: expected 0 (none) to {_MAX_PORT}")

    def _check_folders(self) -> None:
        if (self.cni_conf_dir is None) != (self.cni_bin_dir is None):
            raise InputError(
                "--cni-conf-dir and --cni-bin-dir: expected both or neither",
                hint="with both, Rootport's CNI plugin is added to the node's network configuration",
            )
        paths = {
            "--hami-core": self.hami_core,
            "--plugin-dir": self.plugin_dir,
            "--registry-dir": self.registry_dir,
            "--pod-resources-socket": self.pod_resources_socket,
            "--cdi-dir": self.cdi_dir,
            "--cni-conf-dir": self.cni_conf_dir,
            "--cni-bin-dir": self.cni_bin_dir,
        }
        for flag, path in paths.items():
            if path is None:
                continue
            if not path.is_absolute() or ".." in path.parts or not str(path).isprintable():
                raise InputError(
                    f"{flag}: expected an absolute path without ..",
                    hint="kubelet or runtime must find it by the same path",
                )
        sockets = {
            "--plugin-dir": self.plugin_dir / f"dra-{self.instance}.sock",
            "--registry-dir": self.registry_dir / f"{DRIVER_NAME}-{self.instance}-reg.sock",
        }
        for flag, socket in sockets.items():
            if len(bytes(socket)) > _MAX_SOCKET_PATH:
                raise InputError(
                    f"{flag}: the socket's path would have {len(bytes(socket))} bytes, Linux allows {_MAX_SOCKET_PATH}",
                    hint="choose a shorter path",
                )
