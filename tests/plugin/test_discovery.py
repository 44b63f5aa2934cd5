"""What of a node can be used, and what stays known when a look fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import stub_nvml
from plugin.harness import GPUS, NICS
from stub_nvml import H100_80GB, Machine, StubNvml, run
from sysfs_tree import dgx

from driver.errors import InputError, NodeError, RootportError
from driver.model.inventory import Inventory
from kubeletplugin.conditions import Finding, Findings, State
from kubeletplugin.discovery import Discovery, Sighting
from kubeletplugin.roots import Roots

LOOK = "kubeletplugin.discovery:look"
MACHINE = Machine(gpus=tuple(H100_80GB.at(number, f"0000{address}") for number, address in enumerate(GPUS)))
BROKEN = Machine(fail={"nvmlInitWithFlags": "NVML_ERROR_LIB_RM_VERSION_MISMATCH"})
Look = Callable[..., Sighting]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return dgx(tmp_path / "host", switches=2, pairs=2).root


@pytest.fixture
def look(nvml_stub: StubNvml, host: Path) -> Look:
    def look_at(machine: Machine = MACHINE) -> Sighting:
        found = nvml_stub.call(machine, LOOK, Roots.of(host, ""), node="n")
        assert isinstance(found, Sighting)
        return found

    return look_at


def look_without_library(host: Path, hidden: Path) -> Sighting:
    """As in a container that does not see NVIDIA's library, whatever this machine has."""
    hidden.mkdir()
    (hidden / "libnvidia-ml.so.1").write_bytes(b"no library")
    found = run({**os.environ, "LD_LIBRARY_PATH": str(hidden)}, LOOK, Roots.of(host, ""), node="n")
    assert isinstance(found, Sighting)
    return found


def make_nodes(host: Path, *names: str) -> None:
    for name in names:
        path = host / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def usable(inventory: Inventory) -> list[str]:
    return [device.address for device in inventory.devices() if device.device_nodes_known]


@pytest.mark.needs_cc
def test_a_whole_node_is_seen(look: Look) -> None:
    found = look()
    assert usable(found.inventory) == [*GPUS, *NICS]
    assert (found.unseen, found.unusable) == (None, ())
    assert found.inventory.gpus[0].mig is not None


def test_without_nvml_the_nics_are_seen_and_the_gpus_are_not_offered(host: Path, tmp_path: Path) -> None:
    found = look_without_library(host, tmp_path / "lib")
    assert usable(found.inventory) == [*NICS]
    assert found.unseen is not None
    assert "2 NVIDIA GPUs cannot be looked at: libnvidia-ml.so.1 not found" in str(found.unseen)
    assert "install NVIDIA's driver" in str(found.unseen)


@pytest.mark.needs_cc
def test_with_a_broken_driver_the_nics_are_seen_as_well(look: Look) -> None:
    found = look(BROKEN)
    assert usable(found.inventory) == [*NICS]
    assert "reboot the node" in str(found.unseen)


@pytest.mark.needs_cc
def test_without_nvidia_gpus_nvml_is_not_missed(tmp_path: Path, host: Path, look: Look) -> None:
    for address in GPUS:
        (host / f"sys/bus/pci/devices/{address}/vendor").write_text("0x1234\n")
    assert look_without_library(host, tmp_path / "lib").unseen is None


@pytest.mark.needs_cc
def test_a_device_whose_node_is_missing_is_shown_and_cannot_be_used(look: Look, host: Path) -> None:
    make_nodes(host, "nvidia1", "infiniband/uverbs0")
    found = look()
    assert [device.address for device in found.inventory.devices()] == [*GPUS, *NICS]
    assert usable(found.inventory) == [GPUS[1], NICS[0]]
    assert found.unusable == (
        "gpu-0000-13-00-0 cannot be used, since /dev/nvidia0 is missing on the node",
        "rdma-0000-24-00-0 cannot be used, since /dev/infiniband/uverbs1 is missing on the node",
    )
    assert set(found.unusable) <= set(found.inventory.notes)


