"""Keeps what is known of other systems that give out this node's devices, and reports it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from driver.model.inventory import Inventory
from driver.model.rivals import Rival
from driver.rivals.decide import KubeletDevices, PublishedSlice, bounded, held_twice, is_tolerated, rivals_of
from driver.rivals.memory import RivalMemory
from kubeletplugin.publish.conditions import ConditionReports
from kubeletplugin.publish.rivals import rival_report

__all__ = ["RivalChecks"]


class RivalChecks:
    """Compares what the API server and the kubelet know of rivals with what the node has. Safe to use from any thread.

    Args:
        inventory: Returns what this node publishes; None if that is not known yet.
        kubelet: Returns what the kubelet knows of device plugins; None while it does not answer.
        held: Returns the names of the devices that prepared claims have.
        tolerated: The names of rivals that an administrator accepts (:func:`driver.rivals.decide.is_tolerated`).
        hold_s: For how many seconds a rival counts after it was last seen (:mod:`driver.rivals.memory`).
        reports: Receives the condition NoRivalPlugin.
        on_change: Called after the rivals have changed.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        inventory: Callable[[], Inventory | None],
        kubelet: Callable[[], KubeletDevices | None],
        held: Callable[[], Iterable[str]],
        tolerated: Collection[str],
        hold_s: float,
        reports: ConditionReports,
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inventory = inventory
        self._ask_kubelet = kubelet
        self._held = held
        self._tolerated = tolerated
        self._reports = reports
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.Lock()  # of all below
        self._capacity: Mapping[str, str] = {}
        self._slices: Sequence[PublishedSlice] | None = None
        self._kubelet: KubeletDevices | None = None
        self._memory = RivalMemory(hold_s)
        self._knows_former = False
        self._rivals: tuple[Rival, ...] | None = None

    def rivals(self) -> tuple[Rival, ...] | None:
        """Return who else gives out this node's devices; None if that has not been found out yet."""
        with self._lock:
            return self._rivals

    def take(self, capacity: Mapping[str, str], slices: Sequence[PublishedSlice]) -> None:
        """Check with what the API server knows now.

        Args:
            capacity: ``status.capacity`` of the Node.
            slices: All ResourceSlices of the node.
        """
        with self._lock:
            self._capacity, self._slices = capacity, slices
        self.check()

    def take_former(self, rivals: Iterable[Rival]) -> None:
        """Go on with what a former process of this plugin has found; only the first call counts.

        Args:
            rivals: Those of the stored NodeInventory.
        """
        with self._lock:
            if self._knows_former:
                return
            self._knows_former = True
            known = [rival for rival in rivals if not is_tolerated(rival, self._tolerated)]
            self._memory.note(known, now=self._clock())
        self._decide()

    def check(self) -> None:
        """Ask the kubelet for its device plugins, and check with what the API server knew last."""
        kubelet = self._ask_kubelet()
        if kubelet is not None:
            with self._lock:
                self._kubelet = kubelet
        self._decide()

    def _decide(self) -> None:
        inventory = self._inventory()
        with self._lock:
            if inventory is None or self._slices is None:
                return
            now, kubelet = self._clock(), self._kubelet
            if kubelet is not None:
                kubelet = self._memory.plugins(kubelet, self._capacity, now=now)
            there = rivals_of(
                inventory, capacity=self._capacity, slices=self._slices, kubelet=kubelet, tolerated=self._tolerated
            )
            rivals = bounded(self._memory.completed(there, kubelet, now=now), inventory)
            held = held_twice(inventory, rivals, set(self._held())) if rivals else ()
            self._reports.report(rival_report(rivals, held=held, has_answered=kubelet is not None))
            is_changed, self._rivals = rivals != self._rivals, rivals
        if is_changed:
            self._on_change()
