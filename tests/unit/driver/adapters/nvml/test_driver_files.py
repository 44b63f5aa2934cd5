"""NVIDIA's driver files are found as distributions, driver containers and NVIDIA's own installer lay them out."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.nvml.driver_files import driver_files_are_there, find_driver_files, kernel_driver_version
from driver.errors import InputError, NodeError
from driver.plan import DriverFiles, HostFile

VERSION = "580.95.05"
UBUNTU = "usr/lib/x86_64-linux-gnu"
ELF_64, ELF_32 = b"\x7fELF\x02\x01\x01", b"\x7fELF\x01\x01\x01"
CURRENT_TOOLKIT = b"...enable-cuda-compat...disable-device-node-modification..."


class Host:
    """A host's tree below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, content: bytes = ELF_64) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content)

    def link(self, path: str, target: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(target)

    def driver(self, folder: str, version: str = VERSION) -> None:
        """libcuda, libnvidia-ml and a library that is only known by its version, as ldconfig leaves them."""
        for stem in ("libcuda", "libnvidia-ml", "libnvidia-eglcore"):
            self.file(f"{folder}/{stem}.so.{version}")
        self.link(f"{folder}/libcuda.so.1", f"libcuda.so.{version}")
        self.link(f"{folder}/libcuda.so", "libcuda.so.1")
        self.link(f"{folder}/libnvidia-ml.so.1", f"libnvidia-ml.so.{version}")

    def find(self, version: str = VERSION, *, driver_root: str = "") -> DriverFiles:
        files = find_driver_files(HostRoot(self.root), version, driver_root=driver_root)
        assert files is not None
        return files


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def libraries(files: DriverFiles) -> dict[str, tuple[str, ...]]:
    """The other names of each library, by its path in the container."""
    return {library.container_path: library.names for library in files.libraries}


def test_ubuntu_has_the_libraries_in_the_multiarch_folder(host: Host) -> None:
    host.driver(UBUNTU)
    host.file(f"{UBUNTU}/libcudart.so.12.4.127")
    host.file(f"{UBUNTU}/libnvidia-ml.so.570.10")
    host.link("lib", "usr/lib")
    files = host.find()
    assert libraries(files) == {
        f"/{UBUNTU}/libcuda.so.{VERSION}": ("libcuda.so", "libcuda.so.1"),
        f"/{UBUNTU}/libnvidia-eglcore.so.{VERSION}": (),
        f"/{UBUNTU}/libnvidia-ml.so.{VERSION}": ("libnvidia-ml.so.1",),
    }
    assert all(library.host_path == library.container_path for library in files.libraries)
    assert (files.version, files.hook_program, files.device_root) == (VERSION, None, "")


def test_red_hat_has_32_bit_libraries_beside_the_64_bit_ones(host: Host) -> None:
    host.driver("usr/lib64")
    host.file(f"usr/lib/libcuda.so.{VERSION}", ELF_32)
    host.file(f"usr/lib/libnvidia-only32.so.{VERSION}", ELF_32)
    host.file(f"usr/lib64/vdpau/libvdpau_nvidia.so.{VERSION}")
    host.file("usr/lib64/libnvidia-nvvm70.so.4")
    assert set(libraries(host.find())) == {
        f"/usr/lib64/{name}"
        for name in (
            f"libcuda.so.{VERSION}",
            f"libnvidia-eglcore.so.{VERSION}",
            f"libnvidia-ml.so.{VERSION}",
            "libnvidia-nvvm70.so.4",
            f"vdpau/libvdpau_nvidia.so.{VERSION}",
        )
    }


def test_debians_own_folder_becomes_the_linkers_in_the_container(host: Host) -> None:
    host.driver(f"{UBUNTU}/nvidia/current")
    host.link(f"{UBUNTU}/libcuda.so.1", "/etc/alternatives/glx--libcuda.so.1-x86_64-linux-gnu")
    host.link("etc/alternatives/glx--libcuda.so.1-x86_64-linux-gnu", f"/{UBUNTU}/nvidia/current/libcuda.so.1")
    host.file("usr/lib/nvidia/current/nvidia-smi")
    host.link("usr/bin/nvidia-smi", "/etc/alternatives/nvidia--nvidia-smi")
    host.link("etc/alternatives/nvidia--nvidia-smi", "/usr/lib/nvidia/current/nvidia-smi")
    files = host.find()
    assert files.libraries[0].host_path == f"/{UBUNTU}/nvidia/current/libcuda.so.{VERSION}"
    assert files.libraries[0].container_path == f"/{UBUNTU}/libcuda.so.{VERSION}"
    assert files.libraries[0].names == ("libcuda.so", "libcuda.so.1")
    assert files.files == (
        HostFile(host_path="/usr/lib/nvidia/current/nvidia-smi", container_path="/usr/bin/nvidia-smi"),
    )


def test_the_linkers_cache_leads_to_an_unusual_folder(host: Host) -> None:
    host.driver("opt/odd/lib")
    host.file(
        "etc/ld.so.cache",
        b"glibc-ld.so.cache1.1\x05\x00\x00\x00libc.so.6\x00/lib/libc.so.6\x00libcuda.so.1\x00"
        b"/opt/odd/lib/libcuda.so.1\x00/opt/odd/lib/libnvidia-ml.so.1\x00",
    )
    assert f"/opt/odd/lib/libcuda.so.{VERSION}" in libraries(host.find())
    host.file("etc/ld.so.cache", b"\x00/../etc/libcuda.so.1\x00/" + b"a/" * 5000 + b"libcuda.so.1\x00")
    assert find_driver_files(HostRoot(host.root), VERSION) is None


def test_libcuda_gets_its_names_where_the_host_made_no_links(host: Host) -> None:
    host.file(f"{UBUNTU}/libcuda.so.{VERSION}")
    assert libraries(host.find()) == {f"/{UBUNTU}/libcuda.so.{VERSION}": ("libcuda.so", "libcuda.so.1")}


def test_a_link_to_another_version_is_no_name_of_this_one(host: Host) -> None:
    host.file(f"{UBUNTU}/libcuda.so.{VERSION}")
    host.file(f"{UBUNTU}/libnvidia-ml.so.{VERSION}")
    host.file(f"{UBUNTU}/libnvidia-ml.so.470.1")
    host.link(f"{UBUNTU}/libnvidia-ml.so.1", "libnvidia-ml.so.470.1")
    assert libraries(host.find())[f"/{UBUNTU}/libnvidia-ml.so.{VERSION}"] == ()


def test_libraries_of_another_version_are_no_driver(host: Host) -> None:
    host.driver(UBUNTU, "570.10")
    assert find_driver_files(HostRoot(host.root), VERSION) is None


def test_programs_firmware_and_the_sockets_that_are_there(host: Host) -> None:
    host.driver(UBUNTU)
    for path in ("usr/bin/nvidia-smi", "usr/local/bin/nvidia-smi", "usr/bin/nvidia-cuda-mps-control", "usr/bin/other"):
        host.file(path)
    host.link("lib", "usr/lib")
    for name in ("gsp_ga10x.bin", "gsp_tu10x.bin", "other.bin"):
        host.file(f"usr/lib/firmware/nvidia/{VERSION}/{name}")
    host.file("run/nvidia-persistenced/socket")
    files = host.find()
    assert [file.container_path for file in files.files] == [
        "/usr/bin/nvidia-smi",
        "/usr/bin/nvidia-cuda-mps-control",
        f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin",
        f"/lib/firmware/nvidia/{VERSION}/gsp_tu10x.bin",
    ]
    assert files.files[2].host_path == f"/usr/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin"
    assert [file.host_path for file in files.sockets] == ["/run/nvidia-persistenced/socket"]


def test_a_driver_container_has_its_own_root_and_device_nodes(host: Host) -> None:
    host.driver(f"run/nvidia/driver/{UBUNTU}")
    host.file("run/nvidia/driver/usr/bin/nvidia-smi")
    host.link("run/nvidia/driver/bin", "/usr/bin")
    host.file("usr/bin/nvidia-cdi-hook", CURRENT_TOOLKIT)
    files = host.find(driver_root="/run/nvidia/driver")
    assert files.libraries[0].host_path == f"/run/nvidia/driver/{UBUNTU}/libcuda.so.{VERSION}"
    assert files.libraries[0].container_path == f"/{UBUNTU}/libcuda.so.{VERSION}"
    assert files.files == (
        HostFile(host_path="/run/nvidia/driver/usr/bin/nvidia-smi", container_path="/usr/bin/nvidia-smi"),
    )
    assert files.hook_program is not None
    assert files.hook_program.path == "/usr/bin/nvidia-cdi-hook"
    assert files.device_root == ""
    host.file("run/nvidia/driver/dev/nvidiactl")
    assert host.find(driver_root="/run/nvidia/driver").device_root == "/run/nvidia/driver"


@pytest.mark.parametrize(
    ("files", "path", "commands"),
    [
        pytest.param(
            {"usr/bin/nvidia-cdi-hook": CURRENT_TOOLKIT, "usr/bin/nvidia-ctk": CURRENT_TOOLKIT},
            "/usr/bin/nvidia-cdi-hook",
            ("create-symlinks", "update-ldcache", "enable-cuda-compat", "disable-device-node-modification"),
            id="toolkit-of-today",
        ),
        pytest.param(
            {"usr/bin/nvidia-ctk": b"create-symlinks update-ldcache"},
            "/usr/bin/nvidia-ctk",
            ("create-symlinks", "update-ldcache"),
            id="toolkit-before-1.16",
        ),
        pytest.param(
            {
                "usr/local/nvidia/toolkit/nvidia-cdi-hook": b"#!/bin/sh\nexec nvidia-cdi-hook.real",
                "usr/local/nvidia/toolkit/nvidia-cdi-hook.real": b"...enable-cuda-compat...",
            },
            "/usr/local/nvidia/toolkit/nvidia-cdi-hook",
            ("create-symlinks", "update-ldcache", "enable-cuda-compat"),
            id="gpu-operator",
        ),
    ],
)
def test_the_hook_program_is_asked_for_no_more_than_it_knows(
    host: Host, files: dict[str, bytes], path: str, commands: tuple[str, ...]
) -> None:
    host.driver(UBUNTU)
    for name, content in files.items():
        host.file(name, content)
    program = host.find().hook_program
    assert program is not None
    assert (program.path, program.commands) == (path, commands)


def test_a_driver_that_was_updated_or_a_daemon_that_stopped_is_noticed(host: Host) -> None:
    host.driver(UBUNTU)
    host.file("run/nvidia-persistenced/socket")
    files = host.find()
    root = HostRoot(host.root)
    assert driver_files_are_there(root, files)
    (host.root / "run/nvidia-persistenced/socket").unlink()
    assert not driver_files_are_there(root, files)
    files = host.find()
    (host.root / UBUNTU / f"libcuda.so.{VERSION}").unlink()
    assert not driver_files_are_there(root, files)


def test_more_libraries_than_a_driver_has_are_refused(host: Host) -> None:
    host.driver(UBUNTU)
    for index in range(254):
        host.file(f"{UBUNTU}/liba{index}.so.{VERSION}")
    with pytest.raises(NodeError, match="257 libraries"):
        find_driver_files(HostRoot(host.root), VERSION)


def test_the_number_of_other_files_and_names_has_a_bound(host: Host) -> None:
    host.driver(UBUNTU)
    for index in range(300):
        host.link(f"{UBUNTU}/libcuda.so.{index + 2}", f"libcuda.so.{VERSION}")
        host.file(f"lib/firmware/nvidia/{VERSION}/gsp{index}.bin")
    files = host.find()
    assert len(files.files) == 256
    assert len(files.libraries[0].names) == 8
    assert {"libcuda.so", "libcuda.so.1"} <= set(files.libraries[0].names)


def test_a_link_out_of_the_root_and_a_folder_are_no_library(host: Host) -> None:
    host.driver(UBUNTU)
    host.link(f"{UBUNTU}/libx.so.{VERSION}", "../../../../../../../../../../../../etc/passwd")
    (host.root / UBUNTU / f"liby.so.{VERSION}").mkdir()
    names = [os.path.basename(path) for path in libraries(host.find())]  # noqa: PTH119 - container paths are text
    assert not {f"libx.so.{VERSION}", f"liby.so.{VERSION}"} & set(names)


@pytest.mark.parametrize("version", ["", "..", "580/../..", "580.95.05\n", "*"])
def test_what_is_no_version_never_becomes_a_path(host: Host, version: str) -> None:
    with pytest.raises(InputError, match="not the version"):
        host.find(version)


@pytest.mark.parametrize(
    "driver_root", ["run/nvidia", "/run/../etc", "/run//nvidia", "/run/nvidia/", "/nowhere", "/a b"]
)
def test_a_driver_root_that_is_no_folder_is_refused(host: Host, driver_root: str) -> None:
    with pytest.raises(InputError, match="driver_root"):
        host.find(driver_root=driver_root)


def test_the_kernel_tells_the_version(host: Host) -> None:
    assert kernel_driver_version(HostRoot(host.root)) is None
    host.file("sys/module/nvidia/version", b"580.95.05\n")
    assert kernel_driver_version(HostRoot(host.root)) == VERSION


@pytest.mark.needs_cc
def test_a_real_linkers_cache_and_real_links_are_read(host: Host) -> None:
    """Libraries by the C compiler, links and cache by ldconfig, in a folder that no distribution has."""
    ldconfig = shutil.which("ldconfig", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if ldconfig is None or os.geteuid() != 0:
        assert os.environ.get("CI") != "true", "under CI=true no test may be skipped"
        pytest.skip("ldconfig -r needs ldconfig, and root for its chroot")
    folder = host.root / "opt/odd/lib"
    folder.mkdir(parents=True)
    for stem in ("libcuda", "libnvidia-ml"):
        command = ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{stem}.so.1", "-x", "c", os.devnull]
        subprocess.run([*command, "-o", str(folder / f"{stem}.so.{VERSION}")], check=True)
    host.file("etc/ld.so.conf", b"/opt/odd/lib\n")
    subprocess.run([ldconfig, "-r", str(host.root)], check=True)
    assert libraries(host.find()) == {
        f"/opt/odd/lib/libcuda.so.{VERSION}": ("libcuda.so", "libcuda.so.1"),
        f"/opt/odd/lib/libnvidia-ml.so.{VERSION}": ("libnvidia-ml.so.1",),
    }
