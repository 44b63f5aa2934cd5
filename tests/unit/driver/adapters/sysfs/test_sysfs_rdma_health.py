"""The state and the error counters of RDMA ports, read from a written sysfs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from driver.adapters.host import HostRoot
from driver.adapters.sysfs import discovery as sysfs
from driver.adapters.sysfs.rdma_health import read_nic_health
from driver.health.readings import NicReading, PortReading
from driver.model.devices import RdmaNic
from tests.support.sysfs_tree import SysfsTree, dgx


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    return dgx(tmp_path, switches=1, pairs=2)


@pytest.fixture
def nics(tree: SysfsTree) -> tuple[RdmaNic, ...]:
    return sysfs.discover(HostRoot(tree.root), node="n").nics


def port_file(tree: SysfsTree, name: str, device: str = "mlx5_0") -> Path:
    path = (tree.root / "sys/class/infiniband" / device).resolve() / "ports/1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_state_and_error_counters_are_read(tree: SysfsTree, nics: tuple[RdmaNic, ...]) -> None:
    port_file(tree, "counters/symbol_error").write_text("7\n")
    port_file(tree, "counters/port_rcv_data").write_text("99\n")
    port_file(tree, "hw_counters/out_of_sequence").write_text("18446744073709551615\n")
    first, second = read_nic_health(HostRoot(tree.root), nics)
    counters = {"symbol_error": 7, "out_of_sequence": 2**64 - 1}
    assert first == NicReading(device=nics[0].name, ports=(PortReading(number=1, state="active", counters=counters),))
    assert second.ports == (PortReading(number=1, state="active"),)


@pytest.mark.parametrize("content", ["", "N/A (no PMA)\n", "-1\n", "9" * 70, "\x00"], ids=repr)
def test_what_is_no_count_is_left_out(tree: SysfsTree, nics: tuple[RdmaNic, ...], content: str) -> None:
    port_file(tree, "counters/symbol_error").write_text(content)
    port_file(tree, "state").write_text(content)
    assert read_nic_health(HostRoot(tree.root), nics)[0].ports == (PortReading(number=1),)


def test_a_link_that_went_down_is_seen(tree: SysfsTree, nics: tuple[RdmaNic, ...]) -> None:
    port_file(tree, "state").write_text("1: DOWN\n")
    assert [nic.ports[0].state for nic in read_nic_health(HostRoot(tree.root), nics)] == ["down", "active"]


def test_a_device_that_is_in_a_pod_tells_nothing(tree: SysfsTree, nics: tuple[RdmaNic, ...]) -> None:
    (tree.root / "sys/class/infiniband/mlx5_0").unlink()
    assert read_nic_health(HostRoot(tree.root), nics)[0] == NicReading(device=nics[0].name)


def test_another_nics_device_of_the_same_name_is_not_taken_for_it(tree: SysfsTree, nics: tuple[RdmaNic, ...]) -> None:
    renamed = replace(nics[0], rdma_device="mlx5_1")
    assert read_nic_health(HostRoot(tree.root), [renamed]) == (NicReading(device=renamed.name),)


def test_a_nic_without_a_driver_is_not_watched(tree: SysfsTree, nics: tuple[RdmaNic, ...]) -> None:
    assert read_nic_health(HostRoot(tree.root), [replace(nics[0], rdma_device=None)]) == ()
