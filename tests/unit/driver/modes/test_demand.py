from __future__ import annotations

from dataclasses import replace

import pytest

from driver.api.gpu_policies import GpuPolicies
from driver.explain.known.cluster import Kind
from driver.layout.conflicts import gpu_modes
from driver.modes.rule import Layout
from tests.support.demand_world import Json, World, gpu_request, mig_request, names, ratio_request

SEVEN = tuple(f"1g-10gb-{place}" for place in range(7))


def policies(*modes: str) -> GpuPolicies:
    wire = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [{"modes": list(modes)}]}
    return GpuPolicies.model_validate(wire)


@pytest.mark.parametrize(
    ("published", "request_", "wished"),
    [
        pytest.param(("gpu",), mig_request("1g.10gb"), SEVEN, id="whole to mig"),
        pytest.param(("gpu",), ratio_request(percent=30), ("gpu-ratio",), id="whole to percent"),
        pytest.param(("gpu-ratio",), gpu_request(), ("gpu",), id="percent to whole"),
        pytest.param(("gpu-ratio",), gpu_request(core=20), ("gpu",), id="percent to a share by core"),
        pytest.param(("gpu-ratio",), mig_request("3g.40gb"), ("3g-40gb-0", "3g-40gb-4"), id="percent to mig"),
        pytest.param(SEVEN, gpu_request(), ("gpu",), id="mig to whole"),
        pytest.param(SEVEN, ratio_request(percent=100), ("gpu-ratio",), id="mig to percent"),
        pytest.param(SEVEN, mig_request("7g.80gb"), ("7g-80gb-0",), id="other partitions"),
    ],
)
def test_a_free_gpu_is_wished_in_the_mode_that_a_claim_needs(
    published: tuple[str, ...], request_: Json, wished: tuple[str, ...]
):
    world = World(gpus=1)
    world.publish("n1", 0, *published)
    world.wait("p", request_)
    gpu = world.gpu("n1", 0)
    wishes, own = world.wishes("p")
    assert wishes == {"n1": {gpu.name: names(gpu, *wished)}}
    assert own["p"].node == "n1"
    assert not own["p"].is_open


@pytest.mark.parametrize("request_", [gpu_request(), gpu_request(core=50), gpu_request(count=2)])
def test_what_fits_with_what_is_published_needs_no_wish(request_: Json):
    world = World()
    world.wait("p", request_)
    assert world.wishes("p") == ({}, {})
    assert world.laid_out == []


def test_a_closed_device_does_not_count_as_published():
    world = World(gpus=1)
    world.publish("n1", 0, "gpu", closed=["gpu"])
    world.wait("p", gpu_request())
    gpu = world.gpu("n1", 0)
    assert world.wishes("p")[0] == {"n1": {gpu.name: names(gpu, "gpu")}}


def test_a_gpu_in_use_is_left_alone():
    world = World(gpus=1)
    world.hold("other", "n1", 0, "gpu", percent=10)
    world.wait("p", mig_request("1g.10gb"))
    assert world.wishes("p") == ({}, {})


def test_a_claim_that_nothing_could_serve_has_no_wish():
    world = World()
    world.wait("p", mig_request("9g.999gb"))
    world.wait("many", gpu_request(count=3))
    assert world.wishes("p", "many") == ({}, {})


def test_the_last_free_gpu_changes():
    world = World(gpus=3)
    world.wait("p", mig_request("1g.10gb"))
    assert list(world.wishes("p")[0]["n1"]) == [world.gpu("n1", 2).name]


def test_seven_claims_share_one_gpu_and_the_eighth_has_another():
    world = World(gpus=3)
    pods = [f"p{number}" for number in range(8)]
    for pod in pods:
        world.wait(pod, mig_request("1g.10gb"))
    wishes, own = world.wishes(*pods)
    last, next_ = world.gpu("n1", 2), world.gpu("n1", 1)
    assert wishes == {"n1": {last.name: names(last, *SEVEN), next_.name: names(next_, *SEVEN)}}
    assert len(own) == 8


def test_claims_for_different_partitions_share_a_gpu():
    world = World()
    world.wait("three", mig_request("3g.40gb"))
    world.wait("four", mig_request("4g.40gb"))
    gpu = world.gpu("n1", 1)
    assert world.wishes("three", "four")[0] == {"n1": {gpu.name: names(gpu, "3g-40gb-4", "4g-40gb-0")}}


