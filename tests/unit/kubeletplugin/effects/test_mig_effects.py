"""The effect that makes a claim's MIG device, on a described host in whose container NVML is not installed."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.errors import NodeError
from driver.model.devices import MigInstance
from driver.plan.effects import CreateMigDevice
from kubeletplugin.node.roots import Roots
from tests.support.cluster.hardware import FakeHost, make_host
from tests.support.stub_nvml import StubNvml, StubState, read_state, run

pytestmark = [pytest.mark.needs_cc, pytest.mark.skipif(os.geteuid() != 0, reason="mknod takes root")]

EFFECT = CreateMigDevice(
    gpu="gpu-0000-13-00-0",
    uuid="GPU-00000000-0000-4000-8000-000000000000",
    profile_id=9,
    profile="3g.40gb",
    start=4,
    size=4,
)


@pytest.fixture
def host(tmp_path: Path, nvml_stub: StubNvml) -> FakeHost:
    return make_host(tmp_path / "host", nvml_stub, pairs=2)


def act(host: FakeHost, what: str, effect: CreateMigDevice = EFFECT) -> Any:
    environment = {**os.environ, **host.environment, "PYTHONPATH": os.pathsep.join(sys.path)}
    return run(
        environment, f"tests.unit.kubeletplugin.effects.mig_effects:{what}", Roots.of(host.root, str(host.root)), effect
    )


def caps(host: FakeHost) -> dict[str, tuple[int, int]]:
    folder = host.root / "dev/nvidia-caps"
    found = {path.name: path.lstat() for path in folder.iterdir()} if folder.exists() else {}
    assert all(stat.S_ISCHR(at.st_mode) for at in found.values())
    return {name: (os.major(at.st_rdev), os.minor(at.st_rdev)) for name, at in found.items()}


def test_a_mig_device_is_made_with_its_device_nodes_and_destroyed(host: FakeHost) -> None:
    made = act(host, "do")
    assert isinstance(made, MigInstance)
    assert read_state(host.nvml_state, 0).mig == (1, 1)
    assert caps(host) == {f"nvidia-cap{n}": (237, n) for n in (made.gpu_instance_minor, made.compute_instance_minor)}
    act(host, "undo")
    assert read_state(host.nvml_state, 0) == StubState()


def test_doing_and_undoing_it_again_changes_nothing(host: FakeHost) -> None:
    made = act(host, "do")
    assert act(host, "do") == made
    act(host, "undo")
    act(host, "undo")
    assert read_state(host.nvml_state, 0) == StubState()


def test_a_gpu_that_is_gone_is_an_error_and_nothing_to_undo(host: FakeHost) -> None:
    effect = replace(EFFECT, uuid="GPU-ffffffff")
    with pytest.raises(NodeError, match=r"NVML has no GPU GPU-ffffffff \(gpu-0000-13-00-0\)"):
        act(host, "do", effect)
    act(host, "undo", effect)


def test_a_gpu_that_was_moved_to_another_slot_is_not_touched(host: FakeHost) -> None:
    act(host, "do")
    state = read_state(host.nvml_state, 0)
    effect = replace(EFFECT, gpu="gpu-0000-ff-00-0")
    with pytest.raises(NodeError, match="is gpu-0000-13-00-0 by now, and gpu-0000-ff-00-0 was allocated"):
        act(host, "do", effect)
    act(host, "undo", effect)
    assert read_state(host.nvml_state, 0) == state


def test_device_nodes_that_cannot_be_made_are_an_error_that_can_be_repeated(host: FakeHost) -> None:
    devices = host.root / "proc/devices"
    known = devices.read_text()
    devices.write_text("")
    with pytest.raises(NodeError, match="names no nvidia-caps"):
        act(host, "do")
    devices.write_text(known)
    act(host, "do")
    assert len(caps(host)) == 2
