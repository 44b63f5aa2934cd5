"""What the published slices let the scheduler do: shares fill a GPU and no more, and its modes exclude each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from driver.adapters.files.policies_file import read_policies
from driver.adapters.manifests.claims import read_manifest_text
from driver.allocator import Allocator
from driver.api.gpu_policies import GpuPolicies
from driver.api.resource_v1 import AllocationResult, Node, ObjectMeta
from driver.layout.slices import resource_slices
from driver.model.devices import Gpu
from driver.model.inventory import Inventory
from driver.model.parts import GpuRatio, MigPartition, allocatable_devices
from driver.modes.free_node import free_node
from driver.modes.rule import Layout
from resourceclasses import device_classes_text
from tests.support.class_claims import class_claim
from tests.support.machines import gpu, node
from tests.support.mig_machines import A30, A100, H100, MIB, instance, mig_gpu
from tests.support.paths import REPO
from tests.support.slice_validation import validate_slices

CLASSES = [m.device_class for m in read_manifest_text(device_classes_text(), "device-classes.yaml").classes]
NODE = Node(metadata=ObjectMeta(name="node-a"))
CARD = 80 << 30


class Cluster:
    """One node, and the scheduler's allocator over what it publishes."""

    def __init__(self, inventory: Inventory, *rules: dict[str, Any]) -> None:
        policies = GpuPolicies.model_validate(
            {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": rules}
        )
        self.slices = resource_slices(inventory, policies=policies)
        self.allocator = Allocator(self.slices, CLASSES)

    def give(self, kind: str, **wanted: Any) -> AllocationResult | None:
        results = self.allocator.allocate(NODE, [class_claim(kind, **wanted)])
        if results is None:
            return None
        self.allocator.commit(results)
        return results[0]

    def take_back(self, result: AllocationResult) -> None:
        self.allocator.release([result])


def device(result: AllocationResult | None) -> str:
    assert result is not None
    return result.devices.results[0].device


def consumed(result: AllocationResult | None) -> dict[str, str]:
    assert result is not None
    return {name: str(amount) for name, amount in result.devices.results[0].consumed_capacity.items()}


@pytest.fixture
def one_gpu() -> Cluster:
    return Cluster(node(mig_gpu("0a", memory_bytes=CARD)))


@pytest.mark.parametrize("kind", ["gpu", "gpu-ratio"])
def test_shares_fill_a_gpu_to_exactly_100_percent(one_gpu: Cluster, kind: str) -> None:
    memory = "memory" if kind == "gpu" else "memoryRatio"
    amounts = [(33, "20Gi", 25), (33, "20Gi", 25), (34, "40Gi", 50)]
    given = [one_gpu.give(kind, core=core, **{memory: b if kind == "gpu" else p}) for core, b, p in amounts]
    assert {device(result) for result in given} == {f"{kind}-0000-0a-00-0"}
    assert all(result is not None and result.devices.results[0].share_id for result in given)
    assert one_gpu.give(kind, core=1, **{memory: 1}) is None
    assert one_gpu.give(kind) is None


def test_bytes_are_never_oversold_though_core_is_left(one_gpu: Cluster) -> None:
    assert one_gpu.give("gpu", core=10, memory="79Gi")
    assert one_gpu.give("gpu", core=10, memory="2Gi") is None
    assert one_gpu.give("gpu", core=10, memory="1Gi")


def test_a_claim_without_amounts_takes_the_whole_gpu_and_waits_for_shares_to_end(one_gpu: Cluster) -> None:
    share = one_gpu.give("gpu", core=1, memory=1)
    assert consumed(share) == {"core": "1", "memory": "1Mi"}
    assert one_gpu.give("gpu") is None
    assert share is not None
    one_gpu.take_back(share)
    assert consumed(one_gpu.give("gpu")) == {"core": "0", "memory": "80Gi"}


@pytest.mark.parametrize(("kind", "memory"), [("gpu", {"memory": "8Gi"}), ("gpu-ratio", {"memoryRatio": 10})])
def test_a_claim_for_memory_alone_is_a_share_that_reserves_no_core(
    one_gpu: Cluster, kind: str, memory: dict[str, Any]
) -> None:
    shares = [one_gpu.give(kind, **memory) for _ in range(10)]
    assert [consumed(share)["core"] for share in shares] == ["0"] * 10
    assert one_gpu.give(kind, **memory) is None


def test_core_that_nobody_reserved_is_for_whoever_reserves_it(one_gpu: Cluster) -> None:
    assert one_gpu.give("gpu", memory="20Gi")
    assert one_gpu.give("gpu", core=100, memory="20Gi")
    assert one_gpu.give("gpu", core=1, memory="20Gi") is None
    assert one_gpu.give("gpu", memory="20Gi")


def test_core_alone_takes_all_of_the_memory(one_gpu: Cluster) -> None:
    assert consumed(one_gpu.give("gpu", core=10)) == {"core": "10", "memory": "80Gi"}
    assert one_gpu.give("gpu", core=10, memory=1) is None


def test_core_is_promised_up_to_the_administrators_total() -> None:
    cluster = Cluster(node(gpu("0a", memory_bytes=CARD)), {"core": {"total": 200, "default": 30}})
    assert cluster.give("gpu", core=101, memory="1Gi") is None
    assert consumed(cluster.give("gpu", memory="1Gi"))["core"] == "30"
    assert all(cluster.give("gpu", core=85, memory="1Gi") for _ in range(2))
    assert cluster.give("gpu", core=1, memory="1Gi") is None


@pytest.mark.parametrize(("asked", "given"), [("1", "20"), ("20", "20"), ("21", "40"), ("99", "100")])
def test_amounts_are_rounded_up_to_the_administrators_steps(asked: str, given: str) -> None:
    cluster = Cluster(node(gpu("0a", memory_bytes=CARD)), {"core": {"minimum": 20, "step": 20}})
    assert consumed(cluster.give("gpu", core=asked, memory="1Gi"))["core"] == given


def test_there_are_as_many_shares_as_the_administrator_allows() -> None:
    cluster = Cluster(node(gpu("0a", memory_bytes=CARD)), {"maxShares": 3})
    shares = [cluster.give("gpu", core=1, memory=1) for _ in range(3)]
    assert all(shares)
    assert cluster.give("gpu", core=1, memory=1) is None
    assert consumed(shares[0])["shares"] == "1"


MODES: list[tuple[str, dict[str, Any]]] = [
    ("gpu", {}),
    ("gpu", {"core": 10, "memory": "1Gi"}),
    ("gpu-ratio", {"core": 10, "memoryRatio": 10}),
    ("mig", {"profile": "1g.10gb"}),
    ("mig", {"profile": "7g.80gb"}),
]


@pytest.mark.parametrize("first", MODES, ids=str)
@pytest.mark.parametrize("second", MODES, ids=str)
def test_each_mode_of_a_gpu_excludes_the_others(
    one_gpu: Cluster, first: tuple[str, dict[str, Any]], second: tuple[str, dict[str, Any]]
) -> None:
    held = one_gpu.give(first[0], **first[1])
    assert held is not None
    together = first == second and first not in (MODES[0], MODES[4])
    assert (one_gpu.give(second[0], **second[1]) is not None) == together
    one_gpu.take_back(held)
    if not together:
        assert one_gpu.give(second[0], **second[1])


def test_partitions_fill_a_gpu_as_nvidia_says(one_gpu: Cluster) -> None:
    assert [device(one_gpu.give("mig", profile="1g.10gb"))[-1] for _ in range(7)] == list("6450123")
    assert one_gpu.give("mig", profile="1g.10gb") is None
    assert one_gpu.give("mig") is None


def test_only_one_partition_has_the_media_engines(one_gpu: Cluster) -> None:
    assert one_gpu.give("mig", profile="1g.10gb+me")
    assert one_gpu.give("mig", profile="1g.10gb+me") is None
    assert one_gpu.give("mig", profile="1g.10gb")


def test_small_partitions_leave_a_half_free(one_gpu: Cluster) -> None:
    for profile in ("1g.10gb", "1g.20gb"):
        assert one_gpu.give("mig", profile=profile)
    assert device(one_gpu.give("mig", profile="4g.40gb")).endswith("-4g-40gb-0")


def test_partitions_stay_on_one_gpu_and_leave_the_other_whole() -> None:
    cluster = Cluster(node(mig_gpu("0a"), mig_gpu("0b")))
    assert {device(cluster.give("mig"))[9:11] for _ in range(7)} == {"0a"}
    assert device(cluster.give("gpu")) == "gpu-0000-0b-00-0"


def test_gpus_of_a_node_do_not_disturb_each_other() -> None:
    cluster = Cluster(node(mig_gpu("0a"), mig_gpu("0b"), gpu("0c", memory_bytes=CARD)))
    given = [cluster.give("gpu"), cluster.give("gpu-ratio"), cluster.give("mig"), cluster.give("gpu")]
    assert {device(result).split("-00-0")[0][-2:] for result in given if result} == {"0a", "0b", "0c"}
    assert given[3] is None


PROFILES = [profile.name for profile in (*H100, *A100, *A30)]
MACHINE = node(
    mig_gpu("0a"), mig_gpu("0b", A100, memory_bytes=40960 * MIB), mig_gpu("0c", A30, memory_bytes=24 << 30),
    gpu("0d", memory_bytes=(24 << 30) + 12345), gpu("0e"),
)  # fmt: skip
PARTS = {device.name: device for device in allocatable_devices(MACHINE)}


class Sequences(RuleBasedStateMachine):
    """Claims of all kinds come and go; after each step nothing is sold twice."""

    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(MACHINE)
        self.given: list[AllocationResult] = []

    def _keep(self, result: AllocationResult | None) -> AllocationResult | None:
        if result is not None:
            self.given.append(result)
        return result

    @rule(target=held, core=st.integers(1, 101), mib=st.integers(1, 90000))
    def share(self, core: int, mib: int) -> AllocationResult | None:
        return self._keep(self.cluster.give("gpu", core=core, memory=f"{mib}Mi"))

    @rule(target=held, core=st.integers(1, 101), ratio=st.integers(1, 101))
    def ratio(self, core: int, ratio: int) -> AllocationResult | None:
        return self._keep(self.cluster.give("gpu-ratio", core=core, memoryRatio=ratio))

    @rule(target=held, profile=st.sampled_from(PROFILES))
    def partition(self, profile: str) -> AllocationResult | None:
        return self._keep(self.cluster.give("mig", profile=profile))

    @rule(target=held, kind=st.sampled_from(["gpu", "gpu-ratio", "mig"]))
    def whole(self, kind: str) -> AllocationResult | None:
        return self._keep(self.cluster.give(kind))

    @rule(result=consumes(held))
    def back(self, result: AllocationResult | None) -> None:
        if result is not None:
            self.given.remove(result)
            self.cluster.take_back(result)

    @invariant()
    def nothing_is_sold_twice(self) -> None:
        assert_nothing_is_sold_twice(self.given)


def assert_nothing_is_sold_twice(given: Iterable[AllocationResult]) -> None:
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    core: defaultdict[str, int] = defaultdict(int)
    memory: defaultdict[str, int] = defaultdict(int)
    slices: defaultdict[str, list[int]] = defaultdict(list)
    profiles: defaultdict[str, list[str]] = defaultdict(list)
    gpus = {}
    for result in given:
        (item,) = result.devices.results
        part = PARTS[item.device]
        owner = part.gpu if isinstance(part, GpuRatio | MigPartition) else part
        gpus[owner.name] = owner
        kinds[owner.name].add(part.type)
        amounts = {name: amount.ceil() for name, amount in item.consumed_capacity.items()}
        if isinstance(part, MigPartition):
            slices[owner.name].extend(range(part.placement.start, part.placement.start + part.placement.size))
            profiles[owner.name].append(part.profile.name)
            memory[owner.name] += part.profile.memory_bytes
            continue
        core[owner.name] += amounts["core"]
        if "memoryRatio" in amounts:
            memory[owner.name] += owner.memory_bytes * amounts["memoryRatio"] // 100
        else:
            memory[owner.name] += amounts.get("memory", 0)
    for name, owner in gpus.items():
        assert len(kinds[name]) == 1
        assert core[name] <= 100
        assert memory[name] <= (owner.memory_bytes or 0)
        assert len(set(slices[name])) == len(slices[name])
        if owner.mig is not None:
            for profile in owner.mig.profiles:
                assert profiles[name].count(profile.name) <= profile.max_instances


Sequences.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_random_sequences_never_oversell = Sequences.TestCase


def test_the_example_that_promises_core_twice_gives_four_halves_of_a_gpu() -> None:
    policies = read_policies(REPO / "examples" / "policies" / "core-promised-twice.yaml", GpuPolicies)
    cluster = Cluster(node(gpu("0a", memory_bytes=CARD)), *(rule.to_wire() for rule in policies.policies))
    assert all(cluster.give("gpu", core=50, memory="15Gi") for _ in range(4))
    assert cluster.give("gpu", memory="1Gi") is None


SIZES = st.integers(1, 90 << 30)


@st.composite
def any_policy(draw: st.DrawFn) -> dict[str, Any]:
    step = draw(st.sampled_from([1, 2, 5, 10, 25, 50]))
    minimum = draw(st.sampled_from([item for item in range(1, 101) if (100 - item) % step == 0]))
    allowed = [*range(minimum, 101, step), *([0] if minimum == step else [])]
    ratio = draw(st.sampled_from([(1, 1), (10, 30), (20, 20), (100, 1)]))
    return {
        "core": {
            "minimum": minimum,
            "step": step,
            "default": draw(st.none() | st.sampled_from(allowed)),
            "total": draw(st.sampled_from([100, 101, 250, 10000])),
        },
        "memory": {"minimum": str(draw(SIZES)), "step": str(draw(SIZES))},
        "memoryRatio": {"minimum": ratio[0], "step": ratio[1]},
    }


@st.composite
def any_wish(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = draw(st.sampled_from(["gpu", "gpu-ratio"]))
    memory = {"memory": draw(SIZES)} if kind == "gpu" else {"memoryRatio": draw(st.integers(1, 100))}
    core = {"core": draw(st.integers(1, 100))}
    return kind, draw(st.sampled_from([{}, core, memory, core | memory]))


@settings(deadline=None)
@given(
    policy=any_policy(),
    card=st.none() | st.integers(1, 80 << 30),
    wishes=st.lists(any_wish(), min_size=1, max_size=12),
)
def test_under_any_policy_memory_is_never_oversold_and_who_asks_for_none_is_alone(
    policy: dict[str, Any], card: int | None, wishes: list[tuple[str, dict[str, Any]]]
) -> None:
    cluster = Cluster(node(gpu("0a", memory_bytes=card)), policy)
    assert validate_slices(tuple(cluster.slices)) == ()
    given_now = [(wish, result) for kind, wish in wishes if (result := cluster.give(kind, **wish)) is not None]
    amounts = [result.devices.results[0].consumed_capacity for _, result in given_now]
    assert sum(each["core"].ceil() for each in amounts) <= (policy["core"]["total"] if card else 100)
    assert sum(each["memory"].ceil() for each in amounts if "memory" in each) <= (card or 0)
    assert sum(each["memoryRatio"].ceil() for each in amounts if "memoryRatio" in each) <= 100
    for wish, _ in given_now:
        if not wish or (card and not wish.keys() & {"memory", "memoryRatio"}):
            assert len(given_now) == 1


@pytest.mark.parametrize(
    ("machine", "rules", "names"),
    [
        pytest.param(mig_gpu("10"), {}, ["gpu-0000-10-00-0"], id="whole first"),
        pytest.param(mig_gpu("10"), {"modes": ["gpu-ratio", "mig"]}, ["gpu-ratio-0000-10-00-0"], id="percent first"),
        pytest.param(
            mig_gpu("10"),
            {"modes": ["mig"]},
            [f"mig-0000-10-00-0-1g-10gb-{start}" for start in (6, 4, 5, 0, 1, 2, 3)],
            id="partitions that fit together",
        ),
        pytest.param(
            mig_gpu("10", H100, instance(9, 0, 4)), {}, ["mig-0000-10-00-0-3g-40gb-0"], id="a static layout needs none"
        ),
        pytest.param(gpu("10", memory_bytes=CARD), {}, ["gpu-0000-10-00-0"], id="without mig"),
    ],
)
def test_where_the_api_server_keeps_no_counters_a_gpu_is_published_in_one_mode(
    machine: Gpu, rules: dict[str, Any], names: list[str]
) -> None:
    policies = GpuPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [rules]}
    )
    only = free_node(Layout.ONE, node(machine), policies)
    (one,) = resource_slices(node(machine), policies=policies, only=only, has_counters=False)
    assert [device.name for device in one.spec.devices] == names
    assert not any(device.consumes_counters for device in one.spec.devices)
