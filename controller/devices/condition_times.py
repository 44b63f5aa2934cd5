"""The transition times of Device conditions, which stay the same until the object is stored with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from controller.cluster.stored_devices import StoredConditions
from controller.devices.changes import timed
from driver.api.rootport_v1alpha1 import DeviceStatus

__all__ = ["ConditionTimes"]


class ConditionTimes:
    """Gives conditions their times. Not thread-safe.

    If the time of a change is not reported it is when the reconciler saw the change first, however long it takes to
    write it: otherwise each attempt would be a change for clients, and would write another Event.
    """

    def __init__(self) -> None:
        self._unwritten: dict[str, dict[str, StoredConditions]] = {}

    def of_node(
        self,
        label: str,
        statuses: Mapping[str, DeviceStatus],
        stored: Mapping[str, StoredConditions],
        now: datetime,
    ) -> dict[str, DeviceStatus]:
        """Return the statuses with times (:func:`controller.devices.changes.timed`), by the objects' names.

        Args:
            label: The value of the node's label.
            statuses: The statuses of all of the node's Device objects, by name.
            stored: The conditions of the stored objects, by name.
            now: The time of new changes.
        """
        former = self._unwritten.pop(label, {})
        unwritten: dict[str, StoredConditions] = {}
        made: dict[str, DeviceStatus] = {}
        for name, status in statuses.items():
            there = stored.get(name, {})
            wanted = {item.type: item.status for item in status.conditions}
            written = {type_: pair for type_, pair in there.items() if pair[0] == wanted.get(type_)}
            made[name] = timed(status, {**former.get(name, {}), **written}, now)
            new: StoredConditions = {
                item.type: (item.status, item.last_transition_time)
                for item in made[name].conditions
                if item.type not in written
            }
            if new:
                unwritten[name] = new
        if unwritten:
            self._unwritten[label] = unwritten
        return made

    def forget(self, label: str) -> None:
        """Forget a node that is gone."""
        self._unwritten.pop(label, None)
