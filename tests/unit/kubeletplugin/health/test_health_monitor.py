"""The health monitor: what it keeps over a restart, whom it tells, and what a reading that hangs does."""

from __future__ import annotations

import json
import logging
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs import discovery as sysfs
from driver.errors import NodeError
from driver.health.flapping import Damping
from driver.health.readings import GpuReading, NicReading, PortReading, XidEvent
from driver.model.devices import Gpu, RdmaNic
from driver.model.health import NodeHealth
from driver.model.inventory import Inventory
from kubeletplugin.health import HEALTH_FILE, FaultHistoryFile, HealthMonitor, HealthWatch
from kubeletplugin.loop import Loop
from kubeletplugin.node.discovery import DiscoveredNode, Discovery
from kubeletplugin.node.roots import Roots
from kubeletplugin.publish.conditions import ConditionReports
from tests.support.sysfs_tree import dgx

GPU = "gpu-0000-13-00-0"
NIC = "rdma-0000-14-00-0"
START = datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    return sysfs.discover(HostRoot(dgx(tmp_path_factory.mktemp("host"), switches=2, pairs=2).root), node="n")


@dataclass(slots=True)
class Devices:
    """The hardware, as a test says that it is."""

    state: str = "active"
    lost: bool = False
    hang: threading.Event = field(default_factory=threading.Event)
    hanging: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.hang.set()

    def gpus(self, gpus: Sequence[Gpu]) -> tuple[GpuReading, ...]:
        self.hanging.set()
        assert self.hang.wait(20)
        return tuple(GpuReading(device=gpu.name, lost=self.lost and gpu.name == GPU) for gpu in gpus)

    def nics(self, nics: Sequence[RdmaNic]) -> tuple[NicReading, ...]:
        ports = (PortReading(number=1, state=self.state),)
        return tuple(NicReading(device=nic.name, ports=ports) for nic in nics)


@dataclass(slots=True)
class Case:
    """A node whose plugin can be started again."""

    file: Path
    inventory: Inventory | None
    devices: Devices = field(default_factory=Devices)
    now: datetime = START
    changes: int = 0
    late_s: float = 30

    def monitor(self, boot_id: str = "b") -> HealthMonitor:
        return HealthMonitor(
            FaultHistoryFile(self.file, boot_id=boot_id),
            inventory=lambda: self.inventory,
            certain=lambda: True,
            reader=self.devices,
            on_change=self.changed,
            damping=Damping(hold=timedelta()),
            now=lambda: self.now,
            late_s=self.late_s,
        )

    def changed(self) -> None:
        self.changes += 1

    def xid(self, monitor: HealthMonitor, number: int = 79) -> None:
        monitor.take([XidEvent(device=next(iter(monitor.nvidia_gpus())).name, xid=number, at=self.now)])


@pytest.fixture
def case(tmp_path: Path, inventory: Inventory) -> Case:
    return Case(tmp_path / "plugin" / HEALTH_FILE, inventory)


def reasons(health: NodeHealth | None) -> dict[str, str]:
    assert health is not None
    return {fault.device: fault.reason for fault in health.faults}


def test_nothing_is_told_before_everything_was_read_once(case: Case) -> None:
    monitor = case.monitor()
    assert monitor.settled_health() is None
    monitor.read_nics()
    assert monitor.settled_health() is None
    monitor.read_gpus()
    settled = monitor.settled_health()
    assert settled is not None
    assert len(settled.watched) == 4
    assert [len(found) for found in monitor.readings()] == [2, 2]


def test_without_an_inventory_nothing_is_looked_at(case: Case) -> None:
    case.inventory = None
    monitor = case.monitor()
    monitor.read_gpus()
    monitor.read_nics()
    monitor.take([])
    assert monitor.settled_health() is None
    assert monitor.readings() == ((), ())


