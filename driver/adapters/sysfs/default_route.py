"""Reads through which network interfaces a host's default routes go, and marks the NICs below these.

The kernel's tables are read as the first process sees them: another one may be in a network namespace of its own.
Formats: Linux, net/ipv4/fib_trie.c (fib_route_seq_show) and net/ipv6/route.c (rt6_info_route). Of an IPv4 route with
several next hops the kernel writes the first one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeVar

from driver.adapters.host import HostRoot
from driver.adapters.sysfs.reader import SysfsReader
from driver.errors import NodeError
from driver.model.devices import RdmaNic, RdmaVf

__all__ = ["with_default_route"]

_F = TypeVar("_F", RdmaNic, RdmaVf)

_TABLES: Final = "proc/1/net"
# Both tables begin with the shortest prefix; a node with a full table of the Internet has 100 MiB of them.
_LONGEST: Final = 1024 * 1024
# include/uapi/linux/route.h
_UP: Final = 0x1
_REJECT: Final = 0x200
_ZEROS: Final = frozenset("0")
_MOST_INTERFACES: Final = 1024
# The interfaces of one Open vSwitch datapath: its ports stand below this one, and the bridge's own interface on none.
_OPEN_VSWITCH: Final = "ovs-system"


def with_default_route(
    reader: SysfsReader, nics: Iterable[RdmaNic], *, next_hops: Callable[[], Collection[str]] = tuple
) -> tuple[RdmaNic, ...]:
    """Return the NICs, with those marked through whose interfaces a default route goes, and VFs likewise.

    Args:
        reader: Reads sysfs and, below the same root, proc.
        nics: The NICs.
        next_hops: Returns the interfaces of the default routes' next hops that the tables do not name. Called only
            where the tables have a default route and two functions have interfaces, since it may start a program.
    """
    found = tuple(nics)
    functions = sum(bool(function.if_names) for nic in found for function in (nic, *nic.vfs))
    if not functions or not reader.sysfs:
        return found
    names = _interfaces(reader.host)
    if names and functions > 1:
        names |= frozenset(next_hops())
    carriers = _with_lower(reader, names - {"lo"})
    if not carriers:
        return found

    def marked(function: _F) -> _F:
        return replace(function, default_route=True) if carriers & {*function.if_names} else function

    return tuple(replace(marked(nic), vfs=tuple(map(marked, nic.vfs))) for nic in found)


def _interfaces(host: HostRoot) -> frozenset[str]:
    """Return the interfaces of the default routes themselves."""
    v4 = (line.split() for line in _lines(host, f"{_TABLES}/route"))
    v6 = (line.split() for line in _lines(host, f"{_TABLES}/ipv6_route"))
    # Interface, destination, gateway, flags, references, use, metric, mask, …
    names = {row[0] for row in v4 if len(row) >= 8 and _is_zero(row[1], row[7]) and _leads_out(row[3])}
    # Destination, its prefix length, source, its prefix length, next hop, metric, references, use, flags, interface.
    names |= {row[9] for row in v6 if len(row) == 10 and _is_zero(row[0], row[1]) and _leads_out(row[8])}
    return frozenset(names - {"lo", "*"})


def _lines(host: HostRoot, path: str) -> Iterator[str]:
    content = host.read_bytes(path, _LONGEST) or b""
    return iter(content.decode(errors="replace").splitlines())


def _is_zero(*texts: str) -> bool:
    return all(text and _ZEROS.issuperset(text) for text in texts)


def _leads_out(flags: str) -> bool:
    try:
        number = int(flags, 16)
    except ValueError:
        return False
    return bool(number & _UP) and not number & _REJECT


def _with_lower(reader: SysfsReader, names: Iterable[str]) -> frozenset[str]:
    """Return the interfaces with all those on which they stand: a bond's, a VLAN's, a bridge's."""
    found: set[str] = set()
    waiting = list(names)
    while waiting and len(found) < _MOST_INTERFACES:
        name = waiting.pop()
        if name in found or "/" in name or name in {"", ".", ".."}:
            continue
        found.add(name)
        folder = f"{reader.sysfs}class/net/{name}"
        lower = [entry.removeprefix("lower_") for entry in _names(reader, folder) if entry.startswith("lower_")]
        if not lower and reader.host.resolve(f"{folder}/device") is None:
            lower = [_OPEN_VSWITCH]
        waiting += lower
    return frozenset(found)


def _names(reader: SysfsReader, folder: str) -> tuple[str, ...]:
    try:
        return reader.host.names(folder)
    except NodeError:
        return ()
