"""DeviceTaintRules in explanations, at an API server that serves them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from controller.explanations.informers import ExplanationInformers
from controller.explanations.shared_state import SharedClusterState
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import JsonObject
from tests.support.cluster.binaries import Binaries
from tests.support.cluster.control_plane import TAINT_RULES, ControlPlane
from tests.support.cluster.driver import install
from tests.support.simulated_nodes import NAMESPACE
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go


@pytest.fixture(scope="module")
def with_rules(cluster_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(
        tmp_path_factory.mktemp("taint-rules"),
        cluster_binaries,
        taint_rules=True,
    ) as plane:
        install(plane)
        yield plane


def rule(name: str, value: str) -> JsonObject:
    taint = {"key": "example.com/broken", "value": value, "effect": "NoSchedule"}
    selector = {"driver": "rootport.dev", "pool": "node-a"}
    return {
        "apiVersion": TAINT_RULES.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": name},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def test_the_controller_knows_a_rule_from_its_making_to_its_end(with_rules: ControlPlane) -> None:
    api = KubernetesApi.connect(kubeconfig=with_rules.kubeconfig)
    cluster = SharedClusterState()
    kubeconfig = with_rules.service_account_kubeconfig(NAMESPACE, "rootport-controller")
    informers = ExplanationInformers(KubernetesApi.connect(kubeconfig=kubeconfig), cluster)
    stop = threading.Event()

    def taints() -> dict[str, str]:
        with cluster.use() as state:
            return {name: f"{rule.pool} {rule.taint.value}" for name, rule in state.taint_rules.items()}

    api.create(TAINT_RULES, rule("from-before", "a"))
    threads = informers.start(stop)
    try:
        eventually("the first list", lambda: informers.are_synced)
        assert taints() == {"from-before": "node-a a"}
        api.create(TAINT_RULES, rule("new", "b"))
        eventually("the new rule", lambda: taints().get("new") == "node-a b")
        api.delete(TAINT_RULES, "from-before")
        eventually("its end", lambda: set(taints()) == {"new"})
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
