"""Which attributes of devices in several places are lists, and that nothing is without the gate."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from driver.adapters.files.policies_file import parse_policies
from driver.api import resource_v1
from driver.api.gpu_policies import GpuPolicies
from driver.errors import InputError
from driver.layout.slices import resource_slices
from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.model.pci import DirectPath, PciAddress, PciePath
from tests.support.machines import address, fpga, gpu, nic, node
from tests.support.slice_validation import validate_slices

ROOT, NUMA, SWITCH = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode", "pcieSwitch"


def laid_out(*devices: Gpu | RdmaNic | Fpga, **options: Any) -> dict[str, resource_v1.Device]:
    slices = resource_slices(node(*devices), **({"has_lists": True} | options))
    assert validate_slices(slices) == ()
    return {device.name: device for part in slices for device in part.spec.devices}


def values(devices: dict[str, resource_v1.Device], name: str) -> dict[str, Any]:
    """The attribute of each whole GPU, NIC and FPGA, by bus."""
    wires = {key.split("-")[2]: item.to_wire()["attributes"].get(name) for key, item in devices.items()}
    return {bus: next(iter(wire.values())) if wire else None for bus, wire in wires.items()}


def switches(*devices: Gpu | RdmaNic | Fpga) -> dict[str, Any]:
    return values(laid_out(*devices), SWITCH)


def below(chain: str, *devices: Any) -> list[Any]:
    return [replace(device, pcie=PciePath(switches=tuple(map(address, chain.split("/"))))) for device in devices]


def buses(found: Any) -> Any:
    return [buses(item) for item in found] if isinstance(found, list) else found and found[5:7]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param(
            (*below("f0/f1", gpu("10"), nic("20")), *below("f0/f2", gpu("11"), nic("21"))),
            {"10": "f1", "20": "f1", "11": "f2", "21": "f2"},
            id="pairs-below-inner-switches-are-not-mixed",
        ),
        pytest.param(
            (gpu("10", switches="f0/f1"), gpu("11", switches="f0/f1"), nic("20", switches="f0")),
            {"10": ["f1", "f0"], "11": ["f1", "f0"], "20": "f0"},
            id="a-nic-at-the-outer-switch",
        ),
        pytest.param(
            (gpu("10", switches="f0/f1"), gpu("11", switches="f0/f1"), gpu("12", switches="f0")),
            {"10": "f1", "11": "f1", "12": "f0"},
            id="no-nic-at-all",
        ),
        pytest.param(
            (*below("f0", fpga("10")), *below("f0/f1", nic("20"), nic("21"))),
            {"10": "f0", "20": ["f1", "f0"], "21": ["f1", "f0"]},
            id="an-fpga",
        ),
    ],
)  # fmt: skip
def test_switches_go_out_to_the_first_that_joins_both_kinds(
    devices: Iterable[Gpu | RdmaNic | Fpga], expected: dict[str, Any]
) -> None:
    assert {bus: buses(found) for bus, found in switches(*devices).items()} == expected


def test_all_that_is_given_of_a_card_has_its_lists_and_copies_of_them_too() -> None:
    path = PciePath(root="pci0000:00", numa_node=1, near_numa_nodes=(0, 2))
    direct = DirectPath(address=PciAddress("0009:04:00.0"), root="pci0009:00", numa_node=3)
    devices = laid_out(
        gpu("10", pcie=path, memory_bytes=2**36),
        nic("20", pcie=PciePath(root="pci0000:00", numa_node=1, direct=direct), vfs=2),
        policies=GpuPolicies.model_validate(
            {
                "apiVersion": "rootport.dev/v1alpha1",
                "kind": "GpuPolicies",
                "policies": [{"extraAttributes": [{"name": "example.com/root", "from": ROOT}]}],
            }
        ),
    )
    assert {name.partition("-0000")[0] for name in devices} == {"gpu", "gpu-ratio", "rdma-vfs"}
    assert devices["gpu-0000-10-00-0"].attributes[NUMA].int_values == (1, 0, 2)
    assert devices["gpu-ratio-0000-10-00-0"].attributes[NUMA].int_values == (1, 0, 2)
    assert devices["rdma-vfs-0000-20-00-0"].attributes[ROOT].string_values == ("pci0000:00", "pci0009:00")
    assert devices["rdma-vfs-0000-20-00-0"].attributes[NUMA].int_values == (1, 3)
    # One value stays a plain one, and Rootport's own number is always the device's own.
    assert devices["gpu-0000-10-00-0"].attributes[ROOT].string_value == "pci0000:00"
    assert devices["gpu-0000-10-00-0"].attributes["example.com/root"].string_value == "pci0000:00"
    assert devices["gpu-0000-10-00-0"].attributes["numaNode"].int_value == 1


def test_without_the_gate_nothing_is_a_list() -> None:
    path = PciePath(root="pci0000:00", numa_node=1, near_numa_nodes=(0,))
    devices = laid_out(gpu("10", pcie=path), nic("20", pcie=path), has_lists=False)
    plain = laid_out(
        gpu("10", 1, pcie=PciePath(root="pci0000:00", numa_node=1)),
        nic("20", pcie=PciePath(root="pci0000:00", numa_node=1)),
    )
    assert devices == plain


def policies(**policy: Any) -> GpuPolicies:
    document = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [policy]}
    return GpuPolicies.model_validate(document)


BRINGS = {"maxShares": 1, "nodeAllocatable": {"memory": "128Gi", "cpu": 14}}


def test_a_gpu_brings_what_its_policy_says_and_its_partitions_nothing() -> None:
    devices = laid_out(gpu("10", memory_bytes=2**36), nic("20"), policies=policies(**BRINGS), has_node_allocatable=True)
    wires = {name: item.to_wire().get("nodeAllocatableResources") for name, item in devices.items()}
    brought = {"cpu": {"overhead": {"perPod": "14"}}, "memory": {"overhead": {"perPod": "128Gi"}}}
    assert wires == {"gpu-0000-10-00-0": brought, "gpu-ratio-0000-10-00-0": brought, "rdma-0000-20-00-0": None}
    off = laid_out(gpu("10", memory_bytes=2**36), policies=policies(**BRINGS))
    assert not any(item.node_allocatable_resources for item in off.values())


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        pytest.param({"nodeAllocatable": {"cpu": "14"}}, "nodeAllocatable needs maxShares: 1", id="shares"),
        pytest.param({"maxShares": 1, "nodeAllocatable": {"ephemeral-storage": "1Gi"}}, "ephemeral-storage", id="name"),
        pytest.param({"maxShares": 1, "nodeAllocatable": {"cpu": "many"}}, "not a quantity", id="amount"),
        pytest.param({"maxShares": 1, "nodeAllocatable": {"cpu": "0"}}, "more than 0", id="zero"),
        pytest.param({"maxShares": 1, "nodeAllocatable": {}}, "one to 8", id="none"),
        pytest.param({"maxShares": 1, "nodeAllocatable": [["cpu", "1"], 3]}, "policies[0].nodeAllocatable", id="form"),
    ],
)
def test_policies_say_what_is_wrong_with_what_a_gpu_brings(policy: dict[str, Any], told: str) -> None:
    document = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [policy]}
    with pytest.raises(InputError) as error:
        parse_policies(json.dumps(document), "policies.yaml", GpuPolicies)
    assert told in str(error.value)
