"""Keeps what allocated claims hold.

Source: foreachAllocatedDevice in k8s.io/kubernetes v1.37.2, pkg/scheduler/framework/plugins/dynamicresources/
allocateddevices.go: admin access holds nothing; a result with a shareID holds a share (and the capacity that it says),
any other one the whole device.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from driver.allocator.features import Features
from driver.allocator.identity import DeviceId, PoolId
from driver.allocator.view import CounterKey, Pool
from driver.api.resource_v1 import AllocationResult
from driver.memo import Memo

__all__ = ["Holding", "Ledger", "holding", "holdings"]

_NOTHING: Final[Mapping[str, int]] = {}
_USES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Holding:
    """A device, or a share of one, that an allocated claim has.

    Attributes:
        device: The device.
        share_id: The share; None where the claim has the device for itself.
        consumed: What the share consumes of the device's capacities, in nano-units.
    """

    device: DeviceId
    share_id: str | None = None
    consumed: Mapping[str, int] = field(default_factory=lambda: _NOTHING)


def holding(
    device: DeviceId, *, admin_access: bool | None, share_id: str | None, consumed: Mapping[str, int]
) -> Holding | None:
    """Return what one result of an allocation holds; None with admin access, which holds nothing."""
    return Holding(device, share_id, consumed or _NOTHING) if admin_access is not True else None


def holdings(result: AllocationResult) -> Iterator[Holding]:
    """Yield what an allocation holds."""
    for item in result.devices.results:
        consumed = {name: amount.nano for name, amount in item.consumed_capacity.items()}
        device = DeviceId(item.driver, item.pool, item.device)
        held = holding(device, admin_access=item.admin_access, share_id=item.share_id, consumed=consumed)
        if held is not None:
            yield held


class Ledger:
    """Counts devices, shares and capacity in use. What is added can be taken out again."""

    def __init__(self, features: Features) -> None:
        self._shares_count = features.consumable_capacity
        # By driver and pool: what of a node is in use is looked up once for all of its devices.
        self._whole: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._shares: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._consumed: defaultdict[DeviceId, Counter[str]] = defaultdict(Counter)
        # By pool, as far as it was asked for since a change; and the numbers of all kinds of use.
        self._use_of: dict[tuple[str, str], int] = {}
        self._uses: Memo[object, int] = Memo(_USES)
        self._next_use = 1

    def add(self, held: Iterable[Holding]) -> None:
        """Count devices as in use."""
        for item in held:
            self._count(item, 1)

    def remove(self, held: Iterable[Holding]) -> None:
        """Give back devices that were added."""
        for item in held:
            self._count(item, -1)

    def whole_in(self, pool: PoolId) -> Collection[str]:
        """Return the names of a pool's devices that some claim has for itself."""
        return self._whole.get(pool, ())

    def is_whole(self, device: DeviceId) -> bool:
        """Whether some claim has the device for itself."""
        return device.device in self._whole.get(device[:2], ())

    def is_shared(self, device: DeviceId) -> bool:
        """Whether some claim has a share of the device."""
        return device.device in self._shares.get(device[:2], ())

    def in_use(self, pool: PoolId) -> Collection[str]:
        """Return the names of a pool's devices that claims have, or have shares of."""
        return {*self._whole.get(pool, ()), *self._shares.get(pool, ())}

    def use(self, pool: PoolId) -> int:
        """Return a number that is equal for pools of which the same is in use, by the names of their devices."""
        known = self._use_of.get(pool)
        if known is None:
            if pool not in self._whole and pool not in self._shares:
                return 0
            shared = [
                (name, frozenset(self.consumed(DeviceId(pool.driver, pool.pool, name)).items()))
                for name in self._shares.get(pool, ())
            ]
            use = (frozenset(self._whole.get(pool, ())), frozenset(shared))
            known = self._uses.get(use)
            if known is None:
                known = self._uses.put(use, self._next_use)
                self._next_use += 1
            self._use_of[pool] = known
        return known

    def consumed(self, device: DeviceId) -> Mapping[str, int]:
        """Return what the device's shares consume of its capacities, in nano-units."""
        return self._consumed.get(device, _NOTHING)

    def free_counters(self, pool: Pool) -> dict[CounterKey, int]:
        """Return what is left of a pool's counters, in nano-units; below zero where devices hold more than there is.

        A device is charged once, however many shares of it are in use.
        """
        free = dict(pool.counters)
        in_use = self.in_use(pool.id) if free else ()
        if in_use:
            for part in (*pool.slices, *pool.elsewhere):
                for device in part.devices:
                    if device.id.device in in_use:
                        for key, amount in device.counters.items():
                            free[key] -= amount
        return free

    def _count(self, item: Holding, sign: int) -> None:
        pool = item.device[:2]
        self._use_of.pop(pool, None)
        if item.share_id is None or not self._shares_count:
            whole = self._whole[pool]
            _add(whole, item.device.device, sign)
            if not whole:
                del self._whole[pool]
            return
        shares = self._shares[pool]
        _add(shares, item.device.device, sign)
        if not shares:
            del self._shares[pool]
        if item.consumed:
            consumed = self._consumed[item.device]
            for name, amount in item.consumed.items():
                _add(consumed, name, sign * amount)
            if not consumed:
                del self._consumed[item.device]


def _add(counter: Counter[str], key: str, amount: int) -> None:
    counter[key] += amount
    if not counter[key]:
        del counter[key]
