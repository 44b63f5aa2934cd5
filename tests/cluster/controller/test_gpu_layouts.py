"""What the controller publishes of GPUs under each layout, and how it changes that, at a real API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from driver.adapters.kubernetes.resources import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES
from driver.modes.gpu import card_of
from tests.support.cluster.control_plane import ControlPlane
from tests.support.machines import node
from tests.support.mig_machines import A30, mig_gpu
from tests.support.quick_controller import QUICK_S
from tests.support.simulated_nodes import NAMESPACE, Controller, Nodes
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs_go

HEADER = "apiVersion: rootport.dev/v1alpha1\nkind: GpuPolicies\npolicies:\n"
GPU = "gpu-0000-10-00-0"
RATIO = "gpu-ratio-0000-10-00-0"
SMALL = [f"mig-0000-10-00-0-1g-6gb-{start}" for start in range(4)]


@pytest.fixture
def nodes(installed: ControlPlane) -> Iterator[Nodes]:
    made = Nodes(installed.kubeconfig)
    made.clear()
    yield made
    installed.kubectl("delete", "resourceclaims", "--all", "--namespace=default")
    made.clear()


@pytest.fixture
def start(installed: ControlPlane, nodes: Nodes, tmp_path: Path) -> Iterator[Callable[..., Controller]]:
    """Starts a controller with its own rights and short waits; all are ended with the test."""
    started: list[Controller] = []
    kubeconfig = installed.service_account_kubeconfig(NAMESPACE, "rootport-controller")

    def run(*options: str) -> Controller:
        log = tmp_path / f"{len(started)}.log"
        made = Controller(kubeconfig, log, *options, module="tests.support.quick_controller")
        started.append(made)
        return made

    yield run
    for controller in started:
        controller.stop()


@pytest.fixture
def policies(tmp_path: Path) -> Callable[[str], str]:
    """Writes the modes in force; the option that names the file."""
    file = tmp_path / "policies.yaml"

    def write(modes: str) -> str:
        file.write_text(f"{HEADER}- modes: [{modes}]\n")
        return f"--gpu-policies={file}"

    return write


def allocate(nodes: Nodes, name: str, device: str) -> None:
    """A claim as kube-scheduler leaves it."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}}
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    nodes.api.apply(RESOURCE_CLAIMS, body, field_manager="test")
    result = {"request": "gpu", "driver": "rootport.dev", "pool": "node-a", "device": device}
    patch = {"status": {"allocation": {"devices": {"results": [result]}}}}
    nodes.api.merge_patch(RESOURCE_CLAIMS, name, patch, namespace="default", subresource="status")


def release(nodes: Nodes, name: str) -> None:
    nodes.api.delete(RESOURCE_CLAIMS, name, namespace="default")


def opened(nodes: Nodes) -> list[str]:
    closed = nodes.closed("node-a")
    return [name for name in nodes.visible("node-a") if name not in closed]


def partitioned(nodes: Nodes) -> set[str | None]:
    """The GPUs of which partitions can be allocated."""
    return {card_of(name) for name in opened(nodes) if name.startswith("mig-")}


def is_complete(nodes: Nodes) -> bool:
    """Whether the scheduler would look at the slices: all are of the newest generation, and as many as they say."""
    pools = [one["spec"]["pool"] for one in nodes.slices("node-a")]
    newest = max((pool["generation"] for pool in pools), default=0)
    return bool(pools) and all(
        pool["generation"] == newest and pool["resourceSliceCount"] == len(pools) for pool in pools
    )


@contextmanager
def never_in_two_modes(nodes: Nodes) -> Iterator[None]:
    """Look all the time whether a partition and the whole GPU are open at once, in a complete pool."""
    stop, found = threading.Event(), list[list[str]]()

    def look() -> None:
        while not stop.wait(0.02):
            slices = nodes.slices("node-a")
            devices = [item for one in slices for item in one["spec"].get("devices", ())]
            counters = any(one["spec"].get("sharedCounters") for one in slices)
            names = [item["name"] for item in devices if not item.get("taints")]
            pools = {(one["spec"]["pool"]["generation"], one["spec"]["pool"]["resourceSliceCount"]) for one in slices}
            is_whole = len(pools) == 1 and next(iter(pools))[1] == len(slices)
            if is_whole and not counters and GPU in names and any(name.startswith("mig-") for name in names):
                found.append(names)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not found


