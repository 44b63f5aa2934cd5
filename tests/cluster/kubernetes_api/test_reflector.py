"""The cache: in step with a real API server, through restarts and compactions, and quiet while the server is away."""

from __future__ import annotations

import logging
import queue
import re
import threading
import time
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.reflector import Reflector, keep
from driver.adapters.kubernetes.resources import NODES, JsonObject, Resource
from tests.support.cluster.control_plane import ControlPlane
from tests.unit.driver.adapters.kubernetes.test_reflector import WHOLE, Changes, running

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
OURS: Final = "metadata.name!=kube-root-ca.crt"  # which kube-controller-manager makes in each namespace


def config_map(name: str, namespace: str, **data: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def test_it_keeps_what_the_server_keeps(api: KubernetesApi, namespace: str) -> None:
    api.create(CONFIG_MAPS, config_map("a", namespace, x="1"))
    changes = Changes()
    reflector = Reflector(
        api, CONFIG_MAPS, namespace=namespace, field_selector=OURS, on_change=changes, transform=WHOLE
    )
    assert not reflector.synced.is_set()
    with running(reflector):
        assert changes.next() == f"{namespace}/a"
        stored = reflector.get(f"{namespace}/a")
        assert stored is not None
        assert stored["data"] == {"x": "1"}
        assert "managedFields" not in stored["metadata"]

        api.create(CONFIG_MAPS, config_map("b", namespace))
        assert changes.next() == f"{namespace}/b"
        api.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "2"}}, namespace=namespace)
        assert changes.next() == f"{namespace}/a"
        stored = reflector.get(f"{namespace}/a")
        assert stored is not None
        assert stored["data"] == {"x": "2"}
        assert "managedFields" not in stored["metadata"]

        api.delete(CONFIG_MAPS, "b", namespace=namespace)
        assert changes.next() == f"{namespace}/b"
        assert reflector.get(f"{namespace}/b") is None
        assert [stored["metadata"]["name"] for stored in reflector.objects()] == ["a"]


def test_an_object_that_no_longer_matches_is_gone(api: KubernetesApi, namespace: str) -> None:
    api.create(NODES, {"metadata": {"name": namespace}})
    changes = Changes()
    reflector = Reflector(api, NODES, field_selector="spec.unschedulable=false", on_change=changes, transform=WHOLE)
    with running(reflector):
        changes.wait_for(namespace)
        api.merge_patch(NODES, namespace, {"spec": {"unschedulable": True}})
        changes.wait_for(namespace)
        assert reflector.get(namespace) is None
    api.delete(NODES, namespace)


def test_only_what_the_transform_keeps_is_kept(api: KubernetesApi, namespace: str) -> None:
    def least(stored: JsonObject) -> JsonObject:
        return {"metadata": {key: stored["metadata"][key] for key in ("namespace", "name", "resourceVersion")}}

    api.create(CONFIG_MAPS, config_map("a", namespace, x="1"))
    changes = Changes()
    arguments: dict[str, Any] = {"namespace": namespace, "field_selector": OURS, "on_change": changes}
    reflector = Reflector(api, CONFIG_MAPS, transform=keep(least), metadata_only=True, **arguments)
    with running(reflector):
        changes.wait_for(f"{namespace}/a")
        api.create(CONFIG_MAPS, config_map("b", namespace))
        changes.wait_for(f"{namespace}/b")
        assert {frozenset(stored) for stored in reflector.objects()} == {frozenset({"metadata"})}


