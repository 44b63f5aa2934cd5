"""Parses the output of ``ip -json`` and ``rdma -json``, as far as lending an interface depends on it.

The names of the fields are iproute2's (ip/ipaddress.c, rdma/dev.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from driver.api.strict import read, rule
from driver.bounded_json import JsonError, parse_json
from driver.errors import NodeError

__all__ = [
    "Address",
    "Link",
    "VfFacts",
    "check_interface_name",
    "read_links",
    "read_rdma_devices",
    "read_routes",
    "read_vfs",
]

_T = TypeVar("_T")
_FOREVER: Final = 2**32 - 1
_NAME: Final = re.compile(r"[^\s/:%\x00-\x1f\x7f-][^\s/:%\x00-\x1f\x7f]*")
_MAX_NAME: Final = 15
_LONGEST: Final = 64 * 1024 * 1024  # characters


def check_interface_name(name: str, doing: str) -> str:
    """Refuse what is no name of an interface by the kernel's rules (dev_valid_name), a pattern, and a program's option.

    Raises:
        NodeError: It is none.
    """
    if len(name.encode("utf-8", errors="replace")) > _MAX_NAME or name in (".", "..") or not _NAME.fullmatch(name):
        raise NodeError(f"{doing}: {name!r} is no name of a network interface", hint="give it another name")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address of an interface.

    Attributes:
        family: ``inet`` or ``inet6``.
        local: The address.
        prefixlen: Of its network.
        peer: The other end's, of a point-to-point address; ``address`` in what ``ip`` prints.
        broadcast: Where it has one.
        scope: Such as ``global``.
        label: IPv4's old way to name an address.
        dynamic: It has a lifetime: from DHCP, or from a router.
        temporary: IPv6's privacy addresses, which the kernel makes.
        nodad: IPv6: it was used without looking for a duplicate first.
        noprefixroute: It came without a route to its network.
        valid_life_time: Seconds.
        preferred_life_time: Seconds.
    """

    family: str
    local: str
    prefixlen: int
    peer: str | None = None
    broadcast: str | None = None
    scope: str = "global"
    label: str | None = None
    dynamic: bool = False
    temporary: bool = False
    nodad: bool = False
    noprefixroute: bool = False
    valid_life_time: int = _FOREVER
    preferred_life_time: int = _FOREVER

    @property
    def moves(self) -> bool:
        """Whether it must be given again to an interface that was moved; the kernel itself makes the others anew."""
        return self.family == "inet" or (
            self.family == "inet6" and self.scope != "link" and not self.dynamic and not self.temporary
        )

    @property
    def key(self) -> tuple[str, str, int, str | None]:
        """The fields that distinguish it from the interface's other addresses."""
        return (self.family, self.local, self.prefixlen, self.peer)

    def arguments(self, *, own_name: str, at_once: bool) -> list[str]:
        """Return the arguments of ``ip address replace``.

        Args:
            own_name: The interface's name, with which the kernel wants a label to begin.
            at_once: Whether IPv6 is not to look for a duplicate first.
        """
        network = f"{self.peer or self.local}/{self.prefixlen}"
        words = [self.local, "peer", network] if self.peer else [network]
        words += ["broadcast", self.broadcast] if self.broadcast else []
        words += ["scope", self.scope]
        words += ["label", self.label] if self.label and self.label.startswith(f"{own_name}:") else []
        words += ["nodad"] if self.family == "inet6" and (at_once or self.nodad) else []
        words += ["noprefixroute"] if self.noprefixroute else []
        for name, seconds in (("valid_lft", self.valid_life_time), ("preferred_lft", self.preferred_life_time)):
            words += [name, str(seconds)] if self.dynamic and seconds != _FOREVER else []
        return words


