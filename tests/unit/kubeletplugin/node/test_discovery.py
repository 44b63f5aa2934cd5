"""What of a node can be used, and what stays known when a discovery fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from driver.errors import InputError, NodeError, RootportError
from driver.model.inventory import Inventory, InventorySource
from driver.objects.written_inventory import node_inventory
from kubeletplugin.health.pod_status import DevicesHealth
from kubeletplugin.loop import ProcessOutdatedError
from kubeletplugin.node.discovery import DiscoveredNode, Discovery
from kubeletplugin.node.own_devices import HiddenDevice, hidden_device
from kubeletplugin.node.roots import Roots
from kubeletplugin.publish.conditions import ConditionReport, ConditionReports, ConditionStatus, ConditionType
from tests.support import stub_nvml
from tests.support.plugin_process import GPUS, NICS
from tests.support.stub_nvml import (
    H100_80GB,
    Machine,
    StubComputeInstance,
    StubGpuInstance,
    StubNvml,
    StubState,
    run,
    write_state,
)
from tests.support.sysfs_tree import dgx

DISCOVER = "kubeletplugin.node.discovery:discover"
MACHINE = Machine(gpus=tuple(H100_80GB.at(number, f"0000{address}") for number, address in enumerate(GPUS)))
BROKEN = Machine(fail={"nvmlInitWithFlags": "NVML_ERROR_LIB_RM_VERSION_MISMATCH"})
Discover = Callable[..., DiscoveredNode]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return dgx(tmp_path / "host", switches=2, pairs=2).root


@pytest.fixture
def discover(nvml_stub: StubNvml, host: Path) -> Discover:
    def discover_host(machine: Machine = MACHINE) -> DiscoveredNode:
        found = nvml_stub.call(machine, DISCOVER, Roots.of(host, ""), node="n")
        assert isinstance(found, DiscoveredNode)
        return found

    return discover_host


def discover_without_library(host: Path, hidden: Path) -> DiscoveredNode:
    """As in a container that does not see NVIDIA's library, whatever this machine has."""
    hidden.mkdir()
    (hidden / "libnvidia-ml.so.1").write_bytes(b"no library")
    found = run({**os.environ, "LD_LIBRARY_PATH": str(hidden)}, DISCOVER, Roots.of(host, ""), node="n")
    assert isinstance(found, DiscoveredNode)
    return found


def make_nodes(host: Path, *names: str) -> None:
    for name in names:
        path = host / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def usable(inventory: Inventory) -> list[str]:
    return [device.address for device in inventory.devices() if device.device_nodes_known]


@pytest.mark.needs_cc
def test_a_whole_node_is_seen(discover: Discover) -> None:
    found = discover()
    assert usable(found.inventory) == [*GPUS, *NICS]
    assert (found.unseen, found.unusable) == (None, ())
    assert found.inventory.gpus[0].mig is not None


