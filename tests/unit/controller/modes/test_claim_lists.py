"""One list of all claims for all nodes that wait, from the API server itself."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from controller.modes.claim_lists import ClaimLists, Listed
from driver.adapters.kubernetes.api import KubernetesApi
from tests.support.scripted_api import Answer, ScriptedServer
from tests.support.waiting import eventually


def claim(*results: dict[str, Any], allocated: bool = True) -> dict[str, Any]:
    status = {"allocation": {"devices": {"results": results}}} if allocated else {}
    return {"metadata": {"name": "c", "namespace": "default"}, "status": status}


def result(pool: str, device: str, **fields: Any) -> dict[str, Any]:
    return {"driver": "rootport.dev", "pool": pool, "device": device, "request": "r"} | fields


def listing(*claims: dict[str, Any]) -> Answer:
    return Answer({"kind": "ResourceClaimList", "metadata": {"resourceVersion": "7"}, "items": list(claims)})


class Asked:
    def __init__(self, api: KubernetesApi) -> None:
        self.enqueued: list[str] = []
        self.time = 100.0
        self.lists = ClaimLists(api, enqueue=self.enqueued.append, every_s=0.01, clock=lambda: self.time)


@pytest.fixture
def asked(scripted_api: KubernetesApi) -> Asked:
    return Asked(scripted_api)


def test_nodes_that_wait_share_a_list(scripted: ScriptedServer, asked: Asked) -> None:
    scripted.answers.append(
        listing(
            claim(result("node-a", "gpu-0"), result("node-b", "gpu-1")),
            claim(result("node-a", "gpu-2", adminAccess=True)),  # that is no use
            claim(result("node-a", "gpu-3", driver="another.dev")),
            claim(result("node-c", "gpu-4")),  # did not ask
            claim(allocated=False),
        )
    )
    for node in ("node-a", "node-b", "node-d", "node-a"):
        asked.lists.ask(node)
    asked.lists.list_once()
    assert [request.partition("?")[0] for request in scripted.requests] == [
        "GET /apis/resource.k8s.io/v1/resourceclaims"
    ]
    assert "resourceVersion" not in scripted.requests[0]  # that would allow an older state
    assert asked.enqueued == ["node-a", "node-b", "node-d"]
    assert asked.lists.of("node-a") == Listed(began_at=100.0, used=frozenset({"gpu-0"}))
    assert asked.lists.of("node-b") == Listed(began_at=100.0, used=frozenset({"gpu-1"}))
    assert asked.lists.of("node-d") == Listed(began_at=100.0, used=frozenset())
    assert asked.lists.of("node-c") is None


def test_nothing_is_listed_unless_a_node_waits(scripted: ScriptedServer, asked: Asked) -> None:
    asked.lists.list_once()
    asked.lists.ask("node-a")
    asked.lists.forget("node-a")
    asked.lists.list_once()
    assert scripted.requests == []


def test_a_list_that_fails_leaves_the_nodes_waiting(scripted: ScriptedServer, asked: Asked) -> None:
    scripted.answers += [Answer({}, status=500), listing()]
    asked.lists.ask("node-a")
    asked.lists.list_once()
    assert asked.lists.of("node-a") is None
    assert asked.enqueued == []
    asked.lists.list_once()
    assert asked.lists.of("node-a") is not None


def test_a_claim_that_cannot_be_read_voids_the_list(scripted: ScriptedServer, asked: Asked) -> None:
    broken = claim({"pool": "node-a"})
    scripted.answers += [listing(claim(), broken), listing(claim())]
    asked.lists.ask("node-a")
    asked.lists.list_once()
    assert asked.lists.of("node-a") is None
    asked.lists.list_once()
    assert asked.lists.of("node-a") == Listed(began_at=100.0, used=frozenset())


def test_a_thread_makes_the_lists_that_are_asked_for(scripted: ScriptedServer, asked: Asked) -> None:
    scripted.answers += [Answer({}, status=503), listing(), listing()]
    stop = threading.Event()
    thread = threading.Thread(target=asked.lists.run, args=(stop,))
    thread.start()
    try:
        asked.lists.ask("node-a")
        eventually("the second attempt", lambda: asked.enqueued == ["node-a"])
        asked.lists.ask("node-b")
        eventually("another list", lambda: asked.enqueued == ["node-a", "node-b"])
    finally:
        stop.set()
        thread.join()
    assert len(scripted.requests) == 3


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.1, 10.0), (0.5, 10.0), (2.0, 40.0), (60.0, 120.0)])
def test_the_pause_grows_with_what_a_list_takes(
    scripted_api: KubernetesApi, monkeypatch: pytest.MonkeyPatch, took_s: float, pause_s: float
) -> None:
    now = [100.0]
    pauses: list[float] = []
    lists = ClaimLists(scripted_api, enqueue=lambda _: None, clock=lambda: now[0])

    def list_once() -> None:
        now[0] += took_s

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            pauses.append(timeout)
            self.set()
            return True

    monkeypatch.setattr(lists, "list_once", list_once)
    lists.ask("node-a")
    lists.run(Stop())
    assert pauses == pytest.approx([pause_s])