def test_it_goes_on_after_the_server_was_away_and_says_so_once(
    api: KubernetesApi, control_plane: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    api.create(CONFIG_MAPS, config_map("a", namespace))
    changes = Changes()
    reflector = Reflector(
        api, CONFIG_MAPS, namespace=namespace, field_selector=OURS, on_change=changes, transform=WHOLE
    )
    with running(reflector):
        api.create(CONFIG_MAPS, config_map("c", namespace))
        changes.wait_for(f"{namespace}/a", f"{namespace}/c")
        control_plane.stop_api_server()
        try:
            time.sleep(3)  # enough for the third attempt
            assert reflector.get(f"{namespace}/a") is not None
        finally:
            control_plane.start_api_server()
        api.create(CONFIG_MAPS, config_map("b", namespace))
        changes.wait_for(f"{namespace}/b")
    ours = [record for record in caplog.records if "reflector resource=configmaps" in record.getMessage()]
    assert [record.levelname for record in ours] == ["INFO", "WARNING", "INFO"]
    assert "state=following objects=1" in ours[0].getMessage()
    assert 'state="unavailable" error="cannot watch configmaps' in ours[1].getMessage()
    assert not any(record.exc_info for record in caplog.records)
    assert not any(record.name.startswith("urllib3") for record in caplog.records if record.levelno > logging.DEBUG)


def test_what_vanished_while_the_history_was_lost_is_reported(
    api: KubernetesApi, control_plane: ControlPlane, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for name in ("same", "gone", "changed"):
        api.create(CONFIG_MAPS, config_map(name, namespace))
    changes = Changes()
    reflector = Reflector(
        _Halting(api), CONFIG_MAPS, namespace=namespace, field_selector=OURS, on_change=changes, transform=WHOLE
    )
    with running(reflector):
        changes.wait_for(*(f"{namespace}/{name}" for name in ("same", "gone", "changed")))
        same = reflector.get(f"{namespace}/same")
        _Halting.gate.clear()
        control_plane.stop_api_server()
        control_plane.start_api_server()
        api.delete(CONFIG_MAPS, "gone", namespace=namespace)
        api.merge_patch(CONFIG_MAPS, "changed", {"data": {"x": "1"}}, namespace=namespace)
        api.create(CONFIG_MAPS, config_map("new", namespace))
        control_plane.stop_api_server()  # the next one remembers no event
        control_plane.compact()
        control_plane.start_api_server()
        _Halting.gate.set()
        reported = {changes.next() for _ in range(3)}
        assert reported == {f"{namespace}/{name}" for name in ("gone", "changed", "new")}
        assert reflector.get(f"{namespace}/gone") is None
        assert reflector.get(f"{namespace}/same") is same
        assert {stored["metadata"]["name"] for stored in reflector.objects()} == {"same", "changed", "new"}
        assert changes.keys.empty()
    assert any('state="expired"' in record.getMessage() for record in caplog.records)


class _Halting(KubernetesApi):
    """The API, but for a gate before each watch: so that a test decides when the cache sees the server again."""

    gate = threading.Event()

    def __init__(self, api: KubernetesApi) -> None:
        super().__init__(api._connection)
        self.gate.set()

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        assert self.gate.wait(60)
        return super().watch(*args, **kwargs)


def test_the_event_of_a_transform_goes_to_the_callback_and_is_not_kept(api: KubernetesApi, namespace: str) -> None:
    seen: queue.Queue[tuple[str, str | None]] = queue.Queue()

    def transform(stored: JsonObject) -> tuple[JsonObject, str]:
        return {"metadata": stored["metadata"]}, stored["data"]["x"]

    def on_change(key: str, event: str | None) -> None:
        seen.put((key.partition("/")[2], event))

    api.create(CONFIG_MAPS, config_map("a", namespace, x="listed"))
    reflector = Reflector(
        api, CONFIG_MAPS, namespace=namespace, field_selector=OURS, on_change=on_change, transform=transform
    )
    with running(reflector):
        assert seen.get(timeout=20) == ("a", "listed")
        api.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "changed"}}, namespace=namespace)
        assert seen.get(timeout=20) == ("a", "changed")
        assert [set(kept) for kept in reflector.objects()] == [{"metadata"}]
        api.delete(CONFIG_MAPS, "a", namespace=namespace)
        assert seen.get(timeout=20) == ("a", None)


