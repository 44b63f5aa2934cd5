"""What NVML's errors cost: a GPU or a fact with a note, or the whole report with a message that says what to do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from driver.adapters.nvml.discovery import NvmlReport, NvmlUnavailableError
from driver.errors import NodeError
from tests.support.stub_nvml import A100_40GB, L4, Link, LinkEnd, Machine, StubNvml, run

pytestmark = pytest.mark.needs_cc

READ_GPUS = "driver.adapters.nvml.discovery:read_gpus"

# All that is asked of one GPU, by the library's exported name, and which it cannot be reported without.
NEEDED = ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetPciInfo_v3")
FACTS = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
)
ERRORS = {"NVML_ERROR_GPU_IS_LOST": "GPU is lost", "NVML_ERROR_UNKNOWN": "Unknown Error"}

LINKED = replace(A100_40GB, links=(Link(LinkEnd.GPU, "00000000:03:00.0"),))
GPUS = (LINKED.at(0, "00000000:01:00.0"), LINKED.at(1, "00000000:02:00.0"), LINKED.at(2, "00000000:03:00.0"))


@pytest.fixture(scope="module")
def healthy(nvml_stub: StubNvml) -> NvmlReport:
    report = nvml_stub.call(Machine(gpus=GPUS), READ_GPUS)
    assert isinstance(report, NvmlReport)
    return report


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("function", [*NEEDED, *FACTS])
def test_one_broken_gpu_never_hides_the_others(
    nvml_stub: StubNvml, healthy: NvmlReport, function: str, error: str
) -> None:
    broken = GPUS[1].failing(function, error)
    report = nvml_stub.call(Machine(gpus=(GPUS[0], broken, GPUS[2])), READ_GPUS)
    assert [gpu for gpu in report.gpus if gpu.index != 1] == [healthy.gpus[0], healthy.gpus[2]]
    assert [gpu.address for gpu in report.gpus if gpu.index == 1] == ([] if function in NEEDED else ["0000:02:00.0"])
    # pynvml names the function without its version.
    name = function.rpartition("_v")[0] or function.removesuffix("InfoV") + "Info" * function.endswith("InfoV")
    assert report.notes[0] == f"NVML GPU 1: {name}: {ERRORS[error]}"
    assert all(note.startswith("NVML GPU 1: ") for note in report.notes)


def test_nothing_more_is_asked_of_a_lost_gpu(nvml_stub: StubNvml, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    lost = GPUS[0].failing("nvmlDeviceGetName", "NVML_ERROR_GPU_IS_LOST")
    report = nvml_stub.call(Machine(gpus=(lost,), trace=str(trace)), READ_GPUS)
    assert trace.read_text().splitlines()[-2:] == ["nvmlDeviceGetName", "nvmlShutdown"]
    assert (report.gpus[0].uuid, report.gpus[0].model) == (lost.uuid, None)
    assert report.notes == ("NVML GPU 0: nvmlDeviceGetName: GPU is lost",)


def test_the_list_of_functions_above_is_complete(nvml_stub: StubNvml, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    nvml_stub.call(Machine(gpus=GPUS, trace=str(trace)), READ_GPUS)
    asked = {function for function in trace.read_text().splitlines() if function.startswith("nvmlDevice")}
    assert asked == {*NEEDED, *FACTS, "nvmlDeviceGetCount_v2"}


def test_a_system_call_that_fails_costs_that_fact_with_a_note(nvml_stub: StubNvml) -> None:
    report = nvml_stub.call(Machine(gpus=(L4,), fail={"nvmlSystemGetDriverVersion": "NVML_ERROR_UNKNOWN"}), READ_GPUS)
    assert (len(report.gpus), report.driver_version) == (1, None)
    assert report.notes == ("NVML: nvmlSystemGetDriverVersion: Unknown Error",)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        pytest.param(
            "nvmlInitWithFlags",
            "NVML_ERROR_DRIVER_NOT_LOADED",
            "the NVIDIA kernel driver is not loaded: nvmlInit: Driver Not Loaded (load it with `modprobe nvidia`;",
            id="driver-not-loaded",
        ),
        pytest.param(
            "nvmlInitWithFlags",
            "NVML_ERROR_LIB_RM_VERSION_MISMATCH",
            "libnvidia-ml.so.1 and the loaded NVIDIA kernel driver are of different versions: nvmlInit: ",
            id="version-mismatch",
        ),
        pytest.param(
            "nvmlInitWithFlags",
            "NVML_ERROR_NO_PERMISSION",
            "this process may not open the NVIDIA driver's device files: nvmlInit: Insufficient Permissions (",
            id="no-permission",
        ),
        pytest.param(
            "nvmlInitWithFlags",
            "NVML_ERROR_UNKNOWN",
            "NVML does not start: nvmlInit: Unknown Error (`nvidia-smi`",
            id="unknown",
        ),
        pytest.param(
            "nvmlInitWithFlags",
            "77",
            "NVML does not start: nvmlInit: an error that the stub has no name for (",
            id="an-error-newer-than-the-binding",
        ),
        pytest.param(
            "nvmlDeviceGetCount_v2",
            "NVML_ERROR_TIMEOUT",
            "NVML does not count the GPUs: nvmlDeviceGetCount: Timeout (",
            id="no-count",
        ),
    ],
)
def test_an_nvml_that_does_not_work_is_a_node_error_that_says_what_to_do(
    nvml_stub: StubNvml, function: str, error: str, message: str
) -> None:
    with pytest.raises(NodeError) as caught:
        nvml_stub.call(Machine(gpus=(L4,), fail={function: error}), READ_GPUS)
    assert str(caught.value).startswith(message)
    assert caught.value.hint
    assert not isinstance(caught.value, NvmlUnavailableError)


def test_nvml_is_shut_down_after_an_error_as_well(nvml_stub: StubNvml, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(NodeError):
        nvml_stub.call(Machine(trace=str(trace), fail={"nvmlDeviceGetCount_v2": "NVML_ERROR_UNKNOWN"}), READ_GPUS)
    assert trace.read_text().splitlines()[-1] == "nvmlShutdown"


def test_a_shutdown_that_fails_takes_no_answer_away(nvml_stub: StubNvml) -> None:
    report = nvml_stub.call(Machine(gpus=(L4,), fail={"nvmlShutdown": "NVML_ERROR_UNKNOWN"}), READ_GPUS)
    assert len(report.gpus) == 1


def test_a_missing_library_is_an_outcome_of_its_own(tmp_path: Path) -> None:
    # A file that is no library hides a real one on the desk of someone who has an NVIDIA GPU.
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")
    with pytest.raises(NvmlUnavailableError, match=r"libnvidia-ml\.so\.1 not found: no NVIDIA driver here"):
        run({**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}, READ_GPUS)


def test_the_stub_refuses_a_description_that_it_cannot_read(nvml_stub: StubNvml, tmp_path: Path) -> None:
    description = tmp_path / "machine.txt"
    description.write_text("gpus=1\nno key and no value\n")
    with pytest.raises(NodeError, match="NVML does not start"):
        run({**nvml_stub.environment(Machine()), "ROOTPORT_STUB_NVML": str(description)}, READ_GPUS)
