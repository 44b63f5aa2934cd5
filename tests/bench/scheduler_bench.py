"""`make bench`, its third part: kube-scheduler places share claims on a node with MIG placements and on one without.

The real scheduler, on a node that only exists in the API; the node's slices alternate between the two layouts, so the
ratio is of one machine and moment. The figure is the scheduler's own: the mean of its metric
scheduler_scheduling_attempt_duration_seconds over the pods that it placed. Beside it stands that of
scheduler_scheduling_algorithm_duration_seconds, which is a twentieth of it.
"""

from __future__ import annotations

import json
import re
import ssl
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driver.adapters.catalogue import HardwareFacts
from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from driver.adapters.machines.topology import read_topology
from driver.api.gpu_policies import GpuPolicies
from driver.layout import resource_slices
from driver.model.inventory import Inventory
from tests.bench.figure import Figure, report
from tests.support.cluster.binaries import build
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.pods import claim, pod
from tests.support.cluster.processes import wait_until
from tests.support.paths import REPO

NODE = "bench"
ROUNDS, PODS_A_ROUND = 4, 60
LIMIT = 1.3
SIZE_LIMIT_KB = 100
TOPOLOGY = REPO / "examples" / "machines" / "azure-nd-h100-v5.yaml"
ATTEMPTS = "scheduler_scheduling_attempt_duration_seconds"
ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"


def layouts(inventory: Inventory) -> dict[str, list[dict[str, Any]]]:
    """The node's slices without MIG placements, and with all of them."""
    without = GpuPolicies.model_validate(
        {"apiVersion": "rootport.dev/v1alpha1", "kind": "GpuPolicies", "policies": [{"modes": ["gpu", "gpu-ratio"]}]}
    )
    return {
        "without": [item.to_wire() for item in resource_slices(inventory, policies=without)],
        "with": [item.to_wire() for item in resource_slices(inventory)],
    }


def figures() -> Iterator[Figure]:
    """What this module measures."""
    inventory = read_topology(TOPOLOGY, node=NODE, hardware=HardwareFacts(gpu_model="H100"))
    gpus_alone = Inventory(node=NODE, source=inventory.source, gpus=inventory.gpus)
    size = sum(len(json.dumps(item, separators=(",", ":"))) for item in layouts(gpus_alone)["with"])
    yield Figure(
        "slices of 8 H100: whole, shares, percent and every MIG placement, as JSON", size / 1000, SIZE_LIMIT_KB, "kB"
    )
    with tempfile.TemporaryDirectory() as text:
        plane = ControlPlane(Path(text), build(print))
        try:
            plane.start()
            yield from _placed(plane, layouts(inventory))
        finally:
            plane.stop()


def _placed(plane: ControlPlane, slices: dict[str, list[dict[str, Any]]]) -> Iterator[Figure]:
    plane.kubectl("apply", f"--filename={REPO / 'resourceclasses' / 'device-classes.yaml'}")
    api = KubernetesApi.connect(kubeconfig=plane.kubeconfig)
    _make_node(api)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    api.create(Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True), account, namespace="default")
    # Its client's own limit of 50 calls a second would be what is measured.
    plane.start_scheduler("--kube-api-qps=1000", "--kube-api-burst=1000")
    wait_until("the scheduler's metrics", lambda: bool(_metrics()), timeout_s=60)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in slices}
    for _ in range(ROUNDS + 1):
        for name, items in slices.items():
            rounds[name].append(_round(api, items))
    api.close()
    means = {
        name: {key: statistics.mean(each[key] for each in found[1:]) for key in found[0]}  # the first one warms up
        for name, found in rounds.items()
    }
    for metric, what in ((ATTEMPTS, "attempt"), (ALGORITHM, "its algorithm alone, without the API calls")):
        without, with_them = means["without"][metric], means["with"][metric]
        print(
            f"kube-scheduler, {what}: {without:.2f} ms without MIG placements, {with_them:.2f} ms with them, "
            f"ratio {with_them / without:.2f}"
        )
    ratio = means["with"][ATTEMPTS] / means["without"][ATTEMPTS]
    yield Figure(f"kube-scheduler's attempt, with / without, mean of {ROUNDS * PODS_A_ROUND} shares", ratio, LIMIT, "")


def _make_node(api: KubernetesApi) -> None:
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "1000"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}}
    api.create(NODES, node)
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    api.merge_patch(NODES, NODE, {"status": status}, subresource="status")
    api.merge_patch(NODES, NODE, {"spec": {"taints": None}})


def _round(api: KubernetesApi, slices: list[dict[str, Any]]) -> dict[str, float]:
    """Milliseconds by metric, the mean over the pods of one round."""
    for item in slices:
        api.create(RESOURCE_SLICES, item)
    before = _metrics()
    names = [f"share-{number}" for number in range(PODS_A_ROUND)]
    for name in names:
        api.create(RESOURCE_CLAIMS, _share(name), namespace="default")
    for name in names:  # one after the other: pods that wait for each other would count the wait
        api.create(PODS, pod(name, claim=name, command="true"), namespace="default")
        wait_until(
            f"pod {name} is placed",
            lambda name=name: bool(api.get(PODS, name, namespace="default")["spec"].get("nodeName")),
            timeout_s=30,
            step_s=0.01,
        )
    wait_until("the metrics count them", lambda: _count(_metrics(), before) == PODS_A_ROUND, timeout_s=30)
    after = _metrics()
    for name in names:
        api.delete(PODS, name, namespace="default")
        api.merge_patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": None}}, namespace="default")
        api.delete(RESOURCE_CLAIMS, name, namespace="default")
    for item in slices:
        api.delete(RESOURCE_SLICES, item["metadata"]["name"])
    wait_until(
        "the round's claims are gone", lambda: not api.list(RESOURCE_CLAIMS, namespace="default").items, timeout_s=60
    )
    return {
        metric: 1000 * (after[f"{metric}_sum"] - before.get(f"{metric}_sum", 0.0)) / PODS_A_ROUND
        for metric in (ATTEMPTS, ALGORITHM)
    }


def _share(name: str) -> dict[str, Any]:
    made = claim(name)
    made["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"core": "10", "memory": "5Gi"}}
    return made


def _count(after: dict[str, float], before: dict[str, float]) -> float:
    return after.get(f"{ATTEMPTS}_count", 0.0) - before.get(f"{ATTEMPTS}_count", 0.0)


def _metrics() -> dict[str, float]:
    """Sums and counts of the two metrics, of pods that were placed; empty while the scheduler does not answer."""
    context = ssl._create_unverified_context()  # its certificate is its own, made at its start
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open("https://127.0.0.1:10259/metrics", timeout=10) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        match = re.match(rf"({ATTEMPTS}|{ALGORITHM})_(sum|count)(\{{[^}}]*\}})? ", line)
        if match and (match[3] is None or 'result="scheduled"' in match[3]):
            found[f"{match[1]}_{match[2]}"] = float(line.rsplit(" ", 1)[1])
    return found


def main() -> int:
    """Print all figures; 1 where one is over its limit."""
    return report(figures())


if __name__ == "__main__":
    sys.exit(main())