def test_one_claim_for_different_partitions_has_them_on_one_gpu():
    world = World()
    world.wait("p", mig_request("3g.40gb", "a"), mig_request("2g.20gb", "b"), mig_request("1g.10gb", "c"))
    gpu = world.gpu("n1", 1)
    wishes, _ = world.wishes("p")
    assert list(wishes["n1"]) == [gpu.name]
    profiles = sorted(
        name.rpartition("-")[0].removeprefix(gpu.name.replace("gpu", "mig") + "-") for name in wishes["n1"][gpu.name]
    )
    assert {"1g-10gb", "2g-20gb", "3g-40gb"} <= set(profiles)


def test_what_a_set_publishes_can_all_be_in_use_at_once():
    world = World(gpus=1)
    world.wait("p", mig_request("1g.20gb"))
    world.wait("q", mig_request("1g.10gb+me"))
    gpu = world.gpu("n1", 0)
    (wished,) = world.wishes("p", "q")[0]["n1"].values()
    assert gpu_modes(gpu, world.policies.of(model=gpu.model, node="n1", address=gpu.address)).fit(wished)


def test_several_shares_go_to_one_gpu_until_it_is_full():
    world = World(gpus=3)
    for pod in ("a", "b", "c"):
        world.wait(pod, ratio_request(percent=40))
    wishes, _ = world.wishes("a", "b", "c")
    assert list(wishes["n1"]) == [world.gpu("n1", 2).name, world.gpu("n1", 1).name]


def test_a_claim_for_several_gpus_changes_only_those_that_are_missing():
    world = World(gpus=4)
    world.publish("n1", 3, "gpu-ratio")
    world.publish("n1", 1, *SEVEN)
    world.wait("p", gpu_request(count=4))
    wishes, _ = world.wishes("p")
    assert wishes == {"n1": {world.gpu("n1", index).name: names(world.gpu("n1", index), "gpu") for index in (1, 3)}}


def test_partitions_beside_those_in_use_change_before_another_gpu():
    world = World()
    world.publish("n1", 0, *SEVEN)
    world.hold("other", "n1", 0, "1g-10gb-0")
    world.wait("p", mig_request("3g.40gb"))
    gpu = world.gpu("n1", 0)
    assert world.wishes("p")[0] == {"n1": {gpu.name: names(gpu, "3g-40gb-4")}}


def test_a_partition_that_an_earlier_pod_counts_on_stays_beside_a_later_pods():
    world = World(gpus=2)
    world.publish("n1", 0, "gpu")
    world.publish("n1", 1, *SEVEN)
    world.wait("a", ratio_request(percent=10), mig_request("1g.10gb"))
    world.wait("b", mig_request("4g.40gb"))
    first, second = world.gpu("n1", 0), world.gpu("n1", 1)
    wishes, _ = world.wishes("a", "b")
    assert wishes["n1"][first.name] == names(first, "gpu-ratio")
    wished = wishes["n1"][second.name]
    assert names(second, "4g-40gb-0") < wished
    assert any("-1g-10gb-" in name for name in wished)


def test_a_gpu_on_the_way_to_the_mode_comes_before_one_that_is_not():
    world = World()
    world.publish("n1", 0, "gpu", closed=["gpu"])
    world.wait("p", mig_request("1g.10gb"))
    assert list(world.wishes("p")[0]["n1"]) == [world.gpu("n1", 0).name]


def test_nodes_with_the_fewest_free_gpus_come_first():
    world = World(nodes=3, gpus=3)
    world.hold("other", "n2", 0, "gpu")
    world.hold("another", "n2", 1, "gpu")
    world.wait("p", mig_request("1g.10gb"))
    assert list(world.wishes("p")[0]) == ["n2"]


def test_the_node_where_fewest_gpus_change_is_chosen():
    world = World(nodes=2, gpus=4)
    for index in (0, 1):
        world.publish("n1", index, *SEVEN)
    world.publish("n2", 0, *SEVEN)
    world.wait("p", gpu_request(count=4))
    assert list(world.wishes("p")[0]) == ["n2"]


def test_two_pods_do_not_count_on_the_same_published_device():
    world = World(gpus=2)
    world.publish("n1", 0, "gpu-ratio")
    world.wait("first", gpu_request())
    world.wait("second", gpu_request())
    wishes, own = world.wishes("first", "second")
    assert list(own) == ["second"]
    assert wishes == {"n1": {world.gpu("n1", 0).name: names(world.gpu("n1", 0), "gpu")}}


def test_the_first_pod_has_the_only_free_gpu_and_the_other_waits():
    world = World(gpus=1)
    world.publish("n1", 0, "gpu-ratio")
    world.wait("first", mig_request("1g.10gb"))
    world.wait("second", gpu_request())
    assert list(world.wishes("first", "second")[1]) == ["first"]
    assert list(world.wishes("second", "first")[1]) == ["second"]


