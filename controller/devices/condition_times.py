"""Since when the conditions of Device objects are as they are, also before a stored object says so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from controller.cluster.stored_devices import StoredConditions
from controller.devices.changes import timed
from driver.api.rootport_v1alpha1 import DeviceStatus

__all__ = ["ConditionTimes"]


class ConditionTimes:
    """Gives conditions their times. For one thread.

    A time that nobody tells is the one of the pass that saw the change first, however many passes it takes to write it:
    otherwise each of them would be news to who looks on, and would write another Event.
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
        """The statuses with times (:func:`controller.devices.changes.timed`), by the objects' names.

        Args:
            label: The label's value of the node.
            statuses: By the objects' names, of all of the node's.
            stored: The conditions of those that are stored.
            now: The time of what has just changed.
        """
        former = self._unwritten.pop(label, {})
        unwritten: dict[str, StoredConditions] = {}
        made: dict[str, DeviceStatus] = {}
        for name, status in statuses.items():
            there = stored.get(name, {})
            said = {item.type: item.status for item in status.conditions}
            written = {type_: pair for type_, pair in there.items() if pair[0] == said.get(type_)}
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
        """The node is gone."""
        self._unwritten.pop(label, None)