@dataclass(frozen=True, slots=True, kw_only=True)
class _LinkInfo:
    info_kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An interface, as ``ip -json -details address show`` prints it.

    Attributes:
        name: Its name.
        index: Its number in its namespace.
        flags: Such as ``UP``, its admin state.
        mtu: Bytes.
        min_mtu: The least that its driver says it takes; 0 if not reported.
        max_mtu: The most; 0 if not reported.
        mac: Its hardware address.
        permanent_mac: As it was made, where that is another one.
        altnames: Its other names.
        master: The bridge or bond that it is part of.
        lower: The interface that it stands on, such as a VLAN's or a macvlan's; the other end of a veth.
        parent: The PCI address of its device (Linux 5.14 and newer).
        info: Its kind; physical ones have none.
        addresses: All of them.
    """

    name: str = rule(name="ifname")
    index: int = rule(name="ifindex")
    flags: tuple[str, ...] = ()
    mtu: int
    min_mtu: int = 0
    max_mtu: int = 0
    mac: str = rule(default="", name="address")
    permanent_mac: str | None = rule(default=None, name="permaddr")
    link_type: str = ""
    altnames: tuple[str, ...] = ()
    master: str | None = None
    lower: str | None = rule(default=None, name="link")
    parent: str | None = rule(default=None, name="parentdev")
    info: _LinkInfo = rule(default=_LinkInfo(), name="linkinfo")
    addresses: tuple[Address, ...] = rule(default=(), name="addr_info")

    @property
    def is_up(self) -> bool:
        """Whether its admin state is up."""
        return "UP" in self.flags

    @property
    def kind(self) -> str | None:
        """The kind, such as ``veth``; None for a physical interface."""
        return self.info.info_kind

    def has_name(self, name: str) -> bool:
        """Whether it is called so, by its name or by another one."""
        return name == self.name or name in self.altnames


@dataclass(frozen=True, slots=True, kw_only=True)
class _VfVlan:
    vlan: int = 0
    qos: int = 0
    protocol: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _VfRate:
    max_tx: int = 0
    min_tx: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VfFacts:
    """A VF in its PF's ``vfinfo_list``, as ``ip -json -details link show`` prints it. None: not reported.

    Attributes:
        index: Its number.
        vlans: Of which drivers know at most one.
        rate: Mb/s.
        spoof_check: As set.
        trust: As set.
        node_guid: InfiniBand's.
        port_guid: InfiniBand's.
    """

    index: int = rule(name="vf")
    vlans: tuple[_VfVlan, ...] = rule(default=(), name="vlan_list")
    vlan: int = 0
    qos: int = 0
    rate: _VfRate = _VfRate()
    spoof_check: bool | None = rule(default=None, name="spoofchk")
    trust: bool | None = None
    node_guid: str | None = rule(default=None, name="node guid")
    port_guid: str | None = rule(default=None, name="port guid")

    @property
    def tag(self) -> _VfVlan:
        """The VLAN; old kernels print it beside the VF's other fields."""
        return self.vlans[0] if self.vlans else _VfVlan(vlan=self.vlan, qos=self.qos)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pf:
    vfs: tuple[VfFacts, ...] = rule(default=(), name="vfinfo_list")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NextHop:
    dev: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    dev: str = ""
    next_hops: tuple[_NextHop, ...] = rule(default=(), name="nexthops")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RdmaDevice:
    name: str = rule(name="ifname")


def read_links(text: str, doing: str) -> tuple[Link, ...]:
    """Parse the interfaces of ``ip -json -details address show``; raise NodeError if it is something else."""
    return _read(Link, text, doing)


def read_vfs(text: str, doing: str) -> tuple[VfFacts, ...]:
    """Parse the VFs of ``ip -json -details link show dev PF``; raise NodeError if it is something else."""
    return tuple(vf for pf in _read(_Pf, text, doing) for vf in pf.vfs)


def read_routes(text: str, doing: str) -> frozenset[str]:
    """Parse the routes' interfaces of ``ip -json route show``; raise NodeError if it is something else."""
    routes = _read(_Route, text, doing)
    return frozenset(route.dev for route in routes) | {hop.dev for route in routes for hop in route.next_hops}


def read_rdma_devices(text: str, doing: str) -> frozenset[str]:
    """Parse the names of ``rdma -json dev show``; raise NodeError if it is something else."""
    return frozenset(device.name for device in _read(_RdmaDevice, text, doing))


def _read(cls: type[_T], text: str, doing: str) -> tuple[_T, ...]:
    try:
        printed = parse_json(text or "[]", max_bytes=_LONGEST)
        if not isinstance(printed, list):
            raise JsonError("expected a list")
        # iproute2 prints an empty object in place of each one that it was asked to leave out.
        entries = ((at, _named(entry)) for at, entry in enumerate(printed) if entry != {})
        return tuple(read(cls, entry, path=f"[{at}]", ignore_unknown=True) for at, entry in entries)
    except ValueError as error:
        hint = "is iproute2 older than 5.0, or a stand-in?"
        raise NodeError(f"{doing}: what iproute2 printed cannot be read: {error}", hint=hint) from error


def _named(entry: Any) -> Any:
    """Return what was printed, with the other end of an address under the name that records have for it."""
    found = entry.get("addr_info") if isinstance(entry, dict) else None
    if not isinstance(found, list):
        return entry
    addresses = [item | {"peer": item.get("address")} if isinstance(item, dict) else item for item in found]
    return entry | {"addr_info": addresses}
