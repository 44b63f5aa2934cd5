"""Proposals over what Rootport's layout publishes: modes of GPUs, partitions, VFs, GPU-NIC pairs of real machines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.machines.topology import read_topology
from driver.adapters.manifests.claims import read_manifest_text, read_manifests
from driver.api.strict import write
from driver.explain.explanation import ChangeKind, Proposal
from driver.explain.known.cluster import Kind
from driver.layout.slices import resource_slices
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory
from driver.model.rivals import DEVICE_PLUGIN, Rival
from driver.objects.faults import device_faults, device_rivals
from resourceclasses import device_classes_text
from tests.support.machines import gpu, nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.paths import REPO
from tests.support.topologies import machine_file
from tests.unit.driver.explain.builders import Json
from tests.unit.driver.explain.nearest_worlds import World, exactly

EXAMPLES = REPO / "examples"
CARD = 80 << 30
HEALTHY = NodeHealth()


def cluster(*inventories: Inventory, health: NodeHealth = HEALTHY) -> World:
    world = World()
    for item in read_manifest_text(device_classes_text(), "classes.yaml").classes:
        world.state.put(Kind.CLASS, item.device_class.to_wire())
    for inventory in inventories:
        world.add_node(inventory.node)
        for item in resource_slices(inventory, health=health):
            world.add_slice(item.to_wire())
    return world


def gpu_request(kind: str = "gpu", name: str = "r", profile: str = "", **amounts: str) -> Json:
    fields: dict[str, Any] = {"capacity": amounts} if amounts else {}
    expressions = [f'device.attributes["rootport.dev"].profile == "{profile}"'] if profile else []
    return exactly(name, *expressions, cls=f"{kind}.rootport.dev", **fields)


def changes(found: tuple[Proposal, ...]) -> list[list[Any]]:
    """The values that the changes to the claim set."""
    return [
        [item.get("value") for patch in proposal.patches for item in patch.operations]
        for proposal in found
        if proposal.kind is ChangeKind.CHANGE_CLAIM
    ]


def test_an_unhealthy_gpu_is_proposed_for_repair_by_what_its_plugin_says_also_for_a_share_of_it() -> None:
    machine = node(mig_gpu("0a", memory_bytes=CARD))
    message = "Xid 48 (double-bit ECC error): reset it with `nvidia-smi --gpu-reset` when nothing uses it"
    since = datetime(2026, 1, 1, tzinfo=UTC)
    fault = Fault(device=machine.gpus[0].name, reason="Xid48", effect=Effect.NO_SCHEDULE, since=since, message=message)
    health = NodeHealth(faults=(fault,))
    world = cluster(machine, health=health)
    status = {"faults": [write(item) for item in device_faults(health)]}
    world.state.put(Kind.INVENTORY, {"metadata": {"name": "node-a"}, "status": status})

    for wanted in (gpu_request(core="30"), gpu_request("mig", profile="1g.10gb")):
        (repair,) = [item for item in world.ask(world.wire(wanted)) if item.kind is ChangeKind.CHANGE_DEVICE_TAINT]
        assert repair.verified
        assert repair.text.startswith("repair device rootport.dev/node-a/")
        assert f": unhealthy, Xid48: {message}; Rootport takes the taint" in repair.text
        assert repair.text.endswith("rootport.dev/unhealthy=Xid48:NoSchedule off once it is well")


def test_a_rival_is_proposed_to_be_kept_off_by_what_the_plugin_says_of_it() -> None:
    machine = node(mig_gpu("0a", memory_bytes=CARD))
    message = "the Node has nvidia.com/gpu: 1 from a device plugin: kubectl label node node-a gpu-"
    rival = Rival(name="nvidia.com/gpu", kind=DEVICE_PLUGIN, devices=(machine.gpus[0].name,), message=message)
    world = cluster(machine, health=NodeHealth(rivals=(rival,)))
    status = {"rivals": [write(item) for item in device_rivals([rival])]}
    world.state.put(Kind.INVENTORY, {"metadata": {"name": "node-a"}, "status": status})

    for wanted in (gpu_request(core="30"), gpu_request("mig", profile="1g.10gb")):
        (off,) = [item for item in world.ask(world.wire(wanted)) if item.kind is ChangeKind.CHANGE_DEVICE_TAINT]
        assert off.verified
        assert off.text.startswith("keep the other system off device rootport.dev/node-a/")
        assert f"nvidia.com/gpu on node node-a: {message}; Rootport takes the taint" in off.text


@pytest.fixture
def one_gpu() -> World:
    return cluster(node(mig_gpu("0a", memory_bytes=CARD)))


def test_a_whole_gpu_of_which_shares_are_given_becomes_the_share_that_is_left(one_gpu: World) -> None:
    one_gpu.hold("one", "node-a", gpu_request(core="30", memory="20Gi"))
    found = one_gpu.ask(one_gpu.wire(gpu_request()))
    assert {"requests": {"memory": "60Gi"}} in [value for values in changes(found) for value in values]
    assert [item.name for proposal in found for item in proposal.ends] == ["one"]


def test_a_share_that_wants_reserved_core_is_proposed_without(one_gpu: World) -> None:
    one_gpu.hold("one", "node-a", gpu_request(core="100", memory="20Gi"))
    found = one_gpu.ask(one_gpu.wire(gpu_request(core="50", memory="20Gi")))
    proposal = next(item for item in found if "no core" in item.text)
    assert proposal.verified
    (patch,) = proposal.patches
    assert [operation["op"] for operation in patch.operations] == ["remove"]


def test_a_share_that_is_too_large_becomes_the_largest_that_is_free(one_gpu: World) -> None:
    one_gpu.hold("one", "node-a", gpu_request(core="30", memory="50Gi"))
    found = one_gpu.ask(one_gpu.wire(gpu_request(core="50", memory="40Gi")))
    assert ["30Gi"] in changes(found)


def test_a_share_by_bytes_is_asked_for_by_percent_where_the_gpu_is_shared_so(one_gpu: World) -> None:
    one_gpu.hold("one", "node-a", gpu_request("gpu-ratio", core="30", memoryRatio="30"))
    found = one_gpu.ask(one_gpu.wire(gpu_request(core="50", memory="20Gi")))
    assert changes(found)[0] == ["gpu-ratio.rootport.dev", {"requests": {"core": "50", "memoryRatio": "25"}}]
    assert "one kind at a time" in found[0].text


def test_a_share_by_percent_is_asked_for_by_bytes_where_the_gpu_is_shared_so(one_gpu: World) -> None:
    one_gpu.hold("one", "node-a", gpu_request(core="30", memory="30Gi"))
    found = one_gpu.ask(one_gpu.wire(gpu_request("gpu-ratio", core="50", memoryRatio="25")))
    assert changes(found)[0] == ["gpu.rootport.dev", {"requests": {"core": "50", "memory": "20Gi"}}]


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (gpu_request(), gpu_request("mig", profile="1g.10gb")),
        (gpu_request("mig", profile="1g.10gb"), gpu_request()),
        (gpu_request("gpu-ratio", core="10", memoryRatio="10"), gpu_request("mig", profile="7g.80gb")),
        (gpu_request("mig", profile="4g.40gb"), gpu_request("gpu-ratio", core="10", memoryRatio="10")),
    ],
    ids=["whole/mig", "mig/whole", "percent/mig", "mig/percent"],
)
def test_what_has_the_gpu_in_another_mode_is_ended(one_gpu: World, held: Json, asked: Json) -> None:
    one_gpu.hold("holder", "node-a", held)
    one = next(item for item in one_gpu.ask(one_gpu.wire(asked)) if item.kind is ChangeKind.END_CLAIMS)
    assert [item.name for item in one.ends] == ["holder"]


def test_a_partition_gives_way_and_those_that_stand_beside_it_stay(one_gpu: World) -> None:
    one_gpu.hold("half", "node-a", gpu_request("mig", profile="3g.40gb"))
    for number in range(3):
        one_gpu.hold(f"small-{number}", "node-a", gpu_request("mig", profile="1g.10gb"))
    found = one_gpu.ask(one_gpu.wire(gpu_request("mig", profile="3g.40gb")))
    one = next(item for item in found if item.kind is ChangeKind.END_CLAIMS)
    assert [item.name for item in one.ends] == ["half"]


def test_another_profile_is_proposed_where_the_one_asked_for_is_not_there(one_gpu: World) -> None:
    found = one_gpu.ask(one_gpu.wire(gpu_request("mig", profile="1g.11gb")))
    assert changes(found)[0] == ['device.attributes["rootport.dev"].profile == "1g.10gb"']


def test_a_vf_pool_that_is_given_out_gets_one_back() -> None:
    world = cluster(node(nic("0b", vfs=4)))
    for number in range(4):
        world.hold(f"vf-{number}", "node-a", exactly(cls="rdma-vf.rootport.dev"))
    found = world.ask(world.wire(exactly(cls="rdma-vf.rootport.dev")))
    assert [(item.kind, len(item.ends)) for item in found] == [(ChangeKind.END_CLAIMS, 1)]


def test_a_gpu_and_a_nic_that_are_farther_apart() -> None:
    world = cluster(node(gpu("0a", 0, "f0"), nic("0b", 0, "f1")))
    requests = [gpu_request(name="gpu"), exactly("nic", cls="rdma.rootport.dev")]
    wire = world.wire(*requests, constraints=[{"matchAttribute": "rootport.dev/pcieSwitch"}])
    found = world.ask(wire)
    assert changes(found)[0] == ["resource.kubernetes.io/numaNode"]


def azure() -> World:
    topology = machine_file("azure-nd-h100-v5")
    return cluster(read_topology(topology, hardware=HardwareFacts(gpu_model="H100")))


def example(name: str) -> Json:
    wire = read_manifests([EXAMPLES / name]).claims[0].claim.to_wire()
    return {**wire, "metadata": {"name": "c", "namespace": "ml", "uid": "u"}}


def test_eight_pairs_where_one_nic_is_taken() -> None:
    world = azure()
    (name,) = world.state.nodes
    world.hold("one", name, exactly(cls="rdma.rootport.dev"))
    found = world.ask(example("eight-gpu-nic-pairs.yaml"), limit=4)
    assert [item.name for proposal in found for item in proposal.ends] == ["one"]
    pairs = next(item for item in found if "instead of 8" in item.text)
    assert "gpu-7, nic-7" in pairs.text
    assert len(pairs.patches[0].operations) == 3


def test_eight_gpus_under_one_switch_of_a_machine_with_a_switch_each() -> None:
    world = azure()
    wire = world.wire(
        exactly(cls="gpu.rootport.dev", count=8), constraints=[{"matchAttribute": "rootport.dev/pcieSwitch"}]
    )
    found = world.ask(wire)
    assert found[0].patches[0].operations == ({"op": "remove", "path": "/spec/devices/constraints/0"},)
