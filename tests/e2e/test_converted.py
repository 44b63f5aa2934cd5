"""Workloads as users of other systems write them run on the real node once they are converted, and leave nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from driver.adapters.kubernetes.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.cluster.conversion.converting_cluster import ConvertingCluster, deployment
from tests.e2e.converting import converting
from tests.support.cluster.ledger import oversold
from tests.support.cluster.pods import manifest, pod, template
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport
from tests.support.cluster.strategies import offering
from tests.support.command_line import Ran
from tests.support.command_line import rootport as command_line
from tests.support.foreign_pods import KOORDINATOR, LIMITED, LIMITED_BY_MAP, LOOK, OTHERS, RESOURCE_MAP, SEEDS, VF, Case

__all__ = ["command_line", "converting"]

CONTROL: Final = {"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"}
LIBRARY: Final = "/usr/local/vgpu/libvgpu.so"
"""HAMi-core's, in a container."""


def pods(cases: Mapping[str, Case]) -> list[dict[str, Any]]:
    return [case.pod(name) for name, case in cases.items()]


def variables(log: str, suffix: str) -> list[str]:
    """The values of all of the driver's lists with this ending."""
    found = re.findall(rf"^ROOTPORT_\w+__\w+_{suffix}=(.*)$", log, re.MULTILINE)
    return [value for values in found for value in values.split(",")]


def nodes_of(rootport: RunningRootport, log: str) -> set[str]:
    """The device nodes that a container's variables speak of."""
    gpus = [rootport.host.gpus.index(address) for address in variables(log, "PCI") if address in rootport.host.gpus]
    numbers = [name.removeprefix("mlx5_") for name in variables(log, "RDMA")]
    verbs = {f"infiniband/{kind}{number}" for number in numbers for kind in ("uverbs", "umad", "issm")}
    fpgas = {"dfl-port.0"} if rootport.host.fpga in variables(log, "PCI") else set()
    control = CONTROL if gpus else set()
    return (
        {f"nvidia{number}" for number in gpus} | control | verbs | ({"infiniband/rdma_cm"} if verbs else set()) | fpgas
    )


def check(rootport: RunningRootport, case: Case, log: str) -> None:
    """A container has the devices that it asked for, knows its share, and has no other device."""
    there = set(re.findall(r"^/dev/((?:nvidia|infiniband/|dfl|dri/|kfd)\S*)$", log, re.MULTILINE))
    capabilities = {name for name in there if name.startswith("nvidia-caps/")}
    assert there - capabilities == nodes_of(rootport, log), log
    addresses = variables(log, "PCI")
    gpus = [rootport.host.gpus.index(address) for address in addresses if address in rootport.host.gpus]
    nics = variables(log, "RDMA")
    assert (len(gpus), len(nics), addresses.count(rootport.host.fpga or "-")) == (case.gpus, case.nics, case.fpgas)
    assert bool(capabilities) == case.is_partition
    if case.gpus:
        assert "NVIDIA_VISIBLE_DEVICES=void\n" in log
    if case.core is not None:
        assert variables(log, "CORE") == [str(case.core)] * case.gpus
    if case.memory is not None:
        assert variables(log, "MEMORY") == [str(case.memory)] * case.gpus
    if case.nics:
        assert f"NCCL_IB_HCA=={','.join(nics)}\n" in log
    if case.near:
        (gpu,) = gpus
        # GPU i and NIC i share a switch on this host, with one more NIC at GPU 3 (tests/support/cluster/hardware.py).
        near = {f"mlx5_{gpu}"} | (set(nics) if rootport.host.second_nic in addresses and gpu == 3 else set())
        assert set(nics) <= near
    for name, value in case.environment.items():
        assert f"{name}={value}\n" in log
    assert (LIBRARY in log) == bool(case.environment)


def check_all(rootport: RunningRootport, cases: Mapping[str, Case], namespace: str = "default") -> None:
    """Each pod runs with what it asked for; its claims are in the books and on the node."""
    cluster = rootport.cluster
    for name, case in cases.items():
        cluster.wait_for_pod(name, "Running", namespace=namespace, timeout_s=90)

        def log(name: str = name) -> str:
            return cluster.kubectl("logs", name, f"--namespace={namespace}", check=False)

        wait_until(f"{name} says what it sees", lambda: "SEEN" in log(), timeout_s=30)
        check(rootport, case, log())
    claims = cluster.list(RESOURCE_CLAIMS, namespace=namespace)
    assert oversold(claims, rootport.slices()) == []
    assert len(claims) == len(cases), "each container has one claim"
    files = " ".join(rootport.cdi_files())
    assert [claim["metadata"]["uid"] for claim in claims if claim["metadata"]["uid"] not in files] == []


def wait_until_gone(rootport: RunningRootport, namespace: str = "default") -> None:
    cluster = rootport.cluster
    wait_until("no claim is left", lambda: not cluster.list(RESOURCE_CLAIMS, namespace=namespace), timeout_s=60)
    rootport.wait_until_clean()


@pytest.fixture
def library(rootport: RunningRootport) -> Iterator[None]:
    """A node with a stub of HAMi-core's library, which no program of the image can load, and GPUs shared by it."""
    with offering(rootport, hamiCore=rootport.host.gpus[:4]):
        yield


