"""TLS between network and HTTP, in memory: it reads and writes no socket, so that no thread waits for a handshake."""

from __future__ import annotations

import contextlib
import os
import ssl
from typing import Final

__all__ = ["TlsChannel", "tls_context"]

_PIECE_BYTES: Final = 64 * 1024


class TlsChannel:
    """The TLS of one connection; see :class:`driver.adapters.http.connection.Channel`.

    Args:
        context: Has the certificate.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_open = False

    def receive(self, data: bytes) -> bytes:
        """Return the decrypted bytes, which may be none yet.

        Raises:
            ssl.SSLError: The bytes are not TLS, or the client has ended it.
        """
        self._incoming.write(data)
        plain = bytearray()
        try:
            if not self._is_open:
                self._tls.do_handshake()
                self._is_open = True
            while piece := self._tls.read(_PIECE_BYTES):
                plain += piece
        except ssl.SSLWantReadError:
            return bytes(plain)
        raise ssl.SSLZeroReturnError("the client has ended TLS")

    def reply(self) -> bytes:
        """Return what the handshake sends, such as why it failed."""
        return self._outgoing.read()

    def send(self, data: memoryview) -> bytes:
        """Return these bytes, encrypted."""
        self._tls.write(data)
        return self._outgoing.read()

    def end(self) -> bytes:
        """Return the end of TLS, so that the client notices if the answer was cut short."""
        if self._is_open:
            with contextlib.suppress(ssl.SSLError):  # it waits for the client's own end, which it need not
                self._tls.unwrap()
        return self._outgoing.read()


def tls_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return a context that serves this certificate by TLS 1.2 or newer.

    Args:
        certificate: PEM, followed by its issuer's if clients need that.
        key: Its private key, PEM.

    Raises:
        ssl.SSLError: They do not belong together, or are not PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The ssl module reads files alone. This one is in memory: the key never reaches a disk, and the container's root
    # file system is read-only.
    descriptor = os.memfd_create("rootport-https")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
