"""The best linked GPUs of a DGX-1, by the stock scheduler: the real node's GPUs get the NVLinks of one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.adapters.kubernetes.resources import PODS, RESOURCE_CLAIMS
from driver.adapters.machines.topology import read_topology
from tests.support.cluster.pods import claim, gpu_claim, manifest, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.stub_nvml.machine import Link, LinkEnd
from tests.support.topologies import machine_file

PAIRS = [{0, 3}, {1, 2}, {4, 7}, {5, 6}]
QUADS = [{0, 1, 2, 3}, {4, 5, 6, 7}]
KNOWN = {2: PAIRS, 4: QUADS, 8: [set(range(8))]}
"""NVIDIA/go-gpuallocator, gpuallocator/staticdgx_policies.go."""
ATTRIBUTES = {2: "nvlinkPair", 4: "nvlinkQuad", 8: "nvlinkOctet"}


def published(rootport: RunningRootport) -> set[str]:
    """The pairs that the slices have."""
    devices = [device for part in rootport.slices() for device in part["spec"].get("devices", ())]
    return {each["attributes"]["nvlinkPair"]["string"] for each in devices if "nvlinkPair" in each["attributes"]}


@pytest.fixture(scope="module")
def linked(running: RunningRootport) -> Iterator[None]:
    """The node's GPUs have the links of a DGX-1 with V100, for the tests of this module."""
    machine = read_topology(machine_file("dgx-1-v100"))
    numbers = {gpu.address: gpu.index for gpu in machine.gpus}
    for gpu in machine.gpus:
        ends = [numbers[link.peer] for link in gpu.links if link.peer for _ in range(link.count)]
        links = [Link(LinkEnd.GPU, f"0000{running.host.gpus[end]}") for end in ends]
        running.host.set_live(gpu.index, **{f"link{place}": str(link) for place, link in enumerate(links)})
    _discover(running)
    wait_until("the pairs are published", lambda: len(published(running)) == 4, timeout_s=60)
    yield
    for number in range(8):
        running.host.set_live(number, **{f"link{place}": None for place in range(6)})
    _discover(running)
    wait_until("the GPUs are without links again", lambda: not published(running), timeout_s=60)


def _discover(running: RunningRootport) -> None:
    assert running.plugin is not None
    running.plugin.stop()
    running.start_plugin()


@pytest.fixture
def dgx_1(linked: None, rootport: RunningRootport) -> RunningRootport:
    """Rootport on a node whose GPUs are linked like those of a DGX-1."""
    return rootport


def gpus(name: str, size: int, *, match: bool = False) -> list[dict[str, Any]]:
    """A pod with a claim for so many GPUs, of one group or of any."""
    asked = claim(name, gpu=size)
    if match:
        asked["spec"]["devices"]["constraints"] = [{"matchAttribute": f"rootport.dev/{ATTRIBUTES[size]}"}]
    return [asked, pod(name, claim=name)]


def apply(rootport: RunningRootport, objects: list[dict[str, Any]]) -> None:
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))


def given(rootport: RunningRootport) -> dict[str, set[int]]:
    """The GPUs of each claim that is allocated, by their numbers."""
    number = {f"gpu-{address.replace(':', '-').replace('.', '-')}": n for n, address in enumerate(rootport.host.gpus)}
    return {
        item["metadata"]["name"]: {number[result["device"]] for result in allocation["devices"]["results"]}
        for item in rootport.cluster.list(RESOURCE_CLAIMS)
        if (allocation := item.get("status", {}).get("allocation"))
    }


def running(rootport: RunningRootport, *names: str) -> None:
    def run() -> bool:
        phases = {item["metadata"]["name"]: item["status"].get("phase") for item in rootport.cluster.list(PODS)}
        return all(phases.get(name) == "Running" for name in names)

    wait_until(f"{', '.join(names)} run", run, timeout_s=90)


@pytest.mark.parametrize("match", [False, True], ids=["first-fit", "constraint"])
def test_claims_get_the_known_best_sets_until_all_gpus_are_in_use(dgx_1: RunningRootport, match: bool) -> None:
    for size, best in KNOWN.items():
        names = [f"of-{size}-{number}" for number in range(8 // size)]
        apply(dgx_1, [each for name in names for each in gpus(name, size, match=match)])
        running(dgx_1, *names)
        assert sorted(map(sorted, given(dgx_1).values())) == sorted(map(sorted, best))
        dgx_1.delete_all()


def test_after_single_gpus_are_taken_the_best_that_is_left_is_given_and_explain_says_what_is_not(
    dgx_1: RunningRootport,
) -> None:
    single = {f"single-{number}": number for number in (1, 6)}
    for name, number in single.items():
        apply(dgx_1, [gpu_claim(name, dgx_1.host.gpus[number]), pod(name, claim=name)])
    running(dgx_1, *single)

    apply(dgx_1, gpus("quad", 4, match=True))
    program = Path(sys.executable).with_name("rootport")
    kubeconfig = f"--kubeconfig={dgx_1.cluster.control_plane.kubeconfig}"
    done = subprocess.run(
        [program, "explain", "pod", "default/quad", kubeconfig], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, done.stderr
    text = " ".join(done.stdout.split())
    assert "matchAttribute rootport.dev/nvlinkQuad" in text
    assert f'the best is "{dgx_1.host.gpus[0]}": request gpu needs 4, of which 3 are free and 4 are there' in text
    assert "default/single-1" in text

    apply(dgx_1, [*gpus("pair-1", 2, match=True), *gpus("pair-2", 2, match=True)])
    running(dgx_1, "pair-1", "pair-2")
    assert sorted(map(sorted, (given(dgx_1)[name] for name in ("pair-1", "pair-2")))) == [[0, 3], [4, 7]]