def test_a_round_leaves_what_is_in_use_as_it_was():
    world = World()
    before = world.state.ledger.use(("rootport.dev", "n1"))
    world.wait("p", mig_request("1g.10gb"))
    world.wishes("p")
    assert world.state.ledger.use(("rootport.dev", "n1")) == before


def test_a_pod_that_may_not_be_on_a_node_changes_nothing_there():
    world = World(gpus=1)
    world.add_node("right", 1, labels={"zone": "b"})
    world.add_node("wrong", 1, labels={"zone": "a"})
    world.wait("p", mig_request("1g.10gb"), nodeSelector={"zone": "b"})
    assert list(world.wishes("p")[0]) == ["right"]
    world.wait("q", mig_request("1g.10gb"), nodeSelector={"zone": "c"})
    assert world.wishes("q") == ({}, {})


def test_what_fits_only_where_a_pod_may_not_be_does_not_fit():
    world = World(gpus=1)
    world.publish("n1", 0, *SEVEN)
    world.add_node("right", 1, labels={"zone": "b"})
    world.wait("p", mig_request("1g.10gb"), nodeSelector={"zone": "b"})
    assert list(world.wishes("p")[0]) == ["right"]


@pytest.mark.parametrize(
    ("modes", "request_"),
    [
        (("gpu", "gpu-ratio"), mig_request("1g.10gb")),
        (("mig", "gpu"), ratio_request(percent=50)),
        (("mig",), gpu_request()),
    ],
)
def test_a_mode_that_the_policies_do_not_offer_is_never_wished(modes: tuple[str, ...], request_: Json):
    world = World(policies=policies(*modes))
    world.wait("p", request_)
    assert world.wishes("p") == ({}, {})


def test_alike_nodes_are_tried_once():
    world = World(nodes=20, gpus=2)
    world.wait("p", mig_request("1g.10gb"))
    world.wishes("p")
    assert world.laid_out == ["n1"]


def test_nodes_on_which_nothing_helps_are_tried_a_few_a_round_and_not_again():
    world = World(nodes=9, gpus=1)
    world.wait("p", mig_request("1g.10gb", selector="false"))
    for _ in range(3):
        assert world.wishes("p") == ({}, {})
    assert len(world.laid_out) == len(set(world.laid_out)) == 9
    world.hold("other", "n7", 0, "gpu")
    world.release("other")
    world.laid_out.clear()
    world.wishes("p")
    assert world.laid_out == ["n7"]


def test_a_claim_that_tells_cards_apart_finds_its_own_in_time():
    world = World(nodes=9, gpus=1)
    uuid = world.gpu("n8", 0).uuid
    world.wait("p", ratio_request(percent=10, selector=f'device.attributes["rootport.dev"].uuid == "{uuid}"'))
    found = [list(world.wishes("p")[0]) for _ in range(3)]
    assert found == [[], [], ["n8"]]


def test_in_the_full_layout_nothing_is_wished():
    world = World(layout=Layout.FULL)
    world.wait("p", mig_request("1g.10gb"))
    assert world.wishes("p") == ({}, {})


def test_in_the_lean_layout_what_a_claim_needs_is_added_to_a_free_gpu():
    world = World(gpus=2, layout=Layout.LEAN)
    world.wait("p", mig_request("1g.10gb", count=3))
    gpu = world.gpu("n1", 1)
    wishes, own = world.wishes("p")
    assert wishes == {"n1": {gpu.name: own["p"].gpus[gpu.name]}}
    assert len(wishes["n1"][gpu.name]) == 3


@pytest.mark.parametrize("request_", [mig_request("7g.80gb"), ratio_request(percent=30)], ids=["mig", "percent"])
def test_in_the_lean_layout_one_gpu_serves_a_claim_for_any_mode_without_a_change(request_: Json):
    world = World(gpus=2, layout=Layout.LEAN)
    world.wait("p", request_)
    assert world.wishes("p") == ({}, {})


@pytest.mark.parametrize(
    ("request_", "device"), [(mig_request("7g.80gb"), "7g-80gb-0"), (ratio_request(percent=30), "gpu-ratio")]
)
def test_in_the_lean_layout_the_next_claim_gets_another_gpu(request_: Json, device: str):
    world = World(gpus=2, layout=Layout.LEAN)
    world.hold("other", "n1", 1, "7g-80gb-0")
    world.wait("p", request_)
    gpu = world.gpu("n1", 0)
    assert world.wishes("p")[0] == {"n1": {gpu.name: names(gpu, device)}}


def test_in_the_lean_layout_a_gpu_in_use_as_a_whole_is_left_alone():
    world = World(gpus=1, layout=Layout.LEAN)
    world.hold("other", "n1", 0, "gpu-ratio", percent=10)
    world.wait("p", mig_request("1g.10gb"))
    assert world.wishes("p") == ({}, {})


