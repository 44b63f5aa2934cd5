"""The controller's process from its start to its end: election, probes, signals, and what is done in which order."""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

from controller.leader_election import LeaderElector, Outcome
from controller.publisher import Publisher
from driver.adapters.health_server import HealthServer

if TYPE_CHECKING:
    from controller.admission.webhook import Webhook

__all__ = ["LEASE_TIMEOUT_S", "run"]

LEASE_TIMEOUT_S: Final = 4.0
"""Of the elector's requests: shorter than the deadline for a renewal, so that several attempts fit in."""

_LOG: Final = logging.getLogger(__name__)
_WATCHDOG_S: Final = 0.5
_STOP_S: Final = 8.0
_LOST_EXIT_CODE: Final = 1


def run(elector: LeaderElector, publisher: Publisher, webhook: Webhook | None, *, health_port: int) -> int:
    """Work until a signal ends this process, or the leader Lease is lost: then this does not return.

    Args:
        elector: Started here; once it leads, the publisher is started.
        publisher: Not started yet.
        webhook: Served from the beginning, leading or not; None for none.
        health_port: Where probes are answered; 0 for nowhere.

    Returns:
        The exit code.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    ended = threading.Event()
    outcome: list[Outcome] = []

    def elect() -> None:
        try:
            outcome.append(elector.run(stop, on_elected=publisher.start))
        finally:
            ended.set()

    def ready() -> str:
        if not elector.answered.is_set():
            return "the API server has not answered yet"
        if elector.leads and not publisher.is_ready:
            return "the cluster is being read"
        return webhook.problem if webhook else ""

    health = (
        HealthServer(health_port, {"/healthz": lambda: publisher.failure, "/readyz": ready}) if health_port else None
    )
    if health is not None:
        health.start()
    if webhook is not None:
        webhook.start()
    threading.Thread(target=elect, name="election", daemon=True).start()
    # The elector's own thread may hang in a request: this one does not.
    while not (stop.is_set() or elector.overdue or ended.wait(_WATCHDOG_S)):
        pass
    if not stop.is_set():
        _LOG.error("the leader Lease is lost: this process ends, so that there are never two writers")
        _end_at_once()
    ended.wait(LEASE_TIMEOUT_S)  # no renewal may cross the release
    return _stop(elector, publisher, webhook, health)


def _stop(elector: LeaderElector, publisher: Publisher, webhook: Webhook | None, health: HealthServer | None) -> int:
    _LOG.info("stopping")
    if not publisher.stop(_STOP_S):
        # Without the release others wait until the Lease has run out, and by then this process is gone.
        _LOG.warning("a write is still under way: the Lease is not released")
    elif elector.release():
        _LOG.info("lease released")
    for server in (webhook, health):
        if server is not None:
            server.stop()
    _LOG.info("stopped")
    return 0


def _end_at_once() -> None:
    logging.shutdown()
    os._exit(_LOST_EXIT_CODE)  # threads in the middle of a write must not finish what follows it
