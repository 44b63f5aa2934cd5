"""What the published slices let the scheduler give of one NIC: shares and VFs never have more bandwidth than it has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.adapters.manifests.claims import read_manifest_text
from driver.allocator import Allocator
from driver.api.nic_policies import NicPolicies
from driver.api.resource_v1 import AllocationResult, Node, ObjectMeta
from driver.layout.slices import resource_slices
from driver.model.devices import RdmaPort
from resourceclasses import device_classes_text
from tests.support.class_claims import class_claim
from tests.support.machines import nic, node

CLASSES = [m.device_class for m in read_manifest_text(device_classes_text(), "device-classes.yaml").classes]
NODE = Node(metadata=ObjectMeta(name="node-a"))
GIGA = 10**9
VFS = 4


class Cluster:
    """One node with one NIC, and the scheduler's allocator over what it publishes."""

    def __init__(self, rule: dict[str, Any] | None = None, *, speed: int | None, vfs: int = 0) -> None:
        policies = NicPolicies.model_validate(
            {"apiVersion": "rootport.dev/v1alpha1", "kind": "NicPolicies", "policies": [rule or {}]}
        )
        ports = () if speed is None else (RdmaPort(speed_gbps=speed),)
        inventory = node(nic("0b", ports=ports, vfs=vfs))
        self.allocator = Allocator(resource_slices(inventory, nic_policies=policies), CLASSES)
        self.kind = "rdma-vf" if vfs else "rdma"

    def give(self, **wanted: Any) -> AllocationResult | None:
        results = self.allocator.allocate(NODE, [class_claim(self.kind, **wanted)])
        if results is None:
            return None
        self.allocator.commit(results)
        return results[0]


def amount(result: AllocationResult, name: str) -> int:
    return result.devices.results[0].consumed_capacity[name].ceil()


def test_a_nic_of_unknown_speed_is_given_to_exactly_100_percent() -> None:
    cluster = Cluster(speed=None)
    assert all(cluster.give(bandwidthRatio=part) for part in (50, 30, 20))
    assert cluster.give(bandwidthRatio=1) is None


def test_who_names_no_percent_has_the_nic_alone() -> None:
    cluster = Cluster(speed=None)
    assert cluster.give()
    assert cluster.give(bandwidthRatio=1) is None
    shared = Cluster(speed=None)
    assert shared.give(bandwidthRatio=1)
    assert shared.give() is None


@pytest.mark.parametrize("vfs", [0, VFS], ids=["NIC", "pool"])
@pytest.mark.parametrize(
    ("speed", "rule", "other"),
    [
        pytest.param(400, {}, "bandwidthRatio", id="bits per second"),
        pytest.param(None, {}, "bandwidth", id="unknown"),
        pytest.param(400, {"unit": "percent"}, "bandwidth", id="percent"),
    ],
)
def test_a_request_in_the_other_unit_does_not_fit(
    speed: int | None, rule: dict[str, Any], other: str, vfs: int
) -> None:
    assert Cluster(rule, speed=speed, vfs=vfs).give(**{other: 1}) is None


def test_vfs_that_reserve_nothing_share_what_others_leave_and_all_of_it_may_be_reserved() -> None:
    cluster = Cluster(speed=400, vfs=VFS)
    assert [amount(result, "bandwidth") for result in (cluster.give(), cluster.give()) if result] == [0, 0]
    assert cluster.give(bandwidth="400G")
    assert cluster.give(bandwidth="1G") is None
    assert cluster.give()
    assert cluster.give() is None  # no VF is left


def test_named_vfs_have_no_bandwidth_to_reserve() -> None:
    cluster = Cluster({"vfs": "named"}, speed=400, vfs=VFS)
    assert cluster.give(bandwidth="1G") is None
    assert cluster.give()


_STEPS = st.integers(1, 400)


@given(
    speed=st.one_of(st.none(), st.integers(1, 800)),
    vfs=st.sampled_from([0, 1, VFS]),
    unit=st.sampled_from(["bitsPerSecond", "percent"]),
    minimum=_STEPS,
    step=_STEPS,
    asked=st.lists(st.one_of(st.none(), st.integers(1, 800)), max_size=8),
    back=st.lists(st.integers(0, 7), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_no_sequence_of_claims_has_more_of_a_nic_than_there_is(
    speed: int | None,
    vfs: int,
    unit: str,
    minimum: int,
    step: int,
    asked: list[int | None],
    back: list[int],
) -> None:
    rule = {
        "unit": unit,
        "bandwidth": {"minimum": f"{minimum}G", "step": f"{step}G"},
        "bandwidthRatio": {"minimum": min(minimum, 100), "step": min(step, 100)},
    }
    cluster = Cluster(rule, speed=speed, vfs=vfs)
    is_ratio = speed is None or unit == "percent"
    name, total = ("bandwidthRatio", 100) if is_ratio else ("bandwidth", (speed or 0) * GIGA)
    held: list[AllocationResult] = []
    for index, part in enumerate(asked):
        wanted = {} if part is None else {name: min(part, 100) if is_ratio else f"{part}G"}
        result = cluster.give(**wanted)
        if result is not None:
            held.append(result)
            got = amount(result, name)
            assert got >= (0 if part is None else min(part, 100) if is_ratio else part * GIGA)
            if part is None:
                assert got == (0 if vfs else total)
        assert sum(amount(one, name) for one in held) <= total
        assert not vfs or len(held) <= vfs
        if index < len(back) and held:
            cluster.allocator.release([held.pop(back[index] % len(held))])
