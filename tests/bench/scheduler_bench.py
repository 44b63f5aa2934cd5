"""`make bench`, its third part: what kube-scheduler spends on a pod, with each layout of Rootport's slices.

The real scheduler, on 100 and 300 nodes that exist in the API only. All nodes publish one layout, then the next one,
and a plain driver's slices in between (8 devices a node, no counters); so the ratios are of one machine and moment. The
figure is the CPU time of the process (proc_pid_stat(5)), by the number of pods that it placed, each with a claim for
one whole GPU, first with no GPU in use and then, at 100 nodes, with half of them. Beside it stands the mean of its own
metric scheduler_scheduling_algorithm_duration_seconds, which leaves out the calls to the API server. Last, on nodes
with GPUs of three sizes: a share in bytes, in percent, and in percent as a prioritized list. ``KUBERNETES`` chooses the
version (tests/support/cluster/binaries.py); `make bench` measures both.
"""

from __future__ import annotations

import argparse
import os
import re
import ssl
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from driver.adapters.kubernetes.api import KubernetesApi
from driver.adapters.kubernetes.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    JsonObject,
    Resource,
)
from driver.modes.rule import Layout, choose
from driver.ratios import rewritten
from tests.bench.figure import Figure, report
from tests.bench.scheduler_layouts import ONE_SIZE, PLAIN, PUBLISHED, THREE_SIZES, Mixed, Published
from tests.support.cluster.binaries import KUBERNETES_MINOR, KUBERNETES_VERSION, build
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.pods import claim, pod
from tests.support.cluster.processes import Process, wait_until
from tests.support.paths import REPO

