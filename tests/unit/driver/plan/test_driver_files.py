"""NVIDIA's driver files in the CDI spec: once a claim, with the first GPU of each request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from driver.errors import InputError
from driver.plan import CdiDevice, PreparePlan, prepare_plan
from tests.support.plan.builders import UID, claim, given, gpu, nic, node
from tests.support.plan.driver_files import FILES, HOOKS, VERSION

DRIVER_ID = f"rootport.dev/claim={UID}_nvidia-driver"
GPUS = node(gpu(0), gpu(1), gpu(2, vendor="amd", minor=130), nic(0))
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def driver_device(plan: PreparePlan) -> CdiDevice:
    assert plan.spec is not None
    (device,) = [device for device in plan.spec.devices if device.id == DRIVER_ID]
    return device


def edits(device: CdiDevice) -> dict[str, Any]:
    return json.loads(json.dumps(device.edits()))


def test_the_drivers_files_stand_once_and_come_with_each_requests_first_gpu() -> None:
    of = claim(
        given("a", "rdma-0000-40-00-0"),
        given("a", "gpu-0000-10-00-0"),
        given("a", "gpu-0000-11-00-0"),
        given("watch", "gpu-0000-11-00-0", adminAccess=True),
        given("b", "gpu-0000-12-00-0"),
    )
    plan = prepare_plan(of, GPUS, driver_files=FILES)
    assert [device.cdi_device_ids[1:] for device in plan.devices] == [(), (DRIVER_ID,), (), (DRIVER_ID,), ()]
    assert plan.spec is not None
    assert [device.id for device in plan.spec.devices] == [
        *(device.cdi_device_ids[0] for device in plan.devices),
        DRIVER_ID,
    ]


@pytest.mark.parametrize("device", ["gpu-0000-12-00-0", "rdma-0000-40-00-0"], ids=["amd", "nic"])
def test_other_devices_need_none_of_nvidias_files(device: str) -> None:
    of = claim(given("r", device))
    assert prepare_plan(of, GPUS, driver_files=FILES) == prepare_plan(of, GPUS)


def test_with_nvidias_hook_program_the_links_and_the_linkers_cache_are_its_work() -> None:
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0")), GPUS, driver_files=HOOKS)
    content = edits(driver_device(plan))
    assert set(content) == {"mounts", "hooks"}
    assert [mount["containerPath"] for mount in content["mounts"]] == [
        f"{LIBRARIES}/libcuda.so.{VERSION}",
        f"{LIBRARIES}/libnvidia-ml.so.{VERSION}",
        "/usr/bin/nvidia-smi",
        f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin",
        "/run/nvidia-persistenced/socket",
    ]
    assert content["mounts"][0] == {
        "hostPath": f"{LIBRARIES}/libcuda.so.{VERSION}",
        "containerPath": f"{LIBRARIES}/libcuda.so.{VERSION}",
        "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
    }
    assert content["mounts"][-1]["options"] == ["ro", "nosuid", "nodev", "rbind", "rprivate", "noexec"]
    assert {hook["hookName"] for hook in content["hooks"]} == {"createContainer"}
    assert {hook["path"] for hook in content["hooks"]} == {"/usr/bin/nvidia-cdi-hook"}
    assert [hook["args"] for hook in content["hooks"]] == [
        [
            "nvidia-cdi-hook",
            "create-symlinks",
            "--link",
            f"libcuda.so.{VERSION}::{LIBRARIES}/libcuda.so",
            "--link",
            f"libcuda.so.{VERSION}::{LIBRARIES}/libcuda.so.1",
            "--link",
            f"libnvidia-ml.so.{VERSION}::{LIBRARIES}/libnvidia-ml.so.1",
        ],
        ["nvidia-cdi-hook", "enable-cuda-compat", f"--host-driver-version={VERSION}"],
        ["nvidia-cdi-hook", "update-ldcache", "--folder", LIBRARIES],
        ["nvidia-cdi-hook", "disable-device-node-modification"],
    ]


def test_an_older_toolkit_is_asked_for_no_hook_that_it_does_not_know() -> None:
    assert HOOKS.hook_program is not None
    old = replace(
        HOOKS, hook_program=replace(HOOKS.hook_program, path="/usr/bin/nvidia-ctk", commands=("update-ldcache",))
    )
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0")), GPUS, driver_files=old)
    (hook,) = driver_device(plan).hooks
    assert hook.args == ("nvidia-ctk", "hook", "update-ldcache", "--folder", LIBRARIES)


def test_without_it_each_library_is_mounted_under_all_its_names() -> None:
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0")), GPUS, driver_files=FILES)
    content = edits(driver_device(plan))
    assert set(content) == {"mounts"}
    assert {
        mount["containerPath"].removeprefix(f"{LIBRARIES}/"): mount["hostPath"].removeprefix(f"{LIBRARIES}/")
        for mount in content["mounts"]
        if mount["containerPath"].startswith(LIBRARIES)
    } == {
        f"libcuda.so.{VERSION}": f"libcuda.so.{VERSION}",
        "libcuda.so": f"libcuda.so.{VERSION}",
        "libcuda.so.1": f"libcuda.so.{VERSION}",
        f"libnvidia-ml.so.{VERSION}": f"libnvidia-ml.so.{VERSION}",
        "libnvidia-ml.so.1": f"libnvidia-ml.so.{VERSION}",
    }


def test_the_device_root_stands_before_the_hosts_paths_alone() -> None:
    of = claim(given("gpu", "gpu-0000-10-00-0"), given("nic", "rdma-0000-40-00-0"))
    plan = prepare_plan(of, GPUS, device_root="/srv/fake")
    assert plan.spec is not None
    assert edits(plan.spec.devices[0])["deviceNodes"][0] == {
        "path": "/dev/nvidia0",
        "hostPath": "/srv/fake/dev/nvidia0",
    }
    assert plan.device_paths[:2] == ("/srv/fake/dev/nvidia0", "/srv/fake/dev/nvidiactl")
    assert "/srv/fake/dev/infiniband/uverbs0" in plan.device_paths


def test_a_driver_containers_device_nodes_are_nvidias_alone() -> None:
    of = claim(given("gpu", "gpu-0000-10-00-0"), given("nic", "rdma-0000-40-00-0"), given("amd", "gpu-0000-12-00-0"))
    plan = prepare_plan(of, GPUS, driver_files=replace(FILES, device_root="/run/nvidia/driver"))
    assert [path for path in plan.device_paths if path.startswith("/run")] == [
        f"/run/nvidia/driver/dev/{name}" for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
    ]
    assert {"/dev/kfd", "/dev/infiniband/uverbs0"} <= set(plan.device_paths)


def test_device_paths_name_each_node_once() -> None:
    of = claim(given("gpu", "gpu-0000-10-00-0"), given("gpu", "gpu-0000-11-00-0"))
    assert prepare_plan(of, GPUS).device_paths == (
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia1",
    )
    assert prepare_plan(claim(), GPUS).device_paths == ()


def test_the_hosts_own_root_changes_nothing() -> None:
    of = claim(given("gpu", "gpu-0000-10-00-0"))
    assert prepare_plan(of, GPUS, device_root="/") == prepare_plan(of, GPUS)


@pytest.mark.parametrize("path", ["dev", "/a/../b", "/a/.", "//a", "/a/", "/a\n", "/a b", "/" + "a/" * 40 + "a"])
@pytest.mark.parametrize("flag", ["device_root", "metadata_root"])
def test_a_folder_that_is_no_plain_absolute_path_is_refused(flag: str, path: str) -> None:
    of = claim(given("gpu", "gpu-0000-10-00-0"))
    roots = {"device_root": "/", "metadata_root": "/"} | {flag: path}
    with pytest.raises(InputError, match=flag):
        prepare_plan(of, GPUS, **roots)


def test_admin_access_is_told() -> None:
    of = claim(given("gpu", "gpu-0000-10-00-0"), given("watch", "gpu-0000-10-00-0", adminAccess=True))
    assert [device.admin_access for device in prepare_plan(of, GPUS).devices] == [False, True]
