"""A node's ResourceSlices as a pure function of its inventory: the same hardware gives the same bytes.

What is published: each GPU whole, by percent and by MIG partition, RDMA NICs without VFs, VFs pooled or by name, FPGAs.
A device that cannot be given as what it would be published as is left out, and :mod:`driver.layout.left_out` says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Final

from driver import DRIVER_NAME
from driver.api import resource_v1
from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DevicePolicies
from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies, GpuPolicy
from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies, NicPolicy
from driver.api.validation.names import subdomain
from driver.errors import InputError
from driver.layout.binding import with_binding_conditions
from driver.layout.chunks import Chunk, chunks
from driver.layout.device_rules import Attributes, NodeRules, gpu_policy, node_rules, partitions_of, with_attributes
from driver.layout.devices import fpga_attributes
from driver.layout.gpu_devices import GpuDevices
from driver.layout.identities import Placeholders, without_identities
from driver.layout.left_out import names_device_nodes
from driver.layout.list_attributes import list_attributes
from driver.layout.names import slice_name
from driver.layout.neighbours import link_groups
from driver.layout.nic_devices import NicDevices, nic_offer, on_rail_by
from driver.layout.offers import GpuOffer, all_modes, gpu_offer
from driver.layout.order import fpgas_in_order, gpus_in_order, nics_in_order, vfs_in_order
from driver.layout.published import published
from driver.layout.remembered import Remembered
from driver.layout.taints import (
    closed_taints,
    default_route_taints,
    health_taints,
    managed_devices,
    node_taints,
    rival_taints,
    strategy_taints,
    with_taints,
)
from driver.layout.values import Value
from driver.model.devices import Device, DeviceName, Fpga, Gpu, RdmaNetnsMode, RdmaNic
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from driver.model.parts import GpuRatio
from driver.model.pci import PciAddress

__all__ = ["resource_slices"]

_NOTHING_KNOWN: Final = NodeHealth()
_NO_TAINTS: Final[Mapping[str, Sequence[resource_v1.DeviceTaint]]] = {}
_EVERYTHING: Final[Mapping[DeviceName, frozenset[DeviceName]]] = MappingProxyType({})
_NO_UID: Final = ""
_FIRST_GENERATION: Final = 1
# Sixty-four H100s in every way are 1,728 devices, which consume 4,288 counters.
_MOST_DEVICES: Final = 4096
_MOST_COUNTERS: Final = 16384


def resource_slices(  # noqa: PLR0913 - all by name
    inventory: Inventory,
    *,
    policies: GpuPolicies = DEFAULT_POLICIES,
    nic_policies: NicPolicies = DEFAULT_NIC_POLICIES,
    device_policies: DevicePolicies = DEFAULT_DEVICE_POLICIES,
    has_counters: bool = True,
    has_shares: bool = True,
    has_lists: bool = False,
    has_node_allocatable: bool = False,
    has_binding_conditions: bool = True,
    only: Mapping[DeviceName, frozenset[DeviceName]] = _EVERYTHING,
    closed: Collection[DeviceName] = (),
    health: NodeHealth = _NOTHING_KNOWN,
    managed: bool = False,
    other_taints: Mapping[str, Sequence[resource_v1.DeviceTaint]] = _NO_TAINTS,
) -> tuple[resource_v1.ResourceSlice, ...]:
    """Return the ResourceSlices of a node, in their order of allocation, which is the order of their names as well.

    They have the names and the generation of a new pool, and names as of a Node without a UID: the controller gives
    them those that fit what the cluster has.

    The pool is named after the node. A node without devices has one slice without devices: the driver is up. Nodes
    with equal hardware of which the same is published, and nothing wrong with it, share all devices that publish no
    UUID or GUID, and the tuples of such devices (``is``), so that consumers can cache by identity. Slices with the
    GPUs' counters come last.

    A GPU has counters exactly where not all of its published devices can be in use at once. A device that must not be
    given stays where it is, with a taint: the order of allocation is a matter of hardware. Only the other modes of GPUs
    that nobody can be given whole now come before those of other GPUs, so that these stay whole while there is room.

    Args:
        inventory: The node.
        policies: What the administrator lets be given of GPUs.
        nic_policies: Likewise of RDMA NICs.
        device_policies: What the administrator knows of the devices, and keeps off the offer.
        has_counters: Whether the API server keeps counters (feature gate DRAPartitionableDevices). Without them none is
            published, and devices that are not closed must be such that all can be in use at once.
        has_shares: Whether it keeps the fields by which a device can be shared (DRAConsumableCapacity). Without that a
            pool of VFs would be given once, so they are published by name.
        has_lists: Whether attributes may be lists, in the API server and in kube-scheduler (DRAListTypeAttributes).
            Without that a device in several places has the first alone.
        has_node_allocatable: Whether a device may take of the node's CPU and memory (DRANodeAllocatableResources).
        has_binding_conditions: Whether it keeps binding conditions (DRADeviceBindingConditions). Without them devices
            are prepared after a pod is bound, whatever the plugin does besides.
        only: By the GPU's name, the devices of it that are published, of all that its hardware can be given as, whether
            or not the policies offer them: what is in use has to stay. Of a GPU that is not named, all that the
            policies offer is published.
        closed: Published devices that nothing new may be given, so that their GPU can change its mode: they have the
            taint :data:`driver.layout.taints.MODE_CHANGE_TAINT`.
        health: What is wrong with the devices, whether any of them can be prepared, who else gives them out, and which
            are prepared before a pod is bound: these have binding conditions.
        managed: Whether the controller allocates the node's devices: all of them have the taint
            :data:`driver.model.managed_nodes.TAINT`, so that kube-scheduler does not.
        other_taints: The taints that others have put on devices, by their names in the slices; they stay.

    Raises:
        InputError: The node's name is not one that Kubernetes allows, two devices have one PCI address, or the node
            would have more devices or counters in its slices than any machine.
        ValueError: Open devices of a GPU exclude each other, and there are no counters to keep them apart.
    """
    _check(inventory)
    rules = tuple(gpu_policy(gpu, inventory.node, policies, device_policies) for gpu in inventory.gpus)
    device_rules = node_rules(inventory, device_policies)
    if not has_counters:
        _check_apart(inventory, rules, only, frozenset(closed))
    nic_rules = _nic_rules(inventory, nic_policies, device_rules, has_shares=has_shares)
    gpus, nics, identities = without_identities(
        inventory.gpus, (on_rail_by(policy, nic) for nic, policy in zip(inventory.nics, nic_rules, strict=True))
    )
    hardware = _Hardware(
        gpus=gpus,
        rules=rules,
        nics=nics,
        nic_rules=nic_rules,
        netns_mode=inventory.rdma_netns_mode,
        fpgas=inventory.fpgas,
        device_rules=device_rules,
        names_device_nodes=names_device_nodes(inventory),
        has_counters=has_counters,
        has_lists=has_lists,
        has_node_allocatable=has_node_allocatable,
        only=tuple(only.get(gpu.name) for gpu in inventory.gpus),
        closed=frozenset(closed) & {name for gpu in inventory.gpus for name in (gpu.name, GpuRatio(gpu=gpu).name)},
        managed=managed,
        binding=health.prepares_before_binding if has_binding_conditions else frozenset(),
    )
    parts = _REMEMBERED.of(hardware, lambda: Placeholders(_chunks(hardware))).filled(identities)
    taints = (
        health_taints(inventory, health),
        closed_taints(closed),
        node_taints(parts, health),
        strategy_taints(parts, health),
        rival_taints(inventory, health.rivals),
        default_route_taints(inventory, device_policies),
        other_taints,
    )
    parts = with_taints(parts, *taints)
    pool = resource_v1.ResourcePool(name=inventory.node, generation=_FIRST_GENERATION, resource_slice_count=len(parts))
    spec = resource_v1.ResourceSliceSpec(driver=DRIVER_NAME, pool=pool, node_name=inventory.node)
    return tuple(
        resource_v1.ResourceSlice(
            api_version=resource_v1.API_VERSION,
            kind="ResourceSlice",
            metadata=resource_v1.ObjectMeta(name=slice_name(inventory.node, _NO_UID, index)),
            # A copy, because pydantic's constructor would make a tuple of its own.
            spec=spec.model_copy(update={"devices": part.devices, "shared_counters": part.counter_sets}),
        )
        for index, part in enumerate(parts)
    )


def _nic_rules(
    inventory: Inventory, policies: NicPolicies, device_rules: NodeRules, *, has_shares: bool
) -> tuple[NicPolicy, ...]:
    """Return each NIC's rules, in which VFs are pooled only if they can be shared and are alike."""

    def rules(nic: RdmaNic) -> NicPolicy:
        policy = policies.of(model=nic.model, node=inventory.node)
        can_pool = has_shares and nic.name not in device_rules.vfs_differ
        return policy if can_pool else policy.model_copy(update={"vfs": "named"})

    return tuple(map(rules, inventory.nics))


