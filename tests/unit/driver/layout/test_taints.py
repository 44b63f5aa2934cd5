"""What is wrong with a device, as a taint on everything that is published of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies
from driver.api.resource_v1 import DeviceTaint, ResourceSlice
from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName, RdmaPort
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory
from driver.model.rivals import DEVICE_PLUGIN, DRA_DRIVER, Rival
from tests.support.machines import NAMED_VFS, fpga, gpu, nic, node
from tests.support.mig_machines import mig_gpu
from tests.support.slice_validation import validate_slices

START = datetime(2026, 1, 1, 10, tzinfo=UTC)


def fault(device: str, reason: str = "Xid79", effect: Effect = Effect.NO_SCHEDULE, *, minute: int = 0) -> Fault:
    since = START + timedelta(minutes=minute)
    return Fault(device=DeviceName(device), reason=reason, effect=effect, since=since, message="broken")


def tainted(
    inventory: Inventory,
    *faults: Fault,
    rules: NicPolicies = DEFAULT_NIC_POLICIES,
    other: dict[str, tuple[DeviceTaint, ...]] | None = None,
) -> tuple[ResourceSlice, ...]:
    slices = resource_slices(inventory, nic_policies=rules, health=NodeHealth(faults=faults), other_taints=other or {})
    assert validate_slices(slices) == ()
    return slices


def taints(slices: tuple[ResourceSlice, ...]) -> dict[str, list[str]]:
    """Of the devices that have any."""
    return {
        device.name: [f"{taint.key}={taint.value}:{taint.effect}" for taint in device.taints]
        for item in slices
        for device in item.spec.devices
        if device.taints
    }


@pytest.mark.parametrize(
    ("whole", "beginnings"),
    [
        pytest.param("gpu-0000-10-00-0", ["gpu-0000-10", "gpu-ratio-0000-10", "mig-0000-10"], id="a GPU and its parts"),
        pytest.param("rdma-0000-20-00-0", ["rdma-0000-20"], id="a NIC"),
        pytest.param("rdma-0000-21-00-0", ["rdma-vfs-0000-21"], id="a NIC that is given by its pool"),
        pytest.param("fpga-0000-30-00-0", ["fpga-0000-30"], id="an FPGA"),
    ],
)
def test_all_that_is_published_of_an_unhealthy_device_is_tainted_and_nothing_else(
    whole: str, beginnings: list[str]
) -> None:
    machine = node(mig_gpu("10"), mig_gpu("11"), nic("20"), nic("21", vfs=4), nic("22"), fpga("30"), fpga("31"))
    names = {device.name for item in resource_slices(machine) for device in item.spec.devices}
    expected = {name for name in names if any(map(name.startswith, beginnings))}

    found = taints(tainted(machine, fault(whole)))

    assert found == {name: ["rootport.dev/unhealthy=Xid79:NoSchedule"] for name in expected}
    assert all(any(name.startswith(start) for name in expected) for start in beginnings)


@pytest.mark.parametrize(
    ("whole", "reason", "beginnings"),
    [
        pytest.param("gpu-0000-10-00-0", "MigDeviceNotCreated", ["mig-0000-10"], id="partitions"),
        pytest.param("gpu-0000-10-00-0", "MigModeNotLeft", ["gpu-0000-10", "gpu-ratio-0000-10"], id="all but those"),
        pytest.param("rdma-0000-21-00-0", "VfNotConfigured", ["rdma-vfs-0000-21"], id="a pool of VFs"),
        pytest.param("rdma-0000-22-00-0", "VfNotConfigured", [], id="no VFs"),
    ],
)
def test_what_was_not_prepared_taints_what_cannot_be_had_and_no_more(
    whole: str, reason: str, beginnings: list[str]
) -> None:
    machine = node(mig_gpu("10"), mig_gpu("11"), nic("20"), nic("21", vfs=4), nic("22"))
    names = {device.name for item in resource_slices(machine) for device in item.spec.devices}
    expected = {name for name in names if any(map(name.startswith, beginnings))}
    assert bool(expected) == bool(beginnings)

    found = taints(tainted(machine, fault(whole, reason)))

    assert found == {name: [f"rootport.dev/unhealthy={reason}:NoSchedule"] for name in expected}


def test_the_worst_fault_of_each_part_is_its_taint() -> None:
    part = fault("gpu-0000-10-00-0", "MigDeviceNotCreated")
    late = fault("gpu-0000-10-00-0", "Xid48", minute=1)
    found = taints(tainted(node(mig_gpu("10")), part, late))
    assert found.pop("gpu-0000-10-00-0") == ["rootport.dev/unhealthy=Xid48:NoSchedule"]
    assert {value for name, (value,) in found.items() if name.startswith("mig-")} == {
        "rootport.dev/unhealthy=MigDeviceNotCreated:NoSchedule"
    }


def test_named_vfs_of_a_nic_that_configures_none_are_tainted_and_the_nic_is_not() -> None:
    machine = node(nic("20", vfs=2), nic("21", vfs=2))
    found = taints(tainted(machine, fault("rdma-0000-20-00-0", "VfNotConfigured"), rules=NAMED_VFS))
    assert set(found) == {vf.name for vf in machine.nics[0].vfs}


def test_named_vfs_of_an_unhealthy_nic_are_tainted() -> None:
    machine = node(nic("20", vfs=2), nic("21", vfs=2))
    found = taints(tainted(machine, fault("rdma-0000-20-00-0", "LinkFlapping"), rules=NAMED_VFS))
    assert set(found) == {vf.name for vf in machine.nics[0].vfs}


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        pytest.param([("Xid79", Effect.NO_EXECUTE, 5)], "Xid79:NoExecute", id="evicts"),
        pytest.param([("Slow", Effect.NONE, 0)], None, id="degraded alone"),
        pytest.param([("Slow", Effect.NONE, 0), ("Xid48", Effect.NO_SCHEDULE, 5)], "Xid48:NoSchedule", id="degraded"),
        pytest.param(
            [("Xid48", Effect.NO_SCHEDULE, 0), ("GpuLost", Effect.NO_EXECUTE, 5)], "GpuLost:NoExecute", id="the worst"
        ),
        pytest.param(
            [("Xid48", Effect.NO_SCHEDULE, 5), ("Xid79", Effect.NO_SCHEDULE, 0)], "Xid79:NoSchedule", id="the oldest"
        ),
        pytest.param(
            [("No reason", Effect.NO_SCHEDULE, 0)], "unknown:NoSchedule", id="a reason that no taint can have"
        ),
    ],
)
def test_a_device_has_the_taint_of_its_worst_fault(faults: list[tuple[str, Effect, int]], expected: str | None) -> None:
    name = "gpu-0000-10-00-0"
    found = [fault(name, reason, effect, minute=minute) for reason, effect, minute in faults]
    wanted = {} if expected is None else {name: [f"rootport.dev/unhealthy={expected}"]}
    assert taints(tainted(node(gpu("10")), *found)) == wanted


@pytest.mark.parametrize(
    ("state", "more", "expected"),
    [
        pytest.param("down", [], ["rootport.dev/link-down=down:NoSchedule"], id="down"),
        pytest.param("active", [], [], id="the inventory is ahead"),
        pytest.param(
            "down",
            ["LinkFlapping"],
            ["rootport.dev/link-down=down:NoSchedule", "rootport.dev/unhealthy=LinkFlapping:NoSchedule"],
            id="a younger fault beside it",
        ),
    ],
)
def test_a_missing_link_has_a_taint_of_its_own_and_no_second_one(
    state: str, more: list[str], expected: list[str]
) -> None:
    machine = node(nic("20", ports=(RdmaPort(state=state),)))
    name = "rdma-0000-20-00-0"
    faults = [fault(name, "LinkDown"), *(fault(name, reason, minute=9) for reason in more)]
    assert taints(tainted(machine, *faults)).get(name, []) == expected


def test_a_fault_of_a_device_that_is_not_there_changes_nothing() -> None:
    machine = node(gpu("10"), nic("20", vfs=100))
    slices = tainted(machine, fault("gpu-0000-ff-00-0"), rules=NAMED_VFS)
    assert slices == resource_slices(machine, nic_policies=NAMED_VFS)


def test_healthy_nodes_of_equal_hardware_still_share_their_devices() -> None:
    machine = node(gpu("10"), nic("20"))
    resource_slices(machine)
    broken = tainted(machine.renamed("node-b"), fault("gpu-0000-10-00-0"))
    healthy = tainted(machine.renamed("node-c"), fault("gpu-0000-10-00-0", effect=Effect.NONE))
    assert taints(broken)
    assert healthy[0].spec.devices is resource_slices(machine)[0].spec.devices


def test_equal_faults_give_equal_bytes_in_whatever_order() -> None:
    machine = node(gpu("10"), gpu("11"))
    faults = [fault("gpu-0000-10-00-0"), fault("gpu-0000-11-00-0", "Xid48"), fault("gpu-0000-10-00-0", "Xid95")]
    one, other = (json.dumps([item.to_wire() for item in tainted(machine, *order)]) for order in (faults, faults[::-1]))
    assert one == other
    assert "timeAdded" not in one


def test_the_order_stays_and_a_slice_with_a_taint_holds_64() -> None:
    machine = node(*(nic(f"{bus:02x}") for bus in range(100)))
    names = [device.name for item in resource_slices(machine) for device in item.spec.devices]
    slices = tainted(machine, fault("rdma-0000-00-00-0"))
    assert [len(item.spec.devices) for item in slices] == [64, 36]
    assert {item.spec.pool.resource_slice_count for item in slices} == {2}
    assert [device.name for item in slices for device in item.spec.devices] == names


def test_counter_sets_stay_behind_the_devices() -> None:
    machine = node(mig_gpu("10"), mig_gpu("11"))
    healthy, broken = resource_slices(machine), tainted(machine, fault("gpu-0000-10-00-0"))
    assert [item.spec.shared_counters for item in broken] == [item.spec.shared_counters for item in healthy]


def mine(number: int = 0) -> DeviceTaint:
    return DeviceTaint(
        key=f"example.com/service-{number}", value="ana", effect="NoExecute", time_added="2026-01-01T00:00:00Z"
    )


def test_a_taint_that_somebody_else_put_on_a_device_stays_behind_ours_with_its_time() -> None:
    name = "gpu-0000-10-00-0"
    (item,) = tainted(node(gpu("10"), gpu("11")), fault(name), other={name: (mine(),), "gone": (mine(),)})
    ours, theirs = item.spec.devices[0].taints
    assert ours.key == "rootport.dev/unhealthy"
    assert theirs == mine()
    assert item.spec.devices[1].taints == ()


def test_more_taints_than_a_device_may_have_never_cost_the_one_for_its_health() -> None:
    name = "gpu-0000-10-00-0"
    (item,) = tainted(node(gpu("10")), fault(name), other={name: tuple(map(mine, range(16)))})
    assert len(item.spec.devices[0].taints) == 16
    assert item.spec.devices[0].taints[0].key == "rootport.dev/unhealthy"


@pytest.mark.parametrize(("reason", "value"), [("CannotStart", "CannotStart"), ("no reason", "unknown")])
def test_where_the_plugin_can_prepare_nothing_all_devices_of_the_node_are_tainted(reason: str, value: str) -> None:
    machine = node(mig_gpu("10"), gpu("11"), nic("20", vfs=4), fpga("30"))
    health = NodeHealth(cannot_prepare=reason)
    wanted = DeviceTaint(key="rootport.dev/cannot-prepare", value=value, effect="NoSchedule")
    devices = [device for item in resource_slices(machine, health=health) for device in item.spec.devices]
    assert len(devices) == 30
    assert {device.taints for device in devices} == {(wanted,)}


def rival(*devices: str, kind: str = DEVICE_PLUGIN) -> Rival:
    return Rival(name="nvidia.com/gpu", kind=kind, devices=tuple(map(DeviceName, devices)), message="another one")


def rivalled(inventory: Inventory, *rivals: Rival, rules: NicPolicies = DEFAULT_NIC_POLICIES) -> dict[str, list[str]]:
    slices = resource_slices(inventory, nic_policies=rules, health=NodeHealth(rivals=rivals))
    assert validate_slices(slices) == ()
    return taints(slices)


def test_what_another_system_gives_out_is_tainted_with_its_parts_and_nothing_else() -> None:
    machine = node(mig_gpu("10"), mig_gpu("11"), nic("20"), fpga("30"))
    names = {device.name for item in resource_slices(machine) for device in item.spec.devices}
    found = rivalled(machine, rival("gpu-0000-10-00-0"))
    expected = {name for name in names if "0000-10-00-0" in name}
    assert len(expected) > 2
    assert found == {name: ["rootport.dev/rival-plugin=DevicePlugin:NoSchedule"] for name in expected}


def test_one_virtual_function_taints_its_pool_and_by_name_only_itself() -> None:
    machine = node(nic("20", vfs=2), nic("21", vfs=2))
    vf = machine.nics[0].vfs[1].name
    assert set(rivalled(machine, rival(vf))) == {"rdma-vfs-0000-20-00-0"}
    assert set(rivalled(machine, rival(vf), rules=NAMED_VFS)) == {vf}
    assert set(rivalled(machine, rival("rdma-0000-20-00-0"), rules=NAMED_VFS)) == {
        item.name for item in machine.nics[0].vfs
    }


def test_of_two_rivals_the_first_names_the_one_taint_beside_that_of_a_fault() -> None:
    machine = node(gpu("10"))
    name = "gpu-0000-10-00-0"
    health = NodeHealth(faults=(fault(name),), rivals=(rival(name, kind=DRA_DRIVER), rival(name, "gone")))
    assert taints(resource_slices(machine, health=health)) == {
        name: ["rootport.dev/unhealthy=Xid79:NoSchedule", "rootport.dev/rival-plugin=DRADriver:NoSchedule"]
    }
