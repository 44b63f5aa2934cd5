"""What the administrator's GpuPolicies leave of a claim's wish how a GPU is shared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from driver.api.gpu_policies import GpuPolicies, GpuPolicy
from driver.config import GpuSharing
from driver.errors import InputError
from driver.plan import IsolationHost, decide
from driver.plan.isolation import allowed_sharing, plan_isolation
from tests.support.plan.builders import GIB, NODE_NAME, claim, config, gpu, h100, node, parameters, share
from tests.support.plan.shares import CLAIM, HOST, SUBJECT, sharing
from tests.support.plan.shares import share as gpu_share

LONG = {"interval": "Long"}


def allowed(policy: dict[str, Any], *, whole: bool = False, **wish: Any) -> GpuSharing:
    return allowed_sharing(sharing(**wish), GpuPolicy.model_validate(policy), whole=whole, subject=SUBJECT)


@pytest.mark.parametrize("wish", [{}, {"strategy": "mps"}, {"strategy": "timeSlicing", "timeSlicing": LONG}], ids=str)
@pytest.mark.parametrize("core", [50, 100])
def test_without_rules_a_claim_is_planned_as_it_was(wish: dict[str, Any], core: int) -> None:
    of = gpu_share(core=core)
    found = allowed_sharing(sharing(**wish), GpuPolicy(), whole=of.whole, subject=SUBJECT)
    plans = [plan_isolation(of, item, HOST, CLAIM, "gpu", SUBJECT) for item in (sharing(**wish), found)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("policy", "wish", "told"),
    [
        ({"strategies": ["timeSlicing"]}, {"strategy": "mps"}, "sharing.strategy mps .* allow timeSlicing$"),
        ({"strategies": ["mps", "hamiCore"]}, {"strategy": "timeSlicing"}, "timeSlicing .* allow mps, hamiCore$"),
        (
            {"timeSlicingIntervals": ["Default", "Short"]},
            {"strategy": "timeSlicing", "timeSlicing": LONG},
            "sharing.timeSlicing.interval Long .* allow Default, Short$",
        ),
    ],
    ids=["strategy", "usual-strategy", "interval"],
)
def test_what_is_not_allowed_is_refused_by_name(policy: dict[str, Any], wish: dict[str, Any], told: str) -> None:
    for whole in (False, True):
        with pytest.raises(InputError) as caught:
            allowed(policy, whole=whole, **wish)
        assert caught.match(told.removesuffix("$"))
        assert caught.value.message.startswith(SUBJECT)
        assert "GpuPolicies" in caught.value.message
        assert not caught.value.retry_helps


def test_what_a_claim_does_not_say_is_the_first_that_is_allowed() -> None:
    assert allowed({"strategies": ["mps", "hamiCore"]}).strategy == "mps"
    assert allowed({"strategies": ["mps", "timeSlicing"]}).strategy == "timeSlicing", "the usual, where it is allowed"
    found = allowed({"timeSlicingIntervals": ["Short", "Long"]}, strategy="timeSlicing")
    assert found.time_slicing is not None
    assert found.time_slicing.interval == "Short"


def test_a_whole_gpu_may_always_be_a_claims_own() -> None:
    assert allowed({"strategies": ["mps"]}, whole=True) == sharing()
    assert allowed({"strategies": ["mps"]}, whole=True, strategy="exclusive").strategy == "exclusive"


def test_a_claims_share_is_held_to_the_rules_of_its_gpus_model_on_its_node() -> None:
    document = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies"}
    rules = [{"models": ["*H100*"], "nodes": [f"{NODE_NAME[:2]}*"], "strategies": ["timeSlicing"]}]
    policies = GpuPolicies.model_validate(document | {"policies": rules})
    of = claim(
        share("r", gpu(0).name, core=50, memory=40 * GIB),
        configs=(config(parameters("GpuConfig", sharing={"strategy": "mps"})),),
    )
    host = IsolationHost(mps_control="/usr/bin/nvidia-cuda-mps-control", simulated=True)
    ours, other = node(h100(0, model="NVIDIA H100 NVL")), node(h100(0, model="NVIDIA A100"))
    decide(of, ours, host=host)
    decide(of, other, host=replace(host, policies=policies))
    with pytest.raises(InputError, match="GpuPolicies allow timeSlicing"):
        decide(of, ours, host=replace(host, policies=policies))
