"""MIG partitions: the decision that makes them, and the plan once they are there."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import DeviceRequestAllocationResult
from driver.errors import InputError, NodeError
from driver.model.devices import DeviceName, DeviceType, MigInstance, MigPlacement
from driver.model.inventory import InventorySource
from driver.plan import GpuUse, IsolationHost, decide, finish, prepare_plan
from driver.plan.effects import CreateMigDevice
from tests.support.paths import REPO
from tests.support.plan.builders import (
    GIB,
    MIG_PROFILES,
    UID,
    claim,
    config,
    given,
    gpu,
    h100,
    mig_instance,
    node,
    parameters,
    share,
)
from tests.support.plan.driver_files import FILES

ONE, ONE_ME, _, _, THREE, *_ = MIG_PROFILES
GPU = DeviceName("gpu-0000-10-00-0")
PARTITION = DeviceName("mig-0000-10-00-0-1g-10gb-2")
NEXT = DeviceName("mig-0000-10-00-0-1g-10gb-3")
LARGE = DeviceName("mig-0000-10-00-0-3g-40gb-0")
MADE = mig_instance(ONE, 2)
NODE = node(h100(0), h100(1))
CLAIM = f"claim ml/train (uid {UID})"
GOLDEN = REPO / "tests" / "data" / "cdi"


def test_a_partition_has_the_file_that_it_always_had() -> None:
    decision = decide(claim(given("gpu", PARTITION)), NODE)
    plan = finish(decision, mig_devices={PARTITION: MADE})
    assert plan.spec is not None
    assert plan.spec.to_json() == (GOLDEN / "mig-device.json").read_bytes()


def test_a_partition_is_made_for_the_claim() -> None:
    decision = decide(claim(given("gpu", PARTITION)), NODE, host=IsolationHost(driver_version="580.159.03"))
    effect = CreateMigDevice(gpu=GPU, uuid="GPU-00000000", profile_id=19, profile="1g.10gb", start=2, size=1)
    assert decision.effects == (effect,)
    assert decision.mig_effects == {PARTITION: effect}
    assert decision.uses == (
        GpuUse(
            gpu=GPU,
            mode=DeviceType.MIG,
            whole=False,
            sharing="",
            core=None,
            memory_bytes=10 * GIB,
            placement=MigPlacement(start=2, size=1),
            gpu_memory_bytes=80 * GIB,
        ),
    )
    (device,) = finish(decision, mig_devices={PARTITION: MADE}).devices
    assert (device.mig_uuid, device.share_id) == (MADE.uuid, None)
    assert device.isolation is not None
    assert (device.isolation.enforced, device.isolation.by, device.isolation.version) == (True, "MIG", "580.159.03")
    assert (
        device.isolation.message
        == "the GPU itself keeps MIG partition 1g.10gb within 1 compute slice and 10Gi of memory"
    )


def test_a_partition_that_was_not_made_is_never_given() -> None:
    decision = decide(claim(given("gpu", PARTITION), given("gpu", NEXT)), NODE)
    with pytest.raises(NodeError, match=f"device {NEXT}: the MIG device of this partition is not there"):
        finish(decision, mig_devices={PARTITION: MADE})


def test_a_simulation_assumes_partitions_and_says_so() -> None:
    inventory = node(h100(0, minor=None, uuid=None), h100(1, minor=None), source=InventorySource.NCCL_TOPOLOGY)
    other = "mig-0000-11-00-0-1g-10gb-2"
    plan = prepare_plan(
        claim(given("gpu", PARTITION), given("gpu", NEXT), given("gpu", other)), inventory, assume_minors=True
    )
    uuids = [device.mig_uuid for device in plan.devices]
    assert len(set(uuids)) == 3
    assert all(uuid and uuid.startswith("MIG-") for uuid in uuids)
    capabilities = [path for path in plan.device_paths if "nvidia-cap" in path]
    assert len(capabilities) == len(set(capabilities)) == 6
    assert plan.notes == (
        f"device nodes of {PARTITION}, {NEXT}, {other} are numbered by index: the inventory (nccl-topology) names none",
        f"the UUIDs and capability nodes of {PARTITION}, {NEXT}, {other} are assumed: nobody made these MIG devices",
    )


def test_an_administrators_own_partition_is_given_as_it_is() -> None:
    static = node(h100(0, mig_instance(ONE, 2), mig_instance(THREE, 4, 1)))
    plan = prepare_plan(claim(given("gpu", PARTITION)), static, driver_files=FILES)
    assert plan.effects == ()
    assert plan.devices[0].mig_uuid == MADE.uuid
    assert plan.device_paths[-2:] == ("/dev/nvidia-caps/nvidia-cap66", "/dev/nvidia-caps/nvidia-cap67")
    assert plan.devices[0].cdi_device_ids[1:] == (f"rootport.dev/claim={UID}_nvidia-driver",)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (GPU, "was partitioned by an administrator since it was allocated"),
        ("gpu-ratio-0000-10-00-0", "is not among the 2 devices"),
        (NEXT, "is not among the 2 devices"),
    ],
    ids=["whole", "percent", "another-place"],
)
def test_a_gpu_with_a_static_layout_is_given_by_it_alone(device: str, message: str) -> None:
    with pytest.raises(NodeError, match=message) as caught:
        decide(claim(given("gpu", device)), node(h100(0, MADE)))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (
            (given("a", LARGE), given("b", PARTITION)),
            f"request b, device {PARTITION} overlaps {LARGE}, which is allocated to request a",
        ),
        (
            (given("a", PARTITION), share("b", GPU, core=10, memory="1Gi")),
            f"request b, device {GPU} excludes {PARTITION}, which is allocated to request a: both are of one GPU",
        ),
        (
            (given("a", GPU), given("b", PARTITION)),
            f"request b, device {PARTITION} excludes {GPU}, which is allocated to request a: both are of one GPU",
        ),
        (
            (given("a", PARTITION), given("b", PARTITION)),
            f"request b, device {PARTITION} is allocated to request a as well",
        ),
    ],
    ids=["overlap", "share", "whole", "twice"],
)
def test_modes_and_places_exclude_each_other_within_a_claim(
    results: tuple[DeviceRequestAllocationResult, ...], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        decide(claim(*results), NODE)
    assert caught.value.message == f"{CLAIM}, {message}"


def test_neighbours_and_partitions_of_another_gpu_are_fine() -> None:
    names = [PARTITION, NEXT, DeviceName("mig-0000-11-00-0-1g-10gb-2")]
    decision = decide(claim(*(given("gpu", name) for name in names)), NODE)
    assert list(decision.mig_effects) == names
    made = {name: mig_instance(ONE, (name[-1] == "2" and 2) or 3, number) for number, name in enumerate(names)}
    plan = finish(decision, mig_devices=made)
    assert plan.spec is not None
    assert plan.spec.devices[0].env[1:] == (
        "ROOTPORT_TRAIN__GPU_PCI=0000:10:00.0,0000:10:00.0,0000:11:00.0",
        "ROOTPORT_TRAIN__GPU_UUID=MIG-00000000,MIG-00000001,MIG-00000002",
        f"ROOTPORT_TRAIN__GPU_MEMORY={10 * GIB},{10 * GIB},{10 * GIB}",
        "ROOTPORT_TRAIN__GPU_PROFILE=1g.10gb,1g.10gb,1g.10gb",
    )


def test_a_profile_with_a_plus_can_stand_in_a_list() -> None:
    name = DeviceName("mig-0000-10-00-0-1g-10gb-me-0")
    plan = finish(decide(claim(given("gpu", name)), NODE), mig_devices={name: mig_instance(ONE_ME, 0)})
    assert plan.spec is not None
    assert "ROOTPORT_TRAIN__GPU_PROFILE=1g.10gb+me" in plan.spec.devices[0].env


def test_lists_whose_places_would_not_match_are_left_out() -> None:
    decision = decide(claim(given("gpu", PARTITION), given("gpu", "gpu-0000-11-00-0")), NODE)
    plan = finish(decision, mig_devices={PARTITION: MADE})
    assert plan.spec is not None
    assert not any("_CORE=" in variable or "_PROFILE=" in variable for variable in plan.spec.devices[0].env)


@pytest.mark.parametrize("made", [{}, {PARTITION: MADE}], ids=["not-there", "made-for-a-request-beside"])
def test_an_administrator_who_watches_over_a_partition_makes_none(made: dict[DeviceName, MigInstance]) -> None:
    decision = decide(claim(given("watch", PARTITION, adminAccess=True)), NODE)
    assert (decision.effects, decision.uses) == ((), ())
    plan = finish(decision, mig_devices=made)
    assert plan.device_paths[0] == "/dev/nvidia0"
    assert any("nvidia-cap" in path for path in plan.device_paths) == bool(made)


def test_a_gpu_config_does_not_fit_a_partition_and_a_mig_config_no_gpu() -> None:
    for device, kind in ((PARTITION, "GpuConfig"), (GPU, "MigConfig")):
        with pytest.raises(InputError, match=f"{kind} does not fit request gpu, which was given {device}"):
            decide(claim(given("gpu", device), configs=(config(parameters(kind), "gpu"),)), NODE)
    decide(claim(given("gpu", PARTITION), configs=(config(parameters("MigConfig"), "gpu"),)), NODE)


def test_a_partition_of_a_gpu_without_a_known_node_is_refused_before_anything_is_made() -> None:
    with pytest.raises(NodeError, match="names no device node of this GPU"):
        decide(claim(given("gpu", PARTITION)), node(h100(0, minor=None)))


def test_a_gpu_without_mig_has_no_partitions() -> None:
    with pytest.raises(NodeError, match="is not among the 1 devices"):
        decide(claim(given("gpu", PARTITION)), node(gpu(0)))