OWN = StubGpuInstance(1, 14, 2, 2, compute=(StubComputeInstance(0, 1, 0, 2),))
HALF_MADE = StubGpuInstance(1, 14, 2, 2)
STATIC = StubGpuInstance(2, 9, 4, 4, compute=(StubComputeInstance(0, 2, 0, 3),))
HALF_STATIC = StubGpuInstance(2, 9, 4, 4)
LEFT_OUT = (
    "NVML GPU 0: the GPU instance 3g.40gb at memory slice 4 is left out: it has no compute instance that has all of it"
)
CUT_UP = (
    "gpu-0000-13-00-0 cannot be used, since it has GPU instances that Rootport did not make and cannot give to "
    "anybody: `nvidia-smi mig -lgi` lists them"
)


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    ("there", "static", "notes"),
    [
        pytest.param((OWN,), [], (), id="own"),
        pytest.param((HALF_MADE,), [], (), id="half-made"),
        pytest.param((OWN, STATIC), [9], (), id="beside-an-administrators"),
        pytest.param(
            (OWN, HALF_STATIC),
            [],
            (LEFT_OUT, CUT_UP),
            id="beside-an-unusable-one",
        ),
        pytest.param((HALF_STATIC,), [], (LEFT_OUT, CUT_UP), id="an-unusable-one-alone"),
        pytest.param(
            (replace(STATIC, compute=(StubComputeInstance(0, 0, 0, 1), StubComputeInstance(1, 0, 1, 1))),),
            [],
            (LEFT_OUT, CUT_UP),
            id="one-that-is-cut-up",
        ),
    ],
)
def test_mig_devices_that_rootport_makes_are_no_part_of_the_static_layout(
    host: Path, nvml_stub: StubNvml, there: tuple[StubGpuInstance, ...], static: list[int], notes: tuple[str, ...]
) -> None:
    machine = replace(
        MACHINE, state=str(host / "nvml-state"), capabilities=str(host / "proc/driver/nvidia/capabilities")
    )
    write_state(host / "nvml-state", 0, StubState(mig=(1, 1), instances=there))
    own = partial(frozenset, [("gpu-0000-13-00-0", 14, 2), ("gpu-0000-23-00-0", 9, 4)])
    found = nvml_stub.call(machine, DISCOVER, Roots.of(host, ""), node="n", own_partitions=own).inventory
    assert [part.profile_id for part in found.gpus[0].mig.instances] == static
    assert found.notes == notes
    assert found.gpus[0].device_nodes_known == (CUT_UP not in notes)


@pytest.mark.needs_cc
@pytest.mark.parametrize(("of", "usable"), [("gpu-0000-13-00-0", True), ("gpu-0000-23-00-0", False)])
def test_a_gpu_whose_instances_are_not_told_is_only_given_where_all_are_rootports(
    host: Path, nvml_stub: StubNvml, of: str, *, usable: bool
) -> None:
    first = replace(MACHINE.gpus[0], fail={"nvmlDeviceGetGpuInstances": "NVML_ERROR_UNKNOWN"})
    machine = replace(MACHINE, gpus=(first, *MACHINE.gpus[1:]), state=str(host / "nvml-state"))
    write_state(host / "nvml-state", 0, StubState(mig=(1, 1), instances=(STATIC,)))
    own = partial(frozenset, [(of, 14, 2)])
    found = nvml_stub.call(machine, DISCOVER, Roots.of(host, ""), node="n", own_partitions=own).inventory
    assert found.gpus[0].device_nodes_known == usable
    assert (CUT_UP in found.notes) != usable


def test_without_nvml_the_nics_are_seen_and_the_gpus_are_not_offered(host: Path, tmp_path: Path) -> None:
    found = discover_without_library(host, tmp_path / "lib")
    assert usable(found.inventory) == [*NICS]
    assert found.unseen is not None
    assert "2 NVIDIA GPUs cannot be looked at: libnvidia-ml.so.1 not found" in str(found.unseen)
    assert "install NVIDIA's driver" in str(found.unseen)


@pytest.mark.needs_cc
def test_with_a_broken_driver_the_nics_are_seen_as_well(discover: Discover) -> None:
    found = discover(BROKEN)
    assert usable(found.inventory) == [*NICS]
    assert "reboot the node" in str(found.unseen)


@pytest.mark.needs_cc
def test_without_nvidia_gpus_nvml_is_not_missed(tmp_path: Path, host: Path, discover: Discover) -> None:
    for address in GPUS:
        (host / f"sys/bus/pci/devices/{address}/vendor").write_text("0x1234\n")
    assert discover_without_library(host, tmp_path / "lib").unseen is None


@pytest.mark.needs_cc
def test_a_device_whose_node_is_missing_is_shown_and_cannot_be_used(discover: Discover, host: Path) -> None:
    make_nodes(host, "nvidia1", "infiniband/uverbs0")
    found = discover()
    assert [device.address for device in found.inventory.devices()] == [*GPUS, *NICS]
    assert usable(found.inventory) == [GPUS[1], NICS[0]]
    assert found.unusable == (
        "gpu-0000-13-00-0 cannot be used, since /dev/nvidia0 is missing on the node",
        "rdma-0000-24-00-0 cannot be used, since /dev/infiniband/uverbs1 is missing on the node",
    )
    assert set(found.unusable) <= set(found.inventory.notes)