def test_a_free_gpu_changes_its_mode_only_after_its_devices_were_closed(
    nodes: Nodes, start: Callable[..., Controller], policies: Callable[[str], str]
) -> None:
    nodes.add(node(mig_gpu("10", A30), name="node-a"))
    controller = start("--gpu-layout=one", policies("gpu, gpu-ratio, mig"))
    with nodes.beating("node-a"), never_in_two_modes(nodes):
        eventually("the first mode", lambda: opened(nodes) == [GPU])
        assert not any(one["spec"].get("sharedCounters") for one in nodes.slices("node-a"))
        condition = eventually("the layout", lambda: nodes.published("node-a", "AllModesPublished"))
        assert (condition["status"], condition["reason"]) == ("False", "Configured")
        assert condition["message"] == "layout one: --gpu-layout is one"
        policies("mig")
        eventually("closed", lambda: nodes.closed("node-a") == [GPU])
        closed_at = time.monotonic()
        assert nodes.visible("node-a") == [GPU]
        eventually("partitions that fit together", lambda: sorted(nodes.visible("node-a")) == SMALL)
        assert time.monotonic() - closed_at > QUICK_S - 0.5
        assert not nodes.closed("node-a")
        policies("gpu, mig")  # what is published stays
        release_at = controller.log.read_text().count("looking at everything")
        eventually("noticed", lambda: controller.log.read_text().count("looking at everything") > release_at)
        assert sorted(nodes.visible("node-a")) == SMALL


def test_a_claim_wins_over_a_change_at_any_time(
    nodes: Nodes, start: Callable[..., Controller], policies: Callable[[str], str]
) -> None:
    nodes.add(node(mig_gpu("10", A30), name="node-a"))
    start("--gpu-layout=one", policies("gpu"))
    with nodes.beating("node-a"), never_in_two_modes(nodes):
        eventually("the first mode", lambda: opened(nodes) == [GPU])
        policies("mig")
        eventually("closed", lambda: nodes.closed("node-a") == [GPU])
        allocate(nodes, "chosen-before", GPU)
        time.sleep(2 * QUICK_S)
        assert nodes.visible("node-a") == nodes.closed("node-a") == [GPU]
        release(nodes, "chosen-before")
        eventually("partitions", lambda: sorted(opened(nodes)) == SMALL)
        allocate(nodes, "much-too-late", GPU)
        eventually("the GPU is back", lambda: GPU in nodes.closed("node-a"))
        assert not opened(nodes)
        release(nodes, "much-too-late")
        eventually("partitions again", lambda: sorted(nodes.visible("node-a")) == sorted(opened(nodes)) == SMALL)


def test_the_next_controller_goes_on_with_a_change(
    nodes: Nodes, start: Callable[..., Controller], policies: Callable[[str], str]
) -> None:
    nodes.add(node(mig_gpu("10", A30), name="node-a"))
    options = ("--gpu-layout=one", policies("gpu"))
    with nodes.beating("node-a"), never_in_two_modes(nodes):
        first = start(*options)
        eventually("the first mode", lambda: opened(nodes) == [GPU])
        policies("mig")
        eventually("closed", lambda: nodes.closed("node-a") == [GPU])
        first.kill()
        assert nodes.closed("node-a") == [GPU]
        start(*options)
        eventually("partitions", lambda: sorted(opened(nodes)) == SMALL, timeout_s=150)


def test_slices_that_kubelet_wipes_come_back_in_the_same_mode(
    nodes: Nodes, start: Callable[..., Controller], policies: Callable[[str], str]
) -> None:
    nodes.add(node(mig_gpu("10", A30), name="node-a"))
    start("--gpu-layout=one", policies("mig, gpu"))
    with nodes.beating("node-a"), never_in_two_modes(nodes):
        eventually("partitions", lambda: sorted(opened(nodes)) == SMALL)
        policies("gpu, mig")
        time.sleep(2)
        for item in nodes.slices("node-a"):
            nodes.api.delete(RESOURCE_SLICES, item["metadata"]["name"])
        eventually("partitions again", lambda: sorted(opened(nodes)) == SMALL)


