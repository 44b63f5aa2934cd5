"""The CDI library that container runtimes use reads our files and injects what the plan says (tests/oracle/cdi)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from plan.builders import claim, fpga, given, gpu, nic, node, vf

from driver.adapters.cdi_files import write_spec
from driver.adapters.nccl import read_topology
from driver.model.inventory import Inventory
from driver.plan import CDI_VERSION, PreparePlan, prepare_plan

TESTS = Path(__file__).parent.parent
ORACLE = TESTS / "oracle" / "cdi"
TOPOLOGIES = sorted((TESTS.parent / "examples" / "topologies").glob("*.xml"))

pytestmark = pytest.mark.needs_go


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The judge, built. Its modules come from Go's module cache, or from the module proxy the first time."""
    program = tmp_path_factory.mktemp("cdi-oracle") / "oracle"
    download = subprocess.run(["go", "mod", "download"], cwd=ORACLE, capture_output=True, text=True, check=False)
    if download.returncode and os.environ.get("CI") != "true":
        pytest.skip(f"the CDI library cannot be downloaded: {download.stderr.strip()[-200:]}")
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=ORACLE, check=True)
    return program


def judge(oracle: Path, folder: Path, *containers: Sequence[str]) -> dict[str, Any]:
    """What the library says of a folder, and of containers that are given these device ids."""
    run = subprocess.run(
        [str(oracle), str(folder)], input=json.dumps(containers), capture_output=True, text=True, check=True, timeout=60
    )
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def ids_of(plan: PreparePlan, *requests: str) -> list[str]:
    """The ids that the kubelet hands over for a container which names these requests (none: the whole claim)."""
    named = [device for device in plan.devices if not requests or set(requests) & set(device.request_names)]
    return [cdi_id for device in named for cdi_id in device.cdi_device_ids]


def everything(inventory: Inventory, uid: str) -> PreparePlan:
    """One claim, with a request for each type of device, that was given all of a node."""
    results = [given(device.type, device.name, pool=inventory.node) for device in inventory.devices()]
    return prepare_plan(claim(*results, uid=uid), inventory, assume_minors=True)


def write(plan: PreparePlan, folder: Path) -> None:
    assert plan.spec is not None
    write_spec(plan.spec, folder)


def test_a_container_gets_what_the_requests_it_names_were_given(oracle: Path, tmp_path: Path) -> None:
    inventory = node(gpu(0), gpu(1), nic(0, vfs=(vf(0, 0),)), fpga(0))
    plan = everything(inventory, "1-digit-first")
    write(plan, tmp_path)
    answer = judge(oracle, tmp_path, ids_of(plan), ids_of(plan, "gpu"), ids_of(plan, "rdma-vf"))
    assert answer["errors"] == {}
    assert answer["devices"] == sorted(ids_of(plan))
    whole, gpus, vfs = answer["injected"]
    assert whole["error"] == gpus["error"] == vfs["error"] == ""
    assert sorted(gpus["deviceNodes"]) == [
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidiactl",
    ]
    assert gpus["env"] == [
        "NVIDIA_VISIBLE_DEVICES=void",
        "ROOTPORT_TRAIN__GPU_PCI=0000:10:00.0,0000:11:00.0",
        "ROOTPORT_TRAIN__GPU_UUID=GPU-00000000,GPU-00000001",
    ]
    assert vfs["deviceNodes"] == ["/dev/infiniband/uverbs10", "/dev/infiniband/rdma_cm"]
    assert vfs["env"] == ["ROOTPORT_TRAIN__RDMA_VF_PCI=0000:40:00.1", "ROOTPORT_TRAIN__RDMA_VF_RDMA=mlx5_10"]
    assert len(whole["deviceNodes"]) == len(set(whole["deviceNodes"]))
    assert {"/dev/dfl-port.0", "/dev/infiniband/uverbs0", "/dev/nvidia0"} <= set(whole["deviceNodes"])


def test_claims_of_one_pod_do_not_hide_each_others_variables(oracle: Path, tmp_path: Path) -> None:
    inventory = node(gpu(0), gpu(1))
    plans = [
        prepare_plan(claim(given("gpu", f"gpu-0000-1{index}-00-0"), uid=f"uid-{name}", name=name), inventory)
        for index, name in enumerate(["left", "right"])
    ]
    for plan in plans:
        write(plan, tmp_path)
    (container,) = judge(oracle, tmp_path, [cdi_id for plan in plans for cdi_id in ids_of(plan)])["injected"]
    assert set(container["env"]) == {
        "NVIDIA_VISIBLE_DEVICES=void",
        "ROOTPORT_LEFT__GPU_PCI=0000:10:00.0",
        "ROOTPORT_LEFT__GPU_UUID=GPU-00000000",
        "ROOTPORT_RIGHT__GPU_PCI=0000:11:00.0",
        "ROOTPORT_RIGHT__GPU_UUID=GPU-00000001",
    }


@pytest.mark.parametrize("uid", ["0b5f2a6e-9a4e-4c7b-8a53-3f1a53f0c1de", "ab5f2a6e-9a4e-4c7b-8a53-3f1a53f0c1de"])
def test_the_version_is_enough_for_every_uid(oracle: Path, tmp_path: Path, uid: str) -> None:
    plan = everything(node(gpu(0)), uid)
    write(plan, tmp_path)
    (minimum,) = judge(oracle, tmp_path)["minimumVersions"].values()
    assert minimum == (CDI_VERSION if uid[0].isdigit() else "0.3.0")


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=[path.stem for path in TOPOLOGIES])
def test_the_library_takes_the_specs_of_real_machines(oracle: Path, tmp_path: Path, topology: Path) -> None:
    plan = everything(read_topology(topology), "0b5f2a6e")
    write(plan, tmp_path)
    answer = judge(oracle, tmp_path, ids_of(plan))
    assert answer["errors"] == {}
    assert len(answer["devices"]) == len(plan.devices) > 8
    assert answer["injected"][0]["error"] == ""


def test_the_library_refuses_a_broken_file_so_this_test_can_fail(oracle: Path, tmp_path: Path) -> None:
    content = json.dumps({"cdiVersion": "0.3.0", "kind": "rootport.dev/claim", "devices": [{"name": "0"}]})
    (tmp_path / "broken.json").write_text(content)
    answer = judge(oracle, tmp_path, ["rootport.dev/claim=0"])
    assert list(answer["errors"]) == ["broken.json"]
    assert "unresolvable" in answer["injected"][0]["error"]


def test_a_runtime_does_not_see_a_write_that_was_cut_short(oracle: Path, tmp_path: Path) -> None:
    (tmp_path / ".rootport.dev-claim_0b5f2a6e.json.abc123.tmp").write_text('{"cdiVersion": "0.5')
    assert judge(oracle, tmp_path)["errors"] == {}