def _check(inventory: Inventory) -> None:
    for error in subdomain("node", inventory.node):
        raise InputError(f"the node's name {error.message}", hint="give the node a name that Kubernetes allows")
    twice = [address for address, times in Counter(d.address for d in inventory.devices()).items() if times > 1]
    if twice:
        raise InputError(f"node {inventory.node} has two devices with the PCI address {min(twice)}")


def _check_apart(
    inventory: Inventory,
    rules: Sequence[GpuPolicy],
    only: Mapping[DeviceName, frozenset[DeviceName]],
    closed: frozenset[DeviceName],
) -> None:
    for gpu, policy in zip(inventory.gpus, rules, strict=True):
        if not gpu.device_nodes_known and names_device_nodes(inventory):
            continue
        names = only.get(gpu.name)
        offer = gpu_offer(gpu, policy.modes) if names is None else all_modes(gpu).only(names)
        if offer.counters is not None and all_modes(gpu).only(offer.names - closed).counters is not None:
            raise ValueError(f"devices of {gpu.name} that exclude each other would be published without counters")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hardware:
    """All that decides about a node's devices in the slices, apart from its name and its devices' UUIDs and GUIDs.

    Policies stand here as what they come to for each device, so that nodes of different names can be equal.
    """

    gpus: tuple[Gpu, ...]
    rules: tuple[GpuPolicy, ...]
    nics: tuple[RdmaNic, ...]
    nic_rules: tuple[NicPolicy, ...]
    netns_mode: RdmaNetnsMode | None
    fpgas: tuple[Fpga, ...]
    device_rules: NodeRules
    names_device_nodes: bool
    has_counters: bool
    has_lists: bool
    has_node_allocatable: bool
    only: tuple[frozenset[DeviceName] | None, ...]
    closed: frozenset[DeviceName]
    managed: bool
    binding: frozenset[str]