def test_a_change_is_told_once_and_logged(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monitor = case.monitor()
    monitor.read_gpus()
    monitor.read_nics()
    case.changes = 0
    case.devices.lost = True
    for _ in range(3):
        monitor.read_gpus()
    assert case.changes == 1
    assert reasons(monitor.health()) == {GPU: "GpuLost"}
    case.devices.lost = False
    monitor.read_gpus()
    assert case.changes == 2
    told = [record.message for record in caplog.records]
    assert told == ["a device has a fault", "a fault of a device is over"]


def test_an_error_is_still_known_after_a_restart_and_not_after_a_reboot(case: Case) -> None:
    case.xid(case.monitor())
    again = case.monitor()
    again.read_gpus()
    again.read_nics()
    assert reasons(again.settled_health()) == {GPU: "Xid79"}
    rebooted = case.monitor("another")
    rebooted.read_gpus()
    assert reasons(rebooted.health()) == {}
    assert stat.S_IMODE(case.file.stat().st_mode) == 0o600


def test_what_is_not_new_is_not_written(case: Case) -> None:
    monitor = case.monitor()
    case.xid(monitor)
    before = case.file.stat()
    for _ in range(3):
        monitor.read_gpus()
        monitor.read_nics()
    assert case.file.stat().st_ino == before.st_ino


def remembered(**fields: object) -> bytes:
    fault = {
        "device": "gpu-0000-13-00-0",
        "reason": "Xid79",
        "effect": "NoExecute",
        "since": "2026-01-01T00:00:00Z",
        "message": "m",
        "xid": 79,
        "last": "2026-01-01T00:00:00Z",
    }
    return json.dumps({"version": 1, "boot_id": "b", "faults": [fault | fields]}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"",
        bytes(5 << 20),
        b'{"version":1,"faults":' + b"[" * 100_000,
        remembered(last="9999-12-31T23:59:59Z", away_since="0001-01-01T00:00:00Z"),
        remembered(returned=["2026-01-01T00:00:00Z"] * 100_000),
        remembered(last="2026-01-01T00:00:00"),
    ],
    ids=["cut-off", "empty", "too-long", "deep", "times-beyond-reckoning", "returned-too-often", "no-time-zone"],
)
def test_a_damaged_file_is_set_aside_and_told(case: Case, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    case.file.parent.mkdir()
    case.file.write_bytes(content)
    monitor = case.monitor()
    monitor.read_gpus()
    assert reasons(monitor.health()) == {}
    assert case.file.with_name("health.json.unreadable").stat().st_size == len(content)
    case.now += timedelta(days=365 * 20)
    monitor.read_gpus()
    assert "set aside" in caplog.text


def test_what_a_crash_has_left_behind_is_removed(case: Case) -> None:
    case.file.parent.mkdir()
    (case.file.parent / ".health.json.abc.tmp").touch()
    (case.file.parent / ".checkpoint.json.abc.tmp").touch()
    case.monitor()
    assert [path.name for path in case.file.parent.iterdir()] == [".checkpoint.json.abc.tmp"]


def test_a_link_where_the_file_belongs_is_not_followed(case: Case, tmp_path: Path) -> None:
    case.file.parent.mkdir()
    other = tmp_path / "other"
    other.write_text("mine")
    case.file.symlink_to(other)
    case.xid(case.monitor())
    assert other.read_text() == "mine"
    assert not case.file.is_symlink()


def test_what_cannot_be_written_down_counts_all_the_same(case: Case) -> None:
    case.file.parent.write_text("no folder")
    monitor = case.monitor()
    monitor.read_gpus()
    case.xid(monitor)  # who listens goes on: what comes meanwhile would not be heard
    assert reasons(monitor.health()) == {GPU: "Xid79"}
    assert case.changes
    for look in (monitor.read_gpus, monitor.read_nics):
        with pytest.raises(NodeError, match=r"health\.json"):
            look()
    monitor.recover(f"{GPU}@2026-03-01T10:00:00Z")  # who publishes goes on likewise
    assert reasons(monitor.health()) == {}


def test_a_reading_that_hangs_is_told_and_keeps_nothing_else_waiting(case: Case) -> None:
    case.late_s = 0
    monitor = case.monitor()
    case.devices.hang.clear()
    reader = threading.Thread(target=monitor.read_gpus)
    reader.start()
    assert case.devices.hanging.wait(20)
    case.devices.state = "down"
    monitor.read_nics()
    health = monitor.settled_health()
    assert health is not None
    found = {fault.device: fault for fault in health.faults}
    assert found[NIC].reason == "LinkDown"
    assert "NVML has not answered" in found[GPU].message
    case.xid(monitor)
    assert [fault.reason for fault in monitor.health().of(found[GPU].device)] == ["Xid79", "GpuNotAnswering"]
    case.devices.hang.set()
    reader.join(20)
    assert GPU not in reasons(monitor.health()) or reasons(monitor.health())[GPU] == "Xid79"


def test_an_administrators_word_ends_an_error(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    monitor = case.monitor()
    case.xid(monitor)
    monitor.recover(f"{GPU}@2026-03-01T09:59:59Z")
    assert reasons(monitor.health()) == {GPU: "Xid79"}
    monitor.recover(f"{GPU}@2099-03-01T10:00:00Z, what, x@yesterday,{GPU}@2026-03-01T10:00:00")
    assert reasons(monitor.health()) == {GPU: "Xid79"}
    assert len(caplog.records) == 1 + 1 + 4  # the error, the fault, and each entry that cannot be used
    caplog.clear()
    monitor.recover(f"other@2026-03-01T10:00:00Z , {GPU}@2026-03-01T12:00:00+02:00")
    assert reasons(monitor.health()) == {}
    assert [vars(record).get("problem") for record in caplog.records] == ["'other' is no device of this node now"]
    monitor.recover("," * 600)
    assert "only its first 512 entries are read" in vars(caplog.records[-1])["problem"]
    case.now += timedelta(seconds=1)
    case.xid(monitor)
    assert reasons(monitor.health()) == {GPU: "Xid79"}
    assert reasons(case.monitor().health()) == {}  # nothing is told of devices before they were looked at


def test_gpus_of_others_are_not_asked_about(case: Case) -> None:
    assert case.inventory is not None
    amd = replace(case.inventory.gpus[0], vendor="amd")
    case.inventory = replace(case.inventory, gpus=(amd, case.inventory.gpus[1]))
    monitor = case.monitor()
    monitor.read_gpus()
    assert [reading.device for reading in monitor.readings()[0]] == [case.inventory.gpus[1].name]


def test_what_the_old_plugin_of_a_rolling_update_heard_is_the_new_ones_as_well(case: Case) -> None:
    old, new = case.monitor(), case.monitor()
    for monitor in (old, new):
        monitor.read_gpus()
        monitor.read_nics()
    case.xid(old)  # and the new one does not listen yet
    new.read_nics()
    assert reasons(new.settled_health()) == {GPU: "Xid79"}
    new.recover(f"{GPU}@2026-03-01T10:00:00Z")
    old.read_nics()
    new.read_nics()
    assert reasons(new.settled_health()) == {}
    case.now += timedelta(seconds=1)
    case.xid(new)
    old.read_nics()
    assert reasons(old.settled_health()) == {GPU: "Xid79"}
    again = case.monitor()
    again.read_nics()
    assert reasons(again.health()) == {GPU: "Xid79"}


def test_many_threads_leave_the_file_as_the_last_word(case: Case) -> None:
    monitor = case.monitor()
    acts: list[Callable[[], None]] = [monitor.read_gpus, monitor.read_nics, lambda: case.xid(monitor)]
    threads = [threading.Thread(target=act) for act in acts * 10]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    again = case.monitor()
    again.read_gpus()
    assert reasons(again.health()) == reasons(monitor.health()) == {GPU: "Xid79"}


def test_of_two_threads_the_last_to_tell_does_not_tell_what_is_older(inventory: Inventory, tmp_path: Path) -> None:
    discovery = Discovery(
        lambda: DiscoveredNode(inventory=inventory), reports=ConditionReports(lambda: None), on_change=lambda: None
    )
    discovery.run()
    telling, go_on = threading.Event(), threading.Event()
    told: list[NodeHealth] = []

    def take_note(health: NodeHealth) -> None:
        first = not telling.is_set()
        telling.set()
        if first:
            assert go_on.wait(20)
        told.append(health)

    watch = HealthWatch(
        Roots.of(tmp_path, ""),
        discovery=discovery,
        history=FaultHistoryFile(tmp_path / HEALTH_FILE, boot_id="b"),
        interval_s=10,
        hold_s=0,
        make_loop=partial(Loop, on_outdated=lambda: None),
        on_change=take_note,
        on_links=lambda: None,
    )

    def report(number: int) -> threading.Thread:
        events = [XidEvent(device=inventory.gpus[0].name, xid=number, at=START)]
        thread = threading.Thread(target=watch.monitor.take, args=[events])
        thread.start()
        return thread

    first = report(48)
    assert telling.wait(20)
    second = report(79)
    second.join(0.3)
    go_on.set()
    for thread in (first, second):
        thread.join(20)
    assert told[-1] == watch.monitor.health()
    assert len(told[-1].faults) == 2


def test_a_file_of_a_later_version_is_kept(case: Case) -> None:
    case.file.parent.mkdir()
    newer = b'{"version": 7, "something": "else"}'
    case.file.write_bytes(newer)
    monitor = case.monitor()
    monitor.read_gpus()
    case.xid(monitor)
    assert case.file.with_name("health.json.v7").read_bytes() == newer
