"""``hamiCore``: a library and its limits in the container, and nothing of the host to write to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.errors import InputError, NodeError
from driver.plan.isolation import GpuShare, IsolationHost
from tests.support.plan.builders import UID, gpu
from tests.support.plan.shares import BARE, GIB, SUBJECT, env, plan, share, whole_gpu


def test_a_share_gets_the_library_and_its_limits_by_environment_and_file() -> None:
    planned = plan(share(30, 10 * GIB), strategy="hamiCore")
    assert env(planned) == {
        "CUDA_DEVICE_MEMORY_LIMIT": "10737418240",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "GPU_CORE_UTILIZATION_POLICY": "default",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"/tmp/vgpulock/{UID}.cache",
    }
    preload, limits = planned.files
    assert (preload.relative_path, preload.content) == (
        f"{UID}/hami-core.preload",
        b"/usr/local/vgpu/libvgpu.so\n",
    )
    assert (limits.relative_path, limits.content.decode().splitlines()) == (
        f"{UID}/hami-core.env",
        list(planned.env),
    )
    assert [(mount.host_path, mount.container_path) for mount in planned.mounts] == [
        ("/opt/hami/libvgpu.so", "/usr/local/vgpu/libvgpu.so"),
        (f"/files/{UID}/hami-core.preload", "/etc/ld.so.preload"),
        (f"/files/{UID}/hami-core.env", "/overrideEnv"),
        ("tmpfs", "/tmp/vgpulock"),
    ]
    assert (planned.sharing, planned.effects) == ("hamiCore", ())


def test_a_container_can_write_to_nothing_of_the_host() -> None:
    mounts = plan(share(), strategy="hamiCore").mounts
    assert {mount.options for mount in mounts if not mount.type} == {("ro", "nosuid", "nodev", "bind")}


def test_the_lock_folder_is_the_containers_own_and_bounded() -> None:
    """For any user, as programs of all users take the lock; and nothing in it is a program or a device."""
    (lock,) = (mount for mount in plan(share(), strategy="hamiCore").mounts if mount.type)
    assert (lock.type, lock.host_path, lock.container_path) == ("tmpfs", "tmpfs", "/tmp/vgpulock")
    assert set(lock.options) == {"nosuid", "nodev", "noexec", "mode=1777", "size=16m", "nr_inodes=64"}


def test_a_share_without_core_has_no_limit_of_it() -> None:
    planned = plan(share(0, 10 * GIB), strategy="hamiCore")
    assert "CUDA_DEVICE_SM_LIMIT" not in env(planned)
    assert planned.isolation.enforced is True
    assert planned.isolation.message.startswith(
        "HAMi-core limits each container to 10Gi of memory; no core reserved: its core is not limited; "
    )


def test_it_is_enforced_by_this_library_and_says_what_gets_around_it() -> None:
    isolation = plan(share(30, 10 * GIB), strategy="hamiCore").isolation
    assert (isolation.enforced, isolation.by, isolation.version) == (True, "HAMi-core", "0123456789ab")
    assert isolation.message == (
        "HAMi-core limits each container to 30 % of the core and 10Gi of memory; containers of the claim "
        "together may use more, and so may a program that does not load the library: one that is linked statically, "
        "uses another C library than glibc, or calls NVIDIA's kernel driver itself"
    )


def test_a_policy_that_leaves_the_core_alone_is_advisory() -> None:
    planned = plan(share(30, 10 * GIB), strategy="hamiCore", hamiCore={"corePolicy": "disable"})
    assert env(planned)["GPU_CORE_UTILIZATION_POLICY"] == "disable"
    assert planned.isolation.enforced is False
    assert planned.isolation.message.startswith(
        "HAMi-core limits each container to 10Gi of memory; the core is not limited: corePolicy is disable; "
    )


def test_memory_that_is_not_known_is_not_limited_and_so_not_enforced() -> None:
    planned = plan(share(30, None), strategy="hamiCore")
    assert "CUDA_DEVICE_MEMORY_LIMIT" not in env(planned)
    assert planned.isolation.enforced is False
    assert "; memory is not limited: the GPU's is not known; " in planned.isolation.message


def test_equal_gpus_of_one_claim_agree_in_all_that_the_container_gets() -> None:
    plans = [
        plan(GpuShare(gpu=gpu(i), core=30, memory_bytes=GIB, whole=False, ordinal=i), strategy="hamiCore")
        for i in range(8)
    ]
    assert len({(planned.env, planned.mounts, planned.files) for planned in plans}) == 1


def test_unequal_shares_of_a_claim_contradict_each_other_in_the_environment() -> None:
    small, large = (env(plan(share(core), strategy="hamiCore")) for core in (30, 50))
    assert small["CUDA_DEVICE_SM_LIMIT"] != large["CUDA_DEVICE_SM_LIMIT"]


def test_a_whole_gpu_gets_no_library_and_needs_none() -> None:
    planned = plan(whole_gpu(), BARE, strategy="hamiCore")
    assert (planned.env, planned.mounts, planned.files, planned.effects) == ((), (), (), ())
    assert planned.sharing == "hamiCore"


def test_the_node_must_have_the_library() -> None:
    with pytest.raises(NodeError) as error:
        plan(share(), BARE, strategy="hamiCore")
    assert str(error.value) == (
        f"{SUBJECT}: the node has no HAMi-core library that works, which strategy hamiCore takes (install "
        "HAMi-core's libvgpu.so on the node, or name a DeviceClass of another strategy, such as gpu.rootport.dev)"
    )


def test_why_the_library_does_not_work_is_told() -> None:
    host = replace(BARE, hami_core_problem="/opt/hami/libvgpu.so is not an ELF file")
    with pytest.raises(NodeError, match=r"strategy hamiCore takes: /opt/hami/libvgpu\.so is not an ELF file \(install"):
        plan(share(), host, strategy="hamiCore")


def test_a_simulation_says_that_it_only_assumes_the_library() -> None:
    isolation = plan(share(), IsolationHost(simulated=True), strategy="hamiCore").isolation
    assert "it is assumed that the node has a HAMi-core that works" in isolation.message


def test_other_vendors_are_refused() -> None:
    with pytest.raises(InputError) as error:
        plan(share(vendor="amd"), strategy="hamiCore")
    assert str(error.value) == (
        f"{SUBJECT}: HAMi-core is for NVIDIA's GPUs, and this is one of vendor amd (leave out sharing.strategy, or "
        "select an NVIDIA GPU)"
    )
