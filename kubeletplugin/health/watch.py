"""Runs the health monitor: its threads, and the callbacks after a change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from driver.health.flapping import Damping
from driver.model.devices import DeviceName
from driver.model.health import LINK_DOWN_FAULT, Fault, NodeHealth
from kubeletplugin.health.fault_history_file import FaultHistoryFile
from kubeletplugin.health.hardware import HostReader
from kubeletplugin.health.monitor import HealthMonitor
from kubeletplugin.health.xid_listener import XidListener
from kubeletplugin.loop import Loop
from kubeletplugin.node.discovery import Discovery
from kubeletplugin.node.roots import Roots

__all__ = ["HealthWatch"]

_MAX_DELAY_S: Final = 30.0


class HealthWatch:
    """Watches the health of a node's devices, unless that is switched off.

    Attributes:
        monitor: Holds the health, which is empty if it is not watched.
        loops: Its threads; none if it is not watched.

    Args:
        roots: Where the hardware is.
        discovery: Discovers what the node has.
        history: What is remembered of faults over a restart.
        interval_s: Between two readings, in seconds; 0: it is not watched.
        hold_s: How long a state must have stayed away before it is over, in seconds.
        make_loop: Makes a Loop with what all of the process's loops share.
        on_change: Called with the health after it has changed.
        on_links: Called after a NIC's link has gone, or is there again.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        discovery: Discovery,
        history: FaultHistoryFile,
        interval_s: float,
        hold_s: float,
        make_loop: Callable[..., Loop],
        on_change: Callable[[NodeHealth], None],
        on_links: Callable[[], None],
    ) -> None:
        self.monitor = HealthMonitor(
            history,
            inventory=discovery.latest,
            certain=discovery.certain,
            reader=HostReader(roots),
            on_change=self._changed,
            damping=Damping(hold=timedelta(seconds=hold_s)),
        )
        self._listener = XidListener(roots, gpus=self.monitor.nvidia_gpus, take=self.monitor.take)
        self._on_change = on_change
        self._on_links = on_links
        self._links_down: frozenset[DeviceName] = frozenset()
        self._notifying = threading.Lock()
        actions = {
            "gpu health": self.monitor.read_gpus,
            "nic health": self.monitor.read_nics,
            "gpu errors": self._listener.listen,
        }
        self.loops: tuple[Loop, ...] = tuple(
            make_loop(name, action, interval_s=interval_s, max_delay_s=_MAX_DELAY_S)
            for name, action in (actions if interval_s else {}).items()
        )

    def published(self) -> NodeHealth | None:
        """Return the health to publish; None if the published one is to stay."""
        return self.monitor.settled_health() if self.loops else NodeHealth()

    def report(self, fault: Fault) -> None:
        """As :meth:`HealthMonitor.report`."""
        if self.loops:
            self.monitor.report(fault)

    def recover(self, annotation: str) -> None:
        """As :meth:`HealthMonitor.recover`."""
        if self.loops:
            self.monitor.recover(annotation)

    def wake(self) -> None:
        """Read all devices soon: the node's devices have changed."""
        for loop in self.loops:
            loop.wake()

    def stop(self) -> None:
        """End; no thread is waited for, since NVML may hang."""
        self._listener.stop()
        for loop in self.loops:
            loop.stop(0)

    def _changed(self) -> None:
        # Read under the lock: of two threads, the one that reports last must not report what is older.
        with self._notifying:
            health = self.monitor.health()
            self._on_change(health)
            links_down = frozenset(fault.device for fault in health.faults if fault.reason == LINK_DOWN_FAULT)
            changed, self._links_down = links_down != self._links_down, links_down
        if changed:
            self._on_links()
