"""How GPUs are, by NVML: the real pynvml on the stub, whose facts change while a process holds a session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from driver.errors import NodeError
from driver.health.readings import GpuReading, RecoveryAction, Slowdown, XidEvent
from driver.model.devices import Gpu
from driver.model.pci import PciAddress, PciePath
from tests.support.stub_nvml import (
    A100_40GB,
    H100_80GB,
    L4,
    Machine,
    StubNvml,
    inject_double_bit_ecc_error,
    inject_xid,
    set_live,
)
from tests.unit.driver.adapters.nvml.nvml_watcher import Watcher, watcher

pytestmark = pytest.mark.needs_cc

ADDRESSES = ("0000:13:00.0", "0000:23:00.0", "0000:33:00.0")
GPUS = tuple(
    Gpu(address=PciAddress(address), pcie=PciePath(), index=number) for number, address in enumerate(ADDRESSES)
)
NAMES = tuple(gpu.name for gpu in GPUS)
AMD = replace(GPUS[0], address=PciAddress("0000:43:00.0"), vendor="amd")


def machine(state: Path) -> Machine:
    """Of a driver that tells all, of an older one, and of one that tells nothing of its health."""
    parts = (H100_80GB, A100_40GB, L4)
    gpus = tuple(part.at(n, f"0000{address}") for n, (part, address) in enumerate(zip(parts, ADDRESSES, strict=True)))
    return Machine(gpus=gpus, state=str(state))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def node(nvml_stub: StubNvml, state: Path) -> Iterator[Watcher]:
    with watcher(nvml_stub, machine(state), (*GPUS, AMD)) as process:
        yield process


def test_each_gpu_is_read_as_far_as_it_tells(node: Watcher) -> None:
    h100, a100, l4 = node.read()
    idle = GpuReading(
        device=NAMES[0],
        recovery_action=RecoveryAction.NONE,
        uncorrected_errors=0,
        corrected_errors=0,
        remapping_pending=False,
        remapping_failed=False,
        utilization=0,
        memory_used_bytes=0,
        temperature_celsius=34,
        power_watts=71.0,
    )
    assert h100 == idle
    assert a100 == replace(idle, device=NAMES[1], recovery_action=None)
    assert l4 == GpuReading(device=NAMES[2], memory_used_bytes=0)


def test_what_changes_within_a_session_is_seen(node: Watcher, state: Path) -> None:
    node.read()
    set_live(
        state,
        0,
        recovery_action=1,
        ecc_uncorrected=3,
        ecc_corrected=2**40,
        retired_pending=1,
        remapped_rows="9 0 0 1",
        clock_reasons=0x8 | 0x40 | 0x80,
        utilization=97,
        memory_used=5 << 30,
        temperature=91,
        power=699500,
    )
    assert node.read()[0] == GpuReading(
        device=NAMES[0],
        recovery_action=RecoveryAction.GPU_RESET,
        uncorrected_errors=3,
        corrected_errors=2**40,
        retired_pages_pending=True,
        remapping_pending=False,
        remapping_failed=True,
        slowdowns=frozenset({Slowdown.THERMAL, Slowdown.POWER_BRAKE}),
        utilization=97,
        memory_used_bytes=5 << 30,
        temperature_celsius=91,
        power_watts=699.5,
    )
    set_live(state, 0, temperature=None, recovery_action=None)
    again = node.read()[0]
    assert (again.temperature_celsius, again.recovery_action, again.utilization) == (34, RecoveryAction.NONE, 97)


@pytest.mark.parametrize(
    ("number", "action"),
    [
        (2, RecoveryAction.NODE_REBOOT),
        (3, RecoveryAction.DRAIN_P2P),
        (4, RecoveryAction.DRAIN_AND_RESET),
        (6, RecoveryAction.OTHER),
        (7, RecoveryAction.NODE_REBOOT),
        (99, RecoveryAction.OTHER),
    ],
)
def test_each_recovery_action_has_its_name(node: Watcher, state: Path, number: int, action: RecoveryAction) -> None:
    set_live(state, 0, recovery_action=number)
    assert node.read()[0].recovery_action is action


def test_rows_that_wait_to_be_remapped_are_told_apart_from_failures(node: Watcher, state: Path) -> None:
    set_live(state, 0, remapped_rows="0 9 1 0")
    reading = node.read()[0]
    assert (reading.remapping_pending, reading.remapping_failed) == (True, False)


def test_clocks_are_read_of_older_drivers_as_well(node: Watcher, state: Path) -> None:
    without = {"fail.nvmlDeviceGetCurrentClocksEventReasons": "NVML_ERROR_FUNCTION_NOT_FOUND"}
    set_live(state, 1, clock_reasons=0x40, **without)
    assert node.read()[1].slowdowns == {Slowdown.THERMAL}


def test_a_lost_gpu_is_lost_and_comes_back(node: Watcher, state: Path) -> None:
    before = node.read()
    set_live(state, 0, lost=1)
    assert node.read() == (GpuReading(device=NAMES[0], lost=True), *before[1:])
    set_live(state, 0, lost=None)
    assert node.read() == before


def test_a_gpu_that_is_lost_while_it_is_read_is_lost(node: Watcher, state: Path) -> None:
    set_live(state, 0, **{"fail.nvmlDeviceGetPowerUsage": "NVML_ERROR_GPU_IS_LOST"})
    assert node.read()[0] == GpuReading(device=NAMES[0], lost=True)


def test_a_gpu_that_cannot_be_asked_says_why(node: Watcher, state: Path) -> None:
    set_live(state, 0, **{"fail.nvmlDeviceGetHandleByPciBusId_v2": "NVML_ERROR_UNKNOWN"})
    broken, neighbour, _ = node.read()
    assert broken == GpuReading(device=NAMES[0], not_answering="nvmlDeviceGetHandleByPciBusId: Unknown Error")
    assert neighbour.temperature_celsius == 34


def test_a_gpu_whose_every_call_fails_does_not_answer(node: Watcher, state: Path) -> None:
    calls = (
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetRetiredPagesPendingStatus",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
    )
    set_live(state, 0, **{f"fail.{name}": "NVML_ERROR_RESET_REQUIRED" for name in calls})
    broken = node.read()[0]
    assert broken.not_answering.startswith("nvmlDeviceGetRemappedRows: ")
    assert broken == GpuReading(device=NAMES[0], not_answering=broken.not_answering)


def test_a_gpu_that_nvml_does_not_list_does_not_answer(nvml_stub: StubNvml, state: Path) -> None:
    gone = replace(GPUS[0], address=PciAddress("0000:99:00.0"))
    with watcher(nvml_stub, machine(state), (gone, GPUS[1])) as node:
        missing, there = node.read()
    assert missing.not_answering == "nvmlDeviceGetHandleByPciBusId: Not Found"
    assert there.temperature_celsius == 34


def test_an_error_is_told_once_with_its_gpu(node: Watcher, state: Path) -> None:
    inject_xid(state, 0, 31)  # before anybody listened
    notes = node.listen()
    assert notes == (
        f"GPU {ADDRESSES[2]}: its errors are not listened to: nvmlDeviceGetSupportedEventTypes: Not Supported",
    )
    started = datetime.now(UTC)
    inject_xid(state, 1, 79)
    (event,) = node.wait(10)
    assert event == XidEvent(device=NAMES[1], xid=79, at=event.at)
    assert timedelta() <= event.at - started < timedelta(seconds=10)
    assert node.wait(0) == ()


def test_errors_that_are_there_come_together(node: Watcher, state: Path) -> None:
    node.listen()
    inject_xid(state, 0, 94)
    inject_double_bit_ecc_error(state, 1)
    inject_xid(state, 2, 79)  # of a GPU without events
    inject_xid(state, -1, 62)
    assert [(event.device, event.xid) for event in node.wait(10)] == [(NAMES[0], 94), (NAMES[1], 48), (None, 62)]


def test_a_storm_is_told_in_parts(node: Watcher, state: Path) -> None:
    node.listen()
    for _ in range(1100):
        inject_xid(state, 0, 31)
    first, second = node.wait(10), node.wait(0)
    assert (len(first), len(second)) == (1024, 76)


def test_gpus_are_read_while_a_thread_waits(node: Watcher, state: Path) -> None:
    node.listen()
    node.start_waiting(30)
    assert node.read()[0].temperature_celsius == 34
    inject_xid(state, 0, 48)
    assert [event.xid for event in node.told()] == [48]


def test_the_error_that_a_gpu_was_lost_by_is_told_before_the_loss(node: Watcher, state: Path) -> None:
    node.listen()
    set_live(state, 0, lost=1)
    inject_xid(state, 0, 79)
    assert [(event.device, event.xid) for event in node.wait(10)] == [(NAMES[0], 79)]
    with pytest.raises(NodeError, match="GPU is lost"):
        node.wait(10)


def test_a_lost_gpu_is_not_listened_to_and_the_others_are(node: Watcher, state: Path) -> None:
    set_live(state, 0, lost=1)
    assert len(node.listen()) == 2
    inject_xid(state, 1, 94)
    assert [event.device for event in node.wait(10)] == [NAMES[1]]


@pytest.mark.parametrize("gpus", [(GPUS[2],), (AMD,)], ids=["without-events", "of-another-vendor"])
def test_where_no_gpu_tells_errors_that_is_said(nvml_stub: StubNvml, state: Path, gpus: tuple[Gpu, ...]) -> None:
    with watcher(nvml_stub, machine(state), gpus) as node, pytest.raises(NodeError, match="cannot be listened to"):
        node.listen()


def test_a_library_without_events_is_told(nvml_stub: StubNvml, state: Path) -> None:
    broken = replace(machine(state), fail={"nvmlEventSetCreate": "NVML_ERROR_FUNCTION_NOT_FOUND"})
    with watcher(nvml_stub, broken, GPUS) as node, pytest.raises(NodeError, match="nvmlEventSetCreate"):
        node.listen()


def test_a_state_folder_below_the_description_is_the_same_wherever_it_is_seen(
    nvml_stub: StubNvml, tmp_path: Path
) -> None:
    """As the plugin's container sees the host's root at another path than the test does."""
    host = tmp_path / "host"
    host.mkdir()
    (host / "nvml.txt").write_bytes(replace(machine(Path("x")), state="nvml-state").description())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.symlink_to(host)

    class Elsewhere(StubNvml):
        def environment(self, machine: Machine) -> dict[str, str]:
            return {**super().environment(machine), "ROOTPORT_STUB_NVML": str(elsewhere / "nvml.txt")}

    with watcher(Elsewhere(nvml_stub.directory), Machine(), GPUS) as node:
        node.listen()
        inject_xid(host / "nvml-state", 0, 79)
        set_live(host / "nvml-state", 0, temperature=70)
        assert [event.xid for event in node.wait(10)] == [79]
        assert node.read()[0].temperature_celsius == 70
