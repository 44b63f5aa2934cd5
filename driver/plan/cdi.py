"""A claim's Container Device Interface (CDI) spec, as plain data and as bytes.

Source of the rules: tags.cncf.io/container-device-interface v1.1.1 (CDI 1.1.0): SPEC.md, pkg/parser, pkg/cdi. Container
runtimes cache specs, so a name must never come to mean something else: every name here starts with the claim's UID.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from driver import DRIVER_NAME
from driver.api.claim_reference import ClaimReference
from driver.api.validation.errors import shown
from driver.errors import InputError
from driver.pretty_json import pretty_json

__all__ = [
    "CDI_VERSION",
    "KIND",
    "TMPFS",
    "CdiDevice",
    "CdiHook",
    "CdiMount",
    "CdiSpec",
    "cdi_device_name",
    "check_claim_uid",
    "claim_uid_of",
    "driver_cdi_device_name",
    "spec_file_name",
]

CDI_VERSION: Final = "0.5.0"
"""The least version that allows what is used here: a device name may start with a digit, as UIDs do, since 0.5.0, and
a device node may have another path on the host. Mounts and hooks are older.

The library refuses a spec whose version is below what its content needs (MinimumRequiredVersion), and a runtime refuses
one above what it knows; so the least version runs on the most runtimes.
"""

TMPFS: Final = "tmpfs"
"""tmpfs(5). A mount has had a type since CDI 0.4.0."""

KIND: Final = f"{DRIVER_NAME}/claim"
"""``vendor/class`` of every device here. Annotations or a dot in the class would need CDI 0.6.0."""

_FILE_PREFIX: Final = KIND.replace("/", "-") + "_"
_FILE_SUFFIX: Final = ".json"
_UID: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_FILE_NAME: Final = re.compile(f"{re.escape(_FILE_PREFIX)}({_UID.pattern}){re.escape(_FILE_SUFFIX)}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiMount:
    """A file or folder of the host, or a file system of the container's own, mounted into the container.

    Attributes:
        host_path: Absolute. The container does not start where there is nothing. :data:`TMPFS` for that type.
        container_path: Absolute.
        options: As ``mount`` knows them; ``bind`` or ``rbind`` is among them where there is no type.
        type: :data:`TMPFS` for a file system in the container's memory; empty for what is the host's.
    """

    host_path: str
    container_path: str
    options: tuple[str, ...]
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiHook:
    """A program that the runtime runs on the host while it creates the container (OCI hook ``createContainer``).

    Attributes:
        path: Absolute, on the host. The container does not start where the program is missing or fails.
        args: With the program's name as the first, as in C.
        env: ``NAME=value``.
    """

    path: str
    args: tuple[str, ...]
    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiDevice:
    """What a container gets with one CDI device. At least one of the tuples has something.

    Attributes:
        name: The name in the spec, from :func:`cdi_device_name` or :func:`driver_cdi_device_name`.
        device_nodes: Paths of device nodes in the container. The runtime looks up the rest and refuses to start the
            container where one is missing.
        device_root: What stands before those paths on the host; empty where they are the same there.
        env: Environment variables, ``NAME=value``.
        mounts: Files of the host. Of two with one place in the container the runtime keeps the last.
        hooks: Programs, in their order.
    """

    name: str
    device_nodes: tuple[str, ...] = ()
    device_root: str = ""
    env: tuple[str, ...] = ()
    mounts: tuple[CdiMount, ...] = ()
    hooks: tuple[CdiHook, ...] = ()

    @property
    def id(self) -> str:
        """The fully qualified name, as the kubelet hands it to the runtime."""
        return f"{KIND}={self.name}"

    @property
    def host_device_nodes(self) -> tuple[str, ...]:
        """The paths of the device nodes on the host."""
        return tuple(self.device_root + path for path in self.device_nodes)

    def edits(self) -> dict[str, object]:
        """Return its ``containerEdits``; lists without entries are left out."""
        nodes = [
            {"path": path, "hostPath": host} if self.device_root else {"path": path}
            for path, host in zip(self.device_nodes, self.host_device_nodes, strict=True)
        ]
        mounts = [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                **({"type": mount.type} if mount.type else {}),
                "options": list(mount.options),
            }
            for mount in self.mounts
        ]
        hooks = [
            {"hookName": "createContainer", "path": hook.path, "args": list(hook.args)}
            | ({"env": list(hook.env)} if hook.env else {})
            for hook in self.hooks
        ]
        edits: dict[str, list[object]] = {
            "env": [*self.env],
            "deviceNodes": [*nodes],
            "mounts": [*mounts],
            "hooks": [*hooks],
        }
        return {name: entries for name, entries in edits.items() if entries}


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiSpec:
    """The CDI spec of one claim. All edits belong to devices: an edit of the spec itself would reach every container.

    Attributes:
        claim: Whose spec it is.
        devices: At least one.
    """

    claim: ClaimReference
    devices: tuple[CdiDevice, ...]

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return spec_file_name(self.claim.uid)

    def to_json(self) -> bytes:
        """Return the file's content: the same bytes for the same spec."""
        devices = [{"name": device.name, "containerEdits": device.edits()} for device in self.devices]
        spec = {"cdiVersion": CDI_VERSION, "kind": KIND, "devices": devices}
        return pretty_json(spec).encode() + b"\n"


def cdi_device_name(claim_uid: str, request: str, device: str, share_id: str | None = None) -> str:
    """Return the name of the CDI device for a device, or a share of it, that a claim's request was given.

    The parts are DNS labels, which have no ``_``: two that differ never get one name.
    """
    return "_".join((claim_uid, request, device, *(() if share_id is None else (share_id,))))


def driver_cdi_device_name(claim_uid: str) -> str:
    """Return the name of the CDI device of the driver's files. It has one ``_``: :func:`cdi_device_name` makes more."""
    return f"{claim_uid}_nvidia-driver"


def spec_file_name(claim_uid: str) -> str:
    """Return the name of a claim's spec file: ``<vendor>-<class>_<uid>.json``, as of the CDI library's transient specs.

    Raises:
        InputError: As :func:`check_claim_uid`.
    """
    check_claim_uid(claim_uid)
    return f"{_FILE_PREFIX}{claim_uid}{_FILE_SUFFIX}"


def check_claim_uid(claim_uid: str) -> None:
    """Refuse a UID that could not come from Kubernetes, before it becomes a part of any path.

    Raises:
        InputError: It is not a UID.
    """
    if _UID.fullmatch(claim_uid) is None:
        raise InputError(
            f"{shown(claim_uid)} is not a claim's UID: expected 1 to 63 lower-case letters, digits and '-', starting "
            "and ending with a letter or digit"
        )


def claim_uid_of(file_name: str) -> str | None:
    """Return the claim's UID in the name of a spec file; None where the file is not Rootport's."""
    match = _FILE_NAME.fullmatch(file_name)
    return match[1] if match else None
