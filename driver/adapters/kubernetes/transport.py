"""What a connection to the API server needs of the library that sends its requests, and how that fails.

Two modules implement it: ``http_transport`` with the standard library, and ``client_transport`` with the official
client. The rules that hold for both (retries, limits, refusals) are in ``connection``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from driver.adapters.kubernetes.request import Request

__all__ = ["Answer", "CredentialsError", "DroppedError", "TlsError", "Transport", "TransportError"]


class TransportError(Exception):
    """A request got no answer, or not all of it."""


class DroppedError(TransportError):
    """The server dropped the connection, as it may do with one that was idle."""


class TlsError(TransportError):
    """There is no TLS connection: the certificate of the server, or of the client, was refused."""


class CredentialsError(TransportError):
    """The token could not be read."""


class Answer(Protocol):
    """An answer, of which the body is not read yet."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    def header(self, name: str) -> str | None:
        """Return a header, by its name in any case; None if there is none."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in pieces, as they arrive; after the last one the connection is used again.

        Raises:
            TransportError: The body did not come in time, or not all of it.
        """
        ...

    def set_silence(self, seconds: float) -> None:
        """Change how long the body may pause."""
        ...

    def shut_down(self) -> None:
        """Wake the thread that waits for the body, from another one; may raise an OSError, ValueError, RuntimeError."""
        ...

    def close(self) -> None:
        """Close the connection, unless all was read."""
        ...


class Transport(Protocol):
    """Sends requests over kept-alive connections. Thread-safe; a request never waits for another one's connection."""

    def send(self, request: Request, timeout_s: float) -> Answer:
        """Send a request once, and return its answer when the status is there. Redirects are not followed.

        Args:
            request: The request.
            timeout_s: The limit for connecting, and for each wait for bytes of the answer.

        Raises:
            TransportError: No answer came.
        """
        ...

    def close(self) -> None:
        """Close the idle connections; a later request opens new ones."""
        ...
