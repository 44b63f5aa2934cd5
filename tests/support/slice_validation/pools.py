"""Finds why consumers would skip a pool whose slices are fine one by one, but not together.

Source: k8s.io/dynamic-resource-allocation v0.36.3, structured/internal/incubating/pools_incubating.go: only the highest
generation counts, only with all its slices, and a device name twice, a counter set twice or a reference to an unknown
counter makes the pool invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from driver.api.resource_v1 import ResourceSlice
from driver.api.validation.errors import FieldError, shown

__all__ = ["pool_errors"]

_Numbered: TypeAlias = list[tuple[int, ResourceSlice]]


def pool_errors(slices: Sequence[ResourceSlice]) -> Iterator[FieldError]:
    """Yield an error for each reason to skip a pool of these slices; paths begin with ``slices[N]``."""
    pools: dict[tuple[str, str], _Numbered] = {}
    names: dict[str, int] = {}
    for index, item in enumerate(slices):
        pools.setdefault((item.spec.driver, item.spec.pool.name), []).append((index, item))
        earlier = names.setdefault(item.metadata.name, index) if item.metadata.name else index
        if earlier != index:
            message = f"{shown(item.metadata.name)} is the name of slices[{earlier}] as well"
            yield FieldError(f"slices[{index}].metadata.name", message)
    for pool in pools.values():
        newest = max(item.spec.pool.generation for _, item in pool)
        current = [(index, item) for index, item in pool if item.spec.pool.generation == newest]
        yield from _complete(current)
        yield from _device_names(current)
        yield from _counters(current)


def _complete(pool: _Numbered) -> Iterator[FieldError]:
    for index, item in pool:
        if item.spec.pool.resource_slice_count != len(pool):
            message = f"is {item.spec.pool.resource_slice_count}, but {len(pool)} of this generation are there"
            yield FieldError(f"slices[{index}].spec.pool.resourceSliceCount", message)


def _device_names(pool: _Numbered) -> Iterator[FieldError]:
    first: dict[str, int] = {}
    for index, item in pool:
        for position, device in enumerate(item.spec.devices):
            earlier = first.setdefault(device.name, index)
            if earlier != index:
                message = f"{shown(device.name)} is a device of slices[{earlier}] of this pool as well"
                yield FieldError(f"slices[{index}].spec.devices[{position}].name", message)


def _counters(pool: _Numbered) -> Iterator[FieldError]:
    counters: dict[str, frozenset[str]] = {}
    for index, item in pool:
        for position, counter_set in enumerate(item.spec.shared_counters):
            if counter_set.name in counters:
                path = f"slices[{index}].spec.sharedCounters[{position}].name"
                yield FieldError(path, f"{shown(counter_set.name)} is a counter set of this pool already")
            counters[counter_set.name] = frozenset(counter_set.counters)
    for index, item in pool:
        for position, device in enumerate(item.spec.devices):
            for number, consumption in enumerate(device.consumes_counters):
                path = f"slices[{index}].spec.devices[{position}].consumesCounters[{number}]"
                known = counters.get(consumption.counter_set)
                if known is None:
                    message = f"{shown(consumption.counter_set)} is no counter set of this pool"
                    yield FieldError(f"{path}.counterSet", message)
                    continue
                for name in sorted(set(consumption.counters) - known):
                    message = f"{shown(name)} is no counter of {shown(consumption.counter_set)}"
                    yield FieldError(f"{path}.counters[{name}]", message)
