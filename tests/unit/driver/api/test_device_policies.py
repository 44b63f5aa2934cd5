"""DevicePolicies: every match holds, the first that says something wins, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from driver.api.device_policies import DEFAULT_DEVICE_POLICIES, DeviceFacts, DevicePolicies, DevicePolicy, DeviceVersion

HEADER = {"apiVersion": "rootport.dev/v1alpha1", "kind": "DevicePolicies"}
VF = DeviceFacts(
    type="rdma-vf",
    node="a",
    models=("NVIDIA ConnectX-7",),
    pci_addresses=("0000:3b:00.2", "0000:3b:00.0"),
    if_names=("eth0v0", "eth0"),
    rdma_devices=("mlx5_4", "mlx5_0"),
    pcie_switches=("0000:3a:00.0",),
)


def test_every_value_of_a_device_can_be_named() -> None:
    matching: list[dict[str, Any]] = [
        {},
        {"types": ["rdma-vf"]},
        {"models": ["*ConnectX-7*"]},
        {"nodes": ["a"]},
        {"pciAddresses": ["0000:3b:00.0"]},
        {"pciAddresses": ["*.2"]},
        {"ifNames": ["eth0"]},
        {"rdmaDevices": ["mlx5_0"]},
        {"pcieSwitches": ["0000:3a:*"]},
        {"types": ["gpu", "rdma-vf"], "nodes": ["b", "a"], "ifNames": ["eth?"]},
    ]
    others = [{"types": ["rdma"]}, {"models": ["*A100*"]}, {"nodes": ["A"]}, {"ifNames": ["eth1"], "nodes": ["a"]}]
    for rule in matching:
        assert DevicePolicy.model_validate(rule | {"offer": False}).is_for(VF), rule
    for rule in others:
        assert not DevicePolicy.model_validate(rule | {"offer": False}).is_for(VF), rule


def test_what_is_not_known_matches_a_star_alone() -> None:
    gpu = DeviceFacts(type="gpu", node="a", pci_addresses=("0000:01:00.0",), if_names=())
    assert DevicePolicy.model_validate({"models": ["*"], "ifNames": ["*"], "offer": False}).is_for(gpu)
    assert not DevicePolicy.model_validate({"models": ["?*"], "offer": False}).is_for(gpu)
    assert not DevicePolicy.model_validate({"ifNames": ["?*"], "offer": False}).is_for(gpu)


def test_the_matches_are_told_with_their_places() -> None:
    policies = DevicePolicies.model_validate(
        HEADER | {"policies": [{"types": ["gpu"], "offer": False}, {"offer": True}, {"defaultRoute": "allow"}]}
    )
    assert [place for place, _ in policies.of(VF)] == [1, 2]
    assert not list(DEFAULT_DEVICE_POLICIES.of(VF))


def test_values_keep_their_types() -> None:
    attributes = {"a.b/text": "storage", "a.b/int": 3, "a.b/bool": True, "a.b/version": {"version": "1.2.0-rc.1+x"}}
    found = DevicePolicy.model_validate({"attributes": attributes}).attributes
    assert found == attributes | {"a.b/version": DeviceVersion("1.2.0-rc.1+x")}
    assert [type(value) for value in found.values()] == [str, int, bool, DeviceVersion]


@pytest.mark.parametrize(
    ("policy", "field", "message"),
    [
        ({}, (), "say what holds"),
        ({"types": ["gpu"]}, (), "say what holds"),
        ({"offer": "no"}, ("offer",), "bool"),
        ({"types": ["gpus"], "offer": False}, ("types", 0), "gpu"),
        ({"ifNames": [], "offer": False}, ("ifNames",), ""),
        ({"ifNames": "eth0", "offer": False}, ("ifNames",), ""),
        ({"interfaces": ["eth0"], "offer": False}, ("interfaces",), ""),
        ({"defaultRoute": True}, ("defaultRoute",), "allow"),
        ({"attributes": {"role": "storage"}}, ("attributes",), "has no domain"),
        ({"attributes": {"rootport.dev/role": "storage"}}, ("attributes",), "a domain of yours"),
        ({"attributes": {"resource.kubernetes.io/numaNode": 1}}, ("attributes",), "standard name"),
        ({"attributes": {"example.com/my-role": "storage"}}, ("attributes",), "C identifier"),
        ({"attributes": {"a/b/c": "storage"}}, ("attributes",), "more than one '/'"),
        ({"attributes": {"example.com/role": ""}}, ("attributes", "example.com/role"), "printable text"),
        ({"attributes": {"example.com/role": "x" * 65}}, ("attributes", "example.com/role"), "printable text"),
        ({"attributes": {"example.com/role": "\0uuid"}}, ("attributes", "example.com/role"), "printable text"),
        ({"attributes": {"example.com/role": 1.5}}, ("attributes", "example.com/role"), "in quotes"),
        ({"attributes": {"example.com/role": 2**63}}, ("attributes", "example.com/role"), "whole number"),
        ({"attributes": {"example.com/role": ["a"]}}, ("attributes", "example.com/role"), "in quotes"),
        ({"attributes": {"example.com/role": {"version": "1.2"}}}, ("attributes", "example.com/role"), "semantic"),
        ({"attributes": {f"example.com/a{number}": 1 for number in range(13)}}, ("attributes",), "too many"),
    ],
    ids=str,
)
def test_a_mistake_is_told_by_its_field(policy: dict[str, Any], field: tuple[str | int, ...], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        DevicePolicies.model_validate(HEADER | {"policies": [{"offer": True}, policy]})
    found = {error["loc"]: error["msg"] for error in caught.value.errors()}
    assert message in found["policies", 1, *field]


def test_a_wrong_value_is_answered_with_the_form_of_a_version() -> None:
    with pytest.raises(ValueError, match=r"or \{version: 1\.2\.0\}; other values in quotes"):
        DevicePolicy.model_validate({"attributes": {"example.com/speed": 1.5}})
