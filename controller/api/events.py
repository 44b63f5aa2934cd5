"""``GET /api/v1/events``: the changes of nodes and pending claims, as server-sent events.

Source of the format: the HTML standard, section 9.2, "Server-sent events".

A stream has no queue: when its client has read what it was sent, it is sent the last state of everything that changed
since. It ends after ten minutes, so that callers who have lost the right to read cannot go on for longer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from controller.api.access import Answer
from controller.api.stream_places import StreamPlaces
from controller.overview.store import Changes, Overview
from controller.serving.callers import Caller
from driver.adapters.http.exchange import Request, Response

__all__ = ["events_answer"]

_CONTENT_TYPE: Final = "text/event-stream"
_LONGEST_S: Final = 600.0
_COMMENT_S: Final = 15.0
_POLL_S: Final = 1.0  # how often to check whether the client is still there
_APART_S: Final = 0.2  # so that a burst of changes becomes a few pieces
_PIECE_BYTES: Final = 64 * 1024
_LONGEST_NUMBER: Final = 16


def events_answer(
    overview: Overview, places: StreamPlaces, *, longest_s: float = _LONGEST_S, comment_s: float = _COMMENT_S
) -> Answer:
    """Return what answers with the stream; 400 for a malformed version; 429 for too many streams of one caller.

    Args:
        overview: The nodes.
        places: Limits the streams of each caller.
        longest_s: After how long a stream ends.
        comment_s: How often something is sent although nothing changed.
    """

    def answer(request: Request, caller: Caller) -> Response:
        # A browser's EventSource sends the header when it reconnects; other clients use the parameter.
        version = request.headers.get("last-event-id") or request.query.get("since")
        if version is not None and not (version.isascii() and version.isdigit() and len(version) <= _LONGEST_NUMBER):
            return Response.of_text("since: expected a version, as /api/v1/nodes has it", status=HTTPStatus.BAD_REQUEST)
        since = overview.version if version is None else int(version)
        pieces = _pieces(overview, since, longest_s=longest_s, comment_s=comment_s)
        # X-Accel-Buffering makes proxies forward each event at once.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return places.stream(caller, pieces, content_type=_CONTENT_TYPE, headers=headers)

    return answer


def _pieces(overview: Overview, since: int, *, longest_s: float, comment_s: float) -> Iterator[bytes]:
    began = spoke = time.monotonic()
    yield b": rootport\n\n"  # so that a client knows at once that it is connected
    while (now := time.monotonic()) < began + longest_s:
        changes = overview.wait(since, _POLL_S)
        if changes.version != since:
            yield from _in_pieces(changes)
            since, spoke = changes.version, time.monotonic()
            time.sleep(_APART_S)
        elif now >= spoke + comment_s:
            spoke = now
            yield b": nothing new\n\n"
        else:
            yield b""


def _in_pieces(changes: Changes) -> Iterator[bytes]:
    """Give only the last event the version: a client that loses the connection before it repeats all of them."""
    events = list(_events(changes))
    piece = b""
    for event in events[:-1]:
        piece += event
        if len(piece) >= _PIECE_BYTES:
            yield piece
            piece = b""
    yield piece + b"id: %d\n" % changes.version + events[-1]


def _events(changes: Changes) -> Iterator[bytes]:
    if changes.is_reset:
        yield _event(b"reset", b"{}")
        return
    for name in changes.gone:
        yield _event(b"gone", json.dumps({"name": name}).encode())
    for node in changes.nodes:
        yield _event(b"node", node)
    if changes.claims:
        yield _event(b"claims", b"{}")


def _event(kind: bytes, data: bytes) -> bytes:
    # JSON without line ends: one line of data.
    return b"event: %b\ndata: %b\n\n" % (kind, data)
