"""Interfaces and RDMA devices in network namespaces, read and changed with iproute2's ``ip`` and ``rdma``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from driver.errors import NodeError
from kubeletplugin.network.netdev.link_facts import (
    Address,
    Link,
    VfFacts,
    check_interface_name,
    read_links,
    read_rdma_devices,
    read_routes,
    read_vfs,
)
from kubeletplugin.network.netdev.programs import Netns, run_program

__all__ = ["Links"]

_TIMEOUT_S: Final = 8.0
# Where `ip netns` keeps its names, with which old versions of `rdma` want every namespace's path to begin.
_NETNS_FOLDER: Final = Path("/run/netns")
_UP_TO_ROOT: Final = "../../../.."


class Links:
    """One method for each thing that is asked or changed. Each takes ``doing``, which begins the message of its errors.

    Raises:
        NodeError: From every method: the program is missing, hangs, or fails.
    """

    def __init__(self, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._timeout_s = timeout_s

    def run(self, program: str, arguments: Sequence[str], *, inside: Netns, to: Netns | None = None, doing: str) -> str:
        """Run ``ip`` or ``rdma``: the one way by which this class reaches the kernel."""
        others = () if to is None else (to,)
        return run_program(program, arguments, inside=inside, others=others, doing=doing, timeout_s=self._timeout_s)

    def links(self, netns: Netns, *, doing: str) -> tuple[Link, ...]:
        """Return all interfaces of a namespace."""
        return read_links(self.run("ip", ["-json", "-details", "address", "show"], inside=netns, doing=doing), doing)

    def default_route_interfaces(self, netns: Netns, *, doing: str) -> frozenset[str]:
        """Return the interfaces through which the namespace's default routes go."""
        found: frozenset[str] = frozenset()
        for family in ("-4", "-6"):
            text = self.run("ip", ["-json", family, "route", "show", "default"], inside=netns, doing=doing)
            found |= read_routes(text, doing)
        return found

    def move(self, netns: Netns, name: str, *, to: Netns, name_there: str, doing: str) -> None:
        """Move an interface to another namespace, where it is down, without addresses, and has another name.

        After an error it may be in either namespace, under either name.
        """
        words = ["netns", to.file, "name", check_interface_name(name_there, doing)]
        self._set(netns, name, words, doing=f"{doing}: moving {name} to {to.path} as {name_there}", to=to)

    def rename(self, netns: Netns, name: str, new: str, *, doing: str) -> None:
        """Give an interface another name. It is down afterwards: older kernels rename no other."""
        self.set_up(netns, name, up=False, doing=doing)
        self._set(netns, name, ["name", check_interface_name(new, doing)], doing=f"{doing}: renaming {name} to {new}")

    def set_mtu(self, netns: Netns, name: str, mtu: int, *, doing: str) -> None:
        """Set the MTU."""
        self._set(netns, name, ["mtu", str(mtu)], doing=f"{doing}: setting the MTU of {name} to {mtu}")

    def set_mac(self, netns: Netns, name: str, mac: str, *, doing: str) -> None:
        """Set the hardware address."""
        self._set(netns, name, ["address", mac], doing=f"{doing}: setting the hardware address of {name} to {mac}")

    def set_up(self, netns: Netns, name: str, *, up: bool, doing: str) -> None:
        """Set the admin state."""
        state = "up" if up else "down"
        self._set(netns, name, [state], doing=f"{doing}: setting {name} {state}")

    def add_address(self, netns: Netns, name: str, address: Address, *, at_once: bool, doing: str) -> None:
        """Give an interface an address; one that it has stays."""
        words = ["address", "replace", *address.arguments(own_name=name, at_once=at_once), "dev", name]
        doing = f"{doing}: giving {name} the address {address.local}/{address.prefixlen}"
        self.run("ip", words, inside=netns, doing=doing)

    def change_altname(self, netns: Netns, name: str, altname: str, *, add: bool, doing: str) -> None:
        """Give an interface another name beside its own, or take one away."""
        words = ["link", "property", "add" if add else "del", "dev", name, "altname", altname]
        what = "giving" if add else "taking from"
        self.run("ip", words, inside=netns, doing=f"{doing}: {what} {name} the other name {altname}")

    def vfs(self, netns: Netns, pf: str, *, doing: str) -> tuple[VfFacts, ...]:
        """Return the VFs of a PF, with their settings."""
        words = ["-json", "-details", "link", "show", "dev", check_interface_name(pf, doing)]
        return read_vfs(self.run("ip", words, inside=netns, doing=doing), doing)

    def set_vf(self, netns: Netns, pf: str, index: int, words: Sequence[str], *, doing: str) -> None:
        """Have the PF's driver treat a VF in some way.

        Args:
            netns: Where the PF's interface is.
            pf: Its name.
            index: The VF's number.
            words: What follows ``ip link set dev PF vf NUM`` (ip-link(8)).
            doing: As everywhere.
        """
        doing = f"{doing}: setting {' '.join(words)} for VF {index} of {pf}"
        self._set(netns, pf, ["vf", str(index), *words], doing=doing)

    def rdma_devices(self, netns: Netns, *, doing: str) -> frozenset[str]:
        """Return the RDMA devices that a namespace sees."""
        return read_rdma_devices(self.run("rdma", ["-json", "dev", "show"], inside=netns, doing=doing), doing)

    def move_rdma(self, netns: Netns, device: str, *, to: Netns, doing: str) -> None:
        """Move an RDMA device to another namespace, which the kernel does in exclusive mode alone."""
        if device.startswith("-"):
            raise NodeError(f"{doing}: {device!r} is no RDMA device", hint="rename it: rdma dev set … name …")
        with suppress(OSError):  # where it cannot be made, rdma says what it lacks
            _NETNS_FOLDER.mkdir(parents=True, exist_ok=True)
        # rdma knows namespaces by their names below that folder; newer versions know paths, too, from "/" here.
        words = ["dev", "set", device, "netns", f"{_UP_TO_ROOT}{to.file}"]
        doing = f"{doing}: moving the RDMA device {device} to {to.path}"
        self.run("rdma", words, inside=netns, to=to, doing=doing)

    def _set(self, netns: Netns, name: str, words: Sequence[str], *, doing: str, to: Netns | None = None) -> None:
        arguments = ["link", "set", "dev", check_interface_name(name, doing), *words]
        self.run("ip", arguments, inside=netns, to=to, doing=doing)
