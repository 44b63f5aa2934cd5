"""Equal machines differ in their UUIDs and GUIDs alone: each gets its own, and all else is made once."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from driver.api.gpu_policies import GpuPolicies
from driver.api.resource_v1 import Device
from driver.layout.identities import Placeholders, without_identities
from driver.layout.slices import resource_slices
from driver.model.devices import RdmaPort
from driver.model.inventory import Inventory
from tests.support.machines import gpu, nic, node
from tests.support.mig_machines import dgx_h100


def machine(number: int) -> Inventory:
    """A machine like the others, with its own identities."""
    inventory = dgx_h100()
    gpus = (replace(item, uuid=f"GPU-{number}-{place}") for place, item in enumerate(inventory.gpus))
    nics = (
        replace(item, ports=(RdmaPort(guid=f"{number}:{place}"), RdmaPort(number=2, guid=f"{number}:x")))
        for place, item in enumerate(nic(f"e{place}") for place in range(8))
    )
    return replace(inventory, node=f"node-{number}", gpus=tuple(gpus), nics=tuple(nics))


def devices(inventory: Inventory, policies: GpuPolicies | None = None) -> dict[str, Device]:
    slices = resource_slices(inventory, policies=policies) if policies else resource_slices(inventory)
    return {device.name: device for device in chain.from_iterable(item.spec.devices for item in slices)}


def text(device: Device, name: str) -> str | None:
    return device.attributes[name].string_value if name in device.attributes else None


def test_each_node_has_its_own_uuids_and_guids() -> None:
    for number in (1, 2, 1):
        found, inventory = devices(machine(number)), machine(number)
        for place, item in enumerate(inventory.gpus):
            names = [name for name in (item.name, item.name.replace("gpu-", "gpu-ratio-", 1)) if name in found]
            assert names
            assert {text(found[name], "uuid") for name in names} == {f"GPU-{number}-{place}"}
        assert [text(found[item.name], "guid") for item in inventory.nics] == [f"{number}:{n}" for n in range(8)]


def test_what_has_no_identity_is_shared_and_all_is_as_if_it_were_made_for_the_node_alone() -> None:
    first, second = devices(machine(1)), devices(machine(2))
    shared = {name for name, device in first.items() if device is second[name]}
    assert {name.split("-")[0] for name in first.keys() - shared} == {"gpu", "rdma"}
    assert sum(name.startswith("mig-") for name in shared) == sum(name.startswith("mig-") for name in first) > 0
    same_but_identity = devices(replace(machine(2), gpus=machine(1).gpus, nics=machine(1).nics))
    assert same_but_identity == first


def test_a_policy_that_publishes_the_uuid_under_other_names_gets_the_nodes_own() -> None:
    entries = [{"name": "a.b/parent", "from": "parentUUID"}, {"name": "a.b/own", "from": "uuid"}]
    policies = GpuPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [{"extraAttributes": entries}]}
    )
    for number in (1, 2):
        found = devices(machine(number), policies)
        gpus = machine(number).gpus
        assert text(found[gpus[3].name], "a.b/own") == f"GPU-{number}-3"
        partition = next(name for name in found if name.startswith(gpus[3].name.replace("gpu-", "mig-", 1)))
        assert text(found[partition], "a.b/parent") == f"GPU-{number}-3"


def test_a_changed_uuid_is_published_and_one_that_cannot_be_is_absent() -> None:
    one = node(gpu("10", uuid="GPU-1"))
    assert text(devices(one)[one.gpus[0].name], "uuid") == "GPU-1"
    other = node(gpu("10", uuid="GPU-2"))
    assert text(devices(other)[other.gpus[0].name], "uuid") == "GPU-2"
    for uuid in (None, "", "x" * 65):
        without = node(gpu("10", uuid=uuid))
        assert "uuid" not in devices(without)[without.gpus[0].name].attributes


def test_virtual_functions_and_further_ports_make_no_kinds_of_their_own() -> None:
    def kind(number: int) -> object:
        card = nic("20", vfs=2)
        ports = (RdmaPort(guid=f"{number}"), RdmaPort(number=2, guid=f"{number}"))
        card = replace(card, ports=ports, vfs=tuple(replace(vf, ports=ports) for vf in card.vfs))
        return without_identities((gpu("10", uuid=f"GPU-{number}"),), (card,))[:2]

    assert kind(1) == kind(2)


def test_the_same_values_twice_give_the_same_objects() -> None:
    gpus, nics, values = without_identities(machine(1).gpus, machine(1).nics)
    assert len(values) == len(gpus) + len(nics)
    found = Placeholders(())
    assert found.filled(values) == ()
    first, again = (resource_slices(machine(1).renamed(name)) for name in ("a", "b"))
    assert all(one.spec.devices is other.spec.devices for one, other in zip(first, again, strict=True))
