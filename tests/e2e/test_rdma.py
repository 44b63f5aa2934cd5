"""RDMA NICs on the real node: what a pod holds of them, and where their network interfaces are at each moment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from driver.adapters.kubernetes.resources import EVENTS, PODS
from driver.pairs import PairsRequest, Scope, claim_spec
from tests.support.cluster.interfaces import add_interfaces, interfaces, remove_interfaces
from tests.support.cluster.node import NODE_NAME
from tests.support.cluster.pods import manifest, nic_claim, pod
from tests.support.cluster.processes import wait_until
from tests.support.cluster.rootport import RunningRootport

ROUNDS: Final = 7
PODS_A_ROUND: Final = 8
IN_POD: Final = "rdma0"
"""What the claims of these tests call the interface in the pod."""
MTU: Final = 1400

LOOK: Final = "ls -l /dev/infiniband; env | grep -E '^(NCCL|UCX|NVSHMEM)'; exec sleep 100000"
# The first container ends with 1, so that it is started anew in the same sandbox; the second one ends the pod.
TWICE: Final = f"ip addr show {IN_POD} && echo THERE; [ -e /twice/again ] && exit 0; touch /twice/again; exit 1"


@pytest.fixture
def veths(rootport: RunningRootport) -> Iterator[tuple[str, ...]]:
    """The interfaces of all VFs; at the end all of them are where they were, under their own names and MTUs."""
    names = tuple(name for nic in rootport.host.vf_nics for name in nic.interfaces)
    machine = rootport.cluster.machine
    add_interfaces(machine, names)

    def mtus() -> dict[str, int | None]:
        # Only theirs: pods of earlier tests may still have interfaces that are about to go.
        there = interfaces(machine)
        return {name: there.get(name) for name in names}

    before = mtus()
    yield names
    rootport.delete_all()
    rootport.wait_until_clean()
    try:
        wait_until("the interfaces are back", lambda: mtus() == before, timeout_s=20)
    finally:
        remove_interfaces(machine, names)


def start(rootport: RunningRootport, *objects: dict[str, Any]) -> None:
    rootport.cluster.kubectl("apply", "--filename=-", input=manifest(*objects))


def log_of(rootport: RunningRootport, name: str, text: str) -> str:
    """A pod's log, once it has this."""
    cluster = rootport.cluster
    wait_until(f"pod {name} says {text}", lambda: text in cluster.kubectl("logs", name, check=False), timeout_s=30)
    return cluster.kubectl("logs", name)


def device_nodes(log: str) -> dict[str, tuple[int, int]]:
    """Of ``ls -l``: name to major and minor."""
    found = re.findall(r"^c\S+ +\d+ +\S+ +\S+ +(\d+), +(\d+) .* (\S+)$", log, re.MULTILINE)
    return {name: (int(major), int(minor)) for major, minor, name in found}


def events_with(rootport: RunningRootport, kind: str, name: str, text: str) -> str:
    """The events of an object, once one of them has this text."""

    def messages() -> str:
        found = rootport.cluster.list(EVENTS, field_selector=f"involvedObject.name={name},involvedObject.kind={kind}")
        return "\n".join(f"{item['reason']}: {item['message']}" for item in found)

    try:
        wait_until(f"an event of {kind} {name} says {text}", lambda: text in messages(), timeout_s=60)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; they say: {messages()}") from None
    return messages()


def explained(rootport: RunningRootport, *argv: str) -> tuple[int, str]:
    """What ``rootport explain`` prints, and its exit code."""
    program = Path(sys.executable).with_name("rootport")
    kubeconfig = f"--kubeconfig={rootport.cluster.control_plane.kubeconfig}"
    done = subprocess.run(
        [program, "explain", *argv, kubeconfig], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def statuses(rootport: RunningRootport, claim: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rootport.cluster.get("resourceclaim", claim).get("status", {}).get("devices", [])
    return found


def moving(**more: Any) -> dict[str, Any]:
    """Parameters that have the interface moved into the pod."""
    return {"interface": {"name": IN_POD, "mtu": MTU, **more}}


def twice(name: str) -> dict[str, Any]:
    """A pod whose container is restarted once and then ends."""
    made = pod(name, claim=name, command=TWICE)
    made["spec"] |= {"restartPolicy": "OnFailure", "volumes": [{"name": "twice", "emptyDir": {}}]}
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "twice", "mountPath": "/twice"}]
    return made


