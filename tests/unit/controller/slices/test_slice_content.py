"""The JSON of what equal nodes share is made once, and comparing it says the same as comparing what it means."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from controller.slices.content import has_content, is_same_content, read, spec_wire
from driver.api.quantity import Quantity
from driver.api.resource_v1 import DeviceTaint, NodeSelector, ResourceSliceSpec
from driver.layout.slices import resource_slices
from driver.model.inventory import Inventory
from tests.support.machines import nic
from tests.support.mig_machines import dgx_h100

TAINT = DeviceTaint(key="rootport.dev/unhealthy", value="Xid79", effect="NoSchedule")


def machine(number: int) -> Inventory:
    inventory = dgx_h100()
    gpus = (replace(item, uuid=f"GPU-{number}-{place}") for place, item in enumerate(inventory.gpus))
    return replace(inventory, node=f"node-{number}", gpus=tuple(gpus), nics=(nic("e0"),))


def specs(number: int) -> list[ResourceSliceSpec]:
    return [item.spec for item in resource_slices(machine(number))]


def stored(spec: ResourceSliceSpec) -> dict[str, Any]:
    """As it comes from the API server: other objects, keys in another order."""
    found: dict[str, Any] = json.loads(json.dumps(spec.to_wire(), sort_keys=True))
    return found


def test_the_json_is_that_of_the_model_for_each_node() -> None:
    for spec in (spec for number in (1, 2, 1) for spec in specs(number)):
        assert spec_wire(spec) == spec.to_wire()
        assert has_content(stored(spec), spec)


def test_nodes_that_differ_in_a_uuid_alone_are_told_apart_and_share_the_json_of_their_partitions() -> None:
    first, second = specs(1), specs(2)
    assert not has_content(stored(second[0]), first[0])
    wires = [
        {device["name"]: device for spec in found for device in spec_wire(spec).get("devices", ())}
        for found in (first, second)
    ]
    partitions = [name for name in wires[0] if name.startswith("mig-")]
    assert partitions
    assert all(wires[0][name] is wires[1][name] for name in partitions)


def changed(spec: ResourceSliceSpec, **update: Any) -> ResourceSliceSpec:
    return spec.model_copy(update={"devices": (spec.devices[0].model_copy(update=update), *spec.devices[1:])})


def test_every_difference_of_one_device_is_seen() -> None:
    (spec, *_) = specs(1)
    first = spec.devices[0]
    others = [
        changed(spec, name="another"),
        changed(spec, attributes=first.attributes | {"uuid": first.attributes["type"]}),
        changed(spec, attributes={}),
        changed(spec, capacity={}),
        changed(spec, consumes_counters=()),
        changed(spec, allow_multiple_allocations=None),
        changed(spec, taints=(TAINT,)),
        spec.model_copy(update={"devices": spec.devices[1:]}),
        spec.model_copy(update={"devices": spec.devices[::-1]}),
        spec.model_copy(update={"all_nodes": True}),
        spec.model_copy(update={"per_device_node_selection": True}),
        spec.model_copy(update={"node_selector": NodeSelector()}),
    ]
    for other in others:
        assert not has_content(stored(other), spec), other
        assert not has_content(stored(spec), other), other


def test_a_difference_in_counters_is_seen() -> None:
    spec = specs(1)[-1]
    (first, *rest) = spec.shared_counters
    other = spec.model_copy(update={"shared_counters": (first.model_copy(update={"name": "another"}), *rest)})
    assert not has_content(stored(other), spec)


def test_another_spelling_of_a_quantity_a_taints_time_and_a_newer_servers_field_make_no_difference() -> None:
    (spec, *_) = specs(1)
    wire = stored(spec)
    memory = wire["devices"][0]["capacity"]["memory"]
    memory["value"] = str(Quantity(memory["value"]).ceil())
    wire["devices"][1]["newField"] = {"a": 1}
    assert has_content(wire, spec)
    tainted = changed(spec, taints=(TAINT,))
    wire = stored(tainted)
    wire["devices"][0]["taints"][0]["timeAdded"] = "2026-01-02T03:04:05Z"
    assert has_content(wire, tainted)
    assert not has_content(wire, changed(spec, taints=(TAINT.model_copy(update={"value": "Xid48"}),)))


def test_what_this_version_could_not_have_written_is_another_content() -> None:
    (spec, *_) = specs(1)
    wire = stored(spec)
    wire["devices"][0]["attributes"] = "none"
    assert not has_content(wire, spec)
    assert read(wire) is None


def test_a_slice_for_other_nodes_is_compared_as_well() -> None:
    (spec, *_) = specs(1)
    everywhere = spec.model_copy(update={"all_nodes": True})
    assert has_content(stored(everywhere), everywhere)
    assert is_same_content(everywhere, everywhere)
