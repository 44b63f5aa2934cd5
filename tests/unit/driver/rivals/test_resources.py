"""The names of other systems' resources: all that the converter reads are known here as well."""

from __future__ import annotations

import pytest

from driver.convert.dialect import Dialect, Meaning
from driver.convert.dialects import dialects_for
from driver.convert.settings import Settings
from driver.model.devices import Fpga, Gpu, RdmaNic
from driver.rivals.resources import resource_rule
from tests.support.machines import fpga, gpu, nic

CARDS: dict[type, list[Gpu | RdmaNic | Fpga]] = {
    Gpu: [gpu("10", vendor="nvidia"), gpu("11", vendor="amd")],
    RdmaNic: [nic("20")],
    Fpga: [fpga("30")],
}


@pytest.mark.parametrize("dialect", dialects_for(Settings()), ids=lambda dialect: dialect.name)
def test_what_pods_ask_other_systems_for_is_known_as_a_rival_of_the_same_devices(dialect: Dialect) -> None:
    assert dialect.resources
    for resource in dialect.resources:
        # With * at the end: every name that begins so.
        rule = resource_rule(resource.name.replace("*", "x_1"))
        assert rule is not None, resource.name
        concerned = {kind for kind, cards in CARDS.items() if any(map(rule.concerns, cards))}
        match resource.meaning:
            case Meaning.NICS:
                assert concerned == {RdmaNic}, resource.name
            case Meaning.FPGAS:
                assert concerned == {Fpga}, resource.name
            case Meaning.OTHER:
                assert concerned, resource.name
            case _:
                assert concerned == {Gpu}, resource.name


@pytest.mark.parametrize(
    "name", ["cpu", "memory", "hugepages-2Mi", "example.com/gpu", "gpu.intel.com/i915", "smarter-devices/fuse"]
)
def test_other_names_say_nothing_of_these_devices(name: str) -> None:
    assert resource_rule(name) is None
