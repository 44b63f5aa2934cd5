"""Watches: what they tell, how they end, and that any thread can close them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.errors import ConflictError, ExpiredError, UnavailableError
from driver.adapters.kubernetes.resources import NODES

MIB: Final = 1024**2
ADDED: Final = b'{"type":"ADDED","object":{"metadata":{"name":"n"}}}\n'


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n', ExpiredError, id="expired"),
        pytest.param(b'{"type":"ERROR","object":{"kind":"Status","code":409}}\n', ConflictError, id="refused"),
        pytest.param(b'{"type":"ERROR","object":{}}\n', UnavailableError, id="an error without words"),
    ],
)
def test_what_is_told_as_an_error_is_one(
    scripted: Any, scripted_api: Any, answer: Callable[..., Any], line: bytes, error: type[Exception]
) -> None:
    scripted.answers = [answer(line)]
    with scripted_api.watch(NODES, resource_version="1") as stream, pytest.raises(error):
        list(stream)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"{not json}", id="no JSON"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"type":"NEW","object":{}}', id="unknown type"),
        pytest.param(b'{"type":["ADDED"],"object":{}}', id="a type that is no text"),
        pytest.param(b'{"type":"ERROR","object":[]}', id="an error that is no object"),
        pytest.param(b'{"type":"ADDED","object":null}', id="nothing"),
        pytest.param(b'{"type":"ADDED","object":{"a":"\xff', id="cut off"),
    ],
)
def test_a_line_that_is_no_event_is_skipped_logged_once_and_counted(
    scripted: Any, scripted_api: Any, answer: Callable[..., Any], line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.answers = [answer(line + b"\n" + line + b"\n\n" + ADDED)]
    with scripted_api.watch(NODES, resource_version="1") as stream:
        assert [event.object for event in stream] == [{"metadata": {"name": "n"}}]
    assert scripted_api.skipped.so_far() == {("nodes", "Unreadable"): 2}
    assert [record.getMessage() for record in caplog.records] == ["object skipped"]


def test_a_line_longer_than_any_object_is_skipped_without_being_kept(
    scripted: Any, scripted_api: Any, answer: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    scripted.answers = [answer(b'{"type":"ADDED","object":{"a":"' + b"x" * (100 * MIB) + b'"}}\n' + ADDED)]
    with scripted_api.watch(NODES, resource_version="1") as stream:
        tracemalloc.start()
        try:
            assert [event.object for event in stream] == [{"metadata": {"name": "n"}}]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 50 * MIB
    assert scripted_api.skipped.so_far() == {("nodes", "TooLarge"): 1}
    assert [record.getMessage() for record in caplog.records] == ["object skipped"]


def test_what_others_wrote_into_an_object_too_deeply_is_left_out_of_its_event(
    scripted: Any, scripted_api: Any, answer: Callable[..., Any]
) -> None:
    deep = b"[" * 4000 + b"]" * 4000
    line = b'{"type":"ADDED","object":{"a":%s,"b":"\xff","c":1%s,"d":"kept"}}\n' % (deep, b"0" * 10_000)
    scripted.answers = [answer(line)]
    with scripted_api.watch(NODES, resource_version="1") as stream:
        (event,) = stream
    assert event.object.keys() == {"a", "b", "c", "d"}
    assert event.object["b"] == "\ufffd"
    assert event.object["d"] == "kept"
    assert scripted_api.skipped.so_far() == {}
