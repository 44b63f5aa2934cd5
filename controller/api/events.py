"""``GET /api/v1/events``: what changes, as server-sent events.

Source of the format: the HTML standard, section 9.2, "Server-sent events".

A stream keeps no queue: whenever its client has taken what it was sent, it is sent the last state of what changed
since. It ends after ten minutes, so that who lost the right to read does not read on for longer than that.
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
_LOOK_S: Final = 1.0  # how often to look whether the client is still there
_APART_S: Final = 0.2  # a burst of changes is a few pieces, not one each
_PIECE_BYTES: Final = 64 * 1024
_LONGEST_NUMBER: Final = 16


def events_answer(
    overview: Overview, places: StreamPlaces, *, longest_s: float = _LONGEST_S, comment_s: float = _COMMENT_S
) -> Answer:
    """Answers who may read: the stream; 400 for a version that is none; 429 for too many streams of one caller.

    Args:
        overview: What changes.
        places: How many streams a caller may have.
        longest_s: When a stream ends.
        comment_s: How often something is sent although nothing changed.
    """

    def answer(request: Request, caller: Caller) -> Response:
        # A browser's EventSource sends the header when it connects again; who reads by fetch writes the parameter.
        told = request.headers.get("last-event-id") or request.query.get("since")
        if told is not None and not (told.isascii() and told.isdigit() and len(told) <= _LONGEST_NUMBER):
            return Response.of_text("since: expected a version, as /api/v1/nodes has it", status=HTTPStatus.BAD_REQUEST)
        since = overview.version if told is None else int(told)
        pieces = _pieces(overview, since, longest_s=longest_s, comment_s=comment_s)
        # X-Accel-Buffering: proxies that are told so hand each event on at once.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return places.stream(caller, pieces, content_type=_CONTENT_TYPE, headers=headers)

    return answer


def _pieces(overview: Overview, since: int, *, longest_s: float, comment_s: float) -> Iterator[bytes]:
    began = spoke = time.monotonic()
    yield b": rootport\n\n"  # so that a client knows at once that it is connected
    while (now := time.monotonic()) < began + longest_s:
        changes = overview.wait(since, _LOOK_S)
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
    """The version stands in the last event alone: who loses the connection before it asks again from where it was."""
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
