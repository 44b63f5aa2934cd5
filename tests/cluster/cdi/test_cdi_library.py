"""The CDI library that container runtimes use reads our files and injects what the plan says (tests/oracle/cdi)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as given_drawn
from hypothesis import settings
from hypothesis import strategies as st

from driver.adapters.files.cdi_files import write_spec
from driver.adapters.machines.topology import read_topology
from driver.api.resource_v1 import ResourceClaim
from driver.model.inventory import Inventory
from driver.plan import CDI_VERSION, DriverFiles, PreparePlan, prepare_plan
from tests.support.plan.builders import UID, claim, fpga, given, gpu, h100, nic, node, share, vf
from tests.support.plan.drawn_claims import allocated
from tests.support.plan.driver_files import FILES, HOOKS, VERSION
from tests.support.topologies import machine_file

MACHINES = [machine_file("aws-p4d.24xlarge"), machine_file("azure-nd-h100-v5")]
COMMANDS = ("create-symlinks", "enable-cuda-compat", "update-ldcache", "disable-device-node-modification")

pytestmark = pytest.mark.needs_go


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
    write_spec(plan.spec.claim, plan.spec.to_json(), folder)


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
        "ROOTPORT_TRAIN__GPU_CORE=100,100",
    ]
    assert vfs["deviceNodes"] == ["/dev/infiniband/uverbs10", "/dev/infiniband/rdma_cm"]
    assert vfs["env"] == [
        "ROOTPORT_TRAIN__RDMA_VF_PCI=0000:40:00.1",
        "ROOTPORT_TRAIN__RDMA_VF_RDMA=mlx5_10",
        "NCCL_IB_HCA==mlx5_0,mlx5_10",
        "UCX_NET_DEVICES=mlx5_0:1,mlx5_10:1",
        "NVSHMEM_HCA_LIST=mlx5_0:1,mlx5_10:1",
    ]
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
        "ROOTPORT_LEFT__GPU_CORE=100",
        "ROOTPORT_RIGHT__GPU_PCI=0000:11:00.0",
        "ROOTPORT_RIGHT__GPU_UUID=GPU-00000001",
        "ROOTPORT_RIGHT__GPU_CORE=100",
    }


@pytest.mark.parametrize("uid", ["0b5f2a6e-9a4e-4c7b-8a53-3f1a53f0c1de", "ab5f2a6e-9a4e-4c7b-8a53-3f1a53f0c1de"])
def test_the_version_is_enough_for_every_uid(oracle: Path, tmp_path: Path, uid: str) -> None:
    plan = everything(node(gpu(0)), uid)
    write(plan, tmp_path)
    (minimum,) = judge(oracle, tmp_path)["minimumVersions"].values()
    assert minimum == (CDI_VERSION if uid[0].isdigit() else "0.3.0")


@pytest.mark.parametrize("topology", MACHINES, ids=lambda path: path.stem)
def test_the_library_takes_the_specs_of_real_machines(oracle: Path, tmp_path: Path, topology: Path) -> None:
    plan = everything(read_topology(topology), "0b5f2a6e")
    write(plan, tmp_path)
    answer = judge(oracle, tmp_path, ids_of(plan))
    assert answer["errors"] == {}
    assert len(answer["devices"]) == len(plan.devices) > 8
    assert answer["injected"][0]["error"] == ""


def test_a_container_that_gets_the_drivers_files_twice_gets_them_once(oracle: Path, tmp_path: Path) -> None:
    """Two requests of one claim bring the same id; containerd drops the second, the library alone would not."""
    of = claim(given("a", "gpu-0000-10-00-0"), given("b", "gpu-0000-11-00-0"))
    plan = prepare_plan(of, node(gpu(0), gpu(1)), driver_files=HOOKS, metadata_root="/var/lib/metadata")
    write(plan, tmp_path)
    twice = ids_of(plan)
    assert len(twice) == len(set(twice)) + 1
    answer = judge(oracle, tmp_path, twice, list(dict.fromkeys(twice)), ids_of(plan, "b"))
    assert answer["errors"] == {}
    assert list(answer["minimumVersions"].values()) == [CDI_VERSION]
    as_the_library_does, as_containerd_does, other = answer["injected"]
    assert as_the_library_does["error"] == as_containerd_does["error"] == ""
    for field in ("env", "deviceNodes", "mounts"):
        assert sorted(as_the_library_does[field]) == sorted(as_containerd_does[field])
        assert len(set(as_containerd_does[field])) == len(as_containerd_does[field])
    # Each hook runs again: it must bear that, and NVIDIA's do (docs/design/prepare.md).
    assert as_the_library_does["hooks"] == as_containerd_does["hooks"] * 2
    assert [hook[1] for hook in as_containerd_does["hooks"]] == list(COMMANDS)
    library = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{VERSION}"
    assert f"{library} {library}" in other["mounts"]
    (metadata,) = [mount for mount in other["mounts"] if mount.startswith("/var/lib/metadata")]
    folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/train"
    assert metadata == f"/var/lib/metadata/{UID}/b.json {folder}/b/rootport.dev-metadata.json"


def test_a_nic_alone_gets_nothing_of_nvidias_driver(oracle: Path, tmp_path: Path) -> None:
    of = claim(given("gpu", "gpu-0000-10-00-0"), given("nic", "rdma-0000-40-00-0"))
    plan = prepare_plan(of, node(gpu(0), nic(0)), driver_files=FILES)
    write(plan, tmp_path)
    (container,) = judge(oracle, tmp_path, ids_of(plan, "nic"))["injected"]
    assert (container["error"], container["mounts"], container["hooks"]) == ("", None, None)


def test_the_library_takes_shares_and_mig_devices(oracle: Path, tmp_path: Path) -> None:
    of = claim(
        share("gpu", "gpu-0000-10-00-0", 0, core=20, memory="10Gi"),
        share("gpu", "gpu-0000-10-00-0", 1, core=30, memory="20Gi"),
        given("mig", "mig-0000-11-00-0-1g-10gb-2"),
    )
    plan = prepare_plan(of, node(h100(0), h100(1)), assume_minors=True)
    write(plan, tmp_path)
    answer = judge(oracle, tmp_path, ids_of(plan), ids_of(plan, "mig"))
    assert answer["errors"] == {}
    assert list(answer["minimumVersions"].values()) == [CDI_VERSION]
    whole, of_mig = answer["injected"]
    assert whole["error"] == of_mig["error"] == ""
    assert "ROOTPORT_TRAIN__GPU_CORE=20,30" in whole["env"]
    assert len([path for path in of_mig["deviceNodes"] if path.startswith("/dev/nvidia-caps/")]) == 2


def test_device_nodes_are_looked_up_below_the_device_root(oracle: Path, tmp_path: Path) -> None:
    root, specs = tmp_path / "root", tmp_path / "cdi"
    plan = prepare_plan(claim(given("gpu", "gpu-0000-10-00-0")), node(gpu(0)), device_root=str(root))
    write(plan, specs)
    (missing,) = judge(oracle, specs, ids_of(plan))["injected"]
    assert str(root / "dev/nvidia0") in missing["error"]
    for path in map(Path, plan.device_paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)  # the one kind of device node that anybody may make
    answer = judge(oracle, specs, ids_of(plan))
    assert list(answer["minimumVersions"].values()) == [CDI_VERSION]
    (container,) = answer["injected"]
    assert container["error"] == ""
    assert container["deviceNodes"] == [path.removeprefix(str(root)) for path in plan.device_paths]


@given_drawn(
    allocated(),
    st.sampled_from([None, FILES, HOOKS]),
    st.sampled_from(["", "/srv/fake"]),
    st.sampled_from([None, "/m"]),
)
@settings(max_examples=60)
def test_the_library_takes_every_spec(
    oracle: Path,
    case: tuple[Inventory, ResourceClaim],
    files: DriverFiles | None,
    root: str,
    metadata_root: str | None,
) -> None:
    inventory, of = case
    plan = prepare_plan(
        of, inventory, assume_minors=True, driver_files=files, device_root=root, metadata_root=metadata_root
    )
    with tempfile.TemporaryDirectory() as folder:
        if plan.spec is not None:
            write(plan, Path(folder))
        answer = judge(oracle, Path(folder))
    assert answer["errors"] == {}
    assert (answer["devices"] or []) == sorted(set(ids_of(plan)))


def spec_of(edits: Any = None, **fields: Any) -> dict[str, Any]:
    """A spec of one device; a field that is None is left out."""
    device = {"name": "x", "containerEdits": edits or {"env": ["A=b"]}}
    spec = {"cdiVersion": "0.5.0", "kind": "rootport.dev/claim", "devices": [device], **fields}
    return {name: value for name, value in spec.items() if value is not None}


def test_the_spec_that_is_broken_below_is_a_good_one(oracle: Path, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(spec_of()))
    assert judge(oracle, tmp_path)["errors"] == {}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(spec_of(cdiVersion=None), id="no version"),
        pytest.param(spec_of(cdiVersion="0.3"), id="a version that there is not"),
        pytest.param(spec_of(cdiVersion=5), id="a version that is a number"),
        pytest.param(spec_of(kind=None), id="no kind"),
        pytest.param(spec_of(kind="claim"), id="a kind without a vendor"),
        pytest.param(spec_of(devices=None), id="no devices"),
        pytest.param(spec_of(devices={}), id="devices that are no list"),
        pytest.param(spec_of(devices=[{"containerEdits": {"env": ["A=b"]}}]), id="a device without a name"),
        pytest.param(spec_of(devices=[{"name": "a b", "containerEdits": {"env": ["A=b"]}}]), id="a bad name"),
        pytest.param(spec_of(devices=[{"name": "x", "containerEdits": {"env": ["A=b"]}}] * 2), id="a name twice"),
        pytest.param(spec_of(devices=[{"name": "x"}]), id="a device without edits"),
        pytest.param(spec_of(colour="red"), id="an unknown field"),
        pytest.param(spec_of({"env": ["A"]}), id="a variable without a value"),
        pytest.param(spec_of({"env": "A=b"}), id="variables that are no list"),
        pytest.param(spec_of({"env": [1]}), id="a variable that is a number"),
        pytest.param(spec_of({"deviceNodes": [{}]}), id="a device node without a path"),
        pytest.param(spec_of({"deviceNodes": [{"path": "/dev/x", "type": "z"}]}), id="a node of no type"),
        pytest.param(spec_of({"deviceNodes": [{"path": "/dev/x", "permissions": "y"}]}), id="bad permissions"),
        pytest.param(spec_of({"mounts": [{"hostPath": "/a"}]}), id="a mount without a target"),
        pytest.param(spec_of({"mounts": [{"containerPath": "/a"}]}), id="a mount without a source"),
        pytest.param(spec_of({"mounts": [{"hostPath": "/a", "containerPath": "/b", "options": "ro"}]}), id="options"),
        pytest.param(spec_of({"hooks": [{"path": "/a"}]}), id="a hook without a name"),
        pytest.param(spec_of({"hooks": [{"hookName": "later", "path": "/a"}]}), id="a hook that there is not"),
        pytest.param(spec_of({"hooks": [{"hookName": "createContainer"}]}), id="a hook without a program"),
    ],
)
def test_the_library_refuses_a_broken_spec(oracle: Path, tmp_path: Path, spec: dict[str, Any]) -> None:
    (tmp_path / "broken.json").write_text(json.dumps(spec))
    answer = judge(oracle, tmp_path, ["rootport.dev/claim=x"])
    assert list(answer["errors"]) == ["broken.json"]
    assert "unresolvable" in answer["injected"][0]["error"]


def test_a_runtime_does_not_see_a_write_that_was_cut_short(oracle: Path, tmp_path: Path) -> None:
    (tmp_path / ".rootport.dev-claim_0b5f2a6e.json.abc123.tmp").write_text('{"cdiVersion": "0.5')
    assert judge(oracle, tmp_path)["errors"] == {}
