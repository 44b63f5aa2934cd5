"""How each device of a node can be allocated, as far as a Device's status shows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import GpuPolicies, GpuPolicy
from driver.layout.device_rules import gpu_policy
from driver.model.devices import Device, DeviceName, Gpu, RdmaNic
from driver.model.inventory import Inventory
from driver.model.pci import PciAddress, PciePath
from driver.modes.gpu import known_modes
from driver.objects.device_amounts import NOT_OFFERED, DeviceOffer

__all__ = ["DeviceOffers", "device_offers"]

DeviceOffers: TypeAlias = tuple[DeviceOffer, ...]
"""The offers of all devices of a node, in the inventory's order; one object for all equal nodes."""

_ANY: Final = PciAddress("0000:00:00.0")


def device_offers(
    inventory: Inventory,
    left_out: Mapping[DeviceName, str],
    *,
    policies: GpuPolicies,
    device_policies: DevicePolicies = DEFAULT_DEVICE_POLICIES,
    follow_demand: bool,
) -> DeviceOffers:
    """Return the offers of all devices.

    Args:
        inventory: The node's inventory.
        left_out: The devices that are in no slice (:func:`driver.layout.left_out`).
        policies: The GPU policies.
        device_policies: The device policies.
        follow_demand: Whether a GPU is published in any mode that the policies offer, if not at once then for a claim
            that needs it. Otherwise it is published in the first one alone.
    """

    def of(gpu: Gpu) -> GpuPolicy:
        return gpu_policy(gpu, inventory.node, policies, device_policies)

    return _shared(tuple(_offers(inventory, left_out.keys(), of, follow_demand=follow_demand)))


def _offers(
    inventory: Inventory,
    left_out: Collection[DeviceName],
    policy: Callable[[Gpu], GpuPolicy],
    *,
    follow_demand: bool,
) -> Iterator[DeviceOffer]:
    for device in inventory.devices():
        if isinstance(device, Gpu):
            yield _of_gpu(device, left_out, policy(device), follow_demand=follow_demand)
        elif isinstance(device, RdmaNic) and device.vfs:
            yield DeviceOffer(whole=False, parts=any(vf.name not in left_out for vf in device.vfs))
        else:
            yield DeviceOffer(whole=_is_in(device, left_out), parts=False)


def _of_gpu(gpu: Gpu, left_out: Collection[DeviceName], policy: GpuPolicy, *, follow_demand: bool) -> DeviceOffer:
    if not gpu.device_nodes_known and not _is_in(gpu, left_out):
        return NOT_OFFERED
    # What distinguishes one GPU from the next makes no difference here, and a cluster has only a few kinds.
    kind = replace(gpu, address=_ANY, pcie=PciePath(), index=0, minor=0, uuid=None, links=())
    return _of_kind(kind, policy, follow_demand=follow_demand)


@lru_cache(maxsize=256)
def _of_kind(gpu: Gpu, policy: GpuPolicy, *, follow_demand: bool) -> DeviceOffer:
    modes = list(known_modes(gpu, policy).offered)[: None if follow_demand else 1]
    return DeviceOffer(
        whole="gpu" in modes or "gpu-ratio" in modes,
        parts="mig" in modes,
        most_shares=policy.max_shares,
        core_total=policy.core.total,
        core_least=min(policy.core.minimum, policy.core.unasked),
        memory_least=policy.memory.minimum.ceil(),
        memory_step=policy.memory.step.ceil(),
    )


def _is_in(device: Device, left_out: Collection[DeviceName]) -> bool:
    return device.name not in left_out


@lru_cache(maxsize=256)
def _shared(offers: DeviceOffers) -> DeviceOffers:
    return offers
