"""RdmaConfig: what is accepted, what is refused, and that no name or number of a claim's author is more than that."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.api import API_VERSION
from driver.api.strict import read
from driver.config import (
    RdmaConfig,
    RdmaInterface,
    RdmaVfParameters,
    interface_name_error,
    parse_config,
)

WHERE = "spec.devices.config[0].opaque.parameters"


def rdma(**fields: object) -> dict[str, object]:
    return {"apiVersion": API_VERSION, "kind": "RdmaConfig", **fields}


def errors(**fields: object) -> dict[str, str]:
    """The errors, by path below WHERE."""
    parsed = parse_config(rdma(**fields), WHERE)
    assert isinstance(parsed, tuple)
    return {error.path.removeprefix(WHERE): error.message for error in parsed}


def test_by_default_the_interface_stays_on_the_host_and_the_container_is_told_its_nics() -> None:
    assert parse_config(rdma(), WHERE) == RdmaConfig(rdma_cm=True, environment=True, interface=None, vf=None)


def test_everything_can_be_set() -> None:
    vf = {"vlan": 4094, "vlanQoS": 7, "trust": True, "spoofCheck": False, "minTxRate": 10, "maxTxRate": 10}
    parsed = parse_config(rdma(environment=False, interface={"name": "rdma0", "mtu": 9000}, vf=vf), WHERE)
    assert parsed == RdmaConfig(
        environment=False, interface=RdmaInterface(name="rdma0", mtu=9000), vf=read(RdmaVfParameters, vf)
    )


def test_an_empty_interface_is_moved_under_its_own_name_and_null_is_absent() -> None:
    assert parse_config(rdma(interface={}), WHERE) == RdmaConfig(interface=RdmaInterface())
    assert parse_config(rdma(interface=None, vf=None), WHERE) == RdmaConfig()


def test_a_guid_is_kept_in_lower_case() -> None:
    parsed = parse_config(rdma(vf={"guid": "00:11:22:33:44:55:AA:Ff"}), WHERE)
    assert isinstance(parsed, RdmaConfig)
    assert parsed.vf == RdmaVfParameters(guid="00:11:22:33:44:55:aa:ff")


@pytest.mark.parametrize(
    ("fields", "path", "part"),
    [
        ({"environment": "no"}, ".environment", "expected true or false, not 'no'"),
        ({"interface": True}, ".interface", "expected an object"),
        ({"interface": {"ifName": "x"}}, ".interface.ifName", "unknown field; did you mean name?"),
        ({"interface": {"mtu": 67}}, ".interface.mtu", "must be at least 68, not 67"),
        ({"interface": {"mtu": 65536}}, ".interface.mtu", "must be at most 65535, not 65536"),
        ({"interface": {"mtu": True}}, ".interface.mtu", "whole number, not true"),
        ({"interface": {"mtu": "9000"}}, ".interface.mtu", "whole number, not '9000'"),
        ({"vf": {"vlanQos": 1}}, ".vf.vlanQos", "unknown field; did you mean vlanQoS?"),
        ({"vf": {"vlan": 4095}}, ".vf.vlan", "must be at most 4094, not 4095"),
        ({"vf": {"vlan": 5, "vlanQoS": 8}}, ".vf.vlanQoS", "must be at most 7, not 8"),
        ({"vf": {"vlanQoS": 1}}, ".vf.vlanQoS", "is only for a vlan"),
        ({"vf": {"vlan": 0, "vlanQoS": 1}}, ".vf.vlanQoS", "is only for a vlan"),
        ({"vf": {"minTxRate": 200, "maxTxRate": 100}}, ".vf.maxTxRate", "100 is less than minTxRate, 200"),
        ({"vf": {"trust": 1}}, ".vf.trust", "expected true or false, not 1"),
        ({"vf": {"guid": "0011:2233:4455:6677"}}, ".vf.guid", "'0011:2233:4455:6677' is not a GUID"),
        ({"vf": {"guid": "00:11:22:33:44:55:66:77\n"}}, ".vf.guid", "is not a GUID"),
        ({"vf": {"guid": ":".join(["00"] * 8)}}, ".vf.guid", "is not a GUID"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_mistake_is_told_with_its_path(fields: dict[str, object], path: str, part: str) -> None:
    (found,) = errors(**fields).items()
    assert found[0] == path
    assert part in found[1]


def test_no_limit_is_no_less_than_a_guarantee() -> None:
    assert isinstance(parse_config(rdma(vf={"minTxRate": 100, "maxTxRate": 0}), WHERE), RdmaConfig)


def test_all_mistakes_are_told_at_once() -> None:
    found = errors(rdmaCM=1, interface={"name": "eth0", "mtu": 1}, vf={"vlan": -1, "vlanQoS": 1, "guid": "x"})
    assert list(found) == [".rdmaCM", ".interface.name", ".interface.mtu", ".vf.vlan", ".vf.guid"]


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "../../etc/passwd", "-help", "a b", "a\n", "a:1", "eth%d", "é", "x" * 16, "x" * 10_000],
)
def test_what_is_no_name_or_means_something_to_a_program_is_refused(name: str) -> None:
    (message,) = errors(interface={"name": name}).values()
    assert "cannot be an interface's name" in message
    assert "\n" not in message
    assert len(message) < 250


@pytest.mark.parametrize("name", ["lo", "eth0", "all", "default"])
def test_a_name_that_every_pod_has_already_is_refused(name: str) -> None:
    assert "is taken in every pod" in errors(interface={"name": name})[".interface.name"]


@given(st.text(max_size=20) | st.from_regex(r"[a-z0-9._/-]{0,18}", fullmatch=True))
def test_a_name_that_is_taken_is_one_word_that_linux_takes(name: str) -> None:
    if interface_name_error(name) is None:
        assert re.fullmatch(r"[^\s/:%\0]{1,15}", name)
        assert name not in (".", "..")
        assert not name.startswith("-")
        assert name.isascii()
