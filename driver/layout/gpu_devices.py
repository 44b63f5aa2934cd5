"""The devices of one GPU, with their capacities and what they consume of its counters.

Capacities carry a request policy, by which kube-scheduler rounds a share up to an allowed size, and gives all of the
GPU to a claim that asks for no amount. Source of the rules for policies: k8s.io/api v0.36.3, resource/v1/types.go,
CapacityRequestPolicy; KEP-5075.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from driver.api.gpu_policies import GpuPolicy, MemorySteps, PercentSteps
from driver.api.quantity import Quantity
from driver.api.resource_v1 import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
)
from driver.layout import attributes
from driver.layout.devices import gpu_attributes, partition_attributes, ratio_attributes
from driver.layout.offers import GpuOffer, memory_of
from driver.model.pci import PciAddress

__all__ = ["GpuDevices"]

_ALL: Final = 100
_ONE: Final = Quantity.of(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevices:
    """The devices that are published of one GPU.

    Attributes:
        offer: In which ways the GPU is on offer.
        policy: The rules for its shares.
        counter_set: The name of its counter set in the pool.
        domains: The link domains of all GPUs of the node.
    """

    offer: GpuOffer
    policy: GpuPolicy
    counter_set: str
    domains: Mapping[PciAddress, PciAddress]

    def whole(self) -> Iterator[Device]:
        """The GPU itself, if it is on offer: given whole, or in shares of core percent and bytes."""
        if not self.offer.is_whole:
            return
        gpu = self.offer.gpu
        capacity = {attributes.CORE: _percent(self.policy.core)}
        memory = memory_of(gpu)
        if memory is not None:
            capacity[attributes.MEMORY] = _bytes(memory, self.policy.memory)
        yield self._shareable(gpu.name, gpu_attributes(gpu, domains=self.domains), capacity)

    def ratio(self) -> Iterator[Device]:
        """The GPU in shares of core percent and memory percent, if it is on offer so."""
        ratio = self.offer.ratio
        if ratio is None:
            return
        core, memory = _percent(self.policy.core), _percent(self.policy.memory_ratio)
        capacity = {attributes.CORE: core, attributes.MEMORY_RATIO: memory}
        yield self._shareable(ratio.name, ratio_attributes(ratio, domains=self.domains), capacity)

    def partitions(self) -> Iterator[Device]:
        """The GPU's MIG partitions. A partition is given whole."""
        counters = self.offer.counters
        for partition in self.offer.partitions:
            memory = Quantity.of(partition.profile.memory_bytes, binary=True)
            yield Device(
                name=partition.name,
                attributes=partition_attributes(partition),
                capacity={attributes.MEMORY: DeviceCapacity(value=memory)},
                consumes_counters=self._consumes(None if counters is None else counters.of_partition(partition)),
            )

    def counters(self) -> Iterator[CounterSet]:
        """The GPU's counters, if it needs any."""
        if self.offer.counters is not None:
            yield CounterSet(name=self.counter_set, counters=_counters(self.offer.counters.totals))

    def _shareable(self, name: str, given: dict[str, DeviceAttribute], capacity: dict[str, DeviceCapacity]) -> Device:
        counters = self.offer.counters
        return Device(
            name=name,
            attributes=given,
            capacity=capacity | _shares(self.policy),
            consumes_counters=self._consumes(None if counters is None else counters.of_all),
            allow_multiple_allocations=True,
        )

    def _consumes(self, amounts: Mapping[str, int] | None) -> tuple[DeviceCounterConsumption, ...]:
        if amounts is None:
            return ()
        return (DeviceCounterConsumption(counter_set=self.counter_set, counters=_counters(amounts)),)


def _counters(amounts: Mapping[str, int]) -> dict[str, Counter]:
    return {name: Counter(value=Quantity.of(amount)) for name, amount in amounts.items()}


def _percent(steps: PercentSteps) -> DeviceCapacity:
    return _in_steps(_ALL, minimum=steps.minimum, step=steps.step, binary=False)


def _bytes(memory: int, steps: MemorySteps) -> DeviceCapacity:
    return _in_steps(memory, minimum=steps.minimum.ceil(), step=steps.step.ceil(), binary=True)


def _in_steps(whole: int, *, minimum: int, step: int, binary: bool) -> DeviceCapacity:
    """A capacity whose shares have ``minimum`` and any number of steps more; who does not ask is given the largest."""
    minimum = min(minimum, whole)
    most = minimum + (whole - minimum) // step * step

    def quantity(amount: int) -> Quantity:
        return Quantity.of(amount, binary=binary)

    # The API server refuses a step that does not fit above the minimum once.
    valid = CapacityRequestPolicyRange(
        min=quantity(minimum), max=quantity(most), step=quantity(step) if most > minimum else None
    )
    return DeviceCapacity(
        value=quantity(whole),
        request_policy=CapacityRequestPolicy(default=quantity(most), valid_range=valid),
    )


def _shares(policy: GpuPolicy) -> dict[str, DeviceCapacity]:
    if policy.max_shares is None:
        return {}
    one_each = CapacityRequestPolicy(default=_ONE, valid_values=(_ONE,))
    return {attributes.SHARES: DeviceCapacity(value=Quantity.of(policy.max_shares), request_policy=one_each)}