def install_nvml(host: Path, version: str) -> None:
    libraries = host / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    source = Path(stub_nvml.__file__).with_name("nvml_stub.c")
    library = libraries / f"libnvidia-ml.so.{version}"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, source], check=True)
    (libraries / "libnvidia-ml.so.1").symlink_to(library.name)
    (libraries / f"libcuda.so.{version}").touch()


@pytest.mark.needs_cc
def test_nvml_is_loaded_from_the_host_where_the_container_has_none(host: Path, nvml_stub: StubNvml) -> None:
    install_nvml(host, "580.95.05")
    described = nvml_stub.environment(MACHINE)["ROOTPORT_STUB_NVML"]
    environment = {**os.environ, "ROOTPORT_STUB_NVML": described}
    found = run(environment, DISCOVER, Roots.of(host, ""), node="n")
    assert (found.unseen, usable(found.inventory)) == (None, [*GPUS, *NICS])


@pytest.mark.needs_cc
def test_an_exchanged_driver_needs_a_new_process(host: Path, nvml_stub: StubNvml) -> None:
    install_nvml(host, "580.95.05")
    described = nvml_stub.environment(BROKEN)["ROOTPORT_STUB_NVML"]
    environment = {**os.environ, "ROOTPORT_STUB_NVML": described, "PYTHONPATH": os.pathsep.join(sys.path)}
    before, after = run(
        environment, "tests.support.plugin_process:discover_before_and_after_a_driver_update", Roots.of(host, "")
    )
    assert (before.outdated, "reboot the node" in str(before.unseen)) == (False, True)
    assert (after.outdated, "another driver runs" in str(after.unseen)) == (True, True)


def discover_in_container(host: Path, own: Path, environment: dict[str, str]) -> DiscoveredNode:
    found = run(environment, DISCOVER, Roots.of(host, ""), node="n", own=own)
    assert isinstance(found, DiscoveredNode)
    return found


@pytest.mark.needs_cc
def test_device_nodes_that_the_container_lacks_are_told(host: Path, tmp_path: Path, nvml_stub: StubNvml) -> None:
    make_nodes(host, "nvidiactl", "nvidia0", "nvidia1")
    lacking = discover_in_container(host, tmp_path, nvml_stub.environment(BROKEN))
    assert "the plugin's container has not" in str(lacking.unseen)
    assert lacking.outdated
    assert not discover_in_container(host, host, nvml_stub.environment(BROKEN)).outdated
    # What works needs no new container, whatever its dev lacks.
    assert discover_in_container(host, tmp_path, nvml_stub.environment(MACHINE)).unseen is None


@pytest.mark.parametrize(
    ("started_s_later", "newer"),
    [pytest.param(-60, True, id="newer"), pytest.param(2, True, id="while-the-container-starts"), (4, False)],
)
def test_only_a_node_made_after_the_container_would_be_in_a_new_one(
    host: Path, tmp_path: Path, started_s_later: float, newer: bool
) -> None:
    make_nodes(host, "nvidia-uvm", "nvidiactl")
    made = (host / "dev/nvidiactl").lstat().st_ctime
    found = hidden_device(host, tmp_path, started=lambda: made + started_s_later)
    assert found == HiddenDevice("/dev/nvidiactl", newer_than_process=newer)


def test_a_node_that_the_process_has_as_well_is_not_hidden(host: Path, tmp_path: Path) -> None:
    assert hidden_device(host, tmp_path) is None
    make_nodes(host, "nvidia-uvm", "nvidiactl")
    assert hidden_device(host, host) is None
    assert hidden_device(host, tmp_path) == HiddenDevice("/dev/nvidiactl", newer_than_process=True)


class Results:
    """Gives one result, or error, after the other."""

    def __init__(self, *results: DiscoveredNode | RootportError) -> None:
        self._results = list(results)

    def __call__(self) -> DiscoveredNode:
        result = self._results.pop(0)
        if isinstance(result, RootportError):
            raise result
        return result


