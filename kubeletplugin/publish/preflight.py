"""What the facts about a host mean: is all there that a prepared claim needs, and does nobody else give our devices?

Pure: facts in, findings out. :mod:`kubeletplugin.publish.host_checks` gathers the facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubeletplugin.publish.conditions import Concern, Finding, State
from kubeletplugin.publish.versions import Version, parse_version

__all__ = ["FolderFacts", "NodeFacts", "check_cdi_folder", "check_kubelet", "check_runtime", "check_state_folder"]

_OLDEST_KUBELET: Final = Version(1, 34)  # resource.k8s.io/v1 and DynamicResourceAllocation are GA from there on
_MIN_FREE_BYTES: Final = 1 << 20  # a claim's CDI spec has a few KiB; this leaves room for a node's worth of them
_MIN_FREE_FILES: Final = 64
_DEFAULT_CDI_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi", "/run/cdi")

_ENABLE_CDI: Final = (
    'set enable_cdi = true below [plugins."io.containerd.grpc.v1.cri"] in /etc/containerd/config.toml and restart '
    "containerd"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFacts:
    """A folder that the plugin writes to.

    Attributes:
        path: As this process sees it.
        error: Why a file could not be written there; None where one was.
        free_bytes: Of its file system; None where that is not known.
        free_files: Likewise, inodes; None also where the file system has no such limit.
    """

    path: str
    error: str | None = None
    free_bytes: int | None = None
    free_files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What the Node object says (``status.nodeInfo`` and ``status.capacity``).

    Attributes:
        runtime: ``containerRuntimeVersion``, such as ``containerd://2.1.0``.
        kubelet: ``kubeletVersion``, such as ``v1.36.3``.
        capacity: Resource name to quantity.
    """

    runtime: str
    kubelet: str
    capacity: Mapping[str, str]


def check_cdi_folder(folder: FolderFacts) -> Finding:
    """Whether CDI specs can be written."""
    return _check_folder(Concern.CDI_DIRECTORY_WRITABLE, folder, "the CDI folder (--cdi-dir)")


def check_state_folder(folder: FolderFacts) -> Finding:
    """Whether the checkpoint can be written."""
    return _check_folder(Concern.STATE_DIRECTORY_WRITABLE, folder, "the plugin's folder (--plugin-dir)")


def check_kubelet(node: NodeFacts) -> Finding:
    """Whether the kubelet is new enough."""
    version = parse_version(node.kubelet)
    if version is None:
        message = (
            f"the kubelet's version {node.kubelet[:80]!r} is not understood; Kubernetes {_OLDEST_KUBELET} is needed"
        )
        return _finding(Concern.KUBELET_SUPPORTED, State.UNKNOWN, "VersionNotUnderstood", message)
    if version < _OLDEST_KUBELET:
        message = (
            f"the kubelet is {node.kubelet}: dynamic resource allocation is stable from Kubernetes {_OLDEST_KUBELET} "
            "on; update the node"
        )
        return _finding(Concern.KUBELET_SUPPORTED, State.FALSE, "KubeletTooOld", message)
    return _finding(Concern.KUBELET_SUPPORTED, State.TRUE, "KubeletSupported", f"the kubelet is {node.kubelet}")


def check_runtime(node: NodeFacts, cdi_folder: str) -> Finding:
    """Whether the container runtime injects CDI devices, as far as its version tells.

    The runtime's own configuration cannot be read with the rights that the plugin has; where the version leaves it
    open, the finding is Unknown and says what to look at.

    Sources: containerd's docs/cri/config.md (``enable_cdi``: since 1.7, by default true since 2.0); CRI-O pull request
    6944 (the CRI field CDIDevices, in 1.28); the kubelet sends CDI devices by that field alone since 1.31.
    """
    name, _, text = node.runtime.partition("://")
    version = parse_version(text)
    finding = _runtime_unknown(node.runtime)
    if version is not None and name == "containerd":
        finding = _containerd(node.runtime, version)
    elif version is not None and name == "cri-o":
        finding = _crio(node.runtime, version)
    if finding.state is State.TRUE and cdi_folder not in _DEFAULT_CDI_FOLDERS:
        message = (
            f"{node.runtime} reads CDI specs from /etc/cdi and /var/run/cdi unless told otherwise: its cdi_spec_dirs "
            f"must name {cdi_folder} (--cdi-dir)"
        )
        return _finding(Concern.RUNTIME_READS_CDI, State.UNKNOWN, "FolderOfOnesOwn", message)
    return finding


def _containerd(runtime: str, version: Version) -> Finding:
    if version >= Version(2, 0):
        return _finding(Concern.RUNTIME_READS_CDI, State.TRUE, "OnByDefault", f"{runtime} reads CDI by default")
    if version >= Version(1, 7):
        message = f"{runtime} reads CDI only where it is told to: {_ENABLE_CDI}, or update to containerd 2"
        return _finding(Concern.RUNTIME_READS_CDI, State.UNKNOWN, "OffByDefault", message)
    message = f"{runtime} cannot read CDI: no device will appear in a container; update to containerd 2"
    return _finding(Concern.RUNTIME_READS_CDI, State.FALSE, "RuntimeTooOld", message)


def _crio(runtime: str, version: Version) -> Finding:
    if version >= Version(1, 28):
        return _finding(Concern.RUNTIME_READS_CDI, State.TRUE, "OnByDefault", f"{runtime} reads CDI by default")
    message = f"{runtime} does not take CDI devices as the kubelet sends them; update to CRI-O 1.28 or newer"
    return _finding(Concern.RUNTIME_READS_CDI, State.FALSE, "RuntimeTooOld", message)


def _runtime_unknown(runtime: str) -> Finding:
    message = (
        f"it is not known whether {runtime[:80]!r} injects CDI devices; known to do so are containerd 2 and CRI-O 1.28 "
        "or newer. Check its documentation for CDI, or look for the devices in a test pod"
    )
    return _finding(Concern.RUNTIME_READS_CDI, State.UNKNOWN, "RuntimeNotKnown", message)


def _check_folder(concern: Concern, folder: FolderFacts, what: str) -> Finding:
    if folder.error is not None:
        message = (
            f"{what} {folder.path} cannot be written: {folder.error}; no claim can be prepared. Check the DaemonSet's "
            "volumes and the host's file system"
        )
        return _finding(concern, State.FALSE, "NotWritable", message)
    if folder.free_bytes is not None and folder.free_bytes < _MIN_FREE_BYTES:
        message = f"the file system of {what} {folder.path} has only {folder.free_bytes} bytes left: make space there"
        return _finding(concern, State.FALSE, "NoSpace", message)
    if folder.free_files is not None and folder.free_files < _MIN_FREE_FILES:
        message = (
            f"the file system of {what} {folder.path} has only {folder.free_files} inodes left: remove files there"
        )
        return _finding(concern, State.FALSE, "NoSpace", message)
    return _finding(concern, State.TRUE, "Writable", f"{folder.path} can be written")


def _finding(concern: Concern, state: State, reason: str, message: str) -> Finding:
    return Finding(concern=concern, state=state, reason=reason, message=message)
