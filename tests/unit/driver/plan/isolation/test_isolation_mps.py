"""``mps``: a daemon for the GPU, and limits for each process."""

from __future__ import annotations

import pytest

from driver.errors import InputError, NodeError
from driver.plan.cdi import CdiMount
from driver.plan.effects import RunMpsDaemon
from driver.plan.isolation import GpuShare, IsolationHost
from tests.support.plan.builders import gpu
from tests.support.plan.shares import BARE, GIB, SUBJECT, env, plan, share, whole_gpu


def test_a_share_gets_its_daemon_and_its_limits() -> None:
    planned = plan(share(50, 20 * GIB), strategy="mps")
    folder = "/run/rootport/mps/gpu-0000-10-00-0"
    assert planned.effects == (RunMpsDaemon(gpu="gpu-0000-10-00-0", uuid="GPU-00000000", folder=folder),)
    assert env(planned) == {
        "CUDA_MPS_PIPE_DIRECTORY": "/run/rootport/mps/gpu-0000-10-00-0",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=20480M",
    }
    assert planned.mounts == (
        CdiMount(
            host_path=f"{folder}/pipe",
            container_path="/run/rootport/mps/gpu-0000-10-00-0",
            options=("rw", "nosuid", "nodev", "noexec", "bind"),
        ),
    )
    assert planned.sharing == "mps"


def test_it_is_enforced_and_says_what_gets_around_it() -> None:
    isolation = plan(share(50, 20 * GIB), strategy="mps").isolation
    assert (isolation.enforced, isolation.by, isolation.version) == (True, "MPS", "580.159.03")
    assert isolation.message == (
        "MPS limits each process to 50 % of the core and 20Gi of memory; processes of the claim together may use "
        "more, and so may a program that changes its own CUDA_MPS_* variables, or that runs as root and commands the "
        "daemon"
    )


def test_the_driver_of_the_inventory_is_the_version_where_the_host_tells_none() -> None:
    planned = plan(share(driver_version="570.1"), IsolationHost(simulated=True), strategy="mps")
    assert planned.isolation.version == "570.1"


def test_a_claims_own_limits_may_be_lower_than_its_share() -> None:
    settings = {"activeThreadPercentage": 20, "pinnedDeviceMemoryLimit": "10Gi"}
    planned = plan(share(50, 20 * GIB), strategy="mps", mps=settings)
    assert env(planned)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "20"
    assert env(planned)["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=10240M"
    assert planned.sharing == "mps"
    assert "20 % of the core and 10Gi of memory" in planned.isolation.message


def test_limits_above_the_share_are_refused_all_at_once() -> None:
    settings = {"activeThreadPercentage": 51, "pinnedDeviceMemoryLimit": "21Gi"}
    with pytest.raises(InputError) as error:
        plan(share(50, 20 * GIB), strategy="mps", mps=settings)
    assert str(error.value) == (
        f"{SUBJECT}: sharing.mps.activeThreadPercentage 51 is above the share's core of 50 %; "
        "sharing.mps.pinnedDeviceMemoryLimit 21Gi is above the share's memory of 20Gi (lower the limit, or request a "
        "larger share)"
    )


def test_memory_is_rounded_down_to_whole_mebibytes() -> None:
    assert env(plan(share(50, 2**21 - 1), strategy="mps"))["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1M"


def test_less_memory_than_mps_can_count_is_refused() -> None:
    with pytest.raises(InputError, match="MPS limits memory in units of 1Mi, and 1000 bytes are less"):
        plan(share(50, 1000), strategy="mps")


def test_memory_that_is_not_known_is_not_limited_and_so_not_enforced() -> None:
    planned = plan(share(50, None), strategy="mps")
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in env(planned)
    assert planned.isolation.enforced is False
    assert "50 % of the core; memory is not limited: the GPU's is not known" in planned.isolation.message


def test_a_whole_gpu_is_shared_by_the_claims_containers_without_limits() -> None:
    planned = plan(whole_gpu(), strategy="mps")
    assert list(env(planned)) == ["CUDA_MPS_PIPE_DIRECTORY"]
    assert len(planned.effects) == 1


def test_a_whole_gpu_has_the_limits_that_its_claim_asks_for() -> None:
    planned = plan(whole_gpu(), strategy="mps", mps={"activeThreadPercentage": 25})
    assert env(planned)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in env(planned)


@pytest.mark.parametrize(
    ("whole", "instead"),
    [
        (False, "name a DeviceClass of another strategy, such as gpu.rootport.dev"),
        (True, "set sharing.strategy to exclusive or timeSlicing"),
    ],
)
def test_several_gpus_in_one_request_are_refused(whole: bool, instead: str) -> None:
    with pytest.raises(InputError) as error:
        plan(share(ordinal=1, whole=whole), strategy="mps")
    assert str(error.value) == (
        f"{SUBJECT}: strategy mps with several GPUs in one request, and a program can use MPS on one GPU only "
        f"(request one GPU with mps in a claim, or {instead})"
    )


def test_two_gpus_of_a_claim_contradict_each_other_in_the_environment() -> None:
    # What the caller refuses a claim by: one variable with two values.
    one, other = (
        plan(GpuShare(gpu=gpu(index), core=50, memory_bytes=GIB, whole=False, ordinal=0), strategy="mps")
        for index in (0, 1)
    )
    assert env(one)["CUDA_MPS_PIPE_DIRECTORY"] != env(other)["CUDA_MPS_PIPE_DIRECTORY"]


def test_the_node_must_have_the_daemon() -> None:
    with pytest.raises(NodeError) as error:
        plan(share(), BARE, strategy="mps")
    assert str(error.value) == (
        f"{SUBJECT}: the node has no nvidia-cuda-mps-control, which strategy mps takes (install it with the node's "
        "NVIDIA driver (package nvidia-compute-utils), or name a DeviceClass of another strategy, such as "
        "gpu.rootport.dev)"
    )


def test_other_vendors_are_refused() -> None:
    with pytest.raises(InputError) as error:
        plan(share(vendor="amd"), strategy="mps")
    assert str(error.value) == (
        f"{SUBJECT}: MPS is NVIDIA's, and this is a GPU of vendor amd (leave out sharing.strategy, or select an "
        "NVIDIA GPU)"
    )


@pytest.mark.parametrize(("capability", "fits"), [("6.1", False), ("7.0", True), ("10.0", True), (None, True)])
def test_a_share_takes_a_gpu_that_keeps_limits(capability: str | None, fits: bool) -> None:
    old = share(cuda_compute_capability=capability)
    if fits:
        assert plan(old, strategy="mps").isolation.enforced
        return
    with pytest.raises(InputError) as error:
        plan(old, strategy="mps")
    assert str(error.value) == (
        f"{SUBJECT}: MPS keeps no limits on GPUs before Volta, and this one's compute capability is 6.1 "
        "(name a DeviceClass of another strategy, such as gpu.rootport.dev, or request the whole GPU)"
    )
