"""HTTPS without the webhook: a certificate that vouches for itself, made in memory and never stored."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from controller.serving.certificates import issue
from controller.serving.secure_server import SecureServer
from driver.adapters.http.exchange import Route

__all__ = ["SelfSigned"]

_LOG: Final = logging.getLogger(__name__)
_VALID: Final = timedelta(days=90)
_RENEW_S: Final = 30 * 24 * 3600.0


class SelfSigned:
    """The HTTPS server where nobody is told whom to trust: each process has a certificate of its own.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        names: DNS names and IP addresses that the certificate is for.
        routes: What is served, by path prefix.
        renew_s: How often a new certificate is made; well below 90 days.
        now: The time, with a time zone.

    Raises:
        NodeError: The port is taken.
    """

    def __init__(
        self,
        port: int,
        *,
        names: Iterable[str],
        routes: Mapping[str, Route],
        renew_s: float = _RENEW_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._names = frozenset(names)
        self._server = SecureServer(port, routes)
        self._renew_s = renew_s
        self._now = now
        self._stop = threading.Event()
        self._renew()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    @property
    def problem(self) -> str:
        """Why it cannot answer yet: always empty."""
        return ""

    def start(self) -> None:
        """Serve."""
        self._server.start()
        threading.Thread(target=self._keep, name="certificate", daemon=True).start()
        _LOG.info("HTTPS", extra={"port": self.port})

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._server.stop()

    def _keep(self) -> None:
        while not self._stop.wait(self._renew_s):
            self._renew()

    def _renew(self) -> None:
        # The certificate of its authority goes along: who wants to trust it can.
        certificate, authority = issue(self._names, now=self._now(), valid=_VALID)
        self._server.use(certificate.pem + authority.pem, certificate.key)
