"""Which claims hold which devices, by device and by pool; the ledger only counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from driver.allocator.identity import DeviceId, PoolId
from driver.allocator.ledger import Holding

__all__ = ["Holders"]


class Holders:
    """Keys of claims (``namespace/name``) by what they hold."""

    def __init__(self) -> None:
        self._of_device: dict[DeviceId, tuple[str, ...]] = {}
        self._of_pool: defaultdict[PoolId, set[str]] = defaultdict(set)
        self._drivers: set[str] = set()

    def of_device(self, device: DeviceId) -> tuple[str, ...]:
        """The claims that have the device or shares of it, the first one first."""
        return self._of_device.get(device, ())

    def of_pool(self, pool: PoolId) -> Collection[str]:
        """The claims that hold something of a pool."""
        return self._of_pool.get(pool, ())

    def pools_named(self, name: str) -> list[PoolId]:
        """The pools of that name, of any driver, of which something is held."""
        return [pool for pool in (PoolId(driver, name) for driver in self._drivers) if pool in self._of_pool]

    def replace(self, claim: str, held: Iterable[Holding], holds: Iterable[Holding]) -> None:
        """Book what a claim holds now instead of what it held."""
        for item in held:
            left = tuple(other for other in self._of_device.get(item.device, ()) if other != claim)
            if left:
                self._of_device[item.device] = left
            else:
                self._of_device.pop(item.device, None)
            pool = _pool(item)
            self._of_pool[pool].discard(claim)
            if not self._of_pool[pool]:
                del self._of_pool[pool]
        for item in holds:
            there = self._of_device.get(item.device, ())
            if claim not in there:
                self._of_device[item.device] = (*there, claim)
            self._of_pool[_pool(item)].add(claim)
            self._drivers.add(item.device.driver)


def _pool(item: Holding) -> PoolId:
    return PoolId(item.device.driver, item.device.pool)
