"""The conditions of the node's NodeInventory, made from the reports of the plugin's parts.

Each part of the plugin reports to one :class:`ConditionReports`; the publisher turns the reports into conditions. A
condition is True where all is well: ``kubectl get nodeinventories`` then shows what is wrong by what is not True.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from driver.api.node_status import Condition
from driver.api.times import time_text
from kubeletplugin.internal_errors import InternalError

__all__ = [
    "ConditionReport",
    "ConditionReports",
    "ConditionStatus",
    "ConditionType",
    "FailingLoops",
    "conditions",
    "ready",
]

_MAX_MESSAGE: Final = 2048  # of the 32,768 characters that metav1.Condition allows: nobody reads more


class ConditionType(StrEnum):
    """The types of the plugin's conditions. READY is computed from the reports on the others.

    NO_INTERNAL_ERRORS does not count for READY, and exists only once the plugin has failed unexpectedly;
    INVENTORY_ACCEPTED only once the API server has refused the inventory. MPS_AVAILABLE and HAMI_CORE_AVAILABLE do not
    count for READY either, and exist only where GpuPolicies have a GPU of the node offer the strategy. HEALTH_WATCHED
    and DEVICE_STATUS_KEPT do not count for READY either: claims can be prepared without. The latter exists only once
    the API server has dropped what the plugin wrote.
    """

    READY = "Ready"
    DISCOVERED = "Discovered"
    REGISTERED = "Registered"
    KUBELET_SUPPORTED = "KubeletSupported"
    RUNTIME_READS_CDI = "RuntimeReadsCdi"
    CDI_DIRECTORY_WRITABLE = "CdiDirectoryWritable"
    STATE_DIRECTORY_WRITABLE = "StateDirectoryWritable"
    NO_RIVAL_PLUGIN = "NoRivalPlugin"
    HEALTH_WATCHED = "HealthWatched"
    NETWORK_PLUGIN_READY = "NetworkPluginReady"
    MPS_AVAILABLE = "MpsAvailable"
    HAMI_CORE_AVAILABLE = "HamiCoreAvailable"
    INVENTORY_ACCEPTED = "InventoryAccepted"
    DEVICE_STATUS_KEPT = "DeviceStatusKept"
    NO_INTERNAL_ERRORS = "NoInternalErrors"


class ConditionStatus(StrEnum):
    """The status of a condition (k8s.io/apimachinery v0.36.3, metav1.ConditionStatus)."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


# Without these nothing can be prepared; the others warn, and may be Unknown for good (containerd 1.7).
_ESSENTIAL: Final = frozenset(
    {
        ConditionType.DISCOVERED,
        ConditionType.REGISTERED,
        ConditionType.CDI_DIRECTORY_WRITABLE,
        ConditionType.STATE_DIRECTORY_WRITABLE,
    }
)

# Reported only where the plugin was configured to check it, or something has happened.
_OPTIONAL: Final = frozenset(
    {
        ConditionType.NETWORK_PLUGIN_READY,
        ConditionType.MPS_AVAILABLE,
        ConditionType.HAMI_CORE_AVAILABLE,
        ConditionType.INVENTORY_ACCEPTED,
        ConditionType.DEVICE_STATUS_KEPT,
        ConditionType.NO_INTERNAL_ERRORS,
    }
)
# Without effect on READY: one claim on which the plugin fails must not take the node from the others, nor one strategy.
_NOT_SUMMED_UP: Final = frozenset(
    {
        ConditionType.NO_INTERNAL_ERRORS,
        ConditionType.MPS_AVAILABLE,
        ConditionType.HAMI_CORE_AVAILABLE,
        ConditionType.HEALTH_WATCHED,
        ConditionType.DEVICE_STATUS_KEPT,
    }
)
# Where the kubelet does not watch, that is known long after the rest: until then the former condition stays.
_LATE: Final = frozenset({ConditionType.HEALTH_WATCHED})
_ALWAYS_REPORTED: Final = frozenset(ConditionType) - {ConditionType.READY} - _OPTIONAL - _LATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionReport:
    """What one part of the plugin reports for one condition.

    Attributes:
        type: Which condition.
        status: TRUE where all is well.
        reason: One word in CamelCase, for programs.
        message: One or two sentences for a person: what is wrong, and what to do.
    """

    type: ConditionType
    status: ConditionStatus
    reason: str
    message: str


