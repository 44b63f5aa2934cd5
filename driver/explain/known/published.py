"""The ResourceSlices of a cluster: as they are published, and with the taints of DeviceTaintRules in an index.

Source of what a DeviceTaintRule does: k8s.io/dynamic-resource-allocation v0.36.3, resourceslice/tracker (applyPatches):
a rule's taint comes behind those that the driver published, on every device that all parts of its selector name; a rule
without a selector names them all. Several rules apply in no particular order there; here by name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from driver import DRIVER_NAME
from driver.allocator.features import Features
from driver.allocator.identity import DeviceId, PoolId
from driver.allocator.pools import PoolIndex
from driver.allocator.selection import Selections
from driver.api.resource_v1 import Device, DeviceTaint, ResourceSlice
from driver.explain.known.cluster import TaintRule
from driver.explain.known.reading import read_safely
from driver.explain.known.slice_reading import SliceReader
from driver.model.managed_nodes import TAINT

__all__ = ["PublishedSlices", "with_rules"]

_CHURN: Final = 4096


class PublishedSlices:
    """Slices that come and go, and the rules that taint their devices.

    Attributes:
        index: All devices, tainted by rules; without the taint of managed nodes (:meth:`is_tainted`).
        rules: DeviceTaintRules by name.
        selections: Answers about these devices. Made anew after many slices have gone, for it keeps the devices that it
            has answered for.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._reader = SliceReader()
        self._slices: dict[str, ResourceSlice] = {}
        self._names: defaultdict[PoolId, set[str]] = defaultdict(set)
        # How many slices of a pool are for a node; the empty name stands for those that several nodes may reach.
        self._nodes: defaultdict[PoolId, Counter[str]] = defaultdict(Counter)
        self._pools: defaultdict[str, set[PoolId]] = defaultdict(set)
        self._gone = 0
        # By node: how many of Rootport's slices have devices, and how many of these have the taint of managed nodes.
        self._own: Counter[str] = Counter()
        self._managed: Counter[str] = Counter()
        self._managed_since: dict[str, str] = {}  # by the name of such a slice
        self.index = PoolIndex((), features)
        self.rules: dict[str, TaintRule] = {}
        self.selections = Selections(features)

    @property
    def names(self) -> Collection[str]:
        """The names of all slices."""
        return self._slices.keys()

    @property
    def nodes(self) -> set[str]:
        """The names of the nodes that slices are for."""
        return set(self._pools) - {""}

    @property
    def managed_nodes(self) -> list[str]:
        """The names of the nodes of whose devices :meth:`is_tainted` is true."""
        return [node for node in self._managed if self.is_tainted(node)]

    def is_tainted(self, node: str) -> bool:
        """Whether all of Rootport's devices of a node have the taint of managed nodes: kube-scheduler gives none."""
        return 0 < self._managed[node] == self._own[node]

    def managed_since(self, node: str) -> str:
        """Return since when a node's devices have that taint; empty where :meth:`is_tainted` is false, or none says so.

        The earliest time counts: a device that comes later has the taint from its beginning.
        """
        if not self.is_tainted(node):
            return ""
        names = (name for pool in self._pools[node] for name in self._names[pool])
        return min((since for name in names if (since := self._managed_since.get(name))), default="")

    def put(self, name: str, wire: Mapping[str, Any]) -> bool:
        """Take over a slice; whether it is new or has changed.

        Raises:
            UnreadableError: It is not a slice as the API server would store it.
        """
        former = self._slices.get(name)
        version = wire["metadata"].get("resourceVersion")
        if former is not None and version and former.metadata.resource_version == version:
            return False
        wire, managed_since = read_safely(_without_managed_taint, wire)
        self.add(read_safely(self._reader.read, wire), managed_since=managed_since)
        return True

    def add(self, item: ResourceSlice, *, managed_since: str | None = None) -> None:
        """Take over a slice that has been read, in place of the one of its name.

        Args:
            item: The slice, without the taint of managed nodes.
            managed_since: Since when all of its devices have it; None where they do not.
        """
        name = item.metadata.name
        former = self._slices.get(name)
        if former is not None:
            self._uncount(former)
        self._slices[name] = item
        pool = _pool(item)
        self._names[pool].add(name)
        node = item.spec.node_name or ""
        self._nodes[pool][node] += 1
        self._pools[node].add(pool)
        if item.spec.driver == DRIVER_NAME and item.spec.devices:
            self._own[node] += 1
            if managed_since is not None:
                self._managed[node] += 1
                self._managed_since[name] = managed_since
        self.index.put(with_rules(item, self.rules.values()))

    def remove(self, name: str) -> bool:
        """Forget a slice; whether it was there."""
        former = self._slices.pop(name, None)
        if former is None:
            return False
        self._uncount(former)
        self.index.remove(name)
        return True

    def put_rule(self, rule: TaintRule) -> bool:
        """Take over a DeviceTaintRule; whether it is new or has changed."""
        former = self.rules.get(rule.name)
        if former == rule:
            return False
        self.rules[rule.name] = rule
        self._taint_again([rule] if former is None else [former, rule])
        return True

    def remove_rule(self, name: str) -> bool:
        """Forget a rule; whether it was there."""
        former = self.rules.pop(name, None)
        if former is None:
            return False
        self._taint_again([former])
        return True

    def nodes_of(self, pool: PoolId) -> Collection[str]:
        """Return the nodes for which slices of the pool are; an empty name where several nodes may reach one."""
        counts = self._nodes.get(pool)
        return counts.keys() if counts is not None else ()

    def pools_of(self, node: str) -> Collection[PoolId]:
        """Return the pools that have slices for this very node."""
        return self._pools.get(node, ())

    def rule_behind(self, device: DeviceId, taint: DeviceTaint) -> str:
        """Return the name of the rule that put ``taint`` on a device; empty where its driver did."""
        published = (
            there
            for name in self._names.get(PoolId(device.driver, device.pool), ())
            for there in self._slices[name].spec.devices
            if there.name == device.device
        )
        # The time does not tell taints apart: whoever names one need not know it.
        if any(_same(taint, item) for there in published for item in there.taints):
            return ""
        return next(
            (
                rule.name
                for rule in sorted(self.rules.values(), key=lambda rule: rule.name)
                if _same(rule.taint, taint)
                and _selects(rule, driver=device.driver, pool=device.pool, device=device.device)
            ),
            "",
        )

    def _taint_again(self, changed: Iterable[TaintRule]) -> None:
        for item in self._reached_by(changed):
            self.index.put(with_rules(item, self.rules.values()))
            self._churned()

    def _reached_by(self, rules: Iterable[TaintRule]) -> list[ResourceSlice]:
        changed = list(rules)
        return [item for item in self._slices.values() if any(_concerns(rule, item) for rule in changed)]

    def _uncount(self, item: ResourceSlice) -> None:
        pool, node = _pool(item), item.spec.node_name or ""
        self._names[pool].discard(item.metadata.name)
        if not self._names[pool]:
            del self._names[pool]
        counts = self._nodes[pool]
        counts[node] -= 1
        if not counts[node]:
            del counts[node]
            self._pools[node].discard(pool)
            if not self._pools[node]:
                del self._pools[node]
        if not counts:
            del self._nodes[pool]
        if item.spec.driver == DRIVER_NAME and item.spec.devices:
            self._own[node] -= 1
            self._managed[node] -= self._managed_since.pop(item.metadata.name, None) is not None
        self._churned()

    def _churned(self) -> None:
        self._gone += 1
        if self._gone > _CHURN + len(self._slices):
            self._gone = 0
            self.selections = Selections(self._features)


