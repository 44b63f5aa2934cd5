"""The devices of one GPU, with their capacities and what they consume of its counters.

A share is rounded up to an allowed size. One that asks for no memory gets all of it, and so has the GPU alone; one that
asks for no core gets what the policy says, which is none by default: core that nobody reserved is for all who share the
GPU. Where the GPU's memory is not known, whoever asks for no core has all of it, and the GPU alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from driver.api.gpu_policies import CoreSteps, GpuPolicy, MemorySteps, NodeAllocatable, PercentSteps
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    Counter,
    CounterSet,
    Device,
    DeviceCapacity,
    DeviceCounterConsumption,
    NodeAllocatableOverhead,
    NodeAllocatableResource,
)
from driver.layout import attributes
from driver.layout.capacities import in_steps, one_each, promised
from driver.layout.devices import gpu_attributes, partition_attributes, partition_gpu_attributes, ratio_attributes
from driver.layout.extra_attributes import with_extra
from driver.layout.neighbours import LinkGroups
from driver.layout.offers import GpuOffer, memory_of
from driver.layout.published import published
from driver.layout.strategies import offered_strategy
from driver.layout.values import Value
from driver.model.devices import DeviceName
from driver.model.pci import PciAddress

__all__ = ["GpuDevices"]

_ALL: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevices:
    """The devices that are published of one GPU.

    Attributes:
        offer: The devices.
        policy: The rules for its shares.
        counter_set: The name of its counter set in the pool; None where the API server keeps no counters.
        linked: The groups of all GPUs of the node that are linked.
        lists: Attributes of the GPU that are lists, in place of its plain ones.
        takes_of_node: What each pod with a claim on the GPU takes of the node besides; None for nothing.
    """

    offer: GpuOffer
    policy: GpuPolicy
    counter_set: str | None
    linked: Mapping[PciAddress, LinkGroups]
    lists: dict[str, Value] = field(default_factory=dict)
    takes_of_node: NodeAllocatable | None = None

    def whole_names(self, *, ratio: bool) -> frozenset[DeviceName]:
        """Return the name of the GPU itself, if it is published; with ``ratio`` also that of its percent device."""
        names = {self.offer.gpu.name} if self.offer.is_whole else set()
        if ratio and self.offer.ratio is not None:
            names.add(self.offer.ratio.name)
        return frozenset(names)

    def whole(self) -> Iterator[Device]:
        """Yield the GPU itself, if it is on offer: given whole, or in shares of core percent and bytes."""
        if not self.offer.is_whole:
            return
        gpu = self.offer.gpu
        memory = memory_of(gpu)
        if memory is None:
            capacity = {attributes.CORE: _percent(self.policy.core)}
        else:
            capacity = {
                attributes.CORE: _core(self.policy.core),
                attributes.MEMORY: _bytes(memory, self.policy.memory),
            }
        yield self._shareable(gpu.name, gpu_attributes(gpu, linked=self.linked), capacity)

    def ratio(self) -> Iterator[Device]:
        """Yield the GPU in shares of core percent and memory percent, if it is on offer so."""
        ratio = self.offer.ratio
        if ratio is None:
            return
        core, memory = _core(self.policy.core), _percent(self.policy.memory_ratio)
        capacity = {attributes.CORE: core, attributes.MEMORY_RATIO: memory}
        yield self._shareable(ratio.name, ratio_attributes(ratio, linked=self.linked), capacity)

    def partitions(self) -> Iterator[Device]:
        """Yield the GPU's MIG partitions. A partition is given whole."""
        counters = self.offer.counters
        for partition in self.offer.partitions:
            memory = Quantity.of(partition.profile.memory_bytes, binary=True)
            values = partition_attributes(partition) | self.lists
            if extra := self.policy.extra_attributes:
                values = with_extra(values, extra, partition_gpu_attributes(partition, linked=self.linked))
            yield Device(
                name=partition.name,
                attributes=published(values),
                capacity={attributes.MEMORY: DeviceCapacity(value=memory)},
                consumes_counters=self._consumes(None if counters is None else counters.of_partition(partition)),
            )

    def counters(self) -> Iterator[CounterSet]:
        """Yield the GPU's counters, if it needs any."""
        if self.offer.counters is not None and self.counter_set is not None:
            yield CounterSet(name=self.counter_set, counters=_counters(self.offer.counters.totals))

    def _shareable(self, name: str, values: dict[str, Value], capacity: dict[str, DeviceCapacity]) -> Device:
        counters = self.offer.counters
        return Device(
            name=name,
            attributes=published(with_extra(values | self.lists | self._strategy(), self.policy.extra_attributes)),
            capacity=capacity | _shares(self.policy),
            consumes_counters=self._consumes(None if counters is None else counters.of_all),
            allow_multiple_allocations=True,
            node_allocatable_resources={
                name: NodeAllocatableResource(overhead=NodeAllocatableOverhead(per_pod=amount))
                for name, amount in self.takes_of_node or ()
            },
        )

    def _strategy(self) -> dict[str, Value]:
        return {attributes.SHARING_STRATEGY: Value("string", offered_strategy(self.offer.gpu, self.policy))}

    def _consumes(self, amounts: Mapping[str, int] | None) -> tuple[DeviceCounterConsumption, ...]:
        if amounts is None or self.counter_set is None:
            return ()
        return (DeviceCounterConsumption(counter_set=self.counter_set, counters=_counters(amounts)),)


def _counters(amounts: Mapping[str, int]) -> dict[str, Counter]:
    return {name: Counter(value=Quantity.of(amount)) for name, amount in amounts.items()}


def _percent(steps: PercentSteps) -> DeviceCapacity:
    return in_steps(_ALL, minimum=steps.minimum, step=steps.step)


def _core(steps: CoreSteps) -> DeviceCapacity:
    return promised(steps.total, most=_ALL, minimum=steps.minimum, step=steps.step, default=steps.unasked)


def _bytes(memory: int, steps: MemorySteps) -> DeviceCapacity:
    return in_steps(memory, minimum=steps.minimum.ceil(), step=steps.step.ceil(), binary=True)


def _shares(policy: GpuPolicy) -> dict[str, DeviceCapacity]:
    return {} if policy.max_shares is None else {attributes.SHARES: one_each(policy.max_shares)}
