"""The CRDs on a real API server: it takes what we write, gives it back as it was, and refuses what no node has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.model.inventory import Inventory
from driver.objects.devices import device_objects
from driver.objects.inventories import inventory_of, parse_node_inventory
from driver.objects.written_inventory import node_inventory
from tests.support.cluster.control_plane import ControlPlane, KubectlError
from tests.support.inventories import MACHINES, machine
from tests.support.machines import gpu, nic, node
from tests.support.paths import REPO
from tests.support.topologies import machine_file

pytestmark = pytest.mark.needs_go

CRDS = REPO / "resourceclasses" / "crd"
NAMES = ("nodeinventories.rootport.dev", "devices.rootport.dev")
LABEL = "objects-test"
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Discovered",
    "message": "all devices are known",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}
SHARE = {"namespace": "n", "claim": "c", "uid": "u", "request": "r", "device": "gpu-0001-00-00-0", "shareID": "s"}
SHARED = {"mode": "shared", "allocated": {"core": 100, "memory": "64Gi"}, "allocations": [SHARE]}


@dataclass(frozen=True, slots=True)
class Api:
    """kubectl, strict."""

    control_plane: ControlPlane

    def create(self, *objects: dict[str, Any]) -> list[dict[str, Any]]:
        # No List: kubectl would check it itself, and not ask the API server to.
        stream = "\n---\n".join(json.dumps(labelled(item)) for item in objects)
        told = self.control_plane.kubectl("create", "--validate=strict", "--output=json", "--filename=-", input=stream)
        return list(documents(told))

    def apply(self, document: dict[str, Any]) -> dict[str, Any]:
        told = self.control_plane.kubectl(
            "apply",
            "--server-side",
            "--validate=strict",
            "--output=json",
            "--filename=-",
            input=json.dumps(labelled(document)),
        )
        return dict(json.loads(told))

    def set_status(self, resource: str, name: str, status: dict[str, Any]) -> dict[str, Any]:
        patch = json.dumps({"status": status})
        told = self.control_plane.kubectl(
            "patch", resource, name, "--subresource=status", "--type=merge", f"--patch={patch}", "--output=json"
        )
        return dict(json.loads(told))

    def refused(self, document: dict[str, Any]) -> str:
        with pytest.raises(KubectlError) as caught:
            self.create(document)
        return str(caught.value)


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", f"--filename={CRDS}")
    control_plane.wait_for_crds()
    yield Api(control_plane)
    for name in NAMES:
        collection = f"/apis/rootport.dev/v1alpha1/{name.partition('.')[0]}?labelSelector={LABEL}"
        control_plane.kubectl("delete", f"--raw={collection}")


def documents(text: str) -> Iterator[dict[str, Any]]:
    """JSON documents one after the other, as kubectl prints several objects that it made."""
    text = text.strip()
    while text:
        document, end = json.JSONDecoder().raw_decode(text)
        yield document
        text = text[end:].lstrip()


def labelled(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document["metadata"]
    return document | {"metadata": metadata | {"labels": metadata.get("labels", {}) | {LABEL: "yes"}}}


def named(inventory: Inventory, name: str) -> Inventory:
    """A name of this file's own: the API server is shared."""
    return inventory.renamed(f"objects-{name.lower().replace('_', '-').replace('+', '-')}")


def written(inventory: Inventory) -> dict[str, Any]:
    return node_inventory(inventory)


def small(name: str) -> dict[str, Any]:
    return written(node(gpu("01", 0, "f0"), nic("03", 0, "f0", vfs=1), name=f"objects-{name}"))


def device(name: str) -> dict[str, Any]:
    (made,) = device_objects(node(gpu("01", model="A100"), name=f"objects-{name}"))
    return made.to_wire()


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_finds_nothing_wrong_with_the_crds(api: Api, name: str) -> None:
    crd = json.loads(api.control_plane.kubectl("get", "crd", name, "--output=json"))
    conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


def test_every_machine_comes_back_as_it_was(api: Api) -> None:
    inventories = [named(machine(name), name) for name in MACHINES]
    stored = api.create(*map(written, inventories))
    assert [inventory_of(parse_node_inventory(item)) for item in stored] == inventories


def test_every_device_of_every_machine_is_stored_as_it_is(api: Api) -> None:
    inventories = [named(machine(name), f"of-{name}") for name in MACHINES]
    expected = [made.to_wire() for inventory in inventories for made in device_objects(inventory)]
    stored = api.create(*expected)
    assert [item["spec"] for item in stored] == [item["spec"] for item in expected]
    assert [item["metadata"]["labels"] for item in stored] == [
        labelled(item)["metadata"]["labels"] for item in expected
    ]


def test_a_second_apply_of_the_same_inventory_is_no_write(api: Api) -> None:
    document = written(named(machine("large"), "applied"))
    first, second = api.apply(document), api.apply(document)
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert inventory_of(parse_node_inventory(second)) == named(machine("large"), "applied")