def test_a_pod_has_exactly_the_character_devices_of_its_vf(rootport: RunningRootport) -> None:
    nic = rootport.host.vf_nics[0]
    start(rootport, nic_claim("vf", parent=nic.address), pod("vf", claim="vf", command=LOOK))

    log = log_of(rootport, "vf", "NVSHMEM")

    number = nic.verbs[0]
    assert device_nodes(log) == {
        f"uverbs{number}": (231, 192 + number),
        f"umad{number}": (231, number),
        f"issm{number}": (231, 64 + number),
        "rdma_cm": (10, 58),
    }
    assert f"NCCL_IB_HCA==mlx5_{number}\n" in log
    assert f"UCX_NET_DEVICES=mlx5_{number}:1\n" in log


def test_each_vf_of_a_nic_is_given_once_and_then_the_pod_waits(rootport: RunningRootport) -> None:
    nic = rootport.host.vf_nics[1]
    names = [f"vf-{number}" for number in range(len(nic.vfs) + 1)]
    for name in names:
        start(rootport, nic_claim(name, parent=nic.address), pod(name, claim=name, command=LOOK))
    cluster = rootport.cluster

    def phases() -> dict[str, str]:
        return {item["metadata"]["name"]: item["status"]["phase"] for item in cluster.list(PODS)}

    wait_until(
        "all VFs are given", lambda: sorted(phases().values()) == ["Pending"] + ["Running"] * len(nic.vfs), timeout_s=60
    )
    running = [name for name, phase in phases().items() if phase == "Running"]
    held = [name for pod_name in running for name in device_nodes(log_of(rootport, pod_name, "NVSHMEM"))]
    assert sorted(name for name in held if name.startswith("uverbs")) == sorted(f"uverbs{n}" for n in nic.verbs)
    (waiting,) = set(names) - set(running)
    events_with(rootport, "Pod", waiting, "cannot allocate all claims")


def test_shares_of_a_nic_s_bandwidth_fill_it_and_no_more(rootport: RunningRootport) -> None:
    nic = rootport.host.nics[2]
    for name, share in (("most", "300G"), ("rest", "100G"), ("more", "1G")):
        claim = nic_claim(name, class_="rdma", address=nic, bandwidth=share)
        start(rootport, claim, pod(name, claim=name, command=LOOK))

    events_with(rootport, "Pod", "more", "cannot allocate all claims")
    for name in ("most", "rest"):
        assert "uverbs2" in device_nodes(log_of(rootport, name, "NVSHMEM"))


@pytest.fixture
def slow_to_tell(rootport: RunningRootport) -> Iterator[str]:
    """A NIC whose driver does not tell its speed; at the end it does."""
    nic, tree = rootport.host.nics[5], rootport.host.tree
    assert rootport.plugin is not None
    tree.port_rate(nic, None)
    try:
        rootport.plugin.hang_up()
        wait_until("the NIC is shared by percent", lambda: "bandwidthRatio" in capacities(rootport, nic), timeout_s=30)
        yield nic
    finally:
        rootport.delete_all()
        rootport.wait_until_clean()
        tree.port_rate(nic, "400 Gb/sec (4X NDR)")
        rootport.plugin.hang_up()
    wait_until("the NIC is shared by bandwidth", lambda: "bandwidth" in capacities(rootport, nic), timeout_s=30)


def capacities(rootport: RunningRootport, nic: str) -> set[str]:
    """The names of what a published NIC, or pool of its VFs, has."""
    name = nic.replace(":", "-").replace(".", "-")
    devices = [device for part in rootport.slices() for device in part["spec"].get("devices", [])]
    found = next(item for item in devices if item["name"] in (f"rdma-{name}", f"rdma-vfs-{name}"))
    return set(found.get("capacity", {}))


