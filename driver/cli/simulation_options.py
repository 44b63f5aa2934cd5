"""Options for what a topology file does not record of NICs: ``--vfs-per-nic`` and ``--nic-speed``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final

import click

from driver.errors import InputError
from driver.model.inventory import Inventory
from driver.simulation import MAX_VFS, with_assumed_speed, with_assumed_vfs

__all__ = ["NicFlags", "nic_options"]

_MAX_GBPS: Final = 10_000


@dataclass(frozen=True, slots=True)
class NicFlags:
    """The values of the two flags.

    Attributes:
        vfs: Node or topology file → VFs per NIC; the key "" is for every node that is not named.
        speeds: Likewise, Gb/s.
    """

    vfs: Mapping[str, int] = field(default_factory=dict)
    speeds: Mapping[str, int] = field(default_factory=dict)

    def applied(self, inventory: Inventory, *names: str) -> Inventory:
        """Return the node as the flags say; ``names`` are the names that they may have for it, the nearest first."""
        speed, vfs = _of(self.speeds, names), _of(self.vfs, names)
        if speed is not None:
            inventory = with_assumed_speed(inventory, speed)
        return inventory if vfs is None else with_assumed_vfs(inventory, vfs)

    def check(self, names: Collection[str]) -> None:
        """Refuse flags for nodes that do not exist.

        Raises:
            InputError: A flag names a node that is not among ``names``.
        """
        for flag, given in (("--vfs-per-nic", self.vfs), ("--nic-speed", self.speeds)):
            for name in given:
                if name and name not in names:
                    raise InputError(f"{flag} {name}=...: there is no such node", hint=f"nodes: {', '.join(names)}")


def nic_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the two flags, passed on as one argument ``nics``."""

    @wraps(command)
    def wrapped(vfs_per_nic: tuple[str, ...], nic_speed: tuple[str, ...], **rest: Any) -> Any:
        vfs = dict(_numbers("--vfs-per-nic", vfs_per_nic, MAX_VFS))
        speeds = dict(_numbers("--nic-speed", nic_speed, _MAX_GBPS))
        return command(nics=NicFlags(vfs, speeds), **rest)

    speed = click.option(
        "--nic-speed", metavar="[NODE=]GBPS", multiple=True,
        help="Link speed of the RDMA NICs in Gb/s, where the topology file does not record it.",
    )  # fmt: skip
    vfs = click.option(
        "--vfs-per-nic", metavar="[NODE=]N", multiple=True,
        help="Assume N SR-IOV VFs on each RDMA NIC, which no topology file records.",
    )  # fmt: skip
    return vfs(speed(wrapped))


def _of(given: Mapping[str, int], names: Sequence[str]) -> int | None:
    return next((given[name] for name in (*names, "") if name in given), None)


def _numbers(flag: str, values: Sequence[str], most: int) -> Iterator[tuple[str, int]]:
    for value in values:
        node, equals, text = value.rpartition("=")
        if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= most):
            raise InputError(f"{flag} {value}: expected a whole number from 1 to {most}")
        yield (node if equals else ""), int(text)
