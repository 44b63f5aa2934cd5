"""What the API server holds, from the last release to this version and back: 120 nodes, and as few writes as can be.

Controllers and inventories are those of each version's own code, under its own manifests, roles and admission policies.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.resources import DEVICES, NODE_INVENTORIES, RESOURCE_SLICES
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.driver import install
from tests.support.last_release import LAST_RELEASE, source_of
from tests.support.paths import REPO
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.states.nodes import node_name
from tests.support.states.running import NODES, run_in
from tests.support.waiting import eventually

pytestmark = [pytest.mark.needs_go, pytest.mark.slow]

COUNT: Final = 120
NAMES: Final = tuple(node_name(number) for number in range(COUNT))
KINDS: Final = (RESOURCE_SLICES, DEVICES, NODE_INVENTORIES)
_WRITES: Final = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE)
_QUIET_S: Final = 6
"""Without a write for so long, a controller has done what it had to do."""


@dataclass(slots=True)
class Cluster:
    """The nodes at the API server, and the controllers that ran."""

    plane: ControlPlane
    nodes: Nodes
    logs: Path
    former: Path
    controllers: list[Controller] = field(default_factory=list)

    def start(self, tree: Path) -> Controller:
        """Start a controller of a version, with its service account."""
        kubeconfig = self.plane.service_account_kubeconfig(NAMESPACE, "rootport-controller")
        name = f"controller-{len(self.controllers)}"
        made = Controller(kubeconfig, self.logs / f"{name}.log", identity=name, tree=tree)
        self.controllers.append(made)
        return made

    def take_over(self, tree: Path) -> Counter[str]:
        """Start a controller beside the one that leads, as a rolling update does, and end that one.

        Returns:
            The writes from then until nothing is written any more, by verb and resource.
        """
        leader = self.controllers[-1]
        follower = self.start(tree)
        before = self.writes()
        eventually("it waits", lambda: follower.logged("informers|starts"), timeout_s=60)
        leader.stop()
        eventually("it leads", follower.leads, timeout_s=60)
        self.wait_until_quiet()
        return self.writes() - before

    def writes(self) -> Counter[str]:
        """The requests so far that wrote Rootport's objects, as the API server counted them, failed ones too."""
        found: Counter[str] = Counter()
        for match in _WRITES.finditer(self.plane.kubectl("get", "--raw", "/metrics")):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"]))
            is_write = labels["verb"] in _VERBS and not labels["dry_run"]  # which gates are on is found by a dry run
            if is_write and labels["resource"] in {kind.plural for kind in KINDS}:
                found[f"{labels['verb']} {labels['resource']}"] += int(float(match["count"]))
        return found

    def wait_until_quiet(self) -> None:
        last, since, end = self.writes(), time.monotonic(), time.monotonic() + 240
        while time.monotonic() - since < _QUIET_S:
            assert time.monotonic() < end, f"still writing: {self.writes() - last}"
            time.sleep(0.5)
            if (now := self.writes()) != last:
                last, since = now, time.monotonic()

    def content(self) -> dict[str, Any]:
        """What all objects say, without what the API server adds."""
        return {
            f"{kind.plural}/{item['metadata']['name']}": {
                key: value for key, value in item.items() if key in ("spec", "status")
            }
            for kind in KINDS
            for item in self.nodes.api.list(kind).items
        }


_VERBS: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The last release is installed, and has published all nodes."""
    former = source_of(LAST_RELEASE.commit)
    install(control_plane, manifests=former / "resourceclasses")
    nodes = Nodes(control_plane.kubeconfig)
    made = Cluster(control_plane, nodes, tmp_path_factory.mktemp("logs"), former)
    run_in(former, NODES, control_plane.kubeconfig, "add", COUNT)
    with nodes.beating(*NAMES, every_s=5):
        made.start(former)
        eventually("every node is published", lambda: published(nodes) == COUNT, timeout_s=180)
        made.wait_until_quiet()
        yield made
        for controller in made.controllers:
            controller.kill()


def published(nodes: Nodes) -> int:
    """How many nodes' slices are complete, by the condition."""
    conditions = (item.get("status", {}).get("conditions", ()) for item in nodes.api.list(NODE_INVENTORIES).items)
    return sum(any(one["type"] == "Published" and one["status"] == "True" for one in found) for found in conditions)


def test_an_upgrade_writes_no_object_whose_content_stays_and_a_downgrade_neither(cluster: Cluster) -> None:
    """The order is that of docs/operator/upgrade.md: definitions and roles, controllers, plugins; then the way back."""
    plane, steps = cluster.plane, {}
    before = cluster.content()
    assert len([key for key in before if key.startswith("resourceslices/")]) >= COUNT

    install(plane)
    eventually("the definitions are stored", lambda: cluster.content() == before, timeout_s=30)

    steps["controller of this version"] = cluster.take_over(REPO)
    check(before, cluster.content(), steps["controller of this version"])

    middle, at_start = cluster.content(), cluster.writes()
    run_in(REPO, NODES, plane.kubeconfig, "report", COUNT)
    cluster.wait_until_quiet()
    steps["plugins of this version"] = cluster.writes() - at_start - Counter({"APPLY nodeinventories": COUNT})
    check(middle, cluster.content(), steps["plugins of this version"])

    new = cluster.content()
    install(plane, manifests=cluster.former / "resourceclasses")
    eventually("what this version wrote is kept whole", lambda: cluster.content() == new, timeout_s=30)
    steps["controller of the last release"] = cluster.take_over(cluster.former)
    check(new, cluster.content(), steps["controller of the last release"])

    print({step: dict(writes) for step, writes in steps.items()})  # noqa: T201 - for `pytest -s`, and for the documents
    assert not any(controller.logged("orbidden|traceback") for controller in cluster.controllers)


def check(before: dict[str, Any], after: dict[str, Any], writes: Counter[str]) -> None:
    """No object is gone or new, and no more was written than what says something else now: once each."""
    assert before.keys() == after.keys()
    changed = Counter(key.partition("/")[0] for key, value in after.items() if value != before[key])
    written = Counter[str]()
    for key, count in writes.items():
        written[key.partition(" ")[2]] += count
    assert all(count <= changed[kind] for kind, count in written.items()), f"{writes} for {changed}"
