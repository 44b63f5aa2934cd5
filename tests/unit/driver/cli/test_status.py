"""``rootport status`` on a real API server, and what it prints of the objects there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from driver.api.quantity import Quantity
from driver.api.rootport_v1alpha1 import Condition, Device, DeviceAllocation, DeviceAmounts, DeviceFragment
from driver.cli.node_tree import node_tree
from driver.cli.render import console
from driver.cli.status_report import print_cluster, print_node
from driver.model.managed_nodes import TAINT
from driver.status.cluster import NodeReadiness, is_healthy, name_order, node_overviews, node_readiness, node_totals
from tests.support.observed_cluster import CARD, GIB, devices_of, inventory_object, small_cluster, with_status
from tests.support.paths import REPO

CRDS = REPO / "resourceclasses" / "crd"
ROLE = REPO / "resourceclasses" / "rbac" / "viewer.yaml"
Run = Callable[..., Any]


def dumped(folder: Path) -> Path:
    devices, inventories = small_cluster()
    items = [json.loads(json.dumps(item.to_wire())) for item in devices]
    whole = {"kind": "List", "apiVersion": "v1", "items": items}
    (folder / "devices.json").write_text(json.dumps(whole))
    typed = [item | {"apiVersion": "rootport.dev/v1alpha1", "kind": "NodeInventory"} for item in inventories]
    (folder / "inventories.json").write_text(json.dumps(whole | {"items": typed}))
    (folder / "other.json").write_text(json.dumps({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}}))
    return folder


def test_a_dump_is_shown_as_its_cluster_is(rootport: Run, tmp_path: Path) -> None:
    ran = rootport("status", "--from", dumped(tmp_path))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split()[:2] for line in lines[1:5]] == [
        ["gpu-node-1", "Ready"],
        ["gpu-node-2", "Ready"],
        ["gpu-node-3", "NotReady"],
        ["gpu-node-10", "Silent"],
    ]
    (tmp_path / "again.json").write_bytes((tmp_path / "devices.json").read_bytes())
    assert rootport("status", "--from", tmp_path).out == ran.out  # of an object that is there twice one counts


def test_a_node_of_a_dump_is_shown(rootport: Run, tmp_path: Path) -> None:
    ran = rootport("status", "gpu-node-2", "--from", dumped(tmp_path), "-o", "json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["name"]) == (0, "gpu-node-2")
    assert {item["spec"]["nodeName"] for item in answer["devices"]} == {"gpu-node-2"}
    wrong = rootport("status", "gpu-node-77", "--from", tmp_path)
    assert (wrong.code, "Rootport knows no node gpu-node-77" in wrong.err) == (2, True)


def test_what_a_dump_lacks_is_told(rootport: Run, tmp_path: Path) -> None:
    ran = rootport("status", "--from", REPO / "examples" / "explain")
    assert ran.code == 2
    assert "kubectl get devices.rootport.dev,nodeinventories -o json" in ran.err
    (dumped(tmp_path) / "inventories.json").unlink()
    ran = rootport("status", "--from", tmp_path)
    assert (ran.code, "has no NodeInventory: was it dumped?" in ran.err) == (0, True)
    assert "(NoInventory)" in ran.out
    assert rootport("status", "--from", tmp_path, "-l", "a=b").code == 2


def test_an_inventory_that_no_api_server_would_store_is_counted(rootport: Run, tmp_path: Path) -> None:
    odd = {"apiVersion": "rootport.dev/v1alpha1", "kind": "NodeInventory", "metadata": {"name": "odd"}, "status": 3}
    (dumped(tmp_path) / "odd.json").write_text(json.dumps(odd))
    ran = rootport("status", "--from", tmp_path)
    assert (ran.code, "left out: NodeInventory that no API server would store (1)" in ran.err) == (0, True)


def test_devices_that_cannot_be_read_are_left_out_and_named_with_the_reason(rootport: Run, tmp_path: Path) -> None:
    dump = dumped(tmp_path)
    whole = json.loads((dump / "devices.json").read_text())
    for number, item in enumerate(whole["items"][:5]):
        item["spec"]["nodeName"] = number
    (dump / "devices.json").write_text(json.dumps(whole))
    ran = rootport("status", "--from", dump)
    assert ran.code == 0
    name = whole["items"][0]["metadata"]["name"]
    assert f"Device objects that cannot be read (5): {name} (spec.nodeName: expected a string, not 0), " in ran.err
    assert ran.err.endswith(" and 2 more\n")


def test_a_broken_file_of_a_dump_is_left_out_and_named_and_alone_it_is_no_answer(rootport: Run, tmp_path: Path) -> None:
    whole = rootport("status", "--from", dumped(tmp_path))
    broken = tmp_path / "broken.json"
    broken.write_text('{"kind": "List", "items": [')
    ran = rootport("status", "--from", tmp_path)
    assert (ran.code, ran.out) == (0, whole.out)
    assert ran.err == f"note: left out: {broken}:1: not valid JSON: it ends in the middle: was kubectl interrupted?\n"
    assert rootport("status", "--from", broken).code == 2


def test_a_nodes_tree_says_how_each_device_is_and_who_has_it() -> None:
    devices, inventories = small_cluster()
    devices = [device for device in devices if device.spec.node_name == "gpu-node-2"]
    (node,) = node_overviews(devices, {"gpu-node-2": node_readiness(inventories[1])})
    screen = console()
    with screen.capture() as captured:
        screen.print(node_tree(node, devices))
    lines = [line.lstrip(" │├└─").rstrip() for line in captured.get().splitlines()]
    text = "\n".join(lines)
    first = lines.index("virtual PCIe switch ffff:ff:01.0")
    assert lines[first + 1 : first + 4] == [
        "gpu-0001-00-00-0  Healthy  whole",
        "◀ ml/train-0 (main)  claim train",
        "rdma-0101-00-00-0  Healthy  whole",
    ]
    assert (
        "gpu-0002-00-00-0  Healthy  shared: 50% core, 40/79.6Gi given\n◀ ml/notebook-a (main)  30% core, 24Gi" in text
    )
    assert "24Gi, enforced by MPS  claim notebook-a" in text
    assert (
        "MIG: 9.7/79.6Gi given, at most 39.5Gi more, room for 4g.40gb\n◀ ml/infer-7c9d-x2x (main)  gpu-2-mig-1g" in text
    )
    assert "gpu-0008-00-00-0  Unhealthy (Xid79)  79.6Gi\nXid79: The GPU has fallen off the bus." in text
    assert "Healthy  free, 79.6Gi\nRowRemapPending: Reset the GPU" in text
    assert "◀ ml: 3 more pods  claim train" in text


@pytest.mark.parametrize("width", [80, 100])
def test_the_tables_fit_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    devices, inventories = small_cluster(prefix="a-rather-long-name-of-a-pool-gpu")
    nodes = node_overviews(devices, {item["metadata"]["name"]: node_readiness(item) for item in inventories})
    print_cluster(nodes, only_unhealthy=False, is_selected=False)
    printed = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    lines = printed.partition("\n\n")[0].splitlines()
    assert max(map(len, lines)) <= width
    assert "UNHEALTHY" in lines[0]
    # A name is folded, and no part of it is lost.
    assert "a-rather-long-name-of-a-pool-gpu-node-10" in "".join(line.split(" ")[0] for line in lines)


def test_a_gpu_whose_core_is_given_has_no_room_though_memory_is_left() -> None:
    gpu, *others = devices_of("n1")
    full = with_status(
        gpu,
        mode="shared",
        allocated=DeviceAmounts(core=100, memory=Quantity.of(40 * GIB, binary=True)),
        largest_free=None,
    )
    assert "Healthy  shared: 100% core, 40/79.6Gi given, no room for more" in _tree([full, *others])
    assert "no room" not in _tree([gpu, *others])


def test_a_nic_given_by_its_functions_is_free_or_shared_and_a_holder_is_told_once() -> None:
    devices = devices_of("n1")
    nic = next(device for device in devices if device.spec.type == "rdma")
    held = DeviceAllocation.model_validate(
        {"namespace": "ml", "claim": "ring", "uid": "u1", "request": "vf", "device": "rdma-vfs-0", "shareID": "s1"}
        | {"pods": [{"name": "ring-0", "uid": "u2"}]}
    )
    vfs = DeviceAmounts(vfs=2)
    by_functions = with_status(nic, capacity=vfs, allocatable=vfs, largest_free=DeviceFragment(vfs=2))
    by_functions = by_functions.model_copy(update={"spec": nic.spec.model_copy(update={"left_out": "by its VFs"})})
    (idle,) = node_overviews([by_functions], {"n1": NodeReadiness(state="Ready")})
    assert (idle.devices[0].offered, node_totals(idle).nics.free) == (True, 1)
    text = _tree([by_functions])
    assert "not on offer" not in text
    assert "given in parts only: by its VFs" in text

    status = by_functions.status
    assert status is not None
    given = {"mode": "shared", "allocated": DeviceAmounts(vfs=1), "allocations": (held,)}
    taken = by_functions.model_copy(update={"status": status.model_copy(update=given)})
    spec = nic.spec.model_copy(update={"device_name": "rdma-vf-0", "type": "rdma-vf", "parent": nic.spec.device_name})
    function = with_status(nic, mode="whole", allocations=(held,)).model_copy(update={"spec": spec})
    text = _tree([taken, function])
    assert "shared: 1 of 2 VFs given" in text
    assert text.count("ml/ring-0") == 1


def test_that_a_node_is_silent_is_told_once() -> None:
    silent = Condition.model_validate(
        {"type": "Healthy", "status": "Unknown", "reason": "NodeSilent", "message": "Nothing is heard."}
        | {"lastTransitionTime": "2026-11-20T08:15:00Z"}
    )
    text = _tree([with_status(device, state="Unknown", conditions=(silent,)) for device in devices_of("n1")])
    assert text.count("Nothing is heard. (since 2026-11-20T08:15:00Z)") == 1
    assert text.count("Unknown (NodeSilent)") == 16


def _tree(devices: Sequence[Device]) -> str:
    (node,) = node_overviews(devices, {"n1": NodeReadiness(state="Ready")})
    screen = console()
    with screen.capture() as captured:
        screen.print(node_tree(node, devices))
    return captured.get()


def test_a_node_that_can_prepare_no_claim_has_nothing_free_and_one_that_is_only_not_ready_has() -> None:
    for inventory, free in (inventory_object("n1", ready=False), 0), (unready("NoRivalPlugin", "False", "Rival"), 8):
        (node,) = node_overviews(devices_of("n1"), {"n1": node_readiness(inventory)})
        figures = node_totals(node)
        assert (figures.gpus.free, figures.nics.free) == (free, free)
        assert (figures.memory.free > 0, figures.largest > 0) == (free > 0, free > 0)
        assert node.to_wire().get("cannotPrepare", False) is (free == 0)


def unready(concern: str, status: str, reason: str) -> dict[str, Any]:
    """The NodeInventory of a plugin with one condition that is not True."""
    inventory = inventory_object("n1")
    kept = [item for item in inventory["status"]["conditions"] if item["type"] not in {"Ready", concern}]
    told = [{"type": kind, "status": status, "reason": reason} for kind in ("Ready", concern)]
    return inventory | {"status": {"conditions": [*kept, *told]}}


def test_a_node_without_an_inventory_or_with_a_silent_one_has_nothing_free() -> None:
    (lost,) = node_overviews(devices_of("n1"), {})
    assert (lost.state, lost.reason) == ("Silent", "NoInventory")
    figures = node_totals(lost)
    assert (figures.gpus.free, figures.memory.free, figures.largest, figures.nics.free) == (0, 0, 0, 0)
    assert figures.memory.total == 8 * CARD


@pytest.mark.parametrize(
    ("inventory", "word"),
    [
        (inventory_object("n"), NodeReadiness(state="Ready")),
        (inventory_object("n", ready=False), NodeReadiness(state="NotReady", reason="Refused", cannot_prepare=True)),
        (unready("NoRivalPlugin", "False", "RivalFound"), NodeReadiness(state="NotReady", reason="RivalFound")),
        (unready("Registered", "Unknown", "Starting"), NodeReadiness(state="NotReady", reason="Starting")),
        (inventory_object("n", silent=True), NodeReadiness(state="Silent", reason="NodeSilent")),
        ({"metadata": {"name": "n"}}, NodeReadiness(state="NotReady", reason="PluginStarting")),
    ],
    ids=["ready", "can prepare nothing", "not ready", "not registered yet", "silent", "without status"],
)
def test_a_nodes_own_word_is_in_its_inventory(inventory: dict[str, Any], word: NodeReadiness) -> None:
    assert node_readiness(inventory) == word


def managed_inventory(*, silent: bool = False) -> dict[str, Any]:
    inventory = inventory_object("n1", silent=silent)
    for item in inventory["status"]["conditions"]:
        if item["type"] == "Published":
            item["message"] = f"24 devices in 1 slice; placed by Rootport: all have the taint {TAINT}:NoSchedule"
    return inventory


def test_a_managed_node_is_no_fault_and_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    ready = node_readiness(managed_inventory())
    assert ready == NodeReadiness(state="Ready", managed=True)
    assert node_readiness(managed_inventory(silent=True)).managed
    (node,) = node_overviews(devices_of("n1"), {"n1": ready})
    assert is_healthy(node)
    assert node.to_wire()["managed"] is True
    assert node_totals(node).gpus.free == 8
    (other,) = node_overviews(devices_of("n2"), {"n2": NodeReadiness(state="Ready")})
    assert "managed" not in other.to_wire()
    print_cluster([node, other], only_unhealthy=False, is_selected=False)
    assert "Managed, so that Rootport's placement allocates their devices: n1\n" in capsys.readouterr().out
    print_cluster([other], only_unhealthy=False, is_selected=False)
    assert "Managed" not in capsys.readouterr().out
    print_node(node, devices_of("n1"))
    assert "managed: Rootport's placement allocates its devices" in " ".join(capsys.readouterr().out.split())


def test_names_are_sorted_as_people_do() -> None:
    assert sorted(["n10", "n2", "a", "n2.b", "1"], key=name_order) == ["1", "a", "n2", "n2.b", "n10"]


@pytest.mark.parametrize(("command", "options"), [("status", ["--kubeconfig", "--from"]), ("top", ["--kubeconfig"])])
def test_without_a_kubeconfig_only_options_that_there_are_are_named(
    command: str, options: list[str], rootport: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    ran = rootport(command)
    assert (ran.code, ran.out) == (2, "")
    assert "/nowhere/config is not there" in ran.err
    assert re.findall(r"--[a-z]+", ran.err) == options
