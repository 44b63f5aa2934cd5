"""HAMi-core on this node: its library, whether it is one that works, and which version it is.

The library itself has no version. HAMi's installer calls the file by that of the release, ``libvgpu.so.v2.9.0``
(Project-HAMi/HAMi, GetLibPath of its device plugin): so its name says it. A file that is just called ``libvgpu.so`` is
told by a digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from driver.adapters.nvml.driver_files import find_driver_files, kernel_driver_version
from driver.errors import RootportError
from driver.plan import HamiCoreLibrary
from kubeletplugin.node.loading import loading_problem
from kubeletplugin.node.roots import Roots
from kubeletplugin.node.shared_object import elf_problem, own_machine

__all__ = ["HamiCoreCheck", "HamiCoreFile"]

_LIMIT: Final = 64 * 1024 * 1024
_DIGITS: Final = 12
_RETRY_S: Final = 30.0
_NEEDED: Final = ("libcuda.so.1", "libnvidia-ml.so.1")
_VERSIONED: Final = re.compile(r"\.so\.(v?(\d{1,9}(?:\.\d{1,9}){0,3})[-+.A-Za-z0-9]{0,40})", re.ASCII)
_OWN_NAMES: Final = (
    b"CUDA_DEVICE_MEMORY_LIMIT",
    b"CUDA_DEVICE_SM_LIMIT",
    b"CUDA_DEVICE_MEMORY_SHARED_CACHE",
    b"cuMemAlloc_v2",
    b"dlsym",
)
"""What HAMi-core reads from the environment, a function of CUDA's that it stands in for, and the one by which programs
find CUDA's. No other library is known to have all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiCoreCheck:
    """What was found where HAMi-core's library should be.

    Attributes:
        library: The library; None where it is not there, or cannot keep anything within its limits.
        problem: Why it cannot be used, as a sentence's middle part that names the file; empty where it can.
    """

    library: HamiCoreLibrary | None = None
    problem: str = ""


class HamiCoreFile:
    """The library's file; safe to use from several threads.

    Args:
        roots: Where the host and its driver are.
        path: The library's path on the host. Where nothing is there, the newest of the files ``<path>.v<version>`` is
            taken, as HAMi's installer makes them.
        clock: Seconds that never go back.
    """

    def __init__(self, roots: Roots, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._roots = roots
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._known: tuple[tuple[int, ...], float, HamiCoreCheck] | None = None

    def checked(self) -> HamiCoreCheck:
        """Return the library as it is now.

        It is examined, which takes some hundredths of a second and at most four seconds, when it has changed; and after
        a while where it did not work, since what it needs may have been installed.
        """
        host = self._roots.host.fresh()
        real = host.resolve(str(self._path).lstrip("/")) or self._newest()
        if real is None:
            return HamiCoreCheck(problem=f"there is no {self._path} on the node")
        try:
            status = (host.path / real).stat()
        except OSError as error:
            return HamiCoreCheck(problem=f"/{real} cannot be read: {error.strerror}")
        with self._lock:
            now = self._clock()
            if (
                self._known is None
                or self._known[0] != _signature(status)
                or (self._known[2].library is None and now - self._known[1] >= _RETRY_S)
            ):
                self._known = (_signature(status), now, self._examine(real, status))
            return self._known[2]

    def _newest(self) -> str | None:
        folder = str(self._path.parent).lstrip("/")
        host = self._roots.host.fresh()
        try:
            names = [name for name in host.names(folder) if name.startswith(f"{self._path.name}.")]
        except RootportError:
            return None
        versions = sorted((number, name) for name in names if (number := _number(name)) is not None)
        return host.resolve(f"{folder}/{versions[-1][1]}") if versions else None

    def _examine(self, real: str, status: os.stat_result) -> HamiCoreCheck:
        content = self._roots.host.fresh().read_bytes(real, _LIMIT)
        problem = "is empty, is no file, or cannot be read" if not content else self._problem(content, real, status)
        if problem is not None or content is None:
            return HamiCoreCheck(problem=f"/{real} {problem}")
        version = f"sha256:{hashlib.sha256(content).hexdigest()[:_DIGITS]}"
        if named := _VERSIONED.search(real):
            version = named[1]
        return HamiCoreCheck(library=HamiCoreLibrary(host_path=f"/{real}", version=version))

    def _problem(self, content: bytes, real: str, status: os.stat_result) -> str | None:
        if problem := elf_problem(content, own_machine()):
            return problem
        lacking = next((name.decode() for name in _OWN_NAMES if name not in content), None)
        if lacking is not None:
            return f"is not HAMi-core: it does not know {lacking}"
        if not status.st_mode & stat.S_IROTH:
            return "cannot be read by every user, so programs of other users than root would run without it"
        try:
            changeable = self._changeable(real)
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        if changeable is not None:
            return f"is not tried: others than root can change /{changeable}; take that from them (chown, chmod go-w)"
        return loading_problem(self._roots.host.path / real, self._needed())

    def _changeable(self, real: str) -> str | None:
        """Return the file, or the folder above it, that is not root's alone to change; None if there is none."""
        for path in (Path(real), *Path(real).parents[:-1]):
            status = (self._roots.host.path / path).lstat()
            shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX:
                shared = 0  # in it, as in /tmp, nobody replaces what is root's
            if shared or status.st_uid not in (0, os.geteuid()):
                return str(path)
        return None

    def _needed(self) -> tuple[Path, ...]:
        """Return the host's libraries of NVIDIA's that HAMi-core is linked with, as far as they are there."""
        try:
            version = kernel_driver_version(self._roots.hardware.fresh())
            host = self._roots.host.fresh()
            files = find_driver_files(host, version, driver_root=self._roots.driver_root) if version else None
        except RootportError:
            return ()
        found = {
            name: self._roots.host.path / library.host_path.lstrip("/")
            for library in (files.libraries if files else ())
            for name in (*library.names, library.host_path.rpartition("/")[2])
        }
        return tuple(found[name] for name in _NEEDED if name in found)


def _number(name: str) -> tuple[int, ...] | None:
    """Return a file's version as numbers, to compare; None where its name has none."""
    found = _VERSIONED.search(name)
    return tuple(map(int, found[2].split("."))) if found else None


def _signature(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