def test_a_nic_of_unknown_speed_is_shared_by_percent_and_the_third_half_is_explained(
    rootport: RunningRootport, slow_to_tell: str
) -> None:
    for name in ("one", "two", "three"):
        claim = nic_claim(name, class_="rdma", address=slow_to_tell, bandwidthRatio="50")
        start(rootport, claim, pod(name, claim=name, command=LOOK))
        if name != "three":
            assert "uverbs5" in device_nodes(log_of(rootport, name, "NVSHMEM"))

    events_with(rootport, "Pod", "three", "cannot allocate all claims")
    _, text = explained(rootport, "claim", "default/three")
    assert "bandwidthRatio" in text, text
    assert rootport.cluster.get("resourceclaim", "three").get("status", {}).get("allocation") is None
    (device,) = statuses(rootport, "one")
    assert (device["data"]["nic"], device["data"]["bandwidthRatio"]) == (device["device"], 50)
    shown = rootport.cluster.get("devices.rootport.dev")["items"]
    of_nic = next(item for item in shown if item["metadata"]["name"].endswith(device["device"]))
    assert of_nic["status"]["allocated"] == {"bandwidthRatio": 100}


def test_a_percent_does_not_fit_a_nic_in_bits_per_second_and_explain_says_so(rootport: RunningRootport) -> None:
    claim = nic_claim("percent", class_="rdma", address=rootport.host.nics[2], bandwidthRatio="50")
    start(rootport, claim, pod("percent", claim="percent", command=LOOK))

    events_with(rootport, "Pod", "percent", "cannot allocate all claims")
    _, text = explained(rootport, "claim", "default/percent")
    assert "bandwidthRatio" in text, text
    assert "bandwidth" in text.replace("bandwidthRatio", ""), text


def test_what_vfs_reserve_is_never_more_than_their_nic_has_and_others_share(rootport: RunningRootport) -> None:
    nic = rootport.host.vf_nics[0]
    for name, capacity in (("most", {"bandwidth": "75G"}), ("more", {"bandwidth": "26G"}), ("any", {})):
        start(rootport, nic_claim(name, parent=nic.address, **capacity), pod(name, claim=name, command=LOOK))
        if name != "more":
            log_of(rootport, name, "NVSHMEM")

    events_with(rootport, "Pod", "more", "cannot allocate all claims")
    _, text = explained(rootport, "claim", "default/more")
    assert "bandwidth" in text, text
    (device,) = statuses(rootport, "most")
    assert device["data"]["bandwidth"] == "75G"
    rootport.cluster.kubectl("delete", "pod", "most")
    rootport.cluster.kubectl("delete", "resourceclaim", "most")
    rootport.cluster.wait_for_pod("more", "Running")


def test_an_interface_is_moved_into_its_pod_and_comes_back(rootport: RunningRootport, veths: tuple[str, ...]) -> None:
    nic, cluster = rootport.host.vf_nics[0], rootport.cluster
    claim = nic_claim("moved", parent=nic.address, parameters=moving())
    start(rootport, claim, pod("moved", claim="moved", command=f"ip link show {IN_POD}; echo SEEN; {LOOK}"))

    log = log_of(rootport, "moved", "SEEN")

    assert re.search(rf"{IN_POD}.*mtu {MTU}", log), log
    assert nic.interfaces[0] not in interfaces(cluster.machine)

    def network() -> list[str]:
        return [device.get("networkData", {}).get("interfaceName") for device in statuses(rootport, "moved")]

    wait_until("the claim's status tells the interface", lambda: network() == [IN_POD], timeout_s=30)
    cluster.kubectl("delete", "pod", "moved")
    wait_until("it is back", lambda: interfaces(cluster.machine).get(nic.interfaces[0]) == 1500, timeout_s=20)


def test_fifty_pods_have_their_interfaces_over_a_restart_also_when_the_plugin_is_killed(
    rootport: RunningRootport, veths: tuple[str, ...]
) -> None:
    cluster = rootport.cluster
    for number in range(ROUNDS):
        names = [f"round-{number}-{which}" for which in range(PODS_A_ROUND)]
        for name in names:
            start(rootport, nic_claim(name, parameters=moving()), twice(name))
        if number % 3 == 1:
            # Whatever it was at: promising an interface, moving one in, or bringing one back.
            wait_until_one_logs(rootport, names, IN_POD)
            assert rootport.plugin is not None
            rootport.plugin.kill()
            rootport.start_plugin()
        for name in names:
            cluster.wait_for_pod(name, "Succeeded", timeout_s=90)
            (container,) = cluster.get("pod", name)["status"]["containerStatuses"]
            assert container["restartCount"] == 1
            assert "THERE" in cluster.kubectl("logs", name), "the second container's"
        rootport.delete_all()
        rootport.wait_until_clean()
        assert set(veths) <= set(interfaces(cluster.machine))


