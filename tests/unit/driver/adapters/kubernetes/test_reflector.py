"""The cache: in step with a real API server, through restarts and compactions, and quiet while the server is away."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.reflector import Reflector, keep, without_managed_fields
from driver.adapters.kubernetes.resources import NODES, JsonObject

WHOLE: Final = keep(without_managed_fields)


class Changes:
    """The keys that were reported, for a test to wait for."""

    def __init__(self) -> None:
        self.keys: queue.Queue[str] = queue.Queue()

    def __call__(self, key: str, _event: object = None) -> None:
        self.keys.put(key)

    def next(self, timeout_s: float = 40) -> str:
        return self.keys.get(timeout=timeout_s)

    def wait_for(self, *keys: str) -> None:
        missing = set(keys)
        while missing:
            missing.discard(self.next())


@contextmanager
def running(reflector: Reflector[Any]) -> Iterator[threading.Event]:
    stop = threading.Event()
    thread = threading.Thread(target=reflector.run, args=(stop,))
    thread.start()
    try:
        assert reflector.synced.wait(20)
        yield stop
    finally:
        stop.set()
        started = time.monotonic()
        thread.join(5)
        assert not thread.is_alive()
        assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"metadata": None},
        {"metadata": []},
        {"metadata": {"labels": [1]}},
        {"metadata": {"name": "", "namespace": 1, "resourceVersion": {}}},
        {"metadata": {"name": None, "managedFields": 1}, "spec": []},
    ],
    ids=str,
)
def test_objects_of_no_shape_end_neither_list_nor_watch(
    scripted: Any, scripted_api: KubernetesApi, answer: Callable[..., Any], stored: JsonObject
) -> None:
    def named(name: str) -> JsonObject:
        return {"metadata": {"name": name, "resourceVersion": "2"}}

    lines = [
        {"type": kind, "object": item} for kind in ("ADDED", "DELETED", "BOOKMARK") for item in (stored, named("x"))
    ]
    lines.append({"type": "ADDED", "object": named("last")})
    listing = {"metadata": {"resourceVersion": "1"}, "items": [stored, None, 7, named("first")]}
    watched = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    scripted.answers = [answer(listing), answer(watched), *[answer(status=503)] * 100]
    changes = Changes()
    reflector = Reflector(scripted_api, NODES, on_change=changes, transform=WHOLE)
    with running(reflector):
        changes.wait_for("first", "last")
        names = {str(stored["metadata"]["name"]) for stored in reflector.objects()}
    assert {"first", "last"} <= names


@pytest.mark.parametrize(
    ("always", "state"),
    [
        pytest.param({"status": 403, "body": {"kind": "Status", "reason": "Forbidden"}}, "refused 403", id="forbidden"),
        pytest.param({"status": 503, "body": b"away"}, "unavailable", id="unavailable"),
        pytest.param({"status": 410, "body": {"kind": "Status", "reason": "Expired"}}, "expired", id="expired"),
        pytest.param({"dropped": True}, "unavailable", id="dropped"),
        pytest.param({"body": {"metadata": {"resourceVersion": "1"}}}, "unavailable", id="each watch ends at once"),
    ],
)
def test_it_never_runs_hot(
    scripted: Any,
    scripted_api: KubernetesApi,
    answer: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    always: dict[str, Any],
    state: str,
) -> None:
    caplog.set_level(logging.INFO)
    scripted.answers = [answer(**always)] * 1000
    stop = threading.Event()
    reflector = Reflector(scripted_api, NODES, on_change=lambda *_: None, transform=WHOLE)
    thread = threading.Thread(target=reflector.run, args=(stop,))
    thread.start()
    time.sleep(2)
    stop.set()
    thread.join(5)
    assert not thread.is_alive()
    # Attempts at 0, 0.5, 1.5 s, a quarter less by chance, and a list and a watch, or one more try, for each.
    assert len(scripted.requests) <= 8
    states = [record for record in caplog.records if f'state="{state}"' in record.getMessage()]
    assert len(states) == 1


def test_it_waits_as_long_as_a_busy_server_asks(
    scripted: Any, scripted_api: KubernetesApi, answer: Callable[..., Any]
) -> None:
    scripted.answers = [answer(b"busy", 429, {"Retry-After": "30"})] * 10
    stop = threading.Event()
    reflector = Reflector(scripted_api, NODES, on_change=lambda *_: None, transform=WHOLE)
    thread = threading.Thread(target=reflector.run, args=(stop,))
    thread.start()
    time.sleep(1.5)
    stop.set()
    thread.join(5)
    assert not thread.is_alive()
    assert len(scripted.requests) == 1
