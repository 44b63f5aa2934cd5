"""Koordinator's view of nodes, ``GET /apis/v1/plugins/DeviceShare/nodeDeviceSummaries``.

For the answers' shape see :mod:`driver.status.device_share`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

from controller.api.access import Answer
from controller.api.stream_places import StreamPlaces
from controller.overview.store import Overview
from controller.serving.callers import Caller
from driver.adapters.http.exchange import Request, Response
from driver.api.rootport_v1alpha1 import Device
from driver.status.device_share import DOMAINS, TODAY, node_device_summary

__all__ = ["PREFIX", "summaries_answer"]

PREFIX: Final = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"


def summaries_answer(overview: Overview, places: StreamPlaces) -> Answer:
    """Return what answers for all nodes, or for the one that the path names. Errors are JSON, as Koordinator's are.

    Args:
        overview: The nodes.
        places: Limits the streams of each caller.
    """
    # All summaries of thousands of nodes are seconds of work, so only one thread works on them at a time.
    lock = threading.Lock()

    def answer(request: Request, caller: Caller) -> Response:
        domain = request.query.get("domain", TODAY)
        if domain not in DOMAINS:
            return _error(HTTPStatus.BAD_REQUEST, f"domain: expected {' or '.join(DOMAINS)}")
        name = unquote(request.path.removeprefix(PREFIX).strip("/"))
        if not name:
            names = [node.name for node in overview.nodes()]
            return places.stream(caller, _all(overview, names, domain, lock), content_type="application/json")
        summary = _of(overview, name, domain)
        if summary is None:
            return _error(HTTPStatus.NOT_FOUND, f"cannot find node {name[:253]}")
        return Response.of_json(summary)

    return answer


def _all(overview: Overview, names: Iterable[str], domain: str, lock: threading.Lock) -> Iterator[bytes]:
    """Yield the answer node by node, so that a slow client does not keep all of them in memory."""
    encoder = Response.of_json
    start = b"{"
    for name in names:
        with lock:
            summary = _of(overview, name, domain)
        if summary is not None:  # it may be gone by now
            yield start + encoder(name).body + b":" + encoder(summary).body
            start = b","
    yield b"{}" if start == b"{" else b"}"


def _of(overview: Overview, name: str, domain: str) -> dict[str, Any] | None:
    node = overview.node(name)
    if node is None:
        return None
    devices = map(Device.model_validate, overview.devices(name))
    return node_device_summary(devices, state=node.state, cannot_prepare=node.cannot_prepare, domain=domain)


def _error(status: HTTPStatus, message: str) -> Response:
    return Response.of_json({"message": message}, status=status)
