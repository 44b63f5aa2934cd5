"""Interfaces move into a pod and come back as they were."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from driver.errors import NodeError
from kubeletplugin.network.netdev.records import InPod
from tests.unit.kubeletplugin.network.netdev.world import CLAIM, FUNCTION, POD, World

OTHER_POD = "33333333-3333-3333-3333-333333333333"


def test_attach_moves_the_interface_with_its_addresses_under_the_pods_name_and_mtu(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.refuse_others(world.effect())
    lender.do(world.effect())
    assert world.facts(world.host, "nic0") == before

    lender.attach(POD, pod)

    assert world.names(pod) == {"net1"}
    assert "nic0" not in world.names(world.host)
    there = world.facts(pod, "net1")
    assert (there["mtu"], there["up"]) == (9000, True)
    locals_of = [(address["local"], address["prefixlen"]) for address in there["addresses"]]  # type: ignore[attr-defined]
    assert locals_of == [("10.10.0.1", 24), ("10.10.9.1", 32), ("fd00:10::1", 64)]
    lender.check(POD, pod)
    assert lender.network_data(CLAIM) == {
        FUNCTION: InPod(
            name="net1",
            mac=str(before["address"]),
            addresses=("10.10.0.1/24", "10.10.9.1/32", "fd00:10::1/64"),
        )
    }


@pytest.mark.parametrize("configured", [True, False], ids=["up with addresses", "bare and down"])
def test_detach_brings_it_back_as_it_was(world: World, configured: bool) -> None:
    world.nic("nic0", configured=configured)
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect())
    lender.attach(POD, pod)

    lender.detach(POD, pod)

    assert world.facts(world.host, "nic0") == before
    assert world.names(pod) == set()
    assert lender.network_data(CLAIM) == {}
    lender.detach(POD, pod)
    lender.undo(world.effect())
    assert not (world.state / "pods" / POD).exists()


def test_what_is_asked_twice_is_done_once(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect())
    lender.do(world.effect())
    lender.attach(POD, pod)
    once = world.facts(pod, "net1")
    lender.attach(POD, pod)
    lender.do(world.effect())
    assert world.facts(pod, "net1") == once
    lender.undo(world.effect())
    lender.undo(world.effect())
    assert world.facts(world.host, "nic0") == before


def test_a_pod_to_which_nothing_was_promised_is_left_alone(world: World) -> None:
    pod = world.netns("pod")
    world.lender().attach(POD, pod)
    world.lender().check(POD, pod)
    world.lender().detach(POD, None)


def test_the_mtu_stays_where_the_claim_asks_for_none(world: World) -> None:
    world.nic("nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect(mtu=None))
    lender.attach(POD, pod)
    assert world.facts(pod, "net1")["mtu"] == 4200


def test_a_pod_may_call_it_by_one_of_its_other_names(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect(name_in_pod="enpnic0"))
    lender.attach(POD, pod)
    assert world.names(pod) == {"enpnic0"}
    lender.detach(POD, pod)
    assert world.facts(world.host, "nic0") == before


def test_what_a_pod_did_to_it_is_undone(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect())
    lender.attach(POD, pod)
    world.ip(pod, "link", "set", "net1", "down")
    world.ip(pod, "link", "set", "net1", "name", "mine", "mtu", "1300")
    # A name of the host's, which would keep it from coming back.
    world.ip(pod, "link", "property", "add", "dev", "mine", "altname", "nic0-c")
    world.ip(pod, "link", "property", "del", "dev", "mine", "altname", "enpnic0")
    with pytest.raises(NodeError, match="its interface is called mine, not net1"):
        lender.check(POD, pod)
    lender.detach(POD, pod)
    assert world.facts(world.host, "nic0") == before


@pytest.mark.slow
def test_fifty_rounds(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect())
    for _ in range(50):
        lender.attach(POD, pod)
        lender.detach(POD, pod)
    lender.undo(world.effect())
    assert world.facts(world.host, "nic0") == before


def test_two_pods_with_two_interfaces_each(world: World) -> None:
    addresses = [f"0000:1c:00.{number}" for number in range(2, 6)]
    lender = world.lender()
    effects = []
    for number, address in enumerate(addresses):
        world.nic(f"nic{number}", address)
        effects.append(
            world.effect(
                function=f"rdma-vf-{number}",
                address=address,
                interface=f"nic{number}",
                name_in_pod=f"net{number % 2}",
                pod_uid=(POD, OTHER_POD)[number // 2],
            )
        )
        lender.do(effects[-1])
    before = [world.facts(world.host, f"nic{number}") for number in range(4)]
    pods = [world.netns("pod1"), world.netns("pod2")]
    lender.attach(POD, pods[0])
    lender.attach(OTHER_POD, pods[1])
    assert [world.names(pod) for pod in pods] == [{"net0", "net1"}] * 2
    lender.detach(POD, pods[0])
    assert (world.names(pods[0]), world.names(pods[1])) == (set(), {"net0", "net1"})
    for effect in effects:
        lender.undo(effect)
    assert [world.facts(world.host, f"nic{number}") for number in range(4)] == before
    assert list((world.state / "pods").iterdir()) == []


def test_an_rdma_device_moves_along_in_exclusive_mode_and_back(world: World) -> None:
    world.nic("nic0")
    world.rdma("mlx5_0", "mlx5_2")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect(rdma_device="mlx5_2"))
    lender.attach(POD, pod)
    lender.attach(POD, pod)
    assert (world.rdma_devices(pod), world.rdma_devices(world.host)) == ({"mlx5_2"}, {"mlx5_0"})
    lender.check(POD, pod)
    lender.detach(POD, pod)
    assert world.rdma_devices(world.host) == {"mlx5_0", "mlx5_2"}


def test_an_rdma_device_moves_alone_where_no_interface_was_asked_for(world: World) -> None:
    world.rdma("mlx5_2")
    pod = world.netns("pod")
    effect = world.effect(interface="", name_in_pod="", mtu=None, rdma_device="mlx5_2")
    lender = world.lender()
    lender.refuse_others(effect)
    lender.do(effect)
    lender.attach(POD, pod)
    assert world.rdma_devices(pod) == {"mlx5_2"}
    lender.undo(effect)
    assert world.rdma_devices(world.host) == {"mlx5_2"}


def test_an_interface_of_a_second_promise_is_refused_until_the_first_is_broken(world: World) -> None:
    world.nic("nic0")
    lender = world.lender()
    lender.do(world.effect())
    second = world.effect(pod_uid=OTHER_POD, claim_uid="other")
    with pytest.raises(NodeError, match=f"it is promised to pod uid {POD} by claim uid {CLAIM}"):
        lender.do(second)
    lender.undo(world.effect(claim_uid="another"))
    with pytest.raises(NodeError, match="promised"):
        lender.do(second)
    lender.undo(world.effect())
    lender.do(second)


def test_a_missing_program_is_named_with_its_package(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.nic("nic0")
    only_nsenter = world.folder / "few"
    only_nsenter.mkdir()
    (only_nsenter / "nsenter").symlink_to("/usr/bin/nsenter")
    monkeypatch.setenv("PATH", str(only_nsenter))
    with pytest.raises(NodeError, match=r"no program ip on the plugin's PATH .*iproute2"):
        world.lender().do(world.effect())


def test_no_file_is_left_open(world: World) -> None:
    world.nic("nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect())
    before = _open_files()
    lender.attach(POD, pod)
    lender.detach(POD, str(Path(pod).with_name("nothing")))
    lender.detach(POD, pod)
    assert _open_files() == before


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_namespace_is_found_below_the_hosts_root_as_a_container_sees_it(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    # The host's /var/run is a link to its /run, not to the container's.
    root = world.roots.host.path
    (root / "run").mkdir()
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    (root / "run/netns").symlink_to("/elsewhere")
    (root / "elsewhere").mkdir()
    seen = root / "elsewhere/cni-1"
    seen.touch()
    subprocess.run(["mount", "--bind", pod, seen], check=True)
    try:
        lender = world.lender()
        lender.do(world.effect())
        lender.attach(POD, "/var/run/netns/cni-1")
        assert world.names(pod) == {"net1"}
        lender.detach(POD, "/var/run/netns/cni-1")
        assert world.facts(world.host, "nic0") == before
    finally:
        subprocess.run(["umount", seen], check=True)
