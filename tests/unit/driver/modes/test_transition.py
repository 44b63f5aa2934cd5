"""The next step from what is published of a GPU to what should be."""

from __future__ import annotations

import pytest

from driver.api.gpu_policies import GpuPolicy
from driver.model.devices import DeviceName
from driver.modes.gpu import GpuState, known_modes
from driver.modes.transition import GpuStep, step
from tests.support.mig_machines import H100, instance, mig_gpu

OF = known_modes(mig_gpu("1b", H100), GpuPolicy())
PREFIX = OF.gpu.removeprefix("gpu-")


def named(text: str) -> frozenset[DeviceName]:
    return frozenset(
        DeviceName(f"{item}-{PREFIX}" if item.startswith("gpu") else f"mig-{PREFIX}-{item}") for item in text.split()
    )


def taken(
    *, opened: str = "", closed: str = "", in_use: str = "", wanted: str = "", free: str = "", with_counters: bool
) -> tuple[str, str, str]:
    """Take a step; return what is open, what is closed, and what is about to leave."""
    state = GpuState(modes=OF, opened=named(opened), closed=named(closed), in_use=named(in_use))
    found = step(state, named(wanted), free=named(free), with_counters=with_counters)
    assert found.closed <= found.published
    assert found.leaving <= found.closed
    return text(found.published - found.closed), text(found.closed), text(found.leaving)


def text(names: frozenset[DeviceName]) -> str:
    return " ".join(sorted(name.replace(f"mig-{PREFIX}-", "").replace(f"-{PREFIX}", "") for name in names))


@pytest.mark.parametrize("with_counters", [True, False], ids=["counters", "no-counters"])
class TestAlways:
    def test_nothing_changes_where_all_is_as_wanted(self, with_counters: bool) -> None:
        assert taken(opened="gpu", wanted="gpu", with_counters=with_counters) == ("gpu", "", "")

    def test_what_is_new_opens_where_nothing_is(self, with_counters: bool) -> None:
        assert taken(wanted="gpu", with_counters=with_counters) == ("gpu", "", "")

    def test_what_is_not_wanted_is_closed_first(self, with_counters: bool) -> None:
        assert taken(opened="gpu", with_counters=with_counters) == ("", "gpu", "gpu")

    def test_what_is_closed_stays_until_it_is_known_to_be_free(self, with_counters: bool) -> None:
        assert taken(closed="gpu", with_counters=with_counters) == ("", "gpu", "gpu")

    def test_what_is_closed_and_free_leaves(self, with_counters: bool) -> None:
        assert taken(closed="gpu", free="gpu", with_counters=with_counters) == ("", "", "")

    def test_what_is_open_never_leaves_at_once(self, with_counters: bool) -> None:
        assert taken(opened="gpu", free="gpu", with_counters=with_counters) == ("", "gpu", "gpu")

    def test_what_is_in_use_stays_closed_for_as_long(self, with_counters: bool) -> None:
        assert taken(closed="gpu", in_use="gpu", free="gpu", with_counters=with_counters) == ("", "gpu", "")

    def test_what_has_left_comes_back_closed_for_a_late_claim(self, with_counters: bool) -> None:
        assert taken(in_use="gpu", with_counters=with_counters) == ("", "gpu", "")

    def test_what_is_closed_opens_again_if_it_is_wanted_again(self, with_counters: bool) -> None:
        assert taken(closed="gpu", wanted="gpu", with_counters=with_counters) == ("gpu", "", "")

    def test_a_shared_device_stays_open_while_it_is_in_use(self, with_counters: bool) -> None:
        assert taken(opened="gpu", in_use="gpu", wanted="gpu", with_counters=with_counters) == ("gpu", "", "")

    def test_a_gpu_in_use_as_what_it_cannot_be_any_more_is_closed(self, with_counters: bool) -> None:
        static = known_modes(mig_gpu("1b", H100, instance(9, 0, 4)), GpuPolicy())
        state = GpuState(modes=static, opened=named("3g-40gb-0"), in_use=named("gpu"))
        found = step(state, named("3g-40gb-0"), with_counters=with_counters)
        assert found == GpuStep(published=named("3g-40gb-0"), closed=named("3g-40gb-0"), leaving=frozenset())

    def test_what_the_hardware_has_no_more_is_gone(self, with_counters: bool) -> None:
        static = known_modes(mig_gpu("1b", H100, instance(9, 0, 4)), GpuPolicy())
        state = GpuState(modes=static, opened=named("gpu 3g-40gb-0"))
        found = step(state, named("3g-40gb-0"), with_counters=with_counters)
        assert found == GpuStep(published=named("3g-40gb-0"), closed=frozenset(), leaving=frozenset())


class TestWithCounters:
    def test_a_wanted_device_opens_at_once(self) -> None:
        assert taken(opened="gpu", wanted="1g-10gb-0", with_counters=True) == ("1g-10gb-0", "gpu", "gpu")

    def test_even_beside_one_in_use_that_its_counters_charge(self) -> None:
        assert taken(opened="gpu", in_use="gpu", wanted="1g-10gb-0", with_counters=True) == ("1g-10gb-0", "gpu", "")


class TestWithoutCounters:
    def test_a_device_opens_only_once_the_other_has_left(self) -> None:
        assert taken(opened="gpu", wanted="1g-10gb-0", with_counters=False) == ("", "gpu", "gpu")
        assert taken(closed="gpu", wanted="1g-10gb-0", with_counters=False) == ("", "gpu", "gpu")

    def test_both_happen_in_one_step(self) -> None:
        assert taken(closed="gpu", wanted="1g-10gb-0", free="gpu", with_counters=False) == ("1g-10gb-0", "", "")

    def test_what_fits_beside_it_opens_at_once(self) -> None:
        found = taken(opened="1g-10gb-0", wanted="1g-10gb-0 3g-40gb-4", with_counters=False)
        assert found == ("1g-10gb-0 3g-40gb-4", "", "")

    def test_after_a_layout_with_counters_what_stays_is_open_all_the_time(self) -> None:
        found = taken(opened="gpu gpu-ratio 1g-10gb-0", wanted="gpu", with_counters=False)
        assert found == ("gpu", "1g-10gb-0 gpu-ratio", "1g-10gb-0 gpu-ratio")

    def test_a_late_claim_closes_what_it_excludes(self) -> None:
        assert taken(opened="gpu", in_use="1g-10gb-0", wanted="gpu", with_counters=False) == ("", "1g-10gb-0 gpu", "")
        assert taken(opened="gpu", in_use="1g-10gb-0", wanted="1g-10gb-0", with_counters=False) == (
            "",
            "1g-10gb-0 gpu",
            "gpu",
        )

    def test_two_claims_that_exclude_each_other_both_stay_closed(self) -> None:
        found = taken(opened="gpu", in_use="1g-10gb-0 gpu", wanted="gpu", with_counters=False)
        assert found == ("", "1g-10gb-0 gpu", "")
