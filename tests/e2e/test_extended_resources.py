"""Pods that ask for extended resources, as pods for device plugins do, on the real node: nothing in them is changed."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from driver.adapters.kubernetes.resources import DEVICES, EVENTS, RESOURCE_CLAIMS
from tests.support.cluster.driver import MANIFESTS
from tests.support.cluster.given_twice import TwiceWatch
from tests.support.cluster.pods import manifest
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import PLUGIN_HEALTH_PORT, RunningRootport
from tests.support.rival_plugin import RivalPlugin, rival_pod

LOOK: Final = "ls /dev | grep ^nvidia; ls /dev/infiniband 2>/dev/null; env | sort; echo SEEN; exec sleep 100000"
SOON_S: Final = 60


@pytest.fixture(scope="module", autouse=True)
def classes(running: RunningRootport) -> Iterator[None]:
    """The component's classes, for these tests alone."""
    component = MANIFESTS / "components/extended-resources"
    files = [component / name for name in yaml.safe_load((component / "kustomization.yaml").read_text())["resources"]]
    running.apply(*files)
    yield
    running.delete(*files)


def asking(name: str, *containers: dict[str, int]) -> dict[str, Any]:
    """A pod as it is written for device plugins: limits, and nothing of claims."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"test": "rootport"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": f"main-{at}",
                    "image": "busybox:1.37",
                    "command": ["sh", "-c", LOOK],
                    "resources": {"limits": {key: str(value) for key, value in amounts.items()}},
                }
                for at, amounts in enumerate(containers)
            ],
        },
    }


def seen(rootport: RunningRootport, name: str, container: str = "main-0") -> str:
    """What a container sees, once the pod runs."""
    cluster = rootport.cluster
    cluster.wait_for_pod(name, "Running")

    def log() -> str:
        return cluster.kubectl("logs", name, f"--container={container}", check=False)

    wait_until(f"{name} says what it sees", lambda: "SEEN" in log(), timeout_s=30)
    return log()


def held(rootport: RunningRootport) -> dict[str, set[tuple[str, str]]]:
    """By device, the pods and containers that the Device objects show."""
    return {
        item["spec"]["deviceName"]: holders
        for item in rootport.cluster.list(DEVICES)
        if (
            holders := {
                (pod["name"], container)
                for allocation in item.get("status", {}).get("allocations", ())
                for pod in allocation.get("pods", ())
                for container in pod.get("containers", ())
            }
        )
    }


def variable(log: str, name: str) -> str:
    found = re.search(rf"^ROOTPORT_EXTENDED_RESOURCES__CONTAINER_\d+_REQUEST_\d+_{name}=(.*)$", log, re.MULTILINE)
    assert found, log
    return found[1]


def test_a_gpu_a_partition_and_a_nic_are_given_to_pods_as_they_are(rootport: RunningRootport) -> None:
    cluster = rootport.cluster
    pods = [asking("gpu", {"nvidia.com/gpu": 1}), asking("nic", {"rdma/hca": 1})]
    pods.append(asking("part", {"nvidia.com/mig-1g.10gb": 1}))
    cluster.kubectl("apply", "--filename=-", input=manifest(*pods))

    gpu, nic, part = (seen(rootport, name) for name in ("gpu", "nic", "part"))

    address = variable(gpu, "PCI")
    index = rootport.host.gpus.index(address)
    assert set(re.findall(r"^nvidia\d+$", gpu, re.MULTILINE)) == {f"nvidia{index}"}
    assert "nvidiactl\n" in gpu
    assert "NVIDIA_VISIBLE_DEVICES=void\n" in gpu
    assert "uverbs" not in gpu
    number = rootport.host.nics.index(variable(nic, "PCI"))
    assert set(re.findall(r"^uverbs\d+$", nic, re.MULTILINE)) == {f"uverbs{number}"}
    assert not re.findall(r"^nvidia", nic, re.MULTILINE)
    assert variable(part, "PROFILE") == "1g.10gb"
    assert variable(part, "UUID").startswith("MIG-")

    def names() -> dict[tuple[str, str], str]:
        return {pair: device for device, pairs in held(rootport).items() for pair in pairs}

    wanted = {("gpu", "main-0"), ("nic", "main-0"), ("part", "main-0")}
    wait_until("the Device objects show them", lambda: names().keys() == wanted, timeout_s=30)
    assert names()["gpu", "main-0"] == f"gpu-{address.replace(':', '-').replace('.', '-')}"
    claims = [item["metadata"]["name"] for item in cluster.list(RESOURCE_CLAIMS)]
    assert sorted(name.rpartition("-")[0] for name in claims) == [
        f"{n}-extended-resources" for n in ("gpu", "nic", "part")
    ]

    # Its own names are no rival's: no Node counts them. A device plugin that has gone may have left a 0.
    assert rootport.condition("NoRivalPlugin") == "True"
    assert cluster.get("node", "node-1")["status"]["capacity"].get("nvidia.com/gpu", "0") == "0"

    cluster.kubectl("delete", "pods", "--all")
    wait_until("no claim is left", lambda: not cluster.list(RESOURCE_CLAIMS), timeout_s=SOON_S)
    rootport.wait_until_clean()
    wait_until("the Device objects show nobody", lambda: not held(rootport), timeout_s=30)


def test_each_container_has_its_own_and_the_metrics_say_whose(rootport: RunningRootport) -> None:
    pod = asking("pair", {"nvidia.com/gpu": 1, "rdma/hca": 1}, {"nvidia.com/gpu": 2})
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(pod))
    first, second = seen(rootport, "pair", "main-0"), seen(rootport, "pair", "main-1")
    of_first, of_second = (set(re.findall(r"^nvidia\d+$", log, re.MULTILINE)) for log in (first, second))
    assert (len(of_first), len(of_second), of_first & of_second) == (1, 2, set())
    assert "uverbs" in first
    assert "uverbs" not in second

    def holders() -> set[tuple[str, str]]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        url = f"http://{rootport.cluster.machine.address}:{PLUGIN_HEALTH_PORT}/metrics"
        with opener.open(url, timeout=10) as answer:
            text = answer.read().decode()
        found = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        shares = [sample.labels for sample in found if sample.name == "rootport_share_info"]
        return {(labels["pod"], labels["container"]) for labels in shares}

    wait_until(
        "the metrics say whose they are",
        lambda: holders() == {("pair", "main-0"), ("pair", "main-1")},
        timeout_s=30,
        step_s=1,
    )


def test_fifty_pods_one_after_the_other_leave_nothing_behind(rootport: RunningRootport) -> None:
    cluster = rootport.cluster
    for round_ in range(5):
        pods = [asking(f"r{round_}-{at}", {"nvidia.com/gpu": 1}) for at in range(10)]
        for pod in pods:
            pod["spec"]["containers"][0]["command"] = ["true"]
        cluster.kubectl("apply", "--filename=-", input=manifest(*pods))
        for pod in pods:
            cluster.wait_for_pod(pod["metadata"]["name"], "Succeeded", timeout_s=90)
        cluster.kubectl("delete", "pods", "--all")
    wait_until("no claim is left", lambda: not cluster.list(RESOURCE_CLAIMS), timeout_s=SOON_S)
    rootport.wait_until_clean()
    wait_until("the Device objects show nobody", lambda: not held(rootport), timeout_s=30)


def test_one_pod_goes_over_from_a_device_plugin_to_rootport_and_no_gpu_is_given_twice(
    rootport: RunningRootport, tmp_path: Path
) -> None:
    """The node says who gives nvidia.com/gpu: the pod is the same, and runs by the plugin or by a claim."""
    cluster = rootport.cluster
    devices = [device for part in rootport.slices() for device in part["spec"].get("devices", ())]
    names = {
        device["attributes"]["uuid"]["string"]: device["name"]
        for device in devices
        if device["attributes"]["type"]["string"] == "gpu"
    }
    nodes = {
        uuid: rootport.host.root / f"dev/nvidia{at}" for at, uuid in enumerate(sorted(names, key=names.__getitem__))
    }
    plugin = RivalPlugin(cluster, tmp_path / "plugin", nodes)

    def phase(name: str) -> str:
        return str(cluster.get("pod", name)["status"].get("phase", ""))

    try:
        with TwiceWatch(cluster, names) as watch:
            plugin.start()
            cluster.kubectl("apply", "--filename=-", input=manifest(rival_pod("old", count=2)))
            cluster.wait_for_pod("old", "Running")
            assert cluster.list(RESOURCE_CLAIMS) == []
            plugin.kill()
            wait_until("the kubelet gives out none", lambda: plugin.allocatable() == 0, timeout_s=30)
            # kube-scheduler turns to Rootport now, which keeps the GPUs back: the plugin may return.
            cluster.kubectl("apply", "--filename=-", input=manifest(rival_pod("new", count=7)))
            wait_until("it is explained", lambda: _events(rootport, "new") == {"DeviceTainted"}, timeout_s=40)
            assert phase("new") == "Pending"
            plugin.start()
            plugin.withdraw()
            # Two GPUs are still the old pod's: seven of eight are not free.
            wait_until("six are free", lambda: _untainted(rootport, names) == 6, timeout_s=40)
            assert phase("new") == "Pending"
            cluster.kubectl("delete", "pod", "old", "--timeout=60s")
            cluster.wait_for_pod("new", "Running")
            wait_until("the Device objects show it", lambda: len(held(rootport)) == 7, timeout_s=30)
        assert watch.found == []
        assert watch.looks > 20
    finally:
        cluster.kubectl("delete", "pods", "--all", "--timeout=60s")
        plugin.stop()
    wait_until("nothing is tainted any more", lambda: _untainted(rootport, names) == len(names), timeout_s=40)


def _events(rootport: RunningRootport, name: str) -> set[str]:
    """The reasons that Rootport has told of a pod."""
    found = rootport.cluster.list(EVENTS)
    mine = [item for item in found if item.get("reportingComponent") == "rootport.dev/controller"]
    return {item["reason"] for item in mine if item["involvedObject"]["name"] == name}


def _untainted(rootport: RunningRootport, names: Mapping[str, str]) -> int:
    devices = [device for part in rootport.slices() for device in part["spec"].get("devices", ())]
    whole = [device for device in devices if device["name"] in names.values()]
    return sum(not device.get("taints") for device in whole)
