"""Each mistake leads to the nearest valid request: what the message says to ask for is itself valid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.api import API_VERSION
from driver.api.quantity import Quantity
from driver.config import ShareError, parse_config, share_errors
from driver.config.nearest import Change

_WHERE = "spec.devices.requests[0].exactly.capacity.requests"
_PERCENTS = ("core", "memoryRatio", "bandwidthRatio")
_NAMES = (*_PERCENTS, "memory", "bandwidth", "vfs")


def applied(change: Change, requests: dict[str, str]) -> dict[str, str]:
    """What the message says, done to a request's amounts."""
    left = {key: value for key, value in requests.items() if key != change.key}
    return left if change.amount is None else {**left, change.key: change.amount}


def mistakes(requests: dict[str, str], device_class: str = "") -> tuple[ShareError, ...]:
    return share_errors({key: Quantity(value) for key, value in requests.items()}, _WHERE, device_class)


def leads(requests: dict[str, str], device_class: str = "") -> list[str]:
    return [error.message.rpartition("; ")[2] for error in mistakes(requests, device_class)]


@pytest.mark.parametrize(
    ("name", "amount", "lead"),
    [
        ("core", "200", 'ask for count: 2 with core: "100"'),
        ("core", "150", 'ask for count: 2 with core: "75", or ask for core: "100"'),
        ("core", "101", 'ask for count: 2 with core: "51", or ask for core: "100"'),
        ("core", "800", 'ask for count: 8 with core: "100"'),
        ("core", "5000", 'ask for core: "100"'),
        ("core", "33.3", 'ask for core: "34"'),
        ("core", "0.5", 'ask for core: "50"'),
        ("core", "0", 'leave out core: then no core is reserved, or ask for core: "1"'),
        ("memoryRatio", "0", 'leave out memoryRatio: then it is all of the GPU\'s, or ask for memoryRatio: "1"'),
        ("rootport.dev/core", "33.3", 'ask for rootport.dev/core: "34"'),
        ("memory", "0", "leave out memory: then it is all of the GPU's"),
        ("memory", "-1Gi", "ask for memory: 1Gi"),
        ("memory", "1.5", "ask for memory: 1536Mi, or ask for memory: 1500Mi"),
        ("memory", "500m", "ask for memory: 512Mi, or ask for memory: 500Mi"),
        ("memory", "10000000000.5", 'ask for memory: "10000000001"'),
        ("bandwidth", "0", "leave out bandwidth: then it is all of the NIC's"),
        ("bandwidth", "0.5", "ask for bandwidth: 500M"),
        ("vfs", "2", 'ask for count: 2 with vfs: "1"'),
        ("vfs", "0", 'ask for vfs: "1"'),
    ],
)
def test_a_wrong_amount_leads_to_what_is_meant(name: str, amount: str, lead: str) -> None:
    assert leads({name: amount}) == [lead]


@pytest.mark.parametrize(
    ("device_class", "lead"),
    [
        ("gpu.rootport.dev", "leave out memoryRatio: devices of class gpu.rootport.dev have memory"),
        ("gpu-ratio.rootport.dev", "leave out memory: devices of class gpu-ratio.rootport.dev have memoryRatio"),
        (
            "",
            (
                "leave out memoryRatio: devices of class gpu.rootport.dev have memory, or leave out memory: "
                "devices of class gpu-ratio.rootport.dev have memoryRatio"
            ),
        ),
    ],
)
def test_of_two_ways_to_ask_for_memory_the_class_takes_one(device_class: str, lead: str) -> None:
    assert leads({"memory": "1Gi", "memoryRatio": "50"}, device_class) == [lead]


_AMOUNTS = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.integers(-(10**6), 10**7).map(lambda milli: f"{milli}m"),
    st.tuples(st.integers(-9, 10**4), st.sampled_from(["", "k", "M", "G", "Ki", "Mi", "Gi", "u", "n"])).map(
        lambda parts: f"{parts[0]}{parts[1]}"
    ),
)


@given(st.dictionaries(st.sampled_from([*_NAMES, *(f"rootport.dev/{name}" for name in _NAMES)]), _AMOUNTS))
def test_every_request_that_a_message_names_is_valid(requests: dict[str, str]) -> None:
    for error in mistakes(requests):
        assert error.nearest
        for change in error.nearest:
            assert str(change) in error.message
            assert change.count is None or 1 < change.count <= 32
            after = applied(change, requests)
            assert error.path not in {other.path for other in mistakes(after)} or error.path == _WHERE
            if change.amount is not None:
                assert not mistakes({change.key: change.amount})


@given(st.dictionaries(st.sampled_from(_NAMES), _AMOUNTS))
def test_to_follow_each_message_makes_the_request_valid(requests: dict[str, str]) -> None:
    for device_class in ("gpu.rootport.dev", "gpu-ratio.rootport.dev", ""):
        after = dict(requests)
        for error in mistakes(requests, device_class):
            after = applied(error.nearest[0], after)
        assert not mistakes(after, device_class)


@pytest.mark.parametrize("field", ["timeSlicing", "mps", "hamiCore"])
@pytest.mark.parametrize("strategy", [None, "exclusive", "timeSlicing", "mps", "hamiCore"])
def test_settings_of_another_strategy_lead_to_theirs_or_to_none(field: str, strategy: str | None) -> None:
    sharing = {field: {}} | ({"strategy": strategy} if strategy else {})
    found = parsed(sharing)
    if strategy in {None, field}:  # settings alone mean their strategy
        assert found == ()
        return
    (message,) = found
    assert message.endswith(f"set strategy: {field}, or leave out {field}")
    assert parsed(sharing | {"strategy": field}) == ()
    assert parsed({key: value for key, value in sharing.items() if key != field}) == ()


@pytest.mark.parametrize(
    ("parameters", "meant"),
    [
        ({"kind": "GPUConfig"}, "GpuConfig"),
        ({"kind": "GpuConfg"}, "GpuConfig"),
        ({"kind": "Rdma"}, "RdmaConfig"),
        ({"kind": "GpuConfig", "sharring": {}}, "sharing"),
        ({"kind": "GpuConfig", "sharing": {"strategy": "MPS"}}, "mps"),
        ({"kind": "GpuConfig", "sharing": {"strategy": "time-slicing"}}, "timeSlicing"),
        ({"kind": "GpuConfig", "sharing": {"strategy": "hami"}}, "hamiCore"),
        ({"kind": "GpuConfig", "sharing": {"stratgy": "mps"}}, "strategy"),
    ],
)
def test_a_name_that_is_nearly_right_leads_to_it(parameters: dict[str, object], meant: str) -> None:
    found = parse_config({"apiVersion": API_VERSION, **parameters}, "parameters")
    assert isinstance(found, tuple)
    assert [error.message.rpartition("; ")[2].rpartition(": ")[2] for error in found] == [f"did you mean {meant}?"]


def parsed(sharing: dict[str, object]) -> tuple[str, ...]:
    found = parse_config({"apiVersion": API_VERSION, "kind": "GpuConfig", "sharing": sharing}, "parameters")
    return tuple(error.message for error in found) if isinstance(found, tuple) else ()
