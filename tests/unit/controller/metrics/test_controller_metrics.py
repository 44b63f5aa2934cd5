"""What Prometheus scrapes of a controller: figures of nodes, pending claims, writes, passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from controller.conversion.counts import Conversions
from controller.explanations.pending_claims import PendingClaim
from controller.metrics import PASSES, ControllerSnapshot, controller_families, pending_by_reason
from controller.metrics.nodes import gpu_figures
from driver.adapters.http.durations import Durations
from driver.adapters.kubernetes.write_counts import WriteCounts
from driver.status.metric_family import Family
from driver.status.overview import DeviceOverview, NodeOverview, Usage
from tests.support.exported_metrics import EXPORTED

GIB = 1 << 30
Scrape = Callable[[Iterable[Family]], Any]


def gpu(index: int, used: int = 0, **facts: Any) -> DeviceOverview:
    """Of 80 GiB; with some of that used, the rest is free in one piece."""
    defaults: dict[str, Any] = {
        "name": f"gpu-{index}",
        "type": "gpu",
        "index": index,
        "state": "Healthy",
        "mode": "shared" if used else "",
        "core": Usage(used=used, total=100),
        "memory": Usage(used=used * GIB, total=80 * GIB),
        "free_memory": (80 - used) * GIB or None,
    }
    return DeviceOverview(**(defaults | facts))


NIC = DeviceOverview(name="rdma-0", type="rdma", index=0)


def node(*devices: DeviceOverview, **facts: Any) -> NodeOverview:
    return NodeOverview(name="n1", devices=devices, **facts)


def snapshot(*nodes: NodeOverview) -> ControllerSnapshot:
    key = ("devices.rootport.dev/status", "patch")
    durations = Durations(PASSES)
    durations.add("slices", 0.02)
    durations.add("slices", 700)
    return ControllerSnapshot(
        version="1.2.3",
        leads=True,
        nodes=nodes,
        pending={"NotEnoughMemory": 2},
        put_off=3,
        writes=WriteCounts(sent={key: 3}, failed={key: 1}),
        skipped={("pods", "TooLarge"): 4},
        conversions=Conversions(pods={"converted": 5, "refused": 1}, claims={"converted": 3}, created=2, collected=1),
        passes=durations.so_far(),
    )


def test_devices_are_counted_by_type_and_state(scrape: Scrape) -> None:
    page = scrape(controller_families(snapshot(node(gpu(0), gpu(1), gpu(2, state="Unhealthy"), NIC))))
    told = {(labels["type"], labels["state"]): value for labels, value in page.of("rootport_node_devices")}
    assert told == {("gpu", "Healthy"): 2, ("gpu", "Unhealthy"): 1, ("rdma", "Unknown"): 1}


@pytest.mark.parametrize(
    ("nodes", "free"),
    [
        pytest.param(node(gpu(0), gpu(1, used=20)), 1, id="one is used"),
        pytest.param(node(gpu(0, state="Unhealthy"), gpu(1)), 1, id="one is unhealthy"),
        pytest.param(node(gpu(0, state="Unknown"), gpu(1)), 2, id="one is watched by nobody"),
        pytest.param(node(gpu(0, offered=False), gpu(1)), 1, id="one is not on offer"),
        pytest.param(node(gpu(0), gpu(1), state="Silent"), 0, id="the node is silent"),
        pytest.param(node(gpu(0), gpu(1), state="NotReady"), 2, id="the node is not ready"),
        pytest.param(
            node(gpu(0), gpu(1), state="NotReady", cannot_prepare=True), 0, id="the node can prepare no claim"
        ),
    ],
)
def test_a_gpu_is_free_when_it_can_be_given_whole(nodes: NodeOverview, free: int) -> None:
    figures = gpu_figures(nodes)
    assert figures is not None
    assert figures.free == free


@pytest.mark.parametrize(
    ("nodes", "largest", "fragmentation"),
    [
        pytest.param(node(gpu(0)), 80, 0.0, id="one piece"),
        pytest.param(node(gpu(0), gpu(1)), 80, 0.5, id="two GPUs"),
        pytest.param(node(gpu(0, used=60), gpu(1, used=70)), 20, 1 / 3, id="two rests"),
        pytest.param(node(gpu(0, used=80)), 0, 0.0, id="nothing is free"),
        pytest.param(node(gpu(0, used=40, free_memory=10 * GIB)), 10, 0.75, id="a partition in between"),
        pytest.param(node(gpu(0), gpu(1, used=60, state="Unhealthy")), 80, 0.0, id="what is unhealthy is not free"),
    ],
)
def test_fragmentation_is_what_the_largest_piece_has_not(
    nodes: NodeOverview, largest: int, fragmentation: float
) -> None:
    figures = gpu_figures(nodes)
    assert figures is not None
    assert figures.memory_largest_free == largest * GIB
    assert figures.fragmentation == pytest.approx(fragmentation)


def test_a_node_without_gpus_has_no_figures_of_gpus(scrape: Scrape) -> None:
    page = scrape(controller_families(snapshot(node(NIC))))
    assert page.of("rootport_node_gpus_free") == []
    assert page.value("rootport_node_devices", type="rdma") == 1


def test_sums_are_of_all_gpus_healthy_or_not(scrape: Scrape) -> None:
    page = scrape(controller_families(snapshot(node(gpu(0, used=60), gpu(1, state="Unhealthy"), NIC))))
    assert page.value("rootport_node_gpu_memory_capacity_bytes", node="n1") == 160 * GIB
    assert page.value("rootport_node_gpu_memory_allocated_bytes", node="n1") == 60 * GIB
    assert page.value("rootport_node_gpu_core_allocated_ratio", node="n1") == 0.3


def test_writes_claims_passes_and_what_is_skipped_are_counted(scrape: Scrape) -> None:
    page = scrape(controller_families(snapshot()))
    assert page.value("rootport_api_writes_total", resource="devices.rootport.dev/status", verb="patch") == 3
    assert page.value("rootport_api_write_errors_total", verb="patch") == 1
    assert page.value("rootport_api_objects_skipped_total", resource="pods", reason="TooLarge") == 4
    assert page.value("rootport_pod_conversions_total", outcome="converted") == 5
    assert page.value("rootport_claim_conversions_total", outcome="converted") == 3
    assert page.value("rootport_converted_templates_created_total") == 2
    assert page.value("rootport_converted_templates_collected_total") == 1
    assert page.value("rootport_pending_claims", reason="NotEnoughMemory") == 2
    assert page.value("rootport_explanations_put_off") == 3
    assert page.value("rootport_pass_duration_seconds_count", **{"pass": "slices"}) == 2
    assert page.value("rootport_pass_duration_seconds_bucket", **{"pass": "slices", "le": "0.025"}) == 1
    assert page.value("rootport_pass_duration_seconds_bucket", **{"pass": "slices", "le": "60.0"}) == 1
    assert page.value("rootport_pass_duration_seconds_count", **{"pass": "explain"}) == 0


def test_devices_of_a_rival_are_counted_by_whether_claims_have_them_and_are_not_free(scrape: Scrape) -> None:
    rivalled = [gpu(0, has_rival=True), gpu(1, used=20, has_rival=True, holders=1), gpu(2)]
    page = scrape(controller_families(snapshot(node(*rivalled))))
    told = {labels["held"]: value for labels, value in page.of("rootport_node_rival_devices")}
    assert told == {"false": 1, "true": 1}
    assert page.value("rootport_node_gpus_free", node="n1") == 1


def test_unexplained_claims_count_by_whether_a_pod_waits() -> None:
    claims = [
        PendingClaim(namespace="ml", name="a", reason="DevicesInUse", pods=("p",)),
        PendingClaim(namespace="ml", name="b", reason="DevicesInUse"),
        PendingClaim(namespace="ml", name="c", pods=("p",)),
        PendingClaim(namespace="ml", name="d"),
    ]
    assert pending_by_reason(claims) == {"DevicesInUse": 2, "NotExplained": 1, "WaitingForPod": 1}


@pytest.mark.parametrize("leads", [True, False])
def test_the_leader_is_exported(scrape: Scrape, leads: bool) -> None:
    page = scrape(controller_families(replace(snapshot(), leads=leads)))
    assert page.value("rootport_leader") == (1 if leads else 0)
    assert page.value("rootport_controller_info", version="1.2.3") == 1


def test_every_promised_name_is_there_with_its_labels(scrape: Scrape) -> None:
    page = scrape(controller_families(snapshot(node(gpu(0), NIC, gpu(1, has_rival=True)))))
    promised = {name: labels for name, labels in EXPORTED.items() if f"# TYPE {name} " in page.text}
    assert not {name for name in page.kinds if name.startswith("rootport_")} - {
        name.removesuffix("_total") for name in promised
    }
    for name, labels in promised.items():
        samples = page.of(f"{name}_count" if page.kinds[name.removesuffix("_total")] == "histogram" else name)
        assert samples, name
        assert set(samples[0][0]) == set(labels), name