def test_a_large_node_is_stored_in_a_small_part_of_what_etcd_takes(api: Api) -> None:
    api.apply(written(named(machine("large"), "size")))
    stored = api.control_plane.kubectl("get", "--raw=/apis/rootport.dev/v1alpha1/nodeinventories/objects-size")
    # Who wrote which field is stored as well; lists are written as a whole, so that is little.
    assert len(stored) < 80 * 1024
    assert len(json.dumps(json.loads(stored)["metadata"])) < 2 * 1024


def test_a_node_with_a_thousand_vfs_is_stored(api: Api) -> None:
    inventory = node(*(nic(f"{bus:02x}", vfs=128) for bus in range(1, 9)), name="objects-thousand-vfs")
    (stored,) = api.create(written(inventory))
    assert inventory_of(parse_node_inventory(stored)) == inventory


def test_devices_that_vanish_vanish_from_the_object(api: Api) -> None:
    inventory = node(gpu("01"), gpu("02"), nic("03", vfs=2), name="objects-vanish")
    api.apply(written(inventory))
    left = replace(inventory, gpus=inventory.gpus[1:], nics=())
    assert inventory_of(parse_node_inventory(api.apply(written(left)))) == left


def test_the_status_is_written_apart_from_the_spec(api: Api) -> None:
    (made,) = api.create(small("status") | {"status": {"pluginVersion": "9"}})
    assert "status" not in made
    status = {"conditions": [CONDITION], "pluginVersion": "0.1.0", "observedGeneration": 1}
    stored = api.set_status(NAMES[0], "objects-status", status)
    assert stored["status"] == status
    assert stored["metadata"]["generation"] == 1
    read = parse_node_inventory(stored)
    assert read.status is not None
    assert read.status.to_wire() == status


def test_one_can_wait_for_a_condition(api: Api) -> None:
    api.create(small("wait"))
    api.set_status(NAMES[0], "objects-wait", {"conditions": [CONDITION]})
    api.control_plane.kubectl("wait", "--for=condition=Ready", "--timeout=10s", "nodeinventory/objects-wait")


def test_a_node_and_its_devices_read_well_on_a_terminal(api: Api) -> None:
    facts = HardwareFacts(gpu_model="NVIDIA H100 80GB HBM3", gpu_memory_bytes=80 << 30)
    inventory = read_topology(machine_file("azure-nd-h100-v5"), node="objects-gpu-node-17", hardware=facts)
    api.create(written(inventory), *(made.to_wire() for made in device_objects(inventory)))
    api.set_status(NAMES[0], inventory.node, {"conditions": [CONDITION], "pluginVersion": "0.1.0"})
    used = SHARED | {"largestFree": {"memory": "16Gi"}}
    for made in device_objects(inventory):
        api.set_status(NAMES[1], made.metadata.name, {"state": "Healthy"} | (used if made.spec.memory else {}))
    told = api.control_plane.kubectl("get", "ninv", inventory.node).splitlines()
    assert told[0].split() == ["NAME", "GPUS", "NICS", "VFS", "FPGAS", "SOURCE", "READY", "PUBLISHED", "AGE"]
    assert told[1].split()[:-1] == [inventory.node, "8", "8", "0", "0", "nccl-topology", "True"]
    selected = f"--selector=rootport.dev/node={inventory.node}"
    devices = api.control_plane.kubectl("get", "devices", selected).splitlines()
    assert devices[0].split() == ["NAME", "MODEL", "STATE", "MODE", "CORE%", "USED", "FREE"]
    assert " ".join(devices[1].split()) == (
        "objects-gpu-node-17.gpu-0001-00-00-0 NVIDIA H100 80GB HBM3 Healthy shared 100 64Gi 16Gi"
    )
    assert len(devices) == 17
    longer = len(inventory.node) - len("gpu-node-17")
    assert max(map(len, (*told, *devices))) - longer <= 100
    wide = api.control_plane.kubectl("get", "devices", selected, "--output=wide").splitlines()
    more = "REASON MEMORY TYPE SWITCH NUMA NODE PCI ROOT RDMA BANDWIDTH VFS UUID LEFT-OUT"
    assert wide[0].split()[7:] == more.split()
    of_model = f"--selector=rootport.dev/node={inventory.node},rootport.dev/model=NVIDIA-H100-80GB-HBM3"
    assert len(api.control_plane.kubectl("get", "devices", of_model, "--no-headers").splitlines()) == 8


def test_a_devices_allocations_are_told_apart_by_claim_request_device_and_share(api: Api) -> None:
    api.create(device("allocations"))
    name = "objects-allocations.gpu-0000-01-00-0"
    shares = [SHARE | {"shareID": share, "core": 50, "memory": "40Gi"} for share in ("s1", "s2", "")]
    shares[0]["isolation"] = {"state": "enforced", "by": "MPS", "version": "580.1"}
    stored = api.set_status(NAMES[1], name, SHARED | {"allocations": shares})
    assert stored["status"] == {"state": "Unknown"} | SHARED | {"allocations": shares}
    with pytest.raises(KubectlError, match="Duplicate value"):
        api.set_status(NAMES[1], name, {"allocations": [SHARE, SHARE]})


