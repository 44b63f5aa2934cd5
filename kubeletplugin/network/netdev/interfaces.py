"""Finds the interface of a PCI function among those of a namespace, even after it was renamed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from driver.adapters.host import HostRoot
from driver.errors import NodeError
from kubeletplugin.network.netdev.link_facts import Link
from kubeletplugin.network.netdev.records import FormerLink

__all__ = ["find_link", "refuse_taken_name", "sysfs_names"]


def sysfs_names(hardware: HostRoot, address: str) -> frozenset[str]:
    """Return the interfaces of a PCI function in the host's network namespace, as sysfs names them."""
    return frozenset(hardware.fresh().names(f"sys/bus/pci/devices/{address}/net"))


def find_link(
    links: Sequence[Link],
    address: str,
    *,
    names: Sequence[str],
    in_sysfs: Collection[str] = frozenset(),
    former: FormerLink | None = None,
    doing: str,
) -> Link | None:
    """Return the interface of a PCI function among those of one namespace; None if it is not there.

    The kernel reports the PCI device of an interface (Linux 5.14 and newer), and sysfs does so for the host's.
    Where neither does it is found by its name, and by its hardware address where that was written down.

    Args:
        links: All of the namespace.
        address: The function's PCI address.
        names: What it may be called, the likeliest first: which one it is of a function with several.
        in_sysfs: The result of :func:`sysfs_names`; empty for a pod's namespace.
        former: It as it was on the host.
        doing: Begins the message.

    Raises:
        NodeError: Several could be it.
    """
    orphans = [link for link in links if link.parent is None]
    found = (
        [link for link in links if link.parent == address]
        or [link for link in orphans if link.name in in_sysfs]
        or [link for link in orphans if link.name in names and (former is None or link.mac == former.mac)]
        or [
            link
            for link in orphans
            if former is not None and link.master is None and (link.mac, link.kind) == (former.mac, former.kind)
        ]
    )
    for name in names:
        for link in found:
            if link.name == name:
                return link
    if former is not None and len(found) > 1:
        found = [link for link in found if link.mac == former.mac] or found
    if len(found) > 1:
        several = ", ".join(sorted(link.name for link in found))
        reason = f"{doing}: the PCI function has several interfaces, and none is called {names[0]}: {several}"
        raise NodeError(reason, hint=f"rename the right one to {names[0]}")
    return found[0] if found else None


def refuse_taken_name(links: Sequence[Link], own: Link | None, name: str, *, where: str, hint: str, doing: str) -> None:
    """Refuse a name that another interface has.

    Raises:
        NodeError: One has.
    """
    for link in links:
        if link is not own and link.has_name(name):
            other = "" if link.name == name else f" ({link.name}'s other name)"
            raise NodeError(f"{doing}: the name {name} is taken in {where}{other}", hint=hint)
