"""Making and destroying MIG devices: the real pynvml on a stub libnvidia-ml.so.1 whose MIG state outlives a process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.nvml.discovery import NvmlReport
from driver.errors import NodeError
from driver.model.devices import MigInstance, MigPlacement, MigSupport
from driver.model.pci import PciAddress
from tests.support.stub_nvml import (
    H100_80GB,
    L4,
    Machine,
    StubComputeInstance,
    StubGpuInstance,
    StubNvml,
    StubState,
    read_state,
    write_state,
)

pytestmark = pytest.mark.needs_cc

ADDRESS = PciAddress("0000:1b:00.0")
GPU = H100_80GB.at(0, f"0000{ADDRESS}")
NEIGHBOUR = H100_80GB.at(1, "00000000:43:00.0")
ONE_SLICE, TWO_SLICES, THREE_SLICES, ALL_SLICES = 19, 14, 9, 0
OFF, ON = StubState(), StubState(mig=(1, 1))
MADE = StubGpuInstance(1, TWO_SLICES, 2, 2, compute=(StubComputeInstance(0, 1, 0, 2),))
HALF_MADE = replace(MADE, compute=())
IN_USE, RESET_REQUIRED = 19, 16


@dataclass(frozen=True, slots=True)
class Bench:
    """Two GPUs whose MIG state is in a folder."""

    stub: StubNvml
    folder: Path
    machine: Machine

    def state(self, gpu: int = 0) -> StubState:
        return read_state(self.folder / "state", gpu)

    def begin(self, state: StubState, gpu: int = 0) -> None:
        write_state(self.folder / "state", gpu, state)

    def with_gpu(self, **changes: object) -> Bench:
        gpus = (replace(self.machine.gpus[0], **changes), *self.machine.gpus[1:])  # type: ignore[arg-type]
        return replace(self, machine=replace(self.machine, gpus=gpus))

    def failing(self, **errors: str) -> Bench:
        return self.with_gpu(fail=errors)

    def dying(self, function: str) -> Bench:
        return replace(self, machine=replace(self.machine, die=function))

    def create(self, profile: int = TWO_SLICES, start: int = 2, size: int = 2) -> MigInstance:
        where = {"profile_id": profile, "start": start, "size": size, "capabilities": HostRoot(self.folder)}
        made = self.stub.call(self.machine, "driver.adapters.nvml.mig:create_mig_device", ADDRESS, **where)
        assert isinstance(made, MigInstance)
        return made

    def destroy(self, profile: int = TWO_SLICES, start: int = 2, size: int = 2) -> None:
        where = {"profile_id": profile, "start": start, "size": size}
        self.stub.call(self.machine, "driver.adapters.nvml.mig:destroy_mig_device", ADDRESS, **where)

    def refuse_others(self) -> None:
        where = {"profile_id": TWO_SLICES, "start": 2, "size": 2}
        self.stub.call(self.machine, "driver.adapters.nvml.mig:refuse_others", ADDRESS, **where)

    def read(self) -> NvmlReport:
        report = self.stub.call(self.machine, "driver.adapters.nvml.discovery:read_gpus", HostRoot(self.folder))
        assert isinstance(report, NvmlReport)
        return report

    def capabilities(self) -> list[str]:
        folder = self.folder / "proc/driver/nvidia/capabilities"
        return sorted(str(path.relative_to(folder).parent) for path in folder.rglob("access"))


@pytest.fixture
def bench(nvml_stub: StubNvml, tmp_path: Path) -> Bench:
    capabilities = tmp_path / "proc/driver/nvidia/capabilities"
    machine = Machine(gpus=(GPU, NEIGHBOUR), state=str(tmp_path / "state"), capabilities=str(capabilities))
    return Bench(nvml_stub, tmp_path, machine)


def test_a_mig_device_is_made_on_a_gpu_whose_mig_mode_was_off(bench: Bench) -> None:
    made = bench.create()
    assert made == MigInstance(
        profile_id=TWO_SLICES,
        placement=MigPlacement(start=2, size=2),
        gpu_instance=1,
        compute_instance=0,
        uuid=made.uuid,
        gpu_instance_minor=12,
        compute_instance_minor=13,
    )
    assert made.uuid.startswith("MIG-")
    assert bench.state() == StubState(mig=(1, 1), instances=(MADE,))
    assert bench.capabilities() == ["gpu0/mig/gi1", "gpu0/mig/gi1/ci0"]


def test_destroying_the_last_one_leaves_the_gpu_as_it_was(bench: Bench) -> None:
    bench.create()
    bench.destroy()
    assert (bench.state(), bench.capabilities()) == (OFF, [])


def test_mig_mode_stays_on_while_another_device_is_there(bench: Bench) -> None:
    bench.create()
    bench.create(ONE_SLICE, start=6, size=1)
    bench.destroy()
    assert bench.state().mig == (1, 1)
    assert [instance.profile for instance in bench.state().instances] == [ONE_SLICE]


@pytest.mark.parametrize("state", [OFF, ON, StubState(mig=(0, 1)), StubState(mig=(1, 0))])
def test_the_mode_before_does_not_matter(bench: Bench, state: StubState) -> None:
    bench.begin(state)
    bench.create()
    assert bench.state() == StubState(mig=(1, 1), instances=(MADE,))


@pytest.mark.parametrize(
    ("profile", "start", "size", "compute"),
    [
        pytest.param(ONE_SLICE, 6, 1, (0, 1), id="1g"),
        pytest.param(THREE_SLICES, 4, 4, (2, 3), id="3g"),
        pytest.param(ALL_SLICES, 0, 8, (4, 7), id="7g"),
        pytest.param(15, 6, 2, (0, 1), id="1g-of-two-memory-slices"),
    ],
)
def test_the_compute_instance_has_all_of_the_gpu_instance(
    bench: Bench, profile: int, start: int, size: int, compute: tuple[int, int]
) -> None:
    bench.create(profile, start, size)
    ((made,),) = (instance.compute for instance in bench.state().instances)
    assert (made.profile, made.size) == compute


@pytest.mark.parametrize(
    "state", [OFF, ON, replace(ON, instances=(replace(MADE, start=4),))], ids=["off", "on", "beside"]
)
def test_a_place_is_nobody_else_s(bench: Bench, state: StubState) -> None:
    bench.begin(state)
    bench.refuse_others()
    assert bench.state() == state


@pytest.mark.parametrize("instance", [MADE, HALF_MADE], ids=["made", "half-made"])
def test_an_instance_that_somebody_else_has_made_is_told_and_stays(bench: Bench, instance: StubGpuInstance) -> None:
    bench.begin(replace(ON, instances=(instance,)))
    with pytest.raises(NodeError, match=rf"{ADDRESS}: no MIG device of profile 14 .* slice 2: somebody else has made"):
        bench.refuse_others()
    assert bench.state().instances == (instance,)


def test_the_one_that_is_there_is_used(bench: Bench) -> None:
    first = bench.create()
    state = bench.state()
    assert bench.create() == first
    assert bench.state() == state


def test_a_gpu_instance_without_a_compute_instance_is_completed(bench: Bench) -> None:
    bench.begin(replace(ON, instances=(HALF_MADE,)))
    bench.create()
    assert bench.state().instances == (MADE,)


def test_destroying_what_is_not_there_changes_nothing(bench: Bench) -> None:
    other = StubGpuInstance(1, ONE_SLICE, 2, 1)
    state = replace(ON, instances=(other,))
    bench.begin(state)
    bench.destroy()
    assert bench.state() == state


@pytest.mark.parametrize("state", [OFF, ON, replace(ON, instances=(HALF_MADE,)), StubState(mig=(0, 1))])
def test_destroying_what_is_half_there_leaves_nothing(bench: Bench, state: StubState) -> None:
    bench.begin(state)
    bench.destroy()
    assert bench.state() == OFF


def test_the_other_gpu_is_not_touched(bench: Bench) -> None:
    before = replace(ON, compute_mode=3, instances=(MADE,))
    bench.begin(before, gpu=1)
    bench.create()
    bench.destroy()
    assert bench.state(1) == before


# What changes the GPU, in the order of creating.
STEPS = (
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
)
AFTERWARDS = (
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMinorNumber",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlComputeInstanceGetInfo_v2",
)


@pytest.mark.parametrize("function", [*STEPS, *AFTERWARDS])
def test_a_call_that_fails_undoes_what_was_done(bench: Bench, function: str) -> None:
    with pytest.raises(NodeError, match="Unknown Error") as caught:
        bench.failing(**{function: "NVML_ERROR_UNKNOWN 1 1"}).create()
    assert str(caught.value).startswith(
        f"GPU {ADDRESS}: no MIG device of profile 14 can be made at memory slice 2: nvml"
    )
    assert "could not be undone" not in str(caught.value)
    assert (bench.state(), bench.capabilities()) == (OFF, [])


def test_an_error_undoes_no_more_than_the_call_has_done(bench: Bench) -> None:
    before = replace(ON, instances=(HALF_MADE,))
    bench.begin(before)
    with pytest.raises(NodeError):
        bench.failing(nvmlGpuInstanceCreateComputeInstance="NVML_ERROR_UNKNOWN").create()
    assert bench.state() == before


def test_what_cannot_be_undone_is_told_and_the_next_call_completes_it(bench: Bench) -> None:
    broken = bench.failing(
        nvmlGpuInstanceCreateComputeInstance="NVML_ERROR_UNKNOWN", nvmlGpuInstanceDestroy="NVML_ERROR_IN_USE"
    )
    left = r"then this could not be undone: the GPU instance, MIG mode: nvmlGpuInstanceDestroy: NVML_ERROR_IN_USE"
    with pytest.raises(NodeError, match=left):
        broken.create()
    assert bench.state() == replace(ON, instances=(HALF_MADE,))
    bench.create()
    assert bench.state().instances == (MADE,)


@pytest.mark.parametrize("died_after", STEPS)
def test_killed_after_a_step_of_creating_it_can_be_finished_or_undone(bench: Bench, died_after: str) -> None:
    def die() -> None:
        with pytest.raises(subprocess.CalledProcessError):
            bench.dying(died_after).create()

    die()
    bench.create()
    assert bench.state() == StubState(mig=(1, 1), instances=(MADE,))
    bench.destroy()
    die()
    bench.destroy()
    assert (bench.state(), bench.capabilities()) == (OFF, [])


@pytest.mark.parametrize("died_after", ["nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode"])
def test_killed_after_a_step_of_destroying_it_can_be_repeated(bench: Bench, died_after: str) -> None:
    bench.create()
    with pytest.raises(subprocess.CalledProcessError):
        bench.dying(died_after).destroy()
    bench.destroy()
    assert (bench.state(), bench.capabilities()) == (OFF, [])


@pytest.mark.parametrize("function", ["nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy", "nvmlDeviceSetMigMode"])
def test_a_step_of_destroying_that_fails_is_an_error_and_can_be_repeated(bench: Bench, function: str) -> None:
    bench.create()
    with pytest.raises(NodeError, match=f"{function}: NVML_ERROR_IN_USE .*DCGM"):
        bench.failing(**{function: "NVML_ERROR_IN_USE"}).destroy()
    bench.destroy()
    assert bench.state() == OFF


@pytest.mark.parametrize(
    ("activation", "said", "hint"),
    [
        pytest.param(IN_USE, "NVML_ERROR_IN_USE", "nvidia-persistenced", id="in-use"),
        pytest.param(RESET_REQUIRED, "GPU requires restart", "nvidia-smi --gpu-reset", id="reset"),
    ],
)
def test_mig_mode_that_does_not_go_on_is_an_error_and_leaves_nothing_pending(
    bench: Bench, activation: int, said: str, hint: str
) -> None:
    with pytest.raises(NodeError) as caught:
        bench.with_gpu(activation=(activation, 0)).create()
    assert f"MIG mode is not activated: {said}" in str(caught.value)
    assert hint in str(caught.value)
    assert bench.state() == OFF


def test_mig_mode_that_does_not_go_off_is_an_error_when_the_instances_are_gone(bench: Bench) -> None:
    bench.create()
    with pytest.raises(NodeError, match="MIG mode cannot be switched off after the last MIG device was destroyed"):
        bench.with_gpu(activation=(0, IN_USE)).destroy()
    assert bench.state() == StubState(mig=(1, 0))
    bench.destroy()
    assert bench.state() == OFF


def test_mig_mode_that_goes_off_with_a_reset_only_stays_on(bench: Bench) -> None:
    bench.create()
    bench.with_gpu(activation=(0, RESET_REQUIRED)).destroy()
    assert bench.state() == ON


@pytest.mark.parametrize(
    "others",
    [
        pytest.param((StubGpuInstance(3, THREE_SLICES, 0, 4),), id="overlapping"),
        pytest.param((StubGpuInstance(3, TWO_SLICES, 2, 2, compute=(StubComputeInstance(0, 0, 1, 1),)),), id="foreign"),
    ],
)
def test_what_an_administrator_has_made_there_is_in_the_way_and_stays(
    bench: Bench, others: tuple[StubGpuInstance, ...]
) -> None:
    before = replace(ON, instances=others)
    bench.begin(before)
    with pytest.raises(NodeError, match="Rootport did not make"):
        bench.create()
    assert bench.state() == before
    bench.destroy()  # so a failed attempt is undone
    assert bench.state() == before


@pytest.mark.parametrize(
    ("profile", "start", "size", "message"),
    [
        pytest.param(99, 0, 1, "NVML lists no such profile on this GPU", id="profile"),
        pytest.param(TWO_SLICES, 1, 2, "nvmlDeviceCreateGpuInstanceWithPlacement: Invalid Argument", id="placement"),
    ],
)
def test_what_the_gpu_does_not_have_is_an_error(
    bench: Bench, profile: int, start: int, size: int, message: str
) -> None:
    with pytest.raises(NodeError, match=message):
        bench.create(profile, start, size)
    assert bench.state() == OFF
    bench.destroy(profile, start, size)


def test_without_the_drivers_capability_files_no_device_is_made(bench: Bench) -> None:
    blind = replace(bench, machine=replace(bench.machine, capabilities=None))
    with pytest.raises(NodeError, match=r"gpu0/mig/gi1/access has no DeviceFileMinor \(the plugin must see the host's"):
        blind.create()
    assert bench.state() == OFF


@pytest.mark.parametrize("error", ["NVML_ERROR_NOT_FOUND", "NVML_ERROR_GPU_IS_LOST"])
def test_a_gpu_that_is_gone_has_no_mig_devices(bench: Bench, error: str) -> None:
    gone = bench.failing(nvmlDeviceGetHandleByPciBusId_v2=error)
    gone.destroy()
    with pytest.raises(NodeError, match="dmesg"):
        gone.create()


def test_a_gpu_without_mig_cannot_be_partitioned(bench: Bench) -> None:
    other = replace(bench, machine=replace(bench.machine, gpus=(L4.at(0, f"0000{ADDRESS}"),)))
    with pytest.raises(NodeError, match="nvmlDeviceGetMigMode: Not Supported"):
        other.create()
    other.destroy()


def test_without_the_right_to_change_a_gpu_the_error_says_so(bench: Bench) -> None:
    with pytest.raises(NodeError, match="must run as root in a privileged container"):
        bench.failing(nvmlDeviceSetMigMode="NVML_ERROR_NO_PERMISSION").create()


@pytest.mark.parametrize(("exclusive", "mode"), [(True, 3), (False, 0)])
def test_the_compute_mode_is_set(bench: Bench, exclusive: bool, mode: int) -> None:
    bench.begin(StubState(compute_mode=2))
    set_compute_mode: Callable[..., None] = lambda machine: bench.stub.call(  # noqa: E731
        machine, "driver.adapters.nvml.device:set_compute_mode", ADDRESS, exclusive_process=exclusive
    )
    set_compute_mode(bench.machine)
    assert bench.state().compute_mode == mode
    forbidden = bench.failing(nvmlDeviceSetComputeMode="NVML_ERROR_NO_PERMISSION").machine
    set_compute_mode(forbidden)  # it is so already
    bench.begin(StubState(compute_mode=2))
    with pytest.raises(NodeError, match=f"GPU {ADDRESS}: its compute mode cannot be set"):
        set_compute_mode(forbidden)


def test_a_gpu_without_compute_modes_has_nothing_to_set_back(bench: Bench) -> None:
    without = bench.failing(
        nvmlDeviceGetComputeMode="NVML_ERROR_NOT_SUPPORTED", nvmlDeviceSetComputeMode="NVML_ERROR_NOT_SUPPORTED"
    ).machine
    call = partial(bench.stub.call, without, "driver.adapters.nvml.device:set_compute_mode", ADDRESS)
    with pytest.raises(NodeError, match=f"GPU {ADDRESS}: its compute mode cannot be set"):
        call(exclusive_process=True)
    call(exclusive_process=False)


@pytest.mark.parametrize(("uuid", "address"), [(GPU.uuid, ADDRESS), ("GPU-ffffffff", None)])
def test_a_gpu_is_found_by_its_uuid(bench: Bench, uuid: str, address: PciAddress | None) -> None:
    assert bench.stub.call(bench.machine, "driver.adapters.nvml.device:gpu_address", uuid) == address


def test_a_static_layout_is_read(bench: Bench) -> None:
    layout = (MADE, StubGpuInstance(2, THREE_SLICES, 4, 4, compute=(StubComputeInstance(0, 2, 0, 3),)))
    bench.begin(replace(ON, instances=layout))
    report = bench.read()
    mig = report.gpus[0].mig
    assert mig is not None
    assert [
        (part.profile_id, part.placement.start, part.gpu_instance, part.gpu_instance_minor) for part in mig.instances
    ] == [
        (TWO_SLICES, 2, 1, 12),
        (THREE_SLICES, 4, 2, 21),
    ]
    assert len({part.uuid for part in mig.instances}) == 2
    assert report.gpus[1].mig == replace(mig, enabled=False, instances=())
    assert (report.notes, report.partitions_left_out) == ((), ())


@pytest.mark.parametrize(
    ("compute", "errors", "why"),
    [
        pytest.param((), {}, "it has no compute instance that has all of it", id="no-compute-instance"),
        pytest.param(
            (StubComputeInstance(0, 0, 0, 1), StubComputeInstance(1, 0, 1, 1)),
            {},
            "it has no compute instance that has all of it",
            id="two-compute-instances",
        ),
        pytest.param(
            MADE.compute,
            {"nvmlDeviceGetMinorNumber": "NVML_ERROR_NOT_SUPPORTED"},
            "its device nodes are not known",
            id="no-minor",
        ),
        pytest.param(
            MADE.compute,
            {"nvmlDeviceGetMaxMigDeviceCount": "NVML_ERROR_UNKNOWN"},
            "nvmlDeviceGetMaxMigDeviceCount: Unknown Error",
            id="an-error",
        ),
        pytest.param(
            MADE.compute,
            {"nvmlDeviceGetMigDeviceHandleByIndex": "NVML_ERROR_NOT_FOUND"},
            "NVML lists no MIG device of GPU instance 1 and compute instance 0",
            id="no-mig-device",
        ),
    ],
)
def test_a_gpu_instance_that_is_no_mig_device_is_left_out_with_a_note(
    bench: Bench, compute: tuple[StubComputeInstance, ...], errors: dict[str, str], why: str
) -> None:
    bench.begin(replace(ON, instances=(replace(MADE, compute=compute),)))
    bench.begin(replace(ON, instances=(MADE,)), gpu=1)
    report = bench.failing(**errors).read()
    broken, whole = (gpu.mig for gpu in report.gpus)
    assert isinstance(broken, MigSupport)
    assert isinstance(whole, MigSupport)
    assert (broken.instances, len(whole.instances), report.notes) == ((), 1, ())
    (part,) = report.partitions_left_out
    assert (part.gpu, part.profile_id, part.start) == (ADDRESS, TWO_SLICES, 2)
    assert part.note == f"NVML GPU 0: the GPU instance 2g.20gb at memory slice 2 is left out: {why}"


def test_gpu_instances_that_cannot_be_listed_are_one_note_of_that_gpu(bench: Bench) -> None:
    for gpu in (0, 1):
        bench.begin(replace(ON, instances=(MADE,)), gpu=gpu)
    report = bench.failing(nvmlDeviceGetGpuInstances="NVML_ERROR_UNKNOWN").read()
    assert [len(gpu.mig.instances) for gpu in report.gpus if gpu.mig] == [0, 1]
    assert {(part.gpu, part.start) for part in report.partitions_left_out} == {(ADDRESS, None)}
    assert report.partitions_left_out[0].note == (
        "NVML GPU 0: the GPU instances 1g.10gb, if there are any, are left out: nvmlDeviceGetGpuInstances: "
        "Unknown Error"
    )


def test_mig_mode_that_is_switched_off_while_it_is_looked_at_is_no_error(bench: Bench) -> None:
    bench.begin(ON)
    report = bench.failing(nvmlDeviceGetGpuInstances="NVML_ERROR_NOT_SUPPORTED").read()
    assert (report.partitions_left_out, report.notes) == ((), ())


def test_an_instance_that_is_destroyed_while_it_is_looked_at_is_not_there(bench: Bench) -> None:
    bench.begin(replace(ON, instances=(MADE,)))
    report = bench.failing(nvmlGpuInstanceGetInfo="NVML_ERROR_NOT_FOUND").read()
    assert report.gpus[0].mig is not None
    assert (report.gpus[0].mig.instances, report.partitions_left_out, report.notes) == ((), (), ())
