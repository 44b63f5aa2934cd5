"""Gathers the facts that :mod:`kubeletplugin.publish.preflight` and :mod:`driver.rivals.decide` check.

It writes nothing but one file that it removes at once, and needs two rights at the API server: to get this Node, and
to list this node's ResourceSlices.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError, ForbiddenError, NotFoundError
from driver.adapters.kubernetes.resources import NODES, RESOURCE_SLICES
from driver.api.strict import StrictError, read
from driver.rivals.decide import PublishedSlice
from kubeletplugin.internal_errors import InternalError, guarded
from kubeletplugin.publish.conditions import ConditionReport, ConditionReports, ConditionStatus, ConditionType
from kubeletplugin.publish.preflight import (
    FolderFacts,
    NodeFacts,
    check_cdi_folder,
    check_kubelet,
    check_runtime,
    check_state_folder,
    check_strategies,
)

__all__ = ["HostChecks", "folder_facts"]

# Runtimes read *.json and *.yaml in the CDI folder (container-device-interface v1.1.1, pkg/cdi/spec-dirs.go). The name
# is always the same, so that what a crash leaves behind is written over and removed by the next check.
_TRIAL: Final = ".rootport.dev-trial.tmp"
_TRIAL_SIZE: Final = 4096


class HostChecks:
    """Runs the checks of folders, kubelet, runtime and rivals, and reports conditions.

    Args:
        api: The API server.
        node: The node's name.
        cdi_folder: Where CDI specs go.
        state_folder: Where the checkpoint is.
        check_network: Checks the CNI plugin; returns None if this node does not use it.
        strategy_problems: Returns what is missing for each strategy that GPUs of the node offer, empty for nothing.
        reports: Receives the results.
        take_rivals: Called with the Node's ``status.capacity``, and all ResourceSlices of the node.
    """

    def __init__(
        self,
        api: KubernetesApi,
        *,
        node: str,
        cdi_folder: Path,
        state_folder: Path,
        check_network: Callable[[], ConditionReport | None],
        strategy_problems: Callable[[], Mapping[str, str]],
        reports: ConditionReports,
        take_rivals: Callable[[Mapping[str, str], Sequence[PublishedSlice]], None],
    ) -> None:
        self._api = api
        self._node = node
        self._cdi_folder = cdi_folder
        self._state_folder = state_folder
        self._check_network = check_network
        self._strategy_problems = strategy_problems
        self._reports = reports
        self._take_rivals = take_rivals

    def check_folders(self) -> None:
        """Check the folders, which needs no API server."""
        self._reports.report(
            check_cdi_folder(folder_facts(self._cdi_folder)), check_state_folder(folder_facts(self._state_folder))
        )

    def check_strategies(self) -> None:
        """Check what the strategies take by which the node's GPUs are shared."""
        self._reports.report(*check_strategies(self._strategy_problems()))

    def check_network(self) -> None:
        """Check the CNI plugin, if this node uses it."""
        report = self._check_network()
        if report is not None:
            self._reports.report(report)

    def check(self) -> None:
        """Check folders, kubelet, runtime and rivals.

        Raises:
            ApiServerError: The API server could not be asked; the folders have been checked then.
        """
        self.check_folders()
        try:
            node = _node_facts(self._api.get(NODES, self._node))
        except (ForbiddenError, NotFoundError) as error:
            # These stay until somebody acts, so they are worth a condition; an API server that is away is not.
            self._reports.report(
                *(_not_known(c, error) for c in (ConditionType.KUBELET_SUPPORTED, ConditionType.RUNTIME_READS_CDI))
            )
            raise
        self._reports.report(check_kubelet(node), check_runtime(node, str(self._cdi_folder)))
        try:
            slices = self._read_slices()
        except ForbiddenError as error:
            self._reports.report(_not_known(ConditionType.NO_RIVAL_PLUGIN, error))
            raise
        self._take_rivals(node.capacity, slices)

    def _read_slices(self) -> list[PublishedSlice]:
        listing = self._api.list(RESOURCE_SLICES, field_selector=f"spec.nodeName={self._node}")
        read = (_read_slice(item) for item in listing.items)
        return [resource_slice for resource_slice in read if resource_slice is not None]


def folder_facts(folder: Path) -> FolderFacts:
    """Check a folder by writing a file to it; the folder is made if it is missing."""
    path = str(folder)
    trial = folder / _TRIAL
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(trial, flags, 0o600)
        try:
            os.write(descriptor, bytes(_TRIAL_SIZE))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            trial.unlink(missing_ok=True)
    except OSError as error:
        return FolderFacts(path=path, error=error.strerror or str(error))
    try:
        system = os.statvfs(folder)
    except OSError:
        return FolderFacts(path=path)
    # A file system without a fixed number of inodes (btrfs) tells 0 of them.
    free_files = system.f_favail if system.f_files else None
    return FolderFacts(path=path, free_bytes=system.f_bavail * system.f_frsize, free_files=free_files)


def _node_facts(node: dict[str, Any]) -> NodeFacts:
    status = node.get("status") or {}
    info = status.get("nodeInfo") or {}
    return NodeFacts(
        runtime=str(info.get("containerRuntimeVersion", "")),
        kubelet=str(info.get("kubeletVersion", "")),
        capacity={str(name): str(quantity) for name, quantity in (status.get("capacity") or {}).items()},
    )


def _read_slice(item: dict[str, Any]) -> PublishedSlice | None:
    try:
        with guarded("check", "a ResourceSlice of this node"):
            return _slice(item)
    except InternalError:
        return None


def _slice(item: dict[str, Any]) -> PublishedSlice | None:
    try:
        return read(PublishedSlice, item, ignore_unknown=True)
    except StrictError:
        return None  # another driver's slice from a newer API: what cannot be read cannot be compared


def _not_known(type_: ConditionType, error: ApiServerError) -> ConditionReport:
    return ConditionReport(type=type_, status=ConditionStatus.UNKNOWN, reason="CannotAsk", message=str(error))
