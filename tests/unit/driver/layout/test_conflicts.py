"""What of a GPU is published where not everything is: whatever it is, counters keep apart what excludes each other."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driver.api.gpu_policies import GpuPolicies, GpuPolicy
from driver.api.resource_v1 import Device, ResourceSlice
from driver.layout.conflicts import GpuModes, gpu_modes
from driver.layout.slices import resource_slices
from driver.layout.taints import MODE_CHANGE_TAINT
from driver.model.devices import DeviceName, Gpu
from driver.model.parts import gpu_parts
from tests.support.machines import gpu, node
from tests.support.mig_machines import A30, A100, H100, dgx_h100, instance, mig_gpu, profile
from tests.support.slice_validation import validate_slices

CARD = 80 << 30
# Three instances want more than the six decoders that two have, any two of them do not.
THREE_TOO_MANY = (
    profile("1g.1gb", 1, 1024, 3, "0:1 1:1 2:1", decoders=2),
    profile("1g.1gb+gfx", 2, 1024, 1, "0:1 1:1 2:1", decoders=3),
)
GPUS = {
    "H100": mig_gpu("0a"),
    "A100": mig_gpu("0a", A100),
    "A30": mig_gpu("0a", A30),
    "three-too-many": mig_gpu("0a", THREE_TOO_MANY),
    "static": mig_gpu("0a", H100, instance(9, 0, 4), instance(19, 6, 1)),
    "without-mig": gpu("0a", memory_bytes=CARD),
    "memory-unknown": gpu("0a"),
}
MODES = [modes for size in (1, 2, 3) for modes in itertools.permutations(("gpu", "gpu-ratio", "mig"), size)]
DGX = dgx_h100()


def names(suffixes: str, bus: str = "0a") -> frozenset[DeviceName]:
    """Partitions of a GPU by profile and start."""
    return frozenset(DeviceName(f"mig-0000-{bus}-00-0-{suffix}") for suffix in suffixes.split())


def published(one: Gpu, only: frozenset[DeviceName] | None = None) -> tuple[ResourceSlice, ...]:
    return resource_slices(node(one), only={} if only is None else {one.name: only})


def devices(slices: tuple[ResourceSlice, ...]) -> list[Device]:
    return [device for item in slices for device in item.spec.devices]


def counters_allow(slices: tuple[ResourceSlice, ...], chosen: set[DeviceName]) -> bool:
    """Whether the scheduler, which knows the counters alone, would give these devices at once."""
    left = {
        (counter_set.name, name): counter.value.ceil()
        for item in slices
        for counter_set in item.spec.shared_counters
        for name, counter in counter_set.counters.items()
    }
    for device in devices(slices):
        if device.name in chosen:
            for consumed in device.consumes_counters:
                for name, counter in consumed.counters.items():
                    left[consumed.counter_set, name] -= counter.value.ceil()
    return min(left.values(), default=0) >= 0


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(GPUS)), st.integers(0, 2**32), st.integers(0, 8))
def test_whatever_is_published_the_scheduler_gives_at_once_exactly_what_fits(kind: str, seed: int, most: int) -> None:
    draw = random.Random(seed)
    one = GPUS[kind]
    modes = gpu_modes(one, GpuPolicy())
    only = frozenset(draw.sample(modes.names, min(draw.randint(1, 12), len(modes.names))))
    slices = published(one, only)
    assert validate_slices(slices) == ()
    assert {device.name for device in devices(slices)} == only
    has_counters = any(item.spec.shared_counters for item in slices)
    assert has_counters is not modes.fit(only)
    assert has_counters is any(device.consumes_counters for device in devices(slices))
    chosen = set(draw.sample(sorted(only), min(most, len(only))))
    assert counters_allow(slices, chosen) is modes.fit(chosen)


def test_what_fits_is_not_only_a_matter_of_two() -> None:
    modes = gpu_modes(GPUS["three-too-many"], GpuPolicy())
    three = names("1g-1gb-0 1g-1gb-1 1g-1gb-gfx-2")
    assert all(modes.fit({one, other}) for one, other in itertools.combinations(three, 2))
    assert not modes.fit(three)
    assert any(item.spec.shared_counters for item in published(GPUS["three-too-many"], three))


@pytest.mark.parametrize("kind", GPUS)
def test_a_mode_excludes_the_others_and_partitions_those_that_they_overlap(kind: str) -> None:
    modes = gpu_modes(GPUS[kind], GpuPolicy())
    parts = {part.name: part for part in gpu_parts(GPUS[kind])}
    for one, other in itertools.combinations(modes.possible, 2):
        kinds = {modes.mode_of(one), modes.mode_of(other)}
        if kinds != {"mig"}:
            assert not modes.fit({one, other})
        elif kind == "static":
            assert modes.fit({one, other})
        else:
            places = [parts[name].placement for name in (one, other)]  # type: ignore[union-attr]
            profiles = [parts[name].profile for name in (one, other)]  # type: ignore[union-attr]
            is_second = profiles[0] == profiles[1] and profiles[0].max_instances == 1  # such as the one "+me"
            assert modes.fit({one, other}) is not (places[0].overlaps(places[1]) or is_second)
        assert modes.fit({one})


@pytest.mark.parametrize("modes", MODES, ids="+".join)
def test_modes_are_on_offer_in_the_order_of_the_policy(modes: tuple[str, ...]) -> None:
    policy = GpuPolicy.model_validate({"modes": modes})
    assert list(gpu_modes(GPUS["H100"], policy).offered) == list(modes)
    assert list(gpu_modes(GPUS["without-mig"], policy).offered) == [mode for mode in modes if mode != "mig"]
    assert list(gpu_modes(GPUS["static"], policy).offered) == [mode for mode in modes if mode == "mig"]
    assert len(gpu_modes(GPUS["H100"], policy).possible) == 27


def by_bus(modes: GpuModes) -> dict[str, str]:
    return {name: mode for name, mode in modes.possible.items() if "-0b-" in name}


def test_each_gpu_has_its_own_names() -> None:
    one, other = (gpu_modes(each, GpuPolicy()) for each in (mig_gpu("0a"), mig_gpu("0b")))
    assert len(by_bus(other)) == 27
    assert not by_bus(one)
    assert one.mode_of(DeviceName("gpu-0000-0b-00-0")) is None


def test_counters_are_those_of_what_is_published() -> None:
    one = GPUS["H100"]

    def totals(only: frozenset[DeviceName]) -> dict[str, int]:
        sets = [each for item in published(one, only) for each in item.spec.shared_counters]
        return {name: counter.value.ceil() for each in sets for name, counter in each.counters.items()}

    whole, ratio = DeviceName("gpu-0000-0a-00-0"), DeviceName("gpu-ratio-0000-0a-00-0")
    assert totals(frozenset({whole})) == {}
    assert totals(frozenset({whole, ratio})) == {"gpu": 1}
    assert totals(names("3g-40gb-0 3g-40gb-4")) == {}
    assert totals(names("3g-40gb-0 2g-20gb-0 3g-40gb-4")) == {"m0": 1, "m4": 1}
    assert totals(frozenset({whole}) | names("3g-40gb-0")) == {"m0": 1}
    assert totals(names("1g-10gb-me-0 1g-10gb-me-1")) == {"m0": 1, "m1": 1, "ofa": 1}
    assert totals(frozenset()) == {}


def test_what_is_published_says_nothing_of_the_other_gpus() -> None:
    one, other = mig_gpu("0a"), mig_gpu("0b")
    slices = resource_slices(node(one, other), only={one.name: frozenset({one.name})})
    assert len([device for device in devices(slices) if "-0a-" in device.name]) == 1
    assert len([device for device in devices(slices) if "-0b-" in device.name]) == 27


def test_what_the_policies_no_longer_offer_is_published_where_it_has_to_stay() -> None:
    policies = GpuPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [{"modes": ["gpu"]}]}
    )
    one = mig_gpu("0a")
    in_use = names("3g-40gb-0")
    slices = resource_slices(node(one), policies=policies, only={one.name: in_use | {one.name}})
    assert {device.name for device in devices(slices)} == in_use | {one.name}
    assert all(device.consumes_counters for device in devices(slices))


def test_a_gpu_stays_in_its_place_whatever_is_published_of_it() -> None:
    every = [device.name for device in devices(resource_slices(DGX))]
    only = {one.name: frozenset({one.name}) for one in DGX.gpus[2:4]}
    some = [device.name for device in devices(resource_slices(DGX, only=only))]
    assert some == [name for name in every if name in some]
    assert [item.spec.shared_counters[0].name for item in resource_slices(DGX, only=only) if item.spec.shared_counters]


@pytest.mark.parametrize("closed", [False, True], ids=["not-published-whole", "closed-whole"])
def test_partitions_come_first_from_gpus_that_nobody_can_be_given_whole(closed: bool) -> None:
    """So that a claim for one breaks no other GPU while there is room."""
    first, last = mig_gpu("0a"), mig_gpu("0b")
    parts = names("1g-10gb-0 1g-10gb-1", "0b")
    whole = frozenset(name for name in gpu_modes(last, GpuPolicy()).possible if not name.startswith("mig"))
    slices = resource_slices(
        node(first, last), only={last.name: parts | whole if closed else parts}, closed=whole if closed else ()
    )
    assert [device.name for device in devices(slices) if device.name.startswith("mig")][:2] == sorted(parts)
    if closed:  # one of the two is open
        slices = resource_slices(node(first, last), only={last.name: parts | whole}, closed=[last.name])
        assert "-0a-" in next(device.name for device in devices(slices) if device.name.startswith("mig"))


def test_a_closed_device_has_a_taint_and_keeps_its_place() -> None:
    (whole, ratio) = resource_slices(node(gpu("0a", memory_bytes=CARD)))[0].spec.devices
    slices = resource_slices(node(gpu("0a", memory_bytes=CARD)), closed=(DeviceName(whole.name), DeviceName("gone")))
    assert validate_slices(slices) == ()
    (closed, open_) = slices[0].spec.devices
    assert [taint.to_wire() for taint in closed.taints] == [{"key": MODE_CHANGE_TAINT, "effect": "NoSchedule"}]
    assert closed.model_copy(update={"taints": ()}) == whole
    assert open_ == ratio


def test_nodes_of_which_the_same_is_published_share_their_devices() -> None:
    def of(name: str, count: int) -> list[tuple[Device, ...]]:
        only = {one.name: frozenset({one.name}) for one in DGX.gpus[:count]}
        return [item.spec.devices for item in resource_slices(replace(DGX, node=name), only=only)]

    assert all(one is other for one, other in zip(of("node-1", 3), of("node-2", 3), strict=True))
    assert of("node-1", 3) != of("node-2", 4)


def test_where_the_api_server_keeps_no_counters_nothing_open_excludes_another() -> None:
    one = mig_gpu("0a")
    only = names("1g-10gb-0 1g-10gb-1")
    slices = resource_slices(node(one), only={one.name: only}, has_counters=False)
    assert {device.name for device in devices(slices)} == only
    both = {one.name: only | {one.name}}
    for closed in ((), (DeviceName("mig-0000-0a-00-0-1g-10gb-0"),)):
        with pytest.raises(ValueError, match="gpu-0000-0a-00-0 that exclude each other"):
            resource_slices(node(one), only=both, closed=closed, has_counters=False)
    with pytest.raises(ValueError, match="without counters"):
        resource_slices(node(one), has_counters=False)
    slices = resource_slices(node(one), only=both, closed=(one.name,), has_counters=False)
    assert {device.name for device in devices(slices)} == both[one.name]
    assert not any(device.consumes_counters for device in devices(slices))
    assert not any(item.spec.shared_counters for item in slices)