@pytest.mark.needs_cc
def test_nvml_is_loaded_from_the_host_where_the_container_has_none(
    host: Path, tmp_path: Path, nvml_stub: StubNvml
) -> None:
    libraries = host / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    source = Path(stub_nvml.__file__).with_name("nvml_stub.c")
    library = libraries / "libnvidia-ml.so.580.95.05"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, source], check=True)
    (libraries / "libnvidia-ml.so.1").symlink_to(library.name)
    (libraries / "libcuda.so.580.95.05").touch()
    described = nvml_stub.environment(MACHINE)["ROOTPORT_STUB_NVML"]
    environment = {**os.environ, "ROOTPORT_STUB_NVML": described}
    found = run(environment, LOOK, Roots.of(host, ""), node="n")
    assert (found.unseen, usable(found.inventory)) == (None, [*GPUS, *NICS])


class Looks:
    """Gives one sighting, or error, after the other."""

    def __init__(self, *results: Sighting | RootportError) -> None:
        self._results = list(results)

    def __call__(self) -> Sighting:
        result = self._results.pop(0)
        if isinstance(result, RootportError):
            raise result
        return result


@pytest.fixture
def whole(look: Look) -> Sighting:
    return look()


UNSEEN = NodeError("2 NVIDIA GPUs cannot be looked at: no library")


def discovery(*results: Sighting | RootportError) -> tuple[Discovery, list[Finding], list[None]]:
    changes: list[None] = []
    findings = Findings(lambda: None)
    findings.settle()
    found = Discovery(Looks(*results), findings=findings, on_change=lambda: changes.append(None))
    told: list[Finding] = []

    for _ in results:
        with suppress(RootportError):
            found.run()
        told.append(findings.latest()[1])
    return found, told, changes


def test_before_the_first_look_nothing_can_be_prepared() -> None:
    with pytest.raises(NodeError, match="not known yet"):
        Discovery(Looks(), findings=Findings(lambda: None), on_change=lambda: None).inventory()


def test_why_nothing_is_known_is_told() -> None:
    found, told, _ = discovery(InputError("no sysfs there"))
    assert (told[0].state, told[0].reason, told[0].message) == (State.FALSE, "DiscoveryFailed", "no sysfs there")
    with pytest.raises(NodeError, match="not known yet: no sysfs there"):
        found.inventory()


@pytest.mark.needs_cc
def test_a_look_that_fails_loses_no_device(whole: Sighting) -> None:
    found, told, _ = discovery(whole, NodeError("sysfs cannot be listed"))
    assert [item.state for item in told] == [State.TRUE, State.FALSE]
    assert found.inventory() == whole.inventory
    assert not found.certain()


@pytest.mark.needs_cc
def test_gpus_that_cannot_be_looked_at_any_more_stay_as_they_were(whole: Sighting) -> None:
    without = Sighting(inventory=replace(whole.inventory, gpus=()), unseen=UNSEEN)
    found, told, changes = discovery(whole, without, whole)
    assert [item.reason for item in told] == ["Discovered", "GpusNotSeen", "Discovered"]
    assert "what was known of them before is kept" in told[1].message
    assert found.inventory() == whole.inventory
    assert found.certain()
    assert len(changes) == 3


@pytest.mark.needs_cc
def test_gpus_that_were_never_seen_are_not_published(whole: Sighting) -> None:
    without = Sighting(inventory=replace(whole.inventory, gpus=()), unseen=UNSEEN)
    found, told, _ = discovery(without)
    assert found.inventory().gpus == ()
    assert (told[0].reason, "they are not published" in told[0].message) == ("GpusNotSeen", True)


@pytest.mark.needs_cc
def test_a_device_that_is_seen_to_be_gone_is_gone(whole: Sighting) -> None:
    fewer = Sighting(inventory=replace(whole.inventory, gpus=whole.inventory.gpus[:1]))
    found, _, changes = discovery(whole, fewer, fewer)
    assert len(found.inventory().gpus) == 1
    assert len(changes) == 2, "the third look saw nothing new"


@pytest.mark.parametrize(
    ("host_root", "device_root", "host", "devices"),
    [
        pytest.param("", "", "", "", id="one-root"),
        pytest.param("host", "", "host", "host", id="host-in-a-folder"),
        pytest.param("host", "/run/nvidia/driver", "host", "host/run/nvidia/driver", id="driver-container"),
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
