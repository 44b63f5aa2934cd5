"""NVIDIA driver files as a host has them, for the tests of the prepare plan; without and with NVIDIA's hook program."""

from __future__ import annotations

from dataclasses import replace

from driver.plan import DriverFiles, DriverLibrary, HookProgram, HostFile

VERSION = "580.95.05"
_FOLDER = "/usr/lib/x86_64-linux-gnu"


def _library(name: str, *names: str) -> DriverLibrary:
    path = f"{_FOLDER}/{name}.so.{VERSION}"
    return DriverLibrary(host_path=path, container_path=path, names=names)


def _file(path: str) -> HostFile:
    return HostFile(host_path=path, container_path=path)


FILES = DriverFiles(
    version=VERSION,
    libraries=(_library("libcuda", "libcuda.so", "libcuda.so.1"), _library("libnvidia-ml", "libnvidia-ml.so.1")),
    files=(_file("/usr/bin/nvidia-smi"), _file(f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin")),
    sockets=(_file("/run/nvidia-persistenced/socket"),),
)

HOOKS = replace(
    FILES,
    hook_program=HookProgram(
        path="/usr/bin/nvidia-cdi-hook",
        commands=("create-symlinks", "update-ldcache", "enable-cuda-compat", "disable-device-node-modification"),
    ),
)
