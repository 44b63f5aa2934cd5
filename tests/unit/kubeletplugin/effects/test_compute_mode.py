"""Compute modes for MPS daemons: the real NVML binding on the stub library."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.errors import NodeError
from kubeletplugin.effects.compute_mode import ComputeModes
from kubeletplugin.node.roots import Roots
from tests.support.stub_nvml import H100_80GB, Machine, StubNvml, read_state

pytestmark = pytest.mark.needs_cc

NAME, GPU = "gpu-0000-1b-00-0", H100_80GB.at(0, "00000000:1b:00.0")
EXCLUSIVE_PROCESS, DEFAULT = 3, 0


def set_mode(folder: str, gpu: str, uuid: str, *, exclusive: bool) -> None:
    root = HostRoot(folder)
    modes = ComputeModes(Roots(hardware=root, host=root, device_root="", driver_root=""))
    modes(gpu, uuid, exclusive_process=exclusive)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # the child process finds this module
    return Machine(gpus=(GPU,), state=str(tmp_path / "state"))


def call(nvml_stub: StubNvml, machine: Machine, folder: Path, gpu: str, uuid: str, *, exclusive: bool) -> None:
    nvml_stub.call(
        machine,
        "tests.unit.kubeletplugin.effects.test_compute_mode:set_mode",
        str(folder),
        gpu,
        uuid,
        exclusive=exclusive,
    )


def test_the_mode_is_set_and_set_back(nvml_stub: StubNvml, machine: Machine, tmp_path: Path) -> None:
    for exclusive, mode in ((True, EXCLUSIVE_PROCESS), (True, EXCLUSIVE_PROCESS), (False, DEFAULT), (False, DEFAULT)):
        call(nvml_stub, machine, tmp_path, NAME, GPU.uuid, exclusive=exclusive)
        assert read_state(tmp_path / "state", 0).compute_mode == mode


@pytest.mark.parametrize(
    ("gpu", "uuid"), [(NAME, "GPU-ffffffff"), ("gpu-0000-2c-00-0", GPU.uuid)], ids=["taken-out", "in-another-slot"]
)
def test_a_gpu_that_is_gone_has_nothing_to_set_back(
    nvml_stub: StubNvml, machine: Machine, tmp_path: Path, gpu: str, uuid: str
) -> None:
    with pytest.raises(NodeError, match=rf"{gpu} \({uuid}\) is no longer there"):
        call(nvml_stub, machine, tmp_path, gpu, uuid, exclusive=True)
    call(nvml_stub, machine, tmp_path, gpu, uuid, exclusive=False)
    assert read_state(tmp_path / "state", 0).compute_mode == DEFAULT


def test_without_the_driver_there_is_nothing_to_set_back(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"libnvidia-ml\.so\.1 not found"):
        set_mode(str(tmp_path), NAME, GPU.uuid, exclusive=True)
    set_mode(str(tmp_path), NAME, GPU.uuid, exclusive=False)


def test_a_driver_whose_nvml_cannot_be_loaded_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.95.05\n")
    with pytest.raises(NodeError, match=r"libnvidia-ml\.so\.1 not found"):
        set_mode(str(tmp_path), NAME, GPU.uuid, exclusive=False)
