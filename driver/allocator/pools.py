"""Which devices can be used from a node: pools, in the order in which they are tried.

Source: k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/incubating/pools_incubating.go. What it says:
of a pool, only the slices of the highest generation that reach the node count; the pool is *obsolete* (and ignored)
where a newer generation exists elsewhere, *incomplete* where slices of its generation are missing, *invalid* where a
name is used twice or a counter is unknown. Pools are tried by driver and name, slices by name, devices as listed;
pools with devices that have binding conditions come last.

Everything is indexed once: slices of one node cost nothing on other nodes, and pools that several nodes reach are
built once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from driver.allocator.errors import AllocationError
from driver.allocator.features import Channel, Features
from driver.allocator.identity import DeviceId, PoolId
from driver.allocator.node_selection import matches_node
from driver.allocator.shapes import Shapes
from driver.allocator.view import CounterKey, NodeView, Pool, PooledDevice, PoolState, SliceDevices
from driver.api.resource_v1 import Device, Node, ResourceSlice, ResourceSliceSpec

__all__ = ["CounterKey", "NodeView", "Pool", "PoolIndex", "PoolState", "PooledDevice", "SliceDevices"]


class PoolIndex:
    """All slices, by node and by pool; they may come and go.

    Args:
        slices: Of all drivers, in any order.
        features: What is on.
    """

    def __init__(self, slices: Iterable[ResourceSlice], features: Features) -> None:
        self._features = features
        self._shapes = Shapes()
        self._shape_of: dict[str, tuple[int | None]] = {}
        self._by_name: dict[str, ResourceSlice] = {}
        self._of_node: defaultdict[str, list[ResourceSlice]] = defaultdict(list)
        self._shared: list[ResourceSlice] = []
        self._counters_of: defaultdict[PoolId, list[ResourceSlice]] = defaultdict(list)
        self._of_pool: defaultdict[PoolId, list[ResourceSlice]] = defaultdict(list)
        self._views: dict[str, NodeView] = {}
        self._pools: defaultdict[PoolId, dict[tuple[int, ...], Pool | None]] = defaultdict(dict)
        self._troubled: dict[PoolId, Pool] | None = None
        self._versions: defaultdict[str, int] = defaultdict(int)
        self._version = 0
        for item in slices:
            self._add(item)

    def put(self, item: ResourceSlice) -> None:
        """Take over a slice that is new, or has changed: its name tells which one it is."""
        former = self._by_name.get(item.metadata.name)
        if former is not None:
            self._drop(former)
        self._add(item)
        self._changed(item if former is None else former, item)

    def remove(self, name: str) -> None:
        """Forget the slice of that name, if there is one."""
        former = self._by_name.get(name)
        if former is not None:
            self._drop(former)
            self._changed(former)

    def version(self, node: str) -> int:
        """Return a number that grows whenever what the node sees may have changed."""
        return self._versions.get(node, 0) + self._version

    def view(self, node: Node) -> NodeView:
        """Return the view of a node: the devices that can be allocated from it.

        Raises:
            AllocationError: A node selector is invalid.
        """
        known = self._views.get(node.metadata.name)
        if known is not None and (known.node is node or known.node.metadata.labels == node.metadata.labels):
            return known
        view = self._build_view(node)
        self._views[node.metadata.name] = view
        return view

    def view_with(self, node: Node, slices: Sequence[ResourceSlice]) -> NodeView:
        """Return the view that a node would have if its pool had these slices instead of those that it has.

        Args:
            node: The node.
            slices: All slices of one pool; at least one.

        Raises:
            AllocationError: A node selector is invalid.
        """
        replaced = _pool_id(slices[0])
        others = [
            item for pool in self.view(node).pools if pool.id != replaced for item in self._of_pool.get(pool.id, ())
        ]
        return PoolIndex((*others, *slices), self._features).view(node)

    def _add(self, item: ResourceSlice) -> None:
        spec = item.spec
        self._by_name[item.metadata.name] = item
        self._of_pool[_pool_id(item)].append(item)
        for into in self._places(spec):
            into.append(item)

    def _drop(self, item: ResourceSlice) -> None:
        del self._by_name[item.metadata.name]
        self._shape_of.pop(item.metadata.name, None)
        _without(self._of_pool[_pool_id(item)], item)
        for place in self._places(item.spec):
            _without(place, item)

    def _places(self, spec: ResourceSliceSpec) -> tuple[list[ResourceSlice], ...]:
        """Return the lists in which a slice is kept."""
        if not self._features.partitionable_devices and (
            spec.per_device_node_selection is not None or spec.shared_counters
        ):
            return ()
        if spec.shared_counters:
            return (self._counters_of[_pool_id_of(spec)],)
        return (self._of_node[spec.node_name] if spec.node_name else self._shared,)

    def _changed(self, *items: ResourceSlice) -> None:
        """Forget what was built of the pools of ``items``."""
        for pool_id in {_pool_id(item) for item in items}:
            self._pools.pop(pool_id, None)
            was_troubled = self._troubled is not None and pool_id in self._troubled
            if self._troubled is not None:
                self._find_trouble(pool_id, self._troubled)
            everywhere = was_troubled or (self._troubled is not None and pool_id in self._troubled)
            nodes = {item.spec.node_name for item in (*items, *self._of_pool[pool_id])}
            if everywhere or None in nodes or "" in nodes:
                self._views.clear()
                self._version += 1
            for node in nodes:
                if node:
                    self._views.pop(node, None)
                    self._versions[node] += 1
            if not self._of_pool[pool_id]:
                del self._of_pool[pool_id]

    def _build_view(self, node: Node) -> NodeView:
        of_pool: defaultdict[PoolId, list[ResourceSlice]] = defaultdict(list)
        for item in self._of_node.get(node.metadata.name, ()):
            of_pool[_pool_id(item)].append(item)
        for item in self._shared:
            if _reaches(item, node):
                of_pool[_pool_id(item)].append(item)
        for pool_id in of_pool:
            # Counters are needed wherever the pool is, whatever the node selection of their slice.
            of_pool[pool_id] += self._counters_of.get(pool_id, ())
        pools = [pool for pool_id, found in of_pool.items() if (pool := self._pool(pool_id, found)) is not None]
        if self._troubled is None:
            self._troubled = {}
            for pool_id in list(self._counters_of):
                self._find_trouble(pool_id, self._troubled)
        pools += [pool for pool_id, pool in self._troubled.items() if pool_id not in of_pool]
        pools.sort(key=lambda pool: (pool.comes_last, pool.id))
        slices = tuple(part for pool in pools for part in pool.slices)
        invalid = next((pool for pool in pools if pool.state is PoolState.INVALID), None)
        return NodeView(node, tuple(pools), slices, invalid)

    def _find_trouble(self, pool_id: PoolId, troubled: dict[PoolId, Pool]) -> None:
        """Whether nodes that reach nothing of the pool but its counters see that something is wrong with it.

        As upstream, where slices with counters reach every node: an incomplete pool of one node keeps requests for all
        devices from every node. A pool in order is of no concern there, having no devices.
        """
        troubled.pop(pool_id, None)
        counters = self._counters_of.get(pool_id)
        pool = self._pool(pool_id, counters) if counters else None
        if pool is not None and pool.state is not PoolState.USABLE:
            troubled[pool_id] = pool

    def _pool(self, pool_id: PoolId, found: Sequence[ResourceSlice]) -> Pool | None:
        """Return the pool as far as ``found`` of its slices reach a node; None where it is obsolete."""
        key = tuple(map(id, found))  # the slices live until the pool changes, and then this is forgotten
        known = self._pools[pool_id]
        if key not in known:
            known[key] = self._build_pool(pool_id, found)
        return known[key]

    def _build_pool(self, pool_id: PoolId, found: Sequence[ResourceSlice]) -> Pool | None:
        generation = max(item.spec.pool.generation for item in found)
        current = [item for item in found if item.spec.pool.generation == generation]
        wanted = current[0].spec.pool.resource_slice_count
        everywhere = current
        if len(current) != wanted:
            published = self._of_pool[pool_id]
            if any(item.spec.pool.generation > generation for item in published):
                return None
            everywhere = [item for item in published if item.spec.pool.generation == generation]
            if len(everywhere) != wanted:
                reason = f"{len(everywhere)} of {wanted} slices of generation {generation} are there"
                return Pool(pool_id, PoolState.INCOMPLETE, reason)
        if self._features.channel is Channel.STABLE:
            published_at = {id(item): position for position, item in enumerate(self._of_pool[pool_id])}
            current.sort(key=lambda item: published_at[id(item)])
        else:
            current.sort(key=lambda item: item.metadata.name)
        names = {item.metadata.name for item in current}
        return self._complete_pool(pool_id, current, [item for item in everywhere if item.metadata.name not in names])

    def _complete_pool(
        self, pool_id: PoolId, current: Sequence[ResourceSlice], elsewhere: Sequence[ResourceSlice]
    ) -> Pool:
        with_devices = [item for item in current if not item.spec.shared_counters]
        with_counters = [item for item in current if item.spec.shared_counters]
        slices = tuple([self._slice(pool_id, item) for item in with_devices])
        not_here = tuple([self._slice(pool_id, item) for item in elsewhere])
        shape = self._shapes.of_pool(slices, not_here, with_counters)
        problem = self._shapes.problem(shape, current, elsewhere, counters=self._features.partitionable_devices)
        if problem:
            return Pool(pool_id, PoolState.INVALID, problem)
        return Pool(
            id=pool_id,
            state=PoolState.USABLE,
            slices=slices,
            elsewhere=not_here,
            counters=self._shapes.amounts(with_counters),
            comes_last=any(device.binding_conditions for part in slices for device in part.source),
            shape=None if elsewhere else shape,
        )

    def _slice(self, pool_id: PoolId, item: ResourceSlice) -> SliceDevices:
        spec = item.spec
        name = item.metadata.name
        known = self._shape_of.get(name)
        if known is None:
            known = self._shape_of[name] = (self._shapes.of(spec),)

        def build() -> tuple[PooledDevice, ...]:
            return tuple([self._device(pool_id, device, spec) for device in spec.devices])

        return SliceDevices(pool_id.driver, spec.devices, build, shape=known[0])

    def _device(self, pool_id: PoolId, device: Device, spec: ResourceSliceSpec) -> PooledDevice:
        shareable = self._features.consumable_capacity and device.allow_multiple_allocations is True
        simple = not (
            shareable
            or spec.per_device_node_selection
            or device.taints
            or device.consumes_counters
            or any(capacity.request_policy is not None for capacity in device.capacity.values())
        )
        return PooledDevice(
            id=DeviceId(pool_id.driver, pool_id.pool, device.name),
            device=device,
            slice=spec,
            counters=self._shapes.consumption(device),
            shareable=shareable,
            simple=simple,
        )


def _pool_id(item: ResourceSlice) -> PoolId:
    return _pool_id_of(item.spec)


def _pool_id_of(spec: ResourceSliceSpec) -> PoolId:
    return PoolId(spec.driver, spec.pool.name)


def _without(items: list[ResourceSlice], item: ResourceSlice) -> None:
    """Take out the very object: comparing slices by value would take long."""
    for place, found in enumerate(items):
        if found is item:
            del items[place]
            return


def _reaches(item: ResourceSlice, node: Node) -> bool:
    spec = item.spec
    if spec.shared_counters:
        return True
    try:
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return matches_node(node, node_name=spec.node_name, all_nodes=spec.all_nodes, selector=spec.node_selector)
        # A slice that says nothing of its nodes is of a kind unknown to upstream: left out, as it does.
        return spec.per_device_node_selection is True and any(
            matches_node(node, node_name=device.node_name, all_nodes=device.all_nodes, selector=device.node_selector)
            for device in spec.devices
        )
    except AllocationError as error:
        raise AllocationError(f"ResourceSlice {item.metadata.name}: {error.message}") from error
