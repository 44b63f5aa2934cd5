"""In which ways a GPU is published: whole and in shares, by percent, by MIG partition; and why not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies
from driver.api.policies import ExtraAttribute
from driver.api.quantity import Quantity
from driver.api.resource_v1 import Device, ResourceSlice
from driver.layout.devices import device_attributes
from driver.layout.left_out import left_out, left_out_notes
from driver.layout.slices import resource_slices
from driver.layout.values import Value
from driver.model.devices import Gpu, GpuLink, LinkKind, MigPlacement, MigProfile, MigSupport
from driver.model.inventory import InventorySource
from driver.model.parts import allocatable_devices
from driver.model.pci import PciePath
from tests.support.machines import NAMED_VFS, address, buses, gpu, nic, node, published, value
from tests.support.mig_machines import A30, A100, H100, MIB, dgx_h100, instance, mig_gpu, profile
from tests.support.slice_validation import validate_slices


def policies(*rules: dict[str, Any]) -> GpuPolicies:
    return GpuPolicies.model_validate({"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": rules})


def devices(slices: tuple[ResourceSlice, ...]) -> list[Device]:
    return [device for part in slices for device in part.spec.devices]


def sharing(device: Device) -> dict[str, Any]:
    """Capacity → its request policy."""
    return {name: amount.to_wire().get("requestPolicy") for name, amount in device.capacity.items()}


def counters(device: Device) -> dict[str, int]:
    return {name: amount.value.ceil() for part in device.consumes_counters for name, amount in part.counters.items()}


# Shares.


def test_a_gpu_can_be_shared_by_core_and_memory_and_is_whole_where_nothing_is_asked_for() -> None:
    whole, ratio = published(node(gpu("0a", memory_bytes=80 << 30)))
    core = {"default": "0", "validRange": {"min": "0", "max": "100", "step": "1"}}
    percent = {"default": "100", "validRange": {"min": "1", "max": "100", "step": "1"}}
    assert whole.allow_multiple_allocations is True
    assert sharing(whole) == {
        "core": core,
        "memory": {"default": "80Gi", "validRange": {"min": "1Mi", "max": "80Gi", "step": "1Mi"}},
    }
    assert (ratio.name, value(ratio, "type")) == ("gpu-ratio-0000-0a-00-0", "gpu-ratio")
    assert ratio.allow_multiple_allocations is True
    assert sharing(ratio) == {"core": core, "memoryRatio": percent}


def test_the_percent_device_says_the_same_of_itself_as_its_gpu_except_for_the_type() -> None:
    whole, ratio = published(node(gpu("0a", 1, "f0", memory_bytes=80 << 30, uuid="GPU-1", model="H100")))
    assert {key: item for key, item in ratio.attributes.items() if key != "type"} == {
        key: item for key, item in whole.attributes.items() if key != "type"
    }


@pytest.mark.parametrize("memory", [None, 0, 2**63, -1])
def test_a_gpu_of_unknown_memory_is_shared_by_core_alone(memory: int | None) -> None:
    (only,) = published(node(gpu("0a", memory_bytes=memory)))
    assert list(only.capacity) == ["core"]
    assert only.consumes_counters == ()


@pytest.mark.parametrize(
    ("card", "minimum", "step", "value", "expected"),
    [
        pytest.param(80 << 30, "1Gi", "512Mi", "80Gi", ("1Gi", "80Gi", "512Mi"), id="even"),
        pytest.param(
            (80 << 30) + 1, "1Gi", "512Mi", "85899345921", ("1Gi", "80Gi", "512Mi"), id="a byte more than steps"
        ),
        pytest.param(80 << 30, "9Gi", "10Gi", "80Gi", ("9Gi", "79Gi", "10Gi"), id="the last step does not fit"),
        pytest.param(80 << 30, "3Gi", "10Gi", "73Gi", ("3Gi", "73Gi", "10Gi"), id="the rest is enough for a share"),
        pytest.param(80 << 30, "80Gi", "1Gi", "80Gi", ("80Gi", "80Gi", None), id="whole only"),
        pytest.param(80 << 30, "75Gi", "10Gi", "80Gi", ("75Gi", "75Gi", None), id="no step fits"),
        pytest.param(80 << 30, "40Gi", "41Gi", "40Gi", ("40Gi", "40Gi", None), id="two shares without a step"),
        pytest.param(80 << 30, "100Gi", "1Gi", "80Gi", ("80Gi", "80Gi", None), id="a minimum over the card"),
        pytest.param(1000, "1Gi", "1", "1k", ("1k", "1k", None), id="a card of a few bytes"),
    ],
)
def test_the_largest_share_of_memory_is_a_whole_number_of_steps_and_leaves_no_room_for_another(
    card: int, minimum: str, step: str, value: str, expected: tuple[str, str, str | None]
) -> None:
    rules = policies({"memory": {"minimum": minimum, "step": step}})
    slices = resource_slices(node(gpu("0a", memory_bytes=card)), policies=rules)
    assert validate_slices(slices) == ()
    memory = devices(slices)[0].capacity["memory"]
    policy = memory.request_policy
    assert memory.value == Quantity(value)
    assert policy is not None
    assert policy.valid_range is not None
    found = policy.valid_range
    assert tuple(str(part) if part else None for part in (found.min, found.max, found.step)) == expected
    assert policy.default == found.max


def test_steps_of_core_and_of_percent_are_the_administrators() -> None:
    rules = policies({"core": {"minimum": 10, "step": 15}, "memoryRatio": {"minimum": 100}})
    slices = resource_slices(node(gpu("0a", memory_bytes=80 << 30)), policies=rules)
    assert validate_slices(slices) == ()
    ratio = devices(slices)[1]
    assert sharing(ratio) == {
        "core": {"default": "10", "validRange": {"min": "10", "max": "100", "step": "15"}},
        "memoryRatio": {"default": "100", "validRange": {"min": "100", "max": "100"}},
    }


@pytest.mark.parametrize(
    ("core", "expected"),
    [
        ({}, ("100", "0", "0", "100", "1")),
        ({"minimum": 10, "step": 10}, ("100", "0", "0", "100", "10")),
        ({"minimum": 10, "step": 10, "default": 20}, ("100", "20", "10", "100", "10")),
        ({"minimum": 10, "step": 30}, ("100", "10", "10", "100", "30")),
        ({"minimum": 100}, ("100", "100", "100", "100", None)),
        ({"minimum": 100, "step": 100}, ("100", "100", "100", "100", None)),
        ({"minimum": 100, "step": 100, "default": 0}, ("100", "0", "0", "100", "100")),
        ({"default": 100, "total": 250}, ("250", "100", "1", "100", "1")),
        ({"minimum": 100, "total": 10000}, ("10k", "100", "100", "100", None)),
    ],
    ids=str,
)
@pytest.mark.parametrize("device", [0, 1], ids=["bytes", "percent"])
def test_core_is_reserved_as_the_policy_says(
    core: dict[str, int], expected: tuple[str, str, str, str, str | None], device: int
) -> None:
    slices = resource_slices(node(gpu("0a", memory_bytes=80 << 30)), policies=policies({"core": core}))
    assert validate_slices(slices) == ()
    found = devices(slices)[device].capacity["core"].to_wire()
    valid = found["requestPolicy"]["validRange"]
    assert (
        found["value"], found["requestPolicy"]["default"], valid["min"], valid["max"], valid.get("step")
    ) == expected  # fmt: skip


def test_a_gpu_of_unknown_memory_promises_its_core_once_and_is_whole_where_nothing_is_asked_for() -> None:
    slices = resource_slices(node(gpu("0a")), policies=policies({"core": {"total": 200, "default": 0}}))
    (only,) = devices(slices)
    assert only.capacity["core"].to_wire() == {
        "value": "100",
        "requestPolicy": {"default": "100", "validRange": {"min": "1", "max": "100", "step": "1"}},
    }


def test_the_number_of_shares_is_a_capacity_where_it_is_limited() -> None:
    slices = resource_slices(node(gpu("0a", memory_bytes=80 << 30)), policies=policies({"maxShares": 4}))
    assert validate_slices(slices) == ()
    for device in devices(slices):
        assert device.capacity["shares"].to_wire() == {
            "value": "4",
            "requestPolicy": {"default": "1", "validValues": ["1"]},
        }


def test_rules_are_for_models_and_nodes_and_the_first_match_wins() -> None:
    rules = policies(
        {"models": ["*H100*"], "nodes": ["gpu-*"], "maxShares": 2},
        {"models": ["*H100*"], "maxShares": 3},
        {"models": ["A100"], "maxShares": 4},
    )
    gpus = [gpu("01", model="NVIDIA H100"), gpu("02", model="A100"), gpu("03", model="A100-40"), gpu("04")]

    def limits(name: str) -> dict[str, str | None]:
        found = devices(resource_slices(node(*gpus, name=name), policies=rules))
        return {
            device.name[9:11]: str(device.capacity.get("shares") and device.capacity["shares"].value)
            for device in found
        }

    assert limits("gpu-1") == {"01": "2", "02": "4", "03": "None", "04": "None"}
    assert limits("other") == {"01": "3", "02": "4", "03": "None", "04": "None"}


@pytest.mark.parametrize(
    ("modes", "types", "counted"),
    [
        (["gpu"], {"gpu"}, False),
        (["gpu-ratio"], {"gpu-ratio"}, False),
        (["mig"], {"mig"}, True),
        (["gpu", "gpu-ratio"], {"gpu", "gpu-ratio"}, True),
        (["gpu", "mig"], {"gpu", "mig"}, True),
    ],
    ids=["gpu", "gpu-ratio", "mig", "gpu+gpu-ratio", "gpu+mig"],
)
def test_only_the_modes_that_are_on_offer_are_published_and_counted_where_two_could_meet(
    modes: list[str], types: set[str], counted: bool
) -> None:
    slices = resource_slices(node(mig_gpu("0a")), policies=policies({"modes": modes}))
    assert validate_slices(slices) == ()
    assert {value(device, "type") for device in devices(slices)} == types
    assert any(part.spec.shared_counters for part in slices) == counted
    told = left_out(node(mig_gpu("0a")), policies=policies({"modes": modes}))
    assert ("gpu-0000-0a-00-0" in told) == ("gpu" not in modes)


def test_a_gpu_without_mig_and_two_modes_has_one_counter_of_one() -> None:
    *parts, last = resource_slices(node(gpu("0a", memory_bytes=80 << 30)))
    (counter_set,) = last.spec.shared_counters
    assert last.spec.devices == ()
    assert counter_set.to_wire()["counters"] == {"gpu": {"value": "1"}}
    assert [counters(device) for device in devices(tuple(parts))] == [{"gpu": 1}, {"gpu": 1}]


# MIG.


def test_every_placement_is_a_partition_with_the_memory_slices_that_it_covers() -> None:
    inventory = node(mig_gpu("0a", model="NVIDIA H100 80GB HBM3", pcie=dgx_h100().gpus[0].pcie))
    found = {device.name: device for device in published(inventory, "mig")}
    assert len(found) == 25
    assert found["mig-0000-0a-00-0-3g-40gb-4"].to_wire() == {
        "name": "mig-0000-0a-00-0-3g-40gb-4",
        "attributes": {
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:10"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "type": {"string": "mig"},
            "profile": {"string": "3g.40gb"},
            "pcieSwitch": {"string": "0000:11:00.0"},
        },
        "capacity": {"memory": {"value": "40448Mi"}},
        "consumesCounters": [{"counterSet": "g0", "counters": {f"m{number}": {"value": "1"} for number in (4, 5, 6)}}],
    }
    assert counters(found["mig-0000-0a-00-0-1g-10gb-me-6"]) == {"m6": 1, "ofa": 1}
    for kind in ("gpu", "gpu-ratio"):
        (other,) = published(inventory, kind)
        # What covers the eighth memory slice covers the seventh as well, so that one needs no counter.
        assert counters(other) == {f"m{number}": 1 for number in range(7)}


@pytest.mark.parametrize(
    ("profiles", "slices", "extra"),
    [
        pytest.param(H100, 7, {"ofa": 1}, id="H100"),
        pytest.param(A100, 7, {"ofa": 1}, id="A100"),
        pytest.param(A30, 4, {"ofa": 1}, id="A30"),
        pytest.param(H100[:1] + H100[2:], 7, {}, id="without media engines nothing else runs out"),
    ],
)
def test_counters_beside_the_memory_slices_are_only_what_could_run_out(
    profiles: tuple[MigProfile, ...], slices: int, extra: dict[str, int]
) -> None:
    (counter_set,) = resource_slices(node(mig_gpu("0a", profiles)))[-1].spec.shared_counters
    totals = {name: counter.value.ceil() for name, counter in counter_set.counters.items()}
    assert totals == {f"m{number}": 1 for number in range(slices)} | extra


def test_a_largest_number_of_instances_that_no_engine_explains_is_a_counter() -> None:
    profiles = (profile("1g.1gb", 1, 1024, 2, "0:1 1:1 2:1 3:1"), profile("4g.4gb", 2, 4096, 1, "0:4"))
    (counter_set,) = resource_slices(node(mig_gpu("0a", profiles)))[-1].spec.shared_counters
    assert counter_set.counters["max-1g-1gb"].value.ceil() == 2
    assert "max-4g-4gb" not in counter_set.counters


def test_small_partitions_come_first_and_leave_room_for_large_ones() -> None:
    order = [device.name.removeprefix("mig-0000-0a-00-0-") for device in published(node(mig_gpu("0a")), "mig")]
    assert order == [
        *(f"1g-10gb-{start}" for start in (6, 4, 5, 0, 1, 2, 3)),
        *(f"1g-10gb-me-{start}" for start in (6, 4, 5, 0, 1, 2, 3)),
        *(f"1g-20gb-{start}" for start in (6, 4, 0, 2)),
        *(f"2g-20gb-{start}" for start in (4, 0, 2)),
        *(f"3g-40gb-{start}" for start in (4, 0)),
        "4g-40gb-0",
        "7g-80gb-0",
    ]


def test_the_modes_follow_each_other_and_gpus_that_nobody_can_have_whole_give_their_parts_first() -> None:
    inventory = node(mig_gpu("01", A30), mig_gpu("02", A30, instance(5, 0, 2)), nic("03"), gpu("04", memory_bytes=MIB))
    kinds = [value(device, "type") for device in published(inventory)]
    assert kinds == ["gpu", "gpu", "rdma", "gpu-ratio", "gpu-ratio", *["mig"] * 12]
    assert buses(published(inventory, "gpu")) == ["04", "01"]
    assert published(inventory, "mig")[0].name == "mig-0000-02-00-0-2g-12gb-0"


def test_a_static_layout_is_published_by_its_partitions_alone() -> None:
    inventory = node(mig_gpu("0a", H100, instance(9, 0, 4), instance(19, 6, 1)), mig_gpu("0b"))
    slices = resource_slices(inventory)
    assert validate_slices(slices) == ()
    of_it = [device for device in devices(slices) if "-0a-" in device.name]
    assert [device.name for device in of_it] == ["mig-0000-0a-00-0-1g-10gb-6", "mig-0000-0a-00-0-3g-40gb-0"]
    assert [device.consumes_counters for device in of_it] == [(), ()]
    (note,) = left_out_notes(inventory)
    assert note == (
        "not published (an administrator has partitioned it: its MIG partitions are published instead): "
        "gpu-0000-0a-00-0"
    )


def test_a_static_layout_of_unknown_profiles_leaves_the_gpu_out_with_a_reason() -> None:
    inventory = node(mig_gpu("0a", H100, instance(77, 0, 4)))
    assert published(inventory) == []
    assert "in a way that cannot be published" in left_out(inventory)["gpu-0000-0a-00-0"]  # type: ignore[index]


def test_a_static_layout_is_not_on_offer_where_the_policies_have_no_mig() -> None:
    inventory, rules = node(mig_gpu("0a", H100, instance(9, 0, 4))), policies({"modes": ["gpu", "gpu-ratio"]})
    assert devices(resource_slices(inventory, policies=rules)) == []
    told = left_out(inventory, policies=rules)
    assert "the GpuPolicies do not offer MIG" in told["gpu-0000-0a-00-0"]  # type: ignore[index]


@pytest.mark.parametrize("enabled", [False, True])
def test_mig_mode_does_not_matter_where_placements_are_known(enabled: bool) -> None:
    inventory = node(mig_gpu("0a", enabled=enabled))
    assert len(published(inventory)) == 27
    assert left_out_notes(inventory) == ()


@pytest.mark.parametrize("capability", ["8.0", None])
def test_a_gpu_whose_mig_mode_stays_as_it_is_gives_what_goes_with_it(capability: str | None) -> None:
    on = mig_gpu("0a", A100, enabled=True, cuda_compute_capability=capability)
    off = mig_gpu("0b", A100, enabled=False, cuda_compute_capability=capability)
    slices = resource_slices(node(on, off))
    assert validate_slices(slices) == ()
    assert {(device.name.split("-0000-")[1][:2], value(device, "type")) for device in devices(slices)} == {
        ("0a", "mig"), ("0b", "gpu"), ("0b", "gpu-ratio"),
    }  # fmt: skip
    (note,) = left_out_notes(node(on, off))
    assert "older than Hopper" in note
    assert note.endswith(": gpu-0000-0a-00-0")
    told = left_out(node(on), policies=policies({"modes": ["gpu"]}))
    assert "in no way that it can be given" in told["gpu-0000-0a-00-0"]  # type: ignore[index]


_A = MigPlacement(start=0, size=1)
ODD = {
    "a profile twice": (H100[0], H100[0]),
    "a placement twice": (replace(H100[0], placements=(_A, _A)),),
    "two sizes at one start": (replace(H100[0], placements=(_A, MigPlacement(start=0, size=2))),),
    "two profiles of one number": (H100[0], replace(H100[2], profile_id=19)),
    "a start below zero": (replace(H100[0], placements=(MigPlacement(start=-1, size=2),)),),
    "an empty placement": (replace(H100[0], placements=(MigPlacement(start=0, size=0),)),),
    "more slices than counters": (replace(H100[0], placements=(MigPlacement(start=32, size=1),)),),
    "a placement without end": (replace(H100[0], placements=(MigPlacement(start=0, size=2**40),)),),
    "more counters than a set has": (
        replace(H100[0], placements=tuple(MigPlacement(start=start, size=1) for start in range(32)), max_instances=1),
    ),
    "too many placements": tuple(replace(H100[0], name=f"1g.{number}gb", profile_id=number) for number in range(10)),
    "no memory": (replace(H100[0], memory_bytes=0),),
    "absurd memory": (replace(H100[0], memory_bytes=2**63),),
    "no instances": (replace(H100[0], max_instances=0),),
    "fewer engines than none": (replace(H100[0], decoders=-1),),
    "absurd engines": (replace(H100[0], decoders=2**62),),
    "no name": (replace(H100[0], name=""),),
    "a name that is none": (replace(H100[0], name="§"),),
    "a name without end": (replace(H100[0], name="1g." + "9" * 60),),
}


@pytest.mark.parametrize("profiles", ODD.values(), ids=ODD)
def test_a_gpu_that_nvml_describes_badly_loses_its_partitions_and_its_neighbours_nothing(
    profiles: tuple[MigProfile, ...],
) -> None:
    inventory = node(mig_gpu("0a", profiles), mig_gpu("0b"))
    slices = resource_slices(inventory)
    assert validate_slices(slices) == ()
    names = [device.name for device in devices(slices)]
    assert [name for name in names if "-0a-" in name] == ["gpu-0000-0a-00-0", "gpu-ratio-0000-0a-00-0"]
    assert sum("-0b-" in name for name in names) == 27
    (note,) = left_out_notes(inventory)
    assert note.endswith(": mig-0000-0a-00-0")


def test_a_badly_described_gpu_in_mig_mode_is_left_out_altogether() -> None:
    inventory = node(mig_gpu("0a", ODD["no memory"], enabled=True))
    assert published(inventory) == []
    assert set(left_out(inventory)) == {"gpu-0000-0a-00-0", "mig-0000-0a-00-0"}


def test_a_gpu_without_device_nodes_has_no_parts_either() -> None:
    inventory = node(mig_gpu("0a", minor=None))
    assert published(inventory) == []
    assert "no device node" in left_out(inventory)["gpu-0000-0a-00-0"]  # type: ignore[index]
    from_file = replace(inventory, source=InventorySource.NCCL_TOPOLOGY)
    assert len(published(from_file)) == 27


# The node as a whole.


def test_eight_h100s_in_every_way_take_less_than_100_kb() -> None:
    slices = resource_slices(dgx_h100())
    assert validate_slices(slices) == ()
    assert len(devices(slices)) == 8 * (1 + 1 + 25)
    size = sum(len(json.dumps(part.to_wire(), separators=(",", ":")).encode()) for part in slices)
    assert size < 100_000  # docs/design/layout.md quotes the figure


# What a policy publishes beyond that.


def extra(**names: str) -> GpuPolicies:
    """``uuid="model"``: gpu.nvidia.com/uuid has the value of model."""
    entries = [{"name": f"gpu.nvidia.com/{name}", "from": source} for name, source in names.items()]
    return policies({"extraAttributes": entries})


def published_by(rules: GpuPolicies, *found: Gpu) -> dict[str, Device]:
    slices = resource_slices(node(*found), policies=rules)
    assert validate_slices(slices) == ()
    return {device.name: device for device in devices(slices)}


def test_a_policy_publishes_attributes_by_the_names_of_another_driver() -> None:
    rules = extra(productName="model", uuid="uuid", version="driverVersion", link="nvlinkDomain")
    whole, ratio = published_by(
        rules, gpu("0a", uuid="GPU-1", model="NVIDIA L4", driver_version="580.159.03", memory_bytes=24 << 30)
    ).values()
    for device in (whole, ratio):
        assert value(device, "gpu.nvidia.com/productName") == value(device, "model") == "NVIDIA L4"
        assert value(device, "gpu.nvidia.com/uuid") == "GPU-1"
        assert device.attributes["gpu.nvidia.com/version"].version_value == "580.159.3"
        assert "gpu.nvidia.com/link" not in device.attributes  # nor is nvlinkDomain


def test_a_partition_publishes_what_all_of_its_gpu_have_in_common() -> None:
    rules = extra(productName="model", profile="profile", parentUUID="parentUUID", uuid="uuid", bus="parent", i="index")
    found = published_by(rules, mig_gpu("0a", uuid="GPU-1", model="H100"))
    partition = found["mig-0000-0a-00-0-1g-10gb-6"]
    of_nvidia = {name: value(partition, name) for name in partition.attributes if name.startswith("gpu.nvidia.com/")}
    assert of_nvidia == {
        "gpu.nvidia.com/productName": "H100",
        "gpu.nvidia.com/profile": "1g.10gb",
        "gpu.nvidia.com/parentUUID": "GPU-1",
        "gpu.nvidia.com/bus": "0000:0a:00.0",
    }
    assert "gpu.nvidia.com/parentUUID" not in found["gpu-0000-0a-00-0"].attributes


def test_partitions_name_their_gpu_only_where_a_policy_wants_it() -> None:
    name = "mig-0000-0a-00-0-1g-10gb-6"
    assert {"parent", "parentUUID"}.isdisjoint(published_by(policies(), mig_gpu("0a", uuid="GPU-1"))[name].attributes)
    rules = policies({"extraAttributes": [{"name": "rootport.dev/parent", "from": "parent"}]})
    assert value(published_by(rules, mig_gpu("0a", uuid="GPU-1"))[name], "parent") == "0000:0a:00.0"


def test_a_gpu_with_every_attribute_has_room_for_as_many_extra_ones_as_there_can_be() -> None:
    full = mig_gpu(
        "0a", pcie=PciePath(root="pci0000:00", switches=(address("f0"),), numa_node=0), uuid="GPU-1", model="H100",
        architecture="Hopper", driver_version="580.1.2", cuda_driver_version="13.0", cuda_compute_capability="9.0",
        links=(GpuLink(kind=LinkKind.NVLINK, peer=address("0b"), count=2),),
    )  # fmt: skip
    peers = [gpu(f"{bus:02x}", links=["0a"]) for bus in range(0x0B, 0x12)]
    entries = [{"name": f"a.b/c{number}", "from": "type"} for number in range(ExtraAttribute.MOST)]
    found = published_by(policies({"extraAttributes": entries, "maxShares": 4}), full, *peers)
    whole = found[full.name]
    assert len(whole.attributes) - ExtraAttribute.MOST == 19
    assert len(whole.attributes) + len(whole.capacity) <= 32


def test_a_slice_with_counters_has_at_most_64_devices_and_one_without_128() -> None:
    inventory = replace(node(nic("a0", vfs=200)), gpus=dgx_h100().gpus)
    slices = resource_slices(inventory, nic_policies=NAMED_VFS)
    assert validate_slices(slices) == ()
    assert [len(part.spec.devices) for part in slices] == [64, 128, 64, 64, 64, 32, 0]
    assert [len(part.spec.shared_counters) for part in slices] == [0] * 6 + [8]


def test_nodes_of_equal_hardware_share_devices_and_counters() -> None:
    inventory = dgx_h100()
    first = resource_slices(inventory.renamed("n0"))
    other = resource_slices(inventory.renamed("n1"))
    assert all(a.spec.devices is b.spec.devices for a, b in zip(first, other, strict=True))
    assert all(a.spec.shared_counters is b.spec.shared_counters for a, b in zip(first, other, strict=True))


def written(attributes: Mapping[str, Mapping[str, Value]]) -> dict[str, dict[str, Any]]:
    return {name: {key: value.to_wire() for key, value in values.items()} for name, values in attributes.items()}


def test_the_attributes_of_named_devices_are_those_that_are_published() -> None:
    inventory = replace(node(nic("a0", vfs=2, vendor="nvidia"), nic("a1"), gpu("a2")), gpus=dgx_h100().gpus)
    both = [*published(inventory), *published(inventory, nic_policies=NAMED_VFS)]
    of_policies = {"sharingStrategy"}
    everything = {
        device.name: {name: value for name, value in device.to_wire()["attributes"].items() if name not in of_policies}
        for device in both
    }
    assert {"rdma-vfs-0000-a0-00-0", "rdma-vf-0000-a0-01-0"} <= everything.keys()
    assert written(device_attributes(inventory, everything)) == everything
    assert written(device_attributes(inventory, ["gpu-0000-10-00-0", "no-such-device"])) == {
        "gpu-0000-10-00-0": everything["gpu-0000-10-00-0"]
    }
    assert device_attributes(inventory, []) == {}


def test_every_published_device_is_one_that_an_allocation_can_name() -> None:
    inventory = node(mig_gpu("01"), mig_gpu("02", A30, instance(5, 2, 2)), gpu("03"), nic("04", vfs=3), nic("05"))
    known = {device.name for device in allocatable_devices(inventory)}
    assert {device.name for device in published(inventory)} <= known
    assert {device.name for device in published(inventory, nic_policies=NAMED_VFS)} <= known


def test_a_gpu_in_mig_mode_of_which_nothing_is_known_is_left_out() -> None:
    inventory = node(gpu("0a", mig=MigSupport(enabled=True), memory_bytes=MIB))
    assert published(inventory) == []
    assert "MIG mode is on" in left_out(inventory)["gpu-0000-0a-00-0"]  # type: ignore[index]


def test_the_defaults_are_what_holds_without_policies() -> None:
    inventory = node(mig_gpu("0a"))
    assert resource_slices(inventory) == resource_slices(inventory, policies=DEFAULT_POLICIES)
    assert DEFAULT_POLICIES.of(model=None, node="x", address="0000:0a:00.0").memory.minimum == Quantity("1Mi")