def test_a_claim_for_another_driver_is_nobody_of_ours():
    world = World()

    wire = {
        "kind": "DeviceClass",
        "metadata": {"name": "x"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "x"'}}]},
    }
    world.state.put(Kind.CLASS, wire)
    request = gpu_request()
    request["exactly"]["deviceClassName"] = "x"
    world.wait("p", request)
    assert world.wishes("p") == ({}, {})
    assert world.laid_out == []


class TestKeeping:
    def test_a_wish_stays_on_its_gpu_while_the_pod_waits(self):
        world = World(gpus=2)
        world.wait("p", mig_request("1g.10gb"))
        wishes, own = world.wishes("p")
        world.publish("n1", 1, "gpu", closed=["gpu"])
        assert world.wishes("p", kept=own)[0] == wishes

    def test_it_stays_though_something_else_has_become_free(self):
        world = World(gpus=2)
        world.hold("other", "n1", 0, "gpu")
        world.publish("n1", 1, *SEVEN)
        world.wait("p", gpu_request())
        wishes, own = world.wishes("p")
        world.release("other")
        assert world.wishes("p", kept=own)[0] == wishes

    def test_nothing_is_worked_out_again_while_the_node_is_as_it_was(self):
        world = World(gpus=2)
        pods = [f"p{number}" for number in range(4)]
        for pod in pods:
            world.wait(pod, mig_request("2g.20gb"))
        wishes, own = world.wishes(*pods)
        world.laid_out.clear()
        assert world.wishes(*pods, kept=own) == (wishes, own)
        assert world.laid_out == []

    def test_it_is_open_once_it_is_published(self):
        world = World(gpus=1)
        world.wait("p", mig_request("1g.10gb"))
        wishes, own = world.wishes("p")
        world.carry_out(wishes)
        again, own = world.wishes("p", kept=own)
        assert again == wishes
        assert own["p"].is_open

    def test_the_set_stays_while_some_of_its_pods_wait(self):
        world = World(gpus=1)
        world.wait("three", mig_request("3g.40gb"))
        world.wait("one", mig_request("1g.10gb"))
        wishes, own = world.wishes("three", "one")
        world.carry_out(wishes)
        again, _ = world.wishes("one", kept=own)
        assert again == wishes

    def test_it_ends_where_the_gpu_was_given_to_another_claim(self):
        world = World(gpus=2)
        world.wait("p", mig_request("1g.10gb"))
        _, own = world.wishes("p")
        world.hold("late", "n1", 1, "gpu")
        wishes, _ = world.wishes("p", kept=own)
        assert list(wishes["n1"]) == [world.gpu("n1", 0).name]

    def test_it_ends_with_its_node(self):
        world = World(nodes=2, gpus=1)
        world.wait("p", mig_request("1g.10gb"))
        _, own = world.wishes("p")
        world.remove_node("n1")
        assert list(world.wishes("p", kept=own)[0]) == ["n2"]

    def test_another_pod_does_not_change_the_gpu_back(self):
        world = World(gpus=1)
        world.wait("p", mig_request("1g.10gb"))
        wishes, own = world.wishes("p")
        world.carry_out(wishes)
        world.wait("q", gpu_request())
        assert world.wishes("p", "q", kept=own)[0] == wishes

    def test_a_pod_that_comes_later_shares_the_gpu_on_its_way(self):
        world = World(gpus=2)
        world.wait("p", mig_request("1g.10gb"))
        _, own = world.wishes("p")
        world.publish("n1", 1, "gpu", closed=["gpu"])
        world.wait("q", mig_request("3g.40gb"))
        gpu = world.gpu("n1", 1)
        wishes, _ = world.wishes("p", "q", kept=own)
        assert list(wishes["n1"]) == [gpu.name]
        assert len(wishes["n1"][gpu.name] & names(gpu, "3g-40gb-0", "3g-40gb-4")) == 1


def test_a_wish_for_a_gpu_that_is_gone_harms_no_other():
    """When time runs out a wish is kept without another look, though the node's inventory may have changed."""
    world = World(gpus=3)
    for name in ("a", "b"):
        world.wait(name, mig_request("7g.80gb"))
    _, own = world.wishes("a", "b")
    (gone,) = own["a"].gpus
    inventory = world.inventories["n1"]
    world.inventories["n1"] = replace(inventory, gpus=tuple(gpu for gpu in inventory.gpus if gpu.name != gone))
    world.publish_again("n1")
    with world.round() as this:
        this._node_now("n1")
        for name in ("a", "b"):
            this.assume(f"uid-of-{name}", own[name])
        assert this.wishes() == {"n1": own["b"].gpus}