@pytest.fixture
def whole(discover: Discover) -> DiscoveredNode:
    return discover()


UNSEEN = NodeError("2 NVIDIA GPUs cannot be looked at: no library")


def discovery(*results: DiscoveredNode | RootportError) -> tuple[Discovery, list[ConditionReport], list[None]]:
    changes: list[None] = []
    reports = ConditionReports(lambda: None)
    reports.settle()
    found = Discovery(Results(*results), reports=reports, on_change=lambda: changes.append(None))
    told: list[ConditionReport] = []

    for _ in results:
        with suppress(RootportError):
            found.run()
        told.append(reports.latest()[1])
    return found, told, changes


def test_before_the_first_look_nothing_can_be_prepared() -> None:
    with pytest.raises(NodeError, match="not known yet"):
        Discovery(Results(), reports=ConditionReports(lambda: None), on_change=lambda: None).inventory()


def test_the_inventory_is_there_as_a_spec_to_publish() -> None:
    inventory = Inventory(node="n", source=InventorySource.LIVE)
    found, _, _ = discovery(DiscoveredNode(inventory=inventory))
    assert found.spec() == node_inventory(inventory)["spec"]


def test_devices_that_no_node_inventory_can_hold_are_a_failed_discovery() -> None:
    good = DiscoveredNode(inventory=Inventory(node="n", source=InventorySource.LIVE))
    found, told, _ = discovery(good, DiscoveredNode(inventory=replace(good.inventory, node="Not A Name")))
    assert (told[1].status, told[1].reason) == (ConditionStatus.FALSE, "DiscoveryFailed")
    assert (found.latest(), found.spec(), found.certain()) == (
        good.inventory,
        node_inventory(good.inventory)["spec"],
        False,
    )


def test_why_nothing_is_known_is_told() -> None:
    found, told, _ = discovery(InputError("no sysfs there"))
    assert (told[0].status, told[0].reason, told[0].message) == (
        ConditionStatus.FALSE,
        "DiscoveryFailed",
        "no sysfs there",
    )
    with pytest.raises(NodeError, match="not known yet: no sysfs there"):
        found.inventory()


@pytest.mark.needs_cc
def test_a_look_that_fails_loses_no_device(whole: DiscoveredNode) -> None:
    found, told, _ = discovery(whole, NodeError("sysfs cannot be listed"))
    assert [item.status for item in told] == [ConditionStatus.TRUE, ConditionStatus.FALSE]
    assert found.inventory() == whole.inventory
    assert not found.certain()


@pytest.mark.needs_cc
def test_gpus_that_cannot_be_looked_at_any_more_stay_as_they_were(whole: DiscoveredNode) -> None:
    without = DiscoveredNode(inventory=replace(whole.inventory, gpus=()), unseen=UNSEEN)
    found, told, changes = discovery(whole, without, whole)
    assert [item.reason for item in told] == ["Discovered", "GpusNotSeen", "Discovered"]
    assert "what was known of them before is kept" in told[1].message
    assert found.inventory() == whole.inventory
    assert found.certain()
    assert len(changes) == 3


@pytest.mark.needs_cc
def test_gpus_that_were_never_seen_are_not_published(whole: DiscoveredNode) -> None:
    without = DiscoveredNode(inventory=replace(whole.inventory, gpus=()), unseen=UNSEEN)
    found, told, _ = discovery(without)
    assert found.inventory().gpus == ()
    assert (told[0].reason, "they are not published" in told[0].message) == ("GpusNotSeen", True)


@pytest.mark.needs_cc
def test_a_device_that_is_seen_to_be_gone_is_gone(whole: DiscoveredNode) -> None:
    fewer = DiscoveredNode(inventory=replace(whole.inventory, gpus=whole.inventory.gpus[:1]))
    found, _, changes = discovery(whole, fewer, fewer)
    assert len(found.inventory().gpus) == 1
    assert len(changes) == 2, "the third run saw nothing new"


