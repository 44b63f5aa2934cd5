"""Parses the output of ``ip -json`` and ``rdma -json``, as far as lending an interface depends on it.

The names of the fields are iproute2's (ip/ipaddress.c, rdma/dev.c).
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from driver.api.validation.wording import first_error
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


def check_interface_name(name: str, doing: str) -> str:
    """Refuse what is no name of an interface by the kernel's rules (dev_valid_name), a pattern, and a program's option.

    Raises:
        NodeError: It is none.
    """
    if len(name.encode("utf-8", errors="replace")) > _MAX_NAME or name in (".", "..") or not _NAME.fullmatch(name):
        raise NodeError(f"{doing}: {name!r} is no name of a network interface", hint="give it another name")
    return name


class _Printed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Address(_Printed):
    """An address of an interface.

    Attributes:
        family: ``inet`` or ``inet6``.
        local: The address.
        prefixlen: Of its network.
        peer: The other end's, of a point-to-point address.
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
    peer: str | None = Field(default=None, alias="address")
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


class _LinkInfo(_Printed):
    info_kind: str | None = None


class Link(_Printed):
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

    name: str = Field(alias="ifname")
    index: int = Field(alias="ifindex")
    flags: tuple[str, ...] = ()
    mtu: int
    min_mtu: int = 0
    max_mtu: int = 0
    mac: str = Field(default="", alias="address")
    permanent_mac: str | None = Field(default=None, alias="permaddr")
    link_type: str = ""
    altnames: tuple[str, ...] = ()
    master: str | None = None
    lower: str | None = Field(default=None, alias="link")
    parent: str | None = Field(default=None, alias="parentdev")
    info: _LinkInfo = Field(default=_LinkInfo(), alias="linkinfo")
    addresses: tuple[Address, ...] = Field(default=(), alias="addr_info")

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


class _VfVlan(_Printed):
    vlan: int = 0
    qos: int = 0
    protocol: str | None = None


class _VfRate(_Printed):
    max_tx: int = 0
    min_tx: int = 0


class VfFacts(_Printed):
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

    index: int = Field(alias="vf")
    vlans: tuple[_VfVlan, ...] = Field(default=(), alias="vlan_list")
    vlan: int = 0
    qos: int = 0
    rate: _VfRate = _VfRate()
    spoof_check: bool | None = Field(default=None, alias="spoofchk")
    trust: bool | None = None
    node_guid: str | None = Field(default=None, alias="node guid")
    port_guid: str | None = Field(default=None, alias="port guid")

    @property
    def tag(self) -> _VfVlan:
        """The VLAN; old kernels print it beside the VF's other fields."""
        return self.vlans[0] if self.vlans else _VfVlan(vlan=self.vlan, qos=self.qos)


class _Pf(_Printed):
    vfs: tuple[VfFacts, ...] = Field(default=(), alias="vfinfo_list")


class _NextHop(_Printed):
    dev: str = ""


class _Route(_NextHop):
    next_hops: tuple[_NextHop, ...] = Field(default=(), alias="nexthops")


class _RdmaDevice(_Printed):
    name: str = Field(alias="ifname")


_OBJECTS: Final = TypeAdapter(list[dict[str, object]])
_LINKS: Final = TypeAdapter(tuple[Link, ...])
_PFS: Final = TypeAdapter(tuple[_Pf, ...])
_ROUTES: Final = TypeAdapter(tuple[_Route, ...])
_RDMA_DEVICES: Final = TypeAdapter(tuple[_RdmaDevice, ...])


def read_links(text: str, doing: str) -> tuple[Link, ...]:
    """Parse the interfaces of ``ip -json -details address show``; raise NodeError if it is something else."""
    return _read(_LINKS, text, doing)


def read_vfs(text: str, doing: str) -> tuple[VfFacts, ...]:
    """Parse the VFs of ``ip -json -details link show dev PF``; raise NodeError if it is something else."""
    return tuple(vf for pf in _read(_PFS, text, doing) for vf in pf.vfs)


def read_routes(text: str, doing: str) -> frozenset[str]:
    """Parse the routes' interfaces of ``ip -json route show``; raise NodeError if it is something else."""
    return frozenset(hop.dev for route in _read(_ROUTES, text, doing) for hop in (route, *route.next_hops))


def read_rdma_devices(text: str, doing: str) -> frozenset[str]:
    """Parse the names of ``rdma -json dev show``; raise NodeError if it is something else."""
    return frozenset(device.name for device in _read(_RDMA_DEVICES, text, doing))


def _read(adapter: TypeAdapter[_T], text: str, doing: str) -> _T:
    try:
        # iproute2 prints an empty object in place of each one that it was asked to leave out.
        printed = [entry for entry in _OBJECTS.validate_json(text or "[]") if entry]
        return adapter.validate_python(printed)
    except ValidationError as error:
        first = first_error(error, with_input=False)
        hint = "is iproute2 older than 5.0, or a stand-in?"
        raise NodeError(f"{doing}: what iproute2 printed cannot be read: {first}", hint=hint) from error
