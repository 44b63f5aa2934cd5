"""NicPolicies: the first match wins, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from driver.api.nic_policies import DEFAULT_NIC_POLICIES, NicPolicies, NicPolicy
from driver.api.quantity import Quantity

HEADER = {"apiVersion": "rootport.dev/v1alpha1", "kind": "NicPolicies"}


def test_without_a_match_the_defaults_hold() -> None:
    policies = NicPolicies.model_validate(HEADER | {"policies": [{"models": ["*-7*"], "nodes": ["a"], "vfs": "named"}]})
    assert policies.of(model="ConnectX-7", node="a").vfs == "named"
    assert policies.of(model="ConnectX-7", node="b") == NicPolicy() == DEFAULT_NIC_POLICIES.of(model=None, node="a")


def test_the_defaults_pool_vfs_and_share_nics_by_the_gigabit() -> None:
    policy = NicPolicy()
    assert (policy.vfs, policy.sharing) == ("pooled", True)
    assert (policy.bandwidth.minimum, policy.bandwidth.step) == (Quantity("1G"), Quantity("1G"))


@pytest.mark.parametrize(
    ("policy", "field"),
    [
        ({"vfs": "some"}, ("vfs",)),
        ({"sharing": "yes"}, ("sharing",)),
        ({"sharing": 1}, ("sharing",)),
        ({"bandwidth": "10G"}, ("bandwidth",)),
        ({"bandwidth": {"minimum": "0"}}, ("bandwidth", "minimum")),
        ({"bandwidth": {"step": "500m"}}, ("bandwidth", "step")),
        ({"bandwidth": {"step": "1e30"}}, ("bandwidth", "step")),
        ({"bandwidth": {"step": "10Gb"}}, ("bandwidth", "step")),
        ({"bandwidth": {"maximum": "10G"}}, ("bandwidth", "maximum")),
        ({"models": []}, ("models",)),
        ({"nodes": [""]}, ("nodes", 0)),
        ({"modes": ["gpu"]}, ("modes",)),
        ({"rails": [{"rail": 0}]}, ("rails", 0)),
        ({"rails": [{"ifNames": ["ib0"]}]}, ("rails", 0, "rail")),
        ({"rails": [{"rail": -1, "ifNames": ["ib0"]}]}, ("rails", 0, "rail")),
        ({"rails": [{"rail": 4096, "ifNames": ["ib0"]}]}, ("rails", 0, "rail")),
        ({"rails": [{"rail": 0, "ifNames": []}]}, ("rails", 0, "ifNames")),
        ({"rails": [{"rail": 0, "interface": "ib0"}]}, ("rails", 0, "interface")),
        ({"extraAttributes": [{"name": "a.b/c", "from": "uuid"}]}, ("extraAttributes", 0, "from")),
    ],
    ids=str,
)
def test_a_mistake_is_told_by_its_field(policy: dict[str, Any], field: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        NicPolicies.model_validate(HEADER | {"policies": [{}, policy]})
    assert ("policies", 1, *field) in [error["loc"] for error in caught.value.errors()]


def test_an_amount_says_its_unit() -> None:
    with pytest.raises(ValidationError, match="expected whole bits per second, at least 1, such as 10G, not 0"):
        NicPolicy.model_validate({"bandwidth": {"minimum": "0"}})


def test_the_policies_of_gpus_are_no_policies_of_nics() -> None:
    with pytest.raises(ValidationError):
        NicPolicies.model_validate(HEADER | {"kind": "GpuPolicies"})
