"""Requests for a share of a GPU: which amounts make sense, and that every mistake is told at once with its path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.api.quantity import Quantity
from driver.config import share_errors

WHERE = "spec.devices.requests[0].exactly.capacity.requests"


def errors(**requests: str) -> dict[str, str]:
    """The errors, by path below WHERE."""
    return errors_of(requests)


def errors_of(requests: dict[str, str]) -> dict[str, str]:
    found = share_errors({key: Quantity(value) for key, value in requests.items()}, WHERE)
    return {error.path.removeprefix(WHERE): error.message for error in found}


@pytest.mark.parametrize(
    "requests",
    [
        {},
        {"core": "1", "memory": "1"},
        {"core": "100", "memory": "80Gi"},
        {"core": "50", "memoryRatio": "50"},
        {"rootport.dev/core": "50", "rootport.dev/memory": "1e9"},
        {"core": "5e1"},
        {"memory": "1Ti"},
        {"shares": "1"},
        {"other.dev/core": "1000", "vendor.dev/memory": "0"},
    ],
    ids=["none", "least", "all", "percent", "with-domain", "exponent", "more-than-any", "shares", "other-domains"],
)
def test_amounts_that_make_sense_are_accepted(requests: dict[str, str]) -> None:
    assert errors_of(requests) == {}


@pytest.mark.parametrize("name", ["core", "memoryRatio", "rootport.dev/core", "rootport.dev/memoryRatio"])
@pytest.mark.parametrize(
    ("value", "shown"), [("0", "0"), ("101", "101"), ("33.3", "33300m"), ("-5", "-5"), ("1Ki", "1Ki")]
)
def test_a_percentage_is_a_whole_number_from_1_to_100(name: str, value: str, shown: str) -> None:
    ((path, message),) = errors_of({name: value}).items()
    assert path == f"[{name}]"
    assert message.startswith(f"{shown} is not a percentage: expected a whole number from 1 to 100; ")


@pytest.mark.parametrize(("value", "shown"), [("0", "0"), ("-1Gi", "-1Gi"), ("500m", "500m"), ("1.5", "1500m")])
def test_memory_is_whole_bytes(value: str, shown: str) -> None:
    ((path, message),) = errors(memory=value).items()
    assert path == "[memory]"
    assert message.startswith(f"{shown} is not an amount of memory: expected whole bytes, at least 1, such as 20Gi; ")


@pytest.mark.parametrize(
    "requests",
    [{"memory": "10Gi", "memoryRatio": "50"}, {"rootport.dev/memory": "10Gi", "memoryRatio": "50"}],
    ids=["plain", "with-domain"],
)
def test_memory_is_asked_for_in_one_way(requests: dict[str, str]) -> None:
    ((path, message),) = errors_of(requests).items()
    assert path == ""
    assert message.startswith(
        "memory and memoryRatio are two ways to ask for memory: expected one of them in a request; "
    )


def test_all_mistakes_are_told_at_once() -> None:
    assert list(errors(core="0", memory="0", memoryRatio="101")) == ["[core]", "[memory]", "[memoryRatio]", ""]


@given(st.integers(-(10**12), 10**12))
def test_exactly_the_whole_percents_are_accepted(milli: int) -> None:
    accepted = not share_errors({"core": Quantity.from_nano(milli * 10**6)}, WHERE)
    assert accepted == (milli % 1000 == 0 and 1 <= milli // 1000 <= 100)
