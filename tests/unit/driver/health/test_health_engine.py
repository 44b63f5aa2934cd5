"""What is wrong with a node's devices: raised at once, damped, remembered over a restart, and over when it is over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from driver.health.engine import HealthEngine
from driver.health.fault_history import FaultHistory, UnreadableHistoryError, from_json, to_json
from driver.health.flapping import Damping
from driver.health.readings import GpuReading, NicReading, PortReading, RecoveryAction, Slowdown, XidEvent
from driver.model.devices import DeviceName, Gpu, RdmaNic
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory, InventorySource
from driver.model.pci import PciAddress, PciePath

START = datetime(2026, 3, 1, 10, tzinfo=UTC)
GPUS = tuple(Gpu(address=PciAddress(f"0000:{bus}:00.0"), pcie=PciePath(), index=0, minor=0) for bus in ("13", "23"))
AMD = Gpu(address=PciAddress("0000:43:00.0"), pcie=PciePath(), index=2, vendor="amd")
NIC = RdmaNic(address=PciAddress("0000:14:00.0"), pcie=PciePath(), index=0, rdma_device="mlx5_0")
NODE = Inventory(node="n", source=InventorySource.LIVE, gpus=(*GPUS, AMD), nics=(NIC,))
GPU, OTHER = GPUS[0].name, GPUS[1].name
LOST = {"lost": True}
HOT = {"slowdowns": frozenset({Slowdown.THERMAL})}
RESET = {"recovery_action": RecoveryAction.GPU_RESET}
WORN = {"remapping_failed": True}
WELL: dict[str, object] = {}
DOWN, UP = "down", "active"


class Node:
    """A node whose time goes on by itself."""

    def __init__(self, memory: FaultHistory | None = None, *, hold_s: float = 60, now: datetime = START) -> None:
        self.engine = HealthEngine(memory or FaultHistory(boot_id="b"), Damping(hold=timedelta(seconds=hold_s)))
        self.now = now
        self.inventory = NODE
        self.certain = True

    def gpu(self, facts: Mapping[str, object] = WELL, *, after: float = 10) -> dict[str, Effect]:
        """Read the GPUs, the first of them with these facts; the reasons of its faults."""
        self.now += timedelta(seconds=after)
        readings = (GpuReading(device=GPU, **facts), GpuReading(device=OTHER))  # type: ignore[arg-type]
        health = self.engine.observe(self.inventory, self.now, certain=self.certain, gpus=readings)
        return faults(health)

    def nic(self, *states: str | None, after: float = 10, **counters: int) -> dict[str, Effect]:
        self.now += timedelta(seconds=after)
        ports = tuple(PortReading(number=n, state=state, counters=counters) for n, state in enumerate(states, 1))
        nics = (NicReading(device=NIC.name, ports=ports),)
        return faults(self.engine.observe(self.inventory, self.now, nics=nics), NIC.name)

    def xid(self, number: int, device: DeviceName | None = GPU, *, after: float = 1) -> NodeHealth:
        self.now += timedelta(seconds=after)
        events = [XidEvent(device=device, xid=number, at=self.now)]
        return self.engine.observe(self.inventory, self.now, events=events)

    def restarted(self, *, boot_id: str = "b", off_s: float = 5) -> Node:
        memory = from_json(to_json(self.engine.history()), boot_id=boot_id)
        return Node(memory, now=self.now + timedelta(seconds=off_s))


def faults(health: NodeHealth, device: DeviceName = GPU) -> dict[str, Effect]:
    return {fault.reason: fault.effect for fault in health.of(device)}


def over_after(node: Node, facts: Sequence[Mapping[str, object]], reason: str) -> float:
    """How many seconds after the last of these readings the fault is over, to ten seconds."""
    for reading in facts:
        node.gpu(reading)
    seconds = 0.0
    while reason in node.gpu():
        seconds += 10
        assert seconds < 4000
    return seconds


def test_a_well_node_has_no_faults_and_says_what_is_watched() -> None:
    node = Node()
    assert node.gpu() == {}
    assert node.nic(UP) == {}
    health = node.engine.health({device.name for device in NODE.devices()})
    assert health == NodeHealth(watched=frozenset({GPU, OTHER, NIC.name}))  # and of the AMD GPU nothing is known


def test_a_lost_gpu_is_told_at_once_and_the_others_are_well() -> None:
    node = Node()
    assert node.gpu(LOST) == {"GpuLost": Effect.NO_EXECUTE}
    health = node.engine.health([GPU, OTHER])
    assert faults(health, OTHER) == {}
    (fault,) = health.faults
    assert (fault.since, fault.device) == (START + timedelta(seconds=10), GPU)


def test_a_failure_that_no_reading_shows_is_over_after_the_hold_and_later_each_time_that_it_returns() -> None:
    node = Node()

    def fail() -> None:
        failure = Fault(
            device=GPU, reason="MigDeviceNotCreated", effect=Effect.NO_SCHEDULE, since=node.now, message="no\nmore"
        )
        health = node.engine.observe(node.inventory, node.now, failures=[failure])
        assert faults(health) == {"MigDeviceNotCreated": Effect.NO_SCHEDULE}
        assert "\n" not in health.faults[0].message

    def over() -> float:
        seconds = 0.0
        while "MigDeviceNotCreated" in node.gpu():
            seconds += 10
        return seconds

    node.gpu()
    fail()
    node = node.restarted()
    assert over() == 60
    fail()
    assert over() == 120


def test_a_fault_keeps_its_time_while_it_lasts() -> None:
    node = Node()
    node.gpu(WORN)
    node.gpu(WORN)
    node.gpu()
    node.gpu(WORN)
    (fault,) = node.engine.health([GPU]).faults
    assert fault.since == START + timedelta(seconds=10)


def test_a_fault_is_over_when_it_stayed_away_for_the_hold() -> None:
    assert over_after(Node(), [WORN], "RowRemapFailure") == 60


@pytest.mark.parametrize(("returns", "seconds"), [(0, 60), (1, 120), (2, 240), (7, 3600), (12, 3600)], ids=str)
def test_a_fault_that_comes_back_is_held_longer(returns: int, seconds: float) -> None:
    readings: list[Mapping[str, object]] = [WORN]
    for _ in range(returns):
        readings += [WELL, WORN]
    # Returns are forgotten after an hour, and the longest hold is as long.
    assert over_after(Node(), readings, "RowRemapFailure") == pytest.approx(seconds, abs=700 if returns > 2 else 0)


def test_a_fault_that_was_over_and_comes_back_within_an_hour_is_held_longer() -> None:
    node = Node()
    assert over_after(node, [WORN], "RowRemapFailure") == 60
    assert over_after(node, [WORN], "RowRemapFailure") == 120


def test_an_hour_later_a_fault_is_a_new_one() -> None:
    node = Node()
    assert over_after(node, [WORN], "RowRemapFailure") == 60
    node.gpu(after=3700)
    assert node.engine.history().faults == ()
    assert over_after(node, [WORN], "RowRemapFailure") == 60


def test_what_the_driver_concludes_is_not_held() -> None:
    assert over_after(Node(), [RESET], "RecoveryNeeded") == 0


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_a_clock_that_is_set_back_holds_nothing_for_longer(restart: bool) -> None:
    node = Node()
    for _ in range(3):
        node.nic(UP)
        node.nic(DOWN)
    node.xid(94)
    node.gpu(WORN)
    node.gpu()
    node = node.restarted(off_s=-86400) if restart else node
    node.now = min(node.now, START - timedelta(seconds=86400))
    assert set(node.gpu()) == {"RowRemapFailure", "Xid94"}
    assert all(fault.since <= node.now for fault in node.engine.health([GPU, NIC.name]).faults)
    for _ in range(7):
        found = node.gpu()
    assert set(found) == {"Xid94"}  # and the driver does not say that it is over
    assert node.gpu(after=300) == {}
    node.nic(UP, after=400)
    assert node.nic(UP, after=61) == {}


def test_hot_counts_from_the_second_reading_in_a_row() -> None:
    node = Node()
    assert node.gpu(HOT) == {}
    assert node.gpu() == {}
    assert node.gpu(HOT) == {}
    assert node.gpu(HOT) == {"ThermalSlowdown": Effect.NONE}


def test_what_a_gpu_that_does_not_answer_had_is_not_over() -> None:
    node = Node()
    node.gpu({"remapping_failed": True})
    for _ in range(30):
        found = node.gpu({"not_answering": "NVML hangs"})
    assert found == {"GpuNotAnswering": Effect.NO_SCHEDULE, "RowRemapFailure": Effect.NO_SCHEDULE}


def test_uncorrected_errors_are_told_until_a_reset_and_keep_nobody_away() -> None:
    node = Node()
    for _ in range(20):
        assert node.gpu({"uncorrected_errors": 3}) == {"EccUncorrected": Effect.NONE}
    assert over_after(node, [{"uncorrected_errors": 0}], "EccUncorrected") < 60


def test_an_error_that_evicts_stays_until_the_gpu_was_away_and_is_back() -> None:
    node = Node()
    assert faults(node.xid(79)) == {"Xid79": Effect.NO_EXECUTE}
    assert "Xid79" in node.gpu(LOST)
    assert "Xid79" in node.gpu(LOST, after=86400)
    assert "Xid79" not in node.gpu()


def test_a_reading_from_before_an_error_does_not_end_it() -> None:
    node = Node()
    node.gpu({"recovery_action": RecoveryAction.NONE})
    assert "Xid79" in faults(node.xid(79))
    assert "Xid79" in faults(node.xid(13, after=3600))


def test_an_error_ends_when_the_driver_says_that_nothing_is_needed() -> None:
    node = Node()
    node.xid(79)
    assert "Xid79" in node.gpu(RESET, after=3600)
    assert "Xid79" not in node.gpu({"recovery_action": RecoveryAction.NONE}, after=60)


def test_without_the_drivers_word_time_does_not_end_an_error() -> None:
    node = Node()
    node.xid(79)
    assert "Xid79" in node.gpu(after=7 * 86400)


def test_an_error_of_no_named_gpu_counts_for_all_of_nvidias() -> None:
    health = Node().xid(79, None)
    assert {fault.device for fault in health.faults} == {GPU, OTHER}


def test_an_applications_error_is_no_fault() -> None:
    assert Node().xid(31).faults == ()


def test_a_storm_of_errors_is_bounded_and_the_worst_are_kept() -> None:
    node = Node()
    node.xid(79)
    for number in range(5000, 5100):
        node.xid(number)
    found = faults(node.engine.health([GPU]))
    assert len(found) == 32
    assert found["Xid79"] is Effect.NO_EXECUTE


def test_an_administrators_word_ends_the_errors_of_before() -> None:
    node = Node()
    node.xid(79)
    until = node.now
    node.xid(48, after=60)
    health = node.engine.observe(NODE, node.now, recovered={GPU: until})
    assert faults(health) == {"Xid48": Effect.NO_SCHEDULE}
    assert faults(node.engine.observe(NODE, node.now, recovered={GPU: node.now})) == {}


def test_a_restart_forgets_nothing() -> None:
    node = Node()
    node.xid(79)
    node.gpu({"remapping_failed": True})
    before = node.engine.health([GPU])
    again = node.restarted()
    assert again.engine.health([GPU]).faults == before.faults
    assert "RowRemapFailure" in again.gpu()
    assert "Xid79" in again.gpu(after=7200)


def test_a_reboot_ends_all_faults() -> None:
    node = Node()
    node.xid(79)
    node.gpu(RESET)
    assert node.restarted(boot_id="another").engine.health([GPU]) == NodeHealth()


def test_a_gpu_that_was_gone_was_reset() -> None:
    node = Node()
    node.xid(79)
    node.inventory = Inventory(node="n", source=InventorySource.LIVE, gpus=GPUS[1:])
    assert node.gpu() == {}
    node.inventory = NODE
    assert node.gpu() == {}


def test_a_gpu_that_could_not_be_looked_at_was_not_reset_for_all_that() -> None:
    node = Node()
    node.xid(79)
    node.inventory, node.certain = Inventory(node="n", source=InventorySource.LIVE), False
    node.gpu()
    node.inventory, node.certain = NODE, True
    assert "Xid79" in node.gpu()


def test_messages_are_one_printable_line() -> None:
    node = Node()
    node.gpu({"not_answering": "first\nsecond\x07 \u202eline"})
    (fault,) = node.engine.health([GPU]).faults
    assert "first second line" in fault.message
    assert fault.message.isprintable()


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"version": 2}', b'{"version": 1, "faults": [{"device": 1}]}', b"\xff"],
    ids=["empty", "another-shape", "newer", "a-wrong-fault", "no-text"],
)
def test_a_damaged_memory_is_told(content: bytes) -> None:
    with pytest.raises(UnreadableHistoryError):
        from_json(content, boot_id="b")


def test_what_a_newer_version_adds_is_left_out() -> None:
    assert from_json(b'{"version": 1, "boot_id": "b", "more": 1}', boot_id="b") == FaultHistory(boot_id="b")


def test_the_document_names_its_fields_as_version_1_did() -> None:
    node = Node()
    node.gpu(LOST)
    document = json.loads(to_json(node.engine.history()))
    assert document.keys() == {"version", "boot_id", "faults", "away", "downs"}
    fields = {"device", "reason", "effect", "since", "message", "xid", "last", "sightings", "away_since", "returned"}
    assert document["faults"][0].keys() == fields | {"told"}


def test_a_link_that_is_down_is_told_and_over_at_once() -> None:
    node = Node()
    assert node.nic(UP) == {}
    assert node.nic(DOWN) == {"LinkDown": Effect.NO_SCHEDULE}
    assert node.nic(UP) == {}


@pytest.mark.parametrize("states", [(UP, DOWN), (None,), ()], ids=["another-port-is-up", "not-told", "in-a-pod"])
def test_a_nic_is_down_only_if_no_port_is_active(states: tuple[str | None, ...]) -> None:
    assert Node().nic(*states) == {}


def test_a_link_that_goes_down_again_and_again_is_flapping() -> None:
    node = Node()
    for _ in range(2):
        node.nic(UP)
        assert "LinkFlapping" not in node.nic(DOWN)
    node.nic(UP)
    assert node.nic(DOWN) == {"LinkDown": Effect.NO_SCHEDULE, "LinkFlapping": Effect.NO_SCHEDULE}
    again = node.restarted()
    assert again.nic(UP) == {"LinkFlapping": Effect.NO_SCHEDULE}
    assert again.nic(UP, after=300) == {"LinkFlapping": Effect.NO_SCHEDULE}
    again.nic(UP, after=400)
    assert again.nic(UP, after=61) == {}


def test_a_flap_between_two_readings_is_counted_by_the_card() -> None:
    node = Node()
    assert node.nic(UP, link_downed=7) == {}
    assert node.nic(UP, link_downed=10) == {"LinkFlapping": Effect.NO_SCHEDULE}


def test_a_bad_cable_is_told_and_keeps_nobody_away() -> None:
    node = Node()
    node.nic(UP, symbol_error=1000)
    assert node.nic(UP, symbol_error=1010) == {}
    assert node.nic(UP, symbol_error=1011) == {"LinkErrors": Effect.NONE}
    (fault,) = node.engine.health([NIC.name]).faults
    assert "symbol_error of port 1" in fault.message
    for _ in range(29):
        assert node.nic(UP, symbol_error=1011) == {"LinkErrors": Effect.NONE}
    node.nic(UP, symbol_error=1011, after=60)
    assert node.nic(UP, symbol_error=1011, after=61) == {}


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([{"symbol_error": n} for n in range(0, 300, 3)], id="slow"),
        pytest.param([{"symbol_error": 60000}, {"symbol_error": 0}, {"symbol_error": 5}], id="set-to-zero"),
        pytest.param([{}, {"symbol_error": 60000}], id="not-told-before"),
        pytest.param([{"out_of_sequence": 0}, {"out_of_sequence": 9**9}], id="congestion"),
    ],
)
def test_other_counts_are_no_fault(counts: Sequence[Mapping[str, int]]) -> None:
    node = Node()
    assert [node.nic(UP, after=100, **count) for count in counts] == [{}] * len(counts)


def test_what_is_not_new_is_not_worth_a_write() -> None:
    node = Node()
    node.gpu(RESET)
    before = node.engine.history().write_key()
    node.gpu(RESET)
    assert node.engine.history().write_key() == before
    node.xid(79)
    assert node.engine.history().write_key() != before
