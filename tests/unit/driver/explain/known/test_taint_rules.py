"""Which devices a DeviceTaintRule taints."""

from __future__ import annotations

import pytest

from driver.api.resource_v1 import DeviceTaint, ResourceSlice
from driver.explain.known.cluster import TaintRule
from driver.explain.known.published import with_rules
from driver.explain.known.slice_reading import SliceReader
from tests.unit.driver.explain.builders import device_wire, slice_wire


def a_slice() -> ResourceSlice:
    own = {"taints": [{"key": "own", "effect": "NoSchedule"}]}
    return SliceReader().read(slice_wire("n1", device_wire("a"), device_wire("b", extra=own)))


def rule(name: str = "r", **selector: str) -> TaintRule:
    return TaintRule(name=name, taint=DeviceTaint(key=name, effect="NoSchedule"), **selector)


def tainted(*rules: TaintRule) -> dict[str, list[str]]:
    return {device.name: [taint.key for taint in device.taints] for device in with_rules(a_slice(), rules).spec.devices}


@pytest.mark.parametrize(
    ("selector", "devices"),
    [
        pytest.param({}, "ab", id="no selector"),
        pytest.param({"driver": "rootport.dev"}, "ab", id="the driver"),
        pytest.param({"driver": "other.dev"}, "", id="another driver"),
        pytest.param({"pool": "n1"}, "ab", id="the pool"),
        pytest.param({"pool": "n2"}, "", id="another pool"),
        pytest.param({"device": "a"}, "a", id="a device"),
        pytest.param({"device": "c"}, "", id="a device that is elsewhere"),
        pytest.param({"driver": "rootport.dev", "pool": "n1", "device": "b"}, "b", id="all three"),
        pytest.param({"driver": "rootport.dev", "pool": "n2", "device": "b"}, "", id="one of three does not match"),
    ],
)
def test_a_rule_taints_what_all_of_its_selector_names(selector: dict[str, str], devices: str) -> None:
    found = tainted(rule(**selector))

    assert {name for name, taints in found.items() if "r" in taints} == set(devices)


def test_taints_of_rules_come_behind_the_drivers_by_the_rules_names() -> None:
    assert tainted(rule("z"), rule("m", device="b")) == {"a": ["z"], "b": ["own", "m", "z"]}


def test_a_slice_that_no_rule_concerns_is_the_very_same() -> None:
    item = a_slice()

    assert with_rules(item, [rule(pool="n2"), rule(device="c")]) is item


def test_the_slice_as_published_stays_as_it_is() -> None:
    item = a_slice()
    with_rules(item, [rule()])

    assert item.spec.devices[0].taints == ()