SIZES: Final = (100, 300)
ROUNDS: Final = 2
HALF: Final = 4
MOST_PODS: Final = 80
CPU_A_ROUND_S: Final = 3.0
IS_OLD: Final = KUBERNETES_MINOR < 37  # what has counters costs it the square of the nodes
DEFAULT: Final = choose(minor=lambda: KUBERNETES_MINOR, has_counters=True, nodes=SIZES[0]).layout
LIMIT: Final = 2.0 if IS_OLD else 3.0
LIST_LIMIT: Final = 6.0
NO_LIMIT: Final = float("inf")
GROWTH_LIMIT: Final = 3.3
SIZE_LIMIT_KB: Final = 100
ALGORITHM: Final = "scheduler_scheduling_algorithm_duration_seconds"
SCHEDULER: Final = "https://127.0.0.1:10259"
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pod cost, in milliseconds: CPU of the process, and its own metric."""

    cpu_ms: float
    algorithm_ms: float


class Bench:
    """One cluster whose nodes publish one layout after the other.

    Args:
        plane: Its control plane, started.
        profiles: Where a CPU profile of the scheduler is written for each layout (``go tool pprof``); None for none.
    """

    def __init__(self, plane: ControlPlane, profiles: Path | None = None) -> None:
        self._plane = plane
        self._profiles = profiles
        self._api = KubernetesApi.connect(kubeconfig=plane.kubeconfig, timeout_s=60)
        self._pool = ThreadPoolExecutor(8)
        self._numbers = count()
        self._nodes: list[str] = []
        self._in_use = 0
        plane.kubectl("apply", f"--filename={REPO / 'resourceclasses' / 'device-classes.yaml'}")
        self._api.create(DEVICE_CLASSES, _class_of_plain())
        self._api.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace="default")
        # Its client's own limit of 50 calls a second would be what is measured.
        self.scheduler: Process = plane.start_scheduler(
            "--secure-port=10259",
            "--kube-api-qps=1000",
            "--kube-api-burst=1000",
            "--authorization-always-allow-paths=/metrics,/healthz,/debug/pprof/*",
        )
        wait_until("the scheduler's metrics", lambda: bool(_algorithm()), timeout_s=60)

    def grow(self, nodes: int) -> None:
        """Add nodes until there are so many."""
        fresh = [f"node-{number:03}" for number in range(len(self._nodes), nodes)]
        self._each(self._make_node, fresh)
        self._nodes += fresh

    def publish(self, layout: Published) -> None:
        """Make all nodes publish a layout, and nothing else, and wait until the scheduler has taken that in."""
        self._plane.kubectl("delete", "--raw=/apis/resource.k8s.io/v1/resourceslices")
        slices = [item for node in self._nodes for item in layout.of(node)]
        self._each(lambda item: self._api.create(RESOURCE_SLICES, item), slices)
        self._rest()

    def occupy(self, layout: Published, gpus: int) -> None:
        """Let claims have so many GPUs of each node, and no claims have anything else."""
        self._plane.kubectl("delete", "--raw=/apis/resource.k8s.io/v1/namespaces/default/resourceclaims")
        self._in_use = gpus
        self._each(self._allocate, [(layout, node, gpu) for node in self._nodes for gpu in layout.gpus[:gpus]])
        self._rest()

    def measure(self, layout: Published, kind: str = "gpu") -> Cost:
        """Place pods with a claim each, and return what one cost; as many as take some seconds of CPU, four at least.

        Args:
            layout: What the nodes publish.
            kind: ``gpu`` for one whole GPU, ``share``, ``mig``, ``percent`` or ``list``.
        """
        pilot = self._placed(layout, kind, 4)
        pods = min(int(CPU_A_ROUND_S * 1000 / pilot.cpu_ms), MOST_PODS)
        if pods < 4:
            return pilot
        if self._profiles is None:
            return self._placed(layout, kind, pods)
        seconds = max(2, int(pods * pilot.cpu_ms / 1000) + 2)
        profile = self._pool.submit(_get, f"/debug/pprof/profile?seconds={seconds}")
        cost = self._placed(layout, kind, pods)
        name = f"{KUBERNETES_VERSION}-{len(self._nodes)}-nodes-{self._in_use}-in-use-{layout.name}-{kind}"
        (self._profiles / name).write_bytes(profile.result())
        return cost

    def close(self) -> None:
        """Close the connections."""
        self._pool.shutdown()
        self._api.close()

    def _placed(self, layout: Published, kind: str, pods: int) -> Cost:
        names = [f"pod-{next(self._numbers)}" for _ in range(pods)]
        made = [_claim(name, layout, kind) for name in names]
        self._each(lambda each: self._api.create(RESOURCE_CLAIMS, each, namespace="default"), made)
        self._rest()
        cpu, before = _cpu_s(self.scheduler.pid), _algorithm()
        self._each(
            lambda name: self._api.create(PODS, pod(name, claim=name, command="true"), namespace="default"), names
        )
        wait_until(
            f"{pods} pods are placed ({layout.name}, {kind})",
            lambda: all(each["spec"].get("nodeName") for each in self._api.list(PODS, namespace="default").items),
            timeout_s=60,
            step_s=0.25,
        )
        self._rest(calm_s=0.3)  # binding goes on for a moment
        spent, after = _cpu_s(self.scheduler.pid) - cpu, _algorithm()
        self._each(lambda name: self._api.delete(PODS, name, namespace="default"), names)
        self._each(self._delete_claim, names)
        self._rest()
        return Cost(1000 * spent / pods, 1000 * (after["sum"] - before["sum"]) / pods)

    def _allocate(self, what: tuple[Published, str, JsonObject]) -> None:
        layout, node, gpu = what
        name = f"{node}-{gpu['name']}"
        self._api.create(RESOURCE_CLAIMS, _claim(name, layout, "gpu"), namespace="default")
        result = {"request": "gpu", "driver": layout.driver, "pool": node, "device": gpu["name"]}
        if gpu.get("allowMultipleAllocations"):
            consumed = {capacity: each["value"] for capacity, each in gpu["capacity"].items()}
            result |= {"shareID": str(uuid4()), "consumedCapacity": consumed}
        self._api.merge_patch(
            RESOURCE_CLAIMS,
            name,
            {"status": {"allocation": {"devices": {"results": [result]}}}},
            namespace="default",
            subresource="status",
        )

    def _delete_claim(self, name: str) -> None:
        self._api.merge_patch(RESOURCE_CLAIMS, name, {"metadata": {"finalizers": None}}, namespace="default")
        self._api.delete(RESOURCE_CLAIMS, name, namespace="default")

    def _make_node(self, name: str) -> None:
        capacity = {"cpu": "64", "memory": "512Gi", "pods": "1000"}
        labels = {"kubernetes.io/hostname": name}
        self._api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        self._api.merge_patch(NODES, name, {"status": status}, subresource="status")
        self._api.merge_patch(NODES, name, {"spec": {"taints": None}})

    def _each(self, call: Callable[[Any], object], items: Sequence[Any]) -> None:
        for _ in self._pool.map(call, items):
            pass

    def _rest(self, calm_s: float = 0.5) -> None:
        """Wait until the scheduler has nothing to do: it takes less than a twentieth of a core."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            before = _cpu_s(self.scheduler.pid)
            time.sleep(calm_s)
            if _cpu_s(self.scheduler.pid) - before <= 0.05 * calm_s:
                return
        raise TimeoutError("kube-scheduler does not come to rest")


