"""What may go wrong on a node, one test each: afterwards the pod runs, and after it nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from driver.adapters.kubernetes.resources import EVENTS, RESOURCE_CLAIMS
from driver.model.health import CANNOT_PREPARE_TAINT
from tests.support.cluster.pods import claim, manifest, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import CDI_DIRECTORY, PLUGIN_DIRECTORY, RunningRootport

FAULTY = str(Path(__file__).with_name("faulty_plugin.py"))


def apply(rootport: RunningRootport, *objects: dict[str, object]) -> None:
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))


def events(rootport: RunningRootport, name: str) -> str:
    found = rootport.cluster.list(EVENTS, field_selector=f"involvedObject.name={name}")
    return "\n".join(item["message"] for item in found)


@pytest.fixture
def faulty(rootport: RunningRootport) -> Iterator[RunningRootport]:
    """The plugin's own process ends before the test; the usual one runs again after it."""
    assert rootport.plugin is not None
    rootport.plugin.stop()
    yield rootport
    rootport.cluster.kubectl("delete", "pods", "--all", "--wait=false")
    if rootport.plugin is not None and rootport.plugin.alive():
        rootport.plugin.stop()
    rootport.start_plugin()


@pytest.fixture
def small_disk(faulty: RunningRootport) -> Iterator[Callable[[str], None]]:
    """Mounts a file system of 128 KiB over a folder of the node until the test's plugin has ended."""
    machine = faulty.cluster.machine
    mounted = []

    def mount(folder: str) -> None:
        machine.run("mount", "-t", "tmpfs", "-o", "size=128k,mode=755", "tmpfs", folder)
        mounted.append(folder)

    yield mount
    assert faulty.plugin is not None
    faulty.plugin.stop()
    for folder in mounted:
        machine.run("umount", folder)


@pytest.mark.parametrize("step", ["prepare: CDI spec written", "prepare: checkpoint written"])
def test_a_plugin_killed_during_prepare_prepares_at_its_next_start(faulty: RunningRootport, step: str) -> None:
    doomed = faulty.start_plugin(module=(FAULTY, "kill", step))
    apply(faulty, template("gpu"), pod("survivor", template="gpu"))
    assert doomed.wait(60) != 0

    faulty.start_plugin()
    faulty.cluster.wait_for_pod("survivor", "Running")
    assert len(faulty.checkpoint()) == len(faulty.cdi_files()) == 1
    faulty.delete_all()
    faulty.wait_until_clean()


@pytest.mark.parametrize("step", ["unprepare: CDI spec removed", "unprepare: checkpoint written"])
def test_a_plugin_killed_during_unprepare_ends_it_at_its_next_start(faulty: RunningRootport, step: str) -> None:
    doomed = faulty.start_plugin(module=(FAULTY, "kill", step))
    apply(faulty, template("gpu"), pod("leaver", template="gpu"))
    faulty.cluster.wait_for_pod("leaver", "Running")
    faulty.cluster.kubectl("delete", "pod/leaver", "--wait=false")
    assert doomed.wait(60) != 0

    faulty.start_plugin()
    faulty.cluster.wait_for_no_pod("leaver")
    faulty.wait_until_clean()
    faulty.delete_all()


def test_a_pod_deleted_while_the_plugin_is_away_ends_when_it_is_back(faulty: RunningRootport) -> None:
    faulty.start_plugin()
    apply(faulty, template("gpu"), pod("waits", template="gpu"))
    faulty.cluster.wait_for_pod("waits", "Running")
    assert faulty.plugin is not None
    faulty.plugin.kill()
    faulty.cluster.kubectl("delete", "pod/waits", "--wait=false")

    faulty.start_plugin()
    faulty.cluster.wait_for_no_pod("waits", timeout_s=120)
    faulty.wait_until_clean()
    faulty.delete_all()


def test_two_pods_share_one_claim(rootport: RunningRootport) -> None:
    show = "ls /dev/nvidia[0-9]*; exec sleep 100000"
    apply(rootport, claim("shared"), *(pod(name, claim="shared", command=show) for name in ("first", "second")))
    for name in ("first", "second"):
        rootport.cluster.wait_for_pod(name, "Running")
    seen = {rootport.cluster.kubectl("logs", name) for name in ("first", "second")}
    assert len(seen) == 1
    assert seen.pop().startswith("/dev/nvidia")

    rootport.cluster.kubectl("delete", "pod/first")
    assert len(rootport.checkpoint()) == 1, "the second pod still has it"
    rootport.cluster.kubectl("delete", "pod/second")
    rootport.wait_until_clean()
    rootport.delete_all()


