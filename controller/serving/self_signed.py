"""HTTPS without the webhook: with a self-signed certificate that is issued in memory and never stored."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
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
    """The HTTPS server without a webhook: each process has a certificate of its own, which no client trusts in advance.

    Args:
        port: TCP port, on all addresses; 0 for any free one.
        names: The certificate's DNS names and IP addresses.
        routes: The routes by path prefix.
        renew_s: How often a new certificate is issued; well below 90 days.

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
    ) -> None:
        self._names = frozenset(names)
        self._server = SecureServer(port, routes)
        self._renew_s = renew_s
        self._stop = threading.Event()
        self._renew()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    @property
    def problem(self) -> str:
        """Why it cannot answer yet: always empty."""
        return ""

    def start(self) -> None:
        """Start serving."""
        self._server.start()
        threading.Thread(target=self._keep, name="certificate", daemon=True).start()
        _LOG.info("HTTPS", extra={"port": self.port})

    def stop(self) -> None:
        """Stop serving."""
        self._stop.set()
        self._server.stop()

    def _keep(self) -> None:
        while not self._stop.wait(self._renew_s):
            self._renew()

    def _renew(self) -> None:
        # Together with its authority's, so that clients can choose to trust it.
        certificate, authority = issue(self._names, now=datetime.now(UTC), valid=_VALID)
        self._server.use(certificate.pem + authority.pem, certificate.key)