def _chunks(hardware: _Hardware) -> tuple[Chunk, ...]:
    gpus, nics, names_device_nodes = hardware.gpus, hardware.nics, hardware.names_device_nodes
    attributes: Mapping[str, Attributes] = dict(hardware.device_rules.attributes)
    off = hardware.device_rules.off

    def can_be_given(device: Device) -> bool:
        # prepare would refuse it each time, and the scheduler would choose it again.
        return device.device_nodes_known or not names_device_nodes

    linked = link_groups(gpus)
    policies = {gpu.address: policy for gpu, policy in zip(gpus, hardware.rules, strict=True)}
    # What the policies offer decides the order; what is published of it changes from hour to hour.
    offers: dict[PciAddress, GpuOffer] = {}
    on_offer: dict[PciAddress, GpuOffer] = {}
    for gpu, only in zip(gpus, hardware.only, strict=True):
        if can_be_given(gpu):
            policy = policies[gpu.address]
            offers[gpu.address] = gpu_offer(gpu, policy.modes)
            on_offer[gpu.address] = offers[gpu.address] if only is None else all_modes(gpu).only(only)
    nic_policies = {nic.address: policy for nic, policy in zip(nics, hardware.nic_rules, strict=True)}
    nic_offers = {
        nic.address: nic_offer(nic, nic_policies[nic.address], names_device_nodes=names_device_nodes).without(off)
        for nic in nics
    }
    usable_nics = [nic for nic in nics if nic_offers[nic.address]]

    def in_order(*, whole: bool) -> list[Gpu]:
        # Groups are of GPUs that are given alike: one in partitions is no use to a claim for four whole ones.
        alike = [
            offer.gpu for address, offer in offers.items() if (offer or on_offer[address]) and offer.is_whole is whole
        ]
        return gpus_in_order(alike, usable_nics, linked)

    wholes, never_whole = in_order(whole=True), in_order(whole=False)
    ordered_nics = [nic_offers[nic.address] for nic in nics_in_order(usable_nics, [*wholes, *never_whole])]
    by_address = {nic.address: nic for nic in nics}
    lists = list_attributes(gpus, nics, hardware.fpgas) if hardware.has_lists else {}
    of_nics = NicDevices(netns_mode=hardware.netns_mode, lists=lists)
    # Shares and partitions first come from GPUs that nobody can have whole.
    gpu_devices = [
        GpuDevices(
            offer=on_offer[gpu.address],
            policy=policies[gpu.address],
            counter_set=f"g{position}" if hardware.has_counters else None,
            linked=linked,
            lists=lists.get(gpu.address, {}),
            takes_of_node=policies[gpu.address].node_allocatable if hardware.has_node_allocatable else None,
        )
        for position, gpu in enumerate((*never_whole, *wholes))
    ]
    shared_first = sorted(gpu_devices, key=lambda of_gpu: not of_gpu.whole_names(ratio=False) <= hardware.closed)
    partitioned_first = sorted(gpu_devices, key=lambda of_gpu: not of_gpu.whole_names(ratio=True) <= hardware.closed)
    named = chain(
        (device for of_gpu in gpu_devices for device in of_gpu.whole()),
        (of_nics.whole(offer.nic, nic_policies[offer.nic.address]) for offer in ordered_nics if offer.is_whole),
        (of_nics.pool(offer.pool, nic_policies[offer.nic.address]) for offer in ordered_nics if offer.pool is not None),
        (
            of_nics.named(vf, by_address[vf.parent], nic_policies[vf.parent])
            for vf in vfs_in_order([offer.vfs for offer in ordered_nics])
        ),
        (
            _fpga(fpga, lists.get(fpga.address, {}))
            for fpga in fpgas_in_order([fpga for fpga in hardware.fpgas if can_be_given(fpga) and fpga.name not in off])
        ),
        (device for of_gpu in shared_first for device in of_gpu.ratio()),
    )
    devices = chain(
        (with_attributes(device, attributes.get(device.name, ())) for device in named),
        (
            with_attributes(device, attributes.get(partitions_of(of_gpu.offer.gpu), ()))
            for of_gpu in partitioned_first
            for device in of_gpu.partitions()
        ),
    )
    # Here and not with the other taints, so that managed nodes of equal hardware share their devices as others do.
    offered = managed_devices(devices) if hardware.managed else devices
    if hardware.binding:
        offered = with_binding_conditions(offered, hardware.binding)
    return chunks(_bounded(offered), [counters for of_gpu in gpu_devices for counters in of_gpu.counters()])


