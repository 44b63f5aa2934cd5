"""Whatever a node has and a claim was given: each request gets its devices alone, and no spec has unknown fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.adapters.machines.topology import read_topology
from driver.api.resource_v1 import ResourceClaim
from driver.model.devices import Device
from driver.model.inventory import Inventory
from driver.plan import DriverFiles, PreparePlan, prepare_plan
from tests.support.plan.builders import claim
from tests.support.plan.builders import given as result
from tests.support.plan.drawn_claims import allocated
from tests.support.plan.driver_files import FILES, HOOKS
from tests.support.topologies import machine_file

MACHINES = [machine_file("aws-p4d.24xlarge"), machine_file("azure-nd-h100-v5")]
# The fields that the CDI library knows (specs-go v1.1.1, config.go) and the plan uses.
KNOWN = {"cdiVersion", "kind", "devices", "name", "containerEdits", "env", "deviceNodes", "path"}
KNOWN_WITH_ALL = KNOWN | {"hostPath", "mounts", "containerPath", "options", "hooks", "hookName", "args"}


def keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def check(plan: PreparePlan, inventory: Inventory, of: ResourceClaim) -> None:
    assert of.status.allocation is not None
    results = of.status.allocation.devices.results
    assert [(device.request_names, device.device) for device in plan.devices] == [
        ((item.request.partition("/")[0],), item.device) for item in results
    ]
    if not results:
        assert plan.spec is None
        return
    assert plan.spec is not None
    content = json.loads(plan.spec.to_json())
    assert keys(content) <= KNOWN
    ids = [cdi_id for device in plan.devices for cdi_id in device.cdi_device_ids]
    assert ids == [device.id for device in plan.spec.devices]
    assert len(set(ids)) == len(ids)
    assert all(of.metadata.uid in device.name for device in plan.spec.devices)
    by_name: dict[str, Device] = {device.name: device for device in inventory.devices()}
    for item, device in zip(results, plan.spec.devices, strict=True):
        assert device.device_nodes
        assert all(path.startswith("/dev/") for path in device.device_nodes)
        # The nodes of a device depend on the device alone (and on rdmaCM), not on what else the claim was given.
        alone = prepare_plan(
            claim(result("x", item.device, pool=inventory.node), configs=of.status.allocation.devices.config),
            node_of(by_name[item.device], inventory),
            assume_minors=True,
        )
        assert alone.spec is not None
        assert alone.spec.devices[0].device_nodes == device.device_nodes
    variables = [variable.partition("=")[0] for device in plan.spec.devices for variable in device.env]
    ours = [name for name in variables if name.startswith("ROOTPORT_")]
    assert len(set(ours)) == len(ours)


def node_of(device: Device, inventory: Inventory) -> Inventory:
    """The same node with nothing but the device (and, for a VF, its PF)."""
    return Inventory(
        node=inventory.node,
        source=inventory.source,
        gpus=tuple(item for item in inventory.gpus if item is device),
        nics=tuple(item for item in inventory.nics if item is device or device in item.vfs),
        fpgas=tuple(item for item in inventory.fpgas if item is device),
    )


@given(allocated())
def test_every_plan_keeps_the_requests_apart(case: tuple[Inventory, ResourceClaim]) -> None:
    inventory, of = case
    check(prepare_plan(of, inventory, assume_minors=True), inventory, of)


@given(allocated(), st.sampled_from([None, FILES, HOOKS]), st.sampled_from(["", "/srv/fake"]), st.booleans())
def test_what_is_added_takes_nothing_away(
    case: tuple[Inventory, ResourceClaim], files: DriverFiles | None, root: str, metadata: bool
) -> None:
    inventory, of = case
    bare = prepare_plan(of, inventory, assume_minors=True)
    plan = prepare_plan(
        of,
        inventory,
        assume_minors=True,
        driver_files=files,
        device_root=root,
        metadata_root="/var/lib/metadata" if metadata else None,
    )
    assert plan.device_paths == tuple(root + path for path in bare.device_paths)
    assert (plan.spec is None) == (bare.spec is None)
    requests = {name for device in plan.devices for name in device.request_names}
    assert {file.relative_path for file in plan.files} == {
        f"{of.metadata.uid}/{request}.json" for request in requests if metadata
    }
    for device, alone in zip(plan.devices, bare.devices, strict=True):
        assert device.cdi_device_ids[:1] == alone.cdi_device_ids
    if plan.spec is None or bare.spec is None:
        return
    content = json.loads(plan.spec.to_json())
    assert keys(content) <= KNOWN_WITH_ALL
    for device, alone in zip(plan.spec.devices, bare.spec.devices, strict=False):
        assert (device.name, device.device_nodes, device.env) == (alone.name, alone.device_nodes, alone.env)
    # No id leads nowhere, and each device of the spec is handed over with some request.
    handed_over = {cdi_id for device in plan.devices for cdi_id in device.cdi_device_ids}
    assert handed_over == {device.id for device in plan.spec.devices}
    mounted = {mount.host_path for device in plan.spec.devices for mount in device.mounts}
    assert {f"/var/lib/metadata/{file.relative_path}" for file in plan.files} <= mounted


@pytest.mark.parametrize("topology", MACHINES, ids=lambda path: path.stem)
def test_every_device_of_a_real_machine_can_be_prepared(topology: Path) -> None:
    inventory = read_topology(topology)
    results = [result(device.type, device.name, pool=inventory.node) for device in inventory.devices()]
    assert len(results) > 8
    of = claim(*results)
    plan = prepare_plan(of, inventory, assume_minors=True)
    check(plan, inventory, of)
    assert plan.notes


@given(allocated())
def test_the_same_claim_and_node_give_the_same_bytes(case: tuple[Inventory, ResourceClaim]) -> None:
    inventory, of = case
    turned = Inventory(
        node=inventory.node,
        source=inventory.source,
        gpus=inventory.gpus[::-1],
        nics=inventory.nics[::-1],
        fpgas=inventory.fpgas[::-1],
    )
    copy = ResourceClaim.model_validate(json.loads(of.model_dump_json(by_alias=True)))
    first, second = prepare_plan(of, inventory, assume_minors=True), prepare_plan(copy, turned, assume_minors=True)
    assert first == second
    assert (first.spec and first.spec.to_json()) == (second.spec and second.spec.to_json())
