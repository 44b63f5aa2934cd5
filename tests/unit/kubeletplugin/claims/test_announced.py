"""Which types of devices pods may wait for: only those of a plugin that can hear of their claims."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ForbiddenError, UnavailableError
from driver.adapters.kubernetes.pages import Listing
from driver.adapters.kubernetes.resources import JsonObject
from driver.objects.written_inventory import node_inventory
from kubeletplugin.claims.announced import AnnouncedClaims
from kubeletplugin.publish.inventory import NodePublisher
from tests.support.waiting import eventually
from tests.unit.kubeletplugin.publish.test_rival_order import NODE, READY, StoredInventory

CLAIM = {"namespace": "ml", "name": "c", "uid": "u"}
INVENTORY: JsonObject = {"metadata": {"name": "n", "resourceVersion": "1"}, "status": {"claimsToPrepare": [CLAIM]}}


class Server(KubernetesApi):
    """An API server that answers a list once it may, and has no events."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure
        self.asked = threading.Event()

    def list(self, *_: Any, transform: Any, **__: Any) -> Any:
        self.asked.set()
        if self.failure is not None:
            raise self.failure
        return Listing(items=(transform(INVENTORY),), resource_version="1")

    @contextmanager
    def watch(self, *_: Any, **__: Any) -> Iterator[Any]:  # type: ignore[override]
        yield Stream()


class Stream:
    """A watch without events, until it is closed."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[Any]:
        self._closed.wait(60)
        return iter(())

    def close(self) -> None:
        self._closed.set()


def announced(server: Server, *types: str, woken: list[str] | None = None) -> AnnouncedClaims:
    calls = [] if woken is None else woken
    return AnnouncedClaims(
        server,
        node="n",
        types=types,
        on_change=lambda: calls.append("change"),
        on_watching=lambda: calls.append("watching"),
    )


def test_types_are_known_once_the_inventory_is_watched() -> None:
    woken: list[str] = []
    claims = announced(Server(None), "mig", woken=woken)
    assert claims.types() is None
    claims.start()
    eventually("it is watched", lambda: claims.types() == ("mig",), timeout_s=20)
    eventually("both are told", lambda: woken == ["watching", "change"], timeout_s=20)
    assert [claim.uid for claim in claims.claims()] == ["u"]
    claims.stop()


def test_no_pod_waits_for_a_plugin_that_may_not_watch_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(ForbiddenError("nodeinventories is forbidden", status=403, reason="Forbidden"))
    claims = announced(server, "mig")
    claims.start()
    eventually("it is refused", lambda: claims.types() == (), timeout_s=20)
    assert claims.types() == ()
    told = [record.getMessage() for record in caplog.records if record.name == "kubeletplugin.claims.announced"]
    assert len(told) == 1
    assert "may not watch its NodeInventory" in told[0]
    server.failure = None
    eventually("the right is given", lambda: claims.types() == ("mig",), timeout_s=20)
    claims.stop()


def test_nothing_is_known_while_the_api_server_is_away(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = Server(UnavailableError("away"))
    claims = announced(server, "mig", "rdma-vf")
    claims.start()
    assert server.asked.wait(20)
    eventually("it has failed", lambda: "unavailable" in caplog.text, timeout_s=20)
    assert claims.types() is None
    claims.stop()


def test_a_plugin_without_the_option_watches_nothing() -> None:
    server = Server(None)
    claims = announced(server)
    claims.start()
    assert claims.types() == ()
    assert not server.asked.wait(0.2)
    claims.stop()


def test_what_a_former_process_has_published_stays_until_it_is_known() -> None:
    server = StoredInventory()
    types: list[tuple[str, ...] | None] = [None]
    publisher = NodePublisher(
        cast("KubernetesApi", server),
        node="n",
        spec=lambda: node_inventory(NODE)["spec"],
        reports=lambda: (READY,),
        prepares_before_binding=lambda: types[0],
    )

    def published(known: tuple[str, ...] | None) -> object:
        types[0] = known
        publisher.publish()
        return (server.stored or {})["status"].get("preparesBeforeBinding")

    assert published(None) is None
    assert published(("mig",)) == ["mig"]
    assert published(None) == ["mig"]
    assert published(()) is None