OUTDATED = DiscoveredNode(inventory=Inventory(node="n", source=InventorySource.LIVE), unseen=UNSEEN, outdated=True)


def test_an_outdated_process_tells_it_before_it_ends() -> None:
    reports = ConditionReports(lambda: None)
    reports.settle()
    found = Discovery(Results(*[OUTDATED] * 2), reports=reports, on_change=lambda: None, reported_for_s=0)
    with pytest.raises(NodeError, match="no library"):
        found.run()
    assert reports.latest()[1].reason == "ContainerOutdated"
    with pytest.raises(ProcessOutdatedError, match="no library"):
        found.run()


def test_an_outdated_process_that_has_not_been_told_for_long_goes_on() -> None:
    found, told, _ = discovery(*[OUTDATED] * 3)
    assert [item.reason for item in told] == ["ContainerOutdated"] * 3
    assert found.inventory().gpus == ()


@pytest.mark.needs_cc
def test_a_look_that_hangs_is_told_until_it_ends(whole: DiscoveredNode) -> None:
    told = threading.Event()
    may_end = threading.Event()
    reports = ConditionReports(lambda: told.set() if reports.latest()[1].reason == "LookHangs" else None)
    reports.settle(
        ConditionReport(type=ConditionType.DISCOVERED, status=ConditionStatus.TRUE, reason="Discovered", message="")
    )
    health = DevicesHealth("n")

    def discover_again() -> DiscoveredNode:
        assert may_end.wait(10)
        return whole

    found = Discovery(
        discover_again,
        reports=reports,
        on_change=lambda: health.update(found.latest(), certain=found.certain()),
        late_s=0.01,
    )
    thread = threading.Thread(target=found.run)
    thread.start()
    assert told.wait(10)
    assert reports.latest()[1].status is ConditionStatus.FALSE
    may_end.set()
    thread.join(10)
    assert reports.latest()[1].reason == "Discovered"
    assert found.certain()
    assert all(item.healthy for item in health.current())


@pytest.mark.needs_cc
def test_only_nvidias_nodes_are_sought_in_the_drivers_container(host: Path, nvml_stub: StubNvml) -> None:
    make_nodes(host, "infiniband/uverbs0", "infiniband/uverbs1")
    make_nodes(host / "run/nvidia/driver", "nvidiactl", "nvidia0", "nvidia1")
    found = nvml_stub.call(MACHINE, DISCOVER, Roots.of(host, "/run/nvidia/driver"), node="n")
    assert usable(found.inventory) == [*GPUS, *NICS]


@pytest.mark.needs_cc
def test_before_the_drivers_container_is_there_the_nics_can_be_used(host: Path, nvml_stub: StubNvml) -> None:
    make_nodes(host, "infiniband/uverbs0", "infiniband/uverbs1")
    found = nvml_stub.call(BROKEN, DISCOVER, Roots.of(host, "/run/nvidia/driver"), node="n")
    assert usable(found.inventory) == [*NICS]


@pytest.mark.parametrize(
    ("host_root", "device_root", "host", "devices"),
    [
        pytest.param("", "", "", "", id="one-root"),
        pytest.param("host", "", "host", "host", id="host-in-a-folder"),
        pytest.param("host", "/run/nvidia/driver", "host", "host", id="driver-container"),
        pytest.param("host/run/nvidia/driver", "/run/nvidia/driver", "host", "host/run/nvidia/driver", id="all-below"),
    ],
)
def test_the_roots(tmp_path: Path, host_root: str, device_root: str, host: str, devices: str) -> None:
    (tmp_path / "host/run/nvidia/driver").mkdir(parents=True)
    roots = Roots.of(tmp_path / host_root, device_root)
    assert roots.hardware.path == tmp_path / host_root
    assert roots.host.path == tmp_path / host
    assert roots.devices().path == tmp_path / devices


def test_a_machine_in_a_folder_of_this_host_is_told_by_one_path(tmp_path: Path) -> None:
    roots = Roots.of(tmp_path, str(tmp_path))
    assert (roots.host.path, roots.devices().path) == (Path("/"), tmp_path)
