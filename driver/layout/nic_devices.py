"""The devices of one RDMA NIC: the NIC itself, or its VFs, pooled or by name; with capacities and taints.

A NIC that has VFs is not given itself: one claim would have the card, and others its VFs.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from driver.api.nic_policies import NicPolicy
from driver.api.resource_v1 import Device, DeviceCapacity, DeviceTaint
from driver.api.validation.names import label_value
from driver.layout import attributes
from driver.layout.capacities import in_steps, one_each, promised
from driver.layout.devices import (
    link_state,
    nic_attributes,
    pool_attributes,
    vf_attributes,
)
from driver.layout.extra_attributes import with_extra
from driver.layout.list_attributes import ListAttributes
from driver.layout.names import LINK_DOWN
from driver.layout.published import published
from driver.layout.values import Value
from driver.model.devices import DeviceName, RdmaNetnsMode, RdmaNic, RdmaVf
from driver.model.parts import RdmaVfPool, vf_pool
from driver.model.rails import on_rail

__all__ = ["NicDevices", "NicOffer", "nic_offer", "on_rail_by"]

_ALL: Final = 100
_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NicOffer:
    """What is published of one NIC: exactly one of the following, or nothing.

    Attributes:
        nic: The NIC.
        is_whole: The NIC itself.
        pool: Its VFs, as one device.
        vfs: Its VFs, each by its name.
    """

    nic: RdmaNic
    is_whole: bool = False
    pool: RdmaVfPool | None = None
    vfs: tuple[RdmaVf, ...] = ()

    def __bool__(self) -> bool:
        return self.is_whole or self.pool is not None or bool(self.vfs)

    def without(self, names: Collection[DeviceName]) -> NicOffer:
        """Return the offer without these devices."""
        return NicOffer(
            nic=self.nic,
            is_whole=self.is_whole and self.nic.name not in names,
            pool=None if self.pool is None or self.pool.name in names else self.pool,
            vfs=tuple(vf for vf in self.vfs if vf.name not in names),
        )


def on_rail_by(policy: NicPolicy, nic: RdmaNic) -> RdmaNic:
    """Return the NIC, with its VFs, on its policy's rail; unchanged where the policy names no rails."""
    if policy.rails is None:
        return nic
    of_nic = (
        entry.rail
        for entry in policy.rails
        if entry.has(if_names=nic.if_names, rdma_device=nic.rdma_device, address=nic.address, switch=nic.pcie.switch)
    )
    return on_rail(nic, next(of_nic, None))


def nic_offer(nic: RdmaNic, policy: NicPolicy, *, names_device_nodes: bool) -> NicOffer:
    """Return how a NIC is on offer.

    Args:
        nic: The NIC.
        policy: The rules for it.
        names_device_nodes: Whether the inventory's source names device nodes: then a device without one is not
            offered.
    """
    if not nic.vfs:
        return NicOffer(nic=nic, is_whole=nic.device_nodes_known or not names_device_nodes)
    if policy.vfs == "pooled" and (pool := vf_pool(nic)) is not None:
        return NicOffer(nic=nic, pool=pool)
    return NicOffer(nic=nic, vfs=tuple(vf for vf in nic.vfs if vf.device_nodes_known or not names_device_nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class NicDevices:
    """Makes the devices of NICs.

    Attributes:
        netns_mode: Who sees the node's RDMA devices; None where that is not known.
        lists: Attributes that are lists, in place of plain ones.
    """

    netns_mode: RdmaNetnsMode | None
    lists: ListAttributes = field(default_factory=dict)

    def whole(self, nic: RdmaNic, policy: NicPolicy) -> Device:
        """Return the NIC itself: given whole, or in shares of its bandwidth where it can be shared.

        In exclusive mode the RDMA device moves into the network namespace of one pod, so one claim has it.
        """
        can_be_shared = policy.sharing and self.netns_mode is not RdmaNetnsMode.EXCLUSIVE
        capacity = _bandwidth(nic, policy, is_default=True) if can_be_shared else {}
        values = nic_attributes(nic, netns_mode=self.netns_mode) | self.lists.get(nic.address, {})
        values = with_extra(values, policy.extra_attributes)
        return _device(nic.name, values, capacity, nic)

    def pool(self, pool: RdmaVfPool, policy: NicPolicy) -> Device:
        """Return the NIC's VFs as one device: each request takes one, and of the NIC's bandwidth what it names."""
        capacity = {attributes.VFS: one_each(len(pool.vfs)), **_bandwidth(pool.nic, policy, is_default=False)}
        values = pool_attributes(pool, netns_mode=self.netns_mode) | self.lists.get(pool.nic.address, {})
        values = with_extra(values, policy.extra_attributes)
        return _device(pool.name, values, capacity, pool.nic)

    def named(self, vf: RdmaVf, nic: RdmaNic, policy: NicPolicy) -> Device:
        """Return a VF of a NIC by its name."""
        values = vf_attributes(vf, nic=nic, netns_mode=self.netns_mode) | self.lists.get(nic.address, {})
        values = with_extra(values, policy.extra_attributes)
        return _device(vf.name, values, {}, nic)


def _device(
    name: str,
    values: dict[str, Value],
    capacity: dict[str, DeviceCapacity],
    nic: RdmaNic,
) -> Device:
    return Device(
        name=name,
        attributes=published(values),
        capacity=capacity,
        taints=_taints(nic),
        allow_multiple_allocations=True if capacity else None,
    )


def _bandwidth(nic: RdmaNic, policy: NicPolicy, *, is_default: bool) -> dict[str, DeviceCapacity]:
    """Return the NIC's bandwidth as a capacity: in the policy's unit, and in percent where its speed is not known.

    Args:
        nic: The NIC.
        policy: The rules for it.
        is_default: Whether a claim that names no bandwidth has all of it, and the minimum holds. VFs are many, so one
            that names none has none reserved.
    """
    speed = nic.bandwidth
    # More than Kubernetes could hold comes from a broken source.
    if policy.unit == "percent" or speed is None or not 0 < speed <= _MOST:
        name, whole = attributes.BANDWIDTH_RATIO, _ALL
        least, step = policy.bandwidth_ratio.minimum, policy.bandwidth_ratio.step
    else:
        name, whole = attributes.BANDWIDTH, speed
        least, step = policy.bandwidth.minimum.ceil(), policy.bandwidth.step.ceil()
    # Steps must end at the whole NIC. A claim that names no bandwidth is given the last one: were that less than all,
    # it would not have the NIC to itself. The divisor keeps every amount that the policy's own steps allow.
    minimum = min(least, whole)
    if is_default:
        return {name: in_steps(whole, minimum=minimum, step=math.gcd(step, whole - minimum))}
    # What is between two amounts is also the least here, since the amounts of a VF begin at 0, its default.
    step = math.gcd(step, minimum, whole)
    return {name: promised(whole, most=whole, minimum=step, step=step, default=0)}


def _taints(nic: RdmaNic) -> tuple[DeviceTaint, ...]:
    """Return the taints of the NIC, which its VFs have too, since they have no link without it."""
    if not nic.link_is_down:
        return ()
    link = link_state(nic)
    # A state that no taint can carry comes from a broken source: the taint counts, its value is for people.
    value = "unknown" if not link or any(label_value("", link)) else link
    return (DeviceTaint(key=LINK_DOWN, value=value, effect="NoSchedule"),)
