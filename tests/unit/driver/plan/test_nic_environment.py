"""The variables by which NCCL, UCX and NVSHMEM are told the NICs of a claim."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import ResourceClaim
from driver.errors import NodeError
from driver.model.devices import RdmaPort
from driver.model.inventory import Inventory
from driver.plan import prepare_plan
from tests.support.plan.builders import claim, config, given, gpu, nic, node, parameters
from tests.support.plan.nics import VFS, any_vf, ethernet_vf, port

NODE = node(gpu(0), *(nic(index) for index in range(4)))
NAMES = ("NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST")


def seen(of: ResourceClaim, *requests: str, inventory: Inventory = NODE) -> dict[str, str]:
    """What a container sees that names the requests (none: the whole claim); the runtime keeps the last value."""
    plan = prepare_plan(of, inventory)
    assert plan.spec is not None
    variables: dict[str, str] = {}
    for prepared, device in zip(plan.devices, plan.spec.devices, strict=True):
        if not requests or set(requests) & set(prepared.request_names):
            variables.update(variable.split("=", 1) for variable in device.env)
    return {name: value for name, value in variables.items() if name in NAMES}


def test_a_container_is_told_exactly_its_nics_in_the_order_of_the_claim() -> None:
    of = claim(given("nics", "rdma-0000-43-00-0"), given("nics", "rdma-0000-40-00-0"))
    assert seen(of) == {
        "NCCL_IB_HCA": "=mlx5_3,mlx5_0",
        "UCX_NET_DEVICES": "mlx5_3:1,mlx5_0:1",
        "NVSHMEM_HCA_LIST": "mlx5_3:1,mlx5_0:1",
    }


def test_who_takes_the_whole_claim_has_the_nics_of_all_requests() -> None:
    of = claim(given("a", "rdma-0000-42-00-0"), given("b", "rdma-0000-40-00-0"), given("gpu", "gpu-0000-10-00-0"))
    assert seen(of)["NCCL_IB_HCA"] == "=mlx5_2,mlx5_0"
    assert seen(of, "a")["NCCL_IB_HCA"] == "=mlx5_2"
    assert seen(of, "gpu") == {}


def test_requests_that_are_allocated_in_turns_make_a_whole_list_too() -> None:
    of = claim(given("a", "rdma-0000-42-00-0"), given("b", "rdma-0000-40-00-0"), given("a", "rdma-0000-41-00-0"))
    assert set(seen(of)["NCCL_IB_HCA"].removeprefix("=").split(",")) == {"mlx5_2", "mlx5_0", "mlx5_1"}
    assert seen(of, "a")["UCX_NET_DEVICES"].split(",")[-2:] == ["mlx5_2:1", "mlx5_1:1"]


def test_a_vf_of_a_pool_is_told_by_its_own_name() -> None:
    inventory = node(nic(0, vfs=(ethernet_vf(0), ethernet_vf(1))))
    assert seen(claim(any_vf("n", 0), any_vf("n", 1)), inventory=inventory)["NCCL_IB_HCA"] == "=mlx5_10,mlx5_11"
    assert seen(claim(given("n", VFS[1])), inventory=inventory)["NCCL_IB_HCA"] == "=mlx5_11"


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ((), "mlx5_0:1"),
        ((RdmaPort(number=1, state="down"), RdmaPort(number=2, state="active")), "mlx5_0:2"),
        ((RdmaPort(number=1, state="active"), RdmaPort(number=2, state="active")), "mlx5_0:1,mlx5_0:2"),
        ((RdmaPort(number=2),), "mlx5_0:2"),
    ],
    ids=["unknown", "second-port", "both", "no-state"],
)
def test_ports_that_are_active_are_named(ports: tuple[RdmaPort, ...], expected: str) -> None:
    told = seen(claim(given("n", "rdma-0000-40-00-0")), inventory=node(nic(0, ports=ports)))
    assert told["UCX_NET_DEVICES"] == told["NVSHMEM_HCA_LIST"] == expected


def test_efa_is_no_infiniband() -> None:
    inventory = node(nic(0, vendor="amazon", vfs=(ethernet_vf(0),)), nic(1, vendor="amazon"))
    for of in (claim(given("n", "rdma-0000-41-00-0")), claim(given("n", VFS[0])), claim(any_vf())):
        assert seen(of, inventory=inventory) == {}


def test_a_claim_may_keep_to_its_own_variables() -> None:
    off = config(parameters("RdmaConfig", environment=False), "a")
    of = claim(given("a", "rdma-0000-42-00-0"), given("b", "rdma-0000-40-00-0"), configs=(off,))
    assert seen(of)["NCCL_IB_HCA"] == "=mlx5_0"
    assert seen(of, "a") == {}


def test_what_is_watched_over_is_not_told_to_libraries() -> None:
    assert seen(claim(given("watch", "rdma-0000-40-00-0", adminAccess=True))) == {}


def test_a_nic_without_a_name_is_left_out() -> None:
    inventory = node(nic(0, rdma_device=None), nic(1, ports=(port(),)))
    of = claim(given("n", "rdma-0000-40-00-0"), given("n", "rdma-0000-41-00-0"))
    assert seen(of, inventory=inventory)["NCCL_IB_HCA"] == "=mlx5_1"


@pytest.mark.parametrize("name", ["mlx5_0\nLD_PRELOAD=/evil", "a,b", "mlx5:1", "x" * 65, "^mlx5"])
def test_a_name_that_could_break_the_lists_never_gets_into_them(name: str) -> None:
    with pytest.raises(NodeError, match=r"is not the name of an? (?:RDMA )?device"):
        prepare_plan(claim(given("n", "rdma-0000-40-00-0")), node(nic(0, rdma_device=name)))
