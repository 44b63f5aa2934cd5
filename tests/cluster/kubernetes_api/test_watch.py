"""Watches: what they tell, how they end, and that any thread can close them."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import UnavailableError
from driver.adapters.kubernetes.resources import NODES, JsonObject, Resource
from driver.adapters.kubernetes.watch import WatchStream
from tests.support.cluster.control_plane import ControlPlane

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)


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


@pytest.mark.parametrize("small", [False, True])
def test_a_silent_watch_outlives_the_time_limit_of_calls(
    control_plane: ControlPlane, namespace: str, small: bool
) -> None:
    with KubernetesApi.connect(kubeconfig=control_plane.kubeconfig, timeout_s=1, small=small) as api:
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