class ConditionReports:
    """Holds the latest report for each condition. Safe to use from any thread.

    Args:
        on_change: Called after a report has changed, without a lock held.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._latest: dict[ConditionType, ConditionReport] = {}
        self._settled = False

    def report(self, *reports: ConditionReport) -> None:
        """Store reports; each replaces the former one for its condition."""
        with self._lock:
            changed = any(self._latest.get(report.type) != report for report in reports)
            self._latest.update({report.type: report for report in reports})
            self._settled = self._settled or self._latest.keys() >= _ALWAYS_REPORTED
        if changed:
            self._on_change()

    def settle(self, *defaults: ConditionReport) -> None:
        """Wait no longer for missing reports; a default is used for a condition that has none."""
        with self._lock:
            self._settled = True
            self._latest = {report.type: report for report in defaults} | self._latest
        self._on_change()

    def latest(self) -> tuple[ConditionReport, ...]:
        """Return the latest reports in the order of :class:`ConditionType`, READY first; none during the start.

        If they were published during the start, every restart of a healthy plugin would make its node not ready for a
        moment, at the price of two writes by every node.
        """
        with self._lock:
            latest, settled = dict(self._latest), self._settled
        found = tuple(latest[type_] for type_ in ConditionType if type_ in latest)
        return (ready(found), *found) if settled else ()


class FailingLoops:
    """Reports which of the plugin's loops keep failing with unexpected errors. Safe to use from any thread.

    :class:`kubeletplugin.loop.Loop` calls it as ``on_failing``.

    Args:
        reports: Receives the condition NoInternalErrors.
    """

    def __init__(self, reports: ConditionReports) -> None:
        self._reports = reports
        self._lock = threading.Lock()
        self._messages: dict[str, str] = {}

    def __call__(self, loop: str, error: InternalError | None) -> None:
        """Note that a loop keeps failing, or that it no longer does.

        Args:
            loop: Its name.
            error: Its latest error; None once it works again.
        """
        with self._lock:
            self._messages.pop(loop, None)
            if error is not None:
                self._messages[loop] = f"the plugin's part {loop!r} fails again and again: {error}"
            failing = bool(self._messages)
            self._reports.report(
                ConditionReport(
                    type=ConditionType.NO_INTERNAL_ERRORS,
                    status=ConditionStatus.FALSE if failing else ConditionStatus.TRUE,
                    reason="FailsUnexpectedly" if failing else "NoInternalErrors",
                    message="; ".join(self._messages.values()) or "no part of the plugin fails unexpectedly any more",
                )
            )


def ready(reports: Iterable[ConditionReport]) -> ConditionReport:
    """Return the report for READY: whether this node can serve claims, and if not, the first obstacle.

    One False makes it False. It is Unknown until discovery, registration and both folders were reported.
    """
    known = {report.type: report for report in reports}
    for report in known.values():
        if report.status is ConditionStatus.FALSE and report.type not in _NOT_SUMMED_UP:
            return _ready(ConditionStatus.FALSE, report.reason, f"{report.type}: {report.message}")
    for type_ in ConditionType:
        if type_ in _ESSENTIAL and (type_ not in known or known[type_].status is not ConditionStatus.TRUE):
            return _ready(ConditionStatus.UNKNOWN, "Starting", f"{type_} is not known yet")
    return _ready(ConditionStatus.TRUE, "Ready", "claims can be prepared")


def _ready(status: ConditionStatus, reason: str, message: str) -> ConditionReport:
    return ConditionReport(type=ConditionType.READY, status=status, reason=reason, message=message)


def conditions(
    reports: Iterable[ConditionReport], stored: Iterable[Condition], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the reports as conditions (metav1.Condition): a transition's time moves only when the status does.

    A stored condition without a report stays as it is: the process before this one wrote it. Optional conditions that
    this process does not report are dropped.

    Args:
        reports: In the order of the conditions.
        stored: The object's present conditions; those of other writers are not part of the result.
        generation: The object's generation, whose spec the plugin itself has written.
        now: The time of the transitions.
    """
    former = {condition.type: condition for condition in stored}
    moment = time_text(now)
    new = {
        report.type: Condition(
            type=report.type.value,
            status=report.status.value,
            reason=report.reason,
            message=report.message[:_MAX_MESSAGE],
            observed_generation=generation,
            last_transition_time=_since(former.get(report.type), report.status) or moment,
        )
        for report in reports
    }
    kept = former.keys() - _OPTIONAL if new else former.keys()
    return tuple(new.get(type_) or former[type_] for type_ in ConditionType if type_ in new or type_ in kept)


def _since(former: Condition | None, status: ConditionStatus) -> str | None:
    return former.last_transition_time if former is not None and former.status == status else None