def test_kubectl_explains_a_field(api: Api) -> None:
    told = api.control_plane.kubectl("explain", "nodeinventories.spec.nics.vfs")
    assert "An SR-IOV virtual function (VF) of the NIC in whose list it stands." in told


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param({"gpus": [{"index": 0, "vendor": "nvidia"}]}, "spec.gpus[0].address", id="no-address"),
        pytest.param(
            {"gpus": [{"index": 0, "vendor": "nvidia", "address": "0000:01:00.0/../.."}]},
            "spec.gpus[0].address",
            id="address-as-path",
        ),
        pytest.param(
            {"gpus": [{"index": 0, "vendor": "\x1b[2J", "address": "0000:01:00.0"}]},
            "spec.gpus[0].vendor",
            id="terminal-escape",
        ),
        pytest.param(
            {"gpus": [{"index": 2**32, "vendor": "nvidia", "address": "0000:01:00.0"}]},
            "spec.gpus[0].index",
            id="number-too-large",
        ),
        pytest.param(
            {"nics": [{"index": 0, "address": "0000:01:00.0", "ifNames": ["../x"]}]},
            "spec.nics[0].ifNames[0]",
            id="name-as-path",
        ),
        pytest.param(
            {"fpgas": [{"index": 0, "address": "0000:01:00.0", "devicePaths": ["/dev/../etc/shadow"]}]},
            "spec.fpgas[0].devicePaths[0]",
            id="path-outside-of-dev",
        ),
        pytest.param({"notes": ["x" * 1025]}, "spec.notes[0]", id="note-too-long"),
        pytest.param({"notes": ["x"] * 257}, "spec.notes", id="too-many-notes"),
        pytest.param({"source": "hearsay"}, "spec.source", id="unknown-source"),
        pytest.param({"counts": {"gpus": 7, "nics": 1, "vfs": 1, "fpgas": 0}}, "counts must tell", id="wrong-count"),
        pytest.param({"counts": {"gpus": 1, "nics": 1, "vfs": 0, "fpgas": 0}}, "counts must tell", id="wrong-vfs"),
        pytest.param({"dpus": []}, 'unknown field "spec.dpus"', id="unknown-field"),
    ],
)
def test_an_inventory_that_no_node_has_is_refused(api: Api, change: dict[str, Any], complaint: str) -> None:
    document = small("refused")
    document["spec"] |= change
    assert complaint in api.refused(document)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param({"nodeName": "objects-other"}, "metadata.name must be", id="another-node"),
        pytest.param({"deviceName": "gpu-0000-02-00-0"}, "metadata.name must be", id="another-device"),
        pytest.param({"type": "toaster"}, "spec.type", id="unknown-type"),
        pytest.param({"memory": "a lot"}, "spec.memory", id="memory"),
        pytest.param({"near": [{"name": "x", "distance": "NV18"}]}, "spec.near[0].distance", id="distance"),
    ],
)
def test_a_device_that_is_none_is_refused(api: Api, change: dict[str, Any], complaint: str) -> None:
    document = device("refused")
    document["spec"] |= change
    assert complaint in api.refused(document)


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        pytest.param({"status": "Maybe"}, "status.conditions[0].status", id="status"),
        pytest.param({"reason": "two words"}, "status.conditions[0].reason", id="reason"),
        pytest.param({"lastTransitionTime": "yesterday"}, "status.conditions[0].lastTransitionTime", id="time"),
        pytest.param({"message": "x" * 4097}, "status.conditions[0].message", id="message"),
    ],
)
def test_a_condition_that_is_none_is_refused(api: Api, condition: dict[str, str], complaint: str) -> None:
    api.apply(small("conditions"))
    with pytest.raises(KubectlError) as caught:
        api.set_status(NAMES[0], "objects-conditions", {"conditions": [CONDITION | condition]})
    assert complaint in str(caught.value)


@pytest.mark.parametrize("field", ["nodeName", "deviceName"])
def test_a_device_does_not_become_another(api: Api, field: str) -> None:
    api.apply(device(f"fixed-{field.lower()}"))
    name = device(f"fixed-{field.lower()}")["metadata"]["name"]
    patch = json.dumps({"spec": {field: "other"}})
    with pytest.raises(KubectlError, match="cannot be changed"):
        api.control_plane.kubectl("patch", NAMES[1], name, "--type=merge", f"--patch={patch}")


def test_a_device_of_a_node_with_the_longest_name_is_stored(api: Api) -> None:
    (made,) = device_objects(node(gpu("01"), name=f"objects-{'x' * 245}"))
    (stored,) = api.create(made.to_wire())
    assert len(stored["metadata"]["name"]) == 253
    assert stored["spec"]["nodeName"] == f"objects-{'x' * 245}"
