"""Shares by HAMi-core, on the real node: what the container gets, and that nothing of it is left on the host."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.pods import gpu_claim, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.cluster.strategies import HAMI_CORE_VERSION, offering

CLASS = "gpu-hami-core"
GPU = 5


@pytest.fixture(scope="module")
def options(running: RunningRootport) -> Iterator[tuple[str, ...]]:
    """Of the plugin, while one GPU is offered for HAMi-core."""
    with offering(running, hamiCore=[running.host.gpus[GPU]]) as plugin:
        yield plugin


def start(rootport: RunningRootport, name: str, **amounts: str) -> None:
    claimed = gpu_claim(name, rootport.host.gpus[GPU], type_=CLASS, **amounts)
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(claimed, pod(name, claim=name)))
    rootport.cluster.wait_for_pod(name, "Running")


def said(rootport: RunningRootport, name: str, script: str) -> str:
    return rootport.cluster.kubectl("exec", name, "--", "sh", "-c", script, check=False)


def isolation(rootport: RunningRootport, name: str) -> tuple[str, dict[str, object]]:
    """The reason of the condition Isolated where that is True, else "", and what the data says."""

    def devices() -> list[dict[str, Any]]:
        found = rootport.cluster.get("resourceclaim", name)["status"].get("devices", [])
        return [device for device in found if "isolation" in device.get("data", {})]

    wait_until("the claim's status tells the isolation", lambda: bool(devices()), timeout_s=30)
    (device,) = devices()
    reasons = [one["reason"] for one in device["conditions"] if one["type"] == "Isolated" and one["status"] == "True"]
    return "".join(reasons), device["data"]["isolation"]


def test_a_share_has_the_library_its_limits_and_a_lock_of_its_own(
    rootport: RunningRootport, options: tuple[str, ...]
) -> None:
    start(rootport, "first", core="50", memory="20Gi")
    start(rootport, "second", core="30", memory="8Gi")

    limits = said(rootport, "first", "env")
    uid = rootport.cluster.get("resourceclaim", "first")["metadata"]["uid"]
    assert f"CUDA_DEVICE_MEMORY_LIMIT={20 << 30}" in limits
    assert "CUDA_DEVICE_SM_LIMIT=50" in limits
    assert f"CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/vgpulock/{uid}.cache" in limits
    assert said(rootport, "first", "cat /etc/ld.so.preload").strip() == "/usr/local/vgpu/libvgpu.so"
    assert "CUDA_DEVICE_SM_LIMIT=50" in said(rootport, "first", "cat /overrideEnv")
    library = rootport.host.root / f"usr/local/vgpu/libvgpu.so.{HAMI_CORE_VERSION}"
    assert said(rootport, "first", "wc -c < /usr/local/vgpu/libvgpu.so").strip() == str(library.stat().st_size)

    # Any user may lock; what is written is bounded, no other container's, and no program.
    assert said(rootport, "first", "touch /tmp/vgpulock/lock && ls /tmp/vgpulock").strip() == "lock"
    assert said(rootport, "second", "ls -a /tmp/vgpulock").split() == [".", ".."]
    (mount,) = (line for line in said(rootport, "first", "cat /proc/mounts").splitlines() if "vgpulock" in line)
    assert {"tmpfs", "nosuid", "nodev", "noexec", "size=16384k", "nr_inodes=64"} <= set(re.split("[ ,]", mount))
    assert said(rootport, "first", "stat -c %a /tmp/vgpulock").strip() == "1777"
    assert "No space left" in said(rootport, "first", "dd if=/dev/zero of=/tmp/vgpulock/x bs=1M count=17 2>&1")

    reason, told = isolation(rootport, "first")
    assert (reason, told["by"], told["version"]) == ("HAMiCore", "HAMi-core", HAMI_CORE_VERSION)


def test_nothing_is_left_after_a_crash(rootport: RunningRootport, options: tuple[str, ...]) -> None:
    start(rootport, "crashed", core="50", memory="20Gi")
    assert rootport.plugin is not None
    rootport.plugin.kill()
    rootport.cluster.kubectl("delete", "pod/crashed", "--wait=false")
    rootport.start_plugin(options=options)
    rootport.delete_all()
    rootport.wait_until_clean()
    assert not Path("/tmp/vgpulock").exists()
    assert not (rootport.host.root / "tmp/vgpulock").exists()


def test_a_whole_gpu_gets_nothing_of_it(rootport: RunningRootport, options: tuple[str, ...]) -> None:
    start(rootport, "whole")
    assert "No such file" in said(rootport, "whole", "ls /etc/ld.so.preload 2>&1")
    assert "vgpu" not in said(rootport, "whole", "cat /proc/mounts; env")
    assert isolation(rootport, "whole")[0] == "Exclusive"


def test_a_library_that_is_cut_off_is_never_mounted(rootport: RunningRootport, options: tuple[str, ...]) -> None:
    """The claim is not prepared, or not even allocated to the node; and it starts when the library is whole again."""
    library = rootport.host.root / f"usr/local/vgpu/libvgpu.so.{HAMI_CORE_VERSION}"
    whole = library.read_bytes()
    library.write_bytes(whole[:-6000])
    try:
        claimed = gpu_claim("cut", rootport.host.gpus[GPU], type_=CLASS, core="50", memory="20Gi")
        rootport.cluster.kubectl("apply", "--filename=-", input=manifest(claimed, pod("cut", claim="cut")))

        def told() -> bool:
            events = json.dumps(rootport.cluster.get("events"))
            inventory = json.dumps(rootport.cluster.get("nodeinventories"))
            return "is cut off: it has" in events or "is cut off: it has" in inventory

        wait_until("it is told that the library is cut off", told, timeout_s=60)
        assert rootport.cluster.get("pod", "cut")["status"]["phase"] == "Pending"
    finally:
        library.write_bytes(whole)
    rootport.cluster.wait_for_pod("cut", "Running", timeout_s=150)
