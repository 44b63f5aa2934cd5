"""Lends network interfaces and RDMA devices to pods: promised at prepare, moved by the CNI plugin's calls.

A pod's sandbox may be made anew while the claim stays prepared, and the runtime may ask for the old sandbox's end again
after the new one's begin. So the namespace is what counts: what was lent to one is not taken from another.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from driver.errors import NodeError
from driver.plan.effects import LendInterface
from kubeletplugin.network.netdev.lending import Lending
from kubeletplugin.network.netdev.link_facts import check_interface_name
from kubeletplugin.network.netdev.links import Links
from kubeletplugin.network.netdev.programs import Netns, netns_if_there, opened_netns
from kubeletplugin.network.netdev.records import InPod, Record, Records
from kubeletplugin.network.netdev.returning import Returning
from kubeletplugin.node.roots import Roots
from kubeletplugin.state.file_lock import FileLock

__all__ = ["HOST_NETNS", "InterfaceLender"]

_LOG: Final = logging.getLogger(__name__)
HOST_NETNS: Final = Path("/proc/1/ns/net")


class InterfaceLender:
    """Does and undoes :class:`LendInterface`, and moves for the CNI plugin. Safe for several threads and processes.

    Args:
        roots: Where sysfs is, and the host's files of network namespaces.
        state_dir: Where it writes what it has promised and moved: a folder in memory, that all instances share.
        host_netns: The network namespace in which the interfaces are at home.
        links: Reads and changes the kernel's interfaces.
        patience_s: How long the kernel is given to bring back what was in a namespace that has ended.
        lends_default_route: As for :class:`~kubeletplugin.network.netdev.lending.Lending`.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        state_dir: Path,
        host_netns: Path = HOST_NETNS,
        links: Links,
        patience_s: float = 4.0,
        lends_default_route: Callable[[str], bool] = lambda _function: False,
    ) -> None:
        self._host_netns = host_netns
        self._host_root = roots.host
        self._records = Records(state_dir)
        self._lending = Lending(roots.hardware, links, self._records, lends_default_route=lends_default_route)
        self._returning = Returning(roots, links, self._records, patience_s=patience_s)
        self._lock = FileLock(state_dir / "lender.lock", holder=f"process {os.getpid()}")

    def refuse_others(self, effect: LendInterface) -> None:
        """Refuse an interface that is not on the host, or that the node needs itself.

        Raises:
            NodeError: So it is.
        """
        with self._locked(Record(effect=effect).label) as host:
            self._restore_lost(host)
            if self._records.read(effect.pod_uid, effect.function) is None:
                self._refuse(effect, host)

    def do(self, effect: LendInterface) -> None:
        """Promise the interface to the pod: from now on the CNI plugin moves it.

        Raises:
            NodeError: It is not there, or lent to another pod.
        """
        label = Record(effect=effect).label
        with self._locked(label) as host:
            self._restore_lost(host)
            for record in self._records.all():
                if record.effect == effect:
                    return
                if record.effect.function != effect.function:
                    continue
                other = record.effect
                if (other.pod_uid, other.claim_uid) != (effect.pod_uid, effect.claim_uid):
                    reason = f"{label}: it is promised to pod uid {other.pod_uid} by claim uid {other.claim_uid}"
                    raise NodeError(reason, hint="it is tried again, once that claim is unprepared")
                self._returning.bring_back(record, host)
            self._refuse(effect, host)
            self._records.write(Record(effect=effect))

    def undo(self, effect: LendInterface) -> None:
        """Bring everything back, and break the promise.

        Raises:
            NodeError: Something is in the way, or the kernel has not given the interface back yet, so that nobody else
                can have it; it is tried again.
        """
        label = Record(effect=effect).label
        with self._locked(label) as host:
            record = self._records.read(effect.pod_uid, effect.function)
            if record is not None and record.effect.claim_uid == effect.claim_uid:
                self._records.remove(self._returning.bring_back(record, host))
            self._restore_lost(host)
            if any(lost.effect == effect for lost in self._records.lost()):
                reason = f"{label}: its interface {effect.interface} has not come back to the host yet"
                raise NodeError(reason, hint="a process may still be in its pod's network namespace: see lsns -t net")

    def attach(self, pod_uid: str, netns: str) -> None:
        """Move all that was promised to a pod into its network namespace: CNI's ADD.

        What was lent to an earlier sandbox of the pod is brought back first.

        Args:
            pod_uid: The pod's.
            netns: The path of its network namespace.

        Raises:
            NodeError: Something is in the way; all of the pod's is on the host again, as the sandbox has failed.
        """
        doing = f"pod uid {pod_uid}"
        if not self._records.of_pod(pod_uid):
            return
        with self._locked(doing) as host, self._opened(netns, doing) as pod:
            if pod.identity == host.identity:
                hint = "a pod with hostNetwork has the host's interfaces anyway; drop interface from its RdmaConfig"
                raise NodeError(f"{doing}: it uses the host's network, so no interface can be moved to it", hint=hint)
            # What came back late from the pod's former sandbox: its addresses must go along with it.
            self._restore_lost(host)
            begun: list[Record] = []
            try:
                for record in self._records.of_pod(pod_uid):
                    begun.append(record)
                    if record.loan is not None and record.loan.identity != pod.identity:
                        record = self._returning.bring_back(record, host)  # noqa: PLW2901 - the same, as it is now
                    self._lending.lend(record, host, pod)
            except NodeError:
                self._take_back(begun, host)
                raise

    def detach(self, pod_uid: str, netns: str | None) -> None:
        """Bring back all that was lent to one of a pod's network namespaces: CNI's DEL.

        Args:
            pod_uid: The pod's.
            netns: The path of the namespace; None where it has ended already. What was lent to another one that still
                exists stays there: it is that of a later sandbox.

        Raises:
            NodeError: Something is in the way; the runtime tries again.
        """
        doing = f"pod uid {pod_uid}"
        if not self._records.of_pod(pod_uid):
            return
        problem: NodeError | None = None
        with self._locked(doing) as host:
            for record in self._records.of_pod(pod_uid):
                if record.loan is None or not self._ends(record, netns):
                    continue
                try:
                    self._returning.bring_back(record, host)
                except NodeError as error:  # the others must come back nevertheless
                    problem = problem or error
        if problem is not None:
            raise problem

    def check(self, pod_uid: str, netns: str) -> None:
        """Look whether a pod has all that was promised to it: CNI's CHECK.

        Raises:
            NodeError: It has not.
        """
        doing = f"pod uid {pod_uid}"
        if not self._records.of_pod(pod_uid):
            return
        with self._locked(doing), self._opened(netns, doing) as pod:
            for record in self._records.of_pod(pod_uid):
                if record.loan is None or record.loan.identity != pod.identity:
                    hint = "delete the pod and start it again"
                    raise NodeError(f"{record.label}: nothing was moved into {netns}", hint=hint)
                self._lending.check(record, pod)

    def network_data(self, claim_uid: str) -> Mapping[str, InPod]:
        """Return the interfaces that a claim's pods have now, by the function's name in the pool. Reads files alone.

        Raises:
            NodeError: A record cannot be read.
        """
        return {
            record.effect.function: record.in_pod
            for record in self._records.all()
            if record.effect.claim_uid == claim_uid and record.in_pod is not None
        }

    @contextmanager
    def _locked(self, doing: str) -> Iterator[Netns]:
        """Hold the lock and the host's network namespace."""
        with self._lock.held(), opened_netns(self._host_netns, doing=doing) as host:
            yield host

    def _opened(self, netns: str, doing: str) -> AbstractContextManager[Netns]:
        return opened_netns(netns, host=self._host_root, doing=doing)

    def _refuse(self, effect: LendInterface, host: Netns) -> None:
        record = Record(effect=effect)
        if effect.interface:
            check_interface_name(effect.interface, record.label)
            check_interface_name(effect.name_in_pod, record.label)
            self._lending.on_host(record, host)

    def _ends(self, record: Record, netns: str | None) -> bool:
        """Whether a loan is one to a namespace that ends, or to none that is left."""
        assert record.loan is not None  # noqa: S101 - the caller has looked
        if record.loan.netns == netns:
            return True
        with netns_if_there(record.loan.netns, host=self._host_root, doing=record.label) as lent:
            if lent is None or lent.identity != record.loan.identity:
                return True
        if netns is None:
            _LOG.info("%s: it stays in %s, which still exists", record.label, record.loan.netns)
            return False
        with netns_if_there(netns, host=self._host_root, doing=record.label) as asked:
            return asked is not None and asked.identity == record.loan.identity

    def _take_back(self, begun: list[Record], host: Netns) -> None:
        for record in begun:
            try:
                current = self._records.read(record.effect.pod_uid, record.effect.function)
                self._returning.bring_back(current or record, host)
            except NodeError as error:
                # The caller is told why it was taken back; DEL and the claim's end try this again.
                _LOG.warning("%s", error)

    def _restore_lost(self, host: Netns) -> None:
        for record in self._records.lost():
            try:
                if self._returning.restore_if_found(record, host):
                    self._records.found(record)
            except NodeError as error:  # of another claim
                _LOG.warning("%s", error)
