"""Makes requests from the bytes that have arrived on a connection, and refuses those that cannot be answered."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from driver.adapters.http.connection import Connection
from driver.adapters.http.exchange import Request, longest_prefix
from driver.adapters.http.http1 import END_OF_HEAD, BadRequestError, RequestHead, parse_head
from driver.adapters.http.limits import Limits

__all__ = ["take_request"]

_MAX_QUERY_FIELDS: Final = 32
_METHODS: Final = frozenset({"GET", "POST"})


def take_request(connection: Connection, routes: Iterable[str], limits: Limits) -> Request | None:
    """Take the request out of the connection's inbox, once all of it has arrived; before that, its head.

    Args:
        connection: The connection; its ``head`` is set once that has arrived.
        routes: The path prefixes that are served.
        limits: How long head and body may be.

    Returns:
        The request; None if more must arrive.

    Raises:
        BadRequestError: The request will not be answered, even if more arrives.
        OSError: The connection is broken.
    """
    if connection.head is None:
        at = connection.find(END_OF_HEAD)
        if (at if at >= 0 else len(connection.inbox)) > limits.head_bytes:
            raise BadRequestError("the headers are too long", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if at < 0:
            return None
        head = parse_head(bytes(connection.inbox[:at]))
        path = _path(head)
        del connection.inbox[: at + len(END_OF_HEAD)]
        connection.head = head
        _check(head, path, routes, limits)
        if head.headers.get("expect", "").lower() == "100-continue" and not connection.inbox:
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.flush()
    head = connection.head
    return _request(connection, head) if len(connection.inbox) >= head.body_bytes else None


def _check(head: RequestHead, path: str, routes: Iterable[str], limits: Limits) -> None:
    if head.method not in _METHODS:
        raise BadRequestError("only GET and POST are answered here", HTTPStatus.NOT_IMPLEMENTED)
    if longest_prefix(routes, path) is None:
        raise BadRequestError("there is nothing here", HTTPStatus.NOT_FOUND)
    if head.body_bytes > limits.body_bytes:
        raise BadRequestError(f"expected at most {limits.body_bytes} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _path(head: RequestHead) -> str:
    try:
        return urlsplit(head.target).path
    except ValueError:
        raise BadRequestError("the URL cannot be read") from None


def _request(connection: Connection, head: RequestHead) -> Request:
    try:
        url = urlsplit(head.target)
        query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS))
    except ValueError:
        raise BadRequestError("the URL cannot be read") from None
    body = bytes(memoryview(connection.inbox)[: head.body_bytes])
    connection.inbox = bytearray()
    return Request(
        method=head.method,
        path=url.path,
        query=query,
        headers=head.headers,
        body=body,
        client=connection.client,
    )