def wait_until_one_logs(rootport: RunningRootport, names: list[str], text: str) -> None:
    def logged() -> bool:
        return any(text in rootport.cluster.kubectl("logs", name, check=False) for name in names)

    wait_until(f"one of {names} says {text}", logged, timeout_s=30)


def test_two_interfaces_that_want_one_name_are_told_and_both_stay_on_the_host(
    rootport: RunningRootport, veths: tuple[str, ...]
) -> None:
    first, second = rootport.host.vf_nics
    names = ("one", "two")
    claims = [
        nic_claim(name, parent=nic.address, parameters=moving())
        for name, nic in zip(names, (first, second), strict=True)
    ]
    clash = pod("clash", claim="one", command=LOOK)
    clash["spec"]["resourceClaims"].append({"name": "more", "resourceClaimName": "two"})
    clash["spec"]["containers"][0]["resources"]["claims"].append({"name": "more"})
    start(rootport, *claims, clash)

    said = events_with(rootport, "Pod", "clash", "FailedCreatePodSandBox")

    assert IN_POD in said
    assert "default/one" in said or "default/two" in said or "claim uid" in said
    wait_until("both are on the host", lambda: set(veths) <= set(interfaces(rootport.cluster.machine)), timeout_s=20)


def test_an_interface_that_is_not_there_is_told(rootport: RunningRootport) -> None:
    nic = rootport.host.vf_nics[0]
    claim = nic_claim("absent", parent=nic.address, parameters=moving())
    start(rootport, claim, pod("absent", claim="absent", command=LOOK))
    text = events_with(rootport, "Pod", "absent", nic.interfaces[0])
    assert "absent" in text


def test_a_nic_whose_link_goes_down_is_not_given_until_it_is_up(rootport: RunningRootport) -> None:
    nic, tree = rootport.host.nics[4], rootport.host.tree
    assert rootport.plugin is not None

    def tainted() -> bool:
        devices = [device for part in rootport.slices() for device in part["spec"].get("devices", [])]
        found = next(item for item in devices if item["name"] == f"rdma-{nic.replace(':', '-').replace('.', '-')}")
        return any(taint["key"] == "rootport.dev/link-down" for taint in found.get("taints", []))

    tree.port_state(nic, "down")
    try:
        rootport.plugin.hang_up()
        wait_until("the NIC is tainted", tainted, timeout_s=30)
        start(
            rootport,
            nic_claim("down", class_="rdma", address=nic),
            pod("down", claim="down", command=LOOK),
        )
        events_with(rootport, "Pod", "down", "cannot allocate all claims")
    finally:
        tree.port_state(nic, "active")
        rootport.plugin.hang_up()
    wait_until("the taint is gone", lambda: not tainted(), timeout_s=30)
    rootport.cluster.wait_for_pod("down", "Running")


@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({"interface": {"name": "much-too-long-a-name"}}, "interface.name"),
        ({"interface": {"name": "eth 0"}}, "interface.name"),
        ({"interface": {"mtu": 1}}, "interface.mtu"),
        ({"vf": {"vlan": 5}}, "vf is for administrators"),
        ({"ifc": {}}, "ifc"),
    ],
    ids=["long-name", "space", "mtu", "vf", "unknown-field"],
)
def test_wrong_parameters_are_refused_before_they_are_stored(
    rootport: RunningRootport, parameters: dict[str, Any], path: str
) -> None:
    body = manifest(nic_claim("wrong", parameters=parameters))
    said = rootport.cluster.kubectl("apply", "--filename=-", input=body, check=False)
    assert path in said
    assert "denied" in said or "invalid" in said.lower()


def test_a_pod_whose_gpu_and_nic_are_far_apart_is_told_what_would_have_helped(rootport: RunningRootport) -> None:
    gpu, nic = rootport.host.gpus[0], rootport.host.nics[6]
    claim = nic_claim("apart", class_="rdma", address=nic)
    claim["spec"]["devices"]["requests"].insert(
        0,
        {
            "name": "gpu",
            "exactly": {
                "deviceClassName": "gpu.rootport.dev",
                "selectors": [
                    {"cel": {"expression": f'device.attributes["resource.kubernetes.io"].pciBusID == "{gpu}"'}}
                ],
            },
        },
    )
    look = "cat /var/run/kubernetes.io/dra-device-attributes/resourceclaims/apart/*/*; echo END; exec sleep 100000"
    start(rootport, claim, pod("apart", claim="apart", command=look))

    log = log_of(rootport, "apart", "END")

    assert "=SYS" in log
    text = events_with(rootport, "Pod", "apart", "DevicesNotAligned")
    assert "rootport.dev/pcieSwitch" in text

    def distances() -> list[Any]:
        return [device.get("data", {}).get("distances") for device in statuses(rootport, "apart")]

    wait_until("the claim's status tells the distance", lambda: "SYS" in json.dumps(distances()), timeout_s=30)