def _without_managed_taint(wire: Mapping[str, Any]) -> tuple[Mapping[str, Any], str | None]:
    """Return a slice without the taint of managed nodes, and since when all of its devices have it; None if not all do.

    The taint is no property of a device: it says who gives the device out, and placement gives it to claims that do not
    tolerate it. So whoever asks what fits must not see it. Its time differs from node to node, and would make equal
    devices different ones.
    """
    spec = wire["spec"]
    devices = spec.get("devices") or ()
    if spec.get("driver") != DRIVER_NAME or not any("taints" in device for device in devices):
        return wire, None
    kept: list[Any] = []
    times: list[str] = []
    for device in devices:
        taints = device.get("taints") or ()
        others = [taint for taint in taints if taint.get("key") != TAINT]
        if len(others) == len(taints):
            kept.append(device)
            continue
        times += [str(taint.get("timeAdded") or "") for taint in taints if taint.get("key") == TAINT][:1]
        rest = {key: value for key, value in device.items() if key != "taints"}
        kept.append(rest | {"taints": others} if others else rest)
    if not times:
        return wire, None
    since = min(times) if len(times) == len(devices) else None
    return {**wire, "spec": {**spec, "devices": kept}}, since


def _pool(item: ResourceSlice) -> PoolId:
    return PoolId(item.spec.driver, item.spec.pool.name)


def _same(one: DeviceTaint, other: DeviceTaint) -> bool:
    return (one.key, one.value, one.effect) == (other.key, other.value, other.effect)


def _selects(rule: TaintRule, *, driver: str, pool: str, device: str) -> bool:
    """Whether a rule taints a device."""
    return (
        (not rule.driver or rule.driver == driver)
        and (not rule.pool or rule.pool == pool)
        and (not rule.device or rule.device == device)
    )


def _concerns(rule: TaintRule, item: ResourceSlice) -> bool:
    """Whether a rule taints some device of a slice."""
    driver, pool, devices = item.spec.driver, item.spec.pool.name, item.spec.devices
    if not devices or not _selects(rule, driver=driver, pool=pool, device=rule.device):
        return False
    return not rule.device or any(device.name == rule.device for device in devices)


def with_rules(item: ResourceSlice, rules: Iterable[TaintRule]) -> ResourceSlice:
    """Return the slice with the rules' taints on its devices; the very same one where no rule concerns it."""
    applying = sorted((rule for rule in rules if _concerns(rule, item)), key=lambda rule: rule.name)
    if not applying:
        return item
    driver, pool = item.spec.driver, item.spec.pool.name
    devices = tuple(
        _with_taints(
            device,
            tuple(rule.taint for rule in applying if _selects(rule, driver=driver, pool=pool, device=device.name)),
        )
        for device in item.spec.devices
    )
    return item.model_copy(update={"spec": item.spec.model_copy(update={"devices": devices})})


def _with_taints(device: Device, taints: tuple[DeviceTaint, ...]) -> Device:
    return device.model_copy(update={"taints": (*device.taints, *taints)}) if taints else device