def test_a_callback_that_fails_is_logged_and_stops_nothing(
    api: KubernetesApi, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    changes = Changes()

    def on_change(key: str, _event: None) -> None:
        changes(key)
        if key.endswith("/bad"):
            raise RuntimeError("on purpose")

    reflector = Reflector(
        api, CONFIG_MAPS, namespace=namespace, field_selector=OURS, on_change=on_change, transform=WHOLE
    )
    with running(reflector):
        for name in ("bad", "good"):
            api.create(CONFIG_MAPS, config_map(name, namespace))
            changes.wait_for(f"{namespace}/{name}")
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage() == "object skipped"
    told = vars(record)
    assert re.fullmatch(rf"{namespace}/bad@\d+ on_change", told["object"])
    assert told["error"] == "on purpose"
    assert api.skipped.so_far() == {("configmaps", "Failed"): 1}


def test_an_object_that_cannot_be_processed_is_absent_until_it_can(
    api: KubernetesApi, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    def picky(stored: JsonObject) -> JsonObject:
        return stored | {"length": len(stored["data"]["x"]) // (stored["data"]["x"] != "bad")}

    for name, x in (("a", "bad"), ("b", "good"), ("c", "good")):
        api.create(CONFIG_MAPS, config_map(name, namespace, x=x))
    changes = Changes()
    arguments: dict[str, Any] = {"namespace": namespace, "field_selector": OURS, "transform": keep(picky)}
    reflector = Reflector(api, CONFIG_MAPS, on_change=changes, **arguments)
    with running(reflector):
        assert {stored["metadata"]["name"] for stored in reflector.objects()} == {"b", "c"}
        changes.wait_for(f"{namespace}/b", f"{namespace}/c")
        api.merge_patch(CONFIG_MAPS, "b", {"data": {"x": "bad"}}, namespace=namespace)
        changes.wait_for(f"{namespace}/b")
        assert reflector.get(f"{namespace}/b") is None
        api.merge_patch(CONFIG_MAPS, "a", {"data": {"x": "mended"}}, namespace=namespace)
        changes.wait_for(f"{namespace}/a")
        assert {stored["metadata"]["name"] for stored in reflector.objects()} == {"a", "c"}
    again = Reflector(api, CONFIG_MAPS, on_change=changes, **arguments)
    with running(again):
        assert {stored["metadata"]["name"] for stored in again.objects()} == {"a", "c"}
    assert api.skipped.so_far() == {("configmaps", "Failed"): 3}
    told = [vars(record)["object"] for record in caplog.records if record.getMessage() == "object skipped"]
    assert [text.partition("@")[0] for text in told] == [f"{namespace}/a", f"{namespace}/b"]  # each version once
    assert all(record.exc_info for record in caplog.records if record.getMessage() == "object skipped")


def test_only_stop_ends_it(
    api: KubernetesApi, namespace: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise RecursionError("on purpose")

    monkeypatch.setattr(api, "list", broken)
    with running(Reflector(api, CONFIG_MAPS, namespace=namespace, on_change=lambda *_: None, transform=WHOLE)):
        pass
    (record,) = [record for record in caplog.records if record.exc_info]
    assert record.getMessage() == "reflector resource=configmaps state=failed"


def test_a_callback_may_ask_the_cache(api: KubernetesApi, namespace: str) -> None:
    api.create(CONFIG_MAPS, config_map("a", namespace))
    seen: queue.Queue[tuple[JsonObject | None, int]] = queue.Queue()

    def on_change(key: str, _event: None) -> None:
        seen.put((reflector.get(key), len(reflector.objects())))

    reflector = Reflector(
        api, CONFIG_MAPS, namespace=namespace, field_selector=OURS, on_change=on_change, transform=WHOLE
    )
    with running(reflector):
        stored, count = seen.get(timeout=10)
    assert stored is not None
    assert count == 1
