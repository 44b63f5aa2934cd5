"""What is published of a device, and which devices are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.api.nic_policies import DEFAULT_NIC_POLICIES
from driver.errors import InputError
from driver.layout.left_out import left_out_notes
from driver.layout.slices import resource_slices
from driver.model.devices import LinkKind, LinkLayer, MigSupport, RdmaNetnsMode, RdmaPort
from driver.model.inventory import InventorySource
from driver.model.pci import PciAddress
from tests.support.machines import NAMED_VFS, address, buses, fpga, gpu, nic, node, path, published, value
from tests.support.slice_validation import validate_slices

PCI_BUS_ID = "resource.kubernetes.io/pciBusID"
MIG_ON, MIG_OFF = MigSupport(enabled=True), MigSupport(enabled=False)


def test_a_gpu_is_published_with_all_that_is_known_of_it() -> None:
    described = gpu(
        "0a",
        links=[None],
        pcie=path(1, "f1", "pci0000:00"),
        uuid="GPU-0b2a8c7e-55f1-4b7e-8f2f-2f0d0c9f4c11",
        model="NVIDIA H100 80GB HBM3",
        memory_bytes=85520809984,
        architecture="Hopper",
        cuda_compute_capability="9.0",
        driver_version="580.159.03",
        cuda_driver_version="13.0",
    )
    (device,) = published(node(described), "gpu")
    assert device.to_wire() == {
        "name": "gpu-0000-0a-00-0",
        "attributes": {
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:0a:00.0"},
            "resource.kubernetes.io/numaNode": {"int": 1},
            "type": {"string": "gpu"},
            "vendor": {"string": "nvidia"},
            "model": {"string": "NVIDIA H100 80GB HBM3"},
            "index": {"int": 10},
            "numaNode": {"int": 1},
            "pcieSwitch": {"string": "0000:f1:00.0"},
            "uuid": {"string": "GPU-0b2a8c7e-55f1-4b7e-8f2f-2f0d0c9f4c11"},
            "architecture": {"string": "Hopper"},
            "driverVersion": {"version": "580.159.3"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "nvlinkDomain": {"string": "0000:0a:00.0"},
            "sharingStrategy": {"string": "timeSlicing"},
        },
        "capacity": {
            "core": {
                "value": "100",
                "requestPolicy": {"default": "0", "validRange": {"min": "0", "max": "100", "step": "1"}},
            },
            "memory": {
                "value": "81559Mi",
                "requestPolicy": {"default": "81559Mi", "validRange": {"min": "1Mi", "max": "81559Mi", "step": "1Mi"}},
            },
        },
        "consumesCounters": [{"counterSet": "g0", "counters": {"gpu": {"value": "1"}}}],
        "allowMultipleAllocations": True,
    }


def test_a_nic_is_published_with_all_that_is_known_of_it() -> None:
    port = RdmaPort(link_layer=LinkLayer.INFINIBAND, speed_gbps=400, state="active", guid="0002:c903:00a1:b2c3")
    described = nic(
        "0b",
        0,
        "f1",
        rdma_device="mlx5_0",
        if_names=("ib1", "ib0"),
        vendor="nvidia",
        model="ConnectX-7",
        ports=(port,),
        rail=3,
    )
    (device,) = published(replace(node(described), rdma_netns_mode=RdmaNetnsMode.SHARED))
    assert device.to_wire() == {
        "name": "rdma-0000-0b-00-0",
        "attributes": {
            "resource.kubernetes.io/pciBusID": {"string": "0000:0b:00.0"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "type": {"string": "rdma"},
            "vendor": {"string": "nvidia"},
            "model": {"string": "ConnectX-7"},
            "index": {"int": 11},
            "numaNode": {"int": 0},
            "pcieSwitch": {"string": "0000:f1:00.0"},
            "k8s.cni.cncf.io/deviceID": {"string": "0000:0b:00.0"},
            "k8s.cni.cncf.io/resourceName": {"string": "rootport.dev/rdma"},
            "rdmaDevice": {"string": "mlx5_0"},
            "ifName": {"string": "ib0"},
            "linkType": {"string": "infiniband"},
            "linkSpeed": {"int": 400},
            "linkState": {"string": "active"},
            "guid": {"string": "0002:c903:00a1:b2c3"},
            "rdmaNetns": {"string": "shared"},
            "rail": {"int": 3},
        },
        "capacity": {
            "bandwidth": {
                "value": "400G",
                "requestPolicy": {"default": "400G", "validRange": {"min": "1G", "max": "400G", "step": "1G"}},
            }
        },
        "allowMultipleAllocations": True,
    }


def test_a_vf_is_published_with_its_parent_and_the_parents_vendor() -> None:
    (device,) = published(node(nic("0b", 0, vendor="nvidia", vfs=1)), nic_policies=NAMED_VFS)
    assert device.name == "rdma-vf-0000-0b-01-0"
    assert (value(device, "parent"), value(device, "vendor"), value(device, "index")) == ("0000:0b:00.0", "nvidia", 0)
    assert value(device, "k8s.cni.cncf.io/deviceID") == "0000:0b:01.0"
    assert value(device, "k8s.cni.cncf.io/resourceName") == "rootport.dev/rdma-vf"
    assert not device.allow_multiple_allocations


def test_an_fpga_is_published() -> None:
    (device,) = published(node(fpga("0c", vendor="intel", model="N6000")))
    assert device.to_wire() == {
        "name": "fpga-0000-0c-00-0",
        "attributes": {
            "resource.kubernetes.io/pciBusID": {"string": "0000:0c:00.0"},
            "type": {"string": "fpga"},
            "vendor": {"string": "intel"},
            "model": {"string": "N6000"},
            "index": {"int": 12},
        },
    }


def test_what_the_source_does_not_tell_is_absent() -> None:
    (device,) = published(node(gpu("0a", vendor="amd")))
    assert set(device.attributes) == {PCI_BUS_ID, "type", "vendor", "index", "sharingStrategy"}
    assert set(device.capacity) == {"core"}


def test_a_pci_domain_of_five_digits_has_no_standard_bus_id_but_a_name() -> None:
    (device,) = published(node(gpu("0a", address=PciAddress("10000:0a:00.0"))))
    assert device.name == "gpu-10000-0a-00-0"
    assert PCI_BUS_ID not in device.attributes


@pytest.mark.parametrize(
    ("written", "version"),
    [
        pytest.param("580.159.03", "580.159.3", id="leading zero"),
        pytest.param("9.0", "9.0.0", id="two numbers"),
        pytest.param("13", "13.0.0", id="one number"),
        pytest.param("6.10.5", "6.10.5", id="three numbers"),
        pytest.param("25.10.1.11", None, id="four numbers"),
        pytest.param("580.65-open", None, id="a word"),
        pytest.param("", None, id="nothing"),
        pytest.param("٣.1", None, id="other digits"),
        pytest.param("9" * 5000, None, id="absurd"),
    ],
)
def test_versions_become_semantic_or_are_left_out(written: str, version: str | None) -> None:
    (device,) = published(node(gpu("0a", driver_version=written)))
    assert value(device, "driverVersion") == version


def test_a_long_model_is_cut_within_64_bytes_and_never_within_a_character() -> None:
    (device,) = published(node(gpu("0a", model="x" + "é" * 40)))
    assert value(device, "model") == "x" + "é" * 31


def test_a_long_identifier_is_left_out_because_a_cut_one_would_name_something_else() -> None:
    (device,) = published(node(gpu("0a", uuid="GPU-" + "0" * 61)))
    assert "uuid" not in device.attributes


def test_a_number_beyond_64_bits_is_left_out() -> None:
    (device,) = published(node(gpu("0a", index=2**63)))
    assert "index" not in device.attributes


def test_a_nic_whose_ports_differ_has_no_link_type_and_the_speed_of_the_fastest() -> None:
    ports = (
        RdmaPort(number=1, link_layer=LinkLayer.INFINIBAND, speed_gbps=200),
        RdmaPort(number=2, link_layer=LinkLayer.ETHERNET, speed_gbps=100),
    )
    (device,) = published(node(nic("0b", ports=ports)))
    assert value(device, "linkType") is None
    assert value(device, "linkSpeed") == 200


def test_a_gpu_in_mig_mode_is_left_out_with_a_note() -> None:
    inventory = node(gpu("0a", mig=MIG_ON), gpu("0b", mig=MIG_OFF), gpu("0c"))
    assert buses(published(inventory)) == ["0b", "0c"]
    (note,) = left_out_notes(inventory)
    assert "MIG" in note
    assert note.endswith("gpu-0000-0a-00-0")


def test_a_nic_with_vfs_is_published_by_its_vfs_only_with_a_note() -> None:
    inventory = node(nic("0a", vfs=2), nic("0b"))
    assert [device.name for device in published(inventory)] == ["rdma-0000-0b-00-0", "rdma-vfs-0000-0a-00-0"]
    assert [device.name for device in published(inventory, nic_policies=NAMED_VFS)] == [
        "rdma-0000-0b-00-0",
        "rdma-vf-0000-0a-01-0",
        "rdma-vf-0000-0a-01-1",
    ]
    (note,) = left_out_notes(inventory)
    assert "VFs" in note
    assert note.endswith("rdma-0000-0a-00-0")


@pytest.mark.parametrize("source", [InventorySource.LIVE, InventorySource.SYSFS])
def test_a_device_that_prepare_would_refuse_is_left_out_with_a_note(source: InventorySource) -> None:
    bound = nic("0e", vfs=2)
    half = replace(bound, vfs=(replace(bound.vfs[0], verbs_minor=None), bound.vfs[1]))
    inventory = node(
        gpu("0a", minor=None), gpu("0b"), nic("0c", verbs_minor=None), nic("0d"), half, fpga("10", device_paths=())
    )
    inventory = replace(inventory, source=source)
    assert [device.name for device in published(inventory)] == [
        "gpu-0000-0b-00-0",
        "rdma-0000-0d-00-0",
        "rdma-vfs-0000-0e-00-0",
    ]
    assert published(inventory, nic_policies=NAMED_VFS)[-1].name == "rdma-vf-0000-0e-01-1"
    _, note = left_out_notes(inventory)
    assert "no device node " in note
    assert note.endswith(": fpga-0000-10-00-0, gpu-0000-0a-00-0, rdma-0000-0c-00-0, rdma-vf-0000-0e-01-0")


def test_a_topology_file_numbers_no_device_nodes_and_its_devices_are_published() -> None:
    bare = node(gpu("0a", minor=None), nic("0b", verbs_minor=None), fpga("0c", device_paths=()))
    # The same devices under the other source first: what was laid out for it must not come back from the cache.
    assert published(bare) == []
    from_file = replace(bare, source=InventorySource.NCCL_TOPOLOGY)
    assert buses(published(from_file)) == ["0a", "0b", "0c"]
    assert left_out_notes(from_file) == ()


def test_a_gpu_beside_a_nic_that_is_not_published_counts_as_one_without() -> None:
    inventory = node(gpu("0a", 0, "f0"), gpu("0b", 1, "f1"), nic("0c", 1, "f1"), nic("0d", 0, "f0", verbs_minor=None))
    assert buses(published(inventory, "gpu")) == ["0a", "0b"]
    other_way = node(gpu("0a", 0, "f0"), gpu("0b", 1, "f1"), nic("0c", 1, "f1", verbs_minor=None), nic("0d", 0, "f0"))
    assert buses(published(other_way, "gpu")) == ["0b", "0a"]


def test_nothing_left_out_gives_no_notes() -> None:
    assert left_out_notes(node(gpu("0a"), nic("0b"), fpga("0c"))) == ()


def test_two_devices_of_one_address_are_refused() -> None:
    with pytest.raises(InputError, match=r"node-a has two devices with the PCI address 0000:0a:00\.0"):
        resource_slices(node(gpu("0a"), nic("0a")))


@pytest.mark.parametrize("name", ["", "Node_A", "-a", "a" * 254, "a b"])
def test_a_node_name_that_kubernetes_does_not_allow_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="the node's name"):
        resource_slices(node(gpu("0a"), name=name))


def nvlink_domains(*gpus: object) -> dict[str, object]:
    devices = published(node(*gpus))  # type: ignore[arg-type]
    return dict(sorted((device.name.split("-")[-3], value(device, "nvlinkDomain")) for device in devices))


def test_gpus_without_links_have_no_link_domain() -> None:
    assert nvlink_domains(gpu("0a"), gpu("0b")) == {"0a": None, "0b": None}


def test_gpus_joined_through_others_are_one_link_domain() -> None:
    ring = [gpu("0a", links=["0b"]), gpu("0b", links=["0a", "0c"]), gpu("0c", links=["0b"]), gpu("0d", links=["0e"])]
    domains = nvlink_domains(*ring, gpu("0e", links=["0d"]))
    assert domains == {"0a": address("0a"), "0b": address("0a"), "0c": address("0a")} | dict.fromkeys(
        ["0d", "0e"], address("0d")
    )


def test_nvswitches_join_all_gpus_on_them_but_not_gpus_with_other_links() -> None:
    domains = nvlink_domains(
        gpu("0c", links=[None]), gpu("0a", links=[None]), gpu("0b", links=[None], kind=LinkKind.XGMI)
    )
    assert domains == {"0a": address("0a"), "0b": address("0b"), "0c": address("0a")}


def test_a_link_to_a_gpu_that_is_not_there_joins_nothing() -> None:
    assert nvlink_domains(gpu("0a", links=["0f"]), gpu("0b")) == {"0a": address("0a"), "0b": None}


def switches_of(*devices: object) -> dict[str, object]:
    return {device.name.split("-")[-3]: value(device, "pcieSwitch") for device in published(node(*devices))}  # type: ignore[arg-type]


def test_devices_under_one_switch_share_it() -> None:
    assert switches_of(gpu("0a", 0, "f1"), nic("0b", 0, "f1")) == {"0a": address("f1"), "0b": address("f1")}


def test_the_nearest_of_several_switches_is_published() -> None:
    devices = gpu("0a", 0, "f0/f1"), nic("0b", 0, "f0/f1"), gpu("0c", 0, "f0/f2"), nic("0d", 0, "f0/f2")
    assert switches_of(*devices) == {
        "0a": address("f1"),
        "0b": address("f1"),
        "0c": address("f2"),
        "0d": address("f2"),
    }


def test_a_device_without_switch_has_none() -> None:
    assert switches_of(gpu("0a", 0), nic("0b", 0)) == {"0a": None, "0b": None}


def test_everything_published_here_is_valid() -> None:
    devices = gpu("0a", 0, "f0/f1", model="é" * 70, links=[None]), nic("0b", 0, "f0/f1", vfs=20), fpga("0c", 1)
    for nic_policies in (DEFAULT_NIC_POLICIES, NAMED_VFS):
        assert validate_slices(resource_slices(node(*devices), nic_policies=nic_policies)) == ()
