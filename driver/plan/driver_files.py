"""The user-space half of NVIDIA's driver: what a container needs of the host beside the device nodes.

The kernel's half and the libraries must have one version, so an image cannot bring the libraries along.
:mod:`driver.adapters.nvml.driver_files` finds them; here stands what they are and which CDI edits they make. The
edits follow what ``nvidia-ctk cdi generate`` writes (NVIDIA Container Toolkit 1.20, package nvcdi).
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Final

from driver.plan.cdi import CdiDevice, CdiHook, CdiMount, driver_cdi_device_name

__all__ = [
    "CREATE_SYMLINKS",
    "DISABLE_DEVICE_NODE_MODIFICATION",
    "ENABLE_CUDA_COMPAT",
    "UPDATE_LDCACHE",
    "DriverFiles",
    "DriverLibrary",
    "HookProgram",
    "HostFile",
    "driver_cdi_device",
]

CREATE_SYMLINKS: Final = "create-symlinks"
"""Hook: makes the libraries' other names, such as ``libcuda.so.1``."""

UPDATE_LDCACHE: Final = "update-ldcache"
"""Hook: lets the container's linker know the libraries' folder, whatever distribution its image is."""

ENABLE_CUDA_COMPAT: Final = "enable-cuda-compat"
"""Hook: prefers the image's CUDA forward compatibility libraries where they are newer (since toolkit 1.17.5)."""

DISABLE_DEVICE_NODE_MODIFICATION: Final = "disable-device-node-modification"
"""Hook: keeps nvidia-smi and NVML in a container from making device nodes (since toolkit 1.17.8)."""

_READ_ONLY: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_SOCKET: Final = (*_READ_ONLY, "noexec")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """A file of the host and its place in the container; both paths absolute, without links in ``host_path``."""

    host_path: str
    container_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLibrary(HostFile):
    """A library of the driver.

    Attributes:
        names: Other file names under which programs look for it, in the same folder: ``libcuda.so.1``, ``libcuda.so``.
    """

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookProgram:
    """NVIDIA's program for container hooks, on the host.

    Attributes:
        path: Where the container runtime runs it: ``/usr/bin/nvidia-cdi-hook`` or the older ``/usr/bin/nvidia-ctk``.
        commands: The hooks that it knows. One that it does not know would keep the container from starting.
    """

    path: str
    commands: tuple[str, ...] = (CREATE_SYMLINKS, UPDATE_LDCACHE)

    def hook(self, command: str, *arguments: str) -> CdiHook:
        """Return one hook; in ``nvidia-ctk`` they are subcommands of ``hook``."""
        program = posixpath.basename(self.path)
        prefix = (program, "hook") if program == "nvidia-ctk" else (program,)
        return CdiHook(path=self.path, args=(*prefix, command, *arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFiles:
    """NVIDIA's driver files on one host.

    Attributes:
        version: The driver's version, as the driver writes it: ``580.95.05``.
        libraries: The 64-bit libraries of that version, by path.
        files: Programs and firmware, by path.
        sockets: Sockets of the driver's daemons that run now.
        hook_program: NVIDIA's hook program; None where the host has none.
        device_root: Where NVIDIA's device nodes are: a prefix of ``/dev``, when the driver lives in a container of its
            own that made them; empty for the host's own ``/dev``.
    """

    version: str
    libraries: tuple[DriverLibrary, ...]
    files: tuple[HostFile, ...] = ()
    sockets: tuple[HostFile, ...] = ()
    hook_program: HookProgram | None = None
    device_root: str = ""

    @property
    def host_paths(self) -> tuple[str, ...]:
        """Every file that a container would be given: one that is gone keeps it from starting."""
        hook = (self.hook_program.path,) if self.hook_program else ()
        return (*(file.host_path for file in (*self.libraries, *self.files, *self.sockets)), *hook)


def driver_cdi_device(claim_uid: str, files: DriverFiles) -> CdiDevice:
    """Return the CDI device that gives a container the driver's files: one a claim, beside those of its GPUs."""
    return CdiDevice(
        name=driver_cdi_device_name(claim_uid), mounts=_mounts(files), hooks=_hooks(files, files.hook_program), env=()
    )


def _mounts(files: DriverFiles) -> tuple[CdiMount, ...]:
    places = {file.container_path: file.host_path for file in (*files.libraries, *files.files)}
    if files.hook_program is None:
        # Nobody would make the links: the library itself is put under each of its names.
        for library in files.libraries:
            for name in library.names:
                places.setdefault(_beside(library, name), library.host_path)
    mounts = [
        CdiMount(host_path=host_path, container_path=path, options=_READ_ONLY) for path, host_path in places.items()
    ]
    sockets = [
        CdiMount(host_path=socket.host_path, container_path=socket.container_path, options=_SOCKET)
        for socket in files.sockets
    ]
    return (*mounts, *sockets)


def _hooks(files: DriverFiles, program: HookProgram | None) -> tuple[CdiHook, ...]:
    """Return the hooks in the order of ``nvidia-ctk cdi generate``: the linker's cache is made after all links."""
    if program is None:
        return ()
    links = [
        argument
        for library in files.libraries
        for name in library.names
        for argument in ("--link", f"{posixpath.basename(library.container_path)}::{_beside(library, name)}")
    ]
    folders = dict.fromkeys(posixpath.dirname(library.container_path) for library in files.libraries)
    arguments = {
        CREATE_SYMLINKS: links,
        ENABLE_CUDA_COMPAT: [f"--host-driver-version={files.version}"],
        UPDATE_LDCACHE: [argument for folder in folders for argument in ("--folder", folder)],
        DISABLE_DEVICE_NODE_MODIFICATION: [],
    }
    if not links:
        del arguments[CREATE_SYMLINKS]
    return tuple(program.hook(command, *args) for command, args in arguments.items() if command in program.commands)


def _beside(library: DriverLibrary, name: str) -> str:
    return posixpath.join(posixpath.dirname(library.container_path), name)