def figures(names: Sequence[str], sizes: Sequence[int], rounds: int, profiles: Path | None = None) -> Iterator[Figure]:
    """What this module measures."""
    layouts = [PUBLISHED[name] for name in names]
    for layout in layouts:
        print(f"{layout.name}: {layout.price}")
        if layout.name == Layout.FULL:
            yield Figure("slices of 8 H100 in the layout full, as JSON", layout.price.size / 1000, SIZE_LIMIT_KB, "kB")
    with tempfile.TemporaryDirectory() as text, ControlPlane(Path(text), build(print)) as plane:
        bench = Bench(plane, profiles)
        medians: dict[int, dict[str, float]] = {}
        for size in sizes:
            bench.grow(size)
            # What costs seconds a pod at 100 nodes would cost ten times that at 300.
            here = [each for each in layouts if not (IS_OLD and each.name == Layout.FULL and size > SIZES[0])]
            print(
                "".join(f"  {each.name} is not measured at {size} nodes\n" for each in layouts if each not in here),
                end="",
            )
            costs = _measured(bench, here, size, rounds)
            medians[size] = {name: statistics.median(each.cpu_ms for each in found) for name, found in costs.items()}
            yield from _ratios(costs, f"{size} nodes", LIMIT if size == SIZES[0] else NO_LIMIT)
            if size == SIZES[0]:
                quick = [each for each in here if not (IS_OLD and each.price.counters)]
                yield from _ratios(
                    _measured(bench, quick, size, 1, in_use=HALF), f"{size} nodes, half in use", NO_LIMIT
                )
                if not IS_OLD:
                    for mixed in (ONE_SIZE, THREE_SIZES):
                        yield from _of_percentages(bench, mixed, size, rounds)
        bench.close()
    for name in names:
        if len(sizes) > 1 and name in medians[sizes[-1]]:
            growth = medians[sizes[-1]][name] / medians[sizes[0]][name]
            limit = GROWTH_LIMIT if name == DEFAULT else NO_LIMIT
            yield _figure(f"{name}: CPU a pod at {sizes[-1]} nodes / at {sizes[0]}", growth, limit)


def _measured(bench: Bench, layouts: list[Published], size: int, rounds: int, in_use: int = 0) -> dict[str, list[Cost]]:
    costs = defaultdict[str, list[Cost]](list)
    for number in range(rounds):
        for layout in layouts:
            bench.publish(layout)
            bench.occupy(layout, in_use)
            cost = bench.measure(layout)
            costs[layout.name].append(cost)
            print(
                f"  {KUBERNETES_VERSION}, {size} nodes, {in_use} of 8 GPUs in use, {layout.name}: {cost.cpu_ms:.1f} ms "
                f"of CPU a pod, {cost.algorithm_ms:.1f} ms of its algorithm",
                flush=True,
            )
            if number == rounds - 1 and size == SIZES[0] and not (IS_OLD and layout.price.counters):
                for kind in layout.kinds:
                    print(f"    … and a pod with a {kind}: {bench.measure(layout, kind).cpu_ms:.1f} ms", flush=True)
    return costs


