"""``timeSlicing``: turns, an interval for all, no limits."""

from __future__ import annotations

import pytest

from driver.errors import InputError, NodeError
from driver.plan.effects import SetTimeSlice
from tests.support.plan.shares import BARE, GIB, SUBJECT, plan, share


def test_a_share_is_advisory_and_says_so() -> None:
    isolation = plan(share(30, 10 * GIB), strategy="timeSlicing").isolation
    assert (isolation.enforced, isolation.by, isolation.version) == (False, "time-slicing", None)
    assert isolation.message == (
        "30 % of the core and 10Gi of memory are set aside for this claim, and nothing holds it to that: programs on "
        "the GPU take turns of equal length, and each may allocate all of the GPU's memory"
    )


@pytest.mark.parametrize("core", [50, 100])
def test_an_interval_is_set_on_the_gpu_and_all_its_users_must_agree_on_it(core: int) -> None:
    planned = plan(share(core), strategy="timeSlicing", timeSlicing={"interval": "Long"})
    assert planned.effects == (SetTimeSlice(gpu="gpu-0000-10-00-0", uuid="GPU-00000000", interval="Long"),)
    assert planned.sharing == "timeSlicing interval=Long"


def test_the_default_interval_takes_no_tool() -> None:
    planned = plan(share(), BARE, strategy="timeSlicing", timeSlicing={"interval": "Default"})
    assert planned.effects == ()


def test_an_interval_takes_nvidia_smi() -> None:
    with pytest.raises(NodeError) as error:
        plan(share(), BARE, strategy="timeSlicing", timeSlicing={"interval": "Short"})
    assert str(error.value) == (
        f"{SUBJECT}: the node has no nvidia-smi, which sets the time slice Short (install nvidia-smi with the node's "
        "NVIDIA driver, or leave out sharing.timeSlicing.interval)"
    )


def test_an_interval_takes_the_gpus_uuid() -> None:
    with pytest.raises(NodeError) as error:
        plan(share(uuid=None), strategy="timeSlicing", timeSlicing={"interval": "Short"})
    assert str(error.value) == (
        f"{SUBJECT}: the GPU's UUID is not known, and NVIDIA's tools need it to share the GPU (check that the NVIDIA "
        "driver and libnvidia-ml.so.1 work on the node: nvidia-smi -L)"
    )


def test_other_vendors_have_the_default_interval_alone() -> None:
    assert plan(share(vendor="amd"), strategy="timeSlicing").isolation.enforced is False
    with pytest.raises(InputError) as error:
        plan(share(vendor="amd"), strategy="timeSlicing", timeSlicing={"interval": "Long"})
    assert str(error.value) == (
        f"{SUBJECT}: time slices of a GPU of vendor amd cannot be set to Long (leave out "
        "sharing.timeSlicing.interval, or select an NVIDIA GPU)"
    )
