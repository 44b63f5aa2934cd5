"""A client of the controller's HTTPS server: plain http.client over real TLS, and a reader of server-sent events."""

from __future__ import annotations

import gzip
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "Client", "Event"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A server-sent event, or a comment, whose kind is ``:``."""

    kind: str
    data: Any = None
    id: int | None = None


class Client:
    """Asks one server, with one token."""

    def __init__(self, port: int, token: str = "", *, authority: bytes | None = None) -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if authority is None:
            self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def get(self, path: str, headers: Mapping[str, str] | None = None, *, method: str = "GET") -> Answer:
        connection = self._connection()
        try:
            connection.request(method, path, headers={**self._headers, **(headers or {})})
            said = connection.getresponse()
            body = said.read()
        finally:
            connection.close()
        told = {name.lower(): value for name, value in said.getheaders()}
        if told.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        return Answer(status=said.status, headers=told, body=body)

    def status_of_stream(self, path: str) -> int:
        """The status alone; then the client leaves."""
        connection = self._connection()
        try:
            connection.request("GET", path, headers=self._headers)
            with connection.getresponse() as said:
                return said.status
        finally:
            connection.close()

    @contextmanager
    def events(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[Iterator[Event]]:
        """The events of a stream; each is waited for at most 20 seconds."""
        connection = self._connection()
        try:
            connection.request("GET", path, headers={**self._headers, **(headers or {})})
            said = connection.getresponse()
            assert (said.status, said.getheader("Content-Type")) == (200, "text/event-stream"), said.read()
            try:
                yield _events(said)
            finally:
                said.close()
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context, timeout=20)


def _events(said: http.client.HTTPResponse) -> Iterator[Event]:
    fields: dict[str, str] = {}
    while line := said.readline():
        text = line.decode().rstrip("\n")
        if text.startswith(":"):
            yield Event(kind=":", data=text[1:].strip())
        elif text:
            name, _, value = text.partition(": ")
            fields[name] = value
        elif fields:
            number = int(fields["id"]) if "id" in fields else None
            yield Event(kind=fields["event"], data=json.loads(fields["data"]), id=number)
            fields = {}
