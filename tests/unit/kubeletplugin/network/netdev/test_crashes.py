"""Killed between any two steps: whoever comes next finishes, or undoes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kubeletplugin.network.netdev.lender import InterfaceLender
from tests.unit.kubeletplugin.network.netdev.world import POD, Stopped, StoppingLinks, World

DEVICE = "mlx5_2"


def _ended_right(world: World, pod: str, before: dict[str, object], lender: InterfaceLender, next_call: str) -> None:
    """Make the next call, of a plugin that was started again, and look at what it leaves."""
    if next_call == "attach":
        lender.attach(POD, pod)
        there = world.facts(pod, "net1")
        assert (there["mtu"], there["up"], len(there["addresses"])) == (9000, True, 3)  # type: ignore[arg-type]
        assert world.rdma_devices(pod) == {DEVICE}
        lender.check(POD, pod)
    else:
        if next_call == "detach":
            lender.detach(POD, pod)
        else:
            lender.undo(world.effect(rdma_device=DEVICE))
        assert world.facts(world.host, "nic0") == before
        assert world.rdma_devices(world.host) == {DEVICE}
    lender.undo(world.effect(rdma_device=DEVICE))
    assert world.facts(world.host, "nic0") == before
    assert not (world.state / "pods" / POD).exists()


@pytest.mark.slow
@pytest.mark.parametrize("next_call", ["attach", "detach", "undo"])
@pytest.mark.parametrize("first_call", ["attach", "detach"])
def test_a_stop_between_any_two_steps(world: World, first_call: str, next_call: str) -> None:
    world.nic("nic0")
    world.rdma(DEVICE)
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    stops = 0
    for at, behind in [(1, False), *((at, True) for at in range(1, 20))]:
        lender = world.lender()
        lender.do(world.effect(rdma_device=DEVICE))
        if first_call == "detach":
            lender.attach(POD, pod)
        links = StoppingLinks(at, behind=behind)
        stopping = world.lender(links)
        try:
            (stopping.attach if first_call == "attach" else stopping.detach)(POD, pod)
        except Stopped:
            stops += 1
        _ended_right(world, pod, before, world.lender(), next_call)
        if not links.stopped:
            break
    assert stops >= 6


def test_a_kill_right_behind_the_move(world: World) -> None:
    world.nic("nic0")
    before = world.facts(world.host, "nic0")
    pod = world.netns("pod")
    world.lender().do(world.effect())
    world.wrap_ip(then='case "$*" in *netns*) kill -9 $PPID; esac')
    code = (
        "import sys; from pathlib import Path; from driver.adapters.host import HostRoot;"
        "from kubeletplugin.node.roots import Roots; from kubeletplugin.network.netdev.links import Links;"
        "from kubeletplugin.network.netdev.lender import InterfaceLender; r = HostRoot(sys.argv[1]);"
        "InterfaceLender(Roots(hardware=r, host=r, device_root='', driver_root=''), state_dir=Path(sys.argv[2]),"
        " host_netns=Path(sys.argv[3]), links=Links()).attach(sys.argv[4], sys.argv[5])"
    )
    arguments = [str(world.folder / "hw"), str(world.state), world.host, POD, pod]
    killed = subprocess.run([sys.executable, "-c", code, *arguments], env=dict(os.environ), check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert world.names(pod) == {"net1"}
    world.wrap_ip()
    world.lender().detach(POD, pod)
    assert world.facts(world.host, "nic0") == before
