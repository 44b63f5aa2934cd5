"""What Prometheus scrapes of a plugin: devices idle and busy, shares and their containers, readings, operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from driver.errors import NodeError
from driver.health.readings import GpuReading, NicReading, PortReading, Slowdown
from driver.model.devices import DeviceName, DeviceType, Fpga, Gpu, MigPlacement, MigSupport, RdmaNic, device_name
from driver.model.health import Effect, Fault, NodeHealth
from driver.model.inventory import Inventory, InventorySource
from driver.model.parts import MigPartition, gpu_parts
from driver.model.pci import PciAddress, PciePath
from driver.plan import GpuUse, Isolation, NicUse, PreparedDevice
from driver.status.metric_family import Family
from kubeletplugin.claims.timed import OperationCounts, TimedClaims
from kubeletplugin.metrics import NodeMetrics, NodeSnapshot, node_families, shares_of
from kubeletplugin.metrics.pod_resources import PodContainer
from kubeletplugin.state.entry import Entry
from tests.support.exported_metrics import EXPORTED
from tests.support.mig_machines import H100

GIB = 1 << 30
PATH = PciePath(root="pci0000:10", switches=(PciAddress("0000:11:00.0"),), numa_node=1)
GPU = Gpu(
    address=PciAddress("0000:13:00.0"),
    pcie=PATH,
    index=0,
    minor=0,
    uuid="GPU-1",
    model='NVIDIA "H100"\\80GB',
    memory_bytes=80 * GIB,
    cuda_compute_capability="9.0",
    mig=MigSupport(enabled=False, profiles=H100),
)
IDLE = replace(GPU, address=PciAddress("0000:23:00.0"), index=1, uuid="GPU-2", pcie=PciePath())
NIC = RdmaNic(address=PciAddress("0000:14:00.0"), pcie=PATH, index=0, model="ConnectX-7")
CARD = Fpga(address=PciAddress("0000:15:00.0"), pcie=PATH, index=0, device_paths=("/dev/dfl-port.0",))
NODE = Inventory(node="n1", source=InventorySource.LIVE, gpus=(GPU, IDLE), nics=(NIC,), fpgas=(CARD,))
OPERATIONS = TimedClaims(None).so_far()  # type: ignore[arg-type] # nobody calls it
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def gpu_use(**changes: Any) -> GpuUse:
    facts: dict[str, Any] = {
        "gpu": GPU.name,
        "mode": DeviceType.GPU,
        "whole": False,
        "sharing": "hamiCore",
        "core": 30,
        "memory_bytes": 20 * GIB,
        "placement": None,
        "gpu_memory_bytes": 80 * GIB,
    }
    return GpuUse(**(facts | changes))


def device(name: str, **changes: Any) -> PreparedDevice:
    facts: dict[str, Any] = {
        "request_names": ("gpu",),
        "pool": "n1",
        "device": name,
        "cdi_device_ids": (),
        "share_id": None,
        "admin_access": False,
        "use": None,
        "isolation": None,
        "mig_uuid": None,
        "nic_use": None,
        "distances": (),
    }
    return PreparedDevice(**(facts | changes))


def entry(name: str, *devices: PreparedDevice) -> Entry:
    return Entry(
        uid=f"uid-{name}",
        namespace="ml",
        name=name,
        state="prepared",
        boot_id="b",
        devices=devices,
        effects=(),
        cdi_spec="",
        files=(),
    )


def isolation(*, enforced: bool) -> Isolation:
    return Isolation(enforced=enforced, by="HAMi-core", version="2.6", message="")


def snapshot(*entries: Entry, inventory: Inventory | None = NODE, **facts: Any) -> NodeSnapshot:
    return NodeSnapshot(
        node="n1",
        version="1.2.3",
        inventory=inventory,
        operations=facts.pop("operations", OPERATIONS),
        shares=shares_of(entries, inventory),
        prepared_claims=len(entries),
        **facts,
    )


Scrape = Callable[[Iterable[Family]], Any]


def test_a_device_is_told_by_all_that_finds_it(scrape: Scrape) -> None:
    page = scrape(node_families(snapshot()))
    told = {labels["device"]: labels for labels, value in page.of("rootport_device_info") if value == 1}
    assert list(told) == [GPU.name, IDLE.name, NIC.name, CARD.name]
    assert told[GPU.name] == {
        "node": "n1",
        "device": "gpu-0000-13-00-0",
        "type": "gpu",
        "index": "0",
        "model": 'NVIDIA "H100"\\80GB',
        "uuid": "GPU-1",
        "pci_bus_id": "0000:13:00.0",
        "numa_node": "1",
        "pcie_switch": "0000:11:00.0",
    }
    assert (told[IDLE.name]["numa_node"], told[IDLE.name]["pcie_switch"], told[NIC.name]["uuid"]) == ("", "", "")
    assert {name: labels["type"] for name, labels in told.items()}[CARD.name] == "fpga"


def test_every_promised_name_is_there_with_its_labels(scrape: Scrape) -> None:
    busy = entry("c", device(GPU.name, use=gpu_use()))
    page = scrape(node_families(full(busy)))
    promised = {name: labels for name, labels in EXPORTED.items() if f"# TYPE {name} " in page.text}
    assert not {name for name in page.kinds if name.startswith(("rootport_", "hw_"))} - {
        name.removesuffix("_total") for name in promised
    }
    for name, labels in promised.items():
        samples = page.of(f"{name}_count" if page.kinds[name.removesuffix("_total")] == "histogram" else name)
        assert samples, name
        assert set(samples[0][0]) == {"node", *labels}, name


def test_idle_devices_show_zero(scrape: Scrape) -> None:
    page = scrape(node_families(snapshot(entry("c", device(GPU.name, use=gpu_use())))))
    assert page.values("rootport_device_shares", "device") == {GPU.name: 1, IDLE.name: 0, NIC.name: 0, CARD.name: 0}
    assert page.values("rootport_device_core_allocated_ratio", "device") == {GPU.name: 0.3, IDLE.name: 0}
    assert page.values("rootport_device_memory_allocated_bytes", "device") == {GPU.name: 20 * GIB, IDLE.name: 0}
    assert page.values("rootport_device_memory_capacity_bytes", "device") == {GPU.name: 80 * GIB, IDLE.name: 80 * GIB}


def test_a_share_has_a_series_for_each_container_and_can_be_summed(scrape: Scrape) -> None:
    shared = entry("c", device(GPU.name, share_id="s1", use=gpu_use(), isolation=isolation(enforced=True)))
    other = entry("d", device(GPU.name, share_id="s2", use=gpu_use(core=50), isolation=isolation(enforced=False)))
    holders = (PodContainer(pod="p", container="a"), PodContainer(pod="p", container="b"))
    page = scrape(node_families(snapshot(shared, other, containers={("ml", "c"): holders})))
    series = page.of("rootport_share_core_ratio")
    assert [(labels["claim"], labels["pod"], labels["container"], value) for labels, value in series] == [
        ("c", "p", "a", 0.3),
        ("c", "p", "b", 0.3),
        ("d", "", "", 0.5),
    ]
    assert page.value("rootport_share_memory_bytes", claim="c", container="b") == 20 * GIB
    info = {labels["claim"]: labels for labels, _ in page.of("rootport_share_info")}
    assert {key: info["c"][key] for key in ("mode", "isolation", "isolated_by", "share_id", "partition")} == {
        "mode": "shared",
        "isolation": "enforced",
        "isolated_by": "HAMi-core",
        "share_id": "s1",
        "partition": "",
    }
    assert info["d"]["isolation"] == "advisory"
    assert page.value("rootport_device_core_allocated_ratio", device=GPU.name) == 0.8


def test_partitions_of_one_request_are_told_apart_and_count_by_their_compute_slices(scrape: Scrape) -> None:
    parts = [
        part
        for part in gpu_parts(GPU)
        if isinstance(part, MigPartition)
        and part.profile.name == "3g.40gb"
        and part.placement in (MigPlacement(start=0, size=4), MigPlacement(start=4, size=4))
    ]
    uses = gpu_use(mode=DeviceType.MIG, sharing="", core=None, memory_bytes=40 * GIB)
    page = scrape(node_families(snapshot(entry("c", *(device(part.name, use=uses) for part in parts)))))
    info = [labels for labels, _ in page.of("rootport_share_info")]
    assert [(labels["device"], labels["mode"]) for labels in info] == [(GPU.name, "mig")] * 2
    assert [labels["partition"] for labels in info] == [part.name for part in parts]
    assert {value for _, value in page.of("rootport_share_core_ratio")} == {3 / 7}
    assert page.value("rootport_device_core_allocated_ratio", device=GPU.name) == pytest.approx(6 / 7, abs=1e-6)
    assert page.value("rootport_device_memory_allocated_bytes", device=GPU.name) == 80 * GIB


@pytest.mark.parametrize(
    ("facts", "mode", "partition"),
    [
        pytest.param({"use": gpu_use(whole=True, core=100)}, "whole", "", id="whole GPU"),
        pytest.param({"use": gpu_use(mode=DeviceType.GPU_RATIO)}, "ratio", "", id="percent of memory"),
        pytest.param(
            {"nic_use": NicUse(nic=NIC.name, vf="rdma-vf-1", bandwidth=None, nic_bandwidth=None)},
            "vf",
            "rdma-vf-1",
            id="virtual function",
        ),
        pytest.param(
            {"nic_use": NicUse(nic=NIC.name, vf=None, bandwidth=10, nic_bandwidth=400)},
            "shared",
            "",
            id="bandwidth",
        ),
        pytest.param(
            {"nic_use": NicUse(nic=NIC.name, vf=None, bandwidth=None, nic_bandwidth=None)}, "whole", "", id="NIC"
        ),
        pytest.param({}, "whole", "", id="FPGA"),
    ],
)
def test_the_way_in_which_a_device_is_given_is_told(
    scrape: Scrape, facts: dict[str, Any], mode: str, partition: str
) -> None:
    whole = GPU.name if "use" in facts else NIC.name if "nic_use" in facts else CARD.name
    page = scrape(node_families(snapshot(entry("c", device(whole if whole == CARD.name else "part", **facts)))))
    ((labels, _),) = page.of("rootport_share_info")
    assert (labels["device"], labels["mode"], labels["partition"]) == (whole, mode, partition)
    assert page.value("rootport_device_shares", device=whole) == 1


def test_who_watches_over_a_device_has_no_share_of_it(scrape: Scrape) -> None:
    page = scrape(node_families(snapshot(entry("c", device(GPU.name, admin_access=True)))))
    assert page.of("rootport_share_info") == []
    assert page.value("rootport_device_shares", device=GPU.name) == 0
    assert page.value("rootport_prepared_claims") == 1


def fault(whole: DeviceName, reason: str, effect: Effect) -> Fault:
    return Fault(device=whole, reason=reason, effect=effect, since=NOON, message="")


def test_health_is_told_of_what_is_watched_alone(scrape: Scrape) -> None:
    gone = device_name(GPU.type, PciAddress("0000:33:00.0"))
    health = NodeHealth(
        watched=frozenset({GPU.name, IDLE.name, gone}),
        faults=(
            fault(IDLE.name, "RowRemapPending", Effect.NONE),
            fault(gone, "GpuLost", Effect.NO_EXECUTE),
            fault(gone, "Xid79", Effect.NO_EXECUTE),
        ),
    )
    page = scrape(node_families(snapshot(health=health)))
    assert page.values("rootport_device_healthy", "device") == {GPU.name: 1, IDLE.name: 1, gone: 0}
    assert [
        (labels["device"], labels["reason"], labels["effect"]) for labels, _ in page.of("rootport_device_fault")
    ] == [
        (IDLE.name, "RowRemapPending", "None"),
        (gone, "GpuLost", "NoExecute"),
        (gone, "Xid79", "NoExecute"),
    ]


READ = GpuReading(
    device=GPU.name,
    utilization=42,
    memory_used_bytes=GIB,
    temperature_celsius=61,
    power_watts=312.5,
    corrected_errors=3,
    uncorrected_errors=0,
    slowdowns=frozenset({Slowdown.THERMAL}),
)
PORTS = NicReading(
    device=NIC.name,
    ports=(
        PortReading(number=1, state="active", counters={"symbol_error": 7, "link_downed": 1}),
        PortReading(number=2, state="down"),
        PortReading(number=3),
    ),
)


def full(*entries: Entry) -> NodeSnapshot:
    health = NodeHealth(watched=frozenset({GPU.name}), faults=(fault(GPU.name, "Xid79", Effect.NO_EXECUTE),))
    return snapshot(*entries, gpus=(READ,), nics=(PORTS,), health=health, internal_errors={"reconcile": 2})


def test_readings_are_shown_in_base_units(scrape: Scrape) -> None:
    page = scrape(node_families(full()))
    assert page.value("rootport_gpu_utilization_ratio") == 0.42
    assert page.value("rootport_gpu_memory_used_bytes") == GIB
    assert page.value("rootport_gpu_temperature_celsius") == 61
    assert page.value("rootport_gpu_power_watts") == 312.5
    assert page.values("rootport_gpu_ecc_errors_total", "kind") == {"corrected": 3, "uncorrected": 0}
    assert page.values("rootport_gpu_slowdown", "reason") == {"thermal": 1, "power-brake": 0}
    assert page.values("rootport_rdma_port_up", "port") == {"1": 1, "2": 0}
    assert page.values("rootport_rdma_port_errors_total", "counter") == {"symbol_error": 7, "link_downed": 1}


def test_readings_have_the_names_of_opentelemetry_too(scrape: Scrape) -> None:
    page = scrape(node_families(full()))
    ((labels, used),) = page.of("hw_gpu_utilization_ratio")
    assert (used, labels) == (
        0.42,
        {
            "node": "n1",
            "hw_id": "GPU-1",
            "hw_name": GPU.name,
            "pci_bus_id": "0000:13:00.0",
            "hw_type": "gpu",
            "hw_vendor": "NVIDIA",
            "hw_model": 'NVIDIA "H100"\\80GB',
            "hw_driver_version": "",
            "hw_gpu_task": "general",
        },
    )
    assert page.value("hw_gpu_memory_usage_bytes") == GIB
    assert page.value("hw_gpu_memory_limit_bytes") == 80 * GIB
    assert page.value("hw_gpu_memory_utilization_ratio") == 1 / 80
    assert page.value("hw_temperature_celsius", hw_sensor_location="gpu") == 61
    assert page.value("hw_power_watts", hw_id="GPU-1") == 312.5
    assert page.value("hw_errors_total", error_type="ecc_uncorrected") == 0


@pytest.mark.parametrize(
    "reading",
    [
        pytest.param(GpuReading(device=GPU.name, lost=True), id="lost"),
        pytest.param(GpuReading(device=GPU.name, not_answering="Unknown Error"), id="not answering"),
    ],
)
def test_a_gpu_that_tells_nothing_has_no_readings(scrape: Scrape, reading: GpuReading) -> None:
    page = scrape(node_families(snapshot(gpus=(reading,))))
    assert not [name for name in EXPORTED if name.startswith(("rootport_gpu_", "hw_")) and page.of(name)]
    assert page.value("rootport_device_info", device=GPU.name) == 1


def test_nothing_is_claimed_before_the_first_look(scrape: Scrape) -> None:
    page = scrape(node_families(snapshot(inventory=None)))
    assert page.of("rootport_device_info") == []
    assert page.of("rootport_device_shares") == []
    assert page.value("rootport_plugin_info", version="1.2.3") == 1


class Health:
    def readings(self) -> tuple[tuple[GpuReading, ...], tuple[NicReading, ...]]:
        return (READ,), ()

    def health(self) -> NodeHealth:
        return NodeHealth()


def test_a_checkpoint_that_cannot_be_read_hides_shares_and_nothing_else(scrape: Scrape) -> None:
    def damaged() -> list[Entry]:
        raise NodeError("the checkpoint is damaged")

    source = NodeMetrics(
        node="n1",
        inventory=lambda: NODE,
        health=Health(),
        entries=damaged,
        containers=dict,
        operations=lambda: OperationCounts(durations={}, errors={}),
    )
    page = scrape(source.families())
    assert page.of("rootport_prepared_claims") == []
    assert page.of("rootport_device_shares") == []
    assert page.value("rootport_gpu_utilization_ratio") == 0.42
