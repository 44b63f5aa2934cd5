"""All effects behind one door: each goes to whom it belongs, and none can keep the others waiting."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from driver.errors import NodeError
from driver.model.devices import MigInstance
from driver.plan.effects import (
    ConfigureVf,
    CreateMigDevice,
    Effect,
    LendInterface,
    RunMpsDaemon,
    SetTimeSlice,
    VfSettings,
)
from kubeletplugin.effects import EffectHangsError, HostEffects
from tests.support.preparer.gpus import NodeOfFiles

MIG = CreateMigDevice(gpu="gpu-a", uuid="GPU-a", profile_id=19, profile="1g.10gb", start=3, size=1)
SLICE = SetTimeSlice(gpu="gpu-b", uuid="GPU-b", interval="Long")
MPS = RunMpsDaemon(gpu="gpu-c", uuid="GPU-c", folder="/run/rootport/mps/gpu-c")

VF = ConfigureVf(
    function="rdma-vf-a", address="0000:1c:00.2", pf_address="0000:1c:00.0", index=0, settings=VfSettings(vlan=7)
)
LENT = LendInterface(
    function="rdma-vf-b",
    address="0000:1c:00.3",
    interface="ens1v1",
    pod_uid="pod",
    claim_uid="claim",
    name_in_pod="net1",
    mtu=None,
    rdma_device=None,
)


class Hangs:
    """Does not come back while the gate is shut."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.ended = threading.Event()

    def refuse_others(self, effect: Effect) -> None:
        """Nobody else is there."""

    def do(self, effect: Effect) -> MigInstance | None:
        self.gate.wait(30)
        self.ended.set()
        return None

    def undo(self, effect: Effect) -> None:
        self.do(effect)


class Raises:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def refuse_others(self, effect: Effect) -> None:
        raise self.error

    def do(self, effect: Effect) -> MigInstance | None:
        raise self.error

    def undo(self, effect: Effect) -> None:
        raise self.error


def test_each_effect_is_done_and_undone_by_whom_it_belongs_to(tmp_path: Path) -> None:
    nodes = [NodeOfFiles(tmp_path / name) for name in ("mig", "slices", "mps", "vfs", "interfaces")]
    effects = HostEffects(mig=nodes[0], time_slices=nodes[1], mps=nodes[2], vfs=nodes[3], interfaces=nodes[4])
    made = [effects.do(effect) for effect in (MIG, SLICE, MPS, VF, LENT)]
    assert [node.there() for node in nodes] == [[MIG], [SLICE], [MPS], [VF], [LENT]]
    assert [item.uuid if item else None for item in made] == ["MIG-gpu-a-3-1-1", None, None, None, None]
    for effect in (MIG, SLICE, MPS, VF, LENT):
        effects.undo(effect)
    assert [node.there() for node in nodes] == [[], [], [], [], []]


@pytest.mark.parametrize("method", ["do", "undo"])
def test_an_effect_that_hangs_is_told_in_time_and_keeps_only_its_own_gpu_busy(tmp_path: Path, method: str) -> None:
    hangs, node = Hangs(), NodeOfFiles(tmp_path / "node")
    effects = HostEffects(mig=hangs, time_slices=node, mps=node, vfs=node, interfaces=node, deadline_s=0.05)
    with pytest.raises(EffectHangsError, match=r"CreateMigDevice has not ended after 0\.05 s"):
        getattr(effects, method)(MIG)
    same_gpu = replace(SLICE, gpu=MIG.gpu)
    for call in (effects.do, effects.undo):
        with pytest.raises(NodeError, match="CreateMigDevice has not ended yet on that GPU") as caught:
            call(same_gpu)
        assert not isinstance(caught.value, EffectHangsError)
    assert node.log() == []
    effects.do(SLICE)
    hangs.gate.set()
    hangs.ended.wait(10)
    while _busy(effects, same_gpu):
        pass
    assert set(node.there()) == {SLICE, same_gpu}


def test_a_gpu_is_not_busy_for_good_where_no_thread_could_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NodeOfFiles(tmp_path / "node")
    effects = HostEffects(mig=node, time_slices=node, mps=node, vfs=node, interfaces=node)

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", refused)
        with pytest.raises(NodeError, match=r"doing SetTimeSlice: can't start new thread .*limit of processes"):
            effects.do(SLICE)
    effects.do(SLICE)
    assert node.there() == [SLICE]


def _busy(effects: HostEffects, effect: Effect) -> bool:
    try:
        effects.do(effect)
    except NodeError:
        return True
    return False


@pytest.mark.parametrize("method", ["do", "undo"])
def test_what_an_effector_says_is_told_as_it_is_and_its_bug_as_an_error_of_the_node(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = NodeError("no", hint="wait")
    effects = HostEffects(
        mig=Raises(told),
        time_slices=Raises(KeyError("x")),
        mps=Raises(told),
        vfs=Raises(told),
        interfaces=Raises(told),
    )
    with pytest.raises(NodeError) as caught:
        getattr(effects, method)(MIG)
    assert caught.value is told
    for _ in range(2):
        with pytest.raises(NodeError, match="SetTimeSlice on gpu-b: the plugin failed unexpectedly: KeyError: 'x'"):
            getattr(effects, method)(SLICE)
    assert "an error that was not expected" in caplog.text
