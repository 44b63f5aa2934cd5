"""Finds the user-space half of NVIDIA's driver on a host: libraries, programs, firmware, sockets, the hook program.

It looks for the same files as NVIDIA Container Toolkit 1.20 (``nvidia-ctk cdi generate``, package nvcdi). Nothing is
run; folders are listed. :mod:`driver.plan.driver_files` decides what of it a container gets.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from driver.adapters.host import HostRoot
from driver.api.validation.errors import shown
from driver.errors import InputError, NodeError
from driver.plan import DriverFiles, DriverLibrary, HookProgram, HostFile, host_folder
from driver.plan.driver_files import DISABLE_DEVICE_NODE_MODIFICATION, ENABLE_CUDA_COMPAT

__all__ = ["driver_files_are_there", "find_driver_files", "kernel_driver_version"]

_VERSION: Final = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,5}){1,3}", re.ASCII)
_MODULE_VERSION_FILE: Final = "sys/module/nvidia/version"

# Distributions' own folders for 64-bit libraries; Debian has NVIDIA's in one of its own below them. /usr comes first
# because the others lead there on all but old systems.
_LIBRARY_FOLDERS: Final = tuple(
    f"{root}{folder}"
    for root in ("usr/", "")
    for folder in ("lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib")
)
_OWN_FOLDER: Final = "/nvidia/current"
_VDPAU: Final = "/vdpau"
_LINKER_CACHE: Final = "etc/ld.so.cache"
_LINKER_CACHE_LIMIT: Final = 8 * 1024 * 1024
# ld.so.cache ends with the paths, each closed by a zero byte (glibc, sysdeps/generic/dl-cache.h), in every version of
# the format; so the folder of a library can be read without knowing the rest.
_CACHED: Final = re.compile(rb"(?:^|\x00)/([!-9;-~]{1,255})/lib(?:cuda|nvidia-ml)\.so\.1(?=\x00)")
_FOLDERS_AT_MOST: Final = 32
_FILES_AT_MOST: Final = 256
_NAMES_AT_MOST: Final = 8
_LIBRARY: Final = re.compile(r"(lib[A-Za-z0-9_+-]{1,64})\.so((?:\.[0-9]{1,5}){0,4})", re.ASCII)
# The one library that programs cannot do without.
_CUDA: Final = "libcuda"
# Its file has a version of its own; compilers of CUDA programs before 12 load it.
_LEGACY_COMPILER: Final = "libnvidia-nvvm70"
_ELF_32_BIT: Final = b"\x7fELF\x01"

_PROGRAM_FOLDERS: Final = ("usr/bin", "usr/sbin", "usr/local/bin", "bin", "sbin", "opt/bin")
_PROGRAMS: Final = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
_FIRMWARE_FOLDERS: Final = ("lib/firmware/updates", "lib/firmware")
_FIRMWARE: Final = re.compile(r"gsp[A-Za-z0-9_]{0,64}\.bin", re.ASCII)
_SOCKETS: Final = ("run/nvidia-persistenced/socket", "run/nvidia-fabricmanager/socket")

# The second is where NVIDIA's GPU Operator installs the toolkit. The program there is a script that starts the real one
# beside it.
_HOOK_PROGRAMS: Final = (
    "usr/bin/nvidia-cdi-hook",
    "usr/local/nvidia/toolkit/nvidia-cdi-hook",
    "usr/bin/nvidia-ctk",
    "usr/local/nvidia/toolkit/nvidia-ctk",
)
_REAL: Final = ".real"
_LATER_HOOKS: Final = (ENABLE_CUDA_COMPAT, DISABLE_DEVICE_NODE_MODIFICATION)
_PROGRAM_LIMIT: Final = 64 * 1024 * 1024


def kernel_driver_version(host: HostRoot) -> str | None:
    """Return the version of the loaded NVIDIA kernel driver, such as ``580.95.05``; None if none is loaded."""
    version = host.read(_MODULE_VERSION_FILE)
    return version if version and _VERSION.fullmatch(version) else None


def find_driver_files(host: HostRoot, version: str, *, driver_root: str = "") -> DriverFiles | None:
    """Return the files of one version of the driver; None if its libcuda is not on the host.

    Lists about twenty folders, so call it when the plugin starts and when :func:`driver_files_are_there` is false, not
    for each claim.

    Args:
        host: The host as it sees itself (its ``/``, wherever that is mounted).
        version: The kernel driver's version, from :func:`kernel_driver_version` or NVML: libraries must have the same.
        driver_root: A folder on the host that stands for ``/``, if the driver is not installed in the host itself:
            ``/run/nvidia/driver`` with NVIDIA's driver container. In a pod's container the files have the paths that
            they have below it. The hook program is looked for on the host, since the runtime runs it there.

    Raises:
        InputError: ``version`` is no version, or ``driver_root`` no folder.
        NodeError: A folder cannot be listed, or there are too many libraries.
    """
    if _VERSION.fullmatch(version) is None:
        raise InputError(f"{shown(version)} is not the version of an NVIDIA driver", hint="expected such as 580.95.05")
    folder = host_folder(driver_root, "driver_root").lstrip("/")
    found = host.resolve(folder)
    if found is None or not host.is_folder(found):
        raise InputError(f"driver_root {driver_root} does not exist", hint="name the folder that holds usr/lib or lib")
    root = _DriverRoot(HostRoot(host.path / found), f"/{found}" if found else "")
    libraries = _libraries(root, version)
    if not any(posixpath.basename(library.container_path).startswith(f"{_CUDA}.so.") for library in libraries):
        return None
    return DriverFiles(
        version=version,
        libraries=libraries,
        files=(*_programs(root), *_firmware(root, version)),
        sockets=tuple(_present(root, ((path, path) for path in _SOCKETS))),
        hook_program=_hook_program(host),
        device_root=root.prefix if root.host.resolve("dev/nvidiactl") else "",
    )


def driver_files_are_there(host: HostRoot, files: DriverFiles) -> bool:
    """Whether every file is still on the host: not so after an update of the driver, or without a daemon."""
    fresh = host.fresh()
    return all(fresh.resolve(path.lstrip("/")) is not None for path in files.host_paths)


class _DriverRoot:
    """The folder that the driver is installed in, and the prefix of its paths on the host."""

    __slots__ = ("host", "prefix")

    def __init__(self, host: HostRoot, prefix: str) -> None:
        self.host = host
        self.prefix = prefix

    def file(self, path: str, container_path: str) -> HostFile | None:
        real = self.host.resolve(path)
        if real is None or self.host.is_folder(real):
            return None
        return HostFile(host_path=f"{self.prefix}/{real}", container_path=f"/{container_path}")


def _libraries(root: _DriverRoot, version: str) -> tuple[DriverLibrary, ...]:
    """Return libraries by their names; one that is in several folders counts once, in the first of them."""
    found: dict[str, DriverLibrary] = {}
    seen: set[str] = set()
    for folder in _library_folders(root.host):
        real = root.host.resolve(folder)
        if real is None or real in seen:
            continue
        seen.add(real)
        # Debian's own folder is on no linker's path: in the container the libraries stand in the one above.
        place = folder.removesuffix(_OWN_FOLDER)
        for library in _libraries_of(root, folder, place, version):
            found.setdefault(posixpath.basename(library.container_path), library)
    if len(found) > _FILES_AT_MOST:
        raise NodeError(
            f"the host has {len(found)} libraries of version {version}; an NVIDIA driver has about 60",
            hint=f"look for files named *.so.{version} in the host's library folders that are not NVIDIA's",
        )
    return tuple(found[name] for name in sorted(found))


def _library_folders(host: HostRoot) -> Iterator[str]:
    cache = host.read_bytes(_LINKER_CACHE, _LINKER_CACHE_LIMIT) or b""
    cached = dict.fromkeys(match[1].decode() for match in _CACHED.finditer(cache))
    for folder in (*_LIBRARY_FOLDERS, *(posixpath.normpath(path) for path in islice(cached, _FOLDERS_AT_MOST))):
        yield folder
        yield folder + _OWN_FOLDER
        yield folder + _VDPAU


def _libraries_of(root: _DriverRoot, folder: str, place: str, version: str) -> Iterator[DriverLibrary]:
    libraries: list[tuple[str, str]] = []
    links: defaultdict[str, list[str]] = defaultdict(list)
    for name in root.host.names(folder):
        match = _LIBRARY.fullmatch(name)
        if match is None:
            continue
        if match[2] == f".{version}" or match[1] == _LEGACY_COMPILER:
            libraries.append((match[1], name))
        else:
            links[match[1]].append(name)
    for stem, name in libraries:
        path = f"{folder}/{name}"
        file = root.file(path, f"{place}/{name}")
        if file is None or root.host.read_bytes(path, len(_ELF_32_BIT)) == _ELF_32_BIT:
            continue
        real = file.host_path.removeprefix(f"{root.prefix}/")
        names = [link for link in links[stem] if root.host.resolve(f"{folder}/{link}") == real]
        if stem == _CUDA:
            # Programs load libcuda.so although only compilers should; hosts without compilers need not have it.
            names = [*dict.fromkeys((*names, f"{_CUDA}.so.1", f"{_CUDA}.so"))]
        yield DriverLibrary(
            host_path=file.host_path, container_path=file.container_path, names=tuple(sorted(names)[:_NAMES_AT_MOST])
        )


def _programs(root: _DriverRoot) -> Iterator[HostFile]:
    for program in _PROGRAMS:
        paths = (f"{folder}/{program}" for folder in _PROGRAM_FOLDERS)
        yield from islice(_present(root, ((path, path) for path in paths)), 1)


def _firmware(root: _DriverRoot, version: str) -> Iterator[HostFile]:
    for folder in _FIRMWARE_FOLDERS:
        path = f"{folder}/nvidia/{version}"
        names = [name for name in root.host.names(path) if _FIRMWARE.fullmatch(name)]
        if names:
            # The kernel takes the first folder as well (Documentation/driver-api/firmware/fw_search_path.rst).
            yield from _present(root, ((f"{path}/{name}", f"{path}/{name}") for name in names[:_FILES_AT_MOST]))
            return


def _present(root: _DriverRoot, paths: Iterable[tuple[str, str]]) -> Iterator[HostFile]:
    for path, container_path in paths:
        file = root.file(path, container_path)
        if file is not None:
            yield file


def _hook_program(host: HostRoot) -> HookProgram | None:
    for path in _HOOK_PROGRAMS:
        real = host.resolve(path)
        if real is None or host.is_folder(real):
            continue
        # An older program fails on a hook that it does not know, and the container with it. It cannot be asked from
        # here, but the names of its commands stand in it.
        code = host.read_bytes(path + _REAL, _PROGRAM_LIMIT) or host.read_bytes(path, _PROGRAM_LIMIT) or b""
        later = tuple(command for command in _LATER_HOOKS if command.encode() in code)
        return HookProgram(path=f"/{path}", commands=(*HookProgram(path=f"/{path}").commands, *later))
    return None