def _fpga(fpga: Fpga, lists: dict[str, Value]) -> resource_v1.Device:
    return resource_v1.Device(name=fpga.name, attributes=published(fpga_attributes(fpga) | lists))


def _bounded(devices: Iterable[resource_v1.Device]) -> Iterator[resource_v1.Device]:
    """Yield the devices, made one by one, so that it ends early where there are too many."""
    counters = 0
    for number, device in enumerate(devices, start=1):
        counters += sum(len(consumed.counters) for consumed in device.consumes_counters)
        if number > _MOST_DEVICES or counters > _MOST_COUNTERS:
            raise InputError(
                f"the ResourceSlices would have more than {_MOST_DEVICES} devices, or these would consume more than "
                f"{_MOST_COUNTERS} counters, which is more than any machine has",
                hint="look at the MIG placements and VFs in the node's NodeInventory; the GpuPolicies can offer GPUs "
                "in fewer ways, and the NicPolicies can pool VFs",
            )
        yield device


def _weight(hardware: _Hardware, laid_out: Placeholders) -> int:
    """Count published devices with their counters, and what of the hardware there may be much of."""
    devices = [device for part in laid_out.parts for device in part.devices]
    counters = sum(len(consumed.counters) for device in devices for consumed in device.consumes_counters)
    profiles = [profile for gpu in hardware.gpus if gpu.mig is not None for profile in gpu.mig.profiles]
    vfs = [vf for nic in hardware.nics for vf in nic.vfs]
    ports = sum(len(function.ports) + len(function.if_names) for function in (*hardware.nics, *vfs))
    return 1 + len(devices) + counters + sum(len(profile.placements) for profile in profiles) + len(vfs) + ports


# A published device takes 5 kB of memory.
_REMEMBERED: Final = Remembered[_Hardware, Placeholders](16_384, _weight)
