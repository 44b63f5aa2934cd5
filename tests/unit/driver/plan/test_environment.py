"""The variables by which a container learns what its claim got."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import ResourceClaim
from driver.errors import NodeError
from driver.model.inventory import Inventory
from driver.plan import prepare_plan
from tests.support.plan.builders import claim, given, gpu, nic, node
from tests.support.plan.nics import any_vf, ethernet_vf, of_bandwidth, port

NODE = node(gpu(0), gpu(1), gpu(2, uuid=None), nic(0), nic(1), nic(2, rdma_device=None))
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"


def environment(of: ResourceClaim, *names: str, inventory: Inventory = NODE) -> dict[str, str]:
    """What a container sees that is given all CDI devices of the named requests (none named: all)."""
    plan = prepare_plan(of, inventory)
    assert plan.spec is not None
    seen: dict[str, str] = {}
    for prepared, device in zip(plan.devices, plan.spec.devices, strict=True):
        if not names or set(names) & set(prepared.request_names):
            seen.update(variable.split("=", 1) for variable in device.env)
    return {name: value for name, value in seen.items() if name.startswith("ROOTPORT_")}


def test_a_request_lists_its_devices_in_the_allocations_order() -> None:
    of = claim(given("gpus", "gpu-0000-11-00-0"), given("nics", "rdma-0000-41-00-0"), given("gpus", "gpu-0000-10-00-0"))
    assert environment(of) == {
        "ROOTPORT_TRAIN__GPUS_PCI": "0000:11:00.0,0000:10:00.0",
        "ROOTPORT_TRAIN__GPUS_UUID": "GPU-00000001,GPU-00000000",
        "ROOTPORT_TRAIN__GPUS_CORE": "100,100",
        "ROOTPORT_TRAIN__NICS_PCI": "0000:41:00.0",
        "ROOTPORT_TRAIN__NICS_RDMA": "mlx5_1",
    }


def test_a_share_of_a_nic_is_told_by_its_bandwidth() -> None:
    fast = node(nic(0, ports=(port(),)), nic(1, ports=(port(),)))
    half = claim(of_bandwidth("200G", "nics"), given("nics", "rdma-0000-41-00-0"))
    assert environment(half, inventory=fast)["ROOTPORT_TRAIN__NICS_BANDWIDTH"] == "200000000000,400000000000"


def test_bandwidths_that_not_all_nics_of_a_request_have_are_left_out() -> None:
    mixed = node(nic(0, ports=(port(),)), nic(1))
    of = claim(given("nics", "rdma-0000-40-00-0"), given("nics", "rdma-0000-41-00-0"))
    assert "ROOTPORT_TRAIN__NICS_BANDWIDTH" not in environment(of, inventory=mixed)
    vfs = node(nic(0, vfs=(ethernet_vf(0),), ports=(port(),)))
    assert "ROOTPORT_TRAIN__NIC_BANDWIDTH" not in environment(claim(any_vf()), inventory=vfs)


@pytest.mark.parametrize("name", ["web-0-extended-resources-x7k2p", "web-1-extended-resources-9vlqz"])
def test_the_schedulers_claim_for_extended_resources_has_the_same_variables_in_every_pod(name: str) -> None:
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    of = claim(given("container-0-request-1", "rdma-0000-42-00-0"), name=name, annotations=annotations)
    assert set(environment(of)) == {"ROOTPORT_EXTENDED_RESOURCES__CONTAINER_0_REQUEST_1_PCI"}


def test_a_container_that_names_one_request_learns_of_no_other() -> None:
    of = claim(given("gpus", "gpu-0000-11-00-0"), given("nics", "rdma-0000-41-00-0"))
    assert set(environment(of, "nics")) == {"ROOTPORT_TRAIN__NICS_PCI", "ROOTPORT_TRAIN__NICS_RDMA"}


def test_a_fact_that_the_node_does_not_tell_is_left_out() -> None:
    of = claim(given("gpu", "gpu-0000-12-00-0"), given("nic", "rdma-0000-42-00-0"))
    assert set(environment(of)) == {
        "ROOTPORT_TRAIN__GPU_PCI",
        "ROOTPORT_TRAIN__GPU_CORE",
        "ROOTPORT_TRAIN__NIC_PCI",
    }


@pytest.mark.parametrize(
    ("name", "annotations", "expected"),
    [
        ("train", {}, "ROOTPORT_TRAIN__NIC_PCI"),
        ("train-0-gpus-x7k2p", {POD_CLAIM: "gpus"}, "ROOTPORT_GPUS__NIC_PCI"),
        ("a.b-c", {}, "ROOTPORT_A_B_C__NIC_PCI"),
        ("train", {POD_CLAIM: "../../etc"}, "ROOTPORT_TRAIN__NIC_PCI"),
        ("train", {POD_CLAIM: "x=y\nLD_PRELOAD=/evil"}, "ROOTPORT_TRAIN__NIC_PCI"),
        ("train", {POD_CLAIM: "x" * 10_000}, "ROOTPORT_TRAIN__NIC_PCI"),
    ],
    ids=["own-name", "name-in-the-pod", "dots", "path", "injection", "long"],
)
def test_a_variable_is_named_after_the_claim_as_the_pod_calls_it(
    name: str, annotations: dict[str, str], expected: str
) -> None:
    of = claim(given("nic", "rdma-0000-42-00-0"), name=name, annotations=annotations)
    assert set(environment(of)) == {expected}


def test_claim_and_request_cannot_be_taken_for_each_other() -> None:
    one = claim(given("b-c", "gpu-0000-12-00-0"), name="a")
    other = claim(given("c", "gpu-0000-12-00-0"), name="a-b")
    assert set(environment(one)).isdisjoint(environment(other))


def test_a_choice_of_a_prioritized_list_goes_by_its_base_request() -> None:
    assert set(environment(claim(given("nic/large", "rdma-0000-42-00-0")))) == {"ROOTPORT_TRAIN__NIC_PCI"}


@pytest.mark.parametrize(
    "name", ["mlx5_0\nLD_PRELOAD=/evil", "a,b", "", "x" * 200], ids=["line", "comma", "empty", "long"]
)
def test_a_name_that_could_break_the_list_never_gets_into_it(name: str) -> None:
    of = claim(given("nic", "rdma-0000-40-00-0"))
    if not name:
        plan = prepare_plan(of, node(nic(0, rdma_device=name)))
        assert plan.spec is not None
        assert not any("_RDMA=" in variable for variable in plan.spec.devices[0].env)
        return
    with pytest.raises(NodeError, match=r"request nic: .* is not the name of an? (?:RDMA )?device") as caught:
        prepare_plan(of, node(nic(0, rdma_device=name)))
    assert "\n" not in str(caught.value)
