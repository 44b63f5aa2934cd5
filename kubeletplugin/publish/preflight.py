"""Decides from facts about the host whether everything that a prepared claim needs is there.

Pure: facts in, reports out. :mod:`kubeletplugin.publish.host_checks` gathers the facts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kubeletplugin.publish.conditions import ConditionReport, ConditionStatus, ConditionType

__all__ = [
    "FolderFacts",
    "NodeFacts",
    "check_cdi_folder",
    "check_kubelet",
    "check_runtime",
    "check_state_folder",
    "check_strategies",
]


class _Version(NamedTuple):
    """The version of a kubelet or runtime, as far as a check needs it; compares as versions do."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


_VERSION: Final = re.compile(r"v?([0-9]{1,6})\.([0-9]{1,6})(?:[.+-].*)?", re.ASCII | re.DOTALL)
_OLDEST_KUBELET: Final = _Version(1, 34)  # resource.k8s.io/v1 and DynamicResourceAllocation are GA from there on
_OF_STRATEGY: Final = {"mps": ConditionType.MPS_AVAILABLE, "hamiCore": ConditionType.HAMI_CORE_AVAILABLE}
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
        error: Why no file could be written there; None if one was.
        free_bytes: Free bytes of its file system; None if unknown.
        free_files: Free inodes; None if unknown, or if the file system has no such limit.
    """

    path: str
    error: str | None = None
    free_bytes: int | None = None
    free_files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Facts from the Node object (``status.nodeInfo`` and ``status.capacity``).

    Attributes:
        runtime: ``containerRuntimeVersion``, such as ``containerd://2.1.0``.
        kubelet: ``kubeletVersion``, such as ``v1.36.3``.
        capacity: The quantity of each resource, by its name.
    """

    runtime: str
    kubelet: str
    capacity: Mapping[str, str]


def check_cdi_folder(folder: FolderFacts) -> ConditionReport:
    """Check that CDI specs can be written."""
    return _check_folder(ConditionType.CDI_DIRECTORY_WRITABLE, folder, "the CDI folder (--cdi-dir)")


def check_state_folder(folder: FolderFacts) -> ConditionReport:
    """Check that the checkpoint can be written."""
    return _check_folder(ConditionType.STATE_DIRECTORY_WRITABLE, folder, "the plugin's folder (--plugin-dir)")


def check_strategies(problems: Mapping[str, str]) -> tuple[ConditionReport, ...]:
    """Report whether the node has what the strategies take by which its GPUs are shared.

    Args:
        problems: By strategy what is missing; empty where nothing is. Strategies that no GPU offers are left out.
    """
    return tuple(
        _report(
            type_,
            ConditionStatus.FALSE if problems[strategy] else ConditionStatus.TRUE,
            "Missing" if problems[strategy] else "Available",
            problems[strategy] or f"GPUs can be shared by {strategy}",
        )
        for strategy, type_ in _OF_STRATEGY.items()
        if strategy in problems
    )


def check_kubelet(node: NodeFacts) -> ConditionReport:
    """Check that the kubelet is new enough."""
    version = _parsed(node.kubelet)
    if version is None:
        message = (
            f"the kubelet's version {node.kubelet[:80]!r} is not understood; Kubernetes {_OLDEST_KUBELET} is needed"
        )
        return _report(ConditionType.KUBELET_SUPPORTED, ConditionStatus.UNKNOWN, "VersionNotUnderstood", message)
    if version < _OLDEST_KUBELET:
        message = (
            f"the kubelet is {node.kubelet}: dynamic resource allocation is stable from Kubernetes {_OLDEST_KUBELET} "
            "on; update the node"
        )
        return _report(ConditionType.KUBELET_SUPPORTED, ConditionStatus.FALSE, "KubeletTooOld", message)
    return _report(
        ConditionType.KUBELET_SUPPORTED, ConditionStatus.TRUE, "KubeletSupported", f"the kubelet is {node.kubelet}"
    )


