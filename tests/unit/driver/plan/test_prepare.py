"""What a claim's plan says: which devices, which CDI ids, which edits."""

from __future__ import annotations

import json

import pytest

from driver.errors import NodeError
from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName, DeviceType, Fpga, Gpu, RdmaNic
from driver.model.inventory import InventorySource
from driver.plan import GpuUse, PreparedDevice, PreparePlan, prepare_plan
from driver.plan.isolation.gpu_shares import WHOLE_GPU
from tests.support.plan.builders import UID, claim, config, fpga, given, gpu, nic, node, parameters, vf

GPUS = node(gpu(0), gpu(1), gpu(2), gpu(3), nic(0), nic(1))


def nodes(plan: PreparePlan, device: int = 0) -> tuple[str, ...]:
    assert plan.spec is not None
    return plan.spec.devices[device].device_nodes


def test_one_gpu_becomes_one_cdi_device_named_after_the_claims_uid() -> None:
    plan = prepare_plan(claim(given("gpu", "gpu-0000-11-00-0")), GPUS)
    assert plan.devices == (
        PreparedDevice(
            request_names=("gpu",),
            pool="node-a",
            device="gpu-0000-11-00-0",
            cdi_device_ids=(f"rootport.dev/claim={UID}_gpu_gpu-0000-11-00-0",),
            use=GpuUse(
                gpu=DeviceName("gpu-0000-11-00-0"),
                mode=DeviceType.GPU,
                whole=True,
                sharing="exclusive",
                core=100,
                memory_bytes=None,
            ),
            isolation=WHOLE_GPU,
        ),
    )
    assert (plan.effects, plan.files) == ((), ())
    assert plan.spec is not None
    assert plan.spec.file_name == f"rootport.dev-claim_{UID}.json"
    assert json.loads(plan.spec.to_json()) == {
        "cdiVersion": "0.5.0",
        "kind": "rootport.dev/claim",
        "devices": [
            {
                "name": f"{UID}_gpu_gpu-0000-11-00-0",
                "containerEdits": {
                    "env": [
                        "NVIDIA_VISIBLE_DEVICES=void",
                        "ROOTPORT_TRAIN__GPU_PCI=0000:11:00.0",
                        "ROOTPORT_TRAIN__GPU_UUID=GPU-00000001",
                        "ROOTPORT_TRAIN__GPU_CORE=100",
                    ],
                    "deviceNodes": [
                        {"path": "/dev/nvidia1"},
                        {"path": "/dev/nvidiactl"},
                        {"path": "/dev/nvidia-uvm"},
                        {"path": "/dev/nvidia-uvm-tools"},
                    ],
                },
            }
        ],
    }
    assert plan.notes == ()


def test_each_request_gets_its_own_devices_in_the_allocations_order() -> None:
    plan = prepare_plan(
        claim(
            given("gpus", "gpu-0000-13-00-0"),
            given("nic", "rdma-0000-40-00-0"),
            given("gpus", "gpu-0000-10-00-0"),
        ),
        GPUS,
    )
    assert [(device.request_names, device.device) for device in plan.devices] == [
        (("gpus",), "gpu-0000-13-00-0"),
        (("nic",), "rdma-0000-40-00-0"),
        (("gpus",), "gpu-0000-10-00-0"),
    ]
    assert nodes(plan, 0)[0] == "/dev/nvidia3"
    assert nodes(plan, 1) == (
        "/dev/infiniband/uverbs0",
        "/dev/infiniband/umad0",
        "/dev/infiniband/issm0",
        "/dev/infiniband/rdma_cm",
    )
    assert nodes(plan, 2)[0] == "/dev/nvidia0"


def test_another_drivers_results_are_none_of_ours() -> None:
    other = given("tpu", "gpu-0000-10-00-0", driver="tpu.example.com", pool="elsewhere")
    plan = prepare_plan(claim(other, given("gpu", "gpu-0000-10-00-0")), GPUS)
    assert [device.request_names for device in plan.devices] == [("gpu",)]


def test_a_claim_of_another_driver_alone_needs_nothing() -> None:
    plan = prepare_plan(claim(given("tpu", "tpu-0", driver="tpu.example.com", pool="elsewhere")), GPUS)
    assert (plan.devices, plan.spec) == ((), None)


def test_a_prioritized_lists_choice_is_told_by_the_base_request() -> None:
    plan = prepare_plan(claim(given("gpu/large", "gpu-0000-10-00-0")), GPUS)
    assert plan.devices[0].request_names == ("gpu",)
    assert plan.devices[0].cdi_device_ids == (f"rootport.dev/claim={UID}_gpu_gpu-0000-10-00-0",)


