"""GpuPolicies: the first match wins, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from driver.api.gpu_policies import DEFAULT_POLICIES, GpuPolicies, GpuPolicy

HEADER = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies"}


def test_without_a_match_the_defaults_hold() -> None:
    policies = GpuPolicies.model_validate(HEADER | {"policies": [{"models": ["*H100*"], "maxShares": 2}]})
    place = {"node": "n", "address": "0000:1b:00.0"}
    assert policies.of(model="NVIDIA H100 PCIe", **place).max_shares == 2
    assert policies.of(model="NVIDIA A100", **place) == GpuPolicy() == DEFAULT_POLICIES.of(model=None, **place)


def test_some_gpus_of_a_node_have_rules_of_their_own() -> None:
    rules = [{"pciAddresses": ["0000:1B:*", "0000:3b:00.0"], "strategy": "mps"}]
    policies = GpuPolicies.model_validate(HEADER | {"policies": rules})
    found = {
        address: policies.of(model=None, node="n", address=address).share_strategy
        for address in ("0000:1b:00.0", "0000:3b:00.0", "0000:5e:00.0")
    }
    assert found == {"0000:1b:00.0": "mps", "0000:3b:00.0": "mps", "0000:5e:00.0": "timeSlicing"}


@pytest.mark.parametrize(
    ("policy", "strategy"),
    [({}, "timeSlicing"), ({"strategy": "hamiCore"}, "hamiCore"), ({"strategies": ["mps", "timeSlicing"]}, "mps")],
    ids=str,
)
def test_a_policy_has_one_strategy(policy: dict[str, Any], strategy: str) -> None:
    assert GpuPolicy.model_validate(policy).share_strategy == strategy


@pytest.mark.parametrize(
    ("patterns", "model", "matches"),
    [
        (["*"], None, True),
        (["?*"], None, False),
        (["A100", "H100"], "H100", True),
        (["h100"], "H100", False),
        (["NVIDIA [AH]100*"], "NVIDIA A100-SXM4-40GB", True),
        (["NVIDIA"], "NVIDIA A100", False),
    ],
    ids=str,
)
def test_models_are_glob_patterns_on_the_whole_name(patterns: list[str], model: str | None, matches: bool) -> None:
    policy = GpuPolicy.model_validate({"models": patterns})
    assert policy.is_for(model=model, node="n") is matches


def test_a_policy_is_for_its_models_on_its_nodes() -> None:
    policy = GpuPolicy.model_validate({"models": ["H100"], "nodes": ["gpu-*", "big"]})
    assert policy.is_for(model="H100", node="gpu-1")
    assert policy.is_for(model="H100", node="big")
    assert not policy.is_for(model="H100", node="cpu-1")


def test_policies_can_be_a_part_of_a_caches_key() -> None:
    one, other = (GpuPolicy.model_validate({"memory": {"minimum": text}}) for text in ("1Gi", "1024Mi"))
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"strategy": "exclusive"}, ("strategy",)),
        ({"strategy": "mps", "strategies": ["mps"]}, ()),
        ({"pciAddresses": []}, ("pciAddresses",)),
        ({"strategies": []}, ("strategies",)),
        ({"strategies": ["exclusive"]}, ("strategies", 0)),
        ({"strategies": ["mps", "mps"]}, ("strategies",)),
        ({"timeSlicingIntervals": ["Longest"]}, ("timeSlicingIntervals", 0)),
        ({"timeSlicingIntervals": ["Long", "Long"]}, ("timeSlicingIntervals",)),
        ({"core": {"minimum": 10, "step": 7}}, ("core",)),
        ({"core": {"minimum": 0}}, ("core", "minimum")),
        ({"core": {"minimum": 101}}, ("core", "minimum")),
        ({"core": {"minimum": "5"}}, ("core", "minimum")),
        ({"core": {"step": 2.0}}, ("core", "step")),
        ({"core": {"default": 101}}, ("core", "default")),
        ({"core": {"default": -1}}, ("core", "default")),
        ({"core": {"minimum": 10, "step": 10, "default": 15}}, ("core",)),
        ({"core": {"minimum": 20, "step": 10, "default": 10}}, ("core",)),
        ({"core": {"minimum": 20, "step": 10, "default": 0}}, ("core",)),
        ({"core": {"total": 99}}, ("core", "total")),
        ({"core": {"total": 10001}}, ("core", "total")),
        ({"memoryRatio": {"total": 200}}, ("memoryRatio", "total")),
        ({"memoryRatio": {"minimum": 99, "step": 2}}, ("memoryRatio",)),
        ({"memory": {"minimum": "0"}}, ("memory", "minimum")),
        ({"memory": {"step": "500m"}}, ("memory", "step")),
        ({"memory": {"step": "1e30"}}, ("memory", "step")),
        ({"memory": {"step": "many"}}, ("memory", "step")),
        ({"maxShares": 0}, ("maxShares",)),
        ({"maxShares": 101}, ("maxShares",)),
        ({"max_shares": 1}, ("max_shares",)),
        ({"modes": []}, ("modes",)),
        ({"modes": ["gpu", "gpu"]}, ("modes",)),
        ({"modes": ["mps"]}, ("modes", 0)),
        ({"models": [""]}, ("models", 0)),
        ({"models": []}, ("models",)),
        ({"models": "H100"}, ("models",)),
        ({"nodes": [1]}, ("nodes", 0)),
        ({"colour": "red"}, ("colour",)),
        ({"extraAttributes": [{"name": "a.b/c", "from": "modle"}]}, ("extraAttributes", 0, "from")),
        ({"extraAttributes": [{"name": "a.b/c", "from": "rail"}]}, ("extraAttributes", 0, "from")),
        ({"extraAttributes": [{"name": "a.b/c"}]}, ("extraAttributes", 0, "from")),
        ({"extraAttributes": [{"name": "productName", "from": "model"}]}, ("extraAttributes", 0)),
        ({"extraAttributes": [{"name": "a/b/c", "from": "model"}]}, ("extraAttributes", 0)),
        ({"extraAttributes": [{"name": "a.b/" + "c" * 33, "from": "model"}]}, ("extraAttributes", 0)),
        ({"extraAttributes": [{"name": "rootport.dev/product", "from": "model"}]}, ("extraAttributes", 0)),
        ({"extraAttributes": [{"name": "resource.kubernetes.io/x", "from": "model"}]}, ("extraAttributes", 0)),
        ({"extraAttributes": [{"name": "a.b/c", "from": "model"}] * 2}, ("extraAttributes",)),
        ({"extraAttributes": [{"name": f"a.b/c{n}", "from": "model"} for n in range(13)]}, ("extraAttributes",)),
    ],
    ids=str,
)
def test_a_mistake_is_told_by_its_field(policy: dict[str, Any], field: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        GpuPolicies.model_validate(HEADER | {"policies": [{}, policy]})
    assert ("policies", 1, *field) in [error["loc"] for error in caught.value.errors()]


@pytest.mark.parametrize(
    "header", [{}, {"kind": "GpuPolicies"}, HEADER | {"kind": "GpuPolicy"}, HEADER | {"apiVersion": "v1"}], ids=str
)
def test_the_object_says_what_it_is(header: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        GpuPolicies.model_validate(header)