def check_runtime(node: NodeFacts, cdi_folder: str) -> ConditionReport:
    """Check, by its version, that the container runtime injects CDI devices.

    The plugin has no right to read the runtime's own configuration; where the version does not decide it, the report is
    Unknown and says what to look at.

    Sources: containerd's docs/cri/config.md (``enable_cdi``: since 1.7, by default true since 2.0); CRI-O pull request
    6944 (the CRI field CDIDevices, in 1.28); the kubelet sends CDI devices by that field alone since 1.31.
    """
    name, _, text = node.runtime.partition("://")
    version = _parsed(text)
    report = _runtime_unknown(node.runtime)
    if version is not None and name == "containerd":
        report = _containerd(node.runtime, version)
    elif version is not None and name == "cri-o":
        report = _crio(node.runtime, version)
    if report.status is ConditionStatus.TRUE and cdi_folder not in _DEFAULT_CDI_FOLDERS:
        message = (
            f"{node.runtime} reads CDI specs from /etc/cdi and /var/run/cdi unless told otherwise: its cdi_spec_dirs "
            f"must name {cdi_folder} (--cdi-dir)"
        )
        return _report(ConditionType.RUNTIME_READS_CDI, ConditionStatus.UNKNOWN, "FolderOfOnesOwn", message)
    return report


def _containerd(runtime: str, version: _Version) -> ConditionReport:
    if version >= _Version(2, 0):
        return _report(
            ConditionType.RUNTIME_READS_CDI, ConditionStatus.TRUE, "OnByDefault", f"{runtime} reads CDI by default"
        )
    if version >= _Version(1, 7):
        message = f"{runtime} reads CDI only where it is told to: {_ENABLE_CDI}, or update to containerd 2"
        return _report(ConditionType.RUNTIME_READS_CDI, ConditionStatus.UNKNOWN, "OffByDefault", message)
    message = f"{runtime} cannot read CDI: no device will appear in a container; update to containerd 2"
    return _report(ConditionType.RUNTIME_READS_CDI, ConditionStatus.FALSE, "RuntimeTooOld", message)


def _crio(runtime: str, version: _Version) -> ConditionReport:
    if version >= _Version(1, 28):
        return _report(
            ConditionType.RUNTIME_READS_CDI, ConditionStatus.TRUE, "OnByDefault", f"{runtime} reads CDI by default"
        )
    message = f"{runtime} does not take CDI devices as the kubelet sends them; update to CRI-O 1.28 or newer"
    return _report(ConditionType.RUNTIME_READS_CDI, ConditionStatus.FALSE, "RuntimeTooOld", message)


def _runtime_unknown(runtime: str) -> ConditionReport:
    message = (
        f"it is not known whether {runtime[:80]!r} injects CDI devices; known to do so are containerd 2 and CRI-O 1.28 "
        "or newer. Check its documentation for CDI, or look for the devices in a test pod"
    )
    return _report(ConditionType.RUNTIME_READS_CDI, ConditionStatus.UNKNOWN, "RuntimeNotKnown", message)


def _check_folder(type_: ConditionType, folder: FolderFacts, what: str) -> ConditionReport:
    if folder.error is not None:
        message = (
            f"{what} {folder.path} cannot be written: {folder.error}; no claim can be prepared. Check the DaemonSet's "
            "volumes and the host's file system"
        )
        return _report(type_, ConditionStatus.FALSE, "NotWritable", message)
    if folder.free_bytes is not None and folder.free_bytes < _MIN_FREE_BYTES:
        message = f"the file system of {what} {folder.path} has only {folder.free_bytes} bytes left: make space there"
        return _report(type_, ConditionStatus.FALSE, "NoSpace", message)
    if folder.free_files is not None and folder.free_files < _MIN_FREE_FILES:
        message = (
            f"the file system of {what} {folder.path} has only {folder.free_files} inodes left: remove files there"
        )
        return _report(type_, ConditionStatus.FALSE, "NoSpace", message)
    return _report(type_, ConditionStatus.TRUE, "Writable", f"{folder.path} can be written")


def _report(type_: ConditionType, status: ConditionStatus, reason: str, message: str) -> ConditionReport:
    return ConditionReport(type=type_, status=status, reason=reason, message=message)


def _parsed(text: str) -> _Version | None:
    """Return the version in ``1.34``, ``v1.36.3-gke.1`` or ``2.1.0``; None if the text is no version."""
    match = _VERSION.fullmatch(text)
    return _Version(int(match[1]), int(match[2])) if match else None