def test_admin_access_may_have_a_device_that_another_request_has() -> None:
    plan = prepare_plan(
        claim(given("gpu", "gpu-0000-10-00-0"), given("monitor", "gpu-0000-10-00-0", adminAccess=True)), GPUS
    )
    ids = [device.cdi_device_ids for device in plan.devices]
    assert len(set(ids)) == 2
    assert nodes(plan, 0) == nodes(plan, 1)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (gpu(0, vendor="amd", minor=131), ("/dev/kfd", "/dev/dri/renderD131")),
        (nic(0, umad_minors=(0, 1), issm_minors=()), ("uverbs0", "umad0", "umad1", "rdma_cm")),
        (nic(0, vendor="amazon", umad_minors=(), issm_minors=()), ("uverbs0",)),
        (fpga(0), ("/dev/dfl-port.0", "/dev/dri/renderD128")),
    ],
    ids=["amd-gpu", "nic-of-two-ports", "efa-has-no-connection-manager", "fpga"],
)
def test_the_device_nodes_of_other_devices(device: object, expected: tuple[str, ...]) -> None:
    plan = prepare_plan(claim(given("r", device.name)), node(device))
    assert nodes(plan) == tuple(path if path[0] == "/" else f"/dev/infiniband/{path}" for path in expected)


def test_a_vf_gets_its_own_device_nodes_and_none_of_its_pf() -> None:
    inventory = node(nic(0, vfs=(vf(0, 0), vf(0, 1))))
    plan = prepare_plan(claim(given("r", "rdma-vf-0000-40-00-2")), inventory)
    assert nodes(plan) == ("/dev/infiniband/uverbs11", "/dev/infiniband/rdma_cm")


def test_the_claims_parameters_win_over_the_classs() -> None:
    of_class = config(parameters("RdmaConfig", rdmaCM=True), "nic", source="FromClass")
    of_claim = config(parameters("RdmaConfig", rdmaCM=False), source="FromClaim")
    plan = prepare_plan(claim(given("nic", "rdma-0000-41-00-0"), configs=(of_claim, of_class)), GPUS)
    assert "/dev/infiniband/rdma_cm" not in nodes(plan)


def test_only_nvidia_gpus_hold_off_nvidias_own_runtime() -> None:
    plan = prepare_plan(
        claim(given("a", "gpu-0000-10-00-0"), given("b", "gpu-0000-11-00-0"), given("c", "rdma-0000-40-00-0")),
        node(gpu(0), gpu(1, vendor="amd"), nic(0)),
    )
    assert plan.spec is not None
    holds = ["NVIDIA_VISIBLE_DEVICES=void" in device.env for device in plan.spec.devices]
    assert holds == [True, False, False]


def test_no_edit_reaches_a_container_that_names_another_request() -> None:
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0"), given("nic", "rdma-0000-40-00-0")), GPUS)
    assert plan.spec is not None
    assert set(json.loads(plan.spec.to_json())) == {"cdiVersion", "kind", "devices"}
    _, of_nic = plan.spec.devices
    assert not any("nvidia" in path for path in of_nic.device_nodes)
    assert not any("GPU" in variable for variable in of_nic.env)


def test_minors_assumed_for_a_simulation_are_told_in_a_note() -> None:
    inventory = node(
        gpu(0),
        gpu(1, minor=None),
        gpu(2, minor=None, vendor="amd"),
        nic(3, verbs_minor=None, umad_minors=(), issm_minors=()),
        fpga(4, device_paths=()),
        source=InventorySource.NCCL_TOPOLOGY,
    )
    names = ("gpu-0000-10-00-0", "gpu-0000-11-00-0", "gpu-0000-12-00-0", "rdma-0000-43-00-0", "fpga-0000-84-00-0")
    plan = prepare_plan(claim(*(given("all", name) for name in names)), inventory, assume_minors=True)
    assert [nodes(plan, 0)[0], nodes(plan, 1)[0], nodes(plan, 2)[1], nodes(plan, 3)[0], *nodes(plan, 4)] == [
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/dri/renderD130",
        "/dev/infiniband/uverbs3",
        "/dev/dri/renderD132",
    ]
    (note,) = plan.notes
    assert note == (
        "device nodes of gpu-0000-11-00-0, gpu-0000-12-00-0, rdma-0000-43-00-0, fpga-0000-84-00-0 are numbered by "
        "index: the inventory (nccl-topology) names none"
    )


@pytest.mark.parametrize(
    ("device", "bare"),
    [
        pytest.param(gpu(0), gpu(0, minor=None), id="gpu"),
        pytest.param(nic(0), nic(0, verbs_minor=None), id="nic"),
        pytest.param(fpga(0), fpga(0, device_paths=()), id="fpga"),
    ],
)
def test_prepare_refuses_exactly_what_is_not_published(
    device: Gpu | RdmaNic | Fpga, bare: Gpu | RdmaNic | Fpga
) -> None:
    of = claim(given("all", device.name))
    for inventory in (node(device), node(bare)):
        if any(item.spec.devices for item in resource_slices(inventory)):
            prepare_plan(of, inventory)
        else:
            with pytest.raises(NodeError, match="names no"):
                prepare_plan(of, inventory)
    assert not any(item.spec.devices for item in resource_slices(node(bare)))


def test_a_known_minor_is_never_replaced_by_an_assumption() -> None:
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0")), node(gpu(0, minor=7)), assume_minors=True)
    assert nodes(plan)[0] == "/dev/nvidia7"
    assert plan.notes == ()
