"""The layout in force, and when it changes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.modes.layout_in_force import LayoutInForce
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.errors import ApiServerError
from driver.modes.rule import Layout
from tests.support.scripted_api import Answer, ScriptedServer


class Cluster:
    def __init__(self, api: KubernetesApi, override: Layout | None = None) -> None:
        self.nodes, self.has_counters = 16, True
        self.layout = LayoutInForce(
            api, has_counters=lambda: self.has_counters, nodes=lambda: self.nodes, override=override
        )


def version(minor: str) -> Answer:
    return Answer({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.2"})


def test_it_follows_the_number_of_nodes(scripted: ScriptedServer, scripted_api: KubernetesApi) -> None:
    scripted.answers.append(version("37"))
    cluster = Cluster(scripted_api)
    assert cluster.layout.last is Layout.FULL  # before anything is known
    assert cluster.layout.now.layout is Layout.FULL
    cluster.nodes = 17
    assert cluster.layout.now.layout is Layout.LEAN
    assert cluster.layout.last is Layout.LEAN
    cluster.nodes = 13
    assert cluster.layout.now.layout is Layout.LEAN
    cluster.nodes = 12
    assert cluster.layout.now.layout is Layout.FULL
    assert scripted.requests == ["GET /version"]


@pytest.mark.parametrize("minor", ["36", "36+"])
def test_it_follows_the_version(scripted: ScriptedServer, scripted_api: KubernetesApi, minor: str) -> None:
    scripted.answers += [version(minor), version("37")]
    cluster = Cluster(scripted_api)
    cluster.nodes = 100
    assert cluster.layout.now.layout is Layout.ONE
    cluster.layout.forget()
    assert cluster.layout.now.layout is Layout.LEAN


def test_a_change_is_noticed_once(scripted: ScriptedServer, scripted_api: KubernetesApi) -> None:
    scripted.answers.append(version("37"))
    cluster = Cluster(scripted_api)
    assert cluster.layout.take_change()
    assert not cluster.layout.take_change()
    cluster.nodes = 17
    _ = cluster.layout.now  # a node that is reconciled first
    assert cluster.layout.take_change()
    assert not cluster.layout.take_change()
    cluster.has_counters = False
    assert cluster.layout.take_change()
    assert cluster.layout.last is Layout.ONE


def test_the_administrator_overrules_it(scripted: ScriptedServer, scripted_api: KubernetesApi) -> None:
    assert Cluster(scripted_api, Layout.ONE).layout.now.layout is Layout.ONE
    assert scripted.requests == []


@pytest.mark.parametrize(
    "answer", [Answer({"minor": "many"}), Answer({}), Answer({}, status=500)], ids=["odd", "none", "error"]
)
def test_without_a_version_there_is_no_layout(
    scripted: ScriptedServer, scripted_api: KubernetesApi, answer: Answer
) -> None:
    scripted.answers += [answer, version("37")]
    cluster = Cluster(scripted_api)
    cluster.nodes = 17
    with pytest.raises(ApiServerError):
        _ = cluster.layout.now
    assert cluster.layout.now.layout is Layout.LEAN  # asked again


def test_the_last_version_holds_while_the_next_cannot_be_read(
    scripted: ScriptedServer, scripted_api: KubernetesApi
) -> None:
    scripted.answers += [version("36"), Answer({}, status=500), version("37")]
    cluster = Cluster(scripted_api)
    cluster.nodes = 100
    assert cluster.layout.now.layout is Layout.ONE
    cluster.layout.forget()
    assert cluster.layout.now.layout is Layout.ONE
    assert cluster.layout.now.layout is Layout.LEAN


def test_the_version_is_not_read_where_it_does_not_matter(
    scripted: ScriptedServer, scripted_api: KubernetesApi
) -> None:
    assert Cluster(scripted_api).layout.now.layout is Layout.FULL
    assert scripted.requests == []


@pytest.mark.parametrize(
    ("minor", "said"), [("34", "Kubernetes 1.34 does not take the counters"), ("35", "DRAPartitionableDevices is off")]
)
def test_without_counters_the_version_says_whether_a_gate_could_bring_them(
    scripted: ScriptedServer, scripted_api: KubernetesApi, minor: str, said: str
) -> None:
    scripted.answers.append(version(minor))
    cluster = Cluster(scripted_api)
    cluster.nodes, cluster.has_counters = 100, False
    choice = cluster.layout.now
    assert (choice.layout, choice.has_counters) == (Layout.ONE, False)
    assert said in choice.message
    assert cluster.layout.now == choice
    assert scripted.requests == ["GET /version"]


def test_the_last_layout_is_there_while_the_next_is_found_out(
    scripted: ScriptedServer, scripted_api: KubernetesApi
) -> None:
    seen = []

    def has_counters() -> bool:
        with ThreadPoolExecutor(1) as other:
            seen.append(other.submit(lambda: layout.last).result(timeout=10))
        return True

    layout = LayoutInForce(scripted_api, has_counters=has_counters, nodes=lambda: 1)
    assert layout.now.layout is Layout.FULL
    assert seen == [Layout.FULL]
    assert scripted.requests == []
