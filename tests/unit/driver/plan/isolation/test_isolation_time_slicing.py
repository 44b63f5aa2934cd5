"""``timeSlicing``: turns, an interval for all, no limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.plan.effects import SetTimeSlice
from driver.plan.isolation import GpuShare, IsolationHost
from tests.support.plan.shares import BARE, GIB, HOST, plan, share


def test_a_share_is_advisory_and_says_so() -> None:
    isolation = plan(share(30, 10 * GIB), strategy="timeSlicing").isolation
    assert (isolation.enforced, isolation.by, isolation.version) == (False, "time-slicing", None)
    assert isolation.message == (
        "30 % of the core and 10Gi of memory are set aside for this claim, and nothing holds it to that: programs on "
        "the GPU take turns of equal length, and each may allocate all of the GPU's memory"
    )


@pytest.mark.parametrize("whole", [False, True])
def test_an_interval_is_set_on_the_gpu_and_all_its_users_must_agree_on_it(whole: bool) -> None:
    planned = plan(share(whole=whole), strategy="timeSlicing", timeSlicing={"interval": "Long"})
    assert planned.effects == (SetTimeSlice(gpu="gpu-0000-10-00-0", uuid="GPU-00000000", interval="Long"),)
    assert planned.sharing == "timeSlicing interval=Long"


def test_the_default_interval_takes_no_tool() -> None:
    planned = plan(share(), BARE, strategy="timeSlicing", timeSlicing={"interval": "Default"})
    assert planned.effects == ()


@pytest.mark.parametrize(
    ("of", "host", "why"),
    [
        pytest.param(share(), BARE, "the node has no nvidia-smi, which sets it", id="no nvidia-smi"),
        pytest.param(share(uuid=None), HOST, "the GPU's UUID is not known, and nvidia-smi needs it", id="no UUID"),
        pytest.param(share(vendor="amd"), HOST, "it cannot be set on GPUs of vendor amd", id="another vendor"),
    ],
)
def test_an_interval_that_cannot_be_set_is_told_and_keeps_no_pod_waiting(
    of: GpuShare, host: IsolationHost, why: str
) -> None:
    planned = plan(of, host, strategy="timeSlicing", timeSlicing={"interval": "Short"})
    assert planned.effects == ()
    assert planned.sharing == "timeSlicing interval=Default"
    assert planned.isolation.message.endswith(f"; the time slice is not Short: {why}")


@pytest.mark.parametrize("asked", ["Default", "Short", "Long"])
def test_the_first_share_of_a_gpu_decides_on_the_interval(asked: str) -> None:
    of = share()
    host = replace(HOST, in_use={of.gpu.name: "timeSlicing interval=Long"})
    planned = plan(of, host, strategy="timeSlicing", timeSlicing={"interval": asked})
    assert planned.sharing == "timeSlicing interval=Long"
    # Its own as well, so that the time slice stays when the first share ends.
    assert [effect.interval for effect in planned.effects if isinstance(effect, SetTimeSlice)] == ["Long"]
    told = f"the time slice is Long, not {asked}: another share has set it"
    assert planned.isolation.message.endswith(told) is (asked != "Long")
