"""Watches: what they tell, how they end, and that any thread can close them."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest
from cluster.control_plane import ControlPlane

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ConflictError, ExpiredError, UnavailableError
from driver.adapters.kubernetes.resources import NODES, JsonObject, Resource
from driver.adapters.kubernetes.watch import WatchStream

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)

MIB: Final = 1024**2
ADDED: Final = b'{"type":"ADDED","object":{"metadata":{"name":"n"}}}\n'


def config_map(name: str, namespace: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": namespace}}


def test_a_watch_tells_each_change_from_its_version_on(api: KubernetesApi, namespace: str) -> None:
    version = api.list(CONFIG_MAPS, namespace=namespace).resource_version
    api.create(CONFIG_MAPS, config_map("a", namespace))
    api.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "1" * 200_000}}, namespace=namespace)
    api.delete(CONFIG_MAPS, "a", namespace=namespace)
    with api.watch(CONFIG_MAPS, resource_version=version, namespace=namespace, duration_s=60) as stream:
        events = [next(stream) for _ in range(3)]
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert {event.object["kind"] for event in events} == {"ConfigMap"}
    assert events[2].object["data"] == {"x": "1" * 200_000}
    assert list(stream) == []


def test_a_watch_of_metadata_sees_no_data(api: KubernetesApi, namespace: str) -> None:
    version = api.list(CONFIG_MAPS, namespace=namespace).resource_version
    api.create(CONFIG_MAPS, config_map("a", namespace) | {"data": {"x": "1"}})
    arguments: dict[str, Any] = {"resource_version": version, "namespace": namespace, "metadata_only": True}
    with api.watch(CONFIG_MAPS, **arguments) as stream:
        event = next(stream)
    assert event.object["kind"] == "PartialObjectMetadata"
    assert "data" not in event.object


def test_a_watch_ends_when_its_time_is_over_and_its_connection_serves_again(api: KubernetesApi, namespace: str) -> None:
    version = api.list(CONFIG_MAPS, namespace=namespace).resource_version
    started = time.monotonic()
    events = list(api.watch(CONFIG_MAPS, resource_version=version, namespace=namespace, duration_s=1))
    assert 0.5 < time.monotonic() - started < 5
    assert {event.type for event in events} <= {"BOOKMARK"}
    api.list(CONFIG_MAPS, namespace=namespace)


def test_a_silent_watch_outlives_the_time_limit_of_calls(control_plane: ControlPlane, namespace: str) -> None:
    with KubernetesApi.connect(kubeconfig=control_plane.kubeconfig, timeout_s=1) as api:
        version = api.list(CONFIG_MAPS, namespace=namespace).resource_version
        stream = api.watch(CONFIG_MAPS, resource_version=version, namespace=namespace, duration_s=3)
        assert {event.type for event in stream} <= {"BOOKMARK"}


def test_a_watch_that_nobody_reads_can_be_closed_twice(api: KubernetesApi) -> None:
    stream = api.watch(NODES, resource_version=api.list(NODES).resource_version)
    stream.close()
    stream.close()
    assert list(stream) == []


def test_a_blocked_watch_is_closed_from_another_thread_within_a_second(api: KubernetesApi, namespace: str) -> None:
    version = api.list(CONFIG_MAPS, namespace=namespace).resource_version
    for pause_s in (0.0, 0.001, 0.01, 0.05) * 5:
        stream = api.watch(CONFIG_MAPS, resource_version=version, namespace=namespace)
        errors = _read_in_thread(stream, pause_s)
        assert errors == []


def test_a_watch_that_is_being_fed_is_closed_from_another_thread(api: KubernetesApi, namespace: str) -> None:
    done = threading.Event()

    def write() -> None:
        api.create(CONFIG_MAPS, config_map("a", namespace))
        while not done.is_set():
            api.merge_patch(CONFIG_MAPS, "a", {"data": {"x": str(time.monotonic())}}, namespace=namespace)

    version = api.list(CONFIG_MAPS, namespace=namespace).resource_version
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(10):
            assert _read_in_thread(api.watch(CONFIG_MAPS, resource_version=version, namespace=namespace), 0.02) == []
    finally:
        done.set()
        writer.join()


def _read_in_thread(stream: WatchStream, pause_s: float) -> list[BaseException]:
    """Read a stream in a thread, close it from here after a pause; the errors of that thread."""
    errors: list[BaseException] = []

    def read() -> None:
        try:
            for _ in stream:
                pass
        except BaseException as error:  # noqa: BLE001 - any at all fails the test
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(pause_s)  # to close it at another moment of its life each time
    started = time.monotonic()
    stream.close()
    reader.join(5)
    assert not reader.is_alive()
    assert time.monotonic() - started < 1
    return errors


def test_a_watch_breaks_when_the_api_server_dies(
    api: KubernetesApi, control_plane: ControlPlane, namespace: str
) -> None:
    version = api.list(CONFIG_MAPS, namespace=namespace).resource_version
    with api.watch(CONFIG_MAPS, resource_version=version, namespace=namespace) as stream:
        control_plane.stop_api_server()
        try:
            with pytest.raises(UnavailableError, match="the stream broke"):
                list(stream)
            with pytest.raises(UnavailableError, match="no answer"):
                api.watch(CONFIG_MAPS, resource_version=version, namespace=namespace)
        finally:
            control_plane.start_api_server()


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