def test_an_api_server_that_is_away_during_prepare_is_waited_for(faulty: RunningRootport, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    faulty.start_plugin(module=(FAULTY, "wait", "prepare: begun", str(gate)))
    apply(faulty, template("gpu"), pod("patient", template="gpu"))
    wait_until("prepare has begun", (tmp_path / "gate.reached").exists, timeout_s=60)
    faulty.cluster.control_plane.stop_api_server()
    try:
        gate.touch()
        assert faulty.plugin is not None
        log = faulty.plugin.log
        wait_until("the error is told", lambda: "API server" in log.read_text(), timeout_s=60)
        assert faulty.leftovers() == []
    finally:
        gate.touch()
        faulty.cluster.control_plane.start_api_server()

    faulty.cluster.wait_for_pod("patient", "Running", timeout_s=180)
    faulty.delete_all()
    faulty.wait_until_clean()


@pytest.mark.parametrize("folder", [CDI_DIRECTORY, PLUGIN_DIRECTORY], ids=["CDI folder", "plugin's folder"])
def test_a_full_disk_is_told_leaves_nothing_and_heals(
    faulty: RunningRootport, folder: str, small_disk: Callable[[str], None], request: pytest.FixtureRequest
) -> None:
    if folder != CDI_DIRECTORY:  # which is a small file system already: the runtime would not see another one over it
        small_disk(folder)
    faulty.start_plugin()
    filler = faulty.cluster.machine.path(folder) / "filler.bin"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    # The plugin reports so small a disk, full or not, and the pod is to come to the node all the same. Events outlive
    # their pod: each has a name of its own.
    stubborn, name = template("stubborn"), f"hungry-{request.node.callspec.indices['folder']}"
    stubborn["spec"]["spec"]["devices"]["requests"][0]["exactly"]["tolerations"] = [
        {"key": CANNOT_PREPARE_TAINT, "operator": "Exists"}
    ]
    apply(faulty, stubborn, pod(name, template="stubborn"))
    wait_until("the pod's event tells", lambda: "No space left" in events(faulty, name), timeout_s=60)
    assert [left for left in faulty.leftovers() if left != "filler.bin"] == []

    filler.unlink()
    faulty.cluster.wait_for_pod(name, "Running", timeout_s=120)
    faulty.delete_all()
    faulty.wait_until_clean()


def test_a_claim_deleted_and_recreated_under_the_same_name_is_another_claim(rootport: RunningRootport) -> None:
    apply(rootport, claim("phoenix"), pod("old", claim="phoenix"))
    rootport.cluster.wait_for_pod("old", "Running")
    (before,) = rootport.checkpoint()
    rootport.cluster.kubectl("delete", "resourceclaim/phoenix", "--wait=false")
    rootport.cluster.kubectl("delete", "pod/old", "--wait=false")
    wait_until(
        "the old claim is gone",
        lambda: "NotFound" in rootport.cluster.kubectl("get", "resourceclaim/phoenix", check=False),
    )
    apply(rootport, claim("phoenix"), pod("new", claim="phoenix"))
    rootport.cluster.wait_for_pod("new", "Running")

    wait_until("only the new one is prepared", lambda: len(rootport.checkpoint()) == 1)
    (after,) = rootport.checkpoint()
    assert after != before
    rootport.delete_all()


def test_200_pods_come_and_go_and_leave_nothing(rootport: RunningRootport) -> None:
    spec = pod("-", template="gpu", command="ls /dev/nvidia[0-9]*")["spec"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "cycles"},
        "spec": {"completions": 200, "parallelism": 8, "backoffLimit": 0, "template": {"spec": spec}},
    }
    apply(rootport, template("gpu"), job)
    rootport.cluster.kubectl("wait", "--for=condition=Complete", "job/cycles", "--timeout=400s", timeout=420)
    rootport.cluster.kubectl("delete", "job/cycles", "--cascade=foreground", "--timeout=120s", timeout=140)
    rootport.wait_until_clean()
    wait_until("no claim is left", lambda: rootport.cluster.list(RESOURCE_CLAIMS) == [])
