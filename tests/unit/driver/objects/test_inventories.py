"""A NodeInventory carries the whole inventory, and what a node wrote is checked before it is believed."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from driver.api import rootport_v1alpha1 as api
from driver.api.resource_v1 import ObjectMeta
from driver.api.rootport_v1alpha1 import NodeInventory
from driver.errors import InputError
from driver.model import devices as model
from driver.model.distance import Level
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath
from driver.objects.inventories import inventory_of, parse_node_inventory
from driver.objects.written_inventory import node_inventory
from tests.support.inventories import MACHINES, drawn_inventories, machine
from tests.support.machines import fpga, gpu, nic, node


def wire(inventory: Inventory) -> Any:
    """What the API server is sent, as it would come back."""
    return json.loads(json.dumps(node_inventory(inventory)))


def refused(document: object) -> str:
    with pytest.raises(InputError) as caught:
        inventory_of(parse_node_inventory(document))
    return str(caught.value)


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_comes_back_as_it_was(name: str) -> None:
    inventory = machine(name)
    assert inventory_of(parse_node_inventory(wire(inventory))) == inventory


@given(drawn_inventories())
def test_any_inventory_comes_back_as_it_was(inventory: Inventory) -> None:
    made = node_inventory(inventory)
    assert inventory_of(parse_node_inventory(made)) == inventory
    assert parse_node_inventory(made).to_wire() == made
    assert inventory_of(parse_node_inventory(wire(inventory))) == inventory


def test_what_comes_back_is_the_models_own() -> None:
    back = inventory_of(parse_node_inventory(wire(node(gpu("01", links=["02"]), nic("03", vfs=1), fpga("04")))))
    assert type(back.gpus[0].links[0].kind) is model.LinkKind
    assert type(back.gpus[0].pcie) is PciePath
    assert type(back.nics[0].vfs[0]) is model.RdmaVf
    assert hash(back)


@pytest.mark.parametrize(
    ("of_model", "of_api", "told_otherwise"),
    [
        pytest.param(PciePath, api.PciePath, set(), id="path"),
        pytest.param(model.Gpu, api.Gpu, set(), id="gpu"),
        pytest.param(model.GpuLink, api.GpuLink, set(), id="link"),
        pytest.param(model.MigSupport, api.MigSupport, set(), id="mig"),
        pytest.param(model.MigProfile, api.MigProfile, set(), id="mig-profile"),
        pytest.param(model.MigInstance, api.MigInstance, set(), id="mig-instance"),
        pytest.param(model.MigPlacement, api.MigPlacement, set(), id="mig-placement"),
        pytest.param(model.RdmaNic, api.RdmaNic, set(), id="nic"),
        pytest.param(model.RdmaVf, api.RdmaVf, {"parent"}, id="vf"),
        pytest.param(model.RdmaPort, api.RdmaPort, set(), id="port"),
        pytest.param(model.Fpga, api.Fpga, set(), id="fpga"),
    ],
)
def test_the_object_has_each_field_of_the_model(of_model: type, of_api: type, told_otherwise: set[str]) -> None:
    assert {field.name for field in fields(of_model)} - told_otherwise == set(of_api.model_fields)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("of_api", "field", "of_model"),
    [
        pytest.param(api.NodeInventorySpec, "source", set(InventorySource), id="source"),
        pytest.param(api.GpuLink, "kind", set(model.LinkKind), id="link"),
        pytest.param(api.RdmaPort, "link_layer", set(model.LinkLayer), id="link-layer"),
        pytest.param(api.NodeInventorySpec, "rdma_netns_mode", set(model.RdmaNetnsMode), id="netns-mode"),
        pytest.param(api.DeviceSpec, "link_type", set(model.LinkLayer), id="link-type"),
        # A GPU's ratio device has no object of its own: the GPU's says what is given of it.
        pytest.param(api.DeviceSpec, "type", set(model.DeviceType) - {model.DeviceType.GPU_RATIO}, id="type"),
        pytest.param(api.NearDevice, "distance", {level.name for level in Level if level >= Level.PIX}, id="distance"),
    ],
)
def test_the_objects_words_are_the_models(of_api: type[BaseModel], field: str, of_model: set[str]) -> None:
    annotation = of_api.model_fields[field].annotation
    words = {word for part in (annotation, *get_args(annotation)) for word in get_args(part) if isinstance(word, str)}
    assert words == of_model


def test_an_object_of_a_former_version_tells_no_netns_mode() -> None:
    inventory = replace(node(nic("03")), rdma_netns_mode=model.RdmaNetnsMode.EXCLUSIVE)
    document = wire(inventory)
    assert document["spec"].pop("rdmaNetnsMode") == "exclusive"
    assert inventory_of(parse_node_inventory(document)) == replace(inventory, rdma_netns_mode=None)


def test_an_unknown_netns_mode_is_refused() -> None:
    document = wire(node(nic("03")))
    document["spec"]["rdmaNetnsMode"] = "both"
    assert "spec.rdmaNetnsMode" in refused(document)


def test_a_vf_says_only_what_differs_from_its_nic() -> None:
    document = wire(node(nic("03", 1, "f0", vfs=1)))
    assert not {"pcie", "parent", "vendor"} & set(document["spec"]["nics"][0]["vfs"][0])


def test_a_vf_with_a_path_of_its_own_keeps_it() -> None:
    one = nic("03", 1, "f0", vfs=1)
    inventory = node(replace(one, vfs=(replace(one.vfs[0], pcie=PciePath()),)))
    assert inventory_of(parse_node_inventory(wire(inventory))) == inventory


def test_counts_tell_how_many_there_are() -> None:
    document = wire(node(gpu("01"), gpu("02"), nic("03", vfs=3), nic("04", vfs=2)))
    assert document["spec"]["counts"] == {"gpus": 2, "nics": 2, "vfs": 5, "fpgas": 0}


def test_a_large_node_is_far_below_what_etcd_takes() -> None:
    # 8 GPUs and 8 NICs with 16 VFs each: 69 KiB of etcd's 1.5 MiB (its default --max-request-bytes).
    assert len(json.dumps(wire(machine("large")), separators=(",", ":"))) < 80 * 1024


def test_the_same_inventory_gives_the_same_bytes() -> None:
    inventory = machine("large")
    assert json.dumps(wire(inventory)) == json.dumps(wire(inventory))


def test_fields_of_a_newer_writer_are_left_out() -> None:
    inventory = node(gpu("01"), nic("03", vfs=1))
    document = wire(inventory)
    document["spec"]["dpus"] = [{"address": "0000:05:00.0"}]
    document["spec"]["gpus"][0]["temperature"] = 40
    document["spec"]["nics"][0]["vfs"][0]["trusted"] = True
    document["status"] = {"heartbeat": 1, "conditions": [], "pluginVersion": "9"}
    document["metadata"]["managedFields"] = [{"manager": "rootport"}]
    assert inventory_of(parse_node_inventory(document)) == inventory
    assert inventory_of(NodeInventory.model_validate(document)) == inventory


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("address", "0000:01:00", id="no-address"),
        pytest.param("address", "0000:01:00.0/../..", id="address-as-path"),
        pytest.param("address", "0000:0A:00.0", id="address-upper-case"),
        pytest.param("address", "0000:01:3f.0", id="address-out-of-range"),
        pytest.param("address", "00000:01:00.0", id="address-with-zeros-in-front"),
        pytest.param("address", "0000:01:00.0\n", id="address-with-line-end"),
        pytest.param("index", -1, id="negative"),
        pytest.param("index", "1", id="text-for-number"),
        pytest.param("index", True, id="boolean-for-number"),
        pytest.param("minor", 2**32, id="minor-too-large"),
        pytest.param("model", "A100\x1b[2J", id="terminal-escape"),
        pytest.param("model", "A\u202e001", id="bidirectional-override"),
        pytest.param("model", "x" * 129, id="too-long"),
        pytest.param("uuid", "", id="empty"),
        pytest.param("memoryBytes", 2**63, id="memory-too-large"),
        pytest.param("pcie", {"root": "pci0000:00/.."}, id="root"),
        pytest.param("pcie", {"switches": ["0000:01:00.0"] * 65}, id="too-many-switches"),
        pytest.param("links", [{"kind": "carrier-pigeon", "count": 1}], id="unknown-link"),
    ],
)
def test_a_gpu_that_no_node_has_is_refused_by_its_field(field: str, value: object) -> None:
    document = wire(node(gpu("01"), name="node-a"))
    document["spec"]["gpus"][0][field] = value
    message = refused(document)
    assert message.startswith(f"NodeInventory 'node-a': spec.gpus[0].{field}")
    assert message.isprintable()


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../../etc", "a b", "a\tb", "", "x" * 65, "\x00"])
@pytest.mark.parametrize("field", ["rdmaDevice", "ifNames"])
def test_a_name_that_is_no_single_part_of_a_path_is_refused(field: str, name: str) -> None:
    document = wire(node(nic("03")))
    document["spec"]["nics"][0][field] = [name] if field == "ifNames" else name
    assert f"spec.nics[0].{field}" in refused(document)


@pytest.mark.parametrize(
    "path",
    ["/etc/shadow", "/dev/../etc/shadow", "/dev/./x", "/dev/", "/dev", "dev/x", "/dev//x", "/dev/x y", "/dev/x\n"],
)
def test_a_path_outside_of_dev_is_refused(path: str) -> None:
    document = wire(node(fpga("04")))
    document["spec"]["fpgas"][0]["devicePaths"] = [path]
    assert "spec.fpgas[0].devicePaths[0]" in refused(document)


def test_two_devices_with_one_address_are_refused_both_named() -> None:
    document = wire(node(gpu("01"), nic("03", vfs=2), fpga("04")))
    document["spec"]["nics"][0]["vfs"][1]["address"] = "0000:01:00.0"
    document["spec"]["fpgas"][0]["address"] = "0000:03:00.0"
    message = refused(document)
    assert "spec.nics[0].vfs[1].address: 0000:01:00.0 is the address of spec.gpus[0] as well" in message
    assert "spec.fpgas[0].address: 0000:03:00.0 is the address of spec.nics[0] as well" in message


def test_all_mistakes_are_told_at_once() -> None:
    document = wire(node(gpu("01"), nic("03")))
    document["spec"]["gpus"][0]["index"] = -1
    document["spec"]["nics"][0]["verbsMinor"] = "7"
    del document["spec"]["source"]
    lines = refused(document).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["spec.source", "spec.gpus[0].index", "spec.nics[0].verbsMinor"]
    assert "spec.source: is required" in lines[0]
    assert "the node's plugin writes this object" in lines[-1]


def test_mistakes_without_end_are_cut() -> None:
    document = wire(node(*(gpu(f"{bus:02x}") for bus in range(1, 60))))
    for item in document["spec"]["gpus"]:
        item["index"] = -1
    message = refused(document)
    assert len(message.splitlines()) == 21
    assert "and 39 more errors" in message


def test_more_devices_than_any_machine_has_are_refused() -> None:
    many = [nic(f"{bus:02x}", vfs=200) for bus in range(1, 17)]
    with pytest.raises(InputError, match="it has 3216 devices, and a node has at most 3072"):
        node_inventory(node(*many))
    document = wire(node(nic("01", vfs=200)))
    copies = json.loads(json.dumps([document["spec"]["nics"][0]] * 16))
    assert "it has 3216 devices" in refused(document | {"spec": document["spec"] | {"nics": copies}})


@pytest.mark.parametrize("name", ["", "Node", "a_b", "../x", "x" * 254])
def test_a_name_that_is_no_nodes_is_refused(name: str) -> None:
    made = parse_node_inventory(node_inventory(node(gpu("01"))))
    with pytest.raises(InputError, match=r"metadata\.name"):
        inventory_of(made.model_copy(update={"metadata": ObjectMeta(name=name)}))
    with pytest.raises(InputError, match=r"metadata\.name"):
        node_inventory(node(gpu("01"), name=name))


@pytest.mark.parametrize("document", [None, 7, "x", [], {}, {"spec": None}, {"spec": []}, {"metadata": 1, "spec": {}}])
def test_what_is_no_object_is_refused(document: object) -> None:
    assert "NodeInventory" in refused(document)


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_an_object_of_another_kind_is_refused(field: str) -> None:
    assert "expected a NodeInventory of rootport.dev/v1alpha1" in refused(wire(node(gpu("01"))) | {field: "Other"})


def test_a_vf_of_another_nic_is_not_written() -> None:
    stray = replace(nic("03", vfs=1).vfs[0], parent=PciAddress("0000:99:00.0"))
    with pytest.raises(InputError, match=r"spec\.nics\[0\]\.vfs\[0\]: its parent is '0000:99:00.0'"):
        node_inventory(node(replace(nic("03"), vfs=(stray,))))


def test_two_devices_with_one_address_are_not_written() -> None:
    with pytest.raises(InputError, match=r"0000:01:00\.0 is the address of spec\.gpus\[0\] as well"):
        node_inventory(node(gpu("01"), fpga("01")))


@given(st.lists(st.text(max_size=2000), max_size=3))
def test_no_note_keeps_a_node_from_being_published(notes: list[str]) -> None:
    written = wire(replace(node(gpu("01")), notes=tuple(notes)))["spec"].get("notes", [])
    assert len(written) == len(notes)
    assert all(note.isprintable() and len(note) <= 1024 for note in written)


def test_notes_without_end_are_counted() -> None:
    written = wire(replace(node(gpu("01")), notes=tuple(f"note {number}" for number in range(1000))))["spec"]["notes"]
    assert len(written) == 256
    assert written[254] == "note 254"
    assert written[255].startswith("and 745 more notes")