def test_lean_publishes_all_modes_of_the_last_gpu_and_others_in_the_one_in_use(
    nodes: Nodes, start: Callable[..., Controller]
) -> None:
    nodes.add(node(*(mig_gpu(bus, A30) for bus in ("10", "11", "12")), name="node-a"))
    controller = start("--gpu-layout=lean")
    whole = {f"gpu-0000-{bus}-00-0" for bus in ("10", "11", "12")}
    with nodes.beating("node-a"):
        eventually("partitions of the last one", lambda: partitioned(nodes) == {"0000-12-00-0"})
        assert {name for name in opened(nodes) if not name.startswith("mig-")} == whole | {"gpu-ratio-0000-12-00-0"}
        condition = eventually("the layout", lambda: nodes.published("node-a", "AllModesPublished"))
        assert condition["message"] == "layout lean: --gpu-layout is lean"

        def writes() -> int:
            time.sleep(1)  # the log has a write a moment after the API server has it
            return controller.log.read_text().count("slices written")

        before = writes()
        allocate(nodes, "whole", "gpu-0000-10-00-0")
        assert writes() == before
        allocate(nodes, "first", "mig-0000-12-00-0-1g-6gb-0")
        eventually("the next one", lambda: partitioned(nodes) == {"0000-11-00-0", "0000-12-00-0"})
        assert set(nodes.closed("node-a")) == {"gpu-0000-12-00-0", "gpu-ratio-0000-12-00-0"}
        eventually("its other modes have left", lambda: not nodes.closed("node-a"))
        before = writes()
        allocate(nodes, "second", "mig-0000-12-00-0-1g-6gb-1")
        assert writes() == before
        release(nodes, "first")
        release(nodes, "second")
        eventually("one is enough", lambda: len(partitioned(nodes)) == 1)
        eventually("whole GPUs", lambda: whole <= set(opened(nodes)))
        eventually("the others have left", lambda: not nodes.closed("node-a"))
        release(nodes, "whole")


def test_what_is_in_use_stays_published_under_every_layout(
    nodes: Nodes, start: Callable[..., Controller], policies: Callable[[str], str]
) -> None:
    nodes.add(node(mig_gpu("10", A30), name="node-a"))
    option, used = policies("gpu, gpu-ratio, mig"), SMALL[2]
    with nodes.beating("node-a"), never_in_two_modes(nodes):
        controller = start("--gpu-layout=full", option)
        eventually("all modes", lambda: {GPU, RATIO, *SMALL} <= set(opened(nodes)))
        eventually("why", lambda: nodes.published("node-a", "AllModesPublished").get("status") == "True")
        allocate(nodes, "used", used)
        for layout in ("one", "full", "lean", "one"):
            controller.stop()
            controller = start(f"--gpu-layout={layout}", option)
            if layout == "one":
                eventually("one mode", lambda: sorted(nodes.visible("node-a")) == SMALL, timeout_s=150)
            elif layout == "lean":
                eventually("its mode", lambda: len(opened(nodes)) > len(SMALL), timeout_s=150)
                eventually("it alone", lambda: {GPU, RATIO}.isdisjoint(nodes.visible("node-a")), timeout_s=150)
            else:
                eventually("all modes", lambda: {GPU, RATIO, *SMALL} <= set(opened(nodes)), timeout_s=150)
            assert used in nodes.visible("node-a")
        policies("gpu")
        eventually("it alone", lambda: nodes.visible("node-a") == nodes.closed("node-a") == [used], timeout_s=150)
        release(nodes, "used")
        eventually("the GPU", lambda: opened(nodes) == [GPU], timeout_s=150)


def test_the_layout_follows_the_number_of_nodes(nodes: Nodes, start: Callable[..., Controller]) -> None:
    nodes.add(node(mig_gpu("10", A30), mig_gpu("11", A30), name="node-a"))
    start()
    names = [f"other-{number}" for number in range(16)]
    with nodes.beating("node-a"):
        eventually("all modes", lambda: len(partitioned(nodes)) == 2)
        condition = eventually("the layout", lambda: nodes.published("node-a", "AllModesPublished"))
        assert (condition["status"], condition["reason"]) == ("True", "SmallCluster")
        for name in names:
            nodes.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        eventually("partitions ahead", lambda: partitioned(nodes) == {"0000-11-00-0"})
        eventually("why", lambda: nodes.published("node-a", "AllModesPublished")["reason"] == "LargeCluster")
        for name in names[:4]:
            nodes.api.delete(NODES, name)
        time.sleep(1)
        assert partitioned(nodes) == {"0000-11-00-0"}  # 13 are not few enough
        nodes.api.delete(NODES, names[4])
        eventually("all modes again", lambda: len(partitioned(nodes)) == 2)
