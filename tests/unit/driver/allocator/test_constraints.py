"""matchAttribute and distinctAttribute."""

from __future__ import annotations

from typing import Any

import pytest

from driver.allocator import Features
from tests.unit.driver.allocator.builders import (
    allocator,
    claim,
    device,
    distinct,
    exactly,
    given,
    match,
    node,
    resource_slice,
)

Json = dict[str, Any]


def ask(devices: list[Json], *requests: Json, constraints: list[Json], **features: bool) -> list[list[str]] | None:
    flags = Features(**({"list_type_attributes": True} | features))
    return given(
        allocator(resource_slice(*devices), features=flags).allocate(
            node(), [claim(*requests, constraints=constraints)]
        )
    )


def typed(name: str, kind: str, value: object) -> Json:
    return {"name": name, "attributes": {"v": {kind: value}}}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(("string", "x"), ("string", "x"), True, id="string"),
        pytest.param(("string", "x"), ("string", "y"), False, id="strings"),
        pytest.param(("int", 1), ("int", 1), True, id="int"),
        pytest.param(("bool", False), ("bool", False), True, id="bool"),
        pytest.param(("version", "1.0.0"), ("version", "1.0.0"), True, id="version"),
        pytest.param(("version", "1.0.0"), ("version", "1.0.1"), False, id="versions"),
        pytest.param(("int", 1), ("bool", True), False, id="int-and-bool"),
        pytest.param(("string", "1.0.0"), ("version", "1.0.0"), False, id="string-and-version"),
        pytest.param(("int", 1), ("ints", [1, 2]), True, id="in-list"),
        pytest.param(("ints", [1, 2]), ("ints", [2, 3]), True, id="lists-that-meet"),
        pytest.param(("ints", [1]), ("strings", ["1"]), False, id="lists-of-other-types"),
    ],
)
def test_values_are_the_same_or_not(one: tuple[str, object], other: tuple[str, object], same: bool) -> None:
    devices = [typed("a", *one), typed("b", *other)]
    both = [["r=a", "r=b"]]
    assert ask(devices, exactly("r", 2), constraints=[match("d/v")]) == (both if same else None)
    assert ask(devices, exactly("r", 2), constraints=[distinct("d/v")]) == (None if same else both)


@pytest.mark.parametrize("constraint", [match("d/v"), distinct("d/v")], ids=["match", "distinct"])
def test_a_device_without_the_attribute_breaks_the_constraint(constraint: Json) -> None:
    assert ask([device("a"), device("b", v=1)], exactly("r"), constraints=[constraint]) == [["r=b"]]


@pytest.mark.parametrize("attribute", ["d/v", "other/v"])
def test_a_name_without_domain_is_in_the_drivers_domain(attribute: str) -> None:
    found = ask([device("a", v=1), device("b", v=1)], exactly("r", 2), constraints=[match(attribute)])
    assert (found is not None) == (attribute == "d/v")


def test_a_full_name_in_the_device_goes_before_a_short_one() -> None:
    devices = [{"name": "a", "attributes": {"v": {"int": 1}, "d/v": {"int": 2}}}, device("b", v=1), device("c", v=2)]
    assert ask(devices, exactly("r", 2), constraints=[match("d/v")]) == [["r=a", "r=c"]]


def test_a_constraint_for_some_requests_leaves_the_others_alone() -> None:
    devices = [device("a", v=1), device("b", v=2), device("c", v=1)]
    requests = exactly("r"), exactly("s"), exactly("t")
    assert ask(devices, *requests, constraints=[match("d/v", "r", "t")]) == [["r=a", "s=b", "t=c"]]


def test_naming_a_request_means_all_its_alternatives_and_an_alternative_can_be_named_alone() -> None:
    devices = [device("a", v=1), device("b", v=2), device("c", v=1)]
    alternative = {"name": "x", "deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    requests = exactly("r"), {"name": "s", "firstAvailable": [alternative]}
    for name, second in (("s", "c"), ("s/x", "c"), ("s/y", "b")):
        assert ask(devices, *requests, constraints=[match("d/v", "r", name)]) == [["r=a", f"s/x={second}"]]


def test_devices_of_one_request_differ_as_well() -> None:
    devices = [device("a", v=1), device("b", v=2), device("c", v=1), device("d", v=3)]
    assert ask(devices, exactly("r", 3), constraints=[distinct("d/v")]) == [["r=a", "r=b", "r=d"]]


def test_what_is_common_is_wider_again_after_a_step_back() -> None:
    devices = [device("a", v=[0, 1]), device("b", v=[0]), device("c", v=[1]), device("d", v=[1])]
    assert ask(devices, exactly("r", 3), constraints=[match("d/v")]) == [["r=a", "r=c", "r=d"]]


def test_two_constraints_hold_at_once() -> None:
    devices = [device("a", v=1, w=1), device("b", v=1, w=1), device("c", v=2, w=1), device("e", v=1, w=2)]
    assert ask(devices, exactly("r", 2), constraints=[match("d/v"), distinct("d/w")]) == [["r=a", "r=e"]]


def test_with_lists_off_a_stored_selector_still_sees_them() -> None:
    """As upstream since 1.37: only the API server asks the gate, of a new expression."""
    selector = 'device.attributes["d"].v.exists(one, one == 1)'
    assert ask([device("a", v=[1])], exactly("r", 1, selector), constraints=[], list_type_attributes=False) == [["r=a"]]


def test_without_selectors_a_list_is_a_value_like_no_other_while_lists_are_off() -> None:
    devices = [device("a", v=[1]), device("b", v=[1]), device("c", v=1), device("e", v=1)]
    found = ask(devices, exactly("r", 2), constraints=[match("d/v")], list_type_attributes=False)
    assert found == [["r=c", "r=e"]]
