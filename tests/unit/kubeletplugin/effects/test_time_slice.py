"""Time slices, by the program that stands for nvidia-smi."""

from __future__ import annotations

import pytest

from driver.errors import NodeError
from driver.plan.effects import SetTimeSlice, TimeSliceInterval
from kubeletplugin.effects.time_slice import TimeSlices
from tests.unit.kubeletplugin.effects.host import Host

UUID = "GPU-11111111-2222-3333-4444-555555555555"


def effect(interval: TimeSliceInterval) -> SetTimeSlice:
    return SetTimeSlice(gpu="gpu-0000-1b-00-0", uuid=UUID, interval=interval)


@pytest.mark.parametrize(("interval", "number"), [("Default", 0), ("Short", 1), ("Medium", 2), ("Long", 3)])
def test_a_time_slice_is_set_and_undone(host: Host, interval: TimeSliceInterval, number: int) -> None:
    slices = TimeSlices(host.roots)
    for _ in range(2):
        slices.do(effect(interval))
        assert host.programs.time_slices() == {UUID: number}
    for _ in range(2):
        slices.undo(effect(interval))
        assert host.programs.time_slices() == {UUID: 0}


def test_a_gpu_that_is_gone_has_no_time_slice_to_undo(host: Host) -> None:
    (host.programs.smi_state / "gpus").write_text("GPU-another\n")
    TimeSlices(host.roots).undo(effect("Long"))


def test_without_the_driver_there_is_no_time_slice_to_undo(host: Host) -> None:
    (host.programs.folder / "nvidia-smi").unlink()
    slices = TimeSlices(host.roots)
    slices.undo(effect("Long"))
    with pytest.raises(NodeError, match="has no nvidia-smi"):
        slices.do(effect("Long"))


def test_a_refusal_names_the_gpu_and_the_command(host: Host) -> None:
    (host.programs.smi_state / "gpus").write_text("GPU-another\n")
    with pytest.raises(NodeError) as raised:
        TimeSlices(host.roots).do(effect("Long"))
    for part in ("gpu-0000-1b-00-0", UUID, "No devices were found", "exit status 6", "--set-timeslice 3"):
        assert part in str(raised.value)
