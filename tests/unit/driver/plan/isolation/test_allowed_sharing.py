"""What the administrator's GpuPolicies leave of a claim's wish how a GPU is shared."""

from __future__ import annotations

import re
from typing import Any

import pytest

from driver.api.gpu_policies import GpuPolicies, GpuPolicy
from driver.config import GpuSharing
from driver.errors import InputError
from driver.model.devices import DeviceType, Gpu
from driver.plan import IsolationHost, decide
from driver.plan.isolation import allowed_sharing, plan_isolation
from tests.support.plan.builders import GIB, NODE_NAME, claim, config, gpu, h100, node, parameters, share
from tests.support.plan.policies import offering
from tests.support.plan.shares import CLAIM, HOST, SUBJECT, sharing
from tests.support.plan.shares import share as gpu_share

LONG = {"interval": "Long"}


def allowed(policy: dict[str, Any], *, whole: bool = False, **wish: Any) -> tuple[GpuSharing, str]:
    return allowed_of(h100(0), policy, whole=whole, **wish)


def allowed_of(of: Gpu, policy: dict[str, Any] | None, *, whole: bool = False, **wish: Any) -> tuple[GpuSharing, str]:
    rules = None if policy is None else GpuPolicy.model_validate(policy)
    return allowed_sharing(sharing(**wish), of, rules, kind=DeviceType.GPU, whole=whole, subject=SUBJECT)


@pytest.mark.parametrize("policy", [None, {}], ids=["no policies", "the defaults"])
@pytest.mark.parametrize("wish", [{}, {"strategy": "timeSlicing", "timeSlicing": LONG}], ids=str)
@pytest.mark.parametrize("whole", [False, True])
def test_by_default_a_share_has_time_slices(policy: dict[str, Any] | None, wish: dict[str, Any], whole: bool) -> None:
    of = gpu_share(whole=whole)
    found, note = allowed_of(of.gpu, policy, whole=of.whole, **wish)
    assert note == ""
    plans = [plan_isolation(of, item, HOST, CLAIM, "gpu", SUBJECT) for item in (sharing(**wish), found)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize(
    ("policy", "wish", "told"),
    [
        ({}, {"strategy": "mps"}, "mps, and this GPU is shared by timeSlicing .*gpu-mps.rootport.dev in the request"),
        (
            {"strategies": ["mps", "hamiCore"]},
            {"strategy": "timeSlicing"},
            "timeSlicing, and this .* by mps",
        ),
        ({}, {"hamiCore": {}}, "hamiCore, and .* DeviceClass gpu-hami-core.rootport.dev"),
    ],
    ids=["mps", "time-slices", "by-settings"],
)
def test_a_share_has_the_strategy_of_its_gpu_alone(policy: dict[str, Any], wish: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        allowed(policy, **wish)
    assert re.search(told, str(caught.value))
    assert caught.value.message.startswith(SUBJECT)
    assert not caught.value.retry_helps


def test_a_share_without_a_strategy_follows_its_gpu() -> None:
    assert allowed({"strategy": "mps"})[0].strategy == "mps"
    assert allowed({"strategies": ["hamiCore", "timeSlicing"]})[0].strategy == "hamiCore"
    assert allowed({"strategy": "mps"}, mps={"activeThreadPercentage": 10})[0].strategy == "mps"


def test_a_policy_for_all_gpus_leaves_out_those_that_its_strategy_is_not_for() -> None:
    assert allowed_of(gpu(0, vendor="amd"), {"strategy": "mps"})[0].strategy == "timeSlicing"
    assert allowed_of(h100(0, cuda_compute_capability="6.1"), {"strategy": "mps"})[0].strategy == "timeSlicing"
    assert allowed_of(h100(0, cuda_compute_capability="6.1"), {"strategy": "hamiCore"})[0].strategy == "hamiCore"


def test_an_interval_that_is_not_allowed_is_replaced_and_told() -> None:
    found, note = allowed({"timeSlicingIntervals": ["Short", "Long"]}, strategy="timeSlicing")
    assert found.time_slicing is not None
    assert (found.time_slicing.interval, note) == ("Short", "")
    found, note = allowed({"timeSlicingIntervals": ["Default", "Short"]}, strategy="timeSlicing", timeSlicing=LONG)
    assert found.time_slicing is not None
    assert found.time_slicing.interval == "Default"
    assert note == "the time slice is Default, not Long: the administrator's GpuPolicies allow Default, Short"


def test_the_containers_of_a_whole_gpu_share_it_as_they_like() -> None:
    assert allowed({"strategy": "mps"}, whole=True) == (sharing(), "")
    for wish in ("exclusive", "timeSlicing", "mps"):
        assert allowed({"strategy": "mps"}, whole=True, strategy=wish)[0].strategy == wish


def test_a_claims_share_is_held_to_the_rules_of_its_gpus_model_on_its_node() -> None:
    document = {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies"}
    rules = [{"models": ["*H100*"], "nodes": [f"{NODE_NAME[:2]}*"], "pciAddresses": ["0000:10:*"], "strategy": "mps"}]
    policies = GpuPolicies.model_validate(document | {"policies": rules})
    host = IsolationHost(mps_control="/usr/bin/nvidia-cuda-mps-control", simulated=True, policies=policies)
    of = claim(
        share("r", gpu(0).name, core=50, memory=40 * GIB),
        configs=(config(parameters("GpuConfig", sharing={"strategy": "mps"})),),
    )
    ours, other = node(h100(0, model="NVIDIA H100 NVL")), node(h100(0, model="NVIDIA A100"))
    decide(of, ours, host=host)
    with pytest.raises(InputError, match="this GPU is shared by timeSlicing"):
        decide(of, other, host=host)


def test_a_claims_own_settings_keep_the_strategy_of_its_class() -> None:
    of_class = config(parameters("GpuConfig", sharing={"strategy": "mps"}), source="FromClass")
    own = config(parameters("GpuConfig"))
    of = claim(share("r", gpu(0).name, core=50, memory=40 * GIB), configs=(of_class, own))
    host = IsolationHost(simulated=True, policies=offering("mps"))
    (device,) = decide(of, node(h100(0)), host=host).devices
    assert device.gpu_use is not None
    assert device.gpu_use.sharing == "mps"
