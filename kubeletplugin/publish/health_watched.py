"""The condition HealthWatched: whether the kubelet asks for the devices' health, and so can show it in pods' status.

A kubelet whose feature gate ResourceHealthStatus is off opens no stream, and says nothing about that
(k8s.io/kubernetes v1.34.4 and v1.37.2, pkg/kubelet/cm/dra/plugin/dra_plugin_manager.go). One that had opened a stream
and has none any more may just be away: a kubelet that starts registers the plugin first.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from kubeletplugin.publish.conditions import ConditionReport, ConditionReports, ConditionStatus, ConditionType

__all__ = ["HealthWatched"]

_PATIENCE_S: Final = 15.0  # the kubelet tries again 5 s after a stream has failed, and a new instance has its own


class HealthWatched:
    """Reports the condition as streams open and close. Safe to use from any thread.

    Args:
        reports: Receives the condition.
        patience_s: For how many seconds no stream may be open once the kubelet has registered the plugin, or ended one.
    """

    def __init__(self, reports: ConditionReports, *, patience_s: float = _PATIENCE_S) -> None:
        self._reports = reports
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._asked = False  # since it registered the plugin last
        self._timer: threading.Timer | None = None

    def opened(self, service: str) -> None:
        """Note that the kubelet has opened a stream.

        Args:
            service: The gRPC service, such as ``v1.DRAResourceHealth``.
        """
        with self._lock:
            self._open[service] += 1
            self._asked = True
            self._stop_waiting()
        self._report(ConditionStatus.TRUE, "Watched", f"the kubelet watches the devices' health by {service}")

    def closed(self, service: str) -> None:
        """Note that a stream has ended."""
        with self._lock:
            self._open[service] -= 1
            self._wait()

    def registered(self) -> None:
        """Note that the kubelet has registered the plugin: wait from now on for a stream, unless there is one."""
        with self._lock:
            self._asked = self._open.total() > 0
            self._wait()

    def stop(self) -> None:
        """Wait no longer: the plugin ends."""
        with self._lock:
            self._stop_waiting()

    def _wait(self) -> None:
        if self._open.total() > 0:
            return
        self._stop_waiting()
        self._timer = threading.Timer(self._patience_s, self._give_up)
        self._timer.daemon = True
        self._timer.start()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        with self._lock:
            if self._open.total() > 0:
                return
            asked = self._asked
        if asked:
            self._report(
                ConditionStatus.UNKNOWN,
                "StreamEnded",
                "the kubelet watches the devices' health no more, and has not registered the plugin again since: it "
                "does not run, or does not reach the plugin",
            )
        else:
            self._report(
                ConditionStatus.FALSE,
                "NotWatched",
                "no pod's status has the health of its devices (allocatedResourcesStatus): the kubelet does not ask "
                "for it, its feature gate ResourceHealthStatus is off",
            )

    def _report(self, status: ConditionStatus, reason: str, message: str) -> None:
        self._reports.report(
            ConditionReport(type=ConditionType.HEALTH_WATCHED, status=status, reason=reason, message=message)
        )
