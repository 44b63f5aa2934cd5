"""Migrates older checkpoints and records, one version at a time.

Old data is checked after the last step, by the models of :mod:`kubeletplugin.state.entry`: here it is only taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from driver.bounded_json import JsonError, parse_json
from driver.model.devices import DeviceType

__all__ = [
    "MIGRATIONS",
    "Migration",
    "device_of_version_1",
    "device_of_version_2",
    "device_of_version_3",
    "newer_version",
]

_MAX_BYTES: Final = 16 << 20
"""More than any file of the plugin's state may have."""

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Turns the data of one version into that of the next; raises ValueError, KeyError or TypeError where it cannot."""


def newer_version(content: bytes, known: int) -> int | None:
    """Return the version of a JSON object, if it is later than the known one; else None.

    What a later Rootport wrote is neither damaged nor to be written over: this one cannot tell what it would lose.

    Args:
        content: A file's, of any kind.
        known: The latest version of such files that this Rootport reads.
    """
    try:
        document = parse_json(content, max_bytes=_MAX_BYTES)
    except JsonError:
        return None
    version = document.get("version") if isinstance(document, dict) else None
    return version if type(version) is int and version > known else None


def device_of_version_1(device: dict[str, Any]) -> dict[str, Any]:
    """Return a device of version 1 as one of version 2.

    Version 1 gave GPUs whole, each to one claim: it is said of them, so that nobody else is given a part of one.

    Raises:
        KeyError: It is none.
        TypeError: It is none.
        ValueError: It is one of a later version.
    """
    _refuse_fields(device, "use", "isolation", "mig_uuid")
    use = None
    name = str(device["device"])
    if name.startswith(f"{DeviceType.GPU}-") and not device["admin_access"]:
        use = {
            "gpu": name,
            "mode": DeviceType.GPU.value,
            "whole": True,
            "sharing": "exclusive",
            "core": 100,
            "memory_bytes": None,
            "placement": None,
            "gpu_memory_bytes": None,
        }
    return device | {"use": use, "isolation": None, "mig_uuid": None}


def _from_1(data: dict[str, Any]) -> dict[str, Any]:
    """Migrate version 1, which knew neither shares nor effects, and called a claim's files its metadata."""
    claims = []
    for old in data["claims"]:
        claim = {name: value for name, value in old.items() if name != "metadata"}
        devices = [device_of_version_1(device) for device in old["devices"]]
        claims.append(claim | {"files": old["metadata"], "effects": [], "devices": devices})
    return data | {"claims": claims}


def device_of_version_2(device: dict[str, Any]) -> dict[str, Any]:
    """Return a device of version 2 as one of version 3.

    Version 2 gave NICs, physical and virtual functions alike, each by its own name to one claim: it is said of them, so
    that nobody else is given the same function out of a pool, or a part of it. The NIC of a virtual function was not
    remembered: its name is empty.

    Raises:
        KeyError: It is none.
        TypeError: It is none.
        ValueError: It is one of a later version.
    """
    _refuse_fields(device, "nic_use", "distances")
    use = None
    name = str(device["device"])
    if not device["admin_access"]:
        whole = {"vf": None, "bandwidth": None, "nic_bandwidth": None}
        if name.startswith(f"{DeviceType.RDMA_VF}-"):
            use = whole | {"nic": "", "vf": name}
        elif name.startswith(f"{DeviceType.RDMA}-"):
            use = whole | {"nic": name}
    return device | {"nic_use": use, "distances": []}


def device_of_version_3(device: dict[str, Any]) -> dict[str, Any]:
    """Return a device of version 3 as one of version 4.

    Version 3 knew bandwidth in bits per second alone.

    Raises:
        KeyError: It is none.
        TypeError: It is none.
        ValueError: It is one of a later version.
    """
    use = device["nic_use"]
    if use is None:
        return device
    _refuse_fields(use, "bandwidth_ratio")
    return device | {"nic_use": use | {"bandwidth_ratio": None}}


def _refuse_fields(device: dict[str, Any], *names: str) -> None:
    """Refuse fields that a later version added: the version itself was changed, and nothing may be filled in."""
    if found := device.keys() & set(names):
        raise ValueError(f"a device has fields of a later version: {', '.join(sorted(found))}")


def _from_2(data: dict[str, Any]) -> dict[str, Any]:
    """Migrate version 2, which did not have how a device uses a NIC."""
    claims = [claim | {"devices": [device_of_version_2(item) for item in claim["devices"]]} for claim in data["claims"]]
    return data | {"claims": claims}


def _from_3(data: dict[str, Any]) -> dict[str, Any]:
    """Migrate version 3, which did not have percentages of a NIC's bandwidth."""
    claims = [claim | {"devices": [device_of_version_3(item) for item in claim["devices"]]} for claim in data["claims"]]
    return data | {"claims": claims}


MIGRATIONS: Final[Mapping[int, Migration]] = {1: _from_1, 2: _from_2, 3: _from_3}
"""By version, what leads to the next one."""
