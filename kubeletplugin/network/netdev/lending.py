"""Moves one interface, and its RDMA device, into a pod's network namespace; each step can be done again after a crash.

The way in: write down what to restore; move and rename; MTU, addresses, up; the RDMA device. The kernel closes an
interface that changes its namespace and takes its addresses away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from driver.adapters.host import HostRoot
from driver.errors import NodeError
from kubeletplugin.network.netdev.interfaces import find_link, refuse_taken_name, sysfs_names
from kubeletplugin.network.netdev.link_facts import Address, Link, check_interface_name
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.programs import Netns, ProgramFailedError
from kubeletplugin.network.netdev.records import FormerLink, InPod, Loan, Record, Records

__all__ = ["Lending"]

_LOG: Final = logging.getLogger(__name__)


class Lending:
    """The way into the pod.

    Args:
        hardware: Holds ``sys``.
        links: The programs.
        records: Where it is written down.
        lends_default_route: Returns whether a function of a NIC, by its name in the pool, may be lent although the
            node's default route goes through its interface; asked only then.
    """

    def __init__(
        self,
        hardware: HostRoot,
        links: Links,
        records: Records,
        *,
        lends_default_route: Callable[[str], bool] = lambda _function: False,
    ) -> None:
        self._hardware = hardware
        self._links = links
        self._records = records
        self._lends_default_route = lends_default_route

    def on_host(self, record: Record, host: Netns) -> Link:
        """Return the interface, which is on the host and may be lent.

        Raises:
            NodeError: It is not there, or the node needs it.
        """
        doing, name = record.label, record.effect.interface
        links = self._links.links(host, doing=doing)
        link = self._find_on_host(record, links)
        if link is None:
            hint = "another CNI plugin may have moved it into a pod, or its driver was unbound: see ip link on the node"
            raise NodeError(f"{doing}: its interface {name} is not in the host's network namespace", hint=hint)
        if link.master is not None:
            hint = f"take it out of {link.master}, or have no claim move it: keep the device out of that class"
            raise NodeError(f"{doing}: its interface {link.name} is part of {link.master}", hint=hint)
        above = next((other for other in links if other.lower == link.name and other.kind != "veth"), None)
        if above is not None:
            hint = f"remove {above.name}, or have no claim move it: keep the device out of that class"
            raise NodeError(f"{doing}: {above.name} stands on its interface {link.name}", hint=hint)
        if link.name in self._links.default_route_interfaces(host, doing=doing):
            reason = f"{doing}: the node's default route goes through its interface {link.name}"
            if not self._lends_default_route(record.effect.function):
                hint = "moving it would cut the node off; an administrator who wants that says defaultRoute: allow "
                raise NodeError(reason, hint=f"{hint}in the DevicePolicies")
            _LOG.warning("%s, and the DevicePolicies allow to move it", reason)
        return link

    def lend(self, record: Record, host: Netns, pod: Netns) -> Record:
        """Bring everything into the pod; what is there already stays.

        Returns:
            The record as it is now written.

        Raises:
            NodeError: Something is in the way. Something may have been moved.
        """
        if record.loan is not None and record.loan.netns != pod.path:
            # The kernel has used the number of a namespace that ended again; that one's late DEL is not this one's.
            record = self._written(record, pod, record.loan.link)
        if record.effect.interface:
            record = self._move_link(record, host, pod)
        elif record.loan is None:
            record = self._written(record, pod, None)
        self._move_rdma(record, host, pod)
        if record.effect.interface:
            link = self._in_pod(record, pod)
            addresses = tuple(
                f"{address.local}/{address.prefixlen}" for address in link.addresses if address.scope == "global"
            )
            record = replace(record, in_pod=InPod(name=link.name, mac=link.mac, addresses=addresses))
            self._records.write(record)
        return record

    def check(self, record: Record, pod: Netns) -> None:
        """Check that the pod has what was lent to it.

        Raises:
            NodeError: It has not.
        """
        effect, doing = record.effect, record.label
        hint = "somebody has changed it in the pod; delete the pod and start it again"
        if effect.interface:
            link = self._in_pod(record, pod)
            if link.name != effect.name_in_pod:
                raise NodeError(f"{doing}: its interface is called {link.name}, not {effect.name_in_pod}", hint=hint)
            if effect.mtu is not None and link.mtu != effect.mtu:
                raise NodeError(f"{doing}: the MTU of {link.name} is {link.mtu}, not {effect.mtu}", hint=hint)
            if not link.is_up:
                raise NodeError(f"{doing}: {link.name} is down", hint=hint)
        device = effect.rdma_device
        if device is not None and device not in self._links.rdma_devices(pod, doing=doing):
            raise NodeError(f"{doing}: its RDMA device {device} is not in the pod's network namespace", hint=hint)

    def _move_link(self, record: Record, host: Netns, pod: Netns) -> Record:
        effect, doing = record.effect, record.label
        name = check_interface_name(effect.name_in_pod, doing)
        there = self._links.links(pod, doing=doing)
        found = self._find_in_pod(record, there)
        if found is not None and record.loan is None:
            hint = "another CNI plugin has moved it; use one of both"
            raise NodeError(f"{doing}: its interface is in the pod already, and not by Rootport", hint=hint)
        if found is None:
            link = self.on_host(record, host)
            hint = "give the interface another name in the claim's RdmaConfig: interface.name"
            refuse_taken_name(there, None, name, where="the pod", hint=hint, doing=doing)
            _refuse_mtu(effect.mtu, link, doing)
            if record.loan is None:
                record = self._written(record, pod, FormerLink.of(link))
            if name in link.altnames:
                self._links.change_altname(host, link.name, name, add=False, doing=doing)
            self._links.move(host, link.name, to=pod, name_there=name, doing=doing)
        self._set_up(record, pod)
        return record

    def _set_up(self, record: Record, pod: Netns) -> None:
        effect, doing = record.effect, record.label
        assert record.loan is not None and record.loan.link is not None  # noqa: S101, PT018 - written before the move
        link = self._in_pod(record, pod)
        if link.name != effect.name_in_pod:
            self._links.rename(pod, link.name, effect.name_in_pod, doing=doing)
            link = self._in_pod(record, pod)
        mtu = record.loan.link.mtu if effect.mtu is None else effect.mtu
        if link.mtu != mtu:
            self._links.set_mtu(pod, link.name, mtu, doing=doing)
        has = {address.key for address in link.addresses}
        for address in record.loan.link.addresses:
            if address.key not in has:
                # Nobody else answered to it on the host, so that a pod need not wait until IPv6 has asked again.
                self._give(record, pod, link.name, address)
        if not link.is_up:
            self._links.set_up(pod, link.name, up=True, doing=doing)

    def _give(self, record: Record, pod: Netns, name: str, address: Address) -> None:
        try:
            self._links.add_address(pod, name, address, at_once=True, doing=record.label)
        except ProgramFailedError as error:
            if address.family != "inet6":
                raise
            # Where pods have no IPv6 at all, a node's IPv6 address is no reason for none to start.
            _LOG.warning("%s", error)

    def _move_rdma(self, record: Record, host: Netns, pod: Netns) -> None:
        device, doing = record.effect.rdma_device, record.label
        if device is None or device in self._links.rdma_devices(pod, doing=doing):
            return
        if device not in self._links.rdma_devices(host, doing=doing):
            hint = "see rdma dev and rdma system on the node; another CNI plugin may have moved it"
            raise NodeError(f"{doing}: its RDMA device {device} is not in the host's network namespace", hint=hint)
        self._links.move_rdma(host, device, to=pod, doing=doing)

    def _written(self, record: Record, pod: Netns, link: FormerLink | None) -> Record:
        device, inode = pod.identity
        record = replace(record, loan=Loan(netns=pod.path, device=device, inode=inode, link=link), in_pod=None)
        self._records.write(record)
        return record

    def _find_on_host(self, record: Record, links: tuple[Link, ...]) -> Link | None:
        effect = record.effect
        return find_link(
            links,
            effect.address,
            names=[effect.interface, effect.name_in_pod] if record.loan else [effect.interface],
            in_sysfs=sysfs_names(self._hardware, effect.address),
            former=record.loan.link if record.loan else None,
            doing=record.label,
        )

    def _find_in_pod(self, record: Record, links: tuple[Link, ...]) -> Link | None:
        if record.loan is None or record.loan.link is None:
            return next((link for link in links if link.parent == record.effect.address), None)
        former = record.loan.link
        names = [record.effect.name_in_pod, former.name]
        return find_link(links, record.effect.address, names=names, former=former, doing=record.label)

    def _in_pod(self, record: Record, pod: Netns) -> Link:
        link = self._find_in_pod(record, self._links.links(pod, doing=record.label))
        if link is None:
            reason = f"{record.label}: its interface is not in the pod's network namespace {pod.path}"
            raise NodeError(reason, hint="somebody has moved it away; delete the pod and start it again")
        return link


def _refuse_mtu(mtu: int | None, link: Link, doing: str) -> None:
    if mtu is None:
        return
    if mtu < link.min_mtu or (link.max_mtu and mtu > link.max_mtu):
        most = f"{link.min_mtu} to {link.max_mtu}" if link.max_mtu else f"at least {link.min_mtu}"
        raise NodeError(
            f"{doing}: {link.name} cannot have the MTU {mtu}: its driver takes {most}",
            hint="ask for another MTU in the claim's RdmaConfig: interface.mtu",
        )
