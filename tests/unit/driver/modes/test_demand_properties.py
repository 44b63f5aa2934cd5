"""Whatever is published and in use: what is wished can be published, and then kube-scheduler would place the pods."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driver.allocator import Allocator
from driver.api.resource_v1 import AllocationResult
from driver.layout.conflicts import GpuModes, gpu_modes
from driver.layout.slices import resource_slices
from driver.model.devices import DeviceName, Gpu
from driver.modes.rule import Layout
from tests.support.demand_world import Json, World, gpu_request, mig_request, names, ratio_request

PROFILES = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb", "1g.10gb+me")
NODES, GPUS = 2, 3

REQUESTS = st.one_of(
    st.builds(lambda count: gpu_request(count=count), st.integers(1, 3)),
    st.builds(lambda core: gpu_request(core=core), st.integers(1, 100)),
    st.builds(lambda percent: ratio_request(percent=percent), st.integers(1, 100)),
    st.builds(lambda profile, count: mig_request(profile, count=count), st.sampled_from(PROFILES), st.integers(1, 3)),
)
PODS = st.lists(st.lists(REQUESTS, min_size=1, max_size=2), min_size=1, max_size=6)
MODES = st.sampled_from(["gpu", "gpu-ratio", "mig"])


def modes_of(world: World, node: str, gpu: Gpu) -> GpuModes:
    return gpu_modes(gpu, world.policies.of(model=gpu.model, node=node, address=gpu.address))


def drawn_set(modes: GpuModes, data: st.DataObject) -> frozenset[DeviceName]:
    """A set of partitions that can all be in use at once."""
    chosen: set[DeviceName] = set()
    for name in data.draw(st.permutations(modes.offered["mig"])):
        if modes.fit({*chosen, name}):
            chosen.add(name)
    return frozenset(chosen)


def fill(world: World, data: st.DataObject) -> dict[str, frozenset[DeviceName]]:
    """Publish each GPU in some mode, with some of that in use; return what is in use, by node."""
    used: dict[str, frozenset[DeviceName]] = {}
    for node, inventory in world.inventories.items():
        of_node: set[DeviceName] = set()
        for index, gpu in enumerate(inventory.gpus):
            mode = data.draw(MODES)
            published = drawn_set(modes_of(world, node, gpu), data) if mode == "mig" else names(gpu, mode)
            in_use = sorted(published)
            if world.layout is Layout.LEAN:
                published |= world.only[node][gpu.name]  # as of a node whose GPUs are free
            in_use = data.draw(st.lists(st.sampled_from(in_use), unique=True, max_size=2)) if in_use else []
            world.only[node][gpu.name] = published
            world.hold_names(f"held-{node}-{index}", node, in_use)
            of_node |= set(in_use)
        used[node] = frozenset(of_node)
        world.publish_again(node)
    return used


def scheduled(world: World, pods: list[str], held: Mapping[str, list[AllocationResult]]) -> list[str]:
    """The pods that kube-scheduler's allocator places, one after the other, with what is published now."""
    slices = [
        item
        for node, inventory in world.inventories.items()
        for item in resource_slices(inventory, policies=world.policies, only=world.only[node])
    ]
    allocator = Allocator(slices, world.state.classes.values(), features=world.state.features)
    allocator.commit([item for items in held.values() for item in items])
    placed = []
    for pod in pods:
        fit = allocator.allocate_first([node.node for node in world.state.nodes.values()], world.waiting(pod).claims)
        if fit is not None:
            allocator.commit(fit.results)
            placed.append(pod)
    return placed


def check(layout: Layout, pods: list[list[Json]], data: st.DataObject) -> None:
    world = World(NODES, GPUS, layout=layout)
    used = fill(world, data)
    order = [f"p{number}" for number in range(len(pods))]
    for name, requests in zip(order, pods, strict=True):
        world.wait(name, *(request | {"name": f"r{number}"} for number, request in enumerate(requests)))
    before = scheduled(world, order, world.results)
    wishes, own = world.wishes(*order)
    for node, of_gpus in wishes.items():
        for gpu in world.inventories[node].gpus:
            wished = of_gpus.get(gpu.name)
            if wished is None:
                continue
            modes = modes_of(world, node, gpu)
            assert wished <= set(modes.names)
            in_use = {name for name in used[node] if modes.mode_of(name)}
            if layout is Layout.ONE:
                assert modes.fit(wished | in_use)
            world.only[node][gpu.name] = wished | in_use
    # A pod alone must find its devices; together they may choose each other's.
    for pod in own:
        assert scheduled(world, [pod], world.results) == [pod]
    assert own.keys().isdisjoint(before)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(pods=PODS, data=st.data())
def test_each_wish_makes_its_pod_allocatable_and_takes_nothing_that_is_in_use(
    pods: list[list[Json]], data: st.DataObject
):
    check(Layout.ONE, pods, data)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(pods=PODS, data=st.data())
def test_the_same_in_the_lean_layout(pods: list[list[Json]], data: st.DataObject):
    check(Layout.LEAN, pods, data)
