"""Runs the controller's process from start to end: election, probes, signals, and their order."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from controller.leader.election import LeaderElector
from controller.leader.label import LeaderLabel
from controller.publisher import Publisher
from driver.adapters.http.clients import Readers
from driver.adapters.http.probe_server import Page, ProbeServer
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.request import OnWrite

__all__ = ["LEASE_TIMEOUT_S", "HttpsServer", "no_data", "own_label", "run"]

LEASE_TIMEOUT_S: Final = 4.0
"""The time limit of the elector's requests: several attempts fit into the deadline for a renewal."""

_LOG: Final = logging.getLogger(__name__)
_WATCHDOG_S: Final = 0.5
_STOP_S: Final = 8.0
_LABEL_S: Final = 3.0
_LOST_EXIT_CODE: Final = 1


class HttpsServer(Protocol):
    """:class:`~controller.admission.webhook.Webhook` or :class:`~controller.serving.self_signed.SelfSigned`.

    A protocol, so that a controller that serves no HTTPS loads neither.
    """

    @property
    def problem(self) -> str:
        """Why it cannot answer yet; empty if it can."""

    def start(self) -> None:
        """Start serving."""

    def stop(self) -> None:
        """Stop serving."""


def no_data(elector: LeaderElector, publisher: Publisher) -> str:
    """Return why this controller cannot show the cluster now; empty if it can."""
    if not elector.leads:
        leader = elector.holder
        return f"this controller does not lead: {leader} does" if leader else "no controller leads yet"
    return "" if publisher.is_ready else "the cluster is being read: ask again in a moment"


def own_label(kubeconfig: Path | None, namespace: str, *, on_write: OnWrite | None = None) -> LeaderLabel | None:
    """Return the label of the pod that this process runs in; None outside of a cluster."""
    pod = os.environ.get("POD_NAME")
    if not pod:
        return None
    api = KubernetesApi.connect(kubeconfig=kubeconfig, timeout_s=LEASE_TIMEOUT_S, on_write=on_write)
    return LeaderLabel(api, namespace=namespace, pod=pod)


def run(
    elector: LeaderElector,
    publisher: Publisher,
    server: HttpsServer | None,
    label: LeaderLabel | None,
    *,
    health_port: int,
    pages: Mapping[str, Page],
    readers: Readers,
) -> int:
    """Work until a signal ends this process, or the leader Lease is lost: then this does not return.

    Args:
        elector: Started here; once it leads, the publisher is started.
        publisher: Not started yet.
        server: Serves from the beginning, leading or not; None for none.
        label: Set once this process leads; None for none.
        health_port: The port that answers probes; 0 for none.
        pages: What else that port serves, by path.
        readers: Which clients may read these pages.

    Returns:
        The exit code.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    ended = threading.Event()

    def elected() -> None:
        publisher.start()
        if label is not None:
            label.lead()

    def elect() -> None:
        try:
            elector.run(stop, on_elected=elected)
        finally:
            ended.set()

    probes = {"/healthz": lambda: publisher.failure, "/readyz": lambda: _not_ready(elector, publisher, server)}
    health = ProbeServer(health_port, probes, pages=pages, readers=readers) if health_port else None
    # First, and in a thread of its own: nothing that the other parts may wait for must delay the election.
    threading.Thread(target=elect, name="election", daemon=True).start()
    for part in (health, server, label):
        if part is not None:
            part.start()
    # The elector's own thread may hang in a request: this one does not.
    while not (stop.is_set() or elector.overdue or ended.wait(_WATCHDOG_S)):
        pass
    if not stop.is_set():
        _LOG.error("the leader Lease is lost: this process ends, so that there are never two writers")
        _end_at_once()
    ended.wait(LEASE_TIMEOUT_S)  # no renewal may cross the release
    return _stop(elector, publisher, label, [item for item in (server, health) if item is not None])


def _not_ready(elector: LeaderElector, publisher: Publisher, server: HttpsServer | None) -> str:
    if not elector.answered.is_set():
        return "the API server has not answered yet"
    if elector.leads and not publisher.is_ready:
        return "the cluster is being read"
    return server.problem if server else ""


def _stop(
    elector: LeaderElector,
    publisher: Publisher,
    label: LeaderLabel | None,
    servers: Sequence[HttpsServer | ProbeServer],
) -> int:
    _LOG.info("stopping")
    if label is not None:
        label.stop(_LABEL_S)
    if not publisher.stop(_STOP_S):
        # Without the release others wait until the Lease has run out, and by then this process is gone.
        _LOG.warning("a write is still under way: the Lease is not released")
    elif elector.release():
        _LOG.info("lease released")
    for server in servers:
        server.stop()
    _LOG.info("stopped")
    return 0


def _end_at_once() -> None:
    logging.shutdown()
    os._exit(_LOST_EXIT_CODE)  # threads in the middle of a write must not finish what follows it
