"""What fits together of a GPU's devices, the first ones first."""

from __future__ import annotations

from driver.api.gpu_policies import GpuPolicy
from driver.model.devices import DeviceName
from driver.modes.gpu import fitting, known_modes, partitions_of
from tests.support.mig_machines import H100, mig_gpu

MODES = known_modes(mig_gpu("1b", H100), GpuPolicy())


def named(*texts: str) -> list[DeviceName]:
    bus = MODES.gpu.removeprefix("gpu-")
    return [DeviceName(f"{text}-{bus}" if text.startswith("gpu") else f"mig-{bus}-{text}") for text in texts]


def test_the_first_of_what_excludes_each_other_is_kept() -> None:
    names = named("3g-40gb-4", "1g-10gb-5", "1g-10gb-0", "gpu")
    assert fitting(MODES, names) == {*named("3g-40gb-4", "1g-10gb-0")}
    assert fitting(MODES, names, named("1g-10gb-5")) == {*named("1g-10gb-5", "1g-10gb-0")}
    assert fitting(MODES, names, named("gpu-ratio")) == set()


def test_what_the_policies_do_not_offer_is_passed_over() -> None:
    only_whole = known_modes(mig_gpu("1b", H100), GpuPolicy(modes=("gpu",)))
    assert fitting(only_whole, named("1g-10gb-0", "gpu")) == {*named("gpu")}


def test_partitions_are_told_from_the_other_modes() -> None:
    assert partitions_of(MODES, named("gpu", "gpu-ratio", "1g-10gb-0")) == {*named("1g-10gb-0")}
    assert len(partitions_of(MODES, MODES.possible)) == 25


def test_equal_gpus_share_one_answer() -> None:
    assert known_modes(mig_gpu("1b", H100, uuid="GPU-1"), GpuPolicy()) is known_modes(
        mig_gpu("1b", H100, uuid="GPU-2"), GpuPolicy()
    )