def _of_percentages(bench: Bench, mixed: Mixed, size: int, rounds: int) -> Iterator[Figure]:
    """Compare a share in percent, as it is and as a list over the sizes, with one in bytes, on the same slices."""
    bench.publish(mixed)
    bench.occupy(mixed, 0)
    costs = defaultdict[str, list[Cost]](list)
    for _ in range(rounds + 1):
        for kind in ("share", "percent", "list"):
            cost = bench.measure(mixed, kind)
            costs[kind].append(cost)
            print(
                f"  {KUBERNETES_VERSION}, {size} nodes, {mixed.name}, a pod with a {kind}: {cost.cpu_ms:.1f} ms of "
                f"CPU, {cost.algorithm_ms:.1f} ms of its algorithm",
                flush=True,
            )
    limits = {"percent": NO_LIMIT, "list": LIST_LIMIT if mixed is THREE_SIZES else NO_LIMIT}
    for kind, limit in limits.items():
        for what, of in (("CPU", _of_cpu), ("algorithm", _of_algorithm)):
            ratio = statistics.median(
                of(one) / of(beside) for one, beside in zip(costs[kind], costs["share"], strict=True)
            )
            text = f"{mixed.name}, {size} nodes: {what} a pod with a {kind} / with a share in bytes"
            yield _figure(text, ratio, limit if what == "CPU" else NO_LIMIT)


def _ratios(measured: dict[str, list[Cost]], where: str, limit: float) -> Iterator[Figure]:
    for name, costs in measured.items():
        if name == PLAIN.name or PLAIN.name not in measured:
            continue
        for what, of in (("CPU", _of_cpu), ("algorithm", _of_algorithm)):
            ratio = statistics.median(
                of(one) / of(beside) for one, beside in zip(costs, measured[PLAIN.name], strict=True)
            )
            mine = limit if name == DEFAULT and what == "CPU" else NO_LIMIT
            yield _figure(f"{name}, {where}: {what} a pod / plain", ratio, mine)


def _of_cpu(cost: Cost) -> float:
    return cost.cpu_ms


def _of_algorithm(cost: Cost) -> float:
    return cost.algorithm_ms


def _figure(what: str, value: float, limit: float) -> Figure:
    return Figure(f"kube-scheduler {KUBERNETES_VERSION}, {what}", value, limit, "")


def _claim(name: str, layout: Published, kind: str) -> JsonObject:
    driver, made = layout.driver, claim(name)
    (request,) = made["spec"]["devices"]["requests"]
    if kind in {"percent", "list"}:
        request["exactly"] |= {
            "deviceClassName": f"gpu-ratio.{driver}",
            "capacity": {"requests": {"core": "10", "memoryRatio": "10"}},
        }
        if kind == "list" and isinstance(layout, Mixed):
            made["spec"]["devices"] = rewritten(made["spec"]["devices"], layout.sizes).devices
        return made
    if kind == "share":
        request["exactly"]["capacity"] = {"requests": {"core": "10", "memory": "5Gi"}}
    request["exactly"]["deviceClassName"] = f"{'mig' if kind == 'mig' else 'gpu'}.{driver}"
    return made


def _class_of_plain() -> JsonObject:
    expression = f'device.driver == "{PLAIN.driver}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"metadata": {"name": f"gpu.{PLAIN.driver}"}, "spec": spec}


def _get(path: str) -> bytes:
    context = ssl._create_unverified_context()  # its certificate is its own, made at its start
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(SCHEDULER + path, timeout=60) as answer:
        body: bytes = answer.read()
        return body


def _cpu_s(pid: int) -> float:
    """CPU time of a process: user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _algorithm() -> dict[str, float]:
    """Sum and count of the metric; empty while the scheduler does not answer."""
    try:
        text = _get("/metrics")
    except OSError:
        return {}
    found = {"sum": 0.0, "count": 0.0}
    for line in text.decode().splitlines():
        match = re.match(rf"{ALGORITHM}_(sum|count)(\{{[^}}]*\}})? ", line)
        if match:
            found[match[1]] += float(line.rsplit(" ", 1)[1])
    return found


def main() -> int:
    """Print all figures; 1 where one is over its limit."""
    parser = argparse.ArgumentParser(description="Measure what layouts cost kube-scheduler.")
    parser.add_argument("--layouts", default=",".join(PUBLISHED), help="which ones, with commas between them")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of nodes, rising")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--profiles", type=Path, help="a folder for CPU profiles of the scheduler (go tool pprof)")
    chosen = parser.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    return report(figures(chosen.layouts.split(","), sizes, chosen.rounds, chosen.profiles))


if __name__ == "__main__":
    sys.exit(main())
