"""What a GPU could publish, what policies offer of that, and what fits together."""

from __future__ import annotations

from itertools import combinations

import pytest

from driver.api.gpu_policies import GpuMode, GpuPolicy
from driver.model.devices import DeviceName, Gpu
from driver.model.parts import MigPartition, gpu_parts
from driver.modes.gpu import gpu_choices
from tests.support.machines import gpu
from tests.support.mig_machines import A30, A100, H100, instance, mig_gpu

PREFIX = "0000-1b-00-0"
ALL: tuple[GpuMode, ...] = ("gpu", "gpu-ratio", "mig")


def name(text: str) -> DeviceName:
    """``gpu``, ``gpu-ratio``, or a partition as ``1g-10gb-4``."""
    return DeviceName(f"{text}-{PREFIX}" if text in ("gpu", "gpu-ratio") else f"mig-{PREFIX}-{text}")


def test_offers_stand_in_the_order_of_the_policys_modes() -> None:
    card = mig_gpu("1b", H100)
    assert gpu_choices(card, GpuPolicy()).offered[:3] == (name("gpu"), name("gpu-ratio"), name("1g-10gb-6"))
    assert gpu_choices(card, GpuPolicy(modes=("mig", "gpu"))).offered[-1] == name("gpu")


def test_what_the_policies_do_not_offer_could_be_published_all_the_same() -> None:
    choices = gpu_choices(mig_gpu("1b", H100), GpuPolicy(modes=("gpu",)))
    assert choices.offered == (name("gpu"),)
    assert {name("gpu"), name("gpu-ratio"), name("7g-80gb-0")} <= choices.every


@pytest.mark.parametrize(
    ("card", "every"),
    [
        pytest.param(gpu("1b", memory_bytes=80 << 30), {"gpu", "gpu-ratio"}, id="without-mig"),
        pytest.param(gpu("1b"), {"gpu"}, id="unknown-memory"),
        pytest.param(
            mig_gpu("1b", H100, instance(9, 0, 4), instance(9, 4, 4)), {"3g-40gb-0", "3g-40gb-4"}, id="static"
        ),
        pytest.param(
            mig_gpu("1b", A30, enabled=False, cuda_compute_capability="8.0"), {"gpu", "gpu-ratio"}, id="fixed-mode-off"
        ),
        pytest.param(
            mig_gpu("1b", A30[3:], enabled=True), {"gpu", "gpu-ratio", "4g-24gb-0"}, id="mode-that-can-be-switched"
        ),
    ],
)
def test_the_hardware_decides_what_there_is(card: Gpu, every: set[str]) -> None:
    choices = gpu_choices(card, GpuPolicy())
    assert choices.every == {name(item) for item in every}
    assert choices.partitions == {item for item in choices.every if item.startswith("mig-")}


def test_a_static_layout_is_there_all_at_once() -> None:
    choices = gpu_choices(mig_gpu("1b", H100, instance(9, 0, 4), instance(9, 4, 4)), GpuPolicy())
    assert choices.fit(choices.every)


def test_whole_and_percent_exclude_each_other_without_mig_too() -> None:
    choices = gpu_choices(gpu("1b", memory_bytes=80 << 30), GpuPolicy())
    assert not choices.fit(choices.every)
    assert all(choices.fit([item]) for item in choices.every)


def test_what_the_gpu_does_not_have_fits_with_nothing() -> None:
    choices = gpu_choices(mig_gpu("1b", H100), GpuPolicy())
    assert not choices.fit([DeviceName("gpu-0000-ff-00-0")])
    assert choices.fit([])


@pytest.mark.parametrize("profiles", [H100, A100, A30], ids=["H100", "A100", "A30"])
def test_two_partitions_fit_exactly_if_they_do_not_overlap_and_engines_suffice(profiles: tuple) -> None:  # type: ignore[type-arg]
    card = mig_gpu("1b", profiles, cuda_compute_capability="9.0")
    choices = gpu_choices(card, GpuPolicy())
    partitions = [part for part in gpu_parts(card) if isinstance(part, MigPartition)]
    most = {
        field: max(getattr(item, field) * item.max_instances for item in profiles)
        for field in ("copy_engines", "decoders", "jpeg_engines", "ofa_engines", "compute_slices", "multiprocessors")
    }
    for one, other in combinations(partitions, 2):
        used = {field: getattr(one.profile, field) + getattr(other.profile, field) for field in most}
        is_twice = one.profile is other.profile and one.profile.max_instances < 2
        expected = (
            not one.placement.overlaps(other.placement)
            and not is_twice
            and all(amount <= most[field] for field, amount in used.items())
        )
        assert choices.fit([one.name, other.name]) is expected, (one.name, other.name)
        assert not choices.fit([one.name, name("gpu")])
        assert not choices.fit([one.name, name("gpu-ratio")])


def test_the_first_of_what_excludes_each_other_is_kept() -> None:
    choices = gpu_choices(mig_gpu("1b", H100), GpuPolicy())
    names = [name(item) for item in ("3g-40gb-4", "1g-10gb-5", "1g-10gb-0", "gpu")]
    assert choices.fitting(names) == {name("3g-40gb-4"), name("1g-10gb-0")}
    assert choices.fitting(names, [name("1g-10gb-5")]) == {name("1g-10gb-5"), name("1g-10gb-0")}
    assert choices.fitting(names, [name("gpu-ratio")]) == set()


def test_equal_gpus_share_one_answer() -> None:
    assert gpu_choices(mig_gpu("1b", H100, uuid="GPU-1"), GpuPolicy()) is gpu_choices(
        mig_gpu("1b", H100, uuid="GPU-2"), GpuPolicy()
    )
