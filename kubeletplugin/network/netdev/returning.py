"""Brings one interface, and its RDMA device, back to the host as they were; each step can be done again after a crash.

When a namespace ends, the kernel itself gives its physical interfaces back, in its own time, and under another name
where theirs is taken (default_device_exit_net: ``dev`` and a number). Virtual ones, such as a veth, end with it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Final

from driver.errors import NodeError
from kubeletplugin.network.netdev.interfaces import find_link, refuse_taken_name, sysfs_names
from kubeletplugin.network.netdev.link_facts import Address, Link
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.programs import Netns, ProgramFailedError, netns_if_there
from kubeletplugin.network.netdev.records import FormerLink, Loan, Record, Records
from kubeletplugin.node.roots import Roots

__all__ = ["Returning"]

_LOG: Final = logging.getLogger(__name__)
_PAUSE_S: Final = 0.05
_KINDS_THAT_RETURN: Final = (None, "ipoib")  # a veth and its like do not


class Returning:
    """The way back.

    Args:
        roots: Where sysfs is, and the host's files of network namespaces.
        links: The programs.
        records: Where it is written down.
        patience_s: How long the kernel is given to bring back what was in a namespace that has ended.
    """

    def __init__(self, roots: Roots, links: Links, records: Records, *, patience_s: float) -> None:
        self._hardware = roots.hardware
        self._host_root = roots.host
        self._links = links
        self._records = records
        self._patience_s = patience_s

    def bring_back(self, record: Record, host: Netns) -> Record:
        """Bring everything back, and restore it.

        Returns:
            The record as it is now written, without a loan.

        Raises:
            NodeError: Something is in the way; it is tried again.
        """
        loan = record.loan
        if loan is None:
            return record
        with netns_if_there(loan.netns, host=self._host_root, doing=record.label) as netns:
            pod = netns if netns is not None and netns.identity == loan.identity else None
            if record.effect.rdma_device is not None:
                self._bring_rdma(record, record.effect.rdma_device, host, pod)
            if loan.link is not None:
                self._bring_link(record, loan, loan.link, host, pod)
        record = replace(record, loan=None, in_pod=None)
        self._records.write(record)
        return record

    def restore_if_found(self, record: Record, host: Netns) -> bool:
        """Restore an interface that was nowhere, if it is back; return whether it is, or its function is gone."""
        if record.loan is None or record.loan.link is None:
            return True
        link = self._find_on_host(record, record.loan.link, host)
        if link is None:
            return not self._hardware.fresh().is_folder(f"sys/bus/pci/devices/{record.effect.address}")
        self._restore(record, record.loan.link, link, host)
        return True

    def _bring_rdma(self, record: Record, device: str, host: Netns, pod: Netns | None) -> None:
        doing = record.label
        if pod is not None and device in self._links.rdma_devices(pod, doing=doing):
            self._links.move_rdma(pod, device, to=host, doing=doing)
            return
        deadline = time.monotonic() + (0 if pod is not None else self._patience_s)
        while device not in self._links.rdma_devices(host, doing=doing):
            if time.monotonic() >= deadline:
                # The kernel brings it under its own name, so that there is nothing left to undo once it does.
                _LOG.warning("%s: its RDMA device %s has not come back to the host yet", doing, device)
                return
            time.sleep(_PAUSE_S)

    def _bring_link(self, record: Record, loan: Loan, former: FormerLink, host: Netns, pod: Netns | None) -> None:
        if pod is not None:
            self._move(record, former, pod, host)
        link = self._find_on_host(record, former, host)
        if link is None and pod is not None:
            reason = f"{record.label}: its interface {former.name} is neither in its pod nor on the host"
            raise NodeError(reason, hint="the pod has moved it on; it comes back when the pod has ended")
        deadline = time.monotonic() + self._patience_s
        while link is None:
            if former.kind not in _KINDS_THAT_RETURN:
                _LOG.warning(
                    "%s: its interface %s (%s) ended with the pod's network namespace %s",
                    *(record.label, former.name, former.kind, loan.netns),
                )
                return
            if time.monotonic() >= deadline:
                _LOG.warning(
                    "%s: its interface %s has not come back after the end of the pod's network namespace %s;"
                    " it gets its name back once it does",
                    *(record.label, former.name, loan.netns),
                )
                self._records.lose(record)
                return
            time.sleep(_PAUSE_S)
            link = self._find_on_host(record, former, host)
        self._restore(record, former, link, host)

    def _move(self, record: Record, former: FormerLink, pod: Netns, host: Netns) -> None:
        doing = record.label
        names = [record.effect.name_in_pod, former.name]
        there = self._links.links(pod, doing=doing)
        link = find_link(there, record.effect.address, names=names, former=former, doing=doing)
        if link is None:
            return
        _refuse_taken_on_host(self._links.links(host, doing=doing), None, former.name, doing)
        # A pod can make up names; one that the host knows would keep the interface from coming back.
        for altname in link.altnames:
            if altname not in former.altnames or altname == former.name:
                self._links.change_altname(pod, link.name, altname, add=False, doing=doing)
        self._links.move(pod, link.name, to=host, name_there=former.name, doing=doing)

    def _restore(self, record: Record, former: FormerLink, link: Link, host: Netns) -> None:
        """Make an interface of the host what it was; what is so already stays untouched."""
        doing, name = record.label, former.name
        if link.name != name:
            _refuse_taken_on_host(self._links.links(host, doing=doing), link, name, doing)
            if name in link.altnames:
                self._links.change_altname(host, link.name, name, add=False, doing=doing)
            self._links.rename(host, link.name, name, doing=doing)
            # It went down for that, which takes IPv6 addresses away.
            link = self._find_on_host(record, former, host) or link
        for altname in link.altnames:
            if altname not in former.altnames and altname != name:
                self._links.change_altname(host, name, altname, add=False, doing=doing)
        for altname in former.altnames:
            if altname not in link.altnames:
                self._add_altname(record, host, name, altname)
        if link.mtu != former.mtu:
            self._links.set_mtu(host, name, former.mtu, doing=doing)
        if link.mac != former.mac and former.can_set_mac:
            self._links.set_mac(host, name, former.mac, doing=doing)
        has = {address.key for address in link.addresses}
        for address in former.addresses:
            if address.key not in has:
                self._give(record, host, name, address)
        is_up = link.is_up and link.name == name
        if is_up != former.is_up:
            self._links.set_up(host, name, up=former.is_up, doing=doing)

    def _add_altname(self, record: Record, host: Netns, name: str, altname: str) -> None:
        try:
            self._links.change_altname(host, name, altname, add=True, doing=record.label)
        except ProgramFailedError as error:
            # Another interface has taken it meanwhile: no reason to keep a pod from ending.
            _LOG.warning("%s", error)

    def _give(self, record: Record, host: Netns, name: str, address: Address) -> None:
        try:
            self._links.add_address(host, name, address, at_once=False, doing=record.label)
        except ProgramFailedError as error:
            # Such as IPv6's, switched off meanwhile: no reason either.
            _LOG.warning("%s", error)

    def _find_on_host(self, record: Record, former: FormerLink, host: Netns) -> Link | None:
        address = record.effect.address
        return find_link(
            self._links.links(host, doing=record.label),
            address,
            names=[former.name, record.effect.name_in_pod],
            in_sysfs=sysfs_names(self._hardware, address),
            former=former,
            doing=record.label,
        )


def _refuse_taken_on_host(links: tuple[Link, ...], own: Link | None, name: str, doing: str) -> None:
    hint = "rename the host's interface that has it now; it is tried again"
    refuse_taken_name(links, own, name, where="the host's network namespace", hint=hint, doing=doing)
