"""What is in the way is told, and nothing is left half-moved."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import pytest

from driver.errors import NodeError
from kubeletplugin.network.netdev.lender import InterfaceLender
from tests.unit.kubeletplugin.network.netdev.world import ADDRESS, CLAIM, FUNCTION, POD, World

WHO = f"claim uid {CLAIM}: {FUNCTION} .{ADDRESS}. of pod uid {POD}"


def test_a_veth_ends_with_its_pods_namespace_and_undo_says_so(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.nic("nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect())
    lender.attach(POD, pod)
    world.end(pod)
    with caplog.at_level(logging.WARNING):
        lender.undo(world.effect())
    assert "its interface nic0 (veth) ended with the pod's network namespace" in caplog.text
    assert not (world.state / "pods" / POD).exists()


@pytest.mark.parametrize("call", ["detach", "undo", "attach"])
def test_one_that_the_kernel_gave_back_under_another_name_is_found_and_restored(world: World, call: str) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect())
    lender.attach(POD, pod)
    _give_back(world, pod, "dev123")
    if call == "attach":
        new = world.netns("new")
        lender.attach(POD, new)
        assert world.facts(new, "net1")["mtu"] == 9000
        lender.detach(POD, new)
    elif call == "detach":
        lender.detach(POD, None)
    else:
        lender.undo(world.effect())
    assert world.facts(world.host, "nic0") == before


@pytest.mark.parametrize("call", ["undo", "another claim"])
def test_one_that_comes_back_late_is_nobodys_until_it_is_restored(world: World, call: str) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    lender = world.lender()
    limbo = _kept_in_an_ended_namespace(world, lender)
    for _ in range(2):
        with pytest.raises(NodeError, match=f"{WHO}: its interface nic0 has not come back to the host yet"):
            lender.undo(world.effect())
    assert not (world.state / "pods" / POD).exists()

    _give_back(world, limbo, "dev7")
    if call == "undo":
        lender.undo(world.effect())
    else:
        lender.refuse_others(world.effect(pod_uid="other"))
    assert world.facts(world.host, "nic0") == before
    assert list((world.state / "lost").iterdir()) == []


def test_one_that_comes_back_late_has_its_addresses_in_the_pods_next_sandbox(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    lender = world.lender()
    limbo = _kept_in_an_ended_namespace(world, lender)
    new = world.netns("new")
    with pytest.raises(NodeError, match="its interface nic0 is not in the host's network namespace"):
        lender.attach(POD, new)

    _give_back(world, limbo, "dev7")
    lender.attach(POD, new)
    assert _addresses(world.facts(new, "net1")) == _addresses(before)
    lender.undo(world.effect())
    assert world.facts(world.host, "nic0") == before


def test_one_whose_function_is_gone_is_not_waited_for(world: World) -> None:
    world.nic("nic0")
    lender = world.lender()
    _kept_in_an_ended_namespace(world, lender)
    shutil.rmtree(world.folder / f"hw/sys/bus/pci/devices/{ADDRESS}")
    lender.undo(world.effect())
    assert list((world.state / "lost").iterdir()) == []


def test_the_end_of_a_namespace_whose_number_is_used_again_takes_nothing_from_the_new_one(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    old, new = world.netns("old"), world.netns("new")
    lender = world.lender()
    lender.do(world.effect())
    lender.attach(POD, old)
    _give_back(world, old, "dev123")
    status = Path(new).stat()
    _rewrite(world, device=status.st_dev, inode=status.st_ino)
    lender.attach(POD, new)
    lender.detach(POD, old)
    assert world.names(new) == {"net1"}
    lender.detach(POD, new)
    assert world.facts(world.host, "nic0") == before


def _kept_in_an_ended_namespace(world: World, lender: InterfaceLender) -> str:
    """A physical interface whose pod has ended, in a namespace that a process keeps: here, one of another name."""
    pod, limbo = world.netns("pod"), world.netns("limbo")
    lender.do(world.effect())
    lender.attach(POD, pod)
    _rewrite(world, link={"kind": None})  # which physical ones do not have
    world.ip(pod, "link", "set", "net1", "netns", Path(limbo).name)
    world.end(pod)
    return limbo


def _rewrite(world: World, *, link: dict[str, object] | None = None, **loan: object) -> None:
    path = world.state / "pods" / POD / f"{FUNCTION}.json"
    written = json.loads(path.read_text())
    written["loan"] |= loan | {"link": written["loan"]["link"] | (link or {})}
    path.write_text(json.dumps(written))


def _addresses(facts: dict[str, object]) -> set[str]:
    addresses = facts["addresses"]
    assert isinstance(addresses, list)
    return {f"{address['local']}/{address['prefixlen']}" for address in addresses}


def _give_back(world: World, netns: str, name: str) -> None:
    """What default_device_exit_net does to a physical interface."""
    world.ip(netns, "link", "set", "net1", "name", name, "netns", Path(world.host).name)
    world.sysfs(ADDRESS, name)
    world.end(netns)


def test_a_new_sandbox_gets_what_the_old_one_still_has(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    old, new = world.netns("old"), world.netns("new")
    lender = world.lender()
    lender.do(world.effect())
    lender.attach(POD, old)
    lender.attach(POD, new)
    assert (world.names(old), world.names(new)) == (set(), {"net1"})
    # The runtime ends the old one late, perhaps again.
    lender.detach(POD, old)
    lender.detach(POD, None)
    world.end(old)
    lender.detach(POD, old)
    assert world.names(new) == {"net1"}
    lender.detach(POD, new)
    assert world.facts(world.host, "nic0") == before


def test_a_name_that_is_taken_in_the_pod(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    world.ip(pod, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0-c")
    world.ip(pod, "link", "property", "add", "dev", "eth0", "altname", "net1")
    lender = world.lender()
    lender.do(world.effect())
    with pytest.raises(NodeError, match=rf"{WHO}: the name net1 is taken in the pod \(eth0's other name\)"):
        lender.attach(POD, pod)
    assert world.facts(world.host, "nic0") == before
    assert world.names(pod) == {"eth0", "eth0-c"}


def test_a_name_that_is_taken_on_the_host_meanwhile(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect())
    lender.attach(POD, pod)
    world.ip(world.host, "link", "set", "nic0-c", "name", "nic0")
    for call in (lambda: lender.detach(POD, pod), lambda: lender.undo(world.effect())):
        with pytest.raises(NodeError, match=f"{WHO}: the name nic0 is taken in the host's network namespace"):
            call()
    assert world.facts(pod, "net1")["mtu"] == 9000
    world.ip(world.host, "link", "set", "nic0", "name", "nic0-c")
    lender.undo(world.effect())
    assert world.facts(world.host, "nic0") == before


def test_an_mtu_beyond_what_the_driver_says_it_takes(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect(mtu=70000))
    with pytest.raises(NodeError, match=f"{WHO}: nic0 cannot have the MTU 70000: its driver takes 68 to 65535"):
        lender.attach(POD, pod)
    assert world.facts(world.host, "nic0") == before


@pytest.mark.parametrize("refused", ["*mtu*9000*", "*address*replace*10.10.9.1*net1*", "*set*dev*net1*up*"])
def test_what_the_driver_refuses_is_told_and_the_interface_is_back(world: World, refused: str) -> None:
    world.nic("nic0")
    world.nic("nic1", "0000:1c:00.3")
    before = [world.facts(world.host, name) for name in ("nic0", "nic1")]
    pod = world.netns("pod")
    lender = world.lender()
    # The first of the pod's two is in the pod by then.
    lender.do(world.effect(function="a", address="0000:1c:00.3", interface="nic1", name_in_pod="net0", mtu=None))
    lender.do(world.effect())
    world.wrap_ip(f'case "$*" in {refused}) echo "Error: no such thing." >&2; exit 2; esac')
    with pytest.raises(NodeError, match=f"{WHO}: .*(9000|10.10.9.1/32|net1 up): Error: no such thing."):
        lender.attach(POD, pod)
    assert [world.facts(world.host, name) for name in ("nic0", "nic1")] == before
    assert world.names(pod) == set()


def test_a_program_that_hangs_is_ended(world: World) -> None:
    from kubeletplugin.network.netdev.links import Links  # noqa: PLC0415 - with its own time limit

    world.nic("nic0")
    world.wrap_ip("exec sleep 60")
    with pytest.raises(NodeError, match=f"{WHO}: ip did not end within 0.2 s"):
        world.lender(Links(timeout_s=0.2)).do(world.effect())


def test_a_program_that_prints_without_end_is_stopped(world: World) -> None:
    """A pod with CAP_NET_ADMIN may make any number of interfaces, of which ``ip`` tells."""
    world.nic("nic0")
    world.wrap_ip("exec head -c 100000000 /dev/zero")
    with pytest.raises(NodeError, match=f"{WHO}: .*head"):
        world.lender().do(world.effect())


@pytest.mark.parametrize("where", ["pods", "lost"])
def test_a_record_of_a_later_version_or_a_damaged_one_keeps_no_other_pod_waiting(world: World, where: str) -> None:
    lender = world.lender()
    folder = world.state / ("lost" if where == "lost" else "pods/99999999-9999-9999-9999-999999999999")
    folder.mkdir(parents=True)
    newer, damaged = folder / "rdma-vf-0000-1c-00-7.json", folder / "rdma-vf-0000-1c-00-6.json"
    newer.write_text('{"version": 2, "else": {}}')
    damaged.write_text("[" * 5000)
    world.nic("nic0")
    lender.do(world.effect())
    lender.undo(world.effect())
    assert newer.read_text() == '{"version": 2, "else": {}}'
    if where == "pods":
        damaged.unlink()
        with pytest.raises(NodeError, match="has version 2, and this Rootport knows version 1") as caught:
            lender.attach(folder.name, "/run/netns/none")
        assert "install the Rootport that wrote it" in (caught.value.hint or "")


def test_an_interface_that_is_part_of_a_bridge_or_bond(world: World) -> None:
    world.nic("nic0")
    world.ip(world.host, "link", "add", "vrf0", "type", "bridge")
    world.ip(world.host, "link", "set", "nic0", "master", "vrf0")
    with pytest.raises(NodeError, match="its interface nic0 is part of vrf0"):
        world.lender().refuse_others(world.effect())


def test_an_interface_that_another_one_stands_on(world: World) -> None:
    world.nic("nic0")
    world.ip(world.host, "link", "add", "link", "nic0", "name", "over0", "type", "macvlan")
    with pytest.raises(NodeError, match="over0 stands on its interface nic0"):
        world.lender().refuse_others(world.effect())


def test_the_interface_of_the_nodes_default_route(world: World) -> None:
    world.nic("nic0")
    world.ip(world.host, "route", "add", "default", "via", "10.10.0.2")
    with pytest.raises(NodeError, match="the node's default route goes through its interface nic0"):
        world.lender().refuse_others(world.effect())


def test_it_may_be_lent_where_the_administrator_says_so(world: World) -> None:
    world.nic("nic0")
    world.ip(world.host, "route", "add", "default", "via", "10.10.0.2")
    effect = world.effect()
    with pytest.raises(NodeError) as caught:
        world.lender(lends_default_route=["another"]).refuse_others(effect)
    assert "defaultRoute: allow in the DevicePolicies" in (caught.value.hint or "")
    world.lender(lends_default_route=[effect.function]).refuse_others(effect)


def test_one_of_the_interfaces_of_the_nodes_default_route(world: World) -> None:
    world.nic("nic0")
    world.nic("nic1", "0000:1c:00.3")
    hops = ["nexthop", "via", "10.11.0.2", "nexthop", "via", "10.10.0.2"]
    world.ip(world.host, "route", "add", "default", *hops)
    with pytest.raises(NodeError, match="the node's default route goes through its interface nic0"):
        world.lender().refuse_others(world.effect())


def test_one_that_is_not_on_the_host(world: World) -> None:
    with pytest.raises(NodeError, match=f"{WHO}: its interface nic0 is not in the host's network namespace"):
        world.lender().refuse_others(world.effect())
    world.rdma()
    pod = world.netns("pod")
    lender = world.lender()
    lender.do(world.effect(interface="", name_in_pod="", rdma_device="mlx5_2"))
    with pytest.raises(NodeError, match="its RDMA device mlx5_2 is not in the host's"):
        lender.attach(POD, pod)


def test_a_pod_in_the_hosts_network(world: World) -> None:
    world.nic("nic0")
    lender = world.lender()
    lender.do(world.effect())
    with pytest.raises(NodeError, match="it uses the host's network"):
        lender.attach(POD, world.host)


@pytest.mark.parametrize("path", ["relative", "/nothing", "/etc/passwd", "/proc/self/ns/mnt", "--net"])
def test_what_is_no_network_namespace(world: World, path: str) -> None:
    world.nic("nic0")
    lender = world.lender()
    lender.do(world.effect())
    with pytest.raises(NodeError, match=r"network namespace"):
        lender.attach(POD, path)


@pytest.mark.parametrize("name", ["-all", "a/b", "a b", "net%d", "..", "sixteen-bytes-xx", "a:b", "é" * 8, "a\n"])
def test_a_name_that_the_kernel_or_a_program_would_take_for_something_else(world: World, name: str) -> None:
    world.nic("nic0")
    with pytest.raises(NodeError, match="is no name of a network interface"):
        world.lender().do(world.effect(name_in_pod=name))
    assert not (world.state / "pods").exists()


@pytest.mark.parametrize("uid", ["../x", "", "a/b", ".", "x" * 65])
def test_a_pod_uid_that_is_none_leads_nowhere(world: World, uid: str) -> None:
    for call in (lambda: world.lender().attach(uid, world.host), lambda: world.lender().detach(uid, None)):
        with pytest.raises(NodeError, match="is no pod uid"):
            call()
