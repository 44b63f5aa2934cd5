"""Devices: whole, in parts, and next to each other."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.matrix.rig import LOOK, Rig, Row
from tests.support.cluster.interfaces import interfaces
from tests.support.cluster.pods import gpu_claim, nic_claim, pod
from tests.support.cluster.processes import wait_until
from tests.support.paths import REPO

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_go]

PARTITIONABLE = "DRAPartitionableDevices"
CONSUMABLE = "DRAConsumableCapacity"


def test_gpu_whole(rig: Rig, row: Row) -> None:
    """A whole GPU, which the container sees alone"""
    rig.start(gpu_claim("whole", rig.host.gpus[1]), pod("whole", claim="whole", command=LOOK))
    assert rig.runs("whole")
    assert rig.gpus_seen("whole") == {1}
    row.works()


def test_gpu_with_nic(rig: Rig, row: Row) -> None:
    """A GPU and the NIC under the same PCIe switch (`matchAttribute`)"""
    template, example = yaml.safe_load_all((REPO / "examples/gpu-nic-pair.yaml").read_text())
    example["spec"]["containers"][0]["command"] = ["sh", "-c", LOOK]
    example["spec"]["terminationGracePeriodSeconds"] = 0
    rig.start(template, example)
    assert rig.runs("gpu-nic-pair")
    # NIC i is under the switch of GPU i; GPU 3 has a second one.
    (gpu,) = rig.gpus_seen("gpu-nic-pair")
    assert rig.nics_seen("gpu-nic-pair") in ({gpu}, {16} if gpu == 3 else {gpu})
    row.works()


def parts(rig: Rig, gpu: int, *sizes: dict[str, Any]) -> bool:
    """Whether pods with these parts of one GPU run together, each on that GPU alone."""
    names = [f"part-{number}" for number in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        rig.start(gpu_claim(name, rig.host.gpus[gpu], **size), pod(name, claim=name, command=LOOK))
    if not rig.runs(*names):
        return False
    assert [rig.gpus_seen(name) for name in names] == [{gpu}] * len(names)
    return True


def shares(rig: Rig, row: Row, *sizes: dict[str, Any], more: dict[str, Any]) -> None:
    """Record whether shares of one GPU run together; then one that asks for more than is left waits."""
    if parts(rig, 2, *sizes):
        rig.start(gpu_claim("more", rig.host.gpus[2], **more), pod("more", claim="more"))
        assert rig.waits("more")
        row.works()
    else:
        row.degraded(CONSUMABLE)


def test_gpu_shares_in_bytes(rig: Rig, row: Row) -> None:
    """Shares of a GPU, in core and bytes of memory"""
    shares(
        rig,
        row,
        {"core": "50", "memory": "30Gi"},
        {"core": "50", "memory": "40Gi"},
        more={"core": "1", "memory": "1Gi"},
    )


def test_gpu_shares_in_percent(rig: Rig, row: Row) -> None:
    """Shares of a GPU, in percent of core and memory"""
    ratio = {"type_": "gpu-ratio"}
    shares(rig, row, ratio | {"memoryRatio": "60"}, ratio | {"memoryRatio": "40"}, more=ratio | {"memoryRatio": "1"})


def test_gpu_partitions(rig: Rig, row: Row) -> None:
    """MIG partitions, made for the claim"""
    if parts(rig, 4, {"type_": "mig", "profile": "3g.40gb"}, {"type_": "mig", "profile": "3g.40gb"}):
        row.works()
    else:
        row.degraded(PARTITIONABLE)


def test_gpu_modes_exclude_each_other(rig: Rig, row: Row) -> None:
    """A GPU in use in one mode is given in no other"""
    rig.start(gpu_claim("whole", rig.host.gpus[5]), pod("whole", claim="whole"))
    assert rig.runs("whole")
    for name, part in (
        ("share", {"core": "10", "memory": "1Gi"}),
        ("ratio", {"type_": "gpu-ratio", "memoryRatio": "10"}),
        ("mig", {"type_": "mig", "profile": "1g.10gb"}),
    ):
        rig.start(gpu_claim(name, rig.host.gpus[5], **part), pod(name, claim=name))
    for name in ("share", "ratio", "mig"):
        assert rig.waits(name, for_s=4)
    row.works()


def test_nic_whole(rig: Rig, row: Row) -> None:
    """A whole RDMA NIC"""
    claim = nic_claim("nic", class_="rdma", address=rig.host.nics[6])
    rig.start(claim, pod("nic", claim="nic", command=LOOK))
    assert rig.runs("nic")
    assert rig.nics_seen("nic") == {6}
    row.works()


def test_nic_shares(rig: Rig, row: Row) -> None:
    """Shares of an RDMA NIC's bandwidth"""
    for name in ("one", "two"):
        claim = nic_claim(name, class_="rdma", address=rig.host.nics[6], bandwidth="200G")
        rig.start(claim, pod(name, claim=name))
    if rig.runs("one", "two"):
        row.works()
    else:
        row.degraded(CONSUMABLE)


def test_vf(rig: Rig, row: Row) -> None:
    """A virtual function of a NIC"""
    nic = rig.host.vf_nics[0]
    # By the NIC's own address where VFs are a pool, and by their parent's where each is published by name.
    rig.start(nic_claim("vf", parent=nic.address), pod("vf", claim="vf", command=LOOK))
    assert rig.runs("vf")
    assert len(rig.nics_seen("vf") & set(nic.verbs)) == 1
    row.works()


def test_vf_interface(rig: Rig, row: Row) -> None:
    """A virtual function with its network interface in the pod (CNI)"""
    nic = rig.host.vf_nics[0]
    claim = nic_claim("moved", parent=nic.address, parameters={"interface": {"name": "rdma0"}})
    rig.start(claim, pod("moved", claim="moved", command=f"ip link show rdma0; {LOOK}"))
    assert rig.runs("moved")
    assert "rdma0" in rig.log("moved").partition("SEEN")[0]
    assert not set(nic.interfaces) <= set(interfaces(rig.cluster.machine))
    rig.kubectl("delete", "pod", "moved")
    wait_until("it is back", lambda: set(nic.interfaces) <= set(interfaces(rig.cluster.machine)), timeout_s=30)
    row.works()


def test_fpga(rig: Rig, row: Row) -> None:
    """An FPGA"""
    template, example = yaml.safe_load_all((REPO / "examples/fpga.yaml").read_text())
    example["spec"]["containers"][0]["command"] = ["sh", "-c", LOOK]
    example["spec"]["terminationGracePeriodSeconds"] = 0
    rig.start(template, example)
    name = example["metadata"]["name"]
    assert rig.runs(name)
    assert "\ndfl-port.0\n" in rig.log(name)
    row.works()