def test_an_aligned_pod_is_told_nothing(rootport: RunningRootport) -> None:
    claim = nic_claim("near", class_="rdma", address=rootport.host.nics[1])
    claim["spec"]["devices"]["requests"].append({"name": "gpu", "exactly": {"deviceClassName": "gpu.rootport.dev"}})
    claim["spec"]["devices"]["constraints"] = [
        {"requests": ["nic", "gpu"], "matchAttribute": "rootport.dev/pcieSwitch"}
    ]
    start(rootport, claim, pod("near", claim="near", command=LOOK))
    rootport.cluster.wait_for_pod("near", "Running")

    def distances() -> str:
        return json.dumps([device.get("data", {}).get("distances") for device in statuses(rootport, "near")])

    wait_until("the claim's status tells the distance", lambda: "PIX" in distances(), timeout_s=30)
    found = rootport.cluster.list(EVENTS, field_selector="involvedObject.name=near")
    assert "DevicesNotAligned" not in {item["reason"] for item in found}


def ladder_claim(name: str, **addresses: str) -> dict[str, Any]:
    """A pair by the ladder, of devices that are at these PCI addresses, by kind."""
    spec = claim_spec(PairsRequest(gpus=1, nics=1, scope=Scope.LADDER)).to_wire()
    for request in spec["devices"]["requests"]:
        address = addresses.get(request["name"].partition("-")[0])
        for rung in request["firstAvailable"] if address else ():
            expression = f'device.attributes["resource.kubernetes.io"].pciBusID == "{address}"'
            rung.setdefault("selectors", []).append({"cel": {"expression": expression}})
    metadata = {"name": name}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def test_a_pair_that_there_is_only_anywhere_runs_and_is_reported_as_not_aligned(rootport: RunningRootport) -> None:
    host = rootport.host
    far = ladder_claim("anywhere", gpu=host.gpus[0], nic=host.nics[6])
    start(rootport, far, pod("anywhere", claim="anywhere", command=LOOK))
    start(rootport, ladder_claim("nearest"), pod("nearest", claim="nearest", command=LOOK))
    rootport.cluster.wait_for_pod("anywhere", "Running")
    rootport.cluster.wait_for_pod("nearest", "Running")

    def requests(claim: str) -> list[str]:
        allocation = rootport.cluster.get("resourceclaim", claim)["status"]["allocation"]
        return [result["request"] for result in allocation["devices"]["results"]]

    def aligned(claim: str) -> list[tuple[str, str]]:
        conditions = (item for device in statuses(rootport, claim) for item in device.get("conditions") or ())
        return [(item["status"], item["message"]) for item in conditions if item["type"] == "Aligned"]

    assert requests("anywhere") == ["gpu-0/node", "nic-0/node"]
    assert requests("nearest") == ["gpu-0/switch", "nic-0/switch"]
    wait_until("the claim's status tells it", lambda: bool(aligned("anywhere")), timeout_s=30)
    ((status, message),) = aligned("anywhere")
    assert status == "False"
    assert " is at SYS (" in message
    assert "the last rung of its ladder" in events_with(rootport, "Pod", "anywhere", "DevicesNotAligned")
    wait_until("the other's status is written", lambda: bool(statuses(rootport, "nearest")), timeout_s=30)
    assert aligned("nearest") == []
    found = rootport.cluster.list(EVENTS, field_selector="involvedObject.name=nearest")
    assert "DevicesNotAligned" not in {item["reason"] for item in found}


def test_the_node_says_that_its_network_takes_interfaces(rootport: RunningRootport) -> None:
    inventory = rootport.cluster.get("nodeinventory", NODE_NAME)
    assert inventory["spec"]["rdmaNetnsMode"] == "shared"
    assert rootport.condition("NetworkPluginReady") == "True"
