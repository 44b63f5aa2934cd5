"""The host as planning a claim sees it: its folders, and its RDMA NICs with what other claims hold of them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from driver.api.validation.errors import shown
from driver.errors import InputError
from driver.model.devices import DeviceName
from driver.plan.uses import HeldDevice

__all__ = ["NicHost", "gpus_beside", "host_folder", "nics_beside"]

# No control characters and no spaces: these paths stand in CDI specs, logs and the arguments of hooks.
_FOLDER: Final = re.compile(r"(?:/[!-.0-~]{1,255}){1,32}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NicHost:
    """What the node has for RDMA NICs, and what other claims hold of it.

    Attributes:
        taken_vfs: The VFs that other claims hold, by their names in the pool.
        own_vfs: The VFs that the claim itself was given before, in the allocation's order, each with its request and
            share id: a claim that is planned anew keeps them.
        has_cni_plugin: Whether Rootport's CNI plugin is part of the node's network configuration.
        simulated: Whether nothing is known of the host and everything is assumed to be there, for ``rootport
            simulate``.
    """

    taken_vfs: Collection[DeviceName] = frozenset()
    own_vfs: tuple[tuple[str, str | None, DeviceName], ...] = ()
    has_cni_plugin: bool = False
    simulated: bool = False

    def with_taken(self, names: Collection[str]) -> NicHost:
        """Return the same with more functions that the claim cannot have.

        Args:
            names: Of functions; the names of other devices change nothing.
        """
        taken = frozenset(self.taken_vfs) | {DeviceName(name) for name in names}
        return replace(self, taken_vfs=taken, own_vfs=tuple(item for item in self.own_vfs if item[2] not in taken))


def nics_beside(claim_uid: str, held: Iterable[HeldDevice], former: Iterable[HeldDevice]) -> NicHost:
    """Return which VFs other claims hold, and which the claim itself was given before and can have again.

    Args:
        claim_uid: The claim that is planned.
        held: What claims hold now, the claim itself perhaps among them.
        former: What the claim itself was given before, in an earlier boot perhaps.
    """
    taken = frozenset(
        item.nic_use.vf for item in held if item.claim.uid != claim_uid and item.nic_use is not None and item.nic_use.vf
    )
    own = tuple(
        (request, item.share_id, item.nic_use.vf)
        for item in former
        if item.nic_use is not None and item.nic_use.vf and item.nic_use.vf not in taken
        for request in item.requests
    )
    return NicHost(taken_vfs=taken, own_vfs=own)


def gpus_beside(claim_uid: str, held: Iterable[HeldDevice]) -> dict[DeviceName, str]:
    """Return how other claims share GPUs, by the GPU (:attr:`driver.plan.isolation.IsolationHost.in_use`).

    Args:
        claim_uid: The claim that is planned.
        held: What claims hold now, the claim itself perhaps among them.
    """
    uses = (item.gpu_use for item in held if item.claim.uid != claim_uid)
    return {use.gpu: use.sharing for use in uses if use is not None and use.sharing and not use.whole}


def host_folder(path: str, what: str) -> str:
    """Return an administrator's folder as a prefix of absolute paths: ``""`` stands for the host's own root.

    Args:
        path: The folder; ``/`` and the empty string are the host's own root.
        what: Names it in the error, such as ``device_root``.

    Raises:
        InputError: It is not absolute, or not in its shortest form (``..``, ``.``, ``//`` or a closing ``/``).
    """
    if path in ("", "/"):
        return ""
    if _FOLDER.fullmatch(path) is None or posixpath.normpath(path) != path:
        raise InputError(
            f"{what} {shown(path)} is not the path of a folder",
            hint="give an absolute path without '.', '..', '//', spaces and a closing '/', such as /run/nvidia/driver",
        )
    return path
