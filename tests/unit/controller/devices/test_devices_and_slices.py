"""What the slices offer is what Device objects, and the overviews made of them, say is on offer."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from controller.devices.offers import device_offers
from driver.api.gpu_policies import GpuPolicies
from driver.layout import left_out, resource_slices
from driver.model.devices import DeviceName, Gpu, MigInstance, MigPlacement, MigProfile, MigSupport, RdmaNic
from driver.model.inventory import Inventory
from driver.model.parts import named_devices, whole_device
from driver.modes.free_node import free_node
from driver.modes.rule import Layout
from driver.objects import device_objects, device_statuses
from driver.status.overview import device_overview
from tests.support.machines import fpga, gpu, nic, node

GIB = 1 << 30
HALF = MigProfile(
    name="3g.40gb",
    profile_id=9,
    compute_slices=3,
    memory_bytes=40 * GIB,
    max_instances=2,
    placements=(MigPlacement(start=0, size=4), MigPlacement(start=4, size=4)),
)
MADE = MigInstance(
    profile_id=9,
    placement=HALF.placements[0],
    gpu_instance=1,
    compute_instance=0,
    uuid="MIG-1",
    gpu_instance_minor=3,
    compute_instance_minor=4,
)


def card(bus: str, *, capability: str = "9.0", **mig: Any) -> Gpu:
    support = MigSupport(**({"enabled": False, "profiles": (HALF,)} | mig))
    return gpu(bus, memory_bytes=80 * GIB, cuda_compute_capability=capability, mig=support)


def machine() -> Inventory:
    blind = nic("24", vfs=2)
    return node(
        gpu("10", memory_bytes=80 * GIB),
        gpu("11"),  # whose memory is not known
        gpu("12", memory_bytes=80 * GIB, minor=None),  # without a device node
        card("13"),
        card("14", enabled=True, instances=(MADE,)),  # partitioned by an administrator
        card("15", capability="8.0", enabled=True),  # stays in MIG mode
        card("16", enabled=True, profiles=()),
        nic("20"),
        nic("21", verbs_minor=None),
        nic("22", vfs=2),
        nic("23", vfs=2, verbs_minor=None),
        replace(blind, vfs=tuple(replace(vf, verbs_minor=None) for vf in blind.vfs)),
        fpga("30"),
        fpga("31", device_paths=()),
    )


MODES = [modes for size in (1, 2, 3) for modes in product(("gpu", "gpu-ratio", "mig"), repeat=size)]


@pytest.mark.parametrize("follow_demand", [True, False], ids=["all-modes", "the-first-mode"])
@pytest.mark.parametrize("modes", sorted({tuple(sorted(set(modes))) for modes in MODES}), ids="+".join)
def test_a_device_is_on_offer_where_it_or_a_part_of_it_is_in_a_slice(
    modes: tuple[str, ...], follow_demand: bool
) -> None:
    inventory = machine()
    policies = GpuPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [{"modes": modes}]}
    )
    only = {} if follow_demand else free_node(Layout.ONE, inventory, policies)
    slices = resource_slices(inventory, policies=policies, only=only, has_counters=follow_demand)
    names = {device.name for item in slices for device in item.spec.devices}
    published = {whole_device(device).name for device in named_devices(inventory, names).values()}
    for part in inventory.nics:
        if {vf.name for vf in part.vfs} & published:
            published.add(part.name)
        if part.vfs and part.name in published:  # what a pool can give is on offer
            published |= {vf.name for vf in part.vfs if vf.device_nodes_known}

    reasons = left_out(inventory, policies=policies)
    offers = device_offers(inventory, reasons, policies=policies, follow_demand=follow_demand)
    by_name = {device.name: offer for device, offer in zip(inventory.devices(), offers, strict=True)}
    statuses = device_statuses(inventory, (), offers=by_name)
    shown = {
        made.spec.device_name: device_overview(
            made.model_copy(update={"status": statuses[DeviceName(made.spec.device_name)]})
        )
        for made in device_objects(inventory, left_out=reasons)
    }
    assert {name for name, device in shown.items() if device.offered} == published
    can_get = {
        device.name
        for device in inventory.devices()
        if isinstance(device, Gpu | RdmaNic) and statuses[device.name].largest_free
    }
    assert can_get == {name for name in published if shown[name].type in ("gpu", "rdma")}
