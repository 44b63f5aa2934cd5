"""What rivals gave out a moment ago: the kubelet forgets plugins and drivers sooner than these have really gone.

A kubelet that restarts writes 0 for the resource of each plugin until the plugin has registered again
(pkg/kubelet/cm/devicemanager, readCheckpoint), and deletes the ResourceSlices of a DRA driver 30 s after it has
unregistered (pkg/kubelet/cm/dra/plugin). So what was seen counts for some time, and that of a DRA driver for as long as
containers have its devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from driver.model.devices import DeviceName
from driver.model.rivals import DRA_DRIVER, Rival
from driver.rivals.decide import KubeletDevices
from driver.rivals.resources import is_some

__all__ = ["RivalMemory"]

_MAX_REMEMBERED: Final = 1024
_MAX_IDS: Final = 8192


class RivalMemory:
    """Remembers what rivals gave out. Not safe for several threads at once.

    Args:
        hold_s: For how many seconds after it was last seen.
    """

    def __init__(self, hold_s: float) -> None:
        self._hold_s = hold_s
        self._ids: dict[str, dict[str, float]] = {}
        self._devices: dict[tuple[str, str], dict[DeviceName, float]] = {}

    def plugins(self, kubelet: KubeletDevices, capacity: Mapping[str, str], *, now: float) -> KubeletDevices:
        """Return what the kubelet knows, with the ids that plugins offered before.

        They count for longer while the Node has the resource, and the kubelet names no id of it: a plugin is away.

        Args:
            kubelet: Its latest answer.
            capacity: ``status.capacity`` of the Node.
            now: Monotonic seconds.
        """
        for name, ids in kubelet.offered.items():
            if ids and (name in self._ids or len(self._ids) < _MAX_REMEMBERED):
                self._ids.setdefault(name, {}).update(dict.fromkeys(ids, now))
        self._ids = {name: kept for name in self._ids if (kept := self._kept_ids(name, kubelet, capacity, now))}
        offered = {**kubelet.offered, **{name: frozenset(seen) for name, seen in self._ids.items()}}
        away = {name for name in self._ids if not kubelet.offered.get(name)}
        return replace(kubelet, offered=offered, away=frozenset(away))

    def _kept_ids(
        self, name: str, kubelet: KubeletDevices, capacity: Mapping[str, str], now: float
    ) -> dict[str, float]:
        seen, current = self._ids[name], kubelet.offered.get(name, frozenset())
        if current or not is_some(capacity.get(name, "0")):
            seen = {id_: at for id_, at in seen.items() if id_ in current or now - at < self._hold_s}
        return seen if len(seen) <= _MAX_IDS else dict.fromkeys(current, now)

    def note(self, rivals: Iterable[Rival], *, now: float) -> None:
        """Remember the devices of rivals.

        Args:
            rivals: DRA drivers that are there, or what a former process of this plugin has found.
            now: Monotonic seconds.
        """
        for rival in rivals:
            key = (rival.kind, rival.name)
            if key in self._devices or len(self._devices) < _MAX_REMEMBERED:
                self._devices.setdefault(key, {}).update(dict.fromkeys(rival.devices, now))

    def completed(self, rivals: Iterable[Rival], kubelet: KubeletDevices | None, *, now: float) -> tuple[Rival, ...]:
        """Return the rivals that are there, and those that may not have gone yet.

        Args:
            rivals: Those that are there.
            kubelet: What the kubelet knows; None while it has not answered: everything remembered counts then.
            now: Monotonic seconds.
        """
        current = {(rival.kind, rival.name): rival for rival in rivals}
        self.note((rival for rival in current.values() if rival.kind == DRA_DRIVER), now=now)
        used = frozenset() if kubelet is None else kubelet.drivers
        for key, devices in list(self._devices.items()):
            kind, name = key
            is_used = kind == DRA_DRIVER and name in used
            is_kept = is_used or kubelet is None
            seen = {device for device, at in devices.items() if is_kept or at == now or now - at < self._hold_s}
            self._devices[key] = {device: devices[device] for device in seen}
            if not seen:
                del self._devices[key]
                continue
            there = current.get(key)
            if there is None:
                message = _message(name, is_used=is_used, has_answered=kubelet is not None)
                there = Rival(name=name, kind=kind, devices=(), message=message)
            current[key] = replace(there, devices=tuple(sorted({*there.devices, *seen})))
        return tuple(current[key] for key in sorted(current, key=lambda key: (key[0] == DRA_DRIVER, key[1])))


def _message(name: str, *, is_used: bool, has_answered: bool) -> str:
    if is_used:
        return f"DRA driver {name} has gone, but pods still have its claims: end these pods"
    if not has_answered:
        return f"{name} gave out devices before this plugin started, and the kubelet has not said yet whether it does"
    return f"{name} gave out devices a moment ago, and may come back within five minutes"