@pytest.fixture
def by_file(rootport: RunningRootport, command_line: Callable[..., Ran], tmp_path: Path) -> Callable[..., None]:
    """Converts pods with the command line, applies what it prints, checks the pods, and deletes it again."""

    def run(cases: Mapping[str, Case], resource_map: Mapping[str, Any] | None = None) -> None:
        source, cluster = tmp_path / "pods.yaml", rootport.cluster
        source.write_text(manifest(*pods(cases)))
        # A percentage of a NIC whose speed is known takes the cluster's sizes.
        options: Sequence[str | Path] = ("--kubeconfig", cluster.control_plane.kubeconfig)
        if resource_map is not None:
            (tmp_path / "map.yaml").write_text(yaml.safe_dump(resource_map))
            options = (*options, "--resources", tmp_path / "map.yaml")
        ran = command_line("convert", source, *options)
        assert ran.code == 0, ran.err
        cluster.kubectl("apply", "--filename=-", input=ran.out)
        check_all(rootport, cases)
        cluster.kubectl("delete", "--filename=-", input=ran.out)
        assert cluster.list(RESOURCE_CLAIM_TEMPLATES) == []
        wait_until_gone(rootport)

    return run


@pytest.mark.parametrize("cases", [SEEDS, KOORDINATOR], ids=["first-examples", "koordinator"])
def test_converted_files_run(by_file: Callable[..., None], cases: Mapping[str, Case]) -> None:
    by_file(cases)


def test_converted_files_of_other_systems_run(by_file: Callable[..., None]) -> None:
    by_file({**OTHERS, **VF}, RESOURCE_MAP)


def test_converted_shares_keep_their_limits(by_file: Callable[..., None], library: None) -> None:
    by_file({**LIMITED, **LIMITED_BY_MAP}, {**RESOURCE_MAP, "shareStrategy": "hamiCore"})


def test_converted_claims_of_another_driver_run(
    rootport: RunningRootport, command_line: Callable[..., Ran], tmp_path: Path
) -> None:
    cluster, source = rootport.cluster, tmp_path / "claims.yaml"
    whole, part = template("whole"), template("part")
    for made, name, value in ((whole, "architecture", "Hopper"), (part, "profile", "1g.10gb")):
        expression = f'device.attributes["gpu.nvidia.com"].{name} == "{value}"'
        made["spec"]["spec"]["devices"]["requests"][0]["exactly"] = {
            "deviceClassName": "mig.nvidia.com" if made is part else "gpu.nvidia.com",
            "selectors": [{"cel": {"expression": expression}}],
        }
    source.write_text(manifest(whole, part, *(pod(name, template=name, command=LOOK) for name in ("whole", "part"))))
    ran = command_line("convert", source)
    assert ran.code == 0, ran.err
    cluster.kubectl("apply", "--filename=-", input=ran.out)
    check_all(rootport, {"whole": Case(gpus=1, core=100), "part": Case(gpus=1, is_partition=True)})
    cluster.kubectl("delete", "--filename=-", input=ran.out)
    wait_until_gone(rootport)


def test_fifty_replicas_of_a_converted_deployment_leave_nothing_behind(
    rootport: RunningRootport, command_line: Callable[..., Ran], tmp_path: Path
) -> None:
    cluster, source = rootport.cluster, tmp_path / "deployment.yaml"
    tenth = {"koordinator.sh/gpu-core": "10", "koordinator.sh/gpu-memory-ratio": "10"}
    body = deployment("replicas", 50, tenth)
    body["spec"]["template"]["spec"] = Case(limits=tenth).pod("")["spec"]
    source.write_text(manifest(body))
    ran = command_line("convert", source)
    cluster.kubectl("apply", "--filename=-", input=ran.out)
    cluster.kubectl("rollout", "status", "deployment/replicas", "--timeout=240s")
    claims = cluster.list(RESOURCE_CLAIMS)
    assert len(claims) == 50
    assert len(cluster.list(RESOURCE_CLAIM_TEMPLATES)) == 1
    assert oversold(claims, rootport.slices()) == []

    cluster.kubectl("delete", "--filename=-", input=ran.out)
    assert cluster.list(RESOURCE_CLAIM_TEMPLATES) == []
    wait_until_gone(rootport)


@pytest.mark.parametrize(
    "cases", [SEEDS, KOORDINATOR, {**OTHERS, **VF}], ids=["first-examples", "koordinator", "other-systems"]
)
def test_pods_run_as_they_were_written(
    rootport: RunningRootport, converting: ConvertingCluster, cases: Mapping[str, Case]
) -> None:
    cluster, place = rootport.cluster, f"--namespace={converting.namespace}"
    cluster.kubectl("create", place, "--filename=-", input=manifest(*pods(cases)))
    check_all(rootport, cases, converting.namespace)
    cluster.kubectl("delete", "pods", "--all", place)
    wait_until_gone(rootport, converting.namespace)
    made = cluster.list(RESOURCE_CLAIM_TEMPLATES, namespace=converting.namespace)
    # The controller collects them minutes after their last use (tests/cluster/conversion).
    assert {item["metadata"]["labels"]["rootport.dev/converted"] for item in made} == {"webhook"}
