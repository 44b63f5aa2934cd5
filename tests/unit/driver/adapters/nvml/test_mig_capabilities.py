"""The device nodes that give access to a MIG device. Making device nodes takes root."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.nvml.mig_capabilities import capability_minors, make_capability_nodes
from driver.errors import NodeError

MAJOR = 237
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mknod takes root")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/devices").write_text(
        f"Character devices:\n  1 mem\n{MAJOR} nvidia-caps\n{MAJOR + 1} nvidia-caps-imex\n"
    )
    return tmp_path


def make(host: Path, *minors: int) -> None:
    make_capability_nodes(HostRoot(host), HostRoot(host), minors)


def nodes(host: Path) -> dict[str, tuple[bool, int, int, int]]:
    found = {path.name: path.lstat() for path in (host / "dev/nvidia-caps").iterdir()}
    return {
        name: (stat.S_ISCHR(at.st_mode), stat.S_IMODE(at.st_mode), os.major(at.st_rdev), os.minor(at.st_rdev))
        for name, at in found.items()
    }


def access(host: Path, path: str, text: str) -> None:
    file = host / "proc/driver/nvidia/capabilities" / path / "access"
    file.parent.mkdir(parents=True)
    file.write_text(text)


def test_the_minors_are_those_of_the_gpu_instance_and_the_compute_instance(tmp_path: Path) -> None:
    access(tmp_path, "gpu3/mig/gi2", "DeviceFileMinor: 426\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    access(tmp_path, "gpu3/mig/gi2/ci1", "DeviceFileMinor: 428\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    assert capability_minors(HostRoot(tmp_path), 3, 2, 1) == (426, 428)


@pytest.mark.parametrize("text", ["", "DeviceFileMode: 292\n", "DeviceFileMinor: x\n", "DeviceFileMinor: -1\n"])
def test_a_file_without_a_minor_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    access(tmp_path, "gpu0/mig/gi1", text)
    with pytest.raises(NodeError, match="proc/driver/nvidia/capabilities/gpu0/mig/gi1/access has no DeviceFileMinor"):
        capability_minors(HostRoot(tmp_path), 0, 1, 0)


@needs_root
def test_nodes_are_made_that_all_may_read(host: Path) -> None:
    make(host, 12, 13)
    assert nodes(host) == {"nvidia-cap12": (True, 0o444, MAJOR, 12), "nvidia-cap13": (True, 0o444, MAJOR, 13)}


@needs_root
def test_a_node_that_is_there_is_left_as_it_is(host: Path) -> None:
    make(host, 12)
    node = host / "dev/nvidia-caps/nvidia-cap12"
    node.chmod(0o400)
    before = node.lstat()
    make(host, 12)
    assert (node.lstat().st_ino, node.lstat().st_mode) == (before.st_ino, before.st_mode)


@needs_root
def test_a_node_of_a_driver_that_was_loaded_before_is_replaced(host: Path) -> None:
    make(host, 12)
    (host / "proc/devices").write_text("236 nvidia-caps\n")
    make(host, 12)
    assert nodes(host) == {"nvidia-cap12": (True, 0o444, 236, 12)}


@needs_root
def test_what_a_crash_left_does_not_hinder(host: Path) -> None:
    (host / "dev/nvidia-caps").mkdir()
    (host / "dev/nvidia-caps/.nvidia-cap12.new").touch()
    (host / "dev/nvidia-caps/nvidia-cap12").touch()
    make(host, 12)
    assert nodes(host) == {"nvidia-cap12": (True, 0o444, MAJOR, 12)}


def test_without_the_drivers_major_number_nothing_is_made(host: Path) -> None:
    (host / "proc/devices").write_text("238 nvidia-caps-imex-channels\n")
    with pytest.raises(NodeError, match="/proc/devices names no nvidia-caps"):
        make(host, 12)
    assert not (host / "dev/nvidia-caps").exists()


def test_a_dev_that_cannot_be_written_is_an_error_that_names_it(host: Path) -> None:
    (host / "dev").rmdir()
    with pytest.raises(NodeError, match=r"the folder .*/dev/nvidia-caps cannot be made: No such file or directory"):
        make(host, 12)
